//! Whether privacy costs some groups more than others.

use std::collections::BTreeMap;

use fedreg_common::methods::features::FeatureError;

/// What privacy costs one group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupGap {
    /// Name of the group.
    pub(crate) group: String,
    /// Its records.
    pub(crate) records: usize,
    /// Mean squared error of the private predictions less that of the plain ones, over the group.
    pub(crate) excess_risk: f64,
    /// Distance of that from the excess risk over all records.
    pub(crate) gap: f64,
}

/// The excess-risk gap of every group, in the order of their names: `|R_g - R|`, `R` the mean over repetitions of the private predictions' squared
/// error less the plain predictions'.
///
/// `private` has one vector of predictions per repetition of the noise.
///
/// # Privacy
/// Compares with exact predictions, so it is for simulations and for test data that are public.
///
/// # Errors
/// Predictions, outcomes and groups of different numbers; no repetition or no record.
///
/// # Reference
/// C. Tran, M. Dinh and F. Fioretto, NeurIPS 2021.
pub(crate) fn excess_risk_gaps(
    private: &[Vec<f64>],
    plain: &[f64],
    outcome: &[f64],
    groups: &[&str],
) -> Result<Vec<GroupGap>, FeatureError> {
    size("plain predictions", outcome.len(), plain.len())?;
    size("group names", outcome.len(), groups.len())?;
    if private.is_empty() || outcome.is_empty() {
        return Err(FeatureError::Size { what: "repetitions and records", expected: 1, actual: 0 });
    }
    let mut sums: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for repetition in private {
        size("private predictions", outcome.len(), repetition.len())?;
    }
    for (i, (&y, &group)) in outcome.iter().zip(groups).enumerate() {
        let noisy: f64 = private.iter().map(|p| (p[i] - y).powi(2)).sum::<f64>() / private.len() as f64;
        let (records, sum) = sums.entry(group).or_default();
        *records += 1;
        *sum += noisy - (plain[i] - y).powi(2);
    }
    let overall = sums.values().map(|(_, sum)| sum).sum::<f64>() / outcome.len() as f64;
    Ok(sums
        .into_iter()
        .map(|(group, (records, sum))| {
            let excess_risk = sum / records as f64;
            GroupGap { group: group.to_owned(), records, excess_risk, gap: (excess_risk - overall).abs() }
        })
        .collect())
}

fn size(what: &'static str, expected: usize, actual: usize) -> Result<(), FeatureError> {
    if expected == actual { Ok(()) } else { Err(FeatureError::Size { what, expected, actual }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_distances_of_the_groups_excess_risk_from_the_overall_one() {
        let outcome = [0.0, 0.0, 0.0, 0.0];
        let private = [vec![1.0, 1.0, 2.0, 0.0], vec![1.0, 1.0, 0.0, 0.0]];
        let gaps = excess_risk_gaps(&private, &[0.0, 0.0, 1.0, 0.0], &outcome, &["a", "a", "b", "b"]).unwrap();
        // Excess: a 1, b ((4 + 0)/2 - 1 + 0)/2 = .5; overall .75.
        assert_eq!((gaps[0].group.as_str(), gaps[0].excess_risk, gaps[0].gap), ("a", 1.0, 0.25));
        assert_eq!((gaps[1].group.as_str(), gaps[1].excess_risk, gaps[1].gap), ("b", 0.5, 0.25));
        assert!(excess_risk_gaps(&[], &[0.0], &[0.0], &["a"]).is_err());
        assert!(excess_risk_gaps(&private, &[0.0], &outcome, &["a"]).is_err());
    }
}
