//! How fast errors fall with the step schedules of the source's tables 3 and 4.
//!
//! On the circle the kernel `sum_i i^-alpha cos(2 pi i (x - z))`, scaled to 1 at `x = z`, has the eigenvalues that the theory is stated in, and a
//! function with coefficients `i^(-r alpha - 1/2)` has the smoothness `r` (as in A. Dieuleveut and F. Bach, Ann. Statist. 44 (2016)). The
//! learner here is the same recursion in these coordinates, with the method's own steps and cut.

use std::f64::consts::{SQRT_2, TAU};

use fedreg_common::methods::stream::Step;
use fedreg_common::privacy::accountant::gaussian_mu;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal, StudentT};

use crate::Run;
use crate::chart::{Axis, Chart};
use crate::document::{Document, Table};
use crate::tables::{each, line, number, quantile, slope};

/// How far a measured exponent may be from the stated one.
const WITHIN: f64 = 0.1;
/// Largest residual.
const CUT: f64 = 1.0;

/// A function on the circle and its kernel.
#[derive(Clone, Copy)]
struct Circle {
    alpha: f64,
    r: f64,
    /// Frequencies; each has a cosine and a sine.
    frequencies: usize,
}

impl Circle {
    /// Squared errors of the averaged function after each of some numbers of records, in ascending order. `noise` is the standard deviation of the
    /// noise on each coordinate.
    fn errors(&self, step: Step, noise: f64, records: &[usize], seed: u64) -> anyhow::Result<Vec<f64>> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let law = StudentT::new(3.0)?;
        let index = |i: usize| (i + 1) as f64;
        let all = |power: f64| -> Vec<f64> { (0..self.frequencies).map(|i| index(i).powf(power)).collect() };
        let normalised = |mut values: Vec<f64>| {
            let sum: f64 = values.iter().sum();
            values.iter_mut().for_each(|value| *value /= sum);
            values
        };
        let eigenvalues = normalised(all(-self.alpha));
        let roots: Vec<f64> = eigenvalues.iter().map(|value| value.sqrt()).collect();
        // Of mean square 1.
        let truth: Vec<f64> =
            normalised(all(-2.0 * self.r * self.alpha - 1.0)).iter().map(|b| SQRT_2 * b.sqrt()).collect();
        let mut weights = vec![[0.0; 2]; self.frequencies];
        let mut sums = weights.clone();
        let mut at = weights.clone();
        let mut errors = Vec::with_capacity(records.len());
        for record in 1..=records.last().copied().unwrap_or(0) {
            let angle: f64 = TAU * generator.random::<f64>();
            let (turn_sine, turn_cosine) = angle.sin_cos();
            let (mut cosine, mut sine) = (1.0, 0.0);
            let (mut value, mut found) = (law.sample(&mut generator), 0.0);
            for i in 0..self.frequencies {
                (cosine, sine) = (cosine * turn_cosine - sine * turn_sine, sine * turn_cosine + cosine * turn_sine);
                value += truth[i] * cosine;
                at[i] = [roots[i] * cosine, roots[i] * sine];
                found += weights[i][0] * at[i][0] + weights[i][1] * at[i][1];
            }
            let (length, cut) = (step.at(record as f64), (value - found).clamp(-CUT, CUT));
            for ((weight, sum), at) in weights.iter_mut().zip(&mut sums).zip(&at) {
                for side in 0..2 {
                    let noised = if noise > 0.0 {
                        let z: f64 = StandardNormal.sample(&mut generator);
                        noise * z
                    } else {
                        0.0
                    };
                    weight[side] += length * (cut * at[side] + noised);
                    sum[side] += weight[side];
                }
            }
            if records.contains(&record) {
                let off = |i: usize| {
                    let average = sums[i].map(|sum| roots[i] * sum / record as f64);
                    0.5 * ((average[0] - truth[i]).powi(2) + average[1].powi(2))
                };
                errors.push((0..self.frequencies).map(off).sum());
            }
        }
        Ok(errors)
    }
}

/// Whether all steps are equal.
#[derive(Clone, Copy, PartialEq)]
enum Scheme {
    /// Table 3.
    Constant,
    /// Table 4.
    Shrinking,
}

impl Scheme {
    fn table(self) -> usize {
        if self == Scheme::Constant { 3 } else { 4 }
    }

    /// The schedule's exponent and that of the rate, as the slides state them.
    fn stated(self, r: f64, alpha: f64) -> (f64, f64) {
        let both = 2.0 * r * alpha;
        if r <= (alpha - 1.0) / (2.0 * alpha) {
            return (0.0, 2.0 * r);
        }
        let last = (1.0 / (1.0 + alpha), alpha / (1.0 + alpha));
        match self {
            Scheme::Constant if r <= 1.0 => ((both + 1.0 - alpha) / (both + 1.0), both / (both + 1.0)),
            Scheme::Constant if r <= (alpha + 2.0) / 2.0 => {
                ((alpha + 1.0) / (both + 1.0), (both - 2.0 * r + 2.0) / (both + 1.0))
            }
            Scheme::Shrinking if r < (1.0 + alpha) / (2.0 * alpha) => {
                ((both + 1.0 - alpha) / (both + 1.0 + alpha), (both + alpha - 1.0) / (both + 1.0 + alpha))
            }
            Scheme::Constant | Scheme::Shrinking => last,
        }
    }
}

/// The exponent of a schedule and of the rate that noise of equal size in every direction permits: where what is not yet learned, `(n^(1-zeta))^(-2r)`, and
/// the noise, `(n^(1-zeta))^((alpha+1)/alpha) / n`, fall together.
fn noised(r: f64, alpha: f64) -> (f64, f64) {
    let both = 2.0 * r * alpha;
    ((both + 1.0) / (both + alpha + 1.0), both / (both + alpha + 1.0))
}

/// One line of a table of rates.
struct Case {
    scheme: Scheme,
    circle: Circle,
    /// Of the schedule: the first step and the exponent.
    length: f64,
    exponent: f64,
    /// Of every coordinate.
    noise: f64,
}

impl Case {
    /// Median squared errors by number of records.
    fn measure(&self, records: &[usize], seeds: u64) -> anyhow::Result<Vec<f64>> {
        let Case { length, exponent, .. } = *self;
        let of = |seed: u64| match self.scheme {
            Scheme::Shrinking => self.circle.errors(Step::Power { length, exponent }, self.noise, records, seed),
            // The step depends on how many records are to come.
            Scheme::Constant => {
                let mut errors = Vec::new();
                for &n in records {
                    let step = Step::Horizon { length, exponent, records: n as u64 };
                    errors.extend(self.circle.errors(step, self.noise, &[n], seed)?);
                }
                Ok(errors)
            }
        };
        let rows = each(seeds, of)?;
        let column = |at: usize| -> Vec<f64> { rows.iter().map(|row| row[at]).collect() };
        Ok((0..records.len()).map(|at| quantile(&column(at), 0.5)).collect())
    }
}

/// Pairs of every row of both tables, whose first rows are the same.
const PAIRS: [(Scheme, f64, f64); 9] = [
    (Scheme::Constant, 0.25, 3.0),
    (Scheme::Constant, 0.5, 2.0),
    (Scheme::Constant, 0.5, 3.0),
    (Scheme::Constant, 1.5, 3.0),
    (Scheme::Constant, 4.0, 4.0),
    (Scheme::Shrinking, 0.5, 2.0),
    (Scheme::Shrinking, 0.5, 3.0),
    (Scheme::Shrinking, 1.0, 2.0),
    (Scheme::Shrinking, 1.0, 4.0),
];

pub(crate) fn tables(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let records: &[usize] = run.size(&[1000, 2000, 4000, 8000, 16_000, 32_000][..], &[250, 500, 1000, 2000][..]);
    let frequencies = run.size(300, 60);
    document.heading("Step schedules and rates");
    document.paragraph(format!(
        "Squared error of the average of all functions, {} to {} records with t(3) noise, tau = 1, first step 1, median of {} streams; a kernel on \
         the circle whose eigenvalues fall as i^-alpha, and a function of smoothness r. The slope is that of a straight line through \
         the logarithms. Stated: tables 3 (constant step, `decay = \"horizon\"` in a study) and 4 (shrinking step, `decay = \"power\"`) of the slides, by \
         upper bounds; the slides state the same rates with and without privacy.",
        records[0],
        records[records.len() - 1],
        run.seeds(20),
    ));
    let without = PAIRS.map(|(scheme, r, alpha)| {
        let circle = Circle { alpha, r, frequencies };
        (
            Case { scheme, circle, length: 1.0, exponent: scheme.stated(r, alpha).0, noise: 0.0 },
            scheme.stated(r, alpha).1,
        )
    });
    let measured = rates(run, document, records, &without, "rates", "Without privacy")?;
    let near = measured.iter().filter(|miss| miss.abs() <= WITHIN).count();
    if !run.quick {
        let text =
            format!("pairs whose slope is within {WITHIN} of the stated exponent: at least 4, measured {near} of 9");
        document.target(near >= 4, text);
    }
    let epsilon = 3.0;
    let noise = 2.0 * CUT / gaussian_mu(epsilon, 1e-5);
    let pairs = [(Scheme::Constant, 0.5, 2.0), (Scheme::Constant, 0.5, 3.0), (Scheme::Shrinking, 1.0, 2.0)];
    let case = |(scheme, r, alpha): (Scheme, f64, f64), own: bool| {
        let (stated, rate) = if own { noised(r, alpha) } else { scheme.stated(r, alpha) };
        // Directions beyond these are neither learned nor worth their noise, but each is drawn.
        let circle = Circle { alpha, r, frequencies: frequencies.min(60) };
        let scheme = if own { Scheme::Constant } else { scheme };
        // With a first step of 1 the stated schedule ends far beyond the zero function.
        let length = if own { 1.0 } else { 0.1 };
        (Case { scheme, circle, length, exponent: stated, noise }, rate)
    };
    document.paragraph(format!(
        "With the noise of local privacy at epsilon {epsilon}, delta 1e-5: the noise has the same size in every direction of the kernel's space, that of the data falls \
         with the eigenvalues. With steps n^-zeta the noise contributes n^((1-zeta)(alpha+1)/alpha - 1): it does not fall at the stated zeta (first step 0.1 here). Where \
         zeta = (2 r alpha + 1) / (2 r alpha + alpha + 1), it falls as n^(-2 r alpha / (2 r alpha + alpha + 1))."
    ));
    rates(
        run,
        document,
        records,
        &pairs.map(|pair| case(pair, false)),
        "rates-private",
        "Private, the stated schedule",
    )?;
    let own = [(Scheme::Constant, 0.5, 2.0), (Scheme::Constant, 0.5, 3.0), (Scheme::Constant, 0.75, 2.0)];
    let title = "Private, the schedule for the noise; the exponent is ours";
    rates(run, document, records, &own.map(|pair| case(pair, true)), "rates-private-own", title)?;
    Ok(())
}

/// A table, a statement each and a plot. Returns by how much each exponent is missed.
fn rates(
    run: &Run,
    document: &mut Document,
    records: &[usize],
    cases: &[(Case, f64)],
    name: &str,
    title: &str,
) -> anyhow::Result<Vec<f64>> {
    let x: Vec<f64> = records.iter().map(|n| *n as f64).collect();
    let mut table = Table::new(title, ["table, r, alpha", "zeta", "stated", "measured", "first error", "last error"]);
    let (mut lines, mut statements, mut misses) = (Vec::new(), Document::new(""), Vec::new());
    for (at, (case, rate)) in cases.iter().enumerate() {
        let errors = case.measure(records, run.seeds(20))?;
        let found = slope(&x, &errors);
        let Circle { r, alpha, .. } = case.circle;
        let label = format!("{}, {r}, {alpha}", case.scheme.table());
        let ends = [case.exponent, -rate, found, errors[0], errors[errors.len() - 1]];
        table.ours(std::iter::once(label.clone()).chain(ends.map(number)));
        let miss = found + rate;
        let judged = if miss.abs() <= WITHIN {
            format!("within {WITHIN}")
        } else {
            format!("{} by {:.2}", if miss < 0.0 { "it falls faster" } else { "missed" }, miss.abs())
        };
        statements.finding(
            miss <= WITHIN,
            format!(
                "{title}, table {}, r = {r}, alpha = {alpha}: stated n^-{rate:.3}, measured n^{found:.3}, {judged}",
                case.scheme.table()
            ),
        );
        lines.push(line(&format!("table {label}"), at, &x, &errors, false));
        let stated: Vec<f64> = x.iter().map(|n| errors[0] * (n / x[0]).powf(-rate)).collect();
        lines.push(line("", at, &x, &stated, true));
        misses.push(miss);
    }
    document.table(table);
    document.parts.extend(statements.parts);
    let axes = (Axis::logarithmic("records"), Axis::logarithmic("squared error"));
    let chart = Chart { title: title.to_owned(), x: axes.0, y: axes.1, lines };
    document.figure(name, chart, format!("{title}. Dashed: the stated rate from the first error on."));
    Ok(misses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stated_exponents_are_those_of_the_slides_and_meet_at_the_borders_of_their_rows() {
        let near = |left: (f64, f64), right: (f64, f64)| {
            assert!((left.0 - right.0).abs() < 1e-6 && (left.1 - right.1).abs() < 1e-6, "{left:?} {right:?}");
        };
        // By hand from tables 3 and 4.
        near(Scheme::Constant.stated(0.5, 2.0), (1.0 / 3.0, 2.0 / 3.0));
        near(Scheme::Constant.stated(1.5, 3.0), (0.4, 0.8));
        near(Scheme::Shrinking.stated(0.5, 2.0), (0.2, 0.6));
        near(Scheme::Shrinking.stated(1.0, 2.0), (1.0 / 3.0, 2.0 / 3.0));
        for alpha in [1.5, 2.0, 4.0] {
            let borders = [(alpha - 1.0) / (2.0 * alpha), 1.0, (alpha + 2.0) / 2.0, (1.0 + alpha) / (2.0 * alpha)];
            for (scheme, border) in
                [Scheme::Constant, Scheme::Shrinking].into_iter().flat_map(|scheme| borders.map(|at| (scheme, at)))
            {
                near(scheme.stated(border - 1e-9, alpha), scheme.stated(border + 1e-9, alpha));
            }
        }
    }

    #[test]
    fn without_steps_worth_the_name_the_error_is_that_of_the_zero_function() {
        let circle = Circle { alpha: 2.0, r: 0.5, frequencies: 50 };
        let errors = circle.errors(Step::Constant { length: 1e-12 }, 0.0, &[10, 20], 1).unwrap();
        assert!(errors.iter().all(|error| (error - 1.0).abs() < 1e-6), "{errors:?}");
    }
}
