//! Errors over the clipping bound, the rounds, the records, the columns and epsilon, and direct against gradient EM.

use fedreg_common::methods::em::{Model, Update};
use fedreg_common::privacy::accountant::gaussian_mu;

use super::{Bound, COLUMNS, ROUNDS, Trial};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::research::printed_em as printed;
use crate::sweep::Sweep;
use crate::tables::{medians, number};

const GRADIENT: Update = Update::Gradient { step: 1.0 };
const MODELS: [Model; 3] = [Model::GaussianMixture, Model::MixedRegressions, Model::MissingCovariates];

/// The rows of the sweeps.
pub(super) const METHODS: [&str; 4] = ["EM, no privacy", "Algorithm 2", "clip at 1", "clip at our bound"];
const EM: usize = 0;
const PRINTED: usize = 1;
const CLIP_AT_1: usize = 2;

/// The bound of each row at this epsilon, with the Gaussian budget: Algorithm 2 by the account of the paper, ours exact.
pub(super) fn bounds(epsilon: f64, n: usize) -> [(Bound, f64); 4] {
    let delta = 1.0 / n as f64;
    let exact = gaussian_mu(epsilon, delta);
    [
        (Bound::Nothing, 1.0),
        (Bound::Printed(epsilon), 2f64.sqrt() * printed::budget(epsilon, delta)),
        (Bound::ClipAt(1.0), exact),
        (Bound::Clip, exact),
    ]
}

fn estimate(trial: &Trial, (bound, mu): (Bound, f64), seed: u64) -> anyhow::Result<f64> {
    let path = trial.path(bound, mu, 1, seed)?;
    Ok(trial.model.distance(&path.settings.estimate(&path.coefficients), &trial.truth(seed)))
}

pub(super) fn tables(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let (n, seeds) = (run.size(5000, 500), run.seeds(5));
    document.heading("What the errors depend on");
    document.paragraph(format!(
        "Median |beta^ - beta| of {seeds} data sets at epsilon 1, {n} records, {COLUMNS} columns and {ROUNDS} rounds where nothing else is said, delta = 1/n. \"clip at 1\" is Algorithm 1 of the paper \
         with its choice of C, the last round its estimate; our bound is half the root of columns times tau, and the last half of the rounds is averaged."
    ));
    clipping(run, document, n, seeds)?;
    for model in MODELS {
        let usual = Trial { model, n, columns: COLUMNS, rounds: ROUNDS, update: GRADIENT };
        rounds(run, document, usual, seeds)?;
        let over_records: &[f64] = run.size(&[1250.0, 2500.0, 5000.0, 10_000.0], &[250.0, 500.0]);
        let found = sweep(document, usual, "records", over_records, seeds, |trial, value| trial.n = value as usize)?;
        falls(document, model, "n increases", &found, |pair| pair[1] < pair[0]);
        let over_columns: &[f64] = run.size(&[5.0, 10.0, 20.0], &[2.0, 10.0]);
        let found =
            sweep(document, usual, "columns", over_columns, seeds, |trial, value| trial.columns = value as usize)?;
        falls(document, model, "d decreases", &found, |pair| pair[0] < pair[1]);
    }
    direct(run, document, seeds)
}

fn clipping(run: &Run, document: &mut Document, n: usize, seeds: u64) -> anyhow::Result<()> {
    let values: &[f64] = run.size(&[0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0], &[0.1, 1.0, 10.0]);
    let sweep = Sweep {
        name: "clipping".to_owned(),
        caption: "Error by the clipping bound C, the last round as estimate".to_owned(),
        over: Axis::logarithmic("C"),
        values,
        measured: Axis::logarithmic("error"),
        methods: &MODELS.map(Model::name),
    };
    let mu = gaussian_mu(1.0, 1.0 / n as f64);
    let found = sweep.run(document, |bound| {
        medians(seeds, |seed| {
            let of = |model| {
                let trial = Trial { model, n, columns: COLUMNS, rounds: ROUNDS, update: GRADIENT };
                estimate(&trial, (Bound::ClipAt(bound), mu), seed)
            };
            MODELS.into_iter().map(of).collect()
        })
    })?;
    for (model, errors) in MODELS.into_iter().zip(&found) {
        let best = (0..values.len()).min_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap_or(0);
        document.finding(
            values[best] == 1.0,
            format!(
                "{}: C = 1 has the lowest error of all bounds: the lowest is {} at C = {}",
                model.name(),
                number(errors[best]),
                number(values[best])
            ),
        );
    }
    Ok(())
}

/// Error after each of some rounds.
fn rounds(run: &Run, document: &mut Document, trial: Trial, seeds: u64) -> anyhow::Result<()> {
    let values: &[f64] = run.size(&[1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 22.0], &[1.0, 22.0]);
    let of_methods = bounds(1.0, trial.n);
    // All rounds of a method come of one fit.
    let errors = medians(seeds, |seed| {
        let mut errors = Vec::new();
        for (bound, mu) in of_methods {
            let path = trial.path(bound, mu, 1, seed)?;
            let truth = trial.truth(seed);
            errors.extend(values.iter().map(|round| trial.model.distance(&path.coefficients[*round as usize], &truth)));
        }
        Ok(errors)
    })?;
    let name = trial.model.name();
    let sweep = Sweep {
        name: format!("{name}-rounds"),
        caption: format!("{name}: error after so many of {ROUNDS} rounds, nothing averaged"),
        over: Axis::linear("rounds"),
        values,
        measured: Axis::logarithmic("error"),
        methods: &METHODS,
    };
    let at = |value: f64| values.iter().position(|other| *other == value).unwrap_or(0);
    let found = sweep.run(document, |round| {
        Ok((0..METHODS.len()).map(|method| errors[method * values.len() + at(round)]).collect())
    })?;
    let last = values.len() - 1;
    document.finding(
        found[PRINTED][last] < 1.5 * found[EM][last],
        format!(
            "{name}: Algorithm 2 converges nearly as EM without privacy does: at the end {} against {}",
            number(found[PRINTED][last]),
            number(found[EM][last])
        ),
    );
    document.finding(
        found[PRINTED][last] < found[CLIP_AT_1][last],
        format!(
            "{name}: Algorithm 2 outperforms clipping at C = 1: at the end {} against {}",
            number(found[PRINTED][last]),
            number(found[CLIP_AT_1][last])
        ),
    );
    Ok(())
}

fn sweep(
    document: &mut Document,
    usual: Trial,
    over: &str,
    values: &[f64],
    seeds: u64,
    vary: impl Fn(&mut Trial, f64) + Sync,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let name = usual.model.name();
    let sweep = Sweep {
        name: format!("{name}-{over}"),
        caption: format!("{name}: error by number of {over}"),
        over: Axis::logarithmic(over),
        values,
        measured: Axis::logarithmic("error"),
        methods: &METHODS,
    };
    sweep.run(document, |value| {
        let mut trial = usual;
        vary(&mut trial, value);
        medians(seeds, |seed| bounds(1.0, trial.n).into_iter().map(|bound| estimate(&trial, bound, seed)).collect())
    })
}

fn falls(document: &mut Document, model: Model, as_what: &str, found: &[Vec<f64>], better: impl Fn(&[f64]) -> bool) {
    document.finding(
        found[PRINTED].windows(2).all(better),
        format!("{}: the error of Algorithm 2 decreases as {as_what}", model.name()),
    );
}

/// Direct EM, Algorithm 3, beside gradient EM, for the mixture and five rounds.
fn direct(run: &Run, document: &mut Document, seeds: u64) -> anyhow::Result<()> {
    const DIRECT: [&str; 5] =
        ["EM, no privacy", "DP-EM, Algorithm 3", "gradient, Algorithm 2", "DP-EM, clip", "gradient, clip"];
    let usual =
        Trial { model: Model::GaussianMixture, n: run.size(5000, 500), columns: COLUMNS, rounds: 5, update: GRADIENT };
    let of = |trial: Trial, epsilon: f64| {
        medians(seeds, |seed| {
            let [plain, theirs, _, ours] = bounds(epsilon, trial.n);
            let by = |update, bound| estimate(&Trial { update, ..trial }, bound, seed);
            let mut errors = vec![by(GRADIENT, plain)?];
            for bound in [theirs, ours] {
                errors.extend([by(Update::Direct, bound)?, by(GRADIENT, bound)?]);
            }
            Ok(errors)
        })
    };
    let records: &[f64] = run.size(&[1250.0, 2500.0, 5000.0, 10_000.0], &[250.0, 500.0]);
    let columns: &[f64] = run.size(&[5.0, 10.0, 20.0], &[2.0, 10.0]);
    type Case<'a> = (&'a str, &'a [f64], fn(Trial, f64) -> (Trial, f64));
    let cases: [Case; 3] = [
        ("epsilon", &[0.2, 0.5, 1.0], |trial, epsilon| (trial, epsilon)),
        ("records", records, |trial, n| (Trial { n: n as usize, ..trial }, 1.0)),
        ("columns", columns, |trial, columns| (Trial { columns: columns as usize, ..trial }, 1.0)),
    ];
    for (over, values, vary) in cases {
        let sweep = Sweep {
            name: format!("direct-{over}"),
            caption: format!("Direct against gradient EM, mixture of two groups, five rounds: error by {over}"),
            over: Axis::logarithmic(over),
            values,
            measured: Axis::logarithmic("error"),
            methods: &DIRECT,
        };
        let found = sweep.run(document, |value| {
            let (trial, epsilon) = vary(usual, value);
            of(trial, epsilon)
        })?;
        for (name, direct, gradient) in [("Algorithms 2 and 3", 1, 2), ("clipping", 3, 4)] {
            let all = found[gradient].iter().zip(&found[direct]).all(|(gradient, direct)| gradient < direct);
            let last = values.len() - 1;
            document.finding(
                all,
                format!(
                    "over {over}, by {name}: gradient EM has a lower error than direct EM in all cases: {} against {} in the last",
                    number(found[gradient][last]),
                    number(found[direct][last])
                ),
            );
        }
    }
    Ok(())
}
