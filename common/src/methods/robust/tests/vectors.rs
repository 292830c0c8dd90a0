//! Fits, consolidations and streams as another implementation has them (`tests/vectors/make/robust.py`).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::super::threshold::Rule;
use super::*;

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap()
}

fn near(found: impl IntoIterator<Item = f64>, expected: &[f64], what: &str) {
    let found: Vec<f64> = found.into_iter().collect();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= 1e-9 * e.abs().max(1.0), "{what}: {f} should be {e}");
    }
}

#[derive(Deserialize)]
struct BatchFile {
    cases: Vec<BatchCase>,
}

#[derive(Deserialize)]
struct BatchCase {
    name: String,
    start: Start,
    rule: Rule,
    intercept: bool,
    x: Vec<Vec<f64>>,
    y: Vec<f64>,
    coefficients: Vec<f64>,
    kept: Vec<usize>,
    gram: Vec<Vec<f64>>,
    scale: f64,
    variance: f64,
}

#[test]
fn batch_fits_agree_with_a_second_implementation() {
    let file: BatchFile = read(include_str!("../../../../../tests/vectors/robust/batch.json"));
    assert_eq!(file.cases.len(), 7);
    for case in file.cases {
        let x = DMatrix::from_row_iterator(case.x.len(), case.x[0].len(), case.x.concat());
        let y = DVector::from_vec(case.y);
        let settings =
            FitSettings { start: case.start, intercept: case.intercept, rule: case.rule, ..Default::default() };
        let fit = fit(&x, &y, &settings).unwrap();
        assert_eq!(fit.kept, case.kept, "{}", case.name);
        near(fit.coefficients.iter().copied(), &case.coefficients, &case.name);
        near([fit.scale, fit.variance], &[case.scale, case.variance], &case.name);
        near(fit.gram.transpose().iter().copied(), &case.gram.concat(), &case.name);
    }
}

#[derive(Deserialize)]
struct ConsolidationFile {
    cases: Vec<ConsolidationCase>,
}

#[derive(Deserialize)]
struct ConsolidationCase {
    name: String,
    estimates: Vec<Given>,
    pivot: PivotExpected,
    refine: RefineExpected,
    geomed: Vec<f64>,
    filter: Vec<f64>,
    trimmed: Vec<f64>,
    cmedian: Vec<f64>,
    mean: Vec<f64>,
}

#[derive(Deserialize)]
struct Given {
    worker: String,
    batch: u64,
    coefficients: Vec<f64>,
    gram: Vec<f64>,
    kept: u64,
    scale: f64,
}

#[derive(Deserialize)]
struct PivotExpected {
    coefficients: Vec<f64>,
    pivot: usize,
    radius: f64,
    trusted: Vec<usize>,
}

#[derive(Deserialize)]
struct RefineExpected {
    coefficients: Vec<f64>,
    trusted: Vec<usize>,
    covariance: Vec<Vec<f64>>,
    overdispersion: f64,
    radius: f64,
}

fn trusted(found: &Consensus) -> Vec<usize> {
    (0..found.members.len()).filter(|&i| found.members[i].trusted).collect()
}

#[test]
fn consolidations_agree_with_a_second_implementation() {
    let file: ConsolidationFile = read(include_str!("../../../../../tests/vectors/robust/consolidation.json"));
    assert_eq!(file.cases.len(), 3);
    for case in file.cases {
        let estimates: Vec<Estimate> = case
            .estimates
            .into_iter()
            .map(|g| Estimate {
                worker: g.worker,
                batch: g.batch,
                coefficients: g.coefficients,
                gram: Some(Gram::from_packed(g.gram)),
                nobs: g.kept,
                kept: g.kept,
                scale: g.scale,
                cleaned: true,
            })
            .collect();
        let set = set_of(&estimates);
        let of = |method: Method| consolidate(&set, &method.into()).unwrap();
        let pivot = of(Method::Pivot);
        near(pivot.coefficients.iter().copied(), &case.pivot.coefficients, &case.name);
        near([pivot.radius], &[case.pivot.radius], &case.name);
        assert_eq!((pivot.pivot, trusted(&pivot)), (case.pivot.pivot, case.pivot.trusted), "{}", case.name);
        let refine = of(Method::Refine);
        near(refine.coefficients.iter().copied(), &case.refine.coefficients, &case.name);
        near([refine.radius], &[case.refine.radius], &case.name);
        assert_eq!(trusted(&refine), case.refine.trusted, "{}", case.name);
        near(refine.covariance.unwrap().iter().map(|v| v * 1e4), &scaled(&case.refine.covariance), &case.name);
        near(refine.overdispersion, &[case.refine.overdispersion], &case.name);
        for (name, expected) in [
            ("geomed", case.geomed),
            ("filter", case.filter),
            ("trimmed", case.trimmed),
            ("cmedian", case.cmedian),
            ("mean", case.mean),
        ] {
            near(of(name.parse().unwrap()).coefficients.iter().copied(), &expected, &format!("{} {name}", case.name));
        }
    }
}

fn scaled(covariance: &[Vec<f64>]) -> Vec<f64> {
    covariance.concat().iter().map(|v| v * 1e4).collect()
}

#[derive(Deserialize)]
struct StreamFile {
    arrivals: Vec<Vec<f64>>,
    cases: Vec<StreamCase>,
}

#[derive(Deserialize)]
struct StreamCase {
    name: String,
    size: usize,
    switch: Option<usize>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    window: Vec<u64>,
    coefficients: Vec<f64>,
}

#[test]
fn streams_agree_with_a_second_implementation_step_by_step() {
    let file: StreamFile = read(include_str!("../../../../../tests/vectors/robust/stream.json"));
    assert_eq!(file.cases.len(), 4);
    let mut switches = 0;
    for case in file.cases {
        let settings = OnlineSettings { window: case.size, switch: case.switch, consolidation: Method::Pivot.into() };
        let mut online = Online::new(settings, 3, false).unwrap();
        assert_eq!(case.steps.len(), file.arrivals.len());
        for (t, (arrival, step)) in file.arrivals.iter().zip(case.steps).enumerate() {
            let update = online.push(bare("w", t as u64, arrival)).unwrap();
            let window: Vec<u64> = online.window().iter().map(|e| e.batch).collect();
            assert_eq!(window, step.window, "{} after arrival {t}", case.name);
            near(update.consensus.coefficients.iter().copied(), &step.coefficients, &case.name);
        }
        switches += online.switches();
    }
    assert!(switches > 0, "at least one of the streams must have switched");
}
