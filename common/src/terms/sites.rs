//! Who takes part in a study between sites, how, and what a method says of itself to everybody else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::statement::Protects;
use super::suggestion::{FEW_EPSILONS, Search, counts};
use super::{Foretold, Guarantee, Guaranteed, NoExpectation, ROOM, Reckoned, Study, StudyError, value};
use crate::data::formula::Term;
use crate::fit::INTERCEPT;
use crate::id::Protocol;
use crate::privacy::bounds::{BoundsError, OutcomeBounds};
use crate::privacy::mechanism::{PlannedRelease, ReleasePlan};
use crate::privacy::release::Declaration;

/// Rows of functions, whose forecast takes the spectrum of their features apart each time.
const FUNCTION_ROWS: [u64; 2] = [10_000, 100_000];

/// One site of a horizontal study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTerms {
    /// The name in the worker's certificate.
    pub certificate: String,
    /// Rows that the site is known to have: in a robust study its votes are in proportion to them, if every worker has the
    /// key. Without it each site has one vote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// How sites take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SiteTerms {
    /// Rows of a batch; the last of a site may have fewer, or up to half as many more.
    pub batch_rows: u64,
    /// Workers of whom something must have come for the run to have a result; more than half, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u32>,
    /// Seconds after which the run ends with what has come.
    pub deadline: u64,
    /// Most rows of one person at a site of a private study: all of them together are what is protected.
    #[serde(skip_serializing_if = "is_one")]
    pub rows_per_person: u32,
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Default for SiteTerms {
    fn default() -> Self {
        SiteTerms { batch_rows: 1000, quorum: None, deadline: 86_400, rows_per_person: 1 }
    }
}

impl SiteTerms {
    /// How many of the workers must have contributed.
    pub(crate) fn quorum(&self, workers: usize) -> usize {
        self.quorum.map_or(workers / 2 + 1, |quorum| quorum as usize)
    }
}

/// A method between sites, `M`, and who they are.
#[derive(Debug, Clone, PartialEq)]
pub struct Sites<M> {
    /// The sites, by the name that reports use.
    pub workers: BTreeMap<String, WorkerTerms>,
    /// How they take part.
    pub terms: SiteTerms,
    /// Header of the outcome; empty for points, which have none.
    pub outcome: String,
    /// Columns of the model; none where a formula names its terms.
    pub features: Vec<String>,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// Terms of the model.
    pub model: Vec<Term>,
    /// Names of the coefficients, the intercept first: a categorical column has its declared levels, every other column is one
    /// coefficient.
    pub coefficients: Vec<String>,
    /// What is computed.
    pub method: M,
}

impl<M> Guaranteed for Sites<M> {
    type Guarantee = Guarantee;
}

/// A study between sites.
pub type Between<M> = Study<Sites<M>>;

/// What a method between sites says of itself. `M` is the list of methods, which knows every method and is known by none.
pub trait MethodTerms<M> {
    /// Its name.
    fn protocol(&self) -> Protocol;

    /// Whether sites answer round by round, and a round may be closed without one of them.
    fn in_rounds(&self) -> bool {
        false
    }

    /// Largest number of what the hub publishes during the run; none where it publishes nothing.
    fn last_broadcast(&self) -> Option<u64> {
        None
    }

    /// What a site of a plain study discloses.
    fn declared(&self) -> Vec<Declaration>;

    /// Every release of a site of a private study, in their order; none where the study cannot be used.
    fn releases(&self, study: &Between<M>) -> Option<ReleasePlan>;

    /// What a private run protects.
    fn protects(&self) -> Protects {
        Protects::Rows { batches: false }
    }

    /// The norm at which rows are cut, stated or not, where they are cut.
    fn row_norm(&self) -> Option<Option<f64>> {
        None
    }

    /// Half the public range of the outcome, 1 where it is not stated; none where there is no outcome.
    fn half_range(&self, study: &Between<M>) -> Option<f64>;

    /// What error to expect of a private run in which every site has this number of rows or records, at least one.
    ///
    /// # Errors
    /// Nothing sound can be said.
    fn foretold(&self, study: &Between<M>, rows: u64, reckoned: Reckoned<'_>) -> Result<Foretold, NoExpectation>;

    /// Whether that takes so little time that a report waits for it, of a run over a given number of records in this number of rounds; while it `goes_on`
    /// a report is written after every change.
    fn foretold_quickly(&self, goes_on: bool, _records: u64, _rounds: u32) -> bool {
        !goes_on
    }

    /// Numbers of rows and epsilons of the table of errors, `rows` being those that are planned for: fewer where a forecast takes its time.
    fn tabled(&self, rows: u64) -> (Vec<u64>, Vec<f64>) {
        (counts(rows, &FUNCTION_ROWS), FEW_EPSILONS.to_vec())
    }

    /// Other settings that were tried, and the best of them, where the study's own are expected to have the relative error `now`.
    fn search(&self, study: &Between<M>, rows: u64, now: f64) -> Search;
}

impl<M> Between<M> {
    /// How sites take part.
    pub fn site_terms(&self) -> &SiteTerms {
        &self.method.terms
    }

    /// Workers of whom something must have come.
    pub fn quorum(&self) -> usize {
        self.method.terms.quorum(self.method.workers.len())
    }

    /// Rows that the study declares for its workers: all of them or none.
    pub fn declared_rows(&self) -> BTreeMap<String, u64> {
        self.method.workers.iter().filter_map(|(name, terms)| Some((name.clone(), terms.rows?))).collect()
    }

    /// The name of the worker with a certificate's name.
    pub fn worker_of(&self, certificate: &str) -> Option<&str> {
        let mut workers = self.method.workers.iter();
        workers.find(|(_, terms)| terms.certificate == certificate).map(|(name, _)| name.as_str())
    }

    /// How many sites there may be.
    pub fn number_of_sites(&self) -> u32 {
        u32::try_from(self.method.workers.len().max(1)).unwrap_or(u32::MAX)
    }

    /// Most rows of one person at a site.
    pub fn rows_per_person(&self) -> u32 {
        self.method.terms.rows_per_person
    }

    /// The public range of the outcome.
    ///
    /// # Errors
    /// It is missing or cannot be used.
    pub fn outcome_bounds(&self) -> Result<OutcomeBounds, BoundsError> {
        self.head.bounds_of_outcome(&self.method.outcome)
    }

    /// The root of what one run costs a row at a site, as a sum of (sensitivity / sigma)^2; infinite without noise. A person with
    /// `sites.rows_per_person` rows costs that many times as much, which is the budget of the run.
    pub fn site_mu(&self) -> f64 {
        self.guarantee.row_mu(self.rows_per_person())
    }

    /// The plan of a site with these releases, each of which has the same share of the budget.
    pub(crate) fn even_plan(&self, labels: Vec<String>) -> ReleasePlan {
        let (whole, mu) = (labels.len() as f64, self.site_mu());
        let planned = |label| PlannedRelease { label, mu: mu * (1.0 / whole).sqrt() * ROOM };
        ReleasePlan::new(labels.into_iter().map(planned).collect())
    }

    /// The error that is expected of a method with the terms of this study, as a share of what is sought; none where a run would be refused.
    pub(crate) fn foretold(&self, method: &dyn MethodTerms<M>, rows: u64) -> Option<f64> {
        let reckoned = self.private()?.stated.design.reckoned();
        let foretold = (rows > 0).then(|| method.foretold(self, rows, reckoned))?.ok()?;
        Some(foretold.error / foretold.zero).filter(|error| error.is_finite())
    }

    /// Refuses declared facts of the design other than those that the method reckons with.
    pub(crate) fn check_design(&self, taken: &[&str], protocol: Protocol) -> Result<(), StudyError> {
        self.private().map_or(Ok(()), |terms| terms.stated.design.check(taken, protocol.name()))
    }

    /// Columns by name only: what products and powers of them are bounded by is not derived.
    pub(crate) fn only_features(&self, protocol: Protocol) -> Result<(), StudyError> {
        match self.method.features.is_empty() {
            true => Err(value(
                "model.formula",
                format!("has no place in a study of protocol `{}`; list `features`", protocol.name()),
            )),
            false => Ok(()),
        }
    }
}

impl<M> Sites<M> {
    pub(crate) fn with<N>(self, method: N) -> Sites<N> {
        let Sites { workers, terms, outcome, features, intercept, model, coefficients, .. } = self;
        Sites { workers, terms, outcome, features, intercept, model, coefficients, method }
    }

    /// Names of the inputs of a function: coefficients other than the intercept, of numeric columns and of levels of the others.
    pub fn inputs(&self) -> Vec<String> {
        self.coefficients.iter().filter(|name| *name != INTERCEPT).cloned().collect()
    }
}
