//! What error to expect of a private run between sites, from public facts and the design that the study declares: no row is looked at, and
//! nothing is spent. Each method foretells its own ([`MethodTerms::foretold`](super::MethodTerms::foretold)).

use serde::{Serialize, Serializer};

use super::{DesignTerms, StudyError};
use crate::methods::em::EmError;
use crate::methods::features::FeatureError;
use crate::privacy::accountant::ScaleError;
use crate::privacy::caution::{Caution, MOSTLY_NOISE, WITHHELD};

/// Standard deviation of residuals unless another is declared, in half ranges of the outcome.
const DEFAULT_RESIDUAL: f64 = 0.2;
/// Standard deviation of what is to be found unless another is declared, in half ranges of the outcome; as in vertical studies.
const DEFAULT_SIGNAL: f64 = 0.3;

/// Most noise of the counts of residuals, as a share of a batch's rows, with which standard errors are relied on: beyond it one estimate in
/// a hundred lies more than three of them off, and some lie far off (`coverage_of_small_batches`).
const MOST_COUNTS_NOISE: f64 = 0.1;

/// A size in half ranges of the outcome, and in its own unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// In half ranges of the outcome.
    pub half_ranges: f64,
    half_range: Option<f64>,
}

impl Size {
    /// Half the outcome's public range, where there is one.
    pub fn half_range(&self) -> Option<f64> {
        self.half_range
    }

    /// In the outcome's unit; that of the points or coefficients in models with something hidden.
    pub fn outcome(&self) -> f64 {
        self.half_ranges * self.half_range.unwrap_or(1.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Both {
            half_ranges: Option<f64>,
            outcome: f64,
        }
        let half_ranges = self.half_range.map(|_| self.half_ranges);
        Both { half_ranges, outcome: self.outcome() }.serialize(serializer)
    }
}

/// What to expect of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// What the errors are errors of.
    pub of: &'static str,
    /// What was assumed, a thought a line.
    pub assumed: Vec<String>,
    /// Rows or records of each site.
    pub rows: u64,
    /// Sites of the study.
    pub sites: u32,
    /// Batches of all sites, of robust regression.
    pub batches: Option<u64>,
    /// Noise of one batch, or of the step of one round.
    pub noise_once: Option<Size>,
    /// Noise of the result.
    pub noise: Size,
    /// Error of the result: noise, sampling and what the method leaves.
    pub error: Size,
    /// Error of a fitted value, of robust regression.
    pub error_fitted: Option<Size>,
    /// Error of a site's own rows, fitted at home without noise: nothing is exchanged.
    pub error_alone: Size,
    /// Error of the result that is zero everywhere.
    pub error_zero: Size,
    /// The error, relative to what is to be found.
    pub relative_error: f64,
    /// That of a site's own rows, likewise.
    pub relative_error_alone: f64,
    /// Whether exchanging nothing is expected to do as well or better.
    pub better_alone: bool,
    /// Whether zero everywhere is expected to do as well or better.
    pub better_zero: bool,
    /// Noise of the counts of residuals as a share of a batch's rows, of robust regression: where it is large, nothing can be inferred.
    pub counts_noise: Option<f64>,
}

/// Why there is nothing to say beforehand.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoExpectation {
    /// No noise, or no sites.
    #[error("the study is not private, or not one of many sites")]
    NotPrivate,
    /// No rows.
    #[error("the number of rows is not known: say `--rows`")]
    NoRows,
    /// The study refuses this number of rows, as a run would.
    #[error("a run of this number of rows would be refused: {0}")]
    Refused(#[from] StudyError),
    /// The spectrum would take too long.
    #[error("with more than {most} random features no error is foretold: their spectrum takes too long")]
    TooManyFeatures {
        /// Most that are reckoned with.
        most: usize,
    },
    /// Models with something hidden.
    #[error("the invented records could not be fitted: {0}")]
    Hidden(#[from] EmError),
    /// Random features.
    #[error("the invented statistics could not be solved: {0}")]
    Features(#[from] FeatureError),
    /// Noise.
    #[error(transparent)]
    Noise(#[from] ScaleError),
}

/// What a method foretells: numbers before they get their units and names.
#[derive(Debug, Clone, Default)]
pub struct Foretold {
    /// What the errors are errors of.
    pub of: &'static str,
    /// What was assumed, a thought a line.
    pub assumed: Vec<String>,
    /// Batches of all sites, where there are batches.
    pub batches: Option<u64>,
    /// Noise of one batch, or of the step of one round.
    pub noise_once: Option<f64>,
    /// Noise of the result.
    pub noise: f64,
    /// Error of the result.
    pub error: f64,
    /// Error of a fitted value.
    pub fitted: Option<f64>,
    /// Error of a site's own rows.
    pub alone: f64,
    /// Error of the result that is zero everywhere.
    pub zero: f64,
    /// Noise of the counts of residuals, as a share of a batch's rows.
    pub counts: Option<f64>,
}

/// Numbers that a design declares, or the neutral ones.
#[derive(Debug, Clone, Copy)]
pub struct Reckoned<'a> {
    /// What is declared.
    pub design: &'a DesignTerms,
    /// Standard deviation of residuals, in half ranges of the outcome.
    pub residual: f64,
    /// Standard deviation of what is to be found, likewise.
    pub signal: f64,
}

impl Reckoned<'_> {
    /// Both numbers in words.
    pub(crate) fn sizes(&self) -> String {
        let Reckoned { residual, signal, .. } = self;
        format!(
            "what is to be found has standard deviation {signal}, and residuals {residual}, in half ranges of the outcome"
        )
    }
}

impl DesignTerms {
    /// What is reckoned with.
    pub(crate) fn reckoned(&self) -> Reckoned<'_> {
        Reckoned {
            design: self,
            residual: self.residual.unwrap_or(DEFAULT_RESIDUAL),
            signal: self.signal.unwrap_or(DEFAULT_SIGNAL),
        }
    }
}

impl Foretold {
    /// The same in units, of `sites` sites with this number of rows each.
    pub(crate) fn sized(self, rows: u64, sites: u32, half_range: Option<f64>) -> Expectation {
        let size = |half_ranges: f64| Size { half_ranges, half_range };
        let mut assumed = vec![format!("every one of the {sites} sites has as many rows as this one")];
        assumed.extend(self.assumed);
        Expectation {
            of: self.of,
            assumed,
            rows,
            sites,
            batches: self.batches,
            noise_once: self.noise_once.map(size),
            noise: size(self.noise),
            error: size(self.error),
            error_fitted: self.fitted.map(size),
            error_alone: size(self.alone),
            error_zero: size(self.zero),
            relative_error: self.error / self.zero,
            relative_error_alone: self.alone / self.zero,
            // What is not finite is no better than anything.
            better_alone: !(self.error < self.alone),
            better_zero: !(self.error < self.zero),
            counts_noise: self.counts,
        }
    }
}

impl Expectation {
    /// Sizes with what they are of, in the order in which they are read.
    pub fn lines(&self) -> Vec<(String, Size)> {
        let mut lines = Vec::new();
        let after = match self.batches {
            Some(1) => "noise of the result, of 1 batch".to_owned(),
            Some(batches) => format!("noise of the result, of {batches} batches"),
            None => "noise of the result".to_owned(),
        };
        if let Some(once) = self.noise_once {
            lines.push((
                if self.batches.is_some() { "noise of one batch" } else { "noise of one round" }.to_owned(),
                once,
            ));
        }
        lines.push((after, self.noise));
        lines.push(("error of the result: noise, sampling, method".to_owned(), self.error));
        if let Some(fitted) = self.error_fitted {
            lines.push(("  as error of a fitted value".to_owned(), fitted));
        }
        lines.push(("nothing exchanged: own rows, no noise".to_owned(), self.error_alone));
        lines.push(("zero everywhere: length of what is sought".to_owned(), self.error_zero));
        lines
    }

    /// What speaks against the run, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.better_zero {
            warnings.push(format!(
                "this run is hopeless for this design: {} would do as well or better, for nothing",
                if self.batches.is_some() { "coefficients that are all zero" } else { "zero everywhere" }
            ));
        }
        if self.better_alone {
            let batches = match self.batches {
                Some(batches) if batches > u64::from(self.sites) => {
                    "; larger batches (`sites.batch_rows`) have less noise, as all of a site's cost as much as one"
                }
                _ => "",
            };
            warnings.push(format!(
                "for this design exchanging nothing would do as well or better: a site's own rows, fitted at home without noise{batches}"
            ));
        }
        warnings.extend(
            self.counts_sentence().map(|sentence| format!("{sentence}: p-values and intervals will be withheld")),
        );
        warnings
    }

    fn counts_sentence(&self) -> Option<String> {
        let share = self.counts_noise.filter(|share| !(*share <= MOST_COUNTS_NOISE))?;
        Some(format!(
            "the counts of residuals, from which standard errors are read, have noise of {:.0} % of a batch's rows, above {:.0} %",
            100.0 * share,
            100.0 * MOST_COUNTS_NOISE
        ))
    }

    /// What a reader of the result must know first, from public facts alone.
    pub fn caution(&self) -> Option<Caution> {
        // What is not finite is no smaller than anything.
        let noise = (!(self.relative_error < 1.0)).then(|| {
            let reason = format!(
                "its plan foretold, from public facts alone, an error of {:.0} % of what is sought ({}); more rows, larger batches or a larger \
                 epsilon make it less, and `privacy plan` says by how much",
                100.0 * self.relative_error,
                self.of
            );
            Caution::new(MOSTLY_NOISE, reason, true)
        });
        let counts = self.counts_sentence().map(|sentence| {
            let remedy = "larger batches (`sites.batch_rows`), more rows or a larger epsilon make it less";
            Caution::new(
                WITHHELD,
                format!("{sentence}, and intervals would miss more often than they say; {remedy}"),
                true,
            )
        });
        Caution::joined(noise, counts)
    }
}
