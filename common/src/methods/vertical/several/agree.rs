//! What the leader of several parties compares with each of the others before a fit.

use rayon::prelude::*;

use crate::conversation::Refusal;
use crate::data::align::Mask;
use crate::id::Role;
use crate::session::{Abort, PeerFault};
use crate::study::Missing;

use super::super::agree::{self, Compared};
use super::super::message::{Body, Shared};
use super::super::prepare::Prepared;
use super::{Lines, refused};

/// How far the agreement is.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Rows,
    Complete,
    Shared,
}

/// The agreement over a table.
pub(super) struct Agreeing {
    pub(super) prepared: Box<Prepared>,
    part: Part,
}

/// What became of a step.
pub(super) enum Agreed {
    /// There is none to take until more is heard.
    Waits(Agreeing),
    /// It was taken.
    Taken(Agreeing),
    /// It was the last: what the others said of shared columns, in order. The own answer to it is still to be said.
    Over(Box<Prepared>, Vec<Shared>),
}

impl Agreeing {
    pub(super) fn new(prepared: Prepared) -> Agreeing {
        Agreeing { prepared: Box::new(prepared), part: Part::Rows }
    }

    /// Takes one step.
    pub(super) fn advance(mut self, role: Role, lines: &mut Lines) -> Result<Agreed, Abort> {
        let Some(bodies) = lines.heard() else { return Ok(Agreed::Waits(self)) };
        self.part = match self.part {
            Part::Rows => {
                lines.agree_on_rows(role, &*self.prepared, bodies)?;
                match self.prepared.study().head.rows.missing {
                    Missing::Refuse => Part::Shared,
                    Missing::CompleteCases => Part::Complete,
                }
            }
            Part::Complete => {
                let own =
                    Compared::incomplete(&*self.prepared).map(|mask| mask.as_bytes().to_vec()).unwrap_or_default();
                settle(lines, &mut self.prepared, own, bodies)?;
                Part::Shared
            }
            Part::Shared => {
                let theirs = self.compare(role, lines, bodies)?;
                return Ok(Agreed::Over(self.prepared, theirs));
            }
        };
        lines.await_all(match self.part {
            Part::Rows => "a proof of rows",
            Part::Complete => "a mask of complete rows",
            Part::Shared => "digests of shared columns",
        });
        Ok(Agreed::Taken(self))
    }

    /// Compares what all hold.
    fn compare(&self, role: Role, lines: &mut Lines, bodies: Vec<Body>) -> Result<Vec<Shared>, Abort> {
        let study = self.prepared.study();
        let mut theirs = Vec::new();
        let keys: Vec<[u8; 32]> = lines.0.iter().map(|line| line.key).collect();
        // One of these takes as long as a tenth of a round.
        let own: Vec<_> = keys.par_iter().map(|key| Compared::shared(&*self.prepared, key)).collect();
        for ((line, body), own) in lines.0.iter_mut().zip(bodies).zip(own) {
            let Body::Shared(shared) = body else { return Err(line.said_instead(&body, "digests of shared columns")) };
            let peer = line.peer;
            agree::compare_shared(study, &own?, &shared, (role, peer))?;
            let rows = &self.prepared.encoded()?.block;
            agree::enough_rows(study, role, rows, shared.columns).map_err(|refusal| refused(peer, refusal))?;
            line.columns = shared.columns as usize;
            theirs.push(shared);
        }
        let own = self.prepared.encoded()?.block.columns() as u32;
        let all: u32 = own + theirs.iter().map(|shared| shared.columns).sum::<u32>();
        let block = &self.prepared.encoded()?.block;
        agree::enough_rows(study, role, block, all - own).map_err(|refusal| refused(role, refusal))?;
        Ok(theirs)
    }
}

/// Tells each of the others how many columns all but it have, and whether bases may be sent at all others.
pub(super) fn answer(lines: &mut Lines, prepared: &Prepared, theirs: &[Shared], allows: bool) -> Result<u32, Abort> {
    let own = prepared.encoded()?.block.columns() as u32;
    let all: u32 = own + theirs.iter().map(|shared| shared.columns).sum::<u32>();
    for (at, line) in lines.0.iter_mut().enumerate() {
        let mut others = theirs.iter().enumerate().filter(|(other, _)| *other != at);
        let basis = allows && others.all(|(_, shared)| shared.basis);
        let columns = all - line.columns as u32;
        // The digests are those that were compared.
        line.leg().say(Body::Shared(Shared { columns, basis, ..theirs[at].clone() }));
    }
    Ok(all - own)
}

/// Keeps the rows that are complete at all parties, and tells each follower which are not at the others.
fn settle(lines: &mut Lines, prepared: &mut Prepared, own: Vec<u8>, bodies: Vec<Body>) -> Result<(), Abort> {
    let rows = prepared.rows();
    let mut masks = Vec::new();
    for (line, body) in lines.0.iter().zip(bodies) {
        let Body::Complete(mask) = body else { return Err(line.said_instead(&body, "a mask of complete rows")) };
        if let Err(error) = Mask::from_bytes(mask.clone(), rows) {
            return Err(Abort::Peer { peer: line.peer, fault: PeerFault::Garbage(error.to_string()) });
        }
        masks.push(mask);
    }
    let joined = |from: Vec<u8>, but: Option<usize>| {
        masks.iter().enumerate().filter(|(at, _)| Some(*at) != but).fold(from, |mut sum, (_, mask)| {
            sum.iter_mut().zip(mask).for_each(|(sum, byte)| *sum |= byte);
            sum
        })
    };
    for (at, line) in lines.0.iter_mut().enumerate() {
        line.leg().say(Body::Complete(joined(own.clone(), Some(at))));
    }
    let others = joined(vec![0; own.len()], None);
    Compared::settle(prepared, others).map_err(|refusal| match refusal {
        Refusal::Abort(abort) => abort,
        Refusal::Kind | Refusal::Fault(_) => Abort::Bug("masks of complete rows could not be joined".to_string()),
    })
}
