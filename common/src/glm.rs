//! Families and their canonical links.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An exponential family with its canonical link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Identity link.
    #[default]
    Gaussian,
    /// Logit link.
    Binomial,
    /// Log link.
    Poisson,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 3] = [Family::Gaussian, Family::Binomial, Family::Poisson];

    /// The name, as in R.
    pub fn name(self) -> &'static str {
        match self {
            Family::Gaussian => "gaussian",
            Family::Binomial => "binomial",
            Family::Poisson => "poisson",
        }
    }

    /// The link's name, as in R.
    pub fn link(self) -> &'static str {
        match self {
            Family::Gaussian => "identity",
            Family::Binomial => "logit",
            Family::Poisson => "log",
        }
    }

    /// Whether the dispersion is estimated; it is 1 otherwise.
    pub fn estimates_dispersion(self) -> bool {
        self == Family::Gaussian
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
