//! The proof, at the end of a match, that both parties hold the same keys in the same order.
//!
//! It is an equality test like that of a single key. Each sends the digest of its keys as an element times a scalar, and then a digest of
//! its own name and of the peer's element times that scalar. Both elements are the same where the keys are, and the names tell a proof
//! from its echo. A peer that does not know all the keys can test one guess of them with this party's help, and none by itself.

use crate::id::{Digest, Role, RunId};
use crate::secure::group::{Element, Scalar, TagContext};

/// What its messages are called.
pub(super) const PROOF: &str = "a proof of matched records";

/// Where the proof is: two elements come first, then two proofs.
pub(super) struct Agreement {
    role: Role,
    peer: Role,
    context: TagContext,
    scalar: Scalar,
    held: Digest,
    said: u8,
    theirs: Option<Element>,
}

impl Agreement {
    /// For keys of this digest, with a scalar that no pass has.
    pub(super) fn new((role, peer): (Role, Role), run: &RunId, scalar: Scalar, held: Digest) -> Agreement {
        Agreement { role, peer, context: TagContext::new(run, "agreement"), scalar, held, said: 0, theirs: None }
    }

    /// Whether the last of all messages is due.
    pub(super) fn is_at_its_last(&self) -> bool {
        self.said == 3
    }

    /// Who speaks, 0 for the first speaker; none once all is said.
    pub(super) fn side(&self) -> Option<usize> {
        (self.said < 4).then_some(usize::from(self.said % 2))
    }

    /// The next message.
    ///
    /// # Errors
    /// What is wrong with the peer's element.
    pub(super) fn build(&mut self) -> Result<Digest, &'static str> {
        let message = match self.shown() {
            Some(theirs) => self.proof(self.role, &theirs)?,
            None => self.element(),
        };
        self.said += 1;
        Ok(message)
    }

    /// Takes a message of the peer.
    ///
    /// # Errors
    /// What was expected of it.
    pub(super) fn absorb(&mut self, came: Digest) -> Result<(), &'static str> {
        match self.shown() {
            Some(theirs) => {
                if came != self.proof(self.peer, &theirs)? {
                    return Err("one of the same records in the same order");
                }
            }
            None => {
                // That it is an element.
                self.proof(self.role, &came.0)?;
                self.theirs = Some(came.0);
            }
        }
        self.said += 1;
        Ok(())
    }

    /// The peer's element, once proofs are due.
    fn shown(&self) -> Option<Element> {
        self.theirs.filter(|_| self.said > 1)
    }

    fn element(&self) -> Digest {
        let mut item = [(Element::default(), self.held)];
        self.scalar.mask(&mut item, |held, message| {
            for field in [b"fedreg match agreement".as_slice(), held.0.as_slice()] {
                message.extend_from_slice(&(field.len() as u64).to_le_bytes());
                message.extend_from_slice(field);
            }
        });
        Digest(item[0].0)
    }

    fn proof(&self, role: Role, theirs: &Element) -> Result<Digest, &'static str> {
        let tags = self.scalar.tags(std::slice::from_ref(theirs), &self.context);
        let tags = tags.map_err(|_| "an element of the group")?;
        Ok(Digest::of(&[role.name().as_bytes(), &tags.concat()].concat()))
    }
}
