//! What a study names as its family: one with its likelihood, or one of which only mean and variance are stated.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Family, is_whole};

/// A family as studies and reports name it. Estimates are those of [`StatedFamily::base`]; what differs is the dispersion, and with it
/// standard errors, tests and whether there is a likelihood.
///
/// # Reference
/// R. W. M. Wedderburn, "Quasi-likelihood functions, generalized linear models, and the Gauss-Newton method", Biometrika 61 (1974).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatedFamily {
    /// Identity link.
    #[default]
    Gaussian,
    /// Logit link.
    Binomial,
    /// Log link.
    Poisson,
    /// Logit link, and a multiple of the binomial variance.
    Quasibinomial,
    /// Log link, and a multiple of the mean as variance.
    Quasipoisson,
}

impl StatedFamily {
    /// Every one.
    pub const ALL: [StatedFamily; 5] = [
        StatedFamily::Gaussian,
        StatedFamily::Binomial,
        StatedFamily::Poisson,
        StatedFamily::Quasibinomial,
        StatedFamily::Quasipoisson,
    ];

    /// That of estimates from this family, with its likelihood or with a multiple of its variance. The variance of the gaussian family is a
    /// multiple as it is.
    pub fn of(base: Family, quasi: bool) -> StatedFamily {
        match (base, quasi) {
            (Family::Gaussian, _) => StatedFamily::Gaussian,
            (Family::Binomial, false) => StatedFamily::Binomial,
            (Family::Binomial, true) => StatedFamily::Quasibinomial,
            (Family::Poisson, false) => StatedFamily::Poisson,
            (Family::Poisson, true) => StatedFamily::Quasipoisson,
        }
    }

    /// The family whose estimates they are.
    pub fn base(self) -> Family {
        match self {
            StatedFamily::Gaussian => Family::Gaussian,
            StatedFamily::Binomial | StatedFamily::Quasibinomial => Family::Binomial,
            StatedFamily::Poisson | StatedFamily::Quasipoisson => Family::Poisson,
        }
    }

    /// Whether only a multiple of the variance is stated, so that there is no likelihood.
    pub fn is_quasi(self) -> bool {
        match self {
            StatedFamily::Gaussian | StatedFamily::Binomial | StatedFamily::Poisson => false,
            StatedFamily::Quasibinomial | StatedFamily::Quasipoisson => true,
        }
    }

    /// Whether the dispersion is estimated; it is 1 otherwise. Where it is, a coefficient has Student's t and several have an F test.
    pub fn estimates_dispersion(self) -> bool {
        self.is_quasi() || self.base() == Family::Gaussian
    }

    /// Why a fit of this outcome has no finite likelihood, though the family states one; `unweighted` says that a row has weight zero.
    /// R gives an infinite one there.
    pub fn without_likelihood(self, y: &[f64], unweighted: bool) -> Option<&'static str> {
        match self {
            StatedFamily::Gaussian if unweighted => Some("rows have weight zero"),
            StatedFamily::Poisson if !y.iter().all(|y| is_whole(*y)) => Some("counts are no whole numbers"),
            StatedFamily::Gaussian
            | StatedFamily::Binomial
            | StatedFamily::Poisson
            | StatedFamily::Quasibinomial
            | StatedFamily::Quasipoisson => None,
        }
    }

    /// The name, as in R.
    pub fn name(self) -> &'static str {
        match self {
            StatedFamily::Gaussian | StatedFamily::Binomial | StatedFamily::Poisson => self.base().name(),
            StatedFamily::Quasibinomial => "quasibinomial",
            StatedFamily::Quasipoisson => "quasipoisson",
        }
    }

    /// The link's name, as in R.
    pub fn link(self) -> &'static str {
        self.base().link()
    }
}

impl From<Family> for StatedFamily {
    fn from(family: Family) -> StatedFamily {
        StatedFamily::of(family, false)
    }
}

impl fmt::Display for StatedFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R 4.2.2: `AIC(glm(y ~ x, poisson))` is Inf where a count is 1.5, `AIC(glm(y ~ x, gaussian, weights = w))` where a weight is 0.
    #[test]
    fn fractional_counts_and_gaussian_rows_of_weight_zero_have_no_likelihood() {
        let whole = [0.0, 2.0, 1e9];
        for family in StatedFamily::ALL {
            let poisson = family == StatedFamily::Poisson;
            let gaussian = family == StatedFamily::Gaussian;
            assert_eq!(family.without_likelihood(&whole, false), None, "{family}");
            let fractional = family.without_likelihood(&[0.0, 1.5], false);
            assert_eq!(fractional, poisson.then_some("counts are no whole numbers"), "{family}");
            let unweighted = family.without_likelihood(&whole, true);
            assert_eq!(unweighted, gaussian.then_some("rows have weight zero"), "{family}");
        }
    }
}
