//! Finding the rows that both parties have: the command `match`, what it keeps, and how a fit takes its rows by that.

mod attempt;
mod direct;
mod found;
mod journal;
mod linked;
mod rations;
mod several;

use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::matching::alignment::{Alignment, MatchPurpose, MatchRecord};
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::linked::{LinkedSession, Pairs};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::session::Abort;
use fedreg_common::study::{MatchProtocol, MatchRun, MatchTerms, VerticalGuarantee};
use tokio::sync::mpsc;

use self::attempt::Attempt;
use self::direct::DirectWork;
pub use self::found::{Found, Outlook};
use self::several::LeaderMatch;
use crate::alignment;
use crate::config::Config;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::{self, Job};
use crate::meet::{Met, Work, meet};
use crate::output::Folder;
use crate::party::Party;
use crate::{openings, private};

/// Finds the rows that both parties have, together with the other party, and keeps what was found.
///
/// # Errors
/// Why nothing was found; the others have been told.
pub async fn run(
    job: &Job,
    purpose: MatchPurpose,
    stop: mpsc::Sender<Abort>,
    stopped: &mut mpsc::Receiver<Abort>,
) -> Result<(Found, Exit), Failure> {
    let party = job.party();
    let terms = terms(party)?;
    allowed(party)?;
    let out = job.out.clone().unwrap_or_else(|| party.config.matching.folder(purpose, &party.config.state));
    if attempt::unfinished(party, purpose).is_none() {
        rations::check(party)?;
    }
    alignment::refuse_what_cannot_be_read_again(party)?;
    let folder = Folder::prepare(&out)?;
    match terms.protocol {
        MatchProtocol::Linked => {
            linked::place(party)?;
            meet(&LinkedWork(Attempt::new(folder, purpose)), job, stop, stopped).await
        }
        MatchProtocol::Direct if party.study.leader() == Some(party.role) => {
            direct::sources(party, terms)?;
            meet(&LeaderMatch(DirectWork(Attempt::new(folder, purpose))), job, stop, stopped).await
        }
        MatchProtocol::Direct | MatchProtocol::Coordinator => {
            direct::sources(party, terms)?;
            meet(&DirectWork(Attempt::new(folder, purpose)), job, stop, stopped).await
        }
    }
}

/// What this party brings to a match, without a connection.
///
/// # Errors
/// What the match would end with here.
pub(crate) fn look(party: Party<'_>, purpose: MatchPurpose) -> Result<Outlook, Failure> {
    let terms = terms(party)?;
    allowed(party)?;
    if attempt::unfinished(party, purpose).is_none() {
        rations::check(party)?;
    }
    let rations = rations::left(party)?;
    alignment::refuse_what_cannot_be_read_again(party)?;
    let outlook = match terms.protocol {
        MatchProtocol::Linked => {
            let (pairs, rows) = linked::read(party, purpose)?;
            pairs.check()?;
            let pairs = Some(pairs.linked.len() as u64);
            Outlook { pairs, ..Outlook::of(party, terms, purpose, rows, rations) }
        }
        MatchProtocol::Direct | MatchProtocol::Coordinator => direct::look(party, purpose, rations)?,
    };
    match outlook {
        Outlook { rows, min_matched, .. } if rows < min_matched => Err(Abort::Refused(format!(
            "{}: there are {rows} rows, and at least {min_matched} must match (`match.min_matched` of the study, `policy.min_matched` of \
             the private file)",
            party.config.source()
        ))
        .into()),
        outlook => Ok(outlook),
    }
}

/// What `check` shows of a study whose match is still to be made: what a fit discloses is known once there is one.
///
/// # Errors
/// What the match would end with here.
pub(crate) fn before_a_match(role: Role, config: &Config) -> Result<Option<Outlook>, Failure> {
    let study = Arc::new(job::study(role, config)?);
    let party = Party { role, config, study: &study };
    let folder = config.matching.folder(MatchPurpose::Fit, &config.state);
    if study.head.matching.is_none() || alignment::is_there(&folder) {
        return Ok(None);
    }
    party.identity()?;
    look(party, MatchPurpose::Fit).map(Some)
}

/// Whether a match has to be made before this run, by the run itself; complains where there is none and the study does not let a fit make it.
///
/// # Errors
/// There is no match, and the command is named that makes one.
pub(crate) fn is_due(party: Party<'_>, purpose: MatchPurpose) -> Result<bool, Failure> {
    let Some(terms) = &party.study.head.matching else {
        return match &party.config.matching.folder {
            Some(_) => Err(Failure::Usage("a match is given (--match), but the study has no section `[match]`".into())),
            None => Ok(false),
        };
    };
    let folder = party.config.matching.folder(purpose, &party.config.state);
    // A match whose last message the other party may lack is ended first.
    let ended = match terms.run {
        MatchRun::Auto => attempt::unfinished(party, purpose).is_none(),
        MatchRun::Command => true,
    };
    if ended && alignment::is_there(&folder) {
        return alignment::belongs(party, purpose, &folder).map(|()| false);
    }
    match (terms.run, purpose) {
        (MatchRun::Auto, MatchPurpose::Fit) => Ok(true),
        (MatchRun::Auto | MatchRun::Command, _) => Err(alignment::missing(party, purpose, &folder)),
    }
}

/// The section `[match]` of the study.
fn terms(party: Party<'_>) -> Result<&MatchTerms, Failure> {
    let none = || Failure::Usage("the study has no section `[match]`: its rows stand in both tables beforehand".into());
    party.study.head.matching.as_ref().ok_or_else(none)
}

/// Refuses what this party's own file does not allow, and what the fit would be refused for after the match.
fn allowed(party: Party<'_>) -> Result<(), Failure> {
    if is_coordinated(party) && !party.config.policy.allow_coordinator_match {
        let what = "a match through the coordinator, who learns every value of a key that can be guessed if it colludes with one party: set \
                    policy.allow_coordinator_match = true in the private file if it is trusted not to";
        return Err(Abort::Policy { who: party.role, what: what.to_string() }.into());
    }
    match party.study.guarantee {
        VerticalGuarantee::Plain => Ok(()),
        VerticalGuarantee::Sealed(_) => openings::counted_here(party).map(drop),
        VerticalGuarantee::Private(_) => Ok(private::keys_apart(party)?),
    }
}

/// Whether the study's match goes through the coordinator.
fn is_coordinated(party: Party<'_>) -> bool {
    party.study.head.matching.as_ref().is_some_and(|terms| match terms.protocol {
        MatchProtocol::Coordinator => true,
        MatchProtocol::Direct | MatchProtocol::Linked => false,
    })
}

/// Fewest matched rows that the study and this party's own file allow.
fn least(party: Party<'_>, purpose: MatchPurpose) -> u64 {
    let stated = party.study.head.matching.as_ref().map_or(1, |terms| terms.least(purpose == MatchPurpose::Predict));
    stated.max(party.config.policy.min_matched.unwrap_or(0))
}

/// A match by a table of pairs, as a kind of joint run.
#[derive(Clone)]
struct LinkedWork(Attempt);

/// What is there before the run.
struct Ready {
    pairs: Pairs,
    /// Rows of the data.
    rows: u64,
    /// SHA-256 of the data.
    data: Digest,
}

impl Work for LinkedWork {
    type Table = Ready;
    type Session = LinkedSession;
    type Yield = Found;

    const COMMAND: &'static str = "match";
    const TELLS_BYTES: bool = false;

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        let party = job.party();
        let data = alignment::fingerprint(&party.config.source())?;
        let (pairs, rows) = linked::read(party, self.0.purpose)?;
        Ok(Ready { pairs, rows, data })
    }

    fn rows(ready: &Ready) -> u64 {
        ready.rows
    }

    fn interrupted(&self, job: &Job) -> Option<RunId> {
        self.0.interrupted(job)
    }

    fn session(&self, job: &Job, ready: Ready, opening: Opening) -> Result<LinkedSession, Failure> {
        // What this party says first has the number of its pairs.
        ready.pairs.check()?;
        let (kept, opening) = self.0.begin(job, (ready.data, ready.rows), opening)?;
        Ok(LinkedSession::new(ready.pairs, Some(Box::new(kept)), &opening)?)
    }

    fn kept(&self, session: LinkedSession) -> Result<Option<Driven<LinkedSession>>, Failure> {
        Attempt::kept(session)
    }

    fn given_up(&self, job: &Job, run: RunId, failure: &Failure, nobodys: bool) {
        Attempt::given_up(job, run, failure, nobodys);
    }

    fn progress(_session: &LinkedSession) -> Option<Progress> {
        None
    }

    fn finish(&self, job: &Job, met: Met<LinkedSession>) -> Result<(Found, Exit), Failure> {
        let found = met.driven.output;
        self.0.end(job, (met.driven.confirmed || met.nobodys, met.bytes_sent), |about| {
            let passes = vec![linked::pass(found.records.len() as u64)];
            Alignment::new(found.records, found.order, MatchRecord { passes, ..about })
        })
    }
}

/// Where a match comes from, before it is known which rows matched.
fn about(job: &Job, purpose: MatchPurpose, run: RunId, data: Digest, rows: u64) -> Result<MatchRecord, Failure> {
    let party = job.party();
    let terms = terms(party)?;
    Ok(MatchRecord {
        run: run.to_string(),
        role: party.role,
        purpose,
        protocol: terms.protocol.name().to_string(),
        peer: alignment::peers(party)?,
        leader: party.study.leader(),
        match_digest: alignment::match_digest(party)?.to_string(),
        data: data.to_string(),
        rows,
        alignment: String::new(),
        passes: Vec::new(),
        matched: 0,
        order_digest: String::new(),
    })
}

/// Keeps what was found, and says it.
fn keep(job: &Job, folder: &Folder, alignment: &Alignment, bytes_sent: u64) -> Result<(Found, Exit), Failure> {
    alignment::write(folder, alignment)?;
    tracing::info!("the match is in {}", folder.path().display());
    Ok((Found::new(job.party(), alignment.about(), folder.path(), bytes_sent), Exit::Done))
}

/// A match that ended without having begun.
fn not_begun() -> Abort {
    Abort::Bug("a match ended that had not begun".to_string())
}
