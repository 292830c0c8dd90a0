//! Who bears the noise: excess risks of groups, of the source's Algorithm 1 and its linear rival, and of releases that are private.

use fedreg_common::methods::features::ridge;
use fedreg_common::privacy::accountant::gaussian_mu;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::tables::{Own, Table};
use super::{DELTA, Released, tested};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::fairness::excess_risk_gaps;
use crate::research::printed_features::{claimed_deviation, cosine_features};
use crate::research::solvers::{Kaczmarz, kaczmarz};
use crate::sweep::Sweep;
use crate::tables::{each, number};

/// What the source compares: the interpolant of random features and a ridge regression on the covariates, with the same noise. Not private.
const PRINTED: [&str; 2] = ["Algorithm 1", "its rival"];

/// What is private, with a ridge parameter that is among the best for the errors.
const RELEASES: [(&str, Released); 3] = [
    ("ridge, features", Released::Ridge(0.1)),
    ("ridge, linear", Released::Linear(0.1)),
    ("statistics", Released::Statistics(40, 1)),
];

/// The source's are 0.05 to 0.3.
const EPSILONS: [f64; 6] = [0.05, 0.1, 0.2, 0.3, 1.0, 3.0];
/// Places of the largest of the source's, and of 1.
const LARGEST: usize = 3;
const ONE: usize = 4;

/// Records of a group that the source learns from, and is tested on, at most.
const LEARNT: usize = 1000;
const TESTED: usize = 500;

/// The group of each record, and the names of all groups in their order.
struct Groups<'a> {
    of: &'a [&'static str],
    names: Vec<&'static str>,
}

impl Groups<'_> {
    fn new<'a>(of: &'a [&'static str]) -> Groups<'a> {
        let mut names = of.to_vec();
        names.sort_unstable();
        names.dedup();
        Groups { of, names }
    }

    /// A name for every release and group.
    fn each(&self, releases: &[&str]) -> Vec<String> {
        let of = |release: &&str| self.names.iter().map(|group| format!("{release}, {group}")).collect::<Vec<_>>();
        releases.iter().flat_map(of).collect()
    }

    /// The gap of each group's excess risk over some records.
    fn gaps(&self, rows: &[usize], private: &[Vec<f64>], plain: &[f64], outcomes: &[f64]) -> anyhow::Result<Vec<f64>> {
        let of: Vec<&str> = rows.iter().map(|&row| self.of[row]).collect();
        let found = excess_risk_gaps(private, plain, outcomes, &of)?;
        let gap = |name: &&str| found.iter().find(|gap| gap.group == *name).map_or(f64::NAN, |gap| gap.gap);
        // What is only rounding is no gap.
        let gap = |name: &&str| Some(gap(name)).filter(|gap| *gap > 1e-12).unwrap_or(0.0);
        Ok(self.names.iter().map(gap).collect())
    }
}

pub(super) fn tables(run: &Run, document: &mut Document, table: &Table) -> anyhow::Result<()> {
    for (by, groups) in &table.groups {
        let groups = Groups::new(groups);
        sources(run, document, table, by, &groups)?;
        private(run, document, table, by, &groups)?;
    }
    Ok(())
}

/// What the source compares.
fn sources(run: &Run, document: &mut Document, table: &Table, by: &str, groups: &Groups) -> anyhow::Result<()> {
    let (splits, count) = (run.seeds(10), run.size(4000, 400));
    let printed = (0..splits).map(|seed| Printed::new(table, groups, count, seed));
    let printed = printed.collect::<anyhow::Result<Vec<_>>>()?;
    let methods = groups.each(&PRINTED);
    let sweep = Sweep {
        name: format!("impact-{by}"),
        caption: format!(
            "{}: distance of a group's excess risk by noise from that of all, by {by}, Algorithm 1 with {count} features and its rival, NOT PRIVATE; delta {DELTA:e}, mean of {splits} splits, expectation \
             over the noise",
            table.name
        ),
        over: Axis::logarithmic("epsilon"),
        values: &EPSILONS,
        measured: Axis::logarithmic("gap of the excess risk, NOT PRIVATE"),
        methods: &methods.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    let found = sweep.run(document, |epsilon| {
        let mut gaps = vec![0.0; methods.len()];
        for printed in &printed {
            let of_split = printed.gaps(groups, claimed_deviation(count, epsilon, DELTA))?;
            gaps.iter_mut().zip(of_split).for_each(|(mean, gap)| *mean += gap / splits as f64);
        }
        Ok(gaps)
    })?;
    let about = format!("{}, by {by}", table.name);
    let (own, rival) = found.split_at(groups.names.len());
    let at_largest = [own, rival].map(|rows| largest(rows, LARGEST));
    document.finding(
        smaller(own, rival, 1.0),
        format!(
            "{about}: gaps of the source's Algorithm 1 are smaller than those of its linear rival with the same noise, at every epsilon: at epsilon {} the largest is {} against {}",
            EPSILONS[LARGEST],
            number(at_largest[0]),
            number(at_largest[1])
        ),
    );
    let times = count as f64;
    document.finding(
        smaller(own, rival, times),
        format!(
            "{about}: they are smaller with the noise that its lemma asks for with features of this scale, too, {count} times the variance: {} against {}",
            number(times * at_largest[0]),
            number(at_largest[1])
        ),
    );
    decreasing(document, &format!("{about}: the gaps of what the source compares"), &methods, &found);
    Ok(())
}

/// What is private.
fn private(run: &Run, document: &mut Document, table: &Table, by: &str, groups: &Groups) -> anyhow::Result<()> {
    let repetitions = run.seeds(40);
    let methods = groups.each(&RELEASES.map(|(release, _)| release));
    let sweep = Sweep {
        name: format!("impact-private-{by}"),
        caption: format!(
            "{}: distance of a group's excess risk by noise from that of all, by {by}, releases that are private; delta {DELTA:e}, one split; of statistics {repetitions} repetitions of the noise, of the others its \
             expectation",
            table.name
        ),
        over: Axis::logarithmic("epsilon"),
        values: &EPSILONS,
        measured: Axis::logarithmic("gap of the excess risk"),
        methods: &methods.iter().map(String::as_str).collect::<Vec<_>>(),
    };
    let found = sweep.run(document, |epsilon| {
        let mut gaps = Vec::new();
        for (_, what) in RELEASES {
            // So much budget is as good as no noise.
            let plain = tested(table, what, 1e7, (0, 0))?;
            let mu = gaussian_mu(epsilon, DELTA);
            let private = match tested(table, what, mu, (0, 100))?.spread {
                Some(spread) => expected(&plain.predicted, &spread),
                None => each(repetitions, |seed| Ok(tested(table, what, mu, (0, 100 + seed))?.predicted))?,
            };
            gaps.extend(groups.gaps(&plain.rows, &private, &plain.predicted, &plain.outcomes)?);
        }
        Ok(gaps)
    })?;
    let about = format!("{}, by {by}", table.name);
    let (features, rest) = found.split_at(groups.names.len());
    let linear = &rest[..groups.names.len()];
    document.finding(
        smaller(features, linear, 1.0),
        format!(
            "{about}: private ridge regressions: gaps of random features are smaller than those of the linear regression, at every epsilon: at epsilon 1 the largest is {} against {}",
            number(largest(features, ONE)),
            number(largest(linear, ONE))
        ),
    );
    decreasing(document, &format!("{about}: the gaps of all private releases"), &methods, &found);
    Ok(())
}

/// Two predictions with the mean and the variance of the noise's own law, which have the expected risk exactly.
fn expected(plain: &[f64], spread: &[f64]) -> Vec<Vec<f64>> {
    [1.0, -1.0].map(|side| plain.iter().zip(spread).map(|(p, sd)| p + side * sd).collect()).to_vec()
}

/// Whether all gaps on the left are smaller when they are that many times as large.
fn smaller(left: &[Vec<f64>], right: &[Vec<f64>], times: f64) -> bool {
    let all = |(own, other): (&Vec<f64>, &Vec<f64>)| own.iter().zip(other).all(|(own, other)| times * own < *other);
    left.iter().zip(right).all(all)
}

/// The largest gap at an epsilon.
fn largest(rows: &[Vec<f64>], at: usize) -> f64 {
    rows.iter().map(|row| row[at]).fold(0.0, f64::max)
}

/// Whether gaps decrease as epsilon increases, and which do not.
fn decreasing(document: &mut Document, whose: &str, methods: &[String], found: &[Vec<f64>]) {
    let rises = |row: &Vec<f64>| row.windows(2).any(|pair| pair[1] > pair[0]);
    let others: Vec<&str> =
        methods.iter().zip(found).filter(|(_, row)| rises(row)).map(|(name, _)| name.as_str()).collect();
    let except = if others.is_empty() { String::new() } else { format!("; not those of {}", others.join(" and of ")) };
    document.finding(others.is_empty(), format!("{whose} decrease as epsilon increases{except}"));
}

/// What the source compares, on a split of its kind: a share of every group.
struct Printed {
    /// Records that were kept out.
    rows: Vec<usize>,
    outcomes: Vec<f64>,
    /// Predictions without noise, and their standard deviation by noise of variance 1 on the coefficients.
    of: [(Vec<f64>, Vec<f64>); 2],
}

impl Printed {
    fn new(table: &Table, groups: &Groups, count: usize, seed: u64) -> anyhow::Result<Printed> {
        let [train, test] = split(groups, seed);
        let learnt = DVector::from_iterator(train.len(), train.iter().map(|&row| table.y[row]));
        // Outcomes of length 1, as its lemma asks; what comes out is in units of the outcome's range again.
        let length = learnt.norm();
        let wanted = learnt / length;
        let features = cosine_features(&table.own.x, count, table.own.sd, 5 + seed);
        let columns = features.select_rows(&train).transpose();
        let passes = Kaczmarz { passes: 1, tol: 1e-8, seed, lambda: 0.0 };
        let interpolant = kaczmarz(&columns, &wanted, &passes)?.coefficients;
        // With this penalty its sensitivity, 2 / (m lambda), is that of Algorithm 1: the noise has the same law.
        let penalty = (count as f64).sqrt() / (2.0 * train.len() as f64);
        let rows = within(&table.own, groups);
        let linear = ridge(&rows.select_rows(&train), &wanted, penalty)?;
        let on = |rows: &DMatrix<f64>, coefficients: &DVector<f64>| {
            let rows = rows.select_rows(&test);
            let predicted = &rows * coefficients * length;
            let spread = rows.row_iter().map(|row| row.norm() * length).collect();
            (predicted.as_slice().to_vec(), spread)
        };
        Ok(Printed {
            outcomes: test.iter().map(|&row| table.y[row]).collect(),
            of: [on(&features, &interpolant), on(&rows, &linear)],
            rows: test,
        })
    }

    /// Of both, with noise of this standard deviation on each coefficient.
    fn gaps(&self, groups: &Groups, sigma: f64) -> anyhow::Result<Vec<f64>> {
        let mut gaps = Vec::new();
        for (plain, spread) in &self.of {
            let spread: Vec<f64> = spread.iter().map(|sd| sigma * sd).collect();
            gaps.extend(groups.gaps(&self.rows, &expected(plain, &spread), plain, &self.outcomes)?);
        }
        Ok(gaps)
    }
}

/// Nine tenths of each group, at most [`LEARNT`], to learn from; of the rest at most [`TESTED`] to be tested on.
fn split(groups: &Groups, seed: u64) -> [Vec<usize>; 2] {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let [mut train, mut test] = [Vec::new(), Vec::new()];
    for name in &groups.names {
        let mut rows: Vec<usize> = (0..groups.of.len()).filter(|&row| groups.of[row] == *name).collect();
        rows.shuffle(&mut generator);
        let (first, rest) = rows.split_at((rows.len() * 9 / 10).min(LEARNT));
        train.extend(first);
        test.extend(rest.iter().take(TESTED));
    }
    [train, test]
}

/// Numbers between the least and the largest of their group, and the columns of levels.
fn within(own: &Own, groups: &Groups) -> DMatrix<f64> {
    let mut scaled = own.x.clone();
    for (mut column, values) in scaled.column_iter_mut().zip(own.x.column_iter()).take(own.numbers) {
        for name in &groups.names {
            let of_group = || values.iter().zip(groups.of).filter(|(_, of)| *of == name).map(|(value, _)| *value);
            let low = of_group().fold(f64::INFINITY, f64::min);
            let wide = of_group().fold(f64::NEG_INFINITY, f64::max) - low;
            for (value, _) in column.iter_mut().zip(groups.of).filter(|(_, of)| *of == name) {
                *value = if wide > 0.0 { (*value - low) / wide } else { 0.0 };
            }
        }
    }
    scaled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::research::printed_features::{PaperNoise, noised};

    /// Sixty records of two groups with two numbers and a level.
    fn table() -> (Table, Vec<&'static str>) {
        let of: Vec<&'static str> = (0..60).map(|row| if row % 3 == 0 { "few" } else { "many" }).collect();
        let own = DMatrix::from_fn(60, 3, |row, column| match column {
            0 => 20.0 + row as f64,
            1 => (row * 7 % 11) as f64,
            _ => f64::from(u8::from(row % 2 == 0)),
        });
        let y = (0..60).map(|row| (row * 5 % 13) as f64 / 13.0).collect();
        let own = Own { x: own, numbers: 2, sd: 0.5 };
        (Table { name: "sixty", x: DMatrix::zeros(60, 3), y, groups: Vec::new(), own }, of)
    }

    #[test]
    fn the_expected_gap_of_algorithm_1_is_the_mean_over_repetitions_of_its_noise() {
        let (table, of) = table();
        let (groups, count, epsilon, seed) = (Groups::new(&of), 6, 0.3, 1);
        let gaps = Printed::new(&table, &groups, count, seed).unwrap();
        let gaps = gaps.gaps(&groups, claimed_deviation(count, epsilon, DELTA)).unwrap();
        // Its own noise on the coefficients, again and again.
        let [train, test] = split(&groups, seed);
        assert_eq!((train.len(), test.len()), (54, 6));
        let features = cosine_features(&table.own.x, count, table.own.sd, 5 + seed);
        let y = DVector::from_iterator(54, train.iter().map(|&row| table.y[row]));
        let columns = features.select_rows(&train).transpose();
        let how = Kaczmarz { passes: 1, tol: 1e-8, seed, lambda: 0.0 };
        let exact = kaczmarz(&columns, &(&y / y.norm()), &how).unwrap().coefficients;
        let on = |c: &DVector<f64>| (features.select_rows(&test) * c * y.norm()).as_slice().to_vec();
        let drawn = |seed| on(&noised(exact.clone(), PaperNoise::Gauss, epsilon, DELTA, seed).unwrap());
        let private: Vec<Vec<f64>> = (0..40_000).map(drawn).collect();
        let outcomes: Vec<f64> = test.iter().map(|&row| table.y[row]).collect();
        let measured = groups.gaps(&test, &private, &on(&exact), &outcomes).unwrap();
        for (expected, measured) in gaps.iter().zip(&measured) {
            assert!((measured / expected - 1.0).abs() < 0.1, "{expected} against {measured}");
        }
    }

    #[test]
    fn numbers_of_the_rival_fill_the_unit_interval_in_every_group_and_levels_stay() {
        let (table, of) = table();
        let groups = Groups::new(&of);
        let rows = within(&table.own, &groups);
        for name in &groups.names {
            let own: Vec<usize> = (0..60).filter(|&row| of[row] == *name).collect();
            let own = rows.select_rows(&own);
            assert_eq!((own.column(0).min(), own.column(0).max()), (0.0, 1.0));
            assert_eq!((own.column(1).min(), own.column(1).max()), (0.0, 1.0));
        }
        assert_eq!(rows.column(2), table.own.x.column(2));
    }
}
