//! Box-plots and fitted curves of the source's two cases, without privacy under heavy tails (its Figure 2) and with privacy (its Figure 3).

use fedreg_common::bounded::SimulatedNoise;
use fedreg_common::methods::stream::{Average, Basis, Loss, Settings, Step};
use fedreg_common::privacy::accountant::gaussian_mu;

use super::{Best, HUBER, PLAIN, best, fitted};
use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::research::streams::Sine;
use crate::tables::{boxed, line, number, quantile};

/// Points of a fitted curve.
const POINTS: u32 = 61;

/// `0.6 Beta(30, 17) + 0.4 Beta(3, 11)`, divided by 2.5: the slides name a mixture of Beta densities for their second case and no
/// parameters; these are usual for tests of kernel methods.
fn betas(x: f64) -> f64 {
    // 1 / B(a, b) of whole numbers: (a + b - 1)! / ((a - 1)! (b - 1)!).
    let density = |a: u32, b: u32| {
        let ways: f64 = (1..b).map(|k| f64::from(a + k - 1) / f64::from(k)).product();
        f64::from(a + b - 1) * ways * x.powi(a as i32 - 1) * (1.0 - x).powi(b as i32 - 1)
    };
    (0.6 * density(30, 17) + 0.4 * density(3, 11)) / 2.5
}

/// A case of the source.
struct Case {
    name: &'static str,
    file: &'static str,
    function: fn(f64) -> f64,
}

const CASES: [Case; 2] = [
    Case { name: "case 1, sin 2 pi x", file: "case-1", function: Sine::function },
    Case { name: "case 2, two Beta densities", file: "case-2", function: betas },
];

/// A method in a picture.
struct Method {
    name: &'static str,
    loss: Loss,
    epsilon: Option<f64>,
    steps: &'static [f64],
}

const SQUARES_STEPS: &[f64] = &[0.004, 0.015, 0.03, 0.06, 0.125];
const PRIVATE_STEPS: &[f64] = &[0.0005, 0.001, 0.002, 0.004, 0.008];

pub(crate) fn tables(run: &Run, document: &mut Document, basis: &Basis) -> anyhow::Result<()> {
    document.heading("Both cases without privacy, under heavy tails");
    let seeds = run.seeds(25);
    document.paragraph(format!(
        "Integrated squared error over {seeds} streams, half a t(1.5) variable as noise, the constant step that is best of a list. The curves are those of \
         each method's stream whose error is nearest the middle."
    ));
    let heavy = Sine { freedom: 1.5, scale: 0.5 };
    let methods = [
        Method { name: "FSGD, least squares", loss: Loss::Squares, epsilon: None, steps: SQUARES_STEPS },
        Method { name: "H-FSGD", loss: HUBER, epsilon: None, steps: PLAIN },
    ];
    for case in &CASES {
        let lengths = run.size(&[500, 1000, 2000, 4000][..], &[200, 400][..]);
        let found = boxes(document, case, "plain", heavy, basis, &methods, lengths, seeds)?;
        let ratio =
            (0..lengths.len()).map(|at| found[0][at].median / found[1][at].median).fold(f64::INFINITY, f64::min);
        document.finding(
            ratio > 2.0,
            format!("{}: H-FSGD significantly outperforms FSGD under heavy tails; its median error is at least {} times smaller", case.name, number(ratio)),
        );
        let curves = curves(document, case, "plain", heavy, basis, &methods, &found, lengths)?;
        let [squares, huber] = curves[..] else { continue };
        document.finding(
            huber > squares,
            format!(
                "{}: under heavy tails the curve of H-FSGD from {} records is nearer to the function than that of FSGD: their correlations with it are {huber:.4} and {squares:.4}",
                case.name,
                lengths[lengths.len() - 1]
            ),
        );
    }
    document.heading("Both cases with privacy");
    let seeds = run.seeds(15);
    document.paragraph(format!("The same over {seeds} streams with a t(3) variable as noise; delta 1e-5."));
    let law = Sine { freedom: 3.0, scale: 1.0 };
    let methods = [
        Method { name: "H-FSGD, no privacy", loss: HUBER, epsilon: None, steps: PLAIN },
        Method { name: "PH-FSGD, epsilon 3", loss: HUBER, epsilon: Some(3.0), steps: PRIVATE_STEPS },
        Method { name: "PH-FSGD, epsilon 1", loss: HUBER, epsilon: Some(1.0), steps: PRIVATE_STEPS },
    ];
    for case in &CASES {
        let lengths = run.size(&[2000, 10_000, 40_000][..], &[200, 400][..]);
        let found = boxes(document, case, "private", law, basis, &methods, lengths, seeds)?;
        let ordered = (0..lengths.len()).all(|at| found.windows(2).all(|pair| pair[0][at].median < pair[1][at].median));
        document.finding(ordered, format!("{}: stronger privacy leads to greater error, at every length", case.name));
        let curves = curves(document, case, "private", law, basis, &methods, &found, lengths)?;
        for (method, alike) in methods.iter().zip(curves).skip(1) {
            document.finding(
                alike > 0.95,
                format!(
                    "{}: {} recovers the shape of the function from {} records: the correlation of the curve with the function is {alike:.3}",
                    case.name,
                    method.name,
                    lengths[lengths.len() - 1]
                ),
            );
        }
    }
    Ok(())
}

/// A box for each method and length, and a table of medians and quartiles.
#[allow(clippy::too_many_arguments, reason = "what a picture shows")]
fn boxes(
    document: &mut Document,
    case: &Case,
    what: &str,
    law: Sine,
    basis: &Basis,
    methods: &[Method],
    lengths: &[usize],
    seeds: u64,
) -> anyhow::Result<Vec<Vec<Best>>> {
    let header = std::iter::once("median (quartiles)".to_owned()).chain(lengths.iter().map(|n| format!("{n} records")));
    let mut table = Table::new(case.name, header.collect::<Vec<_>>());
    let (mut lines, mut found) = (Vec::new(), Vec::new());
    for (colour, method) in methods.iter().enumerate() {
        let mu = method.epsilon.map(|epsilon| gaussian_mu(epsilon, 1e-5));
        let mut of_method = Vec::new();
        for &n in lengths {
            let best = best(basis, method.loss, (law, case.function), n, mu, method.steps, seeds)?;
            // Boxes of one length stand beside each other, and the last carries the name.
            let place = n as f64 * 1.09_f64.powi(2 * colour as i32 - methods.len() as i32 + 1);
            let name = if n == lengths[lengths.len() - 1] { method.name } else { "" };
            lines.push(boxed(name, colour, place, &best.errors));
            of_method.push(best);
        }
        let cell = |best: &Best| {
            let of = |share| number(quantile(&best.errors, share));
            format!("{} ({} to {})", number(best.median), of(0.25), of(0.75))
        };
        table.ours(std::iter::once(method.name.to_owned()).chain(of_method.iter().map(cell)));
        found.push(of_method);
    }
    document.table(table);
    let axes = (Axis::logarithmic("records"), Axis::logarithmic("integrated squared error"));
    let chart = Chart { title: format!("Errors, {}", case.name), x: axes.0, y: axes.1, lines };
    let caption = format!("{}: least, quartiles and largest over {seeds} streams.", case.name);
    document.figure(format!("boxes-{what}-{}", case.file), chart, caption);
    Ok(found)
}

/// The fitted curve of each method after the longest stream, beside the function. Returns their correlations with it.
#[allow(clippy::too_many_arguments, reason = "what a picture shows")]
fn curves(
    document: &mut Document,
    case: &Case,
    what: &str,
    law: Sine,
    basis: &Basis,
    methods: &[Method],
    found: &[Vec<Best>],
    lengths: &[usize],
) -> anyhow::Result<Vec<f64>> {
    let x: Vec<f64> = (0..POINTS).map(|point| f64::from(point) / f64::from(POINTS - 1)).collect();
    let truth: Vec<f64> = x.iter().map(|x| (case.function)(*x)).collect();
    let mut lines = vec![line("the function", 3, &x, &truth, false)];
    let mut alike = Vec::new();
    for (colour, (method, found)) in methods.iter().zip(found).enumerate() {
        let (Some(best), Some(&n)) = (found.last(), lengths.last()) else { continue };
        let settings = super::settings(basis, method.loss, Step::Constant { length: best.step })?;
        let mu = method.epsilon.map(|epsilon| gaussian_mu(epsilon, 1e-5));
        let curve = curve(&settings, (law, case.function), n, mu, best.typical(), best.part, &x)?;
        alike.push(correlation(&curve, &truth));
        lines.push(line(method.name, [0, 1, 2][colour % 3], &x, &curve, false));
    }
    let chart =
        Chart { title: format!("Fitted curves, {}", case.name), x: Axis::linear("x"), y: Axis::linear("f(x)"), lines };
    let caption = format!("{}: fitted curves after {} records.", case.name, lengths[lengths.len() - 1]);
    document.figure(format!("curves-{what}-{}", case.file), chart, caption);
    Ok(alike)
}

fn curve(
    settings: &Settings,
    (law, function): (Sine, fn(f64) -> f64),
    n: usize,
    mu: Option<f64>,
    seed: u64,
    part: Average,
    x: &[f64],
) -> anyhow::Result<Vec<f64>> {
    let learner = fitted(settings, (law, function), n, mu, &mut SimulatedNoise::seeded(seed + 100), seed)?;
    let average = learner.average(part);
    x.iter().map(|x| Ok(settings.predict(&average, &[*x])?)).collect()
}

fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let centred = |values: &[f64]| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| value - mean).collect()
    };
    let (left, right) = (centred(left), centred(right));
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    product(&left, &right) / (product(&left, &left) * product(&right, &right)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_case_has_the_values_of_r() {
        // dbeta(.2, 3, 11) is 3.685082, dbeta(.65, 30, 17) 5.662228 and dbeta(.65, 3, 11) .010000; the integral is 1 / 2.5.
        let sum: f64 = (0..4000).map(|k| betas((f64::from(k) + 0.5) / 4000.0) / 4000.0).sum();
        assert!((sum - 0.4).abs() < 1e-6, "{sum}");
        for (x, expected) in [(0.2, 0.589_613_1), (0.65, 1.360_534_6)] {
            assert!((betas(x) - expected).abs() < 1e-6, "{x}: {}", betas(x));
        }
    }
}
