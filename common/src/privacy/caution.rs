//! What a reader must know before the numbers: that they are mostly noise, or that what would be inferred from them is wrong.
//!
//! Whether p-values and intervals are withheld follows from the plan, that is from public facts and the declared design, and of a
//! logistic fit from how large the noise is beside the table that opened and how much the last step leaves. It is never chosen by
//! how significant an estimate is, though large effects make the last step longer: withholding by the result would make what is
//! shown look better than it is. The banner may also follow from the released estimates and standard errors, which are noised and
//! free to use.

use serde::{Deserialize, Serialize};

use crate::fit::{Coefficient, INTERCEPT};

/// The banner where noise is as large as what is sought.
pub const MOSTLY_NOISE: &str = "this result is mostly noise";
/// The banner where that depends on a correlation that nobody has declared.
pub const MAYBE_NOISE: &str = "this result may be mostly noise";
/// The banner where only what would be inferred is wrong.
pub const WITHHELD: &str = "p-values and intervals are withheld";

/// The banner where a party has cut its part of the linear predictor at the range that the study fixes.
pub const CUT: &str = "the linear predictor was cut";

/// Stands first in every report that has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Caution {
    /// In a few words.
    pub banner: String,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
    /// Whether p-values and intervals are left out for that.
    pub inference_withheld: bool,
}

impl Caution {
    /// With its banner and the first reason.
    pub fn new(banner: &str, reason: String, inference_withheld: bool) -> Caution {
        Caution { banner: banner.to_string(), reasons: vec![reason], inference_withheld }
    }

    /// The caution of two parties' reports, or of two reasons: the graver banner, every reason once.
    pub fn joined(first: Option<Caution>, second: Option<Caution>) -> Option<Caution> {
        let (mut one, other) = match (first, second) {
            (Some(one), Some(other)) => (one, other),
            (one, other) => return one.or(other),
        };
        let gravity = |banner: &str| [WITHHELD, MAYBE_NOISE, MOSTLY_NOISE].iter().position(|known| *known == banner);
        if gravity(&other.banner) > gravity(&one.banner) {
            one.banner = other.banner;
        }
        let new: Vec<String> = other.reasons.into_iter().filter(|reason| !one.reasons.contains(reason)).collect();
        one.reasons.extend(new);
        one.inference_withheld |= other.inference_withheld;
        Some(one)
    }

    /// What released estimates and their standard errors say by themselves: of slopes that were nothing but noise the mean square in
    /// standard errors would be 1, so below 2 the noise is as large as what is left.
    pub fn of_released(rows: &[Coefficient]) -> Option<Caution> {
        let squares: Vec<f64> = rows
            .iter()
            .filter(|row| row.term != INTERCEPT)
            .filter_map(|row| Some((row.estimate? / row.std_error.filter(|error| *error > 0.0)?).powi(2)))
            .collect();
        let mean = squares.iter().sum::<f64>() / squares.len() as f64;
        (mean < 2.0).then(|| {
            Caution::new(
                MOSTLY_NOISE,
                format!(
                    "the released slopes are {:.1} of their standard errors from zero (root mean square); nothing but noise would be 1",
                    mean.sqrt()
                ),
                false,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Role;

    fn rows(statistics: &[f64]) -> Vec<Coefficient> {
        let row = |(at, z): (usize, &f64)| Coefficient::normal(format!("x{at}"), Role::Worker, Some(*z), Some(1.0));
        let intercept = Coefficient::normal(INTERCEPT.to_string(), Role::Worker, Some(900.0), Some(1.0));
        std::iter::once(intercept).chain(statistics.iter().enumerate().map(row)).collect()
    }

    #[test]
    fn released_slopes_that_noise_alone_could_have_made_are_called_mostly_noise() {
        assert!(Caution::of_released(&rows(&[1.0, -1.2, 0.4])).is_some(), "an intercept says nothing about slopes");
        assert!(Caution::of_released(&rows(&[3.0, -1.2, 0.4])).is_none());
        let without = [Coefficient::normal("a".to_string(), Role::Worker, Some(0.1), None)];
        assert!(Caution::of_released(&without).is_none() && Caution::of_released(&[]).is_none());
    }

    #[test]
    fn of_two_cautions_the_graver_banner_stands_and_every_reason_once() {
        let one = Caution::new(WITHHELD, "bias".to_string(), true);
        let two = Caution::new(MOSTLY_NOISE, "noise".to_string(), false);
        let both = Caution::joined(Some(one.clone()), Caution::joined(Some(two), Some(one))).unwrap();
        assert_eq!((both.banner.as_str(), both.inference_withheld), (MOSTLY_NOISE, true));
        assert_eq!(both.reasons, ["bias", "noise"]);
    }
}
