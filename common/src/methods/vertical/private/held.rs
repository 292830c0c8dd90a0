//! A party's ledger in one run: what the run may cost, what it released, and what came from the peer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::conversation::Refusal;
use crate::id::{Digest, Role};
use crate::methods::vertical::message::{Body, Estimates, Noised, Rows, Terms};
use crate::methods::vertical::plan::{OutcomeAt, PrivatePlan, SHARE, SHARES};
use crate::privacy::ledger::{Grant, Ledger, LedgerError, PersonDigests, Storage};
use crate::privacy::mechanism::{LatticeVector, NoisedRelease, Query};
use crate::privacy::sampler::NoisePool;
use crate::session::{Abort, PeerFault};
use crate::study::statement::{Protects, Statement};
use crate::study::{Study, Vertical};

/// What a private session needs beside table and opening.
pub struct Setting<S> {
    /// This party's ledger.
    pub ledger: Ledger<S>,
    /// The data set's name in it.
    pub data_set: String,
    /// The digests of its persons under the ledger's key.
    pub persons: PersonDigests,
    /// The names of all other parties, for the ledger.
    pub peers: Vec<String>,
    /// Noise, drawn ahead of time or not.
    pub pool: NoisePool,
}

/// A run, as this party's ledger knows it.
pub(in super::super) struct Held<S> {
    pub(in super::super) role: Role,
    /// Its place in the order of the parties.
    pub(in super::super) place: usize,
    pub(in super::super) study: Arc<Study<Vertical>>,
    pub(super) setting: Setting<S>,
    pub(super) run: String,
    pub(super) plan: PrivatePlan,
    /// Of all other parties together.
    pub(super) terms: Option<Terms>,
    /// Messages that came before the run was reserved and belong to it.
    pub(super) early: Vec<(u32, Vec<u8>)>,
    pub(super) reserved: bool,
}

impl<S: Storage> Held<S> {
    /// At the start of a run of several parties, which no other process takes up: whether the ledger can afford it is checked.
    pub(super) fn of_several(
        study: Arc<Study<Vertical>>,
        (role, run): (Role, String),
        plan: PrivatePlan,
        mut setting: Setting<S>,
    ) -> Result<Held<S>, Abort> {
        let place = study.place(role);
        let digest = study.digest().to_string();
        setting.ledger.afford(&setting.data_set, &setting.persons, &digest, plan.releases(place))?;
        Ok(Held { role, place, study, setting, run, plan, terms: None, early: Vec::new(), reserved: false })
    }

    /// Says in the ledger that the run is over.
    pub(super) fn finish(&mut self) -> Result<(), LedgerError> {
        self.setting.ledger.finish(&self.run)
    }

    /// The places of all other parties.
    pub(in super::super) fn others(&self) -> Vec<usize> {
        (0..self.study.method.parties.len()).filter(|place| *place != self.place).collect()
    }

    /// Reserves the budget of the whole run. When this returns the charge is on disk; only then noise is used.
    pub(in super::super) fn reserve(&mut self) -> Result<(), Abort> {
        let early = std::mem::take(&mut self.early);
        let Setting { ledger, data_set, persons, peers, .. } = &mut self.setting;
        if self.reserved {
            return Ok(early
                .iter()
                .try_for_each(|(sequence, bytes)| ledger.keep_received(&self.run, *sequence, bytes))?);
        }
        let releases = self.plan.releases(self.place);
        let study = self.study.digest().to_string();
        ledger.state_bounds(data_set, &study, &self.study.stated_bounds(self.role))?;
        ledger.reserve_with(&self.run, data_set, persons, peers, &study, releases, &early)?;
        self.reserved = true;
        Ok(())
    }

    /// A release of this run: made, or sent again as it is stored.
    pub(super) fn release(&mut self, index: u32, query: &Query) -> Result<NoisedRelease, Abort> {
        let Setting { ledger, pool, .. } = &mut self.setting;
        ledger.release::<Abort>(&self.run, index, query, pool)
    }

    /// A release of this run that is stored.
    pub(super) fn stored(&mut self, index: u32) -> Result<Option<NoisedRelease>, Abort> {
        Ok(match self.setting.ledger.permit(&self.run, index)? {
            Grant::Stored(noised) => Some(noised),
            Grant::Fresh(_) => None,
        })
    }

    /// Keeps a message of the peer before anything follows from it.
    pub(super) fn keep(&mut self, sequence: u64, body: &Body) -> Result<(), Abort> {
        let Some(bytes) = record(body) else { return Ok(()) };
        match self.reserved {
            true => self.setting.ledger.keep_received(&self.run, sequence as u32, &bytes)?,
            false => self.early.push((sequence as u32, bytes)),
        }
        Ok(())
    }

    /// What the peer said under this number, if it is kept.
    pub(super) fn kept(&mut self, sequence: u64) -> Result<Option<Body>, Abort> {
        let Some(bytes) = self.setting.ledger.received(&self.run, sequence as u32)? else { return Ok(None) };
        let changed = || LedgerError::Changed { name: format!("message {sequence} of run {}", self.run) };
        Ok(Some(recall(&bytes).ok_or_else(changed)?))
    }

    /// Notes that something was done in this run, so that a process that takes it up again knows it.
    pub(super) fn note(&mut self, number: u32) -> Result<(), Abort> {
        Ok(self.setting.ledger.keep_received(&self.run, number, b"noted")?)
    }

    /// Whether that was noted.
    pub(super) fn is_noted(&mut self, number: u32) -> Result<bool, Abort> {
        Ok(self.setting.ledger.received(&self.run, number)?.is_some())
    }

    pub(in super::super) fn own_terms(&self) -> Result<Terms, Abort> {
        let account = self.setting.ledger.account(&self.setting.data_set)?;
        let columns = self.plan.width(self.place) as u32;
        Ok(Terms { epsilon: account.epsilon, delta: account.delta, cap: account.cap, columns })
    }

    /// Takes in the terms of all other parties together.
    pub(in super::super) fn absorb_terms(&mut self, terms: Terms) -> Result<(), Refusal> {
        self.check_terms(&self.others(), &terms)?;
        self.terms = Some(terms);
        Ok(())
    }

    /// Checks the terms of the parties at some places.
    pub(in super::super) fn check_terms(&self, places: &[usize], terms: &Terms) -> Result<(), Refusal> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !(positive(terms.epsilon) && positive(terms.delta) && positive(terms.cap)) {
            return Err(PeerFault::Value { what: "a budget", expected: "positive", round: 0 }.into());
        }
        self.check_width_of(places, terms.columns)?;
        // A person's joint epsilon is computed from the others' caps; it would be too small if one understated its own.
        let charge: f64 = places.iter().map(|place| self.plan.releases(*place).charge()).sum();
        if terms.cap < charge {
            let roles = self.study.parties_in_order();
            let who: Vec<String> = places.iter().filter_map(|place| Some(roles.get(*place)?.to_string())).collect();
            let (who, has, needs) = (who.join(" and "), verb(places, "has", "have"), verb(places, "needs", "need"));
            return Err(Abort::Refused(format!(
                "the budget that {who} {has} for its data set is smaller than what this run spends there: {who} {needs} a larger \
                 one, or the study a smaller epsilon"
            ))
            .into());
        }
        Ok(())
    }

    /// Checks the number of columns that all other parties have together.
    pub(in super::super) fn check_width(&self, came: u32) -> Result<(), PeerFault> {
        self.check_width_of(&self.others(), came)
    }

    pub(in super::super) fn check_width_of(&self, places: &[usize], came: u32) -> Result<(), PeerFault> {
        let expected: u64 = places.iter().map(|place| self.plan.width(*place) as u64).sum();
        match u64::from(came) == expected {
            true => Ok(()),
            false => Err(PeerFault::Length { what: "columns", came: came.into(), expected }),
        }
    }

    fn has_shares(&self, run: &str) -> bool {
        self.setting.ledger.receipts(run).iter().any(|receipt| receipt.label == SHARE || receipt.label == SHARES)
    }

    /// What was released, what it cost, and what is left.
    pub(super) fn statement(&self) -> Result<Statement, Abort> {
        let terms = self.terms.ok_or_else(|| Abort::Bug("the peer's terms are missing".to_string()))?;
        let account = self.setting.ledger.account(&self.setting.data_set)?;
        let receipts = self.setting.ledger.receipts(&self.run);
        let charge = self.plan.releases(self.place).charge();
        let peer_cap = terms.cap;
        let protects = match &self.plan {
            PrivatePlan::Residual(_) => Protects::Block { peer_cap },
            PrivatePlan::Crossprod(_) if self.study.is_of_several() => {
                Protects::SharesOfSeveral { others_cap: peer_cap }
            }
            PrivatePlan::Crossprod(plan) => shares(peer_cap, plan.setup().outcome),
            PrivatePlan::Logistic(plan) => shares(peer_cap, plan.setup().outcome),
        };
        let mut statement = Statement::new(&account, receipts, charge, protects);
        // The guarantee of the lifetime is that of its weakest run.
        let mut others = self.setting.ledger.runs().filter(|run| *run != self.run);
        if let (PrivatePlan::Residual(_), true) = (&self.plan, others.any(|run| self.has_shares(run))) {
            let words = "an earlier run under this ledger was made on shares: what it spent is promised against a peer that followed the \
                         protocol, and a dealer that colludes with nobody";
            statement.account.push(words.to_owned());
        }
        Ok(statement)
    }
}

fn verb<'a>(places: &[usize], one: &'a str, several: &'a str) -> &'a str {
    if places.len() == 1 { one } else { several }
}

fn shares(peer_cap: f64, outcome: OutcomeAt) -> Protects {
    let outcome_at_both = match outcome {
        OutcomeAt::Both => true,
        OutcomeAt::Alice => false,
    };
    Protects::Shares { peer_cap, outcome_at_both }
}

/// Bytes of a message as the ledger keeps it; what came before the budget was reserved need not be kept.
fn record(body: &Body) -> Option<Vec<u8>> {
    let kept = match body {
        Body::Terms(terms) => Kept::Terms(*terms),
        Body::Noised(Noised { index, value }) => {
            let mut bytes = b"noised ".to_vec();
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&value.encode());
            return Some(bytes);
        }
        Body::Estimates(estimates) => Kept::Estimates(estimates.clone()),
        Body::Rows(Rows { key, rows, ids }) => Kept::Rows { key: *key, rows: *rows, ids: ids.0 },
        Body::Go => Kept::Go,
        Body::Hello(_)
        | Body::Complete(_)
        | Body::Shared(_)
        | Body::Held(_)
        | Body::LargestGradient(_)
        | Body::Partial(_)
        | Body::Ended(_)
        | Body::Folds(_)
        | Body::Basis(_)
        | Body::Table(_)
        | Body::Redo(_)
        | Body::Results(_)
        | Body::Prediction(_)
        | Body::Masked(_)
        | Body::Share(_)
        | Body::Joint(_)
        | Body::Product(_)
        | Body::Dealt(_)
        | Body::Match(_)
        | Body::Merged(_) => return None,
    };
    serde_json::to_vec(&kept).ok()
}

fn recall(bytes: &[u8]) -> Option<Body> {
    if let Some(rest) = bytes.strip_prefix(b"noised ") {
        let (index, value) = rest.split_first_chunk::<4>()?;
        let value = LatticeVector::decode(value).ok()?;
        return Some(Body::Noised(Noised { index: u32::from_le_bytes(*index), value }));
    }
    Some(match serde_json::from_slice(bytes).ok()? {
        Kept::Terms(terms) => Body::Terms(terms),
        Kept::Estimates(estimates) => Body::Estimates(estimates),
        Kept::Rows { key, rows, ids } => Body::Rows(Rows { key, rows, ids: Digest(ids) }),
        Kept::Go => Body::Go,
    })
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Terms(Terms),
    Estimates(Estimates),
    Rows { key: Option<[u8; 32]>, rows: u64, ids: [u8; 32] },
    Go,
}
