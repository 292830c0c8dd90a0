//! Error against the number of features: the shortest interpolant by both of its solvers, the noise of the source, and stochastic gradients.

use fedreg_common::privacy::accountant::gaussian_mu;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::DELTA;
use super::tables::Table;
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::research::printed_features::{PaperNoise, cosine_features, noised};
use crate::research::solvers::{Kaczmarz, gradients, kaczmarz, minimum_norm, private_gradients};
use crate::sweep::Sweep;
use crate::tables::{medians, number};

/// Rows to learn from and rows to be tested on.
pub(super) struct Split {
    pub(super) train: (DMatrix<f64>, DVector<f64>),
    pub(super) test: (DMatrix<f64>, DVector<f64>),
}

impl Split {
    /// The first rows, in a random order, and those that follow.
    pub(super) fn of(table: &Table, train: usize, test: usize, seed: u64) -> Split {
        let mut order: Vec<usize> = (0..table.y.len()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let pick = |rows: &[usize]| {
            (table.x.select_rows(rows), DVector::from_iterator(rows.len(), rows.iter().map(|&row| table.y[row])))
        };
        let first = train.min(order.len() * 9 / 10);
        let last = (first + test).min(order.len());
        Split { train: pick(&order[..first]), test: pick(&order[first..last]) }
    }
}

pub(super) const METHODS: [&str; 11] = [
    "pseudo-inverse",
    "Kaczmarz",
    "Kaczmarz, one pass",
    "SGD, step 1/m",
    "SGD, step 1/(2m)",
    "SGD, step 1/(8m)",
    "SGD, step 1",
    "Gauss, NOT PRIVATE",
    "Gamma, NOT PRIVATE",
    "private SGD, step 1/m",
    "private SGD, step 1",
];

/// Places of methods.
pub(super) const EXACT: usize = 0;
const ITERATED: usize = 1;
pub(super) const GAUSS: usize = 7;
pub(super) const GAMMA: usize = 8;
pub(super) const PRIVATE_SGD: [usize; 2] = [9, 10];
/// Of all methods with noise.
const EPSILON: f64 = 1.0;

/// What is swept.
pub(super) struct Data<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
    /// Standard deviation of the frequencies.
    pub(super) sd: f64,
    /// Rows of a seed.
    pub(super) split: &'a (dyn Fn(u64) -> Split + Sync),
}

pub(super) fn tables(run: &Run, document: &mut Document, data: &Data) -> anyhow::Result<()> {
    let m = (data.split)(0).train.1.len();
    let values: Vec<f64> = run
        .size(&[1.25, 2.0, 4.0, 8.0, 16.0][..], &[2.0, 4.0][..])
        .iter()
        .map(|times| (times * m as f64).round())
        .collect();
    let seeds = run.seeds(10);
    let sweep = Sweep {
        name: format!("counts-{}", data.file),
        caption: format!(
            "{}: test mean squared error over that of the mean, {m} training rows, frequency sd {}, epsilon 1, median of {seeds} draws",
            data.name,
            number(data.sd)
        ),
        over: Axis::logarithmic("features"),
        values: &values,
        measured: Axis::logarithmic("error over that of the mean"),
        methods: &METHODS,
    };
    let found = sweep
        .run(document, |count| medians(seeds, |seed| errors(&(data.split)(seed), count as usize, data.sd, seed)))?;
    let last = values.len() - 1;
    let about = format!("{}, sd {}", data.name, number(data.sd));
    let fall = |at: usize| format!("{} to {}", number(found[at][0]), number(found[at][last]));
    document.finding(
        found[EXACT][last] < found[EXACT][0] && found[GAUSS][last] < found[GAUSS][0],
        format!(
            "{about}: increasing the number of features leads to better generalisation: without noise from {}, with theirs from {}",
            fall(EXACT),
            fall(GAUSS)
        ),
    );
    for (at, name) in [(EXACT, "the shortest interpolant predicts"), (GAUSS, "with their noise it predicts")] {
        let least = found[at].iter().copied().fold(f64::INFINITY, f64::min);
        document.finding(
            least < 1.0,
            format!(
                "{about}: {name} better than the mean does, at some number of features: at best {} of its error",
                number(least)
            ),
        );
    }
    document.finding(
        (0..=last).all(|at| found[GAUSS][at] < found[GAMMA][at]),
        format!(
            "{about}: Gaussian noise gives smaller errors than Gamma noise: {} against {} at the most features",
            number(found[GAUSS][last]),
            number(found[GAMMA][last])
        ),
    );
    let best = |at: usize| {
        METHODS
            .iter()
            .zip(&found)
            .filter(|(name, _)| name.starts_with("SGD"))
            .map(|(_, row)| row[at])
            .fold(f64::INFINITY, f64::min)
    };
    document.finding(
        (0..=last).all(|at| found[EXACT][at] < best(at)),
        format!(
            "{about}: the shortest interpolant is better than every SGD: {} against {} at the most features",
            number(found[EXACT][last]),
            number(best(last))
        ),
    );
    let private = |at: usize| PRIVATE_SGD.map(|method| found[method][at]).into_iter().fold(f64::INFINITY, f64::min);
    document.finding(
        (0..=last).all(|at| found[GAUSS][at] < private(at)),
        format!(
            "{about}: with their noise, which is too little, the interpolant is better than private SGD: {} against {} at the most features",
            number(found[GAUSS][last]),
            number(private(last))
        ),
    );
    let apart = (0..=last).map(|at| (found[ITERATED][at] / found[EXACT][at] - 1.0).abs()).fold(0.0, f64::max);
    document.finding(
        apart < 0.05,
        format!(
            "{about}: Kaczmarz and the pseudo-inverse have the same test error: at most {} % apart",
            number(100.0 * apart)
        ),
    );
    Ok(())
}

/// Test errors of all methods over that of the mean of the training outcomes.
pub(super) fn errors(split: &Split, count: usize, sd: f64, seed: u64) -> anyhow::Result<Vec<f64>> {
    let Split { train: (x, y), test: (unknown, wanted) } = split;
    let (a, b) = (cosine_features(x, count, sd, 5 + seed), cosine_features(unknown, count, sd, 5 + seed));
    let columns = a.transpose();
    let m = y.len();
    let middle = y.mean();
    let of_mean = wanted.iter().map(|y| (y - middle).powi(2)).sum::<f64>();
    let error = |coefficients: &DVector<f64>| (&b * coefficients - wanted).norm_squared() / of_mean;
    let iterated = |passes| kaczmarz(&columns, y, &Kaczmarz { passes, tol: 1e-8, seed, lambda: 0.0 });
    let by_gradients = |step: f64| gradients(&columns, y, step, seed);
    // The largest outcome is taken for a public bound.
    let (tau, mu) = (y.amax(), gaussian_mu(EPSILON, DELTA));
    let with_noise = |step: f64| private_gradients(&columns, y, (step, tau, mu), seed);
    let (m, exact) = (m as f64, minimum_norm(&a, y)?.coefficients);
    Ok(vec![
        error(&exact),
        error(&iterated(100)?.coefficients),
        error(&iterated(1)?.coefficients),
        error(&by_gradients(1.0 / m)?),
        error(&by_gradients(0.5 / m)?),
        error(&by_gradients(0.125 / m)?),
        error(&by_gradients(1.0)?),
        error(&noised(exact.clone(), PaperNoise::Gauss, EPSILON, DELTA, seed)?),
        error(&noised(exact, PaperNoise::Gamma, EPSILON, DELTA, seed)?),
        error(&with_noise(1.0 / m)?),
        error(&with_noise(1.0)?),
    ])
}
