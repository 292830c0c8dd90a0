//! The privacy block of a report: what is protected, what was released, what it cost, what is left.

use serde::Serialize;

use crate::privacy::accountant::{Accountant, joint_sum};
use crate::privacy::ledger::{Account, BoundsChange};
use crate::privacy::mechanism::Receipt;

/// How somebody who is covered may go about it.
const KIND: &str = "information-theoretic, up to the generator of the noise";

/// How every release is made private.
pub const MECHANISM: &str = "Gaussian noise on a lattice (exact discrete Gaussian)";

/// What is protected, by the protocol of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Protects {
    /// A person's row in one of two blocks of columns about the same persons.
    Block {
        /// Largest sum of the other party's data set.
        peer_cap: f64,
    },
    /// A person's rows at one of many sites.
    Rows {
        /// Whether rows are cut into batches.
        batches: bool,
    },
    /// A person's records in a stream, each noised by itself.
    Records {
        /// Most records of one person.
        per_person: u32,
    },
}

impl Protects {
    /// What is replaced by what, where a person has at most so many rows.
    pub fn unit(self, rows_per_person: u32) -> String {
        let (row, place, most) = match self {
            Protects::Block { .. } => ("row", "in this party's block", rows_per_person),
            Protects::Rows { .. } => ("row", "at a site", rows_per_person),
            Protects::Records { per_person } => ("record", "of a site's stream", per_person),
        };
        match (self, most) {
            (Protects::Records { .. }, 0 | 1) => format!("one {row} {place}, replaced by any other {row}"),
            (_, 0 | 1) => format!("one person's {row} {place}, replaced by any other {row}"),
            _ => format!("all {row}s {place} that are one person's, at most {most}, replaced by any others"),
        }
    }

    /// From whom.
    pub fn adversary(self) -> &'static str {
        match self {
            Protects::Block { .. } => {
                "the other party, the coordinator and every earlier peer together, with everything that they ever received; they may \
                 break the protocol"
            }
            Protects::Rows { .. } => {
                "the coordinator, every other site and whoever reads the result together, with everything that they ever received; they \
                 may break the protocol"
            }
            Protects::Records { .. } => {
                "everybody outside the site together: the coordinator, every other site and whoever reads the result, with everything that \
                 they ever received; each record is noised before it leaves (local privacy)"
            }
        }
    }

    /// What is not protected.
    pub fn not_protected(self) -> &'static str {
        match self {
            Protects::Block { .. } => {
                "that a person is in the data, matched identifiers, the outcome, which both parties hold, the number of rows, column names \
                 and public bounds, side channels (running time, power, memory), the party's own administrators"
            }
            Protects::Rows { batches: true } => {
                "that a person is in the data and with how many rows, the number of rows, where batches begin and end, column names and \
                 public bounds, side channels (running time, power, memory), a site's own administrators"
            }
            Protects::Rows { batches: false } => {
                "that a person is in the data and with how many rows, the number of rows, column names and public bounds, side channels \
                 (running time, power, memory), a site's own administrators"
            }
            Protects::Records { .. } => {
                "that a person is in the stream, how many records came and when, column names and public bounds, side channels (running time, \
                 power, memory), a site's own administrators"
            }
        }
    }

    /// Whether somebody with unlimited computing power is covered.
    pub fn kind(self) -> &'static str {
        KIND
    }

    /// Unit, adversary and what is not protected, in words, a thought a line.
    pub fn lines(self, rows_per_person: u32) -> Vec<String> {
        vec![
            format!("protected: {}", self.unit(rows_per_person)),
            format!("against: {} ({KIND})", self.adversary()),
            format!("not protected: {}", self.not_protected()),
        ]
    }

    /// Towards whom the guarantee of one data set holds.
    fn towards(self) -> &'static str {
        match self {
            Protects::Block { .. } => "towards the other party and the coordinator",
            Protects::Rows { .. } => "towards the coordinator, every other site and whoever reads the result",
            Protects::Records { .. } => "towards everybody outside the site",
        }
    }
}

/// Everything that a report says about privacy; no private value is in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    #[serde(skip)]
    protects: Protects,
    #[serde(skip)]
    rows_per_person: u32,
    /// What is protected.
    pub unit: String,
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
    /// How every release was made private.
    pub mechanism: &'static str,
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
    /// The statement about one run.
    pub fn new(account: &Account, releases: Vec<Receipt>, charge: f64, protects: Protects) -> Statement {
        let peer_cap = match protects {
            Protects::Block { peer_cap } => Some(peer_cap),
            Protects::Rows { .. } | Protects::Records { .. } => None,
        };
        Statement {
            protects,
            rows_per_person: account.rows_per_person,
            unit: protects.unit(account.rows_per_person),
            adversary: protects.adversary(),
            not_protected: protects.not_protected(),
            kind: protects.kind(),
            epsilon: account.epsilon,
            delta: account.delta,
            accountant: account.accountant,
            mechanism: MECHANISM,
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
        let (epsilon, delta) = (self.epsilon, self.delta);
        let mut lines = self.protects.lines(self.rows_per_person);
        lines.push(format!(
            "guarantee: epsilon {epsilon} at delta {delta:e} {}, for the lifetime of the data set",
            self.protects.towards()
        ));
        if let Some(joint) = self.epsilon_joint {
            lines.push(format!(
                "a person with a row in both blocks: epsilon {joint:.2} at delta {delta:e} towards whoever sees the merged result"
            ));
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
        if !self.releases.is_empty() {
            lines.push(format!("each release: {MECHANISM}"));
        }
        for release in &self.releases {
            lines.push(format!(
                "release {}, {}: sigma {:.6} for sensitivity {:.6}, which is {}",
                release.index, release.label, release.sigma, release.sensitivity, release.formula
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_name_the_protocols_own_rows_and_how_many_a_person_may_have() {
        let (block, rows) = (Protects::Block { peer_cap: 1.0 }, Protects::Rows { batches: true });
        assert_eq!(block.unit(1), "one person's row in this party's block, replaced by any other row");
        assert_eq!(
            block.unit(3),
            "all rows in this party's block that are one person's, at most 3, replaced by any others"
        );
        assert_eq!(rows.unit(1), "one person's row at a site, replaced by any other row");
        assert_eq!(rows.unit(2), "all rows at a site that are one person's, at most 2, replaced by any others");
        // A stream is one row to the ledger; how many records a person may have is the study's.
        let records = |per_person| Protects::Records { per_person }.unit(1);
        assert_eq!(records(1), "one record of a site's stream, replaced by any other record");
        assert_eq!(
            records(4),
            "all records of a site's stream that are one person's, at most 4, replaced by any others"
        );
    }

    #[test]
    fn what_only_one_protocol_has_no_other_claims() {
        let block = Protects::Block { peer_cap: 1.0 };
        let (rows, batches) = (Protects::Rows { batches: false }, Protects::Rows { batches: true });
        let records = Protects::Records { per_person: 1 };
        for (words, whose) in [
            ("matched identifiers", [true, false, false, false]),
            ("outcome, which both parties hold", [true, false, false, false]),
            ("where batches begin and end", [false, false, true, false]),
            ("how many records came and when", [false, false, false, true]),
            ("side channels", [true; 4]),
        ] {
            let found = [block, rows, batches, records].map(|protects| protects.not_protected().contains(words));
            assert_eq!(found, whose, "{words}");
        }
        assert!(records.adversary().contains("local privacy") && !rows.adversary().contains("party"));
    }
}
