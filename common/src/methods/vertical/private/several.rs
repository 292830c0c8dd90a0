//! A private fit of several parties, as another party than the leader sees it, and what all of them do alike.
//!
//! 1. greeting, proof of rows, digests of shared columns: as between two;
//! 2. all blocks behind masks, through the leader, up to shares of the tables of all pairs whose canaries were right ([`Exchange`]).
//!    Up to here nothing was charged, and nothing of it costs anything;
//! 3. terms: what each party's data set may cost. After them each party reserves the budget of the whole run;
//! 4. its own noised table, its noised `X'y`, and its shares with its noise, to the leader;
//! 5. from the leader all that has opened: noised sums, from which each party computes the joint fit.
//!
//! A share leaves as a release: permitted, noised, stored with its bytes, and then sent. Masks are gone with the process that had them, so
//! that a run that was interrupted is over: what it reserved comes back where nothing of it has left, and is spent otherwise.

use std::sync::Arc;

use super::PrivateFit;
use super::crossprod::{STEP_PER_SIGMA, concluded, expect, said};
use super::held::{Held, Setting};
use super::table::Table;
use crate::conversation::{Conversation, Opening, Purpose, Refusal, Said, Script, Step};
use crate::id::Role;
use crate::methods::vertical::agree::{Agreement, Part};
use crate::methods::vertical::masked::{length, out_of_order};
use crate::methods::vertical::message::{Body, Joint, JointKind, Noised};
use crate::methods::vertical::plan::{CrossPlan, CrossRelease, CrossTables, PrivatePlan, WholeRows};
use crate::methods::vertical::session::Progress;
use crate::methods::vertical::several::Exchange;
use crate::privacy::bounds::ClippedOutcome;
use crate::privacy::ledger::{Storage, keyed};
use crate::privacy::mechanism::LatticeVector;
use crate::secure::product::{SeveralShape, SeveralTables};
use crate::session::{Abort, Order, PeerFault};

/// What is expected of a party that makes a release, for sentences.
pub(in super::super) fn expected(release: CrossRelease) -> &'static str {
    match release {
        CrossRelease::Table | CrossRelease::Score => "noised statistics",
        CrossRelease::Share => "noised shares",
    }
}

/// What a party brings to the run, its ledger's part in it, and what it releases.
pub(in super::super) struct Own<S> {
    pub(in super::super) held: Held<S>,
    pub(in super::super) plan: CrossPlan,
    pub(in super::super) shape: SeveralShape,
    pub(in super::super) rows: WholeRows,
    outcome: ClippedOutcome,
    /// What this party has released, in the order of its plan.
    pub(in super::super) released: Vec<LatticeVector>,
}

impl<S: Storage> Own<S> {
    /// Nothing is spent yet, and whether the ledger can afford the run is checked.
    ///
    /// # Errors
    /// A study that cannot be run on this number of rows, and a ledger that refuses.
    pub(in super::super) fn new(table: &Table, opening: &Opening, setting: Setting<S>) -> Result<Own<S>, Abort> {
        let (study, role) = (Arc::clone(table.study()), table.role());
        let chosen = study.private_plan(table.rows() as u64).map_err(|error| Abort::Refused(error.to_string()))?;
        let plan = chosen.crossprod().cloned();
        let plan =
            plan.ok_or_else(|| Abort::Bug("several parties have another mechanism than crossprod".to_string()))?;
        let shape = plan.shape_of_several().ok_or_else(|| Abort::Bug("no shape of several blocks".to_string()))?;
        let (rows, outcome) = table.clipped();
        let held =
            Held::of_several(study, (role, opening.run.to_string()), PrivatePlan::Crossprod(plan.clone()), setting)?;
        let rows = WholeRows::of_rows(rows, None);
        Ok(Own { held, plan, shape, rows, outcome, released: Vec::new() })
    }

    /// Makes one of the own releases, under its charge.
    pub(in super::super) fn release(
        &mut self,
        release: CrossRelease,
        shares: &SeveralTables,
    ) -> Result<Said<Body>, Abort> {
        let place = self.held.place;
        let query = match self.plan.query(place, release, self.rows.clipped(), &self.outcome)? {
            Some(query) => query,
            None => self.plan.shares_of_several(shares).map_err(|error| Abort::Bug(error.to_string()))?,
        };
        let index = self.plan.side(place).index(release).ok_or_else(out_of_order)?;
        let noised = self.held.release(index, &query)?;
        self.released.push(noised.lattice().clone());
        Ok(said(&noised))
    }

    /// Checks a release of the party at another place.
    pub(in super::super) fn check(
        &self,
        place: usize,
        release: CrossRelease,
        noised: Noised,
    ) -> Result<LatticeVector, PeerFault> {
        let side = self.plan.side(place);
        expect(&noised, side.index(release).unwrap_or(u32::MAX))?;
        let step = match release {
            CrossRelease::Table | CrossRelease::Score => side.sigma(release) * STEP_PER_SIGMA,
            CrossRelease::Share => self.plan.scale().step(),
        };
        let fits = noised.value.require(self.plan.entries(place, release), step);
        fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
        Ok(noised.value)
    }

    /// `y'y`, which all know.
    pub(in super::super) fn square(&self) -> f64 {
        self.outcome.values().iter().map(|y| y * y).sum()
    }

    /// The joint fit; nothing more of the run is needed or released after it.
    pub(in super::super) fn conclude(&mut self, tables: &CrossTables) -> Result<PrivateFit, Abort> {
        let rows = self.rows.clipped().len();
        let fit = concluded(&self.held, &self.plan, tables, rows)?;
        self.held.finish()?;
        Ok(fit)
    }

    /// What the leader says has opened.
    fn read(&self, values: &[f64]) -> Result<CrossTables, PeerFault> {
        if !values.iter().all(|value| value.is_finite()) {
            return Err(PeerFault::Value { what: "noised tables", expected: "finite", round: 1 });
        }
        let all: usize = self.plan.setup().widths.iter().sum();
        let tables = self.plan.tables_from(values, self.square());
        let tables = tables.ok_or_else(|| length("noised tables", values.len(), all * (all + 1) / 2 + all))?;
        let [table, score, _] = self.released.as_slice() else {
            return Err(PeerFault::Garbage("noised tables before the own releases".to_string()));
        };
        match self.plan.holds(&tables, self.held.place, [table, score]) {
            true => Ok(tables),
            false => {
                let what = "noised tables in which this party's own statistics are others than it has released";
                Err(PeerFault::Garbage(what.to_string()))
            }
        }
    }
}

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Agreeing,
    Masked,
    Terms {
        answered: bool,
    },
    Releasing(CrossRelease),
    /// What has opened is to come.
    Opened,
    Over,
}

/// Another party than the leader, in a private fit of several.
pub type SeveralSession<S> = Conversation<SeveralScript<S>>;

/// What another party than the leader says in a private fit of several.
pub struct SeveralScript<S> {
    leader: Role,
    agreement: Agreement<Table>,
    place: Place,
    own: Own<S>,
    exchange: Exchange,
    shares: Option<SeveralTables>,
    opened: Option<CrossTables>,
}

impl<S: Storage> SeveralSession<S> {
    /// A session over a clipped table. Nothing is spent yet, and whether the ledger can afford the run is checked.
    ///
    /// # Errors
    /// A study that cannot be run on this number of rows, and a ledger that refuses.
    pub fn follow(table: Table, opening: Opening, mut setting: Setting<S>) -> Result<SeveralSession<S>, Abort> {
        let (study, role, leader) = (Arc::clone(table.study()), table.role(), opening.peer);
        let key = keyed(&setting.ledger.key()?, &[b"rows of run ", opening.run.to_string().as_bytes()]);
        let own = Own::new(&table, &opening, setting)?;
        let place = study.place(role);
        let exchange = Exchange::new((role, leader), &study, opening.run, (own.shape, place));
        let agreement = Agreement::new(table, role, &opening, key, &[Part::Rows, Part::Shared]);
        let script =
            SeveralScript { leader, agreement, place: Place::Agreeing, own, exchange, shares: None, opened: None };
        Ok(Conversation::open(role, Purpose::Fit, &study, &opening, script))
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let script = self.script();
        let phase = match script.place {
            Place::Agreeing if !self.has_greeted() => "comparing studies",
            Place::Agreeing => "lining up rows",
            Place::Masked if script.exchange.waits_for_dealer() => "waiting for the dealer",
            Place::Masked => "exchanging masked columns",
            Place::Terms { .. } => "comparing budgets",
            Place::Releasing(_) => "sending noised statistics",
            Place::Opened => "waiting for what opens",
            Place::Over => "done",
        };
        Progress { phase, fit: (0, 1), round: u32::from(script.place == Place::Over), certificate: None }
    }
}

impl<S: Storage> Script for SeveralScript<S> {
    type Body = Body;
    type Output = PrivateFit;

    fn step(&self) -> Option<Step> {
        let own = self.own.held.role;
        let (speaker, expected) = match self.place {
            Place::Agreeing => return self.agreement.step(),
            Place::Masked => return self.exchange.step(),
            Place::Terms { answered } => (if answered { self.leader } else { own }, "terms of a budget"),
            Place::Releasing(release) => (own, expected(release)),
            Place::Opened => (self.leader, "noised tables"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    fn build(&mut self) -> Result<Said<Body>, Abort> {
        match self.place {
            Place::Agreeing => {
                let body = self.agreement.build()?;
                self.after_agreement();
                Ok(body.into())
            }
            Place::Masked => Ok(self.exchange.build(&self.own.rows)?.into()),
            Place::Terms { .. } => {
                self.place = Place::Terms { answered: true };
                Ok(Body::Terms(self.own.held.own_terms()?).into())
            }
            Place::Releasing(release) => {
                let shares = self.shares.as_ref().ok_or_else(out_of_order)?;
                let said = self.own.release(release, shares)?;
                self.place = release.next().map_or(Place::Opened, Place::Releasing);
                Ok(said)
            }
            Place::Opened | Place::Over => Err(out_of_order()),
        }
    }

    fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Agreeing, body) => {
                let study = Arc::clone(&self.own.held.study);
                if let Some(theirs) = self.agreement.absorb(&study, body)? {
                    self.own.held.check_width(theirs.columns)?;
                }
                self.after_agreement();
            }
            (Place::Masked, body) => {
                self.exchange.absorb(body)?;
                if self.exchange.step().is_none() {
                    self.shares = Some(self.exchange.take_shares()?);
                    self.place = Place::Terms { answered: false };
                }
            }
            (Place::Terms { answered: true }, Body::Terms(terms)) => {
                self.own.held.absorb_terms(terms)?;
                self.own.held.reserve()?;
                self.place = Place::Releasing(CrossRelease::Table);
            }
            (Place::Opened, Body::Joint(Joint { what: JointKind::Noised, values })) => {
                self.opened = Some(self.own.read(&values)?);
                self.place = Place::Over;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    fn order(&mut self) -> Option<Order> {
        match self.place {
            Place::Masked => self.exchange.order(),
            Place::Agreeing | Place::Terms { .. } | Place::Releasing(_) | Place::Opened | Place::Over => None,
        }
    }

    fn work(&mut self) -> Result<(), Abort> {
        match self.place {
            Place::Masked => self.exchange.go_ahead(&self.own.rows),
            Place::Agreeing | Place::Terms { .. } | Place::Releasing(_) | Place::Opened | Place::Over => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<PrivateFit, Abort> {
        let tables = self.opened.take().ok_or_else(out_of_order)?;
        self.own.conclude(&tables)
    }
}

impl<S> SeveralScript<S> {
    fn after_agreement(&mut self) {
        if self.agreement.part().is_none() {
            self.place = Place::Masked;
        }
    }
}
