//! A private fit of several parties.
//!
//! Masks are gone with the process that had them, so no run is taken up again: what an interrupted one reserved comes back where nothing
//! of it has left, and is spent otherwise.

use std::borrow::Borrow;

use fedreg_common::conversation::Opening;
use fedreg_common::exit::Exit;
use fedreg_common::id::RunId;
use fedreg_common::methods::vertical::private::{PrivateFit as Fit, SeveralSession};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::methods::vertical::several::{Hub, PrivateCentre};
use fedreg_common::privacy::ledger::{Ledger, LedgerError};
use fedreg_common::report::Report;
use fedreg_common::session::Session;

use super::{Ready, open, ready, report};
use crate::failure::Failure;
use crate::job::Job;
use crate::ledger::LedgerFile;
use crate::meet::{Met, Work};
use crate::output::Folder;
use crate::refit;
use crate::several::LeaderSession;

/// The fit of another party than the leader.
#[derive(Clone)]
pub(crate) struct SeveralFit {
    pub(crate) folder: Folder,
}

impl Work for SeveralFit {
    type Table = Ready;
    type Session = SeveralSession<LedgerFile>;
    type Yield = Report;

    const COMMAND: &'static str = "fit";
    const READS_FIRST: bool = true;

    fn is_dealt(&self, _job: &Job) -> bool {
        true
    }

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        ready(job.party())
    }

    fn rows(ready: &Ready) -> u64 {
        ready.table.rows() as u64
    }

    fn session(&self, _job: &Job, ready: Ready, opening: Opening) -> Result<Self::Session, Failure> {
        Ok(SeveralSession::follow(ready.table, opening, ready.setting)?)
    }

    fn given_up(&self, job: &Job, run: RunId, _failure: &Failure, _nobodys: bool) {
        give_up(job, run);
    }

    fn progress(session: &Self::Session) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Report, Exit), Failure> {
        write(&self.folder, job, &met)
    }
}

/// The fit of the leader.
#[derive(Clone)]
pub(crate) struct SeveralLeaderFit(pub(crate) SeveralFit);

impl Work for SeveralLeaderFit {
    type Table = Ready;
    type Session = LeaderSession<PrivateCentre<LedgerFile>>;
    type Yield = Report;

    const COMMAND: &'static str = "fit";
    const READS_FIRST: bool = true;

    fn is_dealt(&self, _job: &Job) -> bool {
        true
    }

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        self.0.read(job)
    }

    fn rows(ready: &Ready) -> u64 {
        ready.table.rows() as u64
    }

    fn session(&self, job: &Job, ready: Ready, opening: Opening) -> Result<Self::Session, Failure> {
        let hub = Hub::private(ready.table, &opening, ready.setting)?;
        Ok(LeaderSession::new(hub, &job.study.peers(job.role))?)
    }

    fn given_up(&self, job: &Job, run: RunId, _failure: &Failure, _nobodys: bool) {
        give_up(job, run);
    }

    fn progress(session: &Self::Session) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<Self::Session>) -> Result<(Report, Exit), Failure> {
        write(&self.0.folder, job, &met)
    }
}

fn write<S: Session<Output: Borrow<Fit>>>(folder: &Folder, job: &Job, met: &Met<S>) -> Result<(Report, Exit), Failure> {
    let report = report(job, met);
    folder.report(&report)?;
    let fit: &Fit = met.driven.output.borrow();
    refit::keep(&job.config, fit.kept.as_ref())?;
    tracing::info!("the report is in {}", folder.path().display());
    Ok((report, Exit::Done))
}

/// Closes a run that has ended without a result.
fn give_up(job: &Job, run: RunId) {
    let run = run.to_string();
    let closed = open(&job.config).and_then(|mut ledger| match ledger.is_reserved(&run) {
        true => close(&mut ledger, &run),
        false => Ok(()),
    });
    if let Err(error) = closed {
        tracing::warn!("the end of the run is not in the privacy ledger: {error}");
    }
}

/// Says in the ledger that a run without a result is over.
pub(super) fn close(ledger: &mut Ledger<LedgerFile>, run: &str) -> Result<(), LedgerError> {
    ledger.finish(run)?;
    match ledger.is_withdrawn(run) {
        true => tracing::info!("run {run} costs nothing: nothing of it had left, and its charge was taken back"),
        false => tracing::warn!(
            "run {run} ended without a result after this party had sent noised values: what it reserved is spent, and the next `fit` is \
             another run"
        ),
    }
    Ok(())
}
