//! A private fit, from the ledger to the report.

mod several;

use std::borrow::Borrow;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::exit::Exit;
use fedreg_common::fit::{Statistics, Termination};
use fedreg_common::id::RunId;
use fedreg_common::methods::vertical::private::{PrivateFit as Fit, PrivateSession, Setting, Table, has_changed};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::privacy::ledger::{Ledger, LedgerError, PersonDigests};
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::report::{Caution, Disclosure, PerParty, Report};
use fedreg_common::session::{Abort, Session, Turn};
use fedreg_common::study::Mechanism;
use fedreg_common::study::statement::Statement;

pub(crate) use self::several::{SeveralFit, SeveralLeaderFit};
use crate::config::Config;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::Job;
use crate::ledger::{self, DataFile, LedgerFile, use_file};
use crate::meet::{Met, Work};
use crate::output::Folder;
use crate::party::Party;
use crate::read::{self, Stated};
use crate::refit;

/// Draws beside those of the partial predictions: tables and vectors of the size of a block.
const FEW_DRAWS: usize = 1 << 12;

/// A private fit as a kind of joint run.
#[derive(Clone)]
pub(crate) struct PrivateFit {
    pub(crate) folder: Folder,
}

/// What is there before the run.
pub(crate) struct Ready {
    table: Table,
    setting: Setting<LedgerFile>,
}

impl Work for PrivateFit {
    type Table = Ready;
    type Session = PrivateSession<LedgerFile>;
    type Yield = Report;

    const COMMAND: &'static str = "fit";
    const READS_FIRST: bool = true;

    fn is_dealt(&self, job: &Job) -> bool {
        job.study.is_dealt()
    }

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        ready(job.party())
    }

    fn rows(ready: &Ready) -> u64 {
        ready.table.rows() as u64
    }

    fn interrupted(&self, job: &Job) -> Option<RunId> {
        // A ledger that cannot be opened is complained of when the data are read, where the others hear of it.
        let ledger = open(&job.config).ok()?;
        // Where nothing of it has left it is not claimed: the coordinator tells it if the other party is in it, and else another run
        // begins, which withdraws it.
        ledger.interrupted(&job.config.data_set(), &job.study.digest().to_string())?.parse().ok()
    }

    fn session(&self, _job: &Job, ready: Ready, opening: Opening) -> Result<Self::Session, Failure> {
        Ok(PrivateSession::new(ready.table, opening, ready.setting)?)
    }

    fn kept(&self, mut session: Self::Session) -> Result<Option<Driven<Self::Session>>, Failure> {
        Ok(match session.start()? {
            // The other one has sent its last message after all of ours.
            Turn::Finish(output) => Some(Driven::alone(session, output, true)),
            Turn::FinishAndSend { output, .. } => {
                let settled = session.is_delivered()?;
                Some(Driven::alone(session, output, settled))
            }
            Turn::Wait | Turn::Send(_) => None,
        })
    }

    fn given_up(&self, job: &Job, run: RunId, failure: &Failure, _nobodys: bool) {
        if failure.passes() {
            if open(&job.config).is_ok_and(|ledger| ledger.is_reserved(&run.to_string())) {
                tracing::info!("what run {run} reserved is not lost: the same command goes on with it");
            }
            return;
        }
        let run = run.to_string();
        let closed = open(&job.config).and_then(|mut ledger| match ledger.is_reserved(&run) {
            true => ledger.finish(&run).map(|()| ledger.is_withdrawn(&run)),
            false => Ok(false),
        });
        match closed {
            Ok(true) => {
                tracing::info!("run {run} costs nothing: nothing of it had left, and its charge was taken back")
            }
            Ok(false) => {}
            Err(error) => tracing::warn!("the end of the run is not in the privacy ledger: {error}"),
        }
    }

    fn progress(session: &Self::Session) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, mut met: Met<Self::Session>) -> Result<(Report, Exit), Failure> {
        let report = report(job, &met);
        if met.driven.confirmed {
            // Before the results: where they cannot be written, they can be made again from what is kept.
            met.driven.session.delivered()?;
        }
        self.folder.report(&report)?;
        let fit: &Fit = met.driven.output.borrow();
        refit::keep(&job.config, fit.kept.as_ref())?;
        tracing::info!("the report is in {}", self.folder.path().display());
        match met.driven.confirmed {
            true => met.driven.session.close()?,
            false => tracing::info!(
                "{} may lack our last message: the same command sends it again when {0} is started again",
                job.study.peer(job.role)
            ),
        }
        Ok((report, Exit::Done))
    }
}

/// Opens this party's ledger.
///
/// # Errors
/// It is missing, gone, damaged, changed or rolled back.
pub(crate) fn open(config: &Config) -> Result<Ledger<LedgerFile>, LedgerError> {
    ledger::open(&config.ledger(), &config.anchor()?)
}

/// What tells this party's file from others.
pub(crate) fn data_file(party: Party<'_>) -> DataFile<'_> {
    let Party { role, config, .. } = party;
    let id = party.id_column();
    DataFile { role, source: config.source(), separator: config.written().separator, id, grows: false }
}

/// Reads the table and all that a run needs beside it.
fn ready(party: Party<'_>) -> Result<Ready, Failure> {
    let Party { role, config, study } = party;
    allowed(party)?;
    let mut ledger = open(config)?;
    let table = read_table(party, true)?;
    if ledger.account(&config.data_set()).is_ok() {
        use_file(&mut ledger, &config.data_set(), &data_file(party))?;
    }
    let unfinished = ledger.unfinished(&config.data_set(), &study.digest().to_string()).map(str::to_owned);
    match unfinished {
        Some(run) if study.is_of_several() => several::close(&mut ledger, &run)?,
        Some(run) if has_changed(&table, &run, &mut ledger)? => return Err(moved(&config.source(), run)),
        Some(_) | None => {}
    }
    let persons = PersonDigests::new(&ledger.key()?, charged(party, &table)?, 1)?;
    let by_row = study.private().map_or(0, |terms| match terms.stated.mechanism {
        Mechanism::Residual => terms.stated.rounds as usize,
        Mechanism::Crossprod => 0,
    });
    let mut pool = NoisePool::new();
    // Before the parties meet: noise of one fixed law, in memory only, used once and after its charge.
    pool.fill(by_row * table.rows() + FEW_DRAWS).map_err(|error| Abort::Bug(error.to_string()))?;
    let peers = study.others(role).into_iter().map(|peer| Ok(party.certificate(peer)?.to_string()));
    let peers = peers.collect::<Result<Vec<String>, Failure>>()?;
    let setting = Setting { ledger, data_set: config.data_set(), persons, peers, pool };
    Ok(Ready { table, setting })
}

/// That the rows are not those with which a run was begun. A file is that of its party; what others may change is told as what it is.
pub(crate) fn moved(source: &Stated, run: String) -> Failure {
    match read::is_path(source.place()) {
        true => Abort::Changed { run }.into(),
        false => Failure::Moved { data: source.to_string(), run },
    }
}

/// Reads and clips this party's rows. For a run `lenient`: what cannot be used makes a row of zeros; otherwise it is
/// refused with its place.
pub(crate) fn read_table(party: Party<'_>, lenient: bool) -> Result<Table, Failure> {
    let frame = party.columns(lenient)?;
    let (study, policy) = (Arc::clone(party.study), party.config.policy());
    Ok(match lenient {
        true => Table::new(study, party.role, &policy, frame)?,
        false => Table::checked(study, party.role, &policy, frame)?,
    })
}

/// Reads and clips all rows of this party's table, those without a partner too; `lenient` as for [`read_table`].
pub(crate) fn read_all(party: Party<'_>, lenient: bool) -> Result<Table, Failure> {
    let frame = party.all_columns(lenient)?;
    let (study, policy) = (Arc::clone(party.study), party.config.policy());
    Ok(match lenient {
        true => Table::new(study, party.role, &policy, frame)?,
        false => Table::checked(study, party.role, &policy, frame)?,
    })
}

/// Whom a run is charged to: the rows that a match takes are no data set of their own, so that all rows of the table are charged.
pub(crate) fn charged(party: Party<'_>, table: &Table) -> Result<Vec<Vec<u8>>, Failure> {
    match party.study.head.matching {
        Some(_) => party.all_identifiers(),
        None => Ok(table.identifiers()),
    }
}

/// Refuses a model column that is also a key of the match, unless the study says that it may be: two tables that differ in it would not
/// match the same rows.
pub(crate) fn keys_apart(Party { role, config, study }: Party<'_>) -> Result<(), Abort> {
    let Some(terms) = &study.head.matching else { return Ok(()) };
    let model = study.named_columns(role);
    let is_modelled = |column: &str| model.iter().any(|name| name == column) || study.method.outcome.column == column;
    let reused =
        config.matching.columns.iter().find(|(key, own)| is_modelled(own.column()) && !terms.reused.contains(key));
    match reused {
        None => Ok(()),
        Some((key, own)) => Err(Abort::Refused(format!(
            "column `{}` of {role} is the key `{key}` and a column of the model: its values are not protected; leave it out of one, or \
             list `{key}` in `match.reused`",
            own.column()
        ))),
    }
}

/// Whether this party's policy allows what the study asks for.
pub(crate) fn allowed(party: Party<'_>) -> Result<(), Abort> {
    let Party { role, config, study } = party;
    keys_apart(party)?;
    let asked = study.private().map_or(0.0, |terms| terms.budget.epsilon());
    match config.policy.max_epsilon {
        Some(most) if asked > most => Err(Abort::Policy {
            who: role,
            what: format!("the study asks for epsilon {asked} in one run, at most {most} is allowed"),
        }),
        _ => Ok(()),
    }
}

fn report<S: Session<Output: Borrow<Fit>>>(job: &Job, met: &Met<S>) -> Report {
    let fit: &Fit = met.driven.output.borrow();
    let common = met.report(job);
    let declared = job.study.disclosures(job.role);
    let declared = declared.declared().iter().map(|declaration| declaration.name().to_string()).collect();
    Report {
        disclosure: PerParty::Own(Disclosure { declared, ..Disclosure::default() }),
        coefficients: fit.coefficients.clone(),
        statistics: Statistics { nobs: fit.nobs, ..Statistics::default() },
        rounds: fit.rounds,
        termination: Termination::FixedRounds,
        path: fit.path.clone(),
        lambda: fit.shown_lambda,
        notes: fit.notes.iter().cloned().chain(common.notes.clone()).collect(),
        privacy: PerParty::Own(Some(Statement { expected: Some(fit.outlook.clone()), ..fit.statement.clone() })),
        ..common
    }
    .with_derived()
    .cautioned(Caution::joined(fit.outlook.caution(), fit.caution.clone()))
    .cautioned(Caution::of_released(&fit.coefficients))
}
