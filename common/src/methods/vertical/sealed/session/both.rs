//! What opens to both parties: Alice sends Bob her share once she has opened it with his, and he checks against what has opened to him what
//! she tells him.

use std::borrow::Cow;

use nalgebra::{DMatrix, DVector};

use super::{Place, Work};
use crate::conversation::Refusal;
use crate::methods::vertical::masked::{out_of_order, peer_fault};
use crate::methods::vertical::message::Share;
use crate::methods::vertical::sealed::glm::{End, Glm};
use crate::methods::vertical::sealed::penalised;
use crate::methods::vertical::sealed::results::weight_sum;
use crate::secure::gaussian::{Answer, Table};
use crate::secure::product::TableShare;
use crate::secure::ring::Elements;
use crate::session::{Abort, PeerFault};

/// Digits to which what Alice says must follow from the table.
pub(super) const DIGITS: f64 = 1e-8;

/// How far a fit may be from its last point where no weighted table says how far: its gradient there counts as zero.
const LAST_STEP: f64 = 1e-3;

impl Work {
    pub(in super::super) fn opens_to_both(&self) -> bool {
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

    /// At Bob: opens the table, or that of a fold, with Alice's share, whose canary he has checked.
    pub(super) fn take_share_of_alice(&mut self, table: &Elements) -> Result<(), Refusal> {
        let share = self.share.take().ok_or_else(out_of_order)?;
        let opened = share.open(table).map_err(peer_fault)?.mean();
        match self.folds {
            Some(_) => self.tables.push(opened),
            None => self.seen = Table::new(&opened, self.across()),
        }
        Ok(self.after_share()?)
    }

    /// At Bob: whether Alice's columns leave of his what the table says.
    pub(super) fn check_left_over(&self, left_over: &DMatrix<f64>) -> Result<(), PeerFault> {
        match &self.seen {
            Some(table) => follows((table.left_over() - left_over).amax() <= DIGITS),
            None => Ok(()),
        }
    }

    /// At Bob: whether R squared of his columns on Alice's and the outcome is what the table says. With folds it is that of each fold, which
    /// he has no sums of hers for: it is at least that of all rows.
    pub(super) fn check_shares(&self, shares: &[f64]) -> Result<(), PeerFault> {
        let Some(table) = &self.seen else { return Ok(()) };
        let mut both = penalised::shares_of_bob(table, &self.own.factor).zip(shares);
        let most = if self.folds.is_some() { 1.0 } else { DIGITS };
        follows(both.all(|(ours, theirs)| (-DIGITS..=most).contains(&(theirs - ours))))
    }

    /// At Bob: whether what Alice says of a binomial or poisson fit follows from what has opened: what is held of his columns from the table,
    /// and his coordinates with their covariance from the last gradient and the weighted table. Where that does not open, his coordinates are
    /// near the last point.
    pub(in super::super) fn check_solution(
        &self,
        glm: &Glm,
        held: &DMatrix<f64>,
        (gamma, separated): (&DVector<f64>, bool),
        covariance: Option<&DMatrix<f64>>,
    ) -> Result<(), PeerFault> {
        let Some(table) = self.seen_table() else { return follows(self.seen.is_none()) };
        follows((table.held() - held).amax() <= DIGITS)?;
        let near = |point: &DVector<f64>, most: f64| (point - gamma).amax() <= most * point.amax().max(1.0);
        match covariance {
            Some(covariance) => {
                let Some((own, variances)) = glm.seen().solution(self.rows) else { return follows(false) };
                let variances = variances / (weight_sum(self) / self.rows as f64);
                follows(near(&own, DIGITS) && (&variances - covariance).amax() <= DIGITS * variances.amax())
            }
            // Elsewhere the last gradient is not that of the last point.
            None if separated || glm.end() != Some(End::Converged) => Ok(()),
            None => follows(near(glm.seen().point(), LAST_STEP)),
        }
    }

    /// At Bob, where the table opens to both: the table of his columns that stay.
    fn seen_table(&self) -> Option<Cow<'_, Table>> {
        let table = self.seen.as_ref()?;
        match &self.reduction {
            Some(reduction) => table.reduce(reduction).map(Cow::Owned),
            None => Some(Cow::Borrowed(table)),
        }
    }

    /// At Bob: whether the covariance of his coordinates is that of the table, and his coordinates lie along what the table says of the
    /// outcome; how far along them is Alice's to know.
    pub(super) fn check_answer(&self, Answer { part, .. }: &Answer) -> Result<(), PeerFault> {
        let Some(table) = self.seen_table() else { return follows(self.seen.is_none()) };
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
        false => Err(PeerFault::Value {
            what: "the joint solution",
            expected: "what follows from the tables that opened",
            round: 1,
        }),
    }
}
