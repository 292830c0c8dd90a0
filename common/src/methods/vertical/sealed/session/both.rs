//! A table that opens to both parties: Alice sends Bob her share once she has opened it with his, and he checks against the table what she
//! tells him.

use nalgebra::DMatrix;

use super::{Place, Work};
use crate::conversation::Refusal;
use crate::methods::vertical::masked::{out_of_order, peer_fault};
use crate::methods::vertical::message::Share;
use crate::methods::vertical::sealed::penalised;
use crate::secure::gaussian::{Answer, Table};
use crate::secure::product::TableShare;
use crate::secure::ring::Elements;
use crate::session::{Abort, PeerFault};

/// Digits to which what Alice says must follow from the table.
pub(super) const DIGITS: f64 = 1e-8;

impl Work {
    pub(super) fn opens_to_both(&self) -> bool {
        self.study.guarantee.opens_to_both()
    }

    /// The own share of the table, for the message that opens it to the other party.
    pub(super) fn tell_share(&mut self) -> Result<Share, Abort> {
        if self.place == Place::ShareOfAlice {
            let share = self.own_share.take().ok_or_else(out_of_order)?;
            self.after_share()?;
            return Ok(share);
        }
        let share = self.share.take().ok_or_else(out_of_order)?;
        let body = said(&share);
        if self.opens_to_both() {
            self.share = Some(share);
        }
        self.after_opening()?;
        Ok(body)
    }

    /// At Alice: keeps what Bob is to open the table with.
    pub(super) fn keep_own(&mut self, share: &TableShare) {
        self.own_share = self.opens_to_both().then(|| said(share));
    }

    /// What follows once Bob's share has passed.
    pub(super) fn after_opening(&mut self) -> Result<(), Abort> {
        if self.opens_to_both() {
            self.place = Place::ShareOfAlice;
            return Ok(());
        }
        self.after_share()
    }

    /// At Bob: opens the table with Alice's share, whose canary he has checked.
    pub(super) fn take_share_of_alice(&mut self, table: &Elements) -> Result<(), Refusal> {
        let share = self.share.take().ok_or_else(out_of_order)?;
        let opened = share.open(table).map_err(peer_fault)?;
        self.seen = Table::new(&opened.mean(), self.across());
        Ok(self.after_share()?)
    }

    /// At Bob: whether Alice's columns leave of his what the table says.
    pub(super) fn check_left_over(&self, left_over: &DMatrix<f64>) -> Result<(), PeerFault> {
        match &self.seen {
            Some(table) => follows((table.left_over() - left_over).amax() <= DIGITS),
            None => Ok(()),
        }
    }

    /// At Bob: whether R squared of his columns on Alice's and the outcome is what the table says.
    pub(super) fn check_shares(&self, shares: &[f64]) -> Result<(), PeerFault> {
        let Some(table) = &self.seen else { return Ok(()) };
        let mut both = penalised::shares_of_bob(table, &self.own.factor).zip(shares);
        follows(both.all(|(ours, theirs)| (ours - theirs).abs() <= DIGITS))
    }

    /// At Bob: whether the covariance of his coordinates is that of the table, and his coordinates lie along what the table says of the
    /// outcome; how far along them is Alice's to know.
    pub(super) fn check_answer(&self, Answer { part, .. }: &Answer) -> Result<(), PeerFault> {
        let Some(table) = &self.seen else { return Ok(()) };
        let reduced = self.reduction.as_ref().map(|reduction| table.reduce(reduction));
        let table = match &reduced {
            Some(Some(reduced)) => reduced,
            Some(None) => return follows(false),
            None => table,
        };
        let size = part.covariance.amax().max(1.0);
        let left_over = &part.covariance * table.left_over() - DMatrix::identity(part.gamma.len(), part.gamma.len());
        // gamma = |e| V d: along d in the coordinates of V^-1.
        let (along, held) = (table.left_over() * &part.gamma, table.along());
        let across = held * along.dot(held) / held.norm_squared().max(f64::MIN_POSITIVE);
        let aside = (&along - across).amax();
        follows(left_over.amax() <= DIGITS * size && aside <= DIGITS * size * part.gamma.amax().max(f64::MIN_POSITIVE))
    }
}

/// The message that opens the table to the other party.
fn said(share: &TableShare) -> Share {
    Share { canary: share.canary().clone(), table: Some(share.share().clone()) }
}

pub(super) fn follows(sound: bool) -> Result<(), PeerFault> {
    match sound {
        true => Ok(()),
        false => {
            Err(PeerFault::Value { what: "the joint solution", expected: "what follows from the table", round: 1 })
        }
    }
}
