//! The privacy block of a report: what is protected, what was released, what it cost, what is left.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fit::number_or_null;
pub use crate::methods::vertical::plan::Outlook;
use crate::privacy::accountant::{Accountant, Budget, add_charge, joint_sum};
use crate::privacy::ledger::{Account, BoundsChange};
use crate::privacy::mechanism::{PlannedRelease, Receipt, ReleasePlan};

/// Lines that one account has at most, beside those about changed bounds.
const SHOWN: usize = 12;
/// Sites whose account is told in the words of a merged report.
const NAMED_SITES: usize = 12;

/// How somebody who is covered may go about it.
const KIND: &str = "information-theoretic, up to the generator of the noise";
/// The same where values pass behind masks that are expanded from seeds.
const KIND_OF_SHARES: &str = "computational: masks are expanded from seeds (AES-256)";

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
    /// The same where a table between the blocks is computed on shares.
    Shares {
        /// Largest sum of the other party's data set.
        peer_cap: f64,
        /// Whether both parties hold the outcome.
        outcome_at_both: bool,
    },
    /// The same of several parties, all of which hold the outcome.
    SharesOfSeveral {
        /// Largest sums of all other parties' data sets together.
        others_cap: f64,
    },
    /// A person's rows at one of many sites.
    Rows {
        /// Whether rows are cut into batches.
        batches: bool,
    },
    /// A person's records in a stream, each noised by itself.
    Records {
        /// Most records of one person; none where they are as many as their budget has room for.
        per_person: Option<u32>,
    },
}

impl Protects {
    /// What is replaced by what, where a person has at most `rows` rows.
    pub fn unit(self, rows_per_person: u32) -> String {
        let (row, place, most) = match self {
            Protects::Block { .. } | Protects::Shares { .. } | Protects::SharesOfSeveral { .. } => {
                ("row", "in this party's block", rows_per_person)
            }
            Protects::Rows { .. } => ("row", "at a site", rows_per_person),
            Protects::Records { per_person } => ("record", "of a site's stream", per_person.unwrap_or_default()),
        };
        match (self, most) {
            (Protects::Records { per_person: None }, _) => format!(
                "all {row}s {place} that are one person's, as many as their budget has room for, replaced by any others"
            ),
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
            Protects::Shares { .. } => {
                "the other party and every earlier peer, with everything that they ever received, as long as they follow the protocol; the \
                 coordinator alone, who deals masks and must collude with neither party"
            }
            Protects::SharesOfSeveral { .. } => {
                "all other parties together and every earlier peer, with everything that they ever received, as long as they follow the \
                 protocol; the coordinator alone, who deals masks and must collude with no party"
            }
            Protects::Rows { .. } => {
                "the coordinator, every other site and anyone who reads the result together, with everything that they ever received; they \
                 may break the protocol"
            }
            Protects::Records { .. } => {
                "everybody outside the site together: the coordinator, every other site and anyone who reads the result, with everything that \
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
            Protects::Shares { outcome_at_both: true, .. } => Protects::Block { peer_cap: 0.0 }.not_protected(),
            Protects::SharesOfSeveral { .. } => {
                "that a person is in the data, matched identifiers, the outcome, which all parties hold, the number of rows, column names \
                 and public bounds, side channels (running time, power, memory), the party's own administrators"
            }
            Protects::Shares { outcome_at_both: false, .. } => {
                "that a person is in the data, matched identifiers, the number of rows, column names and public bounds, side channels (running \
                 time, power, memory), the party's own administrators"
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

    /// Whether an adversary with unlimited computing power is covered.
    fn kind(self) -> &'static str {
        match self {
            Protects::Block { .. } | Protects::Rows { .. } | Protects::Records { .. } => KIND,
            Protects::Shares { .. } | Protects::SharesOfSeveral { .. } => KIND_OF_SHARES,
        }
    }

    /// The definition of privacy where a person has at most `rows` rows.
    pub fn scope(self, rows_per_person: u32) -> Scope {
        Scope {
            unit: self.unit(rows_per_person),
            adversary: self.adversary().to_owned(),
            not_protected: self.not_protected().to_owned(),
            kind: self.kind().to_owned(),
            mechanism: MECHANISM.to_owned(),
        }
    }

    /// The same in words, a sentence each.
    pub fn lines(self, rows_per_person: u32) -> Vec<String> {
        vec![
            format!("protected: {}", self.unit(rows_per_person)),
            format!("against: {} ({})", self.adversary(), self.kind()),
            format!("not protected: {}", self.not_protected()),
        ]
    }

    /// Towards whom the guarantee of one data set holds.
    fn towards(self) -> &'static str {
        match self {
            Protects::Block { .. } | Protects::Shares { .. } => "towards the other party and the coordinator",
            Protects::SharesOfSeveral { .. } => "towards all other parties and the coordinator",
            Protects::Rows { .. } => "towards the coordinator, every other site and anyone who reads the result",
            Protects::Records { .. } => "towards everybody outside the site",
        }
    }
}

/// The privacy account of a report; no private value is in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// What is protected, from whom, and how.
    #[serde(flatten)]
    pub scope: Scope,
    /// Epsilon of the budget: the guarantee for the lifetime of the data set over all peers; of one run in what all sites are promised.
    pub epsilon: f64,
    /// Delta of the budget.
    pub delta: f64,
    /// How sums are read.
    pub accountant: Accountant,
    /// What this run was charged, as a sum of `(sensitivity / sigma)^2`.
    pub charge: f64,
    /// What was released, or will be.
    #[serde(flatten)]
    pub releases: Releases,
    /// The promise in words, a sentence each.
    pub promise: Vec<String>,
    /// What was released and spent in words, a sentence each.
    pub account: Vec<String>,
    /// What was expected of a run between parties with different columns before it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Outlook>,
}

/// The definition of privacy that a guarantee follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// What is protected.
    pub unit: String,
    /// From whom.
    pub adversary: String,
    /// What is not protected.
    pub not_protected: String,
    /// Whether an adversary with unlimited computing power is covered.
    pub kind: String,
    /// How every release is made private.
    pub mechanism: String,
}

/// What an account has beside the promise: what the holder of a ledger spent, or what was planned for all sites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Releases {
    /// In the report of one who holds a ledger.
    Charged(Charged),
    /// In the coordinator's report, who knows the plan only.
    Planned(Planned),
}

/// The releases of a run, and the account of the ledger after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Charged {
    /// The releases of this run, in their order.
    pub releases: Vec<Receipt>,
    /// Largest sum: the guarantee.
    pub cap: f64,
    /// Sum charged so far over all runs: bookkeeping, no guarantee of its own.
    pub spent: f64,
    /// What may still be charged.
    pub left: f64,
    /// The sum so far, as an epsilon by zero-concentrated privacy.
    #[serde(deserialize_with = "number_or_null")]
    pub epsilon_spent_zcdp: f64,
    /// The sum so far, as an epsilon by the Gaussian curve.
    #[serde(deserialize_with = "number_or_null")]
    pub epsilon_spent_exact: f64,
    /// Epsilon of the cap for a person with a row in both parties' blocks, towards a reader of the merged result; only in
    /// vertical studies.
    pub epsilon_joint: Option<f64>,
    /// Whether these persons were ever in a run without privacy; what that showed is not covered.
    pub plain_runs: bool,
    /// Columns whose public bounds were changed after they were first stated.
    pub bounds_changed: Vec<BoundsChange>,
}

/// The releases that every site of a study makes, from public facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Of every site, and of every batch where there are several.
    pub planned: Vec<PlannedRelease>,
    /// The run's charge as an epsilon by zero-concentrated privacy.
    #[serde(deserialize_with = "number_or_null")]
    pub epsilon_zcdp: f64,
    /// The same by the Gaussian curve.
    #[serde(deserialize_with = "number_or_null")]
    pub epsilon_exact: f64,
    /// The sites' own accounts by name, in a rehearsal, which sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sites: BTreeMap<String, Statement>,
}

impl Statement {
    /// The account of one run by the holder of a ledger.
    pub fn new(account: &Account, releases: Vec<Receipt>, charge: f64, protects: Protects) -> Statement {
        let Account { epsilon, delta, accountant, rows_per_person, .. } = *account;
        let epsilon_joint = match protects {
            Protects::Block { peer_cap: others }
            | Protects::Shares { peer_cap: others, .. }
            | Protects::SharesOfSeveral { others_cap: others } => {
                Some(accountant.epsilon(joint_sum(account.cap, others), delta))
            }
            Protects::Rows { .. } | Protects::Records { .. } => None,
        };
        let mut promise = protects.lines(rows_per_person);
        promise.push(format!(
            "guarantee: epsilon {epsilon} at delta {delta:e} {}, for the lifetime of the data set",
            protects.towards()
        ));
        let blocks = match protects {
            Protects::SharesOfSeveral { .. } => "all blocks",
            Protects::Block { .. } | Protects::Shares { .. } | Protects::Rows { .. } | Protects::Records { .. } => {
                "both blocks"
            }
        };
        promise.extend(epsilon_joint.map(|joint| {
            format!(
                "a person with a row in {blocks}: epsilon {joint:.2} at delta {delta:e} towards anyone who sees the merged result"
            )
        }));
        let charged = Charged {
            releases,
            cap: account.cap,
            spent: account.sum,
            left: account.left(),
            epsilon_spent_zcdp: account.epsilon_spent(Accountant::Zcdp),
            epsilon_spent_exact: account.epsilon_spent(Accountant::Exact),
            epsilon_joint,
            plain_runs: account.unbounded,
            bounds_changed: account.bounds_changed.clone(),
        };
        Statement {
            scope: protects.scope(rows_per_person),
            epsilon,
            delta,
            accountant,
            charge,
            promise,
            account: charged.lines(charge),
            releases: Releases::Charged(charged),
            expected: None,
        }
    }

    /// What the persons of every one of `sites` sites are promised by the plan of a run.
    pub fn planned(
        budget: &Budget,
        plan: &ReleasePlan,
        charge: f64,
        protects: Protects,
        (sites, rows_per_person): (usize, u32),
    ) -> Statement {
        let (epsilon, delta, accountant) = (budget.epsilon(), budget.delta(), budget.accountant());
        let mut promise = protects.lines(rows_per_person);
        promise.push(format!(
            "guarantee: epsilon {epsilon} at delta {delta:e} for this run, at each site for its own persons; what a site has spent in \
             all stands in its own report"
        ));
        if sites > 1 {
            let everywhere = (0..sites).fold(0.0, |sum, _| add_charge(sum, charge));
            promise.push(format!(
                "a person with rows at several of the {sites} sites: the sums of the sites add up, at all of them to epsilon {:.2} at delta \
                 {delta:e} for this run",
                accountant.epsilon(everywhere, delta)
            ));
        }
        let (zcdp, exact) = (Accountant::Zcdp.epsilon(charge, delta), Accountant::Exact.epsilon(charge, delta));
        let sizes = plan.releases().iter().map(|release| release.mu);
        let (smallest, largest) = (sizes.clone().fold(f64::INFINITY, f64::min), sizes.fold(0.0, f64::max));
        let of = if protects == (Protects::Rows { batches: true }) { " of every batch" } else { "" };
        let account = vec![
            format!(
                "releases of each site: {}{of}, by {MECHANISM}, with sensitivity / sigma from {smallest:.6} to {largest:.6}; sensitivities, \
                 their formulas and sigmas stand in each site's own report",
                plan.releases().len()
            ),
            format!("charged at each site: {charge:.6} (epsilon {zcdp:.4} by zcdp, {exact:.4} exact)"),
        ];
        let planned = Planned {
            planned: plan.releases().to_vec(),
            epsilon_zcdp: zcdp,
            epsilon_exact: exact,
            sites: BTreeMap::new(),
        };
        Statement {
            scope: protects.scope(rows_per_person),
            epsilon,
            delta,
            accountant,
            charge,
            releases: Releases::Planned(planned),
            promise,
            account,
            expected: None,
        }
    }

    /// The releases that were charged to a ledger; none where the plan alone is known.
    pub fn charged(&self) -> Option<&Charged> {
        match &self.releases {
            Releases::Charged(charged) => Some(charged),
            Releases::Planned(_) => None,
        }
    }

    /// Keeps the first lines of what many releases say: rounds with the same noise say the same every time, and of many batches the
    /// first tell enough.
    pub fn shorten(&mut self) {
        let Releases::Charged(charged) = &self.releases else { return };
        let first = charged.releases.first();
        let alike = first.is_some_and(|first| charged.releases.iter().all(|release| release.sigma == first.sigma));
        let shown = if alike { 3 } else { SHOWN } + charged.bounds_changed.len();
        if self.account.len() > shown + 1 {
            let more = self.account.len() - shown;
            self.account.truncate(shown);
            let rest = if alike { "with the same noise" } else { "stand in the JSON report" };
            self.account.push(format!("and {more} more releases {rest}"));
        }
    }

    /// Adds the sites' own accounts, which only a rehearsal sees together.
    pub fn with_sites(mut self, sites: BTreeMap<String, Statement>) -> Statement {
        self.account.extend(sites.iter().take(NAMED_SITES).filter_map(|(name, account)| {
            let charged = account.charged()?;
            let count = charged.releases.len();
            Some(format!(
                "{name}: {count} release{}, {}; each with its sensitivity and sigma in {name}/report.txt",
                if count == 1 { "" } else { "s" },
                format_args!(
                    "spent {:.6} of {:.6} (epsilon {:.4} by zcdp, {:.4} exact), left {:.6}",
                    charged.spent, charged.cap, charged.epsilon_spent_zcdp, charged.epsilon_spent_exact, charged.left
                )
            ))
        }));
        if let Releases::Planned(planned) = &mut self.releases {
            planned.sites = sites;
        }
        self
    }
}

impl Charged {
    /// What was released and spent in words, a sentence each.
    fn lines(&self, charge: f64) -> Vec<String> {
        let mut lines = vec![format!(
            "spent: {:.6} of {:.6} (bookkeeping: epsilon {:.4} by zcdp, {:.4} exact); this run {charge:.6}, left {:.6}",
            self.spent, self.cap, self.epsilon_spent_zcdp, self.epsilon_spent_exact, self.left
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
        let records = |most| Protects::Records { per_person: Some(most) }.unit(1);
        assert_eq!(records(1), "one record of a site's stream, replaced by any other record");
        assert_eq!(
            records(4),
            "all records of a site's stream that are one person's, at most 4, replaced by any others"
        );
        assert_eq!(
            Protects::Records { per_person: None }.unit(1),
            "all records of a site's stream that are one person's, as many as their budget has room for, replaced by any others"
        );
    }

    #[test]
    fn what_only_one_protocol_has_no_other_claims() {
        let block = Protects::Block { peer_cap: 1.0 };
        let (rows, batches) = (Protects::Rows { batches: false }, Protects::Rows { batches: true });
        let records = Protects::Records { per_person: Some(1) };
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
