//! The table between the blocks behind masks, up to a share at each party once both have seen that their masks fit.
//!
//! The exchange of [masked columns](MaskedTable) ends with Alice's share of a public product, which Bob has checked; his own share of it
//! follows here, so that she has checked it too before either party makes a share that could leave.

use crate::conversation::{Refusal, Step};
use crate::methods::vertical::masked::{Kept, MaskedTable, out_of_order, peer_fault};
use crate::methods::vertical::message::{Body, Share};
use crate::methods::vertical::pair::Pair;
use crate::secure::product::{Blocks, Shares, TableShare};
use crate::session::{Abort, Order};

/// One party's end of the exchange.
pub(super) struct CheckedTable {
    pair: Pair,
    masked: MaskedTable,
    place: Place,
    /// At Alice, until Bob's canary has come.
    shares: Option<Shares>,
    share: Option<TableShare>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Both blocks behind masks, and Alice's share of the canary.
    Masked,
    /// Bob's.
    Canary,
    Over,
}

impl CheckedTable {
    pub(super) fn new(pair: Pair, masked: MaskedTable) -> CheckedTable {
        CheckedTable { pair, masked, place: Place::Masked, shares: None, share: None }
    }

    /// Whether the exchange was made by a process that is gone.
    pub(super) fn is_past(&self) -> bool {
        self.masked.is_of_the_past()
    }

    pub(super) fn waits_for_dealer(&self) -> bool {
        self.masked.waits_for_dealer()
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        self.masked.order()
    }

    /// What is said next; none once all is said.
    pub(super) fn step(&self) -> Option<Step> {
        match self.place {
            Place::Masked => self.masked.step(),
            Place::Canary => Some(Step { speaker: self.pair.second(), expected: "the share of a canary" }),
            Place::Over => None,
        }
    }

    pub(super) fn go_ahead(&mut self, own: &impl Blocks) -> Result<(), Abort> {
        match self.place {
            Place::Masked => self.masked.go_ahead(own),
            Place::Canary | Place::Over => Ok(()),
        }
    }

    pub(super) fn build(&mut self, own: &impl Blocks) -> Result<Body, Abort> {
        match self.place {
            Place::Masked => {
                let body = self.masked.build(own)?;
                self.after_masked()?;
                Ok(body)
            }
            Place::Canary => {
                self.place = Place::Over;
                // In a run of the past the message has passed, and what is built here leaves no more.
                let canary = self.share.as_ref().map(|share| share.canary().clone());
                Ok(canary.map_or(Body::Go, |canary| Body::Share(Share { canary, table: None })))
            }
            Place::Over => Err(out_of_order()),
        }
    }

    pub(super) fn absorb(&mut self, body: Body, own: &impl Blocks) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Masked, body) => {
                self.masked.absorb(body, own)?;
                self.after_masked()?;
            }
            (Place::Canary, Body::Go) if self.is_past() => self.place = Place::Over,
            (Place::Canary, Body::Share(Share { canary, table: None })) => {
                let shares = self.shares.take().ok_or_else(out_of_order)?;
                self.share = Some(shares.check(&canary).map_err(peer_fault)?);
                self.place = Place::Over;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    /// Once all masked columns have passed, the canaries are compared before anything else is made.
    fn after_masked(&mut self) -> Result<(), Abort> {
        if self.masked.step().is_some() {
            return Ok(());
        }
        if !self.is_past() {
            if self.pair.leads() {
                self.shares = Some(self.masked.take_shares()?);
            } else {
                self.share = Some(self.masked.take_share()?);
            }
        }
        self.place = Place::Canary;
        Ok(())
    }

    /// The own share, once all is said; it is used once.
    pub(super) fn take_share(&mut self) -> Result<TableShare, Abort> {
        self.share.take().filter(|_| self.place == Place::Over).ok_or_else(out_of_order)
    }

    /// What further products with the columns need, once all is said.
    pub(super) fn kept(self) -> Result<Kept, Abort> {
        self.masked.kept()
    }
}
