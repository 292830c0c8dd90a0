//! The account of what a party lets open without noise, kept in its ledger beside that of its budget.

use std::collections::BTreeSet;

use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::prepare::Prepared;
use fedreg_common::privacy::ledger::{Before, ColumnSketch, LedgerError, Opening, PersonDigester, PlainRun};
use fedreg_common::privacy::openings::{Account, NotOpened, Opens, RunAccount};

use crate::config::Config;
use crate::failure::Failure;
use crate::job::Job;
use crate::ledger::{Counted, LedgerFile};
use crate::party::Party;
use crate::private::data_file;
use crate::{ledger, plain};

/// The account of a sealed run, in a ledger that is made if there is none. The table that opens is exact: to the account of private
/// runs this is one without noise.
///
/// # Errors
/// A ledger that refuses.
pub(crate) fn account(job: &Job, run: RunId, table: &Prepared) -> Result<Box<dyn Account + Send>, Failure> {
    let config = &job.config;
    let mut ledger = ledger::open_or_create(&config.ledger(), &config.anchor()?)?;
    plain::take_in(&mut ledger)?;
    let (data_set, source) = (config.data_set(), source(job.party())?);
    let also = match &source {
        Some(source) => source.may_count([&config.ledger(), &config.anchor()?], &data_set)?,
        None => BTreeSet::new(),
    };
    let mut digester = PersonDigester::new(&ledger.key()?);
    table.identifiers().iter().for_each(|id| digester.push(id));
    let rows = digester.rows().to_vec();
    let persons = digester.finish(u32::MAX)?;
    // What the leader of several tells one of the others is in sums that hold the columns of all.
    let certificate = |peer: Role| job.party().certificate(peer).map(str::to_string);
    let peers = job.study.others(job.role).into_iter().map(certificate).collect::<Result<Vec<_>, Failure>>()?;
    let (run, study) = (run.to_string(), job.study.digest().to_string());
    // The coordinator names runs: one of which numbers are counted is over.
    if ledger.counted_runs().contains(&run) {
        return Err(LedgerError::RunExists { run }.into());
    }
    let shown =
        PlainRun { run: run.clone(), data_set: data_set.clone(), persons, peers: peers.clone(), study: study.clone() };
    ledger.record_plain(&[shown])?;
    let key = ledger.key()?;
    let sketches = table.sketches().iter().map(|(name, sketch)| ColumnSketch::new(name, sketch, &key)).collect();
    let told_by = job.study.head.rows.id.clone().unwrap_or_default();
    let opening = Opening { also, told_by, sketches, ..Opening::new(run, data_set, peers, study) };
    let data_set = config.data_set();
    Ok(Box::new(Bound { account: RunAccount::new(ledger, opening, rows), source, data_set }))
}

/// An account that binds its source to its ledger when something opens for the first time, and not before.
struct Bound {
    account: RunAccount<LedgerFile>,
    /// Until it is bound.
    source: Option<Counted>,
    data_set: String,
}

impl Account for Bound {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.account.may_open(opens)
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        if let Some(source) = &self.source {
            source.count_here(self.account.ledger(), &self.data_set)?;
            self.source = None;
        }
        self.account.open(opens)
    }
}

/// This party's source, by which what opens is counted; nothing of one that ends once it is read.
///
/// # Errors
/// A data base that cannot be asked, and a study without this party.
pub(crate) fn source(party: Party<'_>) -> Result<Option<Counted>, Failure> {
    Ok(Counted::of(&data_file(party), party.certificate(party.role)?)?)
}

/// Refuses a run whose source is counted in another ledger, or under another name, before the table is read; the other names under which
/// it is counted in this one.
///
/// # Errors
/// It is; a ledger or a source that cannot be read.
pub(crate) fn counted_here(party: Party<'_>) -> Result<BTreeSet<String>, Failure> {
    let (config, anchor) = (party.config, party.config.anchor()?);
    match source(party)? {
        Some(source) => Ok(source.may_count([&config.ledger(), &anchor], &config.data_set())?),
        None => Ok(BTreeSet::new()),
    }
}

/// What opened of this party's data set, and of its source under other names, in runs other than this one; where there is no ledger yet,
/// in plain runs.
///
/// # Errors
/// A ledger that refuses.
pub(crate) fn before(config: &Config, also: &BTreeSet<String>, run: Option<RunId>) -> Result<Before, LedgerError> {
    let opened = match config.anchor() {
        Ok(anchor) => ledger::open(&config.ledger(), &anchor),
        Err(_) if !config.ledger().exists() => return Ok(plain::before(&config.ledger(), &config.data_set())),
        Err(error) => Err(error),
    };
    match opened {
        Err(error) if error.is_missing() => Ok(plain::before(&config.ledger(), &config.data_set())),
        Err(error) => Err(error),
        Ok(mut ledger) => {
            ledger.opened_before(&config.data_set(), also, &run.map_or_else(String::new, |run| run.to_string()))
        }
    }
}

/// What opened before, in a sentence.
pub(crate) fn sentence(before: Before) -> Option<String> {
    let Before { runs, numbers, .. } = before;
    let times = if runs == 1 { "1 other run".to_string() } else { format!("{runs} other runs") };
    (runs > 0).then(|| format!("{times} let {numbers} numbers of this data set open"))
}
