//! Who bears the noise: excess risks of groups, of noised statistics of random features and of a noised ridge regression.

use fedreg_common::privacy::accountant::gaussian_mu;

use super::tables::Table;
use super::{DELTA, Released, tested};
use crate::Run;
use crate::chart::Axis;
use crate::document::Document;
use crate::fairness::excess_risk_gaps;
use crate::sweep::Sweep;
use crate::tables::{each, number};

/// What is compared, with a ridge parameter that is among the best for the errors.
const RELEASES: [(&str, Released); 3] = [
    ("ridge, features", Released::Ridge(0.1)),
    ("ridge, linear", Released::Linear(0.1)),
    ("statistics", Released::Statistics(40, 1)),
];

pub(super) fn tables(run: &Run, document: &mut Document, table: &Table) -> anyhow::Result<()> {
    let epsilons = [0.3, 1.0, 3.0];
    for (by, groups) in &table.groups {
        let mut names: Vec<&str> = groups.clone();
        names.sort_unstable();
        names.dedup();
        let methods: Vec<String> = RELEASES
            .iter()
            .flat_map(|(release, _)| names.iter().map(move |group| format!("{release}, {group}")))
            .collect();
        let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
        let repetitions = run.seeds(40);
        let sweep = Sweep {
            name: format!("impact-{by}"),
            caption: format!(
                "{}: distance of a group's excess risk by noise from that of all, by {by}, delta {DELTA:e}, one split; of statistics {repetitions} repetitions of the noise, of the others its expectation",
                table.name
            ),
            over: Axis::logarithmic("epsilon"),
            values: &epsilons,
            measured: Axis::logarithmic("gap of the excess risk"),
            methods: &methods,
        };
        let found = sweep.run(document, |epsilon| {
            let mut gaps = Vec::new();
            for (_, what) in RELEASES {
                // So much budget is as good as no noise.
                let plain = tested(table, what, 1e7, (0, 0))?;
                let mu = gaussian_mu(epsilon, DELTA);
                let first = tested(table, what, mu, (0, 100))?;
                let private = match first.spread {
                    // Two predictions with the mean and the variance of the noise's own law have the expected risk exactly.
                    Some(spread) => [1.0, -1.0]
                        .map(|side| plain.predicted.iter().zip(&spread).map(|(p, sd)| p + side * sd).collect())
                        .to_vec(),
                    None => each(repetitions, |seed| Ok(tested(table, what, mu, (0, 100 + seed))?.predicted))?,
                };
                let of: Vec<&str> = plain.rows.iter().map(|&row| groups[row]).collect();
                let found = excess_risk_gaps(&private, &plain.predicted, &plain.outcomes, &of)?;
                let gap = |name: &&str| found.iter().find(|gap| gap.group == *name).map_or(f64::NAN, |gap| gap.gap);
                // What is only rounding is no gap.
                let gap = |name: &&str| Some(gap(name)).filter(|gap| *gap > 1e-12).unwrap_or(0.0);
                gaps.extend(names.iter().map(gap));
            }
            Ok(gaps)
        })?;
        let (features, rest) = found.split_at(names.len());
        let linear = &rest[..names.len()];
        let smaller =
            features.iter().zip(linear).all(|(own, other)| own.iter().zip(other).all(|(own, other)| own < other));
        let largest = |rows: &[Vec<f64>]| rows.iter().map(|row| row[1]).fold(0.0, f64::max);
        document.finding(
            smaller,
            format!(
                "{}, by {by}: gaps of random features are smaller than those of the linear regression, at every epsilon: at epsilon 1 the largest is {} against {}",
                table.name,
                number(largest(features)),
                number(largest(linear))
            ),
        );
        document.finding(
            found.iter().all(|row| row.windows(2).all(|pair| pair[1] <= pair[0])),
            format!("{}, by {by}: the gaps of all releases decrease as epsilon increases", table.name),
        );
    }
    Ok(())
}
