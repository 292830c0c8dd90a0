//! What every match has in common as a joint run, whatever its protocol: what it leaves when it is interrupted, and when it ends.

use std::sync::{Arc, OnceLock};

use fedreg_common::conversation::Opening;
use fedreg_common::data::matching::alignment::{Alignment, MatchPurpose, MatchRecord};
use fedreg_common::data::matching::{NORMALISER, unicode};
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::session::{Session, Turn};
use fedreg_common::study::MatchProtocol;

use super::journal::{self, Kept};
use super::{about, keep, linked, not_begun, rations, terms};
use crate::alignment;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::Job;
use crate::matching::Found;
use crate::meet::drawn;
use crate::output::{Folder, chain};
use crate::party::Party;

/// A match that is being made.
#[derive(Clone)]
pub(super) struct Attempt {
    folder: Folder,
    pub(super) purpose: MatchPurpose,
    /// Where the match comes from, once the run has a name.
    about: Arc<OnceLock<MatchRecord>>,
}

impl Attempt {
    pub(super) fn new(folder: Folder, purpose: MatchPurpose) -> Attempt {
        Attempt { folder, purpose, about: Arc::default() }
    }

    /// The run that was interrupted here and goes on.
    pub(super) fn interrupted(&self, job: &Job) -> Option<RunId> {
        let run = unfinished(job.party(), self.purpose);
        if let (None, Some(begun)) = (run, journal::begun(&job.config.state)) {
            tracing::info!("the match {} was interrupted here with another table or study: matching anew", begun.run);
        }
        run
    }

    /// Counts the match and opens what is kept of it, before the first message leaves; of `rows` of a table with this digest. With the
    /// opening of the run, whose secret is the one that is kept.
    ///
    /// # Errors
    /// The match is one too many; files that cannot be read or written.
    pub(super) fn begin(
        &self,
        job: &Job,
        (data, rows): (Digest, u64),
        opening: Opening,
    ) -> Result<(Kept, Opening), Failure> {
        let party = job.party();
        let bound = bound(party, self.purpose, data)?;
        let about = about(job, self.purpose, opening.run, data, rows)?;
        // Counted with the run, which may show its count: one that ends before that is counted too. One that goes on has been counted.
        let goes_on =
            journal::begun(&party.config.state).is_some_and(|begun| begun.run == opening.run && begun.bound == bound);
        rations::count(party, opening.run, self.purpose, goes_on)?;
        // A run has one session; should there be another, it is of the same table.
        let _ = self.about.set(about);
        // Of a run that is interrupted from here on every message has the same bytes again. The secret is never that of `--seed`, which
        // others may guess.
        let kept = Kept::of(&party.config.state, opening.run, drawn()?, bound)?;
        let opening = Opening { seed: kept.seed(), ..opening };
        Ok((kept, opening))
    }

    /// Whether all of an interrupted run is kept here.
    ///
    /// # Errors
    /// What is kept cannot be read.
    pub(super) fn kept<S: Session>(mut session: S) -> Result<Option<Driven<S>>, Failure> {
        Ok(match session.start()? {
            // The other one has sent its last message after all of ours.
            Turn::Finish(output) => Some(Driven::alone(session, output, true)),
            Turn::FinishAndSend { output, .. } => Some(Driven::alone(session, output, false)),
            Turn::Wait | Turn::Send(_) => None,
        })
    }

    /// Keeps what the next command goes on with, or erases what nobody goes on with.
    pub(super) fn given_up(job: &Job, run: RunId, failure: &Failure, nobodys: bool) {
        let passes = matches!(failure.exit(), Exit::Unreachable | Exit::Interrupted | Exit::CannotWrite);
        if passes && !nobodys {
            tracing::info!("the match {run} is not lost: the same command goes on with it");
            return;
        }
        if nobodys {
            tracing::warn!(
                "the match {run} cannot go on, as {} is not in it any more: the same command on {} makes a new one, which counts \
                 as one more (policy.max_matches)",
                names(job, "or"),
                if job.study.leader().is_some() { "all sides" } else { "both sides" }
            );
        }
        if let Err(error) = journal::erase(&job.config.state) {
            tracing::warn!("{}", chain(&error));
        }
    }

    /// Writes the match where it belongs; `found` gives it what its end has shown. It is `over` where the other one has the last message, or
    /// has left the run.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn end(
        &self,
        job: &Job,
        (over, bytes_sent): (bool, u64),
        found: impl FnOnce(MatchRecord) -> Alignment,
    ) -> Result<(Found, Exit), Failure> {
        let alignment = found(self.about.get().cloned().ok_or_else(not_begun)?);
        let found = keep(job, &self.folder, &alignment, bytes_sent)?;
        match over {
            true => journal::erase(&job.config.state)?,
            false => tracing::info!(
                "{} may lack our last message: the same command sends it again when {0} is started again",
                names(job, "or")
            ),
        }
        Ok(found)
    }
}

/// With whom this party speaks.
pub(super) fn names(job: &Job, word: &str) -> String {
    let names: Vec<String> = job.study.peers(job.role).iter().map(ToString::to_string).collect();
    names.join(&format!(" {word} "))
}

/// The match that was interrupted here and goes on with the same command.
pub(super) fn unfinished(party: Party<'_>, purpose: MatchPurpose) -> Option<RunId> {
    let begun = journal::begun(&party.config.state)?;
    let data = alignment::fingerprint(&party.config.source()).ok()?;
    (bound(party, purpose, data).ok()? == begun.bound).then_some(begun.run)
}

/// The digest of what an interrupted match is bound to, which is all that its messages depend on: another study, other rows, other data or
/// another release begin anew.
fn bound(party: Party<'_>, purpose: MatchPurpose, data: Digest) -> Result<Digest, Failure> {
    let study = party.study.digest();
    let columns = serde_json::to_string(&party.config.matching).unwrap_or_default();
    let decides = alignment::match_digest(party)?;
    let policy = &party.config.policy;
    let more = format!(
        "{:?} {:?} {:?} {:?} {}",
        party.config.written().separator,
        policy.min_matched,
        policy.max_peer_rows,
        (NORMALISER, unicode()),
        env!("CARGO_PKG_VERSION")
    );
    let pairs = match terms(party)?.protocol {
        MatchProtocol::Direct | MatchProtocol::Coordinator => None,
        MatchProtocol::Linked => Some(alignment::fingerprint(&linked::place(party)?.into())?),
    };
    let fields: [&[u8]; 6] =
        [&study.0, &decides.0, purpose.name().as_bytes(), &data.0, columns.as_bytes(), more.as_bytes()];
    let mut bytes = Vec::new();
    for field in fields.into_iter().chain(pairs.iter().map(|pairs| pairs.0.as_slice())) {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field);
    }
    Ok(Digest::of(&bytes))
}
