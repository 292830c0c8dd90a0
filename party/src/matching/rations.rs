//! How often a data set is matched with one peer: matches of tables that differ in a few rows show who these are.
//!
//! Every match that may have shown its count to the peer is a line in a file of the state folder, written and synced before the count
//! leaves. A line that cannot be read counts too.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use fedreg_common::data::matching::alignment::MatchPurpose;
use fedreg_common::id::RunId;
use fedreg_common::session::Abort;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::output::{self, OutputError};
use crate::party::Party;

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
}

fn place(party: Party<'_>) -> PathBuf {
    party.config.state.join("matches.jsonl")
}

/// Matches that were made, and how many may be made in all.
fn made(party: Party<'_>) -> Result<(u64, u64), Failure> {
    let path = place(party);
    let text = match std::fs::read(&path) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(OutputError { path, source }.into()),
    };
    let (data_set, peer) = (party.config.data_set(), party.certificate(party.role.partner())?);
    let counts = |line: &&str| match serde_json::from_str::<Line>(line) {
        Ok(line) => line.data_set == data_set && line.peer == peer,
        Err(_) => true,
    };
    let made = text.lines().filter(counts).count() as u64;
    Ok((made, party.config.policy.max_matches.unwrap_or(DEFAULT_MATCHES)))
}

/// How many matches of this data set with this peer are left.
///
/// # Errors
/// The file cannot be read.
pub(super) fn left(party: Party<'_>) -> Result<u64, Failure> {
    let (made, most) = made(party)?;
    Ok(most.saturating_sub(made))
}

/// Whether one more match may be made.
///
/// # Errors
/// It may not.
pub(super) fn check(party: Party<'_>) -> Result<(), Failure> {
    let (made, most) = made(party)?;
    if made < most {
        return Ok(());
    }
    let (data_set, peer) = (party.config.data_set(), party.certificate(party.role.partner())?);
    let what = format!(
        "`{data_set}` was matched with {peer} {made} times, and {most} are allowed (policy.max_matches): matches of tables that differ \
         in a few rows show who these are"
    );
    Err(Abort::Policy { who: party.role, what }.into())
}

/// Counts a match, before its count can leave; one that goes on where it was interrupted was counted when it began.
///
/// # Errors
/// The file cannot be written, or the match is one too many.
pub(super) fn count(party: Party<'_>, run: RunId, purpose: MatchPurpose, goes_on: bool) -> Result<(), Failure> {
    if goes_on {
        return Ok(());
    }
    check(party)?;
    let path = place(party);
    let line = Line {
        run: run.to_string(),
        data_set: party.config.data_set(),
        peer: party.certificate(party.role.partner())?.to_string(),
        purpose,
        time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    text.push('\n');
    let write = || {
        let mut file = output::own_file().append(true).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        // The name of a new file, too.
        std::fs::File::open(&party.config.state)?.sync_all()
    };
    write().map_err(|source| OutputError { path: path.clone(), source }.into())
}
