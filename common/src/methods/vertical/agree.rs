//! What every kind of run compares before it starts: the rows, and the columns that both hold.

use crate::conversation::{Opening, Refusal, Step};
use crate::data::align::Mask;
use crate::data::counted;
use crate::id::{Digest, Role};
use crate::session::{Abort, PeerFault};
use crate::study::{Missing, Study, Vertical};

use super::block::Block;
use super::message::{Body, Rows, Shared};
use super::prepare::Prepared;

/// A table, as far as both parties must agree on it.
pub(super) trait Compared {
    /// How many rows.
    fn rows(&self) -> u64;

    /// The digest of what must be the same in each row.
    fn digest(&self, key: &[u8; 32]) -> Digest;

    /// Whether the study is of several parties, so that a sentence must say which two differ.
    fn is_of_several(&self) -> bool {
        false
    }

    /// What it means when the digests of these, the parties or two of several, differ.
    fn differs(&self, parties: &str) -> String {
        let rows = self.rows();
        format!("{parties} hold different ids: both have {rows} rows, but not the same ones; compare the id columns")
    }

    /// What it means when the numbers of rows differ.
    fn counts_differ(&self, (role, own): (Role, u64), (partner, peer): (Role, u64)) -> String {
        format!(
            "the parties hold different rows: {role} has {own}, {partner} has {peer}; both must select the same records"
        )
    }

    /// Whether the rows are those of a match, whose proof of order nobody can fail by holding other records.
    fn is_matched(&self) -> bool {
        false
    }

    /// The rows that lack a value here, where only complete ones take part.
    fn incomplete(&self) -> Option<&Mask> {
        None
    }

    /// Keeps the rows that are complete at both parties.
    ///
    /// # Errors
    /// The peer's mask does not fit, no row is left, or those that are left cannot be used.
    fn settle(&mut self, _theirs: Vec<u8>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The digests of the columns that both hold.
    ///
    /// # Errors
    /// The rows are not settled.
    fn shared(&self, _key: &[u8; 32]) -> Result<Shared, Abort> {
        Err(Abort::Bug("a table without shared columns is compared by them".to_string()))
    }
}

/// A part of the agreement. Both parties say theirs, the first speaker first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Rows,
    Complete,
    Shared,
}

/// One side of the agreement.
pub(super) struct Agreement<T> {
    pub(super) table: T,
    role: Role,
    pub(super) peer: Role,
    first: Role,
    /// Of the digests: the first speaker's.
    key: [u8; 32],
    parts: &'static [Part],
    said: usize,
}

impl<T: Compared> Agreement<T> {
    pub(super) fn new(table: T, role: Role, opening: &Opening, key: [u8; 32], parts: &'static [Part]) -> Agreement<T> {
        Agreement { table, role, peer: opening.peer, first: opening.first_speaker(role), key, parts, said: 0 }
    }

    /// Of the two who talk, the one that is not this one.
    fn other(&self, role: Role) -> Role {
        if role == self.role { self.peer } else { self.role }
    }

    /// The part that is being compared.
    pub(super) fn part(&self) -> Option<Part> {
        self.parts.get(self.said / 2).copied()
    }

    fn is_answer(&self) -> bool {
        self.said % 2 == 1
    }

    pub(super) fn step(&self) -> Option<Step> {
        let speaker = if self.is_answer() { self.other(self.first) } else { self.first };
        self.part().map(|part| Step {
            speaker,
            expected: match part {
                Part::Rows => "a proof of rows",
                Part::Complete => "a mask of complete rows",
                Part::Shared => "digests of shared columns",
            },
        })
    }

    pub(super) fn build(&mut self) -> Result<Body, Abort> {
        let body = match self.part() {
            Some(Part::Rows) => Body::Rows(self.proof((!self.is_answer()).then_some(self.key))),
            Some(Part::Complete) => {
                Body::Complete(self.table.incomplete().map(|mask| mask.as_bytes().to_vec()).unwrap_or_default())
            }
            Some(Part::Shared) => Body::Shared(self.shared()?),
            None => Body::Go,
        };
        self.said += 1;
        Ok(body)
    }

    /// What proves these rows, here or at the peer.
    pub(super) fn proof(&self, key: Option<[u8; 32]>) -> Rows {
        proof(&self.table, key, &key.unwrap_or(self.key))
    }

    pub(super) fn shared(&self) -> Result<Shared, Abort> {
        self.table.shared(&self.key)
    }

    /// Compares what the peer said with the own table; yields what it said of shared columns.
    pub(super) fn absorb(&mut self, study: &Study<Vertical>, body: Body) -> Result<Option<Shared>, Refusal> {
        let mut shared = None;
        match (self.part(), body) {
            (Some(Part::Rows), Body::Rows(theirs)) => self.compare_rows(&theirs)?,
            (Some(Part::Complete), Body::Complete(mask)) => self.table.settle(mask)?,
            (Some(Part::Shared), Body::Shared(theirs)) => {
                compare_shared(study, &self.shared()?, &theirs, (self.role, self.peer))?;
                shared = Some(theirs);
            }
            _ => return Err(Refusal::Kind),
        }
        self.said += 1;
        Ok(shared)
    }

    fn compare_rows(&mut self, theirs: &Rows) -> Result<(), Refusal> {
        match (self.is_answer(), theirs.key) {
            (false, Some(came)) => self.key = came,
            (true, None) => {}
            _ => return Err(PeerFault::Garbage("a proof of rows with a key where none belongs".to_string()).into()),
        }
        same_rows(&self.table, (self.role, self.peer), &self.key, theirs)
    }
}

/// What proves the rows of a table under a key, which goes along where it is the sender's.
pub(super) fn proof(table: &impl Compared, sent: Option<[u8; 32]>, key: &[u8; 32]) -> Rows {
    Rows { key: sent, rows: table.rows(), ids: table.digest(key) }
}

/// Compares the rows of a table with those that a peer proved.
pub(super) fn same_rows(
    table: &impl Compared,
    (role, partner): (Role, Role),
    key: &[u8; 32],
    theirs: &Rows,
) -> Result<(), Refusal> {
    let (own, peer) = (table.rows(), theirs.rows);
    let proved = own == peer && theirs.ids == table.digest(key);
    if table.is_matched() && !proved {
        return Err(PeerFault::Order.into());
    }
    if own != peer {
        return Err(Abort::Data(table.counts_differ((role, own), (partner, peer))).into());
    }
    match proved {
        true => Ok(()),
        false => {
            let parties = match table.is_of_several() {
                true => format!("{role} and {partner}"),
                false => "the parties".to_string(),
            };
            Err(Abort::Data(table.differs(&parties)).into())
        }
    }
}

impl Agreement<Prepared> {
    /// That of a fit without noise: complete rows are compared where the study asks for them.
    pub(super) fn of_prepared(prepared: Prepared, opening: &Opening) -> Agreement<Prepared> {
        let role = prepared.role();
        // The key of the digests is sent; nothing else that follows from the seed must follow from it.
        let key = Digest::of(&[b"rows".as_slice(), opening.seed.as_slice()].concat()).0;
        let parts: &[Part] = match prepared.study().head.rows.missing {
            Missing::Refuse => &[Part::Rows, Part::Shared],
            Missing::CompleteCases => &[Part::Rows, Part::Complete, Part::Shared],
        };
        Agreement::new(prepared, role, opening, key, parts)
    }
}

/// Far beyond what fits in memory beside a million rows; keeps a peer's number from deciding about allocations.
const MAX_COLUMNS: u32 = 100_000;

/// Refuses a peer's block that cannot be, and more columns than rows.
///
/// This is the earliest message with a peer's count: columns that depend on others are set aside first, so that it is known when the
/// block is built and not before. A count of the columns that are asked for, as each party makes of its own before it builds
/// a matrix, would refuse fits that work without those; the columns that the study lists for the peer likewise.
pub(super) fn enough_rows(study: &Study<Vertical>, role: Role, block: &Block, peer: u32) -> Result<(), Refusal> {
    if peer > MAX_COLUMNS {
        let (came, expected) = (peer.into(), MAX_COLUMNS.into());
        return Err(PeerFault::Length { what: "columns", came, expected }.into());
    }
    let (rows, own, peer) = (block.rows(), block.columns(), peer as usize);
    if study.method.penalty.is_some() || rows >= own + peer {
        return Ok(());
    }
    // Of several parties, another than the leader is told the sum of all others' columns.
    let others = if study.is_of_several() { "the others".to_string() } else { study.peer(role).to_string() };
    let mut counts = [format!("{own} of {role}"), format!("{peer} of {others}")];
    if !study.is_first(role) {
        counts.reverse();
    }
    Err(Abort::Data(format!(
        "{} cannot determine {} coefficients, {}; leave columns out or use a penalty",
        counted(rows, "row"),
        own + peer,
        counts.join(" and ")
    ))
    .into())
}

/// Checks that columns which all hold are the same.
pub(super) fn compare_shared(
    study: &Study<Vertical>,
    ours: &Shared,
    theirs: &Shared,
    (role, peer): (Role, Role),
) -> Result<(), Abort> {
    let (one, other) = if study.is_first(role) { (role, peer) } else { (peer, role) };
    let compared = [
        ("outcome", Some(study.method.outcome.column.clone()), ours.outcome, theirs.outcome),
        ("offset", study.method.offset.as_ref().map(|offset| offset.column.clone()), ours.offset, theirs.offset),
        ("weights", study.method.weights.as_ref().map(|weights| weights.column.clone()), ours.weights, theirs.weights),
        ("folds", study.method.penalty.as_ref().and_then(|penalty| penalty.folds.clone()), ours.folds, theirs.folds),
    ];
    for (what, column, ours, theirs) in compared {
        if ours != theirs {
            let column = column.map_or(String::new(), |column| format!(" `{column}`"));
            return Err(Abort::Data(format!(
                "the {what}{column} differs between {one} and {other}, who should hold the same values"
            )));
        }
    }
    Ok(())
}
