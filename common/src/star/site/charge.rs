//! A site's ledger in one run: the budget is claimed, reserved once the quorum is reached, and spent release by release.

use std::collections::BTreeMap;

use crate::id::{Digest, RunId};
use crate::privacy::accountant::Budget;
use crate::privacy::ledger::{Ledger, LedgerError, PersonDigests, Storage, keyed};
use crate::privacy::mechanism::records::Spending;
use crate::privacy::mechanism::{NoisedRelease, Query, ReleasePlan};
use crate::privacy::sampler::NoisePool;
use crate::session::Abort;
use crate::study::{Sites, Study};

/// What a run asks of the ledger for all its releases.
#[derive(Debug)]
pub struct Claim {
    /// Whom they are about.
    pub persons: Persons,
    /// The releases, where they are not those that the study alone tells.
    pub plan: Option<ReleasePlan>,
}

impl Claim {
    /// What the records of a run may spend whose persons are not known beforehand.
    pub fn spending(&self) -> Option<Spending> {
        match self.persons {
            Persons::Known { .. } => None,
            Persons::Anyone { spending } => Some(spending),
        }
    }
}

/// Whom the releases of a run are about.
#[derive(Debug)]
pub enum Persons {
    /// The persons of these rows.
    Known {
        /// Of each row.
        ids: Vec<Vec<u8>>,
        /// How many rows.
        rows: u64,
    },
    /// Persons who come one after the other, each with as many records as the budget has room for: a ledger has one stream, which may show anyone.
    Anyone {
        /// What each record costs.
        spending: Spending,
    },
}

/// A ledger in one run of a site.
pub struct RunLedger<S> {
    /// The ledger.
    pub ledger: Ledger<S>,
    /// Noise that no release has used yet.
    pub pool: NoisePool,
    data_set: String,
    run: String,
    study: String,
    bounds: BTreeMap<String, String>,
    coordinator: String,
    plan: ReleasePlan,
    budget: Budget,
    large: bool,
    rows_per_person: u32,
    claimed: Option<Claimed>,
}

/// What was found to be possible.
struct Claimed {
    persons: PersonDigests,
    about: String,
    /// Whether an earlier process has reserved it.
    reserved: bool,
}

/// What a run on rows of this content is said to be of in the ledger of a site.
pub fn about(study: &str, key: &[u8; 32], content: &[u8]) -> String {
    format!("{study} of rows {}", Digest(keyed(key, &[content])))
}

/// Refuses a budget whose delta is above one over a given number of rows.
///
/// # Errors
/// It is.
pub fn suits(budget: &Budget, rows: u64, large: bool) -> Result<(), Abort> {
    let checked = Budget::new(budget.epsilon(), budget.delta(), budget.accountant(), rows, large);
    checked.map(drop).map_err(|error| Abort::Refused(error.to_string()))
}

impl<S: Storage> RunLedger<S> {
    /// A data set's ledger in a run. Nothing is spent yet.
    ///
    /// # Errors
    /// The study has no budget.
    pub fn new(ledger: Ledger<S>, data_set: String, study: &Study<Sites>, run: RunId) -> Result<RunLedger<S>, Abort> {
        let missing = || Abort::Bug("a private run without a budget".to_string());
        let terms = study.private().ok_or_else(missing)?;
        Ok(RunLedger {
            ledger,
            pool: NoisePool::new(),
            bounds: study.stated_bounds(),
            data_set,
            run: run.to_string(),
            study: study.digest().to_string(),
            coordinator: study.head.coordinator.certificate.clone(),
            plan: study.site_plan().ok_or_else(missing)?,
            budget: terms.budget,
            large: terms.stated.large_epsilon.is_some(),
            rows_per_person: study.rows_per_person(),
            claimed: None,
        })
    }

    /// Finds that the budget is there, or is reserved already; nothing is charged. `content` is a digest of the rows in their order:
    /// releases of one run are charged together because they are about the same rows, each in its place.
    ///
    /// # Errors
    /// The budget is not there, or was reserved for other rows.
    pub fn claim(&mut self, claim: Claim, content: &[u8]) -> Result<(), Abort> {
        let key = self.ledger.key()?;
        let (persons, rows, content) = match claim.persons {
            Persons::Known { ids, rows } => (PersonDigests::new(&key, ids, self.rows_per_person)?, rows, content),
            Persons::Anyone { .. } => (PersonDigests::anyone(), 1, &[][..]),
        };
        if let Some(plan) = claim.plan {
            self.plan = plan;
        }
        // Delta must be below one over the rows, whose number only this site knows.
        suits(&self.budget, rows, self.large)?;
        let about = about(&self.study, &key, content);
        let resumes = self.ledger.resumes(&self.run, &self.data_set, &about);
        if matches!(resumes, Err(LedgerError::RunExists { .. })) && self.ledger.is_reserved(&self.run) {
            return Err(Abort::Changed { run: self.run.clone() });
        }
        let reserved = resumes?;
        if !reserved {
            self.ledger.afford(&self.data_set, &persons, &about, &self.plan)?;
        }
        self.claimed = Some(Claimed { persons, about, reserved });
        Ok(())
    }

    /// Reserves what was claimed, unless it is reserved already. When this returns the charge is on disk. Runs of the same study that
    /// were interrupted before anything of them was stored are withdrawn with it.
    ///
    /// # Errors
    /// Nothing was claimed, or the budget is not there any more.
    pub fn reserve(&mut self) -> Result<(), Abort> {
        let Some(Claimed { persons, about, reserved }) = &self.claimed else {
            return Err(Abort::Bug("a charge that was not claimed".to_string()));
        };
        if !reserved {
            let peers = [self.coordinator.clone()];
            self.ledger.state_bounds(&self.data_set, &self.study, &self.bounds)?;
            self.ledger.reserve(&self.run, &self.data_set, persons, &peers, about, &self.plan)?;
        }
        Ok(())
    }

    /// One release, or the one that was made before.
    ///
    /// # Errors
    /// A release that was not planned, a ledger or noise that fails; nothing may leave then.
    pub fn release(&mut self, index: u32, query: &Query) -> Result<NoisedRelease, Abort> {
        self.ledger.release(&self.run, index, query, &mut self.pool)
    }

    /// Whether a release of the run was made before.
    pub fn has_begun(&self) -> bool {
        !self.ledger.receipts(&self.run).is_empty()
    }

    /// Runs on the data set that were withdrawn, this one's predecessors among them.
    pub fn withdrawn(&self) -> Vec<String> {
        let unreleased = self.ledger.unreleased(&self.data_set).into_iter();
        unreleased.filter(|known| known.withdrawn).map(|known| known.run).collect()
    }

    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }
}
