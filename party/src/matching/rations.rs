//! How often a data set is matched with one peer: matches of tables that differ in a few rows show who these are.
//!
//! Every match that may have shown its count to the peer is a line in a file of the state folder and in one beside the anchor of the
//! privacy ledger, both written and synced before the count leaves. What either of them has counts, so that a state folder that is deleted,
//! restored or copied lets no further match begin. A line that cannot be read counts too. So do matches of the same file, folder or table
//! in the files of other state folders, whose anchors lie in the same folder, and under other names.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use fedreg_common::data::matching::alignment::MatchPurpose;
use fedreg_common::id::RunId;
use fedreg_common::session::Abort;
use fedreg_proto::output::durable_folder;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{self, OutputError};
use crate::party::Party;
use crate::{ledger, openings};

/// Matches of a data set with one peer, where the private file states no other number.
const DEFAULT_MATCHES: u64 = 5;

/// A match as the file has it.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    run: String,
    data_set: String,
    peer: String,
    purpose: MatchPurpose,
    /// Seconds since 1970.
    time: u64,
    /// What the source is known by; nothing in lines of earlier versions.
    #[serde(default)]
    known: BTreeSet<String>,
}

impl Line {
    /// Whether it is about one of the sources that are known by these.
    fn is_of(&self, known: &BTreeSet<String>) -> bool {
        !self.known.is_disjoint(known)
    }
}

/// The file in the state folder, and the one beside the anchor of the ledger.
fn places(party: Party<'_>) -> Result<[PathBuf; 2], Failure> {
    Ok([party.config.state.join("matches.jsonl"), ledger::beside(&party.config.anchor()?, "matches")])
}

/// The lines of a file; none where there is none.
fn lines(path: &Path) -> Result<BTreeSet<String>, Failure> {
    match std::fs::read(path) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(source) => Err(OutputError { path: path.to_path_buf(), source }.into()),
    }
}

/// Matches of these sources in the files beside the anchors of other ledgers, as far as they can be read.
fn elsewhere(own: &Path, known: &BTreeSet<String>) -> BTreeSet<String> {
    let folder = own.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let others = files.filter(|path| path != own && path.extension().is_some_and(|ending| ending == "matches"));
    let read = others.filter_map(|path| lines(&path).ok()).flatten();
    read.filter(|line| serde_json::from_str::<Line>(line).is_ok_and(|line| line.is_of(known))).collect()
}

/// What the source of this party is known by.
fn known(party: Party<'_>) -> Result<BTreeSet<String>, Failure> {
    Ok(openings::source(party)?.map(|source| source.keys().clone()).unwrap_or_default())
}

/// The certificate names of those with whom this party matches.
fn peers(party: Party<'_>) -> Result<Vec<&str>, Failure> {
    let peers = party.study.peers(party.role).into_iter();
    peers.map(|peer| party.certificate(peer)).collect()
}

/// Matches with a peer that were made, and how many may be made in all.
fn made(party: Party<'_>, peer: &str, known: &BTreeSet<String>) -> Result<(u64, u64), Failure> {
    let places = places(party)?;
    let [state, anchor] = [lines(&places[0])?, lines(&places[1])?];
    let data_set = party.config.data_set();
    let counts = |line: &&String| match serde_json::from_str::<Line>(line) {
        Ok(line) => line.peer == peer && (line.data_set == data_set || line.is_of(known)),
        Err(_) => true,
    };
    let lacking = anchor.difference(&state).filter(counts).count();
    if lacking > 0 {
        tracing::warn!(
            "{} lacks {lacking} matches that {} has: they count all the same",
            places[0].display(),
            places[1].display()
        );
    }
    let elsewhere = elsewhere(&places[1], known);
    let all: BTreeSet<&String> = state.iter().chain(&anchor).chain(&elsewhere).collect();
    let made = all.into_iter().filter(counts).count() as u64;
    Ok((made, party.config.policy.max_matches.unwrap_or(DEFAULT_MATCHES)))
}

/// How many matches of this data set are left, with the peer with whom the fewest are.
///
/// # Errors
/// The files cannot be read, or there is no place for an anchor.
pub(super) fn left(party: Party<'_>) -> Result<u64, Failure> {
    let known = known(party)?;
    let left = |peer| made(party, peer, &known).map(|(made, most)| most.saturating_sub(made));
    let left = peers(party)?.into_iter().map(left).collect::<Result<Vec<_>, _>>()?;
    Ok(left.into_iter().min().unwrap_or(0))
}

/// Whether one more match may be made.
///
/// # Errors
/// It may not.
pub(super) fn check(party: Party<'_>) -> Result<(), Failure> {
    let known = known(party)?;
    for peer in peers(party)? {
        let (made, most) = made(party, peer, &known)?;
        if made >= most {
            let data_set = party.config.data_set();
            let what = format!(
                "`{data_set}` was matched with {peer} {made} times, and {most} are allowed (policy.max_matches), counting matches of its \
                 source in other state folders and under other names: matches of tables that differ in a few rows show who these are"
            );
            return Err(Abort::Policy { who: party.role, what }.into());
        }
    }
    Ok(())
}

/// Counts a match, before its count can leave; one that goes on where it was interrupted was counted when it began.
///
/// # Errors
/// The files cannot be written, or the match is one too many.
pub(super) fn count(party: Party<'_>, run: RunId, purpose: MatchPurpose, goes_on: bool) -> Result<(), Failure> {
    if goes_on {
        return Ok(());
    }
    check(party)?;
    let known = known(party)?;
    for peer in peers(party)? {
        let line = Line {
            run: run.to_string(),
            data_set: party.config.data_set(),
            peer: peer.to_string(),
            purpose,
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            known: known.clone(),
        };
        let text = serde_json::to_string(&line).unwrap_or_default();
        for path in places(party)? {
            append(&path, &text).map_err(|source| OutputError { path, source })?;
        }
    }
    Ok(())
}

/// Adds a line to a file, which is made if there is none.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    durable_folder(folder)?;
    // Behind a line that a crash has cut this is one of its own.
    let cut = std::fs::read(path).is_ok_and(|text| text.last().is_some_and(|last| *last != b'\n'));
    let mut file = output::own_file().append(true).open(path)?;
    file.write_all(format!("{}{line}\n", if cut { "\n" } else { "" }).as_bytes())?;
    file.sync_all()?;
    // The name of a new file, too.
    std::fs::File::open(folder)?.sync_all()
}
