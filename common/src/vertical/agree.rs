//! What every kind of run compares before it starts: the rows, and the columns that both hold.

use crate::id::{Digest, Role};
use crate::session::{Abort, PeerFault};
use crate::study::Study;

use super::message::{Rows, Shared};

/// Checks that the peer holds the same rows. The first speaker's message brings the key of the digests.
///
/// # Errors
/// Other rows, or a key where none belongs.
pub(super) fn rows(
    role: Role,
    answered: bool,
    theirs: &Rows,
    key: &mut [u8; 32],
    own: u64,
    ids: impl FnOnce(&[u8; 32]) -> Digest,
) -> Result<(), Abort> {
    let partner = role.partner();
    match (answered, theirs.key) {
        (false, Some(came)) => *key = came,
        (true, None) => {}
        _ => {
            let fault = PeerFault::Garbage("a proof of rows with a key where none belongs".to_string());
            return Err(Abort::Peer { peer: partner, fault });
        }
    }
    let peer = theirs.rows;
    if own != peer {
        return Err(Abort::Data(format!(
            "the parties hold different rows: {role} has {own}, {partner} has {peer}; both must select the same records"
        )));
    }
    if theirs.ids != ids(key) {
        return Err(Abort::Data(format!(
            "the parties hold different ids: both have {own} rows, but not the same ones; compare the id columns"
        )));
    }
    Ok(())
}

/// Checks that columns which both hold are the same.
///
/// # Errors
/// The first column that differs.
pub(super) fn shared(study: &Study, ours: &Shared, theirs: &Shared) -> Result<(), Abort> {
    let compared = [
        ("outcome", Some(study.outcome.column.clone()), ours.outcome, theirs.outcome),
        ("offset", study.offset.as_ref().map(|offset| offset.column.clone()), ours.offset, theirs.offset),
        ("weights", study.weights.as_ref().map(|weights| weights.column.clone()), ours.weights, theirs.weights),
        ("folds", study.penalty.as_ref().and_then(|penalty| penalty.folds.clone()), ours.folds, theirs.folds),
    ];
    for (what, column, ours, theirs) in compared {
        if ours != theirs {
            let column = column.map_or(String::new(), |column| format!(" `{column}`"));
            return Err(Abort::Data(format!(
                "the {what}{column} differs between alice and bob, who should hold the same values"
            )));
        }
    }
    Ok(())
}
