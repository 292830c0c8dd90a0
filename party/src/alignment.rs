//! The files that a match leaves, and how a run takes its rows by them.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use fedreg_common::data::Frame;
use fedreg_common::data::matching::alignment::{Alignment, AlignmentError, Expected, MatchPurpose, MatchRecord};
use fedreg_common::id::Digest;
use fedreg_common::report::MatchReport;
use fedreg_common::session::Abort;
use fedreg_common::study::VerticalGuarantee;
use fedreg_proto::files::FileError;
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::output::{Folder, OutputError};
use crate::party::Party;
use crate::read::{self, ReadError, Stated, content};

/// The record numbers.
const BINARY: &str = "alignment.bin";
/// Where they come from.
const RECORD: &str = "match.json";
/// Bytes that are read at once.
const CHUNK: usize = 1 << 20;

/// Whether a folder holds a match.
pub(crate) fn is_there(folder: &Path) -> bool {
    folder.join(RECORD).is_file()
}

/// That there is no match, with the command that makes one.
pub(crate) fn missing(party: Party<'_>, purpose: MatchPurpose, folder: &Path) -> Failure {
    let role = party.role;
    let (more, run) = match purpose {
        MatchPurpose::Fit => ("", "`fit`"),
        MatchPurpose::Predict => (" --purpose predict", "`predict`"),
    };
    let there = match party.study.is_of_several() {
        false => format!("`{} match{more}` there", party.study.peer(role).program()),
        true => "the same at all other parties".to_string(),
    };
    Failure::Usage(format!(
        "the study matches rows, and there is no match in {}: run `{} match{more}` here and {there} before {run}",
        folder.display(),
        role.program()
    ))
}

/// Writes a match; the record last, as without it there is no match.
pub(crate) fn write(folder: &Folder, alignment: &Alignment) -> Result<(), Failure> {
    let old = folder.path().join(RECORD);
    match fs::remove_file(&old) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(OutputError { path: old, source }.into());
        }
        _ => {}
    }
    folder.write(BINARY, &alignment.binary())?;
    Ok(folder.write(RECORD, alignment.json().as_bytes())?)
}

/// Reads the match for some rows, and checks that it belongs to this party, study, peer and data.
///
/// # Errors
/// There is none, or it belongs to something else.
fn read(party: Party<'_>, purpose: MatchPurpose) -> Result<Alignment, Failure> {
    let folder = party.config.matching.folder(purpose, &party.config.state);
    if !is_there(&folder) {
        return Err(missing(party, purpose, &folder));
    }
    refuse_what_cannot_be_read_again(party)?;
    let (binary, record) = (folder.join(BINARY), folder.join(RECORD));
    let json = fs::read_to_string(&record).map_err(unreadable(&record))?;
    let bytes = fs::read(&binary).map_err(unreadable(&binary))?;
    let data = fingerprint(&party.config.source())?;
    let peers = peers(party)?;
    let expected = Expected { role: party.role, purpose, peer: &peers, match_digest: match_digest(party)? };
    Alignment::read(&bytes, &json, &expected, data).map_err(|error| refused(&error, &folder))
}

/// The certificate names of all with whom this party matches.
pub(crate) fn peers(party: Party<'_>) -> Result<String, Failure> {
    let peers = party.study.peers(party.role);
    let names: Vec<&str> = peers.into_iter().map(|peer| party.certificate(peer)).collect::<Result<_, _>>()?;
    Ok(names.join(", "))
}

/// Checks, before anybody is contacted, that a match belongs to this party and study; the data are compared when they are read.
pub(crate) fn belongs(party: Party<'_>, purpose: MatchPurpose, folder: &Path) -> Result<(), Failure> {
    let record = folder.join(RECORD);
    let json = fs::read_to_string(&record).map_err(unreadable(&record))?;
    let peers = peers(party)?;
    let expected = Expected { role: party.role, purpose, peer: &peers, match_digest: match_digest(party)? };
    MatchRecord::parse(&json).and_then(|record| record.belongs(&expected)).map_err(|error| refused(&error, folder))
}

/// The failure of a file that cannot be read.
fn unreadable(file: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    |source| ReadError::Open { file: file.display().to_string(), source }.into()
}

fn refused(error: &AlignmentError, folder: &Path) -> Failure {
    let sentence = format!("{}: {error}", folder.display());
    match error {
        AlignmentError::Data | AlignmentError::Damaged(_) => Abort::OwnData(sentence).into(),
        AlignmentError::Foreign { .. } => Abort::Refused(sentence).into(),
    }
}

/// Keeps the matched rows of a table, in the order that both parties share; a table of a study without `[match]` stays as it is.
///
/// # Errors
/// There is no match, or it does not fit the table.
pub(crate) fn align(party: Party<'_>, purpose: MatchPurpose, frame: &mut Frame) -> Result<(), Failure> {
    if party.study.head.matching.is_none() {
        return Ok(());
    }
    let alignment = read(party, purpose)?;
    let fits = alignment.about().rows == frame.rows() as u64;
    let kept = if fits { frame.keep_matched(alignment.records(), alignment.order()).is_ok() } else { false };
    match kept {
        true => Ok(()),
        false => {
            let folder = party.config.matching.folder(purpose, &party.config.state);
            Err(refused(&AlignmentError::Damaged("it names other rows than the table has"), &folder))
        }
    }
}

/// What a report says of the match of its fit.
pub(crate) fn report(party: Party<'_>) -> Option<MatchReport> {
    party.study.head.matching.as_ref()?;
    let folder = party.config.matching.folder(MatchPurpose::Fit, &party.config.state);
    let json = fs::read_to_string(folder.join(RECORD)).ok()?;
    // It was read and checked before the run.
    serde_json::from_str(&json).ok().map(|record| MatchReport::of(&record))
}

/// The digest of what decides the match in the study.
pub(crate) fn match_digest(party: Party<'_>) -> Result<Digest, Failure> {
    let none = || Abort::Bug("a study without `[match]` was matched".to_string());
    Ok(party.study.match_digest().ok_or_else(none)?)
}

/// Refuses a source that ends with its first reading: a match and the fit after it read the same table.
pub(crate) fn refuse_what_cannot_be_read_again(party: Party<'_>) -> Result<(), Failure> {
    match read::ends_once_read(&party.config.source()) {
        true => {
            Err(wrong("data.file", "must be a file where the study has `[match]`: it is read more than once".into()))
        }
        // One that is not there is complained of by the reader, as everywhere.
        false => Ok(()),
    }
}

/// SHA-256 of a file; of any other source of its rows in their order.
pub(crate) fn fingerprint(source: &Stated) -> Result<Digest, Failure> {
    let file = source.place();
    if !file.is_file() {
        return Ok(content::in_order(source)?);
    }
    let mut open = File::open(file).map_err(unreadable(file))?;
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = open.read(&mut chunk).map_err(unreadable(file))?;
        if length == 0 {
            return Ok(Digest(digest.finalize().into()));
        }
        digest.update(&chunk[..length]);
    }
}

/// What a match takes from the promise of a private fit, in a sentence.
pub(crate) fn unprotected(party: Party<'_>) -> Option<String> {
    let terms = party.study.head.matching.as_ref()?;
    match party.study.guarantee {
        VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => return None,
        VerticalGuarantee::Private(_) => {}
    }
    let reused = match terms.reused.is_empty() {
        true => String::new(),
        false => format!("; so are the keys that are columns of the model too: {}", terms.reused.join(", ")),
    };
    Some(format!(
        "declared and not protected: which rows matched, how many took part, and the columns by which they were matched{reused}"
    ))
}

/// What is wrong with a key of the private file.
pub(crate) fn wrong(key: &'static str, problem: String) -> Failure {
    FileError::Value { key, problem }.into()
}
