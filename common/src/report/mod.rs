//! The report: one value from which the text, the JSON, the CSV and the HTML page are made.
//!
//! JSON and CSV are the value itself. For text and page the room `report` of the run's method makes [`section::Section`]s of it, and
//! [`layout::Layout`] arranges them between what all reports have: the warning, the head, notes, the privacy account and the footer.
//!
//! Nothing in it belongs to a single record: no residuals, no fitted values, no row numbers.

pub(crate) mod account;
pub mod axes;
pub mod caution;
pub(crate) mod coefficients;
pub mod csv;
pub(crate) mod function;
pub mod hypothesis;
pub mod json;
pub mod layout;
mod matching;
pub mod merge;
pub(crate) mod number;
pub(crate) mod plot;
pub mod section;
pub(crate) mod sites;
pub mod table;

pub use matching::MatchReport;
pub(crate) use matching::of_report as matched_rows;
pub use number::visible;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::fit::INTERCEPT;
use crate::fit::{
    Coefficient, Consolidation, Covariance, Measures, Performance, Statistics, TermTest, Termination, number_or_null,
};
use crate::glm::StatedFamily;
use crate::id::{Mode, Protocol, Role};
pub use crate::privacy::caution::Caution;
use crate::study::Function;
use crate::study::statement::Statement;

/// The version of this program, as reports state it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything that a party, or the merged view of the demo, has to say about one run.
///
/// Numbers round-trip through JSON; what is undefined is null.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The method.
    pub protocol: Protocol,
    /// The guarantee.
    pub mode: Mode,
    /// The study's id.
    pub study: String,
    /// The study's digest.
    pub study_digest: String,
    /// The run's id.
    pub run: String,
    /// When the run ended, RFC 3339 in UTC; `None` where no clock was looked at.
    #[serde(default)]
    pub date: Option<String>,
    /// The version of the program that made the report.
    #[serde(default)]
    pub version: String,
    /// Whose report this is; `None` for the merged one.
    pub role: Option<Role>,
    /// The parties of a study of several, the leader first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Role>,
    /// What the reader must know before the numbers; stands first in text and page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<Caution>,
    /// The command that was called, as R prints it.
    pub call: String,
    /// Family of the model.
    pub family: StatedFamily,
    /// Its link.
    pub link: String,
    /// The outcome's name.
    pub outcome: String,
    /// That the report is of a sub-model, computed from what an earlier run had opened, and of which run; null in the report of a fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refit: Option<Refit>,
    /// The coefficient table, on the original scale.
    pub coefficients: Vec<Coefficient>,
    /// What standard errors follow from, where it is not the variance that the family states: "HC0", "HC1", "HC2" or "HC3".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<String>,
    /// Fit statistics.
    #[serde(flatten)]
    pub statistics: Statistics,
    /// What follows from them.
    #[serde(flatten)]
    pub measures: Measures,
    /// Covariance matrix of the coefficients: a party's own block, in the merged report each party's.
    #[serde(default)]
    pub covariance: Option<Covariance>,
    /// Wald tests and variance inflation of the terms: a party's own, in the merged report those of all.
    #[serde(default)]
    pub term_tests: Option<Vec<TermTest>>,
    /// Discrimination and calibration of a binomial fit in plain mode, at the party that holds the outcome. They are of the rows
    /// of the fit itself, so they flatter it.
    #[serde(default)]
    pub performance: Option<Performance>,
    /// Exchanges.
    pub rounds: u32,
    /// Whether the estimates are the solution; null in private mode, where nobody may look.
    pub converged: Option<bool>,
    /// Why it ended.
    pub termination: Termination,
    /// The tolerance of the stopping rule.
    #[serde(deserialize_with = "number_or_null")]
    pub tol: f64,
    /// The course of the iteration, a point a round: for the picture. Empty in private mode.
    pub trace: Vec<TracePoint>,
    /// Things the reader must know: columns set aside, rows dropped, what was not checked, and why.
    pub notes: Vec<String>,
    /// Rows left out because a value was missing in them.
    pub missing: u64,
    /// The penalty weight to which the coefficient table belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda: Option<f64>,
    /// A lambda path, if one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<PathPoint>>,
    /// Cross-validation, if asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cv: Option<Vec<CvPoint>>,
    /// The lambda of the smallest cross-validated error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda_min: Option<f64>,
    /// The largest lambda within one standard error of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda_1se: Option<f64>,
    /// Scaled gradient at the end; null in private mode.
    pub certificate: PerParty<Option<f64>>,
    /// Bytes that left, message by message, before TLS.
    pub bytes_sent: PerParty<u64>,
    /// Largest resident memory of the process.
    pub peak_rss_bytes: PerParty<Option<u64>>,
    /// Numbers that lay in files because memory was short; absent where none did, and of others under privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_files: Option<PerParty<InFiles>>,
    /// Where the time went.
    pub seconds: PerParty<Seconds>,
    /// What left.
    pub disclosure: PerParty<Disclosure>,
    /// The match that the rows of the fit come from, where the study asks for one.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<PerParty<MatchReport>>,
    /// The privacy account; null in plain mode.
    pub privacy: PerParty<Option<Statement>>,
    /// Which batches of a robust fit were trusted, and why.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Consolidation>,
    /// The sites of a horizontal run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<WorkerRow>>,
    /// The result over time, of a fit that follows a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// Least squares of the pooled rows, for comparison; in a rehearsal only, where all rows are in one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Vec<Comparison>>,
    /// A function that anyone can predict with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<Function>,
}

impl Report {
    /// The colours of its parties.
    pub(crate) fn colours(&self) -> plot::Colours<'_> {
        plot::Colours(&self.parties)
    }

    /// Whether more than two parties took part.
    pub fn is_of_several(&self) -> bool {
        self.parties.len() > 2
    }

    /// Of several parties, the one that all others spoke with.
    pub fn leader_of_several(&self) -> Option<Role> {
        self.parties.first().copied().filter(|_| self.is_of_several())
    }

    /// All parties in order: those that the report names, else alice and bob.
    pub fn all_parties(&self) -> &[Role] {
        if self.parties.is_empty() { &[Role::Alice, Role::Bob] } else { &self.parties }
    }

    /// The party that holds the intercept.
    pub fn first(&self) -> Role {
        self.all_parties().first().copied().unwrap_or(Role::Alice)
    }

    /// Of two parties, both: the first one holds the intercept.
    pub fn pair(&self) -> [Role; 2] {
        [self.first(), self.peer_of(self.first())]
    }

    /// Of two parties, the other one.
    pub fn peer_of(&self, role: Role) -> Role {
        self.all_parties().iter().copied().find(|party| *party != role).unwrap_or(role)
    }

    /// With the numbers that follow from those that are there: ratios of the coefficients, and measures of the whole fit.
    /// After separation there are none, and no likelihood: they would be of the point where the iterations ended, which is no maximum.
    ///
    /// # Privacy
    /// In private mode only the ratios, which follow from the estimates that were released.
    #[must_use]
    pub fn with_derived(mut self) -> Report {
        if self.termination == Termination::Separation {
            let Statistics { aic, bic, log_lik, .. } = &mut self.statistics;
            (*aic, *bic, *log_lik) = (None, None, None);
            self.measures = Measures::default();
            return self;
        }
        self.coefficients = self.coefficients.into_iter().map(|row| row.with_ratio(self.family)).collect();
        // Where the rounds ended before the maximum, the deviance is of no fit that a test could be about.
        self.measures = match self.noised() || self.termination == Termination::MaxRounds {
            true => Measures::default(),
            false => Measures::of(&self.statistics, self.family),
        };
        self
    }

    /// Whether all that is known of the run was released with noise, and nobody may look at its course.
    pub(crate) fn noised(&self) -> bool {
        match self.mode {
            Mode::Plain | Mode::Sealed => false,
            Mode::Private => true,
        }
    }
}

/// How a sub-model came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refit {
    /// The run whose tables it was computed from.
    pub run: String,
    /// Terms of that run's fit that were left out.
    pub dropped: Vec<Dropped>,
    /// Numbers that left this party for it: none.
    pub numbers_sent: u64,
    /// What it cost of a privacy budget, as a sum of `(sensitivity / sigma)^2`: nothing.
    pub charged: f64,
}

/// A term that a sub-model leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The name of its coefficient.
    pub term: String,
    /// Who holds it.
    pub party: Role,
}

/// A coefficient beside those of least squares on pooled rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Its name.
    pub term: String,
    /// Ours.
    pub estimate: Option<f64>,
    /// Least squares of all rows, the damaged ones included.
    pub pooled: Option<f64>,
    /// The standard error that it would print.
    pub pooled_std_error: Option<f64>,
    /// Least squares of the rows that were not damaged, as they were before.
    pub undamaged: Option<f64>,
}

/// One site of a horizontal run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Its name in the study.
    pub worker: String,
    /// How it ended, in words.
    pub state: String,
    /// Contributions that were accepted.
    pub contributions: u64,
    /// Messages that were not accepted.
    pub rejected: u64,
    /// Bytes of the numbers that it contributed.
    pub bytes: u64,
}

/// The result over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Course {
    /// Names of the coefficients.
    pub terms: Vec<String>,
    /// Contributions that counted.
    pub arrivals: u64,
    /// Times that a change of the truth was followed.
    pub switches: u64,
    /// The result after some of the arrivals, evenly spread.
    pub points: Vec<CoursePoint>,
}

/// The result after an arrival.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CoursePoint {
    /// Which, from 1.
    pub arrival: u64,
    /// The coefficients after it.
    pub coefficients: Vec<f64>,
    /// Whether it lay far outside what was trusted before.
    pub outside: bool,
    /// Whether a change of the truth was followed.
    pub switched: bool,
}

/// A value of one party, or of each: bare in a party's own report, keyed by role in the merged one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PerParty<T> {
    /// In the merged report.
    Merged(BTreeMap<Role, T>),
    /// In a party's own.
    Own(T),
}

/// Wall-clock seconds by phase.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Seconds {
    /// Reading and encoding the data.
    #[serde(deserialize_with = "number_or_null")]
    pub read: f64,
    /// Computing.
    #[serde(deserialize_with = "number_or_null")]
    pub solve: f64,
    /// Sending and waiting for the peer.
    #[serde(deserialize_with = "number_or_null")]
    pub exchange: f64,
    /// From the start of the process's work to its end. `total - read` counts from the moment both have read.
    #[serde(deserialize_with = "number_or_null")]
    pub total: f64,
}

impl Seconds {
    /// Not measured, or not to be shown: null in JSON.
    pub const UNKNOWN: Seconds = Seconds { read: f64::NAN, solve: f64::NAN, exchange: f64::NAN, total: f64::NAN };
}

/// Numbers of a process that lay in files because memory was short. What else it read from the disk after its table counts too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InFiles {
    /// Bytes that lay in files at most at one time.
    pub bytes: u64,
    /// Bytes that were read from the disk since the table had been read, where the system tells.
    pub read_bytes: Option<u64>,
}

impl InFiles {
    /// How often all of it was read again, on average.
    pub fn passes(&self) -> Option<f64> {
        self.read_bytes.filter(|_| self.bytes > 0).map(|read| read as f64 / self.bytes as f64)
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        let lay = number::bytes(self.bytes);
        match self.passes() {
            Some(0.0) => format!("{lay}, not read from the disk again"),
            Some(passes) => format!("{lay}, read {passes:.1} times from the disk"),
            None => lay,
        }
    }
}

/// What left a party.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Disclosure {
    /// Vectors with one value a row that were sent.
    pub vectors: u64,
    /// Dimensions of the own block that they span.
    pub rank: u64,
    /// Kinds of values that left, as the study declares them.
    pub declared: Vec<String>,
    /// Per own column.
    pub columns: Vec<ColumnDisclosure>,
    /// What opened to the peer in sealed mode, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<Opened>,
}

impl Disclosure {
    /// The kinds in one line.
    pub(crate) fn kinds(&self) -> String {
        let kinds: Vec<String> = self.declared.iter().map(|kind| visible(kind)).collect();
        kinds.join(", ")
    }
}

/// How [`Opened::what`] begins for the tables of all pairs of several parties.
pub(crate) const OF_PAIRS: &str = "cross-products of";

/// What the table of two parties is called where it opened.
pub(crate) const OF_BOTH: &str = "cross-products of both blocks";

/// What opened to one party in sealed mode: exact numbers about columns of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// What it is.
    pub what: String,
    /// Its rows.
    pub rows: u64,
    /// Its columns.
    pub columns: u64,
    /// Its numbers, with those that belong to it and stand beside it.
    pub numbers: u64,
    /// Unknown values that the numbers are about: rows of the data times the columns of the party that has fewer.
    pub unknowns: u64,
    /// Who received it.
    pub to: Role,
}

/// How much of one own column the peer could reconstruct; in sealed mode, could predict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnDisclosure {
    /// The column.
    pub term: String,
    /// R squared of the centred column on everything that was sent, from 0 to 1; in sealed mode, on the peer's own columns and on the
    /// outcome where it holds that, as the opened cross-products allow. Of sealed binomial and poisson fits this is no upper bound: their
    /// gradients and weighted cross-products, which are not counted, let the peer predict more.
    #[serde(deserialize_with = "number_or_null")]
    pub share: f64,
}

/// One round of the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TracePoint {
    /// The round.
    pub round: u32,
    /// Scaled gradient, the larger of both sides.
    #[serde(deserialize_with = "number_or_null")]
    pub certificate: f64,
    /// Relative change of the coefficients, the larger of both sides.
    #[serde(deserialize_with = "number_or_null")]
    pub change: f64,
    /// Deviance plus penalty.
    #[serde(deserialize_with = "number_or_null")]
    pub objective: f64,
}

/// One value of lambda on a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathPoint {
    /// The penalty weight.
    #[serde(deserialize_with = "number_or_null")]
    pub lambda: f64,
    /// Coefficients that are not zero, of those listed here: in a party's own report of a plain path its own alone, in the merged
    /// one all.
    pub df: u64,
    /// Deviance at the solution.
    #[serde(deserialize_with = "number_or_null")]
    pub deviance: f64,
    /// Largest violation of the optimality conditions.
    #[serde(deserialize_with = "number_or_null")]
    pub kkt: f64,
    /// The coefficients, original scale, in the order of the coefficient table.
    pub coefficients: Vec<PathCoefficient>,
}

/// A coefficient on a path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathCoefficient {
    /// The term.
    pub term: String,
    /// Who holds it.
    pub party: Role,
    /// Its estimate; `None` for a column that depends on earlier ones.
    pub estimate: Option<f64>,
}

/// One value of lambda in cross-validation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CvPoint {
    /// The penalty weight.
    #[serde(deserialize_with = "number_or_null")]
    pub lambda: f64,
    /// Mean cross-validated error: squared error for gaussian, deviance otherwise.
    #[serde(deserialize_with = "number_or_null")]
    pub mean: f64,
    /// Its standard error over the folds.
    #[serde(deserialize_with = "number_or_null")]
    pub se: f64,
}

impl<T: Default> Default for PerParty<T> {
    fn default() -> PerParty<T> {
        PerParty::Own(T::default())
    }
}

impl<T> PerParty<T> {
    /// The value of a role; in an own report, the value whatever the role.
    pub fn of(&self, role: Role) -> Option<&T> {
        match self {
            PerParty::Merged(all) => all.get(&role),
            PerParty::Own(value) => Some(value),
        }
    }

    /// The value of a role in the merged report, or the bare one of an own report.
    pub(crate) fn of_or_own(&self, role: Option<Role>) -> Option<&T> {
        match (self, role) {
            (PerParty::Own(value), _) => Some(value),
            (PerParty::Merged(all), Some(role)) => all.get(&role),
            (PerParty::Merged(_), None) => None,
        }
    }

    /// Every value with its role; the bare one of an own report belongs to `own`.
    pub(crate) fn each(&self, own: Option<Role>) -> Vec<(Option<Role>, &T)> {
        match self {
            PerParty::Merged(all) => all.iter().map(|(role, value)| (Some(*role), value)).collect(),
            PerParty::Own(value) => vec![(own, value)],
        }
    }
}

#[cfg(test)]
#[expect(clippy::excessive_precision, reason = "reference values stand as R printed them")]
mod tests;
