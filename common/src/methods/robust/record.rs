//! An estimate as a line of text, for pipelines in which other engines carry the estimates.

use serde::{Deserialize, Serialize};

use super::estimate::{Estimate, Gram};
use crate::names::LONGEST;

/// One line of JSON: an estimate, with the names that its numbers belong to.
///
/// Numbers have the fewest digits that read back as the same bits.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Name of the worker.
    pub worker: String,
    /// Number of the batch at this worker.
    pub batch: u64,
    /// The outcome's name.
    #[serde(default)]
    pub outcome: Option<String>,
    /// Names of the coefficients, `(Intercept)` first.
    #[serde(default)]
    pub terms: Option<Vec<String>>,
    /// The coefficients.
    pub coefficients: Vec<f64>,
    /// Cross products of the kept rows, lower triangle by rows; null where they stay at the worker.
    #[serde(default)]
    pub gram: Option<Gram>,
    /// Rows in the batch.
    pub nobs: u64,
    /// Rows kept.
    pub kept: u64,
    /// Standard deviation of the noise.
    pub scale: f64,
    /// Whether the batch could be cleaned.
    pub cleaned: bool,
}

// Sizes only, as for the estimate inside.
impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record")
            .field("worker", &self.worker)
            .field("batch", &self.batch)
            .field("coefficients", &self.coefficients.len())
            .finish_non_exhaustive()
    }
}

impl Record {
    /// A line for an estimate.
    pub fn new(estimate: Estimate, outcome: Option<String>, terms: Option<Vec<String>>) -> Record {
        let Estimate { worker, batch, coefficients, gram, nobs, kept, scale, cleaned } = estimate;
        Record { worker, batch, outcome, terms, coefficients, gram, nobs, kept, scale, cleaned }
    }

    /// The estimate without its names; it has yet to be checked.
    pub fn into_estimate(self) -> Estimate {
        let Record { worker, batch, coefficients, gram, nobs, kept, scale, cleaned, .. } = self;
        Estimate { worker, batch, coefficients, gram, nobs, kept, scale, cleaned }
    }

    /// As JSON without a line feed.
    ///
    /// # Errors
    /// A number that is not finite, which JSON cannot hold.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        let numbers = self.coefficients.iter().chain(self.gram.iter().flat_map(|gram| gram.packed()));
        if !(self.scale.is_finite() && numbers.clone().all(|x| x.is_finite())) {
            return Err(serde::ser::Error::custom("expected finite numbers in the estimate"));
        }
        serde_json::to_string(self)
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The text is not JSON, or is not an estimate, or has a name that is too long to be shown.
    pub fn parse(line: &str) -> Result<Record, serde_json::Error> {
        let record: Record = serde_json::from_str(line)?;
        let names = || record.terms.iter().flatten().chain(&record.outcome).chain([&record.worker]);
        let fit = names().all(|name| name.len() <= LONGEST);
        match fit {
            true => Ok(record),
            false => Err(serde::de::Error::custom(format!("expected names of at most {LONGEST} bytes"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            worker: "north".into(),
            batch: 3,
            outcome: Some("cost".into()),
            terms: Some(vec!["(Intercept)".into(), "age".into()]),
            coefficients: vec![0.1 + 0.2, -1e-300],
            gram: Some(Gram::from_packed(vec![4.0, 1.0, 3.0])),
            nobs: 20,
            kept: 18,
            scale: 1.0 / 3.0,
            cleaned: true,
        }
    }

    #[test]
    fn a_line_reads_back_as_the_same_bits() {
        let line = record().line().unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(Record::parse(&line).unwrap(), record());
        let estimate = record().into_estimate();
        assert_eq!(Record::new(estimate, record().outcome, record().terms), record());
    }

    #[test]
    fn what_json_cannot_hold_is_not_written_and_what_is_no_estimate_is_not_read() {
        assert!(Record { scale: f64::NAN, ..record() }.line().is_err());
        assert!(Record { coefficients: vec![f64::INFINITY], ..record() }.line().is_err());
        let line = record().line().unwrap();
        for broken in
            [&line[..line.len() - 3], "", "[]", &line.replace("-1e-300", "NaN"), &line.replace("scale", "skale")]
        {
            assert!(Record::parse(broken).is_err(), "{broken}");
        }
        let named = |length: usize| Record { worker: "w".repeat(length), ..record() }.line().unwrap();
        assert!(Record::parse(&named(LONGEST)).is_ok());
        let long = Record::parse(&named(70_000)).unwrap_err().to_string();
        assert!(long.starts_with("expected names of at most 1000 bytes"), "{long}");
    }
}
