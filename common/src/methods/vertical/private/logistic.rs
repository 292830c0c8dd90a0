//! What the sides of a private binomial run say once the budget is reserved.
//!
//! 1. Each party's own noised statistics, Alice's first, one at a time;
//! 2. a table and then two gradients, each an exchange of its own: both blocks behind fresh masks, both parties' shares of a public product
//!    by which they see that their masks fit, and each party's share with its noise, Alice's first. Of a gradient the means within rows and
//!    the products with the residuals come in between, with another public product.
//!
//! The point of a gradient follows from what has opened, so both know it, and nobody names it. The number of gradients is fixed.
//!
//! As the masks of an exchange serve that exchange alone, a run that is taken up again needs none of those before: what was stored of them
//! is sent again byte for byte and what passed behind masks is counted. A share that was not stored is noised afresh under the same permit,
//! with fresh masks of both parties. Where one party has stored its share and the other one has lost its masks, the run is over and its
//! charge stays, as in the exchange of [a single table](super::crossprod).

use std::collections::VecDeque;
use std::sync::Arc;

use super::PrivateFit;
use super::crossprod::{STEP_PER_SIGMA, expect, notes, said, without_masks};
use super::held::Held;
use super::table::Table;
use crate::conversation::{Refusal, Said, Step};
use crate::fit::{Coefficient, INTERCEPT};
use crate::id::{Role, RunId};
use crate::methods::vertical::masked::{Kept, MaskedTable, out_of_order, peer_fault};
use crate::methods::vertical::message::{Body, Share};
use crate::methods::vertical::plan::{
    GradientShapes, LogisticFit, LogisticPlan, LogisticRelease, Side, WholeMeans, WholeRows,
};
use crate::methods::vertical::products::{Columns, Passed, Public, RowExchange, VectorExchange};
use crate::privacy::bounds::{ClippedOutcome, ClippedRows, ROW_BITS};
use crate::privacy::ledger::Storage;
use crate::privacy::mechanism::share::ShareError;
use crate::privacy::mechanism::{LatticeVector, Query};
use crate::secure::product::{self, Canary, Shares, TableShare, VectorShare};
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
    /// Both blocks behind masks.
    Masked,
    /// Bob's share of the canary.
    Canary,
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
    role: Role,
    study: Arc<Study<Vertical>>,
    run: RunId,
    plan: LogisticPlan,
    rows: WholeRows,
    /// 0 or 1.
    y: Vec<f64>,
    place: Place,
    /// What each side has released, Alice's first, in the order of [`LogisticRelease::ALL`].
    released: [Vec<Option<LatticeVector>>; 2],
    /// Exchanges whose own share was stored when this process began: they are counted alone.
    past: usize,
    /// Whether the run is taken up again.
    resumed: bool,
    /// The present exchange.
    exchange: usize,
    masked: MaskedTable,
    orders: VecDeque<Order>,
    /// From the first gradient on.
    fit: Option<LogisticFit>,
    shapes: Option<GradientShapes>,
    means: Option<WholeMeans>,
    /// Orders of means to the dealer of these masks: corrections alternate.
    ordered: u32,
    kept: Option<Kept>,
    products: Products,
    /// Own shares of the residuals by row block.
    residuals: Vec<Elements>,
    canary: Option<Canary>,
    /// At Alice, until Bob's canary has come.
    shares: Option<Shares>,
    table: Option<TableShare>,
    gradient: Option<VectorShare>,
}

fn index(release: LogisticRelease) -> usize {
    LogisticRelease::ALL.iter().position(|of| *of == release).unwrap_or_default()
}

fn at(role: Role) -> usize {
    usize::from(role != Role::Alice)
}

impl Logistic {
    pub(super) fn new<S: Storage>(
        plan: LogisticPlan,
        run: RunId,
        rows: ClippedRows,
        outcome: &ClippedOutcome,
        held: &mut Held<S>,
    ) -> Result<Logistic, Abort> {
        let (role, study) = (held.role, Arc::clone(&held.study));
        let mut past = 0;
        while held.reserved
            && let Some(release) = EXCHANGES.get(past)
            && held.stored(index(*release) as u32)?.is_some()
        {
            past += 1;
        }
        let shape = plan.table_shape();
        let masked = match past {
            0 => MaskedTable::new(role, &study, run, shape),
            _ => MaskedTable::of_the_past(role, &study, run, shape),
        };
        Ok(Logistic {
            role,
            run,
            rows: plan.block(Side::of(role), rows),
            // Its range is [0, 1], which became [-1, 1].
            y: outcome.values().iter().map(|y| 0.5 * (y + 1.0)).collect(),
            place: Place::Statistics(0),
            released: [vec![None; LogisticRelease::ALL.len()], vec![None; LogisticRelease::ALL.len()]],
            past,
            resumed: held.reserved,
            exchange: 0,
            masked,
            orders: VecDeque::new(),
            fit: None,
            shapes: None,
            means: None,
            ordered: 0,
            kept: None,
            products: Products::None,
            residuals: Vec::new(),
            canary: None,
            shares: None,
            table: None,
            gradient: None,
            study,
            plan,
        })
    }

    pub(super) fn progress(&self) -> (&'static str, u32) {
        let round = self.exchange as u32;
        match self.place {
            Place::Statistics(_) => ("exchanging noised statistics", round),
            Place::Masked if self.masked.waits_for_dealer() => ("waiting for the dealer", round),
            Place::Masked | Place::Canary => ("exchanging masked columns", round),
            Place::Rows | Place::Vector | Place::RowCanary { .. } => ("computing a gradient on shares", round),
            Place::Share { .. } => ("exchanging noised shares", round),
            Place::Over => ("done", round),
        }
    }

    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Statistics(at) => (speaker_of(at), "noised statistics"),
            Place::Masked => return self.masked.step(),
            Place::Canary => (Role::Bob, "the share of a canary"),
            Place::Rows | Place::Vector => return self.products_step(),
            Place::RowCanary { from } => (from, "the share of a canary"),
            Place::Share { from } => (from, "a noised share"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    fn products_step(&self) -> Option<Step> {
        match &self.products {
            Products::Past { rows, .. } if self.place == Place::Rows => rows.step(),
            Products::Past { vector, .. } => vector.step(),
            Products::Rows(exchange) => exchange.step(),
            Products::Vector(exchange) => exchange.step(),
            Products::None => None,
        }
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        match self.place {
            Place::Masked => self.masked.order(),
            Place::Rows | Place::Vector => self.orders.pop_front(),
            Place::Statistics(_) | Place::Canary | Place::RowCanary { .. } | Place::Share { .. } | Place::Over => None,
        }
    }

    pub(super) fn go_ahead(&mut self) -> Result<(), Abort> {
        if self.place == Place::Masked {
            return self.masked.go_ahead(&self.rows);
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
        self.place == Place::Share { from: self.role.partner() } && self.of(self.role).is_some()
    }

    /// Why a peer that is ahead cannot be followed: the masks of the present exchange are gone here. Where its share is out the run is over;
    /// else nothing of the exchange has left, and both can begin it anew.
    pub(super) fn left_behind<S>(&self, held: &Held<S>, ahead: &Body) -> Option<Abort> {
        let waits = match self.place {
            Place::Share { .. } | Place::Over => false,
            Place::Statistics(_)
            | Place::Masked
            | Place::Canary
            | Place::Rows
            | Place::Vector
            | Place::RowCanary { .. } => self.exchange == self.past,
        };
        (self.resumed && waits).then(|| {
            if let Body::Noised(_) = ahead {
                return without_masks(held);
            }
            Abort::Unreachable(format!(
                "{} goes on with masks that were lost here when the process ended; start both again, and both get fresh ones",
                self.role.partner()
            ))
        })
    }

    /// In an exchange of the past, what stands for a message behind masks: nothing follows from it.
    pub(super) fn stands_in(&self) -> Option<Body> {
        let behind = match self.place {
            Place::Masked | Place::Canary | Place::Rows | Place::Vector | Place::RowCanary { .. } => true,
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
        self.released[at(role)].get(index(*EXCHANGES.get(self.exchange)?))?.as_ref()
    }

    pub(super) fn build<S: Storage>(&mut self, held: &mut Held<S>) -> Result<Said<Body>, Abort> {
        match self.place {
            Place::Statistics(at) => {
                let release = statistic(at)?;
                let query = self.plan.query(release, self.rows.clipped(), &self.y)?.ok_or_else(out_of_order)?;
                let noised = held.release(index(release) as u32, &query)?;
                self.keep(self.role, release, noised.lattice().clone());
                self.place = after_statistics(at);
                Ok(said(&noised))
            }
            Place::Masked => {
                let body = self.masked.build(&self.rows)?;
                self.after_masked()?;
                Ok(body.into())
            }
            Place::Canary => {
                let share = self.table.as_ref().map(|share| share.canary().clone());
                self.after_canary()?;
                Ok(canary_message(share).into())
            }
            Place::Rows | Place::Vector => {
                let body = self.build_product()?;
                self.after_product()?;
                Ok(body.into())
            }
            Place::RowCanary { from } => {
                let share = self.canary.as_ref().map(|canary| canary.share().clone());
                self.place = after_row_canary(from);
                Ok(canary_message(share).into())
            }
            Place::Share { from } => {
                let release = self.opens()?;
                let number = index(release) as u32;
                let noised = match held.stored(number)? {
                    Some(noised) => noised,
                    None => held.release(number, &self.own_share(release)?)?,
                };
                self.keep(self.role, release, noised.lattice().clone());
                self.after_share(from)?;
                Ok(said(&noised))
            }
            Place::Over => Err(out_of_order()),
        }
    }

    /// The own share of the present exchange, which is used once.
    fn own_share(&mut self, release: LogisticRelease) -> Result<Query, Abort> {
        match release {
            LogisticRelease::Gradient(_) => {
                let share = self.gradient.take().ok_or_else(out_of_order)?;
                let scale = self.fit.as_ref().and_then(LogisticFit::scale).ok_or_else(out_of_order)?;
                Ok(self.plan.gradient_share(scale, &share))
            }
            LogisticRelease::Share => Ok(self.plan.share(&self.table.take().ok_or_else(out_of_order)?)),
            LogisticRelease::Table | LogisticRelease::Score | LogisticRelease::Sums => Err(out_of_order()),
        }
    }

    pub(super) fn absorb(&mut self, body: Body) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Statistics(at), Body::Noised(noised)) => {
                let (side, release) = (Side::of(speaker_of(at)), statistic(at)?);
                expect(&noised, index(release) as u32)?;
                let step = self.plan.sigma(side, release) * STEP_PER_SIGMA;
                let fits = noised.value.require(self.plan.entries(side, release), step);
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.keep(side.role(), release, noised.value);
                self.place = after_statistics(at);
            }
            (Place::Masked, body) => {
                self.masked.absorb(body, &self.rows)?;
                self.after_masked()?;
            }
            (Place::Canary, Body::Go) if self.is_past() => self.after_canary()?,
            (Place::Canary, Body::Share(Share { canary, table: None })) => {
                let shares = self.shares.take().ok_or_else(out_of_order)?;
                self.table = Some(shares.check(&canary).map_err(peer_fault)?);
                self.after_canary()?;
            }
            (Place::Rows | Place::Vector, body) => {
                self.absorb_product(body)?;
                self.after_product()?;
            }
            (Place::RowCanary { from }, Body::Go) if self.is_past() => self.place = after_row_canary(from),
            (Place::RowCanary { from }, Body::Share(Share { canary, table: None })) => {
                self.canary.as_ref().ok_or_else(out_of_order)?.check(&canary).map_err(peer_fault)?;
                self.place = after_row_canary(from);
            }
            (Place::Share { from }, Body::Noised(noised)) => {
                let release = self.opens()?;
                expect(&noised, index(release) as u32)?;
                let step = self.plan.share_step(release).ok_or_else(out_of_order)?;
                let fits = noised.value.require(self.plan.entries(Side::of(from), release), step);
                fits.map_err(|error| PeerFault::Garbage(error.to_string()))?;
                self.keep(from, release, noised.value);
                self.after_share(from)?;
            }
            _ => return Err(Refusal::Kind),
        }
        Ok(())
    }

    fn keep(&mut self, of: Role, release: LogisticRelease, value: LatticeVector) {
        self.released[at(of)][index(release)] = Some(value);
    }

    /// Once all masked columns have passed, the canaries are compared before anything else is made.
    fn after_masked(&mut self) -> Result<(), Abort> {
        if self.masked.step().is_some() {
            return Ok(());
        }
        if !self.is_past() {
            match self.role {
                Role::Alice => self.shares = Some(self.masked.take_shares()?),
                Role::Bob | Role::Worker | Role::Coordinator => self.table = Some(self.masked.take_share()?),
            }
        }
        self.place = Place::Canary;
        Ok(())
    }

    /// The masks fit: the table's share is next, or the means of a gradient.
    fn after_canary(&mut self) -> Result<(), Abort> {
        self.place = Place::Share { from: Role::Alice };
        let Some(shapes) = self.shapes else { return Ok(()) };
        self.place = Place::Rows;
        if self.is_past() {
            self.products = Products::Past { rows: Passed::rows(&shapes.rows), vector: Passed::vector(&shapes.vector) };
            return Ok(());
        }
        // The table between the blocks was open before: its share is not needed again.
        self.table = None;
        let spent = MaskedTable::of_the_past(self.role, &self.study, self.run, shapes.table);
        let mut kept = std::mem::replace(&mut self.masked, spent).kept()?;
        self.orders.extend([Order::Rows(shapes.rows), Order::Vector(shapes.vector)]);
        self.ordered += 1;
        let number = 2 * self.exchange as u32;
        let exchange = RowExchange::new(self.role, number, shapes.rows, &kept.seed, &mut kept.labels);
        self.products = Products::Rows(Box::new(exchange));
        self.kept = Some(kept);
        Ok(())
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
        self.place = if self.place == Place::Rows { Place::Vector } else { Place::RowCanary { from: Role::Alice } };
        match std::mem::replace(&mut self.products, Products::None) {
            past @ Products::Past { .. } => self.products = past,
            Products::Rows(exchange) => {
                let means = self.means.as_ref().ok_or_else(out_of_order)?;
                let (mut shares, canary) = exchange.finish(means)?;
                let y = (self.role == Role::Alice).then_some(&self.y[..]);
                means.complete(&mut shares, y).map_err(|error| Abort::Bug(error.to_string()))?;
                (self.residuals, self.canary) = (shares, Some(canary));
                let kept = self.kept.as_mut().ok_or_else(out_of_order)?;
                let number = 2 * self.exchange as u32 + 1;
                let vector = VectorExchange::new(self.role, number, shapes.vector, &kept.seed, &mut kept.labels);
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

    fn after_share(&mut self, from: Role) -> Result<(), Abort> {
        if from == Role::Alice {
            self.place = Place::Share { from: Role::Bob };
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
        let (role, released) = (self.role, &self.released);
        let refused = |error: ShareError| {
            let fault = PeerFault::Sealed(error.to_string());
            Abort::Peer { peer: role.partner(), fault }
        };
        let of = |side: Side, release| released[at(side.role())].get(index(release)).cloned().flatten();
        let missing = || Abort::Bug("a noised value is missing".to_string());
        if let LogisticRelease::Gradient(number) = self.opens()? {
            let shares = [Side::Alice, Side::Bob].map(|side| of(side, LogisticRelease::Gradient(number)));
            let [Some(alice), Some(bob)] = &shares else { return Err(missing()) };
            let opened = self.plan.opened_gradient(number, [alice, bob]).map_err(refused)?;
            let taken = self.fit.as_mut().ok_or_else(out_of_order)?.take(&opened);
            return if taken { Ok(()) } else { Err(Abort::Bug("the curvature has no inverse".to_string())) };
        }
        let mean = self.y.iter().sum::<f64>() / self.y.len() as f64;
        let tables = self.plan.tables(of, mean).map_err(refused)?.ok_or_else(missing)?;
        let fit = self.plan.begin(&tables);
        self.fit = Some(fit.ok_or_else(|| Abort::Bug("the joint table has no inverse".to_string()))?);
        Ok(())
    }

    /// The next exchange, of a gradient at the point that follows from what has opened.
    fn begin_gradient(&mut self) -> Result<(), Abort> {
        let unheld = || Abort::Bug("a point without a kernel".to_string());
        let fit = self.fit.as_ref().ok_or_else(out_of_order)?;
        let corrected = if self.ordered.is_multiple_of(2) { product::Side::Right } else { product::Side::Left };
        let shapes = fit.shapes(corrected).ok_or_else(unheld)?;
        self.shapes = Some(shapes);
        self.rows.unscale();
        let (role, study) = (self.role, &self.study);
        let spent = MaskedTable::of_the_past(role, study, self.run, shapes.table);
        if self.is_past() {
            self.masked = spent;
        } else {
            self.means = Some(fit.means(Side::of(role), self.rows.clipped()).ok_or_else(unheld)?);
            let masked = match (self.kept.take(), std::mem::replace(&mut self.masked, spent)) {
                (Some(kept), _) => MaskedTable::behind(role, shapes.table, kept),
                (None, table) if table.is_of_the_past() => MaskedTable::new(role, study, self.run, shapes.table),
                (None, table) => table.following(shapes.table)?,
            };
            self.masked = masked.keeping();
        }
        self.place = Place::Masked;
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
            statement: held.statement()?,
            outlook,
        })
    }
}

/// What products take of the columns; the public column makes the sum of the residuals an integer in the unit of the other products.
fn columns<'a>(rows: &'a WholeRows, kept: &'a Kept) -> Columns<'a, WholeRows> {
    let public = Public { rows: rows.clipped().len(), one: f64::from(1_u32 << ROW_BITS), roots: None };
    Columns { own: rows, received: &kept.received, public }
}

/// Whose statistics come next: one of each party in turn.
fn speaker_of(at: usize) -> Role {
    if at.is_multiple_of(2) { Role::Alice } else { Role::Bob }
}

fn statistic(at: usize) -> Result<LogisticRelease, Abort> {
    STATISTICS.get(at / 2).copied().ok_or_else(out_of_order)
}

fn after_statistics(at: usize) -> Place {
    if at + 1 < 2 * STATISTICS.len() { Place::Statistics(at + 1) } else { Place::Masked }
}

fn after_row_canary(from: Role) -> Place {
    match from {
        Role::Alice => Place::RowCanary { from: Role::Bob },
        Role::Bob | Role::Worker | Role::Coordinator => Place::Share { from: Role::Alice },
    }
}

/// In an exchange of the past the message has passed, and what is built here leaves no more.
fn canary_message(share: Option<Elements>) -> Body {
    share.map_or(Body::Go, |canary| Body::Share(Share { canary, table: None }))
}

/// Intercept and slopes of both parties with their standard errors, Alice's first.
fn coefficients(study: &Study<Vertical>, fit: &LogisticFit) -> Result<Vec<Coefficient>, Abort> {
    let refused = |error: crate::privacy::bounds::BoundsError| Abort::Bug(error.to_string());
    let (alice, bob) = (study.row_bounds(Role::Alice).map_err(refused)?, study.row_bounds(Role::Bob).map_err(refused)?);
    let fitted = fit.on_original_scale([&alice, &bob]);
    let (values, variances) = fitted.ok_or_else(|| Abort::Bug("the curvature has no inverse".to_string()))?;
    let error = |at: usize| study.method.inference.allowed.then(|| variances[at].sqrt());
    let named =
        alice.names().iter().map(|name| (Role::Alice, name)).chain(bob.names().iter().map(|name| (Role::Bob, name)));
    let mut rows = vec![Coefficient::normal(INTERCEPT.to_string(), Role::Alice, Some(values[0]), error(0))];
    rows.extend(
        named
            .enumerate()
            .map(|(at, (role, name))| Coefficient::normal(name.clone(), role, Some(values[at + 1]), error(at + 1))),
    );
    Ok(rows)
}
