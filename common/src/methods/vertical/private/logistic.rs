//! What the sides of a private binomial or poisson run say once the budget is reserved.
//!
//! 1. Each party's own noised statistics, Alice's first, one at a time;
//! 2. both blocks behind masks, both parties' shares of a public product by which they see that their masks fit, and each party's share of
//!    the table between the blocks with its noise, Alice's first;
//! 3. twice, the means within rows, the products of the residuals with the same masked blocks, another public product, and each party's share
//!    of the gradient with its noise.
//!
//! The blocks pass once: what a party holds of the other's, `X - R`, stands in every product with a fresh mask of the other factor, the
//! residuals, and the mask `R` is in no other message (`docs/proofs.md`).
//!
//! The point of a gradient follows from what has opened, so both know it, and nobody names it. The number of gradients is fixed.
//!
//! A run that is taken up again has no masks. What was stored of it is sent again byte for byte and what passed behind masks is counted; the
//! first exchange that is made then begins with the blocks behind fresh masks. That it does so is noted, as a later process must count the
//! same messages. A share that was not stored is noised afresh under the same permit, with fresh masks of both parties. Where one party has
//! stored its share and the other one has lost its masks, the run is over and its charge stays, as in the exchange of
//! [a single table](super::crossprod).

use std::collections::VecDeque;
use std::sync::Arc;

use super::PrivateFit;
use super::checked::CheckedTable;
use super::crossprod::{STEP_PER_SIGMA, expect, notes, said, without_masks};
use super::held::Held;
use super::session::MASKED_ANEW;
use super::table::Table;
use crate::conversation::{Refusal, Said, Step};
use crate::fit::{Coefficient, INTERCEPT};
use crate::glm::Family;
use crate::id::{Role, RunId};
use crate::methods::vertical::masked::{Kept, MaskedTable, out_of_order, peer_fault};
use crate::methods::vertical::message::{Body, Share};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::plan::{
    GradientShapes, LogisticFit, LogisticPlan, LogisticRelease, Side, WholeMeans, WholeRows,
};
use crate::methods::vertical::products::{Columns, Passed, Public, RowExchange, VectorExchange};
use crate::privacy::bounds::{ClippedOutcome, ClippedRows, ROW_BITS};
use crate::privacy::ledger::Storage;
use crate::privacy::mechanism::share::ShareError;
use crate::privacy::mechanism::{LatticeVector, Query};
use crate::secure::product::{self, Canary, VectorShare};
use crate::secure::ring::Elements;
use crate::session::{Abort, Order, PeerFault};
use crate::study::{Study, Vertical};

/// What opens, exchange by exchange.
const EXCHANGES: [LogisticRelease; 3] =
    [LogisticRelease::Share, LogisticRelease::Gradient(0), LogisticRelease::Gradient(1)];

/// Releases before the first exchange.
const STATISTICS: [LogisticRelease; 3] = [LogisticRelease::Table, LogisticRelease::Score, LogisticRelease::Sums];

/// The place in the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Own statistics, by their place among those of both.
    Statistics(usize),
    /// Both blocks behind masks, up to the shares of their table.
    Table,
    /// The means within rows.
    Rows,
    /// The residuals with the columns.
    Vector,
    /// The shares of the canary of the means.
    RowCanary {
        from: Role,
    },
    /// The shares of what opens with their noise.
    Share {
        from: Role,
    },
    Over,
}

/// The products of a gradient, at work or as one of the past.
enum Products {
    /// Of a process that is gone.
    Past {
        rows: Passed,
        vector: Passed,
    },
    Rows(Box<RowExchange>),
    Vector(Box<VectorExchange>),
    /// Neither, or not yet.
    None,
}

/// One side of the run.
pub(super) struct Logistic {
    pair: Pair,
    study: Arc<Study<Vertical>>,
    run: RunId,
    plan: LogisticPlan,
    rows: WholeRows,
    /// 0 or 1 as -1 or 1, counts in half of the largest one less 1; at Bob none where Alice holds it alone.
    outcome: ClippedOutcome,
    place: Place,
    /// What each side releases before the first exchange, in the order in which it is said.
    statistics: Vec<(Side, LogisticRelease)>,
    /// What each side has released, Alice's first, in the order of its releases.
    released: [Vec<Option<LatticeVector>>; 2],
    /// Exchanges whose own share was stored when this process began: they are counted alone.
    past: usize,
    /// Whether the run is taken up again.
    resumed: bool,
    /// Whether an exchange begins with the blocks behind masks.
    masked: [bool; EXCHANGES.len()],
    /// The present exchange.
    exchange: usize,
    table: CheckedTable,
    orders: VecDeque<Order>,
    /// From the first gradient on.
    fit: Option<LogisticFit>,
    shapes: Option<GradientShapes>,
    means: Option<WholeMeans>,
    /// Orders of means to the dealer of these masks: corrections alternate.
    ordered: u32,
    /// From the last exchange on that began with the blocks behind masks.
    kept: Option<Kept>,
    products: Products,
    /// Own shares of the residuals by row block.
    residuals: Vec<Elements>,
    canary: Option<Canary>,
    gradient: Option<VectorShare>,
}

impl Logistic {
    pub(super) fn new<S: Storage>(
        plan: LogisticPlan,
        run: RunId,
        rows: ClippedRows,
        outcome: ClippedOutcome,
        held: &mut Held<S>,
    ) -> Result<Logistic, Abort> {
        let study = Arc::clone(&held.study);
        let pair = Pair::of(&study, held.role);
        let side = pair.side();
        let mut past = 0;
        while held.reserved
            && let Some(release) = EXCHANGES.get(past)
            && held.stored(place_of(&plan, side, *release)?)?.is_some()
        {
            past += 1;
        }
        let masked = masked(past, held)?;
        let shape = plan.table_shape();
        let table = match past {
            0 => MaskedTable::new(pair, &study, run, shape).keeping(),
            _ => MaskedTable::of_the_past(pair, &study, run, shape),
        };
        Ok(Logistic {
            pair,
            run,
            rows: plan.block(side, rows, &outcome),
            outcome,
            place: Place::Statistics(0),
            statistics: statistics(&plan),
            released: [Side::Alice, Side::Bob].map(|side| vec![None; plan.side(side).order().len()]),
            past,
            resumed: held.reserved,
            masked,
            exchange: 0,
            table: CheckedTable::new(pair, table),
            orders: VecDeque::new(),
            fit: None,
            shapes: None,
            means: None,
            ordered: 0,
            kept: None,
            products: Products::None,
            residuals: Vec::new(),
            canary: None,
            gradient: None,
            study,
            plan,
        })
    }

    pub(super) fn progress(&self) -> (&'static str, u32) {
        let round = self.exchange as u32;
        match self.place {
            Place::Statistics(_) => ("exchanging noised statistics", round),
            Place::Table if self.table.waits_for_dealer() => ("waiting for the dealer", round),
            Place::Table => ("exchanging masked columns", round),
            Place::Rows | Place::Vector | Place::RowCanary { .. } => ("computing a gradient on shares", round),
            Place::Share { .. } => ("exchanging noised shares", round),
            Place::Over => ("done", round),
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Statistics(at) => (self.pair.at(self.statistics.get(at)?.0), "noised statistics"),
            Place::Table => return self.table.step(),
            Place::Rows | Place::Vector => return self.products_step(),
            Place::RowCanary { from } => (from, "the share of a canary"),
            Place::Share { from } => (from, "a noised share"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    fn products_step(&self) -> Option<Step> {
        match &self.products {
            Products::Past { rows, .. } if self.place == Place::Rows => rows.step(self.pair),
            Products::Past { vector, .. } => vector.step(self.pair),
            Products::Rows(exchange) => exchange.step(),
            Products::Vector(exchange) => exchange.step(),
            Products::None => None,
        }
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        match self.place {
            Place::Table => self.table.order(),
            Place::Rows | Place::Vector => self.orders.pop_front(),
            Place::Statistics(_) | Place::RowCanary { .. } | Place::Share { .. } | Place::Over => None,
        }
    }

    pub(super) fn go_ahead(&mut self) -> Result<(), Abort> {
        if self.place == Place::Table {
            return self.table.go_ahead(&self.rows);
        }
        match &mut self.products {
            Products::Rows(exchange) => self.means.as_ref().map_or(Ok(()), |means| exchange.go_ahead(means)),
            Products::Vector(exchange) => match &self.kept {
                Some(kept) => exchange.go_ahead(&self.residuals, &columns(&self.rows, kept)),
                None => Ok(()),
            },
            Products::Past { .. } | Products::None => Ok(()),
        }
    }

    /// Whether the own share is out and the peer's has not come.
    pub(super) fn has_shared(&self) -> bool {
        self.place == Place::Share { from: self.pair.peer() } && self.of(self.pair.own()).is_some()
    }

    /// Why a peer that is ahead cannot be followed: the masks of the present exchange are gone here. Where its share is out the run is over;
    /// else nothing of the exchange has left, and both can begin it anew.
    pub(super) fn left_behind<S>(&self, held: &Held<S>, ahead: &Body) -> Option<Abort> {
        let waits = match self.place {
            Place::Share { .. } | Place::Over => false,
            Place::Statistics(_) | Place::Table | Place::Rows | Place::Vector | Place::RowCanary { .. } => {
                self.exchange == self.past
            }
        };
        (self.resumed && waits).then(|| {
            if let Body::Noised(_) = ahead {
                return without_masks(held);
            }
            Abort::Unreachable(format!(
                "{} goes on with masks that were lost here when the process ended; start both again, and `coordinator serve` where \
                 it has ended: both get fresh ones",
                self.pair.peer()
            ))
        })
    }

    /// In an exchange of the past, what stands for a message behind masks: nothing follows from it.
    pub(super) fn stands_in(&self) -> Option<Body> {
        let behind = match self.place {
            Place::Table | Place::Rows | Place::Vector | Place::RowCanary { .. } => true,
            Place::Statistics(_) | Place::Share { .. } | Place::Over => false,
        };
        (behind && self.is_past()).then_some(Body::Go)
    }

    /// Whether the present exchange was made by a process that is gone.
    fn is_past(&self) -> bool {
        self.exchange < self.past
    }

    /// The release of the present exchange.
    fn opens(&self) -> Result<LogisticRelease, Abort> {
        EXCHANGES.get(self.exchange).copied().ok_or_else(out_of_order)
    }

    /// What a party has released in the present exchange.
    fn of(&self, role: Role) -> Option<&LatticeVector> {
        self.value(self.pair.side_of(role), *EXCHANGES.get(self.exchange)?)
    }

    /// What a side has released.
    fn value(&self, side: Side, release: LogisticRelease) -> Option<&LatticeVector> {
        self.released[usize::from(side)].get(self.plan.side(side).index(release)? as usize)?.as_ref()
    }

    pub(super) fn build<S: Storage>(&mut self, held: &mut Held<S>) -> Result<Said<Body>, Abort> {
        let side = self.pair.side();
        match self.place {
            Place::Statistics(at) => {
                let (_, release) = *self.statistics.get(at).ok_or_else(out_of_order)?;
                let query = self.plan.query(side, release, self.rows.clipped(), &self.outcome)?;
                let noised = held.release(place_of(&self.plan, side, release)?, &query.ok_or_else(out_of_order)?)?;
                self.keep(side, release, noised.lattice().clone())?;
                self.place = self.after_statistics(at);
                Ok(said(&noised))
            }
            Place::Table => {
                let body = self.table.build(&self.rows)?;
                self.after_table()?;
                Ok(body.into())
            }
            Place::Rows | Place::Vector => {
                let body = self.build_product()?;
                self.after_product()?;
                Ok(body.into())
            }
            Place::RowCanary { from } => {
                let share = self.canary.as_ref().map(|canary| canary.share().clone());
                self.place = self.after_row_canary(from);
                Ok(canary_message(share).into())
            }
            Place::Share { from } => {
                let release = self.opens()?;
                let number = place_of(&self.plan, side, release)?;
                let noised = match held.stored(number)? {
                    Some(noised) => noised,
                    None => held.release(number, &self.own_share(release)?)?,
                };
                self.keep(side, release, noised.lattice().clone())?;
                self.after_share(from)?;
                Ok(said(&noised))
            }
            Place::Over => Err(out_of_order()),
        }
    }

    /// The own share of the present exchange, which is used once.
    fn own_share(&mut self, release: LogisticRelease) -> Result<Query, Abort> {
        let side = self.pair.side();
        match release {
            LogisticRelease::Gradient(_) => {
                let share = self.gradient.take().ok_or_else(out_of_order)?;
                let scale = self.fit.as_ref().and_then(LogisticFit::scale).ok_or_else(out_of_order)?;
                Ok(self.plan.gradient_share(side, scale, &share))
            }
            LogisticRelease::Share => {
                let share = self.plan.share(side, &self.table.take_share()?);
                share.map_err(|error| Abort::Bug(error.to_string()))
            }
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => Err(out_of_order()),
        }
    }

    pub(super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Statistics(at), Body::Noised(noised)) => {
                let (side, release) = *self.statistics.get(at).ok_or_else(out_of_order)?;
                expect(&noised, place_of(&self.plan, side, release)?)?;
                let step = self.plan.sigma(side, release) * STEP_PER_SIGMA;
                let fits = noised.value.require(self.plan.entries(side, release), step);
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.keep(side, release, noised.value)?;
                self.place = self.after_statistics(at);
            }
            (Place::Table, body) => {
                self.table.absorb(body, &self.rows)?;
                self.after_table()?;
            }
            (Place::Rows | Place::Vector, body) => {
                self.absorb_product(body)?;
                self.after_product()?;
            }
            (Place::RowCanary { from }, Body::Go) if self.is_past() => self.place = self.after_row_canary(from),
            (Place::RowCanary { from }, Body::Share(Share { canary, table: None })) => {
                self.canary.as_ref().ok_or_else(out_of_order)?.check(&canary).map_err(peer_fault)?;
                self.place = self.after_row_canary(from);
            }
            (Place::Share { from }, Body::Noised(noised)) => {
                let (side, release) = (self.pair.side_of(from), self.opens()?);
                expect(&noised, place_of(&self.plan, side, release)?)?;
                let step = self.plan.share_step(release).ok_or_else(out_of_order)?;
                let fits = noised.value.require(self.plan.entries(side, release), step);
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.keep(side, release, noised.value)?;
                self.after_share(from)?;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    fn keep(&mut self, of: Side, release: LogisticRelease, value: LatticeVector) -> Result<(), Abort> {
        let place = place_of(&self.plan, of, release)? as usize;
        let slot = self.released[usize::from(of)].get_mut(place).ok_or_else(out_of_order)?;
        *slot = Some(value);
        Ok(())
    }

    fn after_statistics(&self, at: usize) -> Place {
        if at + 1 < self.statistics.len() { Place::Statistics(at + 1) } else { Place::Table }
    }

    /// The masks fit: the table's share is next, or the means of a gradient.
    fn after_table(&mut self) -> Result<(), Abort> {
        if self.table.step().is_some() {
            return Ok(());
        }
        if self.exchange == 0 {
            self.place = Place::Share { from: self.pair.first() };
            return Ok(());
        }
        self.begin_products()
    }

    /// The means of a gradient are next, and the residuals with the columns.
    fn begin_products(&mut self) -> Result<(), Abort> {
        self.place = Place::Rows;
        let shapes = self.shapes.ok_or_else(out_of_order)?;
        if self.is_past() {
            self.products = Products::Past { rows: Passed::rows(&shapes.rows), vector: Passed::vector(&shapes.vector) };
            return Ok(());
        }
        let mut kept = match self.kept.take() {
            Some(kept) => kept,
            // The table between the blocks was open before, or its share has left: it is not needed again.
            None => {
                let spent = self.past_table();
                std::mem::replace(&mut self.table, spent).kept()?
            }
        };
        self.orders.extend([Order::Rows(shapes.rows), Order::Vector(shapes.vector)]);
        self.ordered += 1;
        let number = 2 * self.exchange as u32;
        let exchange = RowExchange::new(self.pair, number, shapes.rows, &kept.seed, &mut kept.labels);
        self.products = Products::Rows(Box::new(exchange));
        self.kept = Some(kept);
        Ok(())
    }

    /// The exchange of masked blocks as one of a process that is gone.
    fn past_table(&self) -> CheckedTable {
        let columns = self.plan.columns();
        CheckedTable::new(self.pair, MaskedTable::of_the_past(self.pair, &self.study, self.run, columns))
    }

    fn build_product(&mut self) -> Result<Body, Abort> {
        match &mut self.products {
            Products::Past { rows, vector } => {
                if self.place == Place::Rows {
                    rows.count_on()
                } else {
                    vector.count_on()
                }
                Ok(Body::Go)
            }
            Products::Rows(exchange) => exchange.build(self.means.as_ref().ok_or_else(out_of_order)?),
            Products::Vector(exchange) => exchange.build(&self.residuals),
            Products::None => Err(out_of_order()),
        }
    }

    fn absorb_product(&mut self, body: Body) -> Result<(), Refusal> {
        match (&mut self.products, body) {
            (Products::Past { rows, vector }, Body::Go) => {
                if self.place == Place::Rows {
                    rows.count_on()
                } else {
                    vector.count_on()
                }
                Ok(())
            }
            (Products::Past { .. }, _) => Err(Refusal::Kind),
            (Products::Rows(exchange), body) => exchange.absorb(body),
            (Products::Vector(exchange), body) => exchange.absorb(body),
            (Products::None, _) => Err(out_of_order().into()),
        }
    }

    /// Takes what a product has come to, once it is done.
    fn after_product(&mut self) -> Result<(), Abort> {
        if self.products_step().is_some() {
            return Ok(());
        }
        let shapes = self.shapes.ok_or_else(out_of_order)?;
        self.place =
            if self.place == Place::Rows { Place::Vector } else { Place::RowCanary { from: self.pair.first() } };
        match std::mem::replace(&mut self.products, Products::None) {
            past @ Products::Past { .. } => self.products = past,
            Products::Rows(exchange) => {
                let means = self.means.as_ref().ok_or_else(out_of_order)?;
                let (mut shares, canary) = exchange.finish(means)?;
                let y = self.pair.leads().then_some(self.outcome.values());
                means.complete(&mut shares, y).map_err(|error| Abort::Bug(error.to_string()))?;
                (self.residuals, self.canary) = (shares, Some(canary));
                let kept = self.kept.as_mut().ok_or_else(out_of_order)?;
                let number = 2 * self.exchange as u32 + 1;
                let vector = VectorExchange::new(self.pair, number, shapes.vector, &kept.seed, &mut kept.labels);
                self.products = Products::Vector(Box::new(vector));
            }
            Products::Vector(exchange) => {
                let kept = self.kept.as_ref().ok_or_else(out_of_order)?;
                self.gradient = Some(exchange.finish(&self.residuals, &columns(&self.rows, kept))?);
                self.residuals = Vec::new();
            }
            Products::None => return Err(out_of_order()),
        }
        Ok(())
    }

    fn after_row_canary(&self, from: Role) -> Place {
        let (first, second) = (self.pair.first(), self.pair.second());
        if from == first { Place::RowCanary { from: second } } else { Place::Share { from: first } }
    }

    fn after_share(&mut self, from: Role) -> Result<(), Abort> {
        if from == self.pair.first() {
            self.place = Place::Share { from: self.pair.second() };
            return Ok(());
        }
        self.take_opened()?;
        self.exchange += 1;
        self.canary = None;
        if self.exchange == EXCHANGES.len() {
            self.place = Place::Over;
            return Ok(());
        }
        self.begin_gradient()
    }

    /// What has opened, for the fit.
    fn take_opened(&mut self) -> Result<(), Abort> {
        let peer = self.pair.peer();
        let refused = |error: ShareError| {
            let fault = PeerFault::Sealed(error.to_string());
            Abort::Peer { peer, fault }
        };
        let missing = || Abort::Bug("a noised value is missing".to_string());
        if let LogisticRelease::Gradient(number) = self.opens()? {
            let [Some(alice), Some(bob)] = [self.pair.first(), self.pair.second()].map(|role| self.of(role)) else {
                return Err(missing());
            };
            let opened = self.plan.opened_gradient(number, [alice, bob]).map_err(refused)?;
            let taken = self.fit.as_mut().ok_or_else(out_of_order)?.take(&opened);
            return if taken { Ok(()) } else { Err(Abort::Bug("the curvature has no inverse".to_string())) };
        }
        let of = |side: Side, release| self.value(side, release).cloned();
        let tables = self.plan.tables(of, &self.outcome).map_err(refused)?.ok_or_else(missing)?;
        let fit = self.plan.begin(&tables);
        self.fit = Some(fit.ok_or_else(|| Abort::Bug("the joint table has no inverse".to_string()))?);
        Ok(())
    }

    /// The next exchange, of a gradient at the point that follows from what has opened.
    fn begin_gradient(&mut self) -> Result<(), Abort> {
        let unheld = || Abort::Bug("a point without a kernel".to_string());
        let fit = self.fit.as_ref().ok_or_else(out_of_order)?;
        let corrected = if self.ordered.is_multiple_of(2) { product::Side::Right } else { product::Side::Left };
        self.shapes = Some(fit.shapes(corrected).ok_or_else(unheld)?);
        self.rows.without_outcome();
        if !self.is_past() {
            self.means = Some(fit.means(self.pair.side(), self.rows.clipped()).ok_or_else(unheld)?);
        }
        if !self.masked.get(self.exchange).copied().unwrap_or_default() {
            return self.begin_products();
        }
        self.place = Place::Table;
        self.table = self.past_table();
        if !self.is_past() {
            let table = MaskedTable::new(self.pair, &self.study, self.run, self.plan.columns());
            self.table = CheckedTable::new(self.pair, table.keeping());
        }
        Ok(())
    }

    /// The joint fit on the original scale; the same at both parties, as both know the same values.
    pub(super) fn finish<S: Storage>(&mut self, held: &Held<S>, table: &Table) -> Result<PrivateFit, Abort> {
        let fit = self.fit.as_ref().ok_or_else(out_of_order)?;
        let outlook = held.study.outlook(&held.plan).map_err(|error| Abort::Bug(error.to_string()))?;
        Ok(PrivateFit {
            coefficients: coefficients(&held.study, fit)?,
            nobs: table.rows() as u64,
            rounds: held.plan.exchanges(),
            notes: notes(&held.study, &outlook),
            caution: fit.caution(),
            statement: held.statement()?,
            outlook,
            path: None,
            shown_lambda: None,
            kept: None,
        })
    }
}

/// What products take of the columns; the public column makes the sum of the residuals an integer in the unit of the other products.
fn columns<'a>(rows: &'a WholeRows, kept: &'a Kept) -> Columns<'a, WholeRows> {
    let public = Public { rows: rows.clipped().len(), one: f64::from(1_u32 << ROW_BITS), roots: None };
    Columns { own: rows, received: &kept.received, public }
}

/// The place of a release among those of its side.
fn place_of(plan: &LogisticPlan, side: Side, release: LogisticRelease) -> Result<u32, Abort> {
    plan.side(side).index(release).ok_or_else(out_of_order)
}

/// The statistics of both sides in the order in which they are said: one of each in turn, as far as it has it.
fn statistics(plan: &LogisticPlan) -> Vec<(Side, LogisticRelease)> {
    let both = STATISTICS.into_iter().flat_map(|release| [Side::Alice, Side::Bob].map(|side| (side, release)));
    both.filter(|(side, release)| plan.side(*side).index(*release).is_some()).collect()
}

/// Which exchanges begin with the blocks behind masks: the first one, and each with which a process began that had none; that of this
/// process is noted.
fn masked<S: Storage>(past: usize, held: &mut Held<S>) -> Result<[bool; EXCHANGES.len()], Abort> {
    let mut masked = [false; EXCHANGES.len()];
    for (exchange, anew) in (0..=past as u32).zip(&mut masked) {
        let number = MASKED_ANEW - exchange;
        if exchange > 0 && exchange as usize == past {
            held.note(number)?;
        }
        *anew = exchange == 0 || held.is_noted(number)?;
    }
    Ok(masked)
}

/// In an exchange of the past the message has passed, and what is built here leaves no more.
fn canary_message(share: Option<Elements>) -> Body {
    share.map_or(Body::Go, |canary| Body::Share(Share { canary, table: None }))
}

/// Intercept and slopes of both parties with their standard errors, Alice's first.
fn coefficients(study: &Study<Vertical>, fit: &LogisticFit) -> Result<Vec<Coefficient>, Abort> {
    let refused = |error: crate::privacy::bounds::BoundsError| Abort::Bug(error.to_string());
    let (first, second) = (study.first(), Pair::of(study, study.first()).second());
    let (alice, bob) = (study.row_bounds(first).map_err(refused)?, study.row_bounds(second).map_err(refused)?);
    let fitted = fit.on_original_scale([&alice, &bob], &study.outcome_bounds().map_err(refused)?);
    let (values, variances) = fitted.ok_or_else(|| Abort::Bug("the curvature has no inverse".to_string()))?;
    let known = match study.method.family {
        Family::Gaussian | Family::Binomial => study.method.inference.allowed,
        // What the cut of means leaves is in no variance.
        Family::Poisson => false,
    };
    let error = |at: usize| known.then(|| variances[at].sqrt());
    let named = alice.names().iter().map(|name| (first, name)).chain(bob.names().iter().map(|name| (second, name)));
    let mut rows = vec![Coefficient::normal(INTERCEPT.to_string(), first, Some(values[0]), error(0))];
    rows.extend(
        named
            .enumerate()
            .map(|(at, (role, name))| Coefficient::normal(name.clone(), role, Some(values[at + 1]), error(at + 1))),
    );
    Ok(rows)
}
