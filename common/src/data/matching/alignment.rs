//! What a match leaves with a party: its matched records in the order that both parties share, and where they come from.
//!
//! Two files hold it. `alignment.bin` has the record numbers, `match.json` a [`MatchRecord`]: which run, study and data file it belongs to,
//! and the counts of each pass. A fit takes rows by them, and proves before anything else that both parties have the same order.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::id::{Digest, Role, RunId};

/// The first bytes of a file of record numbers.
const MAGIC: &[u8; 8] = b"FRALIGN1";
/// Bytes before the record numbers.
const HEAD: usize = 16;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// What tells one matched pair from another; both parties have the same, and nobody else can compute it from a key.
pub type Tag = [u8; TAG_BYTES];

/// Which rows a match is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchPurpose {
    /// Those of a fit.
    #[default]
    Fit,
    /// New rows, to be scored.
    Predict,
}

impl MatchPurpose {
    /// Both, in the order of their names.
    pub const ALL: [MatchPurpose; 2] = [MatchPurpose::Fit, MatchPurpose::Predict];

    /// The word in commands and files.
    pub fn name(self) -> &'static str {
        match self {
            MatchPurpose::Fit => "fit",
            MatchPurpose::Predict => "predict",
        }
    }
}

/// The counts of one pass, as this party knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassRecord {
    /// Its name.
    pub name: String,
    /// With whom, at the leader of several parties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Role>,
    /// Own rows that took part.
    pub own_eligible: u64,
    /// Own rows that were left out because another own row has the same keys.
    pub own_ambiguous: u64,
    /// Own rows that lack a part of the keys.
    pub own_missing: u64,
    /// Own rows with a part of the keys that cannot be used.
    pub own_invalid: u64,
    /// Rows of the peer that took part.
    pub peer_eligible: u64,
    /// Rows that matched; zero of a pass that was not revealed because its count was below `min_pass`.
    pub matched: u64,
    /// Whether the pass had fewer matches than may be revealed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withheld: bool,
}

/// The content of `match.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchRecord {
    /// The run that made it.
    pub run: String,
    /// Whose it is.
    pub role: Role,
    /// For which rows.
    pub purpose: MatchPurpose,
    /// How the records were found.
    pub protocol: String,
    /// The name in the peer's certificate; of the leader of several parties, those of all others.
    pub peer: String,
    /// Of several parties, the one that matched with all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Role>,
    /// The digest of what decides a match in the study.
    pub match_digest: String,
    /// SHA-256 of the data file.
    pub data: String,
    /// Rows of the data file.
    pub rows: u64,
    /// SHA-256 of `alignment.bin`.
    pub alignment: String,
    /// The passes in their order.
    pub passes: Vec<PassRecord>,
    /// Matched rows over all passes; of several parties, those that all have.
    pub matched: u64,
    /// The digest of the shared order; equal at all parties.
    pub order_digest: String,
}

/// What an alignment must fit.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// Whose it must be.
    pub role: Role,
    /// For which rows.
    pub purpose: MatchPurpose,
    /// The name in the peer's certificate.
    pub peer: &'a str,
    /// What decides a match in the study.
    pub match_digest: Digest,
}

/// Matched records in the order that both parties share.
#[derive(Clone, PartialEq, Eq)]
pub struct Alignment {
    /// Own record numbers, from 0 in the order of the data file.
    records: Vec<u32>,
    order: [u8; 32],
    about: MatchRecord,
}

/// Why an alignment cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AlignmentError {
    /// Another data file.
    #[error("the data file has changed since the match: match again")]
    Data,
    /// It belongs to another side, study or purpose.
    #[error("the match is for another {what}, expected {expected}: match again")]
    Foreign {
        /// What differs.
        what: &'static str,
        /// What was expected.
        expected: String,
    },
    /// The files do not belong together, or are damaged.
    #[error("the files of the match are damaged or do not belong together ({0}): match again")]
    Damaged(&'static str),
}

/// The digest of a shared order: of the run, and of the tags of each pass in their order.
pub fn order_digest(run: RunId, passes: &[&[Tag]]) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut field = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    field(b"fedreg match order");
    field(&run.0);
    field(&(passes.len() as u64).to_le_bytes());
    for tags in passes {
        field(tags.as_flattened());
    }
    digest.finalize().into()
}

impl Alignment {
    /// What a match found: own record numbers in shared order, the digest of that order, and all that the record says beside both.
    pub fn new(records: Vec<u32>, order: [u8; 32], about: MatchRecord) -> Alignment {
        let alignment = Digest::of(&encoded(&records)).to_string();
        let matched = records.len() as u64;
        let about = MatchRecord { alignment, matched, order_digest: Digest(order).to_string(), ..about };
        Alignment { records, order, about }
    }

    /// Reads both files; `expected` is what they must belong to, and `data` the SHA-256 of the data file.
    ///
    /// # Errors
    /// They belong to something else, or are damaged.
    pub fn read(binary: &[u8], json: &str, expected: &Expected<'_>, data: Digest) -> Result<Alignment, AlignmentError> {
        let about = MatchRecord::parse(json)?;
        about.belongs(expected)?;
        if about.data != data.to_string() {
            return Err(AlignmentError::Data);
        }
        if about.alignment != Digest::of(binary).to_string() {
            return Err(AlignmentError::Damaged("alignment.bin is not the one that match.json names"));
        }
        let records = decoded(binary, about.rows)?;
        if records.len() as u64 != about.matched {
            return Err(AlignmentError::Damaged("the number of matched rows differs"));
        }
        let order = from_hex(&about.order_digest).ok_or(AlignmentError::Damaged("the digest of the order is none"))?;
        Ok(Alignment { records, order, about })
    }

    /// Own record numbers in shared order.
    pub fn records(&self) -> &[u32] {
        &self.records
    }

    /// The digest of the shared order.
    pub fn order(&self) -> [u8; 32] {
        self.order
    }

    /// Where it comes from, with its counts.
    pub fn about(&self) -> &MatchRecord {
        &self.about
    }

    /// The content of `alignment.bin`.
    pub fn binary(&self) -> Vec<u8> {
        encoded(&self.records)
    }

    /// The content of `match.json`.
    pub fn json(&self) -> String {
        // Unwrap safety: strings, numbers and lists, which JSON can hold.
        serde_json::to_string_pretty(&self.about).unwrap_or_default() + "\n"
    }
}

impl MatchRecord {
    /// Reads `match.json`.
    ///
    /// # Errors
    /// It is no record of a match.
    pub fn parse(json: &str) -> Result<MatchRecord, AlignmentError> {
        serde_json::from_str(json).map_err(|_| AlignmentError::Damaged("match.json is no record of a match"))
    }

    /// Whether the match belongs to a party, a study and a purpose, whatever the data are.
    ///
    /// # Errors
    /// It belongs to something else.
    pub fn belongs(&self, expected: &Expected<'_>) -> Result<(), AlignmentError> {
        let foreign = |what, expected: String| Err(AlignmentError::Foreign { what, expected });
        if self.role != expected.role {
            return foreign("party", expected.role.name().to_string());
        }
        if self.purpose != expected.purpose {
            return foreign("purpose", expected.purpose.name().to_string());
        }
        if self.match_digest != expected.match_digest.to_string() {
            return foreign("study", format!("one with the match digest {}", expected.match_digest.short()));
        }
        if self.peer != expected.peer {
            return foreign("peer", expected.peer.to_string());
        }
        Ok(())
    }
}

fn encoded(records: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + 4 * records.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(records.len() as u64).to_le_bytes());
    records.iter().for_each(|record| bytes.extend_from_slice(&record.to_le_bytes()));
    bytes
}

fn decoded(bytes: &[u8], rows: u64) -> Result<Vec<u32>, AlignmentError> {
    let damaged = |what| Err(AlignmentError::Damaged(what));
    let Some((head, body)) = bytes.split_at_checked(HEAD) else { return damaged("alignment.bin is too short") };
    let (magic, count) = head.split_at(MAGIC.len());
    if magic != MAGIC {
        return damaged("alignment.bin is of another kind");
    }
    let count = count.iter().rev().fold(0_u64, |count, byte| count << 8 | u64::from(*byte));
    if !body.len().is_multiple_of(4) || body.len() as u64 / 4 != count || count > rows {
        return damaged("alignment.bin has another length than it says");
    }
    let (numbers, _) = body.as_chunks::<4>();
    let records: Vec<u32> = numbers.iter().map(|number| u32::from_le_bytes(*number)).collect();
    let mut sorted = records.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
    if twice || sorted.last().is_some_and(|last| u64::from(*last) >= rows) {
        return damaged("alignment.bin names a record twice, or one that is not there");
    }
    Ok(records)
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let sound = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2).filter(|_| sound)?, 16).ok()?;
    }
    Some(bytes)
}

/// Sizes only: who is in both tables is a fact about persons.
impl std::fmt::Debug for Alignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Alignment({} of {} rows)", self.records.len(), self.about.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> MatchRecord {
        MatchRecord {
            run: RunId([1; 16]).to_string(),
            role: Role::Alice,
            purpose: MatchPurpose::Fit,
            protocol: "linked".to_string(),
            peer: "bob".to_string(),
            leader: None,
            match_digest: Digest([2; 32]).to_string(),
            data: Digest([3; 32]).to_string(),
            rows: 10,
            alignment: String::new(),
            passes: vec![PassRecord { name: "table".to_string(), matched: 3, ..PassRecord::default() }],
            matched: 0,
            order_digest: String::new(),
        }
    }

    fn expected() -> Expected<'static> {
        Expected { role: Role::Alice, purpose: MatchPurpose::Fit, peer: "bob", match_digest: Digest([2; 32]) }
    }

    const DATA: Digest = Digest([3; 32]);

    #[test]
    fn both_files_give_the_alignment_back() {
        let alignment = Alignment::new(vec![9, 0, 4], [0xab; 32], about());
        let back = Alignment::read(&alignment.binary(), &alignment.json(), &expected(), DATA).unwrap();
        assert_eq!(back, alignment);
        assert_eq!((back.records(), back.order(), back.about().matched), (&[9, 0, 4][..], [0xab; 32], 3));
        assert_eq!(&alignment.binary()[..20], b"FRALIGN1\x03\0\0\0\0\0\0\0\x09\0\0\0");
        assert_eq!(format!("{alignment:?}"), "Alignment(3 of 10 rows)");
    }

    #[test]
    fn files_of_another_side_study_purpose_peer_or_table_are_refused_each_with_its_reason() {
        let alignment = Alignment::new(vec![9, 0, 4], [0xab; 32], about());
        let read = |expected: Expected<'_>| {
            Alignment::read(&alignment.binary(), &alignment.json(), &expected, DATA).unwrap_err().to_string()
        };
        let own = expected();
        assert!(read(Expected { role: Role::Bob, ..own }).contains("another party, expected bob"));
        assert!(read(Expected { purpose: MatchPurpose::Predict, ..own }).contains("another purpose, expected predict"));
        assert!(read(Expected { peer: "carol", ..own }).contains("another peer, expected carol"));
        assert!(read(Expected { match_digest: Digest([9; 32]), ..own }).contains("another study"));
        let changed = Alignment::read(&alignment.binary(), &alignment.json(), &own, Digest([9; 32]));
        assert_eq!(changed, Err(AlignmentError::Data));
        assert_eq!(AlignmentError::Data.to_string(), "the data file has changed since the match: match again");
    }

    #[test]
    fn damaged_files_are_refused() {
        let alignment = Alignment::new(vec![9, 0, 4], [0xab; 32], about());
        let read = |binary: Vec<u8>| {
            let json = alignment.json().replace(&alignment.about.alignment, &Digest::of(&binary).to_string());
            Alignment::read(&binary, &json, &expected(), DATA).is_err()
        };
        let whole = alignment.binary();
        assert!(!read(whole.clone()));
        for odd in [
            Vec::new(),
            whole[..15].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            whole[..whole.len() - 4].to_vec(),
            [b"FRALIGN2", &whole[8..]].concat(),
            [&whole[..], &[1, 0, 0, 0]].concat(),
            [&whole[..16], &[9, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0]].concat(),
            [&whole[..16], &[9, 0, 0, 0, 10, 0, 0, 0, 4, 0, 0, 0]].concat(),
            [&whole[..8], &[255; 8], &whole[16..]].concat(),
        ] {
            assert!(read(odd.clone()), "{odd:?}");
        }
        // The files of two matches, swapped.
        let other = Alignment::new(vec![1, 0, 4], [0xab; 32], about());
        assert!(Alignment::read(&other.binary(), &alignment.json(), &expected(), DATA).is_err());
        for json in
            ["", "{}", &alignment.json().replace("abab", "xxxx"), &alignment.json().replace("\"run\"", "\"rum\"")]
        {
            assert!(Alignment::read(&alignment.binary(), json, &expected(), DATA).is_err());
        }
    }

    #[test]
    fn the_digest_of_an_order_depends_on_run_cuts_and_sequence() {
        let run = RunId([1; 16]);
        let (a, b) = ([1; TAG_BYTES], [2; TAG_BYTES]);
        let own = order_digest(run, &[&[a, b]]);
        assert_eq!(order_digest(run, &[&[a, b]]), own);
        for other in [
            order_digest(RunId([2; 16]), &[&[a, b]]),
            order_digest(run, &[&[b, a]]),
            order_digest(run, &[&[a], &[b]]),
            order_digest(run, &[&[a, b], &[]]),
            order_digest(run, &[&[a]]),
        ] {
            assert_ne!(other, own);
        }
    }
}
