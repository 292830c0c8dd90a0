//! A match by keys, between the two parties.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use fedreg_common::conversation::Opening;
use fedreg_common::data::align::Mask;
use fedreg_common::data::matching::alignment::{Alignment, MatchPurpose, MatchRecord, PassRecord};
use fedreg_common::data::matching::{
    Cells, Format, NORMALISER, Reading, Records, RecordsError, Rules, Source, unicode,
};
use fedreg_common::data::{Ids, Marks, Place, Places};
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::linked::purpose as greeting;
use fedreg_common::methods::vertical::matching::{Inputs, MatchSession, Matched, PassCounts, Policy};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::session::{Abort, Session, Turn};
use fedreg_common::study::{KeyKind, MatchTerms, StudyError};
use fedreg_proto::files::FileError;

use super::found::{ExpectedPass, Found, KeyOutlook, Outlook};
use super::journal::{self, Kept};
use super::{about, is_coordinated, keep, not_begun, rations, terms};
use crate::alignment::{self, wrong};
use crate::config::KeyColumn;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::Job;
use crate::meet::{Met, Work, drawn};
use crate::output::{Folder, chain};
use crate::party::Party;
use crate::read;

/// Canonical values of a key that are shown.
const EXAMPLES: usize = 3;

/// A match by keys, as a kind of joint run.
#[derive(Clone)]
pub(super) struct DirectWork {
    folder: Folder,
    purpose: MatchPurpose,
    /// Where the match comes from, once the run has a name.
    about: Arc<OnceLock<MatchRecord>>,
}

impl DirectWork {
    pub(super) fn new(folder: Folder, purpose: MatchPurpose) -> DirectWork {
        DirectWork { folder, purpose, about: Arc::default() }
    }
}

/// What is there before the run.
pub(super) struct Ready {
    records: Records,
    rules: Rules,
    /// SHA-256 of the data.
    data: Digest,
}

impl Work for DirectWork {
    type Table = Ready;
    type Session = MatchSession;
    type Yield = Found;

    const COMMAND: &'static str = "match";
    const TELLS_BYTES: bool = false;

    fn read(&self, job: &Job) -> Result<Ready, Failure> {
        let party = job.party();
        let data = alignment::fingerprint(&party.config.data.file)?;
        let (records, rules) = records(party, self.purpose)?;
        if alignment::fingerprint(&party.config.data.file)? != data {
            let file = party.config.data.file.display();
            return Err(Abort::OwnData(format!("{file} changed while it was read: start again")).into());
        }
        warn_of_invalid(party, &records);
        // Refused here, so that the peer hears of it before the run.
        refuse_repeats(&records, &rules)?;
        Ok(Ready { records, rules, data })
    }

    fn rows(ready: &Ready) -> u64 {
        ready.records.len() as u64
    }

    fn is_merged(&self, job: &Job) -> bool {
        is_coordinated(job.party())
    }

    fn interrupted(&self, job: &Job) -> Option<RunId> {
        let run = unfinished(job.party(), self.purpose);
        if let (None, Some(begun)) = (run, journal::begun(&job.config.state)) {
            tracing::info!("the match {} was interrupted here with another table or study: matching anew", begun.run);
        }
        run
    }

    fn session(&self, job: &Job, ready: Ready, opening: Opening) -> Result<MatchSession, Failure> {
        let party = job.party();
        let Ready { records, rules, data } = ready;
        let bound = bound(party, self.purpose, data)?;
        let about = about(job, self.purpose, opening.run, data, records.len() as u64)?;
        // Counted with the run, which may show its count: one that ends before that is counted too. One that goes on has been counted.
        let goes_on =
            journal::begun(&party.config.state).is_some_and(|begun| begun.run == opening.run && begun.bound == bound);
        rations::count(party, opening.run, self.purpose, goes_on)?;
        // A run has one session; should there be another, it is of the same table.
        let _ = self.about.set(about);
        // Before the first message leaves: of a run that is interrupted from here on every message has the same bytes again.
        // The secret is never that of `--seed`, which others may guess.
        // One through the coordinator begins anew: the coordinator keeps nothing of it.
        let coordinated = is_coordinated(party);
        let kept = match coordinated {
            true => None,
            false => Some(Kept::of(&party.config.state, opening.run, drawn()?, bound)?),
        };
        let opening = Opening { seed: kept.as_ref().map_or_else(drawn, |kept| Ok(kept.seed()))?, ..opening };
        let policy = &party.config.policy;
        let inputs = Inputs {
            rules: Arc::new(rules),
            match_digest: alignment::match_digest(party)?,
            policy: Policy { min_matched: policy.min_matched, max_peer_rows: policy.max_peer_rows },
            records: Arc::new(records),
            journal: kept.map(|kept| Box::new(kept) as _),
            coordinated,
        };
        Ok(MatchSession::new(party.role, greeting(self.purpose), party.study, inputs, opening)?)
    }

    fn kept(&self, mut session: MatchSession) -> Result<Option<Driven<MatchSession>>, Failure> {
        Ok(match session.start()? {
            // The other one has sent its last message after all of ours.
            Turn::Finish(output) => Some(Driven::alone(session, output, true)),
            Turn::FinishAndSend { output, .. } => Some(Driven::alone(session, output, false)),
            Turn::Wait | Turn::Send(_) => None,
        })
    }

    fn given_up(&self, job: &Job, run: RunId, failure: &Failure) {
        let passes = matches!(failure.exit(), Exit::Unreachable | Exit::Interrupted | Exit::CannotWrite);
        match passes {
            true if is_coordinated(job.party()) => {
                tracing::info!(
                    "a match through the coordinator does not go on after it was interrupted: start it again on both sides"
                );
            }
            true => tracing::info!(
                "the match {run} is not lost: the same command goes on with it; where the other party cannot, remove {} and start both \
                 again",
                journal::place(&job.config.state).display()
            ),
            false => {
                if let Err(error) = journal::erase(&job.config.state) {
                    tracing::warn!("{}", chain(&error));
                }
            }
        }
    }

    fn progress(session: &MatchSession) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<MatchSession>) -> Result<(Found, Exit), Failure> {
        let about = self.about.get().cloned().ok_or_else(not_begun)?;
        let Matched { order, passes, .. } = &met.driven.output;
        let about = MatchRecord { passes: passes.iter().map(pass).collect(), ..about };
        let alignment = Alignment::new(order.clone(), met.driven.output.order_digest().0, about);
        let found = keep(job, &self.folder, &alignment, met.bytes_sent)?;
        match met.driven.confirmed {
            true => journal::erase(&job.config.state)?,
            false if is_coordinated(job.party()) => tracing::info!(
                "{} may lack our last message: if it has no match, start both sides again",
                job.role.partner()
            ),
            false => tracing::info!(
                "{} may lack our last message: the same command sends it again when {0} is started again",
                job.role.partner()
            ),
        }
        Ok(found)
    }
}

/// The match that was interrupted here and goes on with the same command.
pub(super) fn unfinished(party: Party<'_>, purpose: MatchPurpose) -> Option<RunId> {
    let begun = journal::begun(&party.config.state)?;
    let data = alignment::fingerprint(&party.config.data.file).ok()?;
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
    let fields: [&[u8]; 6] =
        [&study.0, &decides.0, purpose.name().as_bytes(), &data.0, columns.as_bytes(), more.as_bytes()];
    let mut bytes = Vec::new();
    for field in fields {
        bytes.extend_from_slice(&(field.len() as u64).to_le_bytes());
        bytes.extend_from_slice(field);
    }
    Ok(Digest::of(&bytes))
}

/// What became of a pass, as it is kept.
fn pass(counts: &PassCounts) -> PassRecord {
    PassRecord {
        name: counts.name.clone(),
        own_eligible: counts.own.eligible,
        own_ambiguous: counts.own.ambiguous,
        own_missing: counts.own.missing,
        own_invalid: counts.own.invalid,
        peer_eligible: counts.peer,
        matched: counts.matched(),
        withheld: !counts.revealed && counts.counted > 0,
    }
}

/// The rules of the study, for some rows.
fn rules(party: Party<'_>, terms: &MatchTerms, purpose: MatchPurpose) -> Result<Rules, Failure> {
    // Checked when the study was parsed.
    let refused = |error: StudyError| FileError::Study { file: party.config.study.clone(), source: error };
    Ok(terms.rules(purpose == MatchPurpose::Predict).map_err(refused)?)
}

/// Where the keys stand in this party's table, in the order of the study.
///
/// # Errors
/// A key without a column, a column of no key, and values that are read as something that the key is not.
pub(super) fn sources(party: Party<'_>, terms: &MatchTerms) -> Result<Vec<Source>, Failure> {
    let config = &party.config.matching;
    let wrong = |problem: String| wrong("match.columns", problem);
    if let Some(other) = config.columns.keys().find(|name| !terms.keys.contains_key(*name)) {
        return Err(wrong(format!("names `{other}`, which is no key of the study")));
    }
    let missing = Marks::new(&config.missing.values, None)
        .map_err(|error| alignment::wrong("match.missing.values", error.to_string()))?;
    let source = |(name, key): (&String, &fedreg_common::study::KeyTerms)| {
        let Some(own) = config.columns.get(name) else {
            let problem = format!(
                "lacks the key `{name}` of the study: which own column is it? As in [match.columns] {name} = \"COLUMN\""
            );
            return Err(wrong(problem));
        };
        let (format, values) = match own {
            KeyColumn::Name(_) => (None, BTreeMap::new()),
            KeyColumn::Terms(terms) => (terms.format.as_deref(), terms.values.clone()),
        };
        let reading = match (format, values.is_empty()) {
            (None, true) => Reading::Text,
            (None, false) => Reading::Code(values),
            (Some(format), true) => {
                let parsed = format.parse::<Format>();
                Reading::Date(parsed.map_err(|error| wrong(format!("cannot be used for `{name}`: {error}")))?)
            }
            (Some(_), false) => {
                return Err(wrong(format!("gives `{name}` a format and values; a key has one of them")));
            }
        };
        match (key.kind, &reading) {
            (KeyKind::Date, Reading::Date(_))
            | (KeyKind::Name | KeyKind::Identifier, Reading::Text)
            | (KeyKind::Code, Reading::Text | Reading::Code(_)) => {}
            (KeyKind::Date, Reading::Text | Reading::Code(_)) => {
                return Err(wrong(format!(
                    "needs the format of the date `{name}`, as in {{ column = \"{}\", format = \"%d.%m.%Y\" }}",
                    own.column()
                )));
            }
            (kind, Reading::Date(_) | Reading::Code(_)) => {
                let kind = kind.name();
                return Err(wrong(format!(
                    "gives `{name}` a format or values, which a key of kind `{kind}` does not have"
                )));
            }
        }
        Ok(Source { column: own.column().to_string(), reading, missing: missing.clone() })
    };
    terms.keys.iter().map(source).collect()
}

/// The records of this party in their canonical form, and the rules.
fn records(party: Party<'_>, purpose: MatchPurpose) -> Result<(Records, Rules), Failure> {
    let terms = terms(party)?;
    let rules = rules(party, terms, purpose)?;
    let sources = sources(party, terms)?;
    let mut names: Vec<&str> = sources.iter().map(|source| source.column.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let file = &party.config.data.file;
    let cells = read::texts(file, party.config.written().separator, &names)?;
    // Two keys may be cut of one column.
    let found: BTreeMap<String, Ids> = names.iter().map(|name| (*name).to_string()).zip(cells).collect();
    let columns: Vec<(Source, Cells)> = sources
        .into_iter()
        .map(|source| (source.clone(), found.get(&source.column).cloned().unwrap_or_default()))
        .collect();
    let records = Records::normalise(&rules.keys, columns).map_err(|error| refused(file, &error))?;
    Ok((records, rules))
}

fn refused(file: &Path, error: &RecordsError) -> Failure {
    Abort::OwnData(format!("{}: {error}", file.display())).into()
}

fn refuse_repeats(records: &Records, rules: &Rules) -> Result<(), Abort> {
    let Some(first) = rules.keys.passes().first() else { return Ok(()) };
    let eligible = records.eligible(first, &Mask::new(records.len()));
    eligible.refuse_repeats(rules, 0).map_err(|error| Abort::OwnData(error.to_string()))
}

/// Where a record stands, as a person looks for it.
fn place(record: u32) -> Place {
    let mut places = Places::default();
    places.extend(Place::Row(1), record as usize + 1);
    places.place(record as usize)
}

fn warn_of_invalid(party: Party<'_>, records: &Records) {
    for (at, key) in records.keys().keys().iter().enumerate() {
        let (_, invalid) = records.lacking(at);
        if let Some((record, cell)) = records.first_invalid(at) {
            let file = party.config.data.file.display();
            let (name, place) = (&key.name, place(record));
            tracing::warn!(
                "{file}: {invalid} values of the key `{name}` cannot be used, the first is `{}` in {place}",
                cell.escape_debug()
            );
        }
    }
}

/// What this party brings to a match, without a connection.
///
/// # Errors
/// What the match would end with here.
pub(super) fn look(party: Party<'_>, purpose: MatchPurpose, rations: u64) -> Result<Outlook, Failure> {
    let terms = terms(party)?;
    let (records, rules) = records(party, purpose)?;
    refuse_repeats(&records, &rules)?;
    let keys = records.keys().keys().iter().enumerate().map(|(at, key)| {
        let (missing, invalid) = records.lacking(at);
        let mut examples: Vec<String> = Vec::new();
        let values = (0..records.len()).filter_map(|record| records.value(at, record));
        for value in values {
            if examples.len() == EXAMPLES {
                break;
            }
            if !examples.iter().any(|known| known == value) {
                examples.push(value.to_string());
            }
        }
        let first_invalid =
            records.first_invalid(at).map(|(record, cell)| format!("`{}` in {}", cell.escape_debug(), place(record)));
        KeyOutlook { name: key.name.clone(), kind: key.kind.name(), missing, invalid, examples, first_invalid }
    });
    let peer = rules.max_rows.of(party.role.partner());
    let nobody = Mask::new(records.len());
    let passes = rules.keys.passes().iter().map(|pass| {
        let eligible = records.eligible(pass, &nobody);
        ExpectedPass {
            name: pass.name.clone(),
            eligible: eligible.counts.eligible,
            ambiguous: eligible.counts.ambiguous,
            missing: eligible.counts.missing,
            invalid: eligible.counts.invalid,
            expected_false_links: eligible.expected_false_links(peer),
        }
    });
    Ok(Outlook {
        keys: keys.collect(),
        passes: passes.collect(),
        peer_rows: Some(peer),
        pairs: None,
        ..Outlook::of(party, terms, purpose, records.len() as u64, rations)
    })
}
