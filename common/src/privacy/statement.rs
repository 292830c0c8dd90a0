//! The privacy block of a report: what is protected, what was released, what it cost, what is left.

use serde::Serialize;

use crate::privacy::accountant::{Accountant, joint_sum};
use crate::privacy::ledger::{Account, BoundsChange};
use crate::privacy::mechanism::Receipt;

/// Everything that a report says about privacy; no private value is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// What is protected.
    pub unit: &'static str,
    /// From whom.
    pub adversary: &'static str,
    /// What is not protected.
    pub not_protected: &'static str,
    /// Whether somebody with unlimited computing power is covered.
    pub kind: &'static str,
    /// Epsilon of the budget: the guarantee for the lifetime of the data set, over all peers.
    pub epsilon: f64,
    /// Delta of the budget.
    pub delta: f64,
    /// How sums are read.
    pub accountant: Accountant,
    /// The releases of this run, in their order.
    pub releases: Vec<Receipt>,
    /// What this run was charged, as a sum of `(sensitivity / sigma)^2`.
    pub charge: f64,
    /// Largest sum: the guarantee.
    pub cap: f64,
    /// Sum charged so far over all runs: bookkeeping, no guarantee of its own.
    pub spent: f64,
    /// What may still be charged.
    pub left: f64,
    /// The sum so far, as an epsilon by zero-concentrated privacy.
    pub epsilon_spent_zcdp: f64,
    /// The sum so far, as an epsilon by the Gaussian curve.
    pub epsilon_spent_exact: f64,
    /// Epsilon of the cap for a person with a row in both parties' blocks, towards whoever sees the merged result; only in
    /// vertical studies.
    pub epsilon_joint: Option<f64>,
    /// Whether these persons were ever in a run without privacy; what that showed is not covered.
    pub plain_runs: bool,
    /// Columns whose public bounds were changed after they were first stated.
    pub bounds_changed: Vec<BoundsChange>,
}

impl Statement {
    /// The statement about one run. `peer_cap` is the other party's cap in a vertical study.
    pub fn new(account: &Account, releases: Vec<Receipt>, charge: f64, peer_cap: Option<f64>) -> Statement {
        Statement {
            unit: "one person's row in this party's block, replaced by any other row",
            adversary: "every peer and the coordinator together, with everything that they ever received; a peer may break \
                        the protocol",
            not_protected: "that a person is in the data, matched identifiers, an outcome that both parties hold, the \
                            number of rows, column names and public bounds, running time, the party's own administrators",
            kind: "information-theoretic, up to the generator of the noise",
            epsilon: account.epsilon,
            delta: account.delta,
            accountant: account.accountant,
            releases,
            charge,
            cap: account.cap,
            spent: account.sum,
            left: account.left(),
            epsilon_spent_zcdp: account.epsilon_spent(Accountant::Zcdp),
            epsilon_spent_exact: account.epsilon_spent(Accountant::Exact),
            epsilon_joint: peer_cap.map(|peer| account.accountant.epsilon(joint_sum(account.cap, peer), account.delta)),
            plain_runs: account.unbounded,
            bounds_changed: account.bounds_changed.clone(),
        }
    }

    /// The promise in words, one thought a line.
    pub fn promise(&self) -> Vec<String> {
        let mut lines = vec![
            format!("protected: {}", self.unit),
            format!("against: {} ({})", self.adversary, self.kind),
            format!("not protected: {}", self.not_protected),
            format!("guarantee: epsilon {} at delta {:e}, for the lifetime of the data set", self.epsilon, self.delta),
        ];
        if let Some(joint) = self.epsilon_joint {
            lines.push(format!("a person in both blocks: epsilon {joint:.2} towards whoever sees the merged result"));
        }
        lines
    }

    /// What was released and spent in words, one thought a line.
    pub fn account(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "spent: {:.6} of {:.6} (bookkeeping: epsilon {:.4} by zcdp, {:.4} exact); this run {:.6}, left {:.6}",
            self.spent, self.cap, self.epsilon_spent_zcdp, self.epsilon_spent_exact, self.charge, self.left
        )];
        if self.plain_runs {
            lines.push("these persons were in a run without privacy: what it showed is not covered".to_owned());
        }
        lines.extend(self.bounds_changed.iter().map(BoundsChange::sentence));
        for release in &self.releases {
            lines.push(format!(
                "release {}, {}: sigma {:.6} for sensitivity {:.6}, which is {}",
                release.index, release.label, release.sigma, release.sensitivity, release.formula
            ));
        }
        lines
    }
}
