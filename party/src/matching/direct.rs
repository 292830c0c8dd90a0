//! A match by keys, between the two parties.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::align::Mask;
use fedreg_common::data::matching::alignment::{Alignment, MatchPurpose, MatchRecord, PassRecord};
use fedreg_common::data::matching::{Cells, Eligible, Format, Reading, Records, RecordsError, Rules, Source};
use fedreg_common::data::{Ids, Marks, Place, Places};
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::linked::purpose as greeting;
use fedreg_common::methods::vertical::matching::{Inputs, MatchSession, Matched, PassCounts, Policy};
use fedreg_common::methods::vertical::session::Progress;
use fedreg_common::session::Abort;
use fedreg_common::study::{KeyKind, MatchTerms, StudyError};
use fedreg_proto::files::FileError;

use super::attempt::Attempt;
use super::found::{ExpectedPass, Found, KeyOutlook, Outlook};
use super::journal::Kept;
use super::{is_coordinated, terms};
use crate::alignment::{self, wrong};
use crate::config::KeyColumn;
use crate::drive::Driven;
use crate::failure::Failure;
use crate::job::Job;
use crate::meet::{Met, Work};
use crate::party::Party;
use crate::read;

/// Canonical values of a key that are shown.
const EXAMPLES: usize = 3;

/// A match by keys, as a kind of joint run.
#[derive(Clone)]
pub(super) struct DirectWork(pub(super) Attempt);

/// What is there before the run.
pub(super) struct Ready {
    records: Records,
    rules: Rules,
    /// Which records take part in the first pass.
    first: Eligible,
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
        let data = alignment::fingerprint(&party.config.source())?;
        let (records, rules) = records(party, self.0.purpose)?;
        if alignment::fingerprint(&party.config.source())? != data {
            let file = party.config.source();
            return Err(Abort::OwnData(format!("{file} changed while it was read: start again")).into());
        }
        warn_of_invalid(party, &records);
        // Refused here, so that the peer hears of it before the run.
        let first = first(&records, &rules)?;
        Ok(Ready { records, rules, first, data })
    }

    fn rows(ready: &Ready) -> u64 {
        ready.records.len() as u64
    }

    fn is_merged(&self, job: &Job) -> bool {
        is_coordinated(job.party())
    }

    fn interrupted(&self, job: &Job) -> Option<RunId> {
        self.0.interrupted(job)
    }

    fn session(&self, job: &Job, ready: Ready, opening: Opening) -> Result<MatchSession, Failure> {
        let party = job.party();
        let (kept, inputs, opening) = self.begin(job, ready, opening)?;
        let inputs = Inputs { journal: Some(Box::new(kept)), ..inputs };
        Ok(MatchSession::new(party.role, greeting(self.0.purpose), party.study, inputs, opening)?)
    }

    fn kept(&self, session: MatchSession) -> Result<Option<Driven<MatchSession>>, Failure> {
        Attempt::kept(session)
    }

    fn given_up(&self, job: &Job, run: RunId, failure: &Failure, nobodys: bool) {
        Attempt::given_up(job, run, failure, nobodys);
    }

    fn progress(session: &MatchSession) -> Option<Progress> {
        Some(session.progress())
    }

    fn finish(&self, job: &Job, met: Met<MatchSession>) -> Result<(Found, Exit), Failure> {
        self.end(job, &met.driven.output, (met.driven.confirmed || met.nobodys, met.bytes_sent))
    }
}

impl DirectWork {
    /// Begins a match, or goes on with it: where it is kept, and what this party brings.
    pub(super) fn begin(&self, job: &Job, ready: Ready, opening: Opening) -> Result<(Kept, Inputs, Opening), Failure> {
        let party = job.party();
        let Ready { records, rules, first, data } = ready;
        let (kept, opening) = self.0.begin(job, (data, records.len() as u64), opening)?;
        let policy = &party.config.policy;
        let inputs = Inputs {
            rules: Arc::new(rules),
            match_digest: alignment::match_digest(party)?,
            policy: Policy { min_matched: policy.min_matched, max_peer_rows: policy.max_peer_rows },
            records: Arc::new(records),
            first: Some(first),
            journal: None,
            coordinated: is_coordinated(party),
        };
        Ok((kept, inputs, opening))
    }

    /// Writes what was found.
    pub(super) fn end(&self, job: &Job, matched: &Matched, sent: (bool, u64)) -> Result<(Found, Exit), Failure> {
        self.0.end(job, sent, |about| {
            let about = MatchRecord { passes: matched.passes.iter().map(pass).collect(), ..about };
            Alignment::new(matched.order.clone(), matched.order_digest().0, about)
        })
    }
}

/// What became of a pass, as it is kept.
fn pass(counts: &PassCounts) -> PassRecord {
    PassRecord {
        name: counts.name.clone(),
        with: counts.with,
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
    let cells = read::texts(party.config.source(), party.config.written().separator, &names)?;
    // Two keys may be cut of one column.
    let found: BTreeMap<String, Ids> = names.iter().map(|name| (*name).to_string()).zip(cells).collect();
    let columns: Vec<(Source, Cells)> = sources
        .into_iter()
        .map(|source| (source.clone(), found.get(&source.column).cloned().unwrap_or_default()))
        .collect();
    let records = Records::normalise(&rules.keys, columns).map_err(|error| refused(file, &error))?;
    usable(party, &records)?;
    Ok((records, rules))
}

/// Where every pass needs a key of which no row has a value, nobody would match, and the match would count all the same.
fn usable(party: Party<'_>, records: &Records) -> Result<(), Abort> {
    for (at, key) in records.keys().keys().iter().enumerate() {
        let (missing, invalid) = records.lacking(at);
        let needed = records.keys().passes().iter().all(|pass| pass.parts.iter().any(|part| part.key == at));
        if let Some((record, cell)) = records.first_invalid(at)
            && missing + invalid == records.len() as u64
            && needed
        {
            return Err(Abort::OwnData(format!(
                "{}: no row has a value of the key `{}` that can be used: `{}` in {} is none; look at `match.columns` of the private file, \
                 which says how the column is read",
                party.config.source(),
                key.name,
                cell.escape_debug(),
                place(record)
            )));
        }
    }
    Ok(())
}

fn refused(file: &Path, error: &RecordsError) -> Failure {
    Abort::OwnData(format!("{}: {error}", file.display())).into()
}

/// Which records take part in the first pass, which must have no repeats unless the study allows them.
fn first(records: &Records, rules: &Rules) -> Result<Eligible, Abort> {
    let eligible = records.eligible(&rules.keys.passes()[0], &Mask::new(records.len()));
    eligible.refuse_repeats(rules, 0).map_err(|error| Abort::OwnData(error.to_string()))?;
    Ok(eligible)
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
            let file = party.config.source();
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
    first(&records, &rules)?;
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
    let largest = |peer| rules.max_rows.of(peer);
    let peer = party.study.peers(party.role).into_iter().map(largest).max().unwrap_or(0);
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
