//! The evaluations of a sealed binomial or poisson fit, after its table is open.
//!
//! Alice leads: she names a [point](JointKind::Point), Bob answers with his [range](JointKind::Range), and both know which kernel takes
//! the two parts of the linear predictor together. Then come the products: the mean within rows, and the residuals with the columns of
//! both, of which Bob's share goes to Alice once the canary of the products within rows was right. She has the gradient and names the next
//! point, or the [end](JointKind::End), after which weights, losses and the weighted table follow where the fit has converged. With a
//! penalty the points are those of one lambda after another, and the losses of each follow before the points of the next.
//!
//! The ranges of both sides are classes of the largest predictor in a binomial fit, of which the smaller takes the polynomials, and whole
//! numbers above it in a poisson fit. Where those of a poisson fit come to too much, nothing opens at the point, and Alice names one half as
//! far. Where the study fixes the range, each party cuts its part there, and that range stands in every message in place of its own.

mod along;
mod lead;
mod point;
mod seen;

use std::collections::VecDeque;

use nalgebra::{DMatrix, DVector};

pub(super) use self::along::{Fitted, Penalised};
pub(super) use self::lead::{End, Ended, Lead};
use self::point::Point;
pub(super) use self::point::cut;
use self::seen::Seen;
use super::limits::Sizes;
use crate::conversation::{Refusal, Step};
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::masked::{Kept, length, out_of_order, peer_fault};
use crate::methods::vertical::message::{Body, Joint, JointKind, Product, ProductKind};
use crate::methods::vertical::pair::Pair;
use crate::methods::vertical::products::{Columns, Public, RowExchange, VectorExchange, WeightedExchange, of_product};
use crate::secure::basis::Basis;
use crate::secure::kernel::Kernel;
use crate::secure::product::{
    Blocks, Canary, RowShape, Shape, Side, VectorShape, VectorShare, WeightedShape, WeightedShare,
};
use crate::secure::ring::{Elements, Width};
use crate::session::{Abort, Order, PeerFault};

/// What Bob answers where his own limits allow no further gradient.
const NO_MORE: f64 = 255.0;

/// What Alice says in place of an end where the fit at a lambda has converged: the sum over the rows is to open from which the loss at the
/// last point follows.
const SUM: f64 = 5.0;

/// What a party has beside what the table left.
pub(super) struct Own<'a> {
    pub(super) basis: &'a Basis<DMatrix<f64>>,
    /// The outcome, at Alice.
    pub(super) y: &'a [f64],
    /// A term with coefficient 1, at Alice.
    pub(super) offset: Option<&'a [f64]>,
    /// Where rows have case weights.
    pub(super) weights: Option<&'a Weights>,
}

/// Case weights as they stand in products.
pub(super) struct Weights {
    /// With mean 1.
    pub(super) values: Vec<f64>,
    /// Their roots, by which the rows of every column are multiplied.
    pub(super) roots: Vec<f64>,
}

impl Weights {
    /// From those of the study.
    pub(super) fn new(weights: &[f64]) -> Weights {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        Weights {
            values: weights.iter().map(|weight| weight / mean).collect(),
            roots: weights.iter().map(|weight| (weight / mean).sqrt()).collect(),
        }
    }
}

impl Own<'_> {
    fn roots(&self) -> Option<&[f64]> {
        self.weights.map(|weights| &weights.roots[..])
    }

    /// The own part of the linear predictor. That of a row of weight zero, whose columns are zero in the basis, stands in no product.
    pub(super) fn predictor(&self, gamma: &DVector<f64>) -> Vec<f64> {
        let mut eta = self.basis.predictor(gamma);
        if let Some(offset) = self.offset {
            let roots = self.roots();
            let root = |row: usize| roots.map_or(1.0, |roots| roots[row]);
            eta.iter_mut().zip(offset).enumerate().for_each(|(row, (eta, offset))| *eta += offset * root(row));
        }
        if let Some(roots) = self.roots() {
            let divide = |eta: &mut f64, root: &f64| *eta = if *root > 0.0 { *eta / root } else { 0.0 };
            eta.iter_mut().zip(roots).for_each(|(eta, root)| divide(eta, root));
        }
        eta
    }

    /// The column of the intercept.
    fn public(&self) -> Public<'_> {
        Public { rows: Blocks::rows(self.basis), one: 1.0, roots: self.roots() }
    }
}

/// The place among the evaluations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A point, or that there are no further ones.
    Point,
    Range,
    Product,
    /// Alice's shares of the canaries.
    Canary,
    /// Bob's shares of what opens.
    Shares,
    /// Alice's, where it opens to both.
    SharesOfFirst,
    Over,
}

/// What ends with the products that are under way, where these are none of a gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The fit at one lambda.
    Lambda,
    /// All.
    Fit,
}

/// A product that both parties have planned.
#[derive(Debug, Clone, Copy)]
enum Planned {
    Rows(Kernel, RowShape),
    Vector(VectorShape),
    Weighted(WeightedShape),
}

/// The product that is being exchanged.
enum Active {
    Rows(Kernel, Box<RowExchange>),
    Vector(Box<VectorExchange>),
    Weighted(Box<WeightedExchange>),
}

/// One side of the evaluations.
pub(super) struct Glm {
    pair: Pair,
    sizes: Sizes,
    /// Of the table, whose blocks the products are made with.
    table: Shape,
    /// Gradients that may open by the own limits.
    allowed: u64,
    /// At Bob: his columns that stay, in coordinates of his basis.
    map: Option<DMatrix<f64>>,
    kept: Kept,
    orders: VecDeque<Order>,
    /// Products so far, and products within rows among them.
    products: u32,
    corrected: u64,
    evaluations: u32,
    /// Points that were named, of which the last may have had no gradient.
    points: u32,
    place: Place,
    point: Option<Point>,
    /// The products of the end, or of the end of a lambda, if they are under way.
    ending: Option<Ending>,
    /// Sums that were asked for, with a penalty.
    sums: u64,
    /// Whether the gradient at the present point has opened, and no such sum.
    unsummed: bool,
    planned: VecDeque<Planned>,
    active: Option<Active>,
    canaries: Vec<Canary>,
    /// Whether the own part of the linear predictor was cut at the point from which the solution follows; with a penalty at any point.
    cut: bool,
    /// Numbers that open with the message that was built last.
    opens: usize,
    /// The own share of a vector over the rows, for the next product with the columns.
    vector: Vec<Elements>,
    loss: Option<Elements>,
    gradient: Option<VectorShare>,
    /// The own share of the residuals' sum at the last point, where it is no part of the gradient.
    residuals: Option<Elements>,
    weighted: Option<WeightedShare>,
    /// At Alice.
    lead: Option<Lead>,
    /// At Alice, her shares of what has opened to her, until they are sent where it opens to both.
    told: Option<Elements>,
    /// At Bob, where it opens to both.
    seen: Seen,
    end: Option<End>,
}

impl Glm {
    /// Once the table is open and it is known which columns stay. `lead` is Alice's.
    pub(super) fn new(
        pair: Pair,
        (sizes, table, allowed): (Sizes, Shape, u64),
        kept: Kept,
        map: Option<DMatrix<f64>>,
        lead: Option<Lead>,
    ) -> Glm {
        Glm {
            pair,
            sizes,
            table,
            allowed,
            map,
            kept,
            orders: VecDeque::new(),
            products: 0,
            corrected: 0,
            evaluations: 0,
            points: 0,
            place: Place::Point,
            point: None,
            ending: None,
            sums: 0,
            unsummed: false,
            planned: VecDeque::new(),
            active: None,
            canaries: Vec::new(),
            cut: false,
            opens: 0,
            vector: Vec::new(),
            loss: None,
            gradient: None,
            residuals: None,
            weighted: None,
            lead,
            told: None,
            seen: Seen::default(),
            end: None,
        }
    }

    pub(super) fn order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Gradients that have opened.
    pub(super) fn evaluations(&self) -> u32 {
        self.evaluations
    }

    /// Points that were named.
    pub(super) fn points(&self) -> u32 {
        self.points
    }

    /// Sums that opened with a penalty, from which the losses follow.
    pub(super) fn sums(&self) -> u64 {
        self.sums
    }

    /// Numbers that open with the message that was built last.
    pub(super) fn opens(&self) -> usize {
        self.opens
    }

    /// Whether the own part of the linear predictor was cut where the solution comes from.
    pub(super) fn was_cut(&self) -> bool {
        self.cut
    }

    /// Why there were no further points, once that is known.
    pub(super) fn end(&self) -> Option<End> {
        self.end
    }

    pub(super) fn lead(&self) -> Option<&Lead> {
        self.lead.as_ref()
    }

    /// At Bob, where everything opens to both.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(super) fn step(&self) -> Option<Step> {
        let (speaker, expected) = match self.place {
            Place::Point => (self.pair.first(), "a point"),
            Place::Range => (self.pair.second(), "a range"),
            Place::Product => match &self.active {
                Some(Active::Rows(_, exchange)) => return exchange.step(),
                Some(Active::Vector(exchange)) => return exchange.step(),
                Some(Active::Weighted(exchange)) => return exchange.step(),
                None => return None,
            },
            Place::Canary => (self.pair.first(), "the share of a product's canary"),
            Place::Shares => (self.pair.second(), "shares of a product"),
            Place::SharesOfFirst => (self.pair.first(), "shares of a product"),
            Place::Over => return None,
        };
        Some(Step { speaker, expected })
    }

    pub(super) fn build(&mut self, own: &Own<'_>) -> Result<Body, Abort> {
        self.opens = 0;
        match self.place {
            Place::Point => self.name_point(own),
            Place::Range => self.answer_range(),
            Place::Product => {
                let body = match self.active.as_mut().ok_or_else(out_of_order)? {
                    Active::Rows(kernel, exchange) => {
                        let point = self.point.as_ref().ok_or_else(out_of_order)?;
                        exchange.build(&point.feature(*kernel, own.roots()))?
                    }
                    Active::Vector(exchange) => exchange.build(&self.vector)?,
                    Active::Weighted(exchange) => exchange.build(&self.vector)?,
                };
                self.go_on(own)?;
                Ok(body)
            }
            Place::Canary => {
                let canaries = self.canaries.iter().map(Canary::share);
                let entries = joined(canaries)?;
                self.place = Place::Shares;
                Ok(self.message(ProductKind::Canary, entries))
            }
            Place::Shares => self.open_own(),
            Place::SharesOfFirst => self.tell(),
            Place::Over => Err(out_of_order()),
        }
    }

    pub(super) fn absorb(&mut self, body: Body, own: &Own<'_>) -> Result<(), Refusal> {
        match (self.place, body) {
            (Place::Point, Body::Joint(Joint { what: JointKind::Point, values })) => self.take_point(&values, own),
            (Place::Point, Body::Joint(Joint { what: JointKind::End, values })) => self.take_end(&values),
            (Place::Range, Body::Joint(Joint { what: JointKind::Range, values })) => {
                let [range] = values[..] else { return Err(length("a range", values.len(), 1).into()) };
                if range == NO_MORE {
                    let lead = self.lead.as_mut().ok_or_else(out_of_order)?;
                    lead.stop(End::LimitOfSecond);
                    self.place = Place::Point;
                    return Ok(());
                }
                self.settle(self.pair.second(), range)
            }
            (Place::Product, body) => {
                let columns = Columns { own: own.basis, received: &self.kept.received, public: own.public() };
                match self.active.as_mut().ok_or_else(out_of_order)? {
                    Active::Rows(_, exchange) => exchange.absorb(body)?,
                    Active::Vector(exchange) => exchange.absorb(body)?,
                    Active::Weighted(exchange) => exchange.absorb(body, &self.vector, &columns)?,
                }
                Ok(self.go_on(own)?)
            }
            (Place::Canary, Body::Product(Product { number, what: ProductKind::Canary, entries, .. })) => {
                of_product(self.products, number)?;
                self.check_canaries(&entries)?;
                self.place = Place::Shares;
                Ok(())
            }
            (Place::Shares, Body::Product(Product { number, what: ProductKind::Shares, entries, .. })) => {
                of_product(self.products, number)?;
                self.open(&entries)
            }
            (Place::SharesOfFirst, Body::Product(Product { number, what: ProductKind::Shares, entries, .. })) => {
                of_product(self.products, number)?;
                self.open_here(&entries)?;
                self.opened();
                Ok(())
            }
            _ => Err(Refusal::Kind),
        }
    }

    fn message(&self, what: ProductKind, entries: Elements) -> Body {
        Body::Product(Product { number: self.products, what, first: 0, entries })
    }

    /// Does what can be done while the others are at work.
    pub(super) fn go_ahead(&mut self, own: &Own<'_>) -> Result<(), Abort> {
        let columns = Columns { own: own.basis, received: &self.kept.received, public: own.public() };
        match (&mut self.active, &self.point) {
            (Some(Active::Rows(kernel, exchange)), Some(point)) => {
                exchange.go_ahead(&point.feature(*kernel, own.roots()))
            }
            (Some(Active::Vector(exchange)), _) => exchange.go_ahead(&self.vector, &columns),
            (Some(Active::Rows(..) | Active::Weighted(_)) | None, _) => Ok(()),
        }
    }

    /// At Alice: the next point, or the end.
    fn name_point(&mut self, own: &Own<'_>) -> Result<Body, Abort> {
        let lead = self.lead.as_mut().ok_or_else(out_of_order)?;
        if lead.wants_sum() {
            self.plan_sum()?;
            return Ok(Body::Joint(Joint { what: JointKind::End, values: vec![SUM] }));
        }
        // A point without a gradient counts like one with it.
        if u64::from(self.points) >= self.allowed {
            lead.stop(End::LimitOfFirst);
        }
        let Some((point, digits)) = lead.next() else {
            let end = lead.end();
            self.finish_points(end)?;
            return Ok(Body::Joint(Joint { what: JointKind::End, values: vec![f64::from(end.code())] }));
        };
        let (alice, first) = (self.sizes.alice, usize::from(self.sizes.intercept));
        let bob = point.len() - first - alice;
        let eta = own.predictor(&point.rows(first, alice).into_owned());
        let intercept = if self.sizes.intercept { point[0] } else { 0.0 };
        let size = match self.sizes.family {
            Family::Gaussian | Family::Binomial => digits,
            Family::Poisson => {
                own.y.iter().fold(0.0_f64, |most, y| most.max(*y)).ln_1p().div_euclid(2f64.ln()) as u32 + 1
            }
        };
        let point_here = Point::new(&self.sizes, true, eta, intercept, size);
        let mut values = vec![f64::from(size), point_here.range(), point_here.told()];
        values.extend_from_slice(point.rows(first + alice, bob).as_slice());
        self.point = Some(point_here);
        self.points += 1;
        self.opens = values.len();
        self.place = Place::Range;
        Ok(Body::Joint(Joint { what: JointKind::Point, values }))
    }

    /// At Bob.
    fn take_point(&mut self, values: &[f64], own: &Own<'_>) -> Result<(), Refusal> {
        let stay = self.map.as_ref().map_or(self.sizes.bob, DMatrix::ncols);
        let expected = 3 + stay;
        let ([size, range, told], gamma) = match values.split_first_chunk::<3>() {
            Some((head, gamma)) if gamma.len() == stay => (*head, gamma),
            _ => return Err(length("a point", values.len(), expected).into()),
        };
        let wrong = || PeerFault::Value { what: "a point", expected: "possible", round: self.evaluations + 1 };
        let size = whole(size, 1100).ok_or_else(wrong)?;
        self.seen.take_point(gamma);
        let gamma = DVector::from_column_slice(gamma);
        let gamma = match &self.map {
            Some(map) => map * gamma,
            None => gamma,
        };
        let eta = own.predictor(&gamma);
        let mut point = Point::new(&self.sizes, false, eta, told, size);
        if !point.take_range(range) {
            return Err(wrong().into());
        }
        self.point = Some(point);
        self.points += 1;
        self.unsummed = false;
        self.place = Place::Range;
        Ok(())
    }

    /// At Bob.
    fn answer_range(&mut self) -> Result<Body, Abort> {
        let point = self.point.as_ref().ok_or_else(out_of_order)?;
        let range = point.range();
        self.opens = 1;
        let values = if u64::from(self.points) > self.allowed {
            self.place = Place::Point;
            vec![NO_MORE]
        } else {
            self.settle(self.pair.second(), range).map_err(|_| out_of_order())?;
            vec![range]
        };
        Ok(Body::Joint(Joint { what: JointKind::Range, values }))
    }

    /// Both ranges are known: plans the products of an evaluation, unless no kernel holds the point. Then nothing opens there, and Alice names
    /// another point or the end.
    fn settle(&mut self, of: Role, range: f64) -> Result<(), Refusal> {
        let point = self.point.as_mut().ok_or_else(out_of_order)?;
        if self.pair.own() != of && !point.take_range(range) {
            let round = self.evaluations + 1;
            return Err(PeerFault::Value { what: "a range", expected: "one of the ranges", round }.into());
        }
        point.settle();
        let Some(shape) = self.rows(Kernel::Mean)? else {
            if let Some(lead) = &mut self.lead {
                // A range that the study fixes is that of every point.
                if self.sizes.range.is_none() { lead.refused() } else { lead.stop(End::OutOfRange) }
            }
            self.place = Place::Point;
            return Ok(());
        };
        let Sizes { rows, alice: left, bob: right, .. } = self.sizes;
        let vector = VectorShape { width: Width::Two, bits: self.table.bits, rows, left, right };
        self.plan([Planned::Rows(Kernel::Mean, shape), Planned::Vector(vector)].into())?;
        Ok(())
    }

    /// The next products within rows; none where no kernel holds the point.
    fn rows(&mut self, kernel: Kernel) -> Result<Option<RowShape>, Abort> {
        let point = self.point.as_ref().ok_or_else(out_of_order)?;
        let Some((bits, terms)) = point.shape(kernel, self.sizes.rows) else { return Ok(None) };
        let corrected = if self.corrected.is_multiple_of(2) { Side::Right } else { Side::Left };
        self.corrected += 1;
        Ok(Some(RowShape { width: Width::Two, bits, rows: self.sizes.rows, terms, corrected }))
    }

    fn plan(&mut self, planned: VecDeque<Planned>) -> Result<(), Abort> {
        self.orders.extend(planned.iter().map(|planned| match planned {
            Planned::Rows(_, shape) => Order::Rows(*shape),
            Planned::Vector(shape) => Order::Vector(*shape),
            Planned::Weighted(shape) => Order::Weighted(*shape),
        }));
        self.planned = planned;
        self.begin()
    }

    /// Begins the next product that is planned; after the last the canaries are compared.
    fn begin(&mut self) -> Result<(), Abort> {
        let Some(planned) = self.planned.pop_front() else {
            self.place = if self.canaries.is_empty() { Place::Shares } else { Place::Canary };
            return Ok(());
        };
        self.products += 1;
        let (pair, number) = (self.pair, self.products);
        let Kept { labels, seed, .. } = &mut self.kept;
        self.active = Some(match planned {
            Planned::Rows(kernel, shape) => {
                Active::Rows(kernel, Box::new(RowExchange::new(pair, number, shape, seed, labels)))
            }
            Planned::Vector(shape) => Active::Vector(Box::new(VectorExchange::new(pair, number, shape, seed, labels))),
            Planned::Weighted(shape) => {
                Active::Weighted(Box::new(WeightedExchange::new(pair, number, shape, seed, labels)))
            }
        });
        self.place = Place::Product;
        Ok(())
    }

    /// Takes what a product has come to, once it is done, and begins the next.
    fn go_on(&mut self, own: &Own<'_>) -> Result<(), Abort> {
        let done = match self.active.as_ref().ok_or_else(out_of_order)? {
            Active::Rows(_, exchange) => exchange.step().is_none(),
            Active::Vector(exchange) => exchange.step().is_none(),
            Active::Weighted(exchange) => exchange.step().is_none(),
        };
        if !done {
            return Ok(());
        }
        match self.active.take().ok_or_else(out_of_order)? {
            Active::Rows(kernel, exchange) => {
                let point = self.point.as_ref().ok_or_else(out_of_order)?;
                let (mut shares, canary) = exchange.finish(&point.feature(kernel, own.roots()))?;
                self.canaries.push(canary);
                let y = self.pair.leads().then_some(own.y);
                point.complete(kernel, &mut shares, y, own.roots())?;
                match (kernel, own.weights) {
                    (Kernel::Mean | Kernel::Weight, _) => self.vector = shares,
                    (Kernel::Loss, None) => self.loss = Some(point::sum(&shares)?),
                    (Kernel::Loss, Some(weights)) => {
                        self.loss = Some(point::weighted_sum(&shares, &weights.values, self.table.bits)?);
                    }
                }
            }
            Active::Vector(exchange) => {
                let columns = Columns { own: own.basis, received: &self.kept.received, public: own.public() };
                let mut share = exchange.finish(&self.vector, &columns)?;
                if !self.sizes.intercept {
                    self.residuals = Some(share.take_public());
                }
                self.gradient = Some(share);
            }
            Active::Weighted(exchange) => {
                let share = exchange.finish()?;
                self.weighted = Some(if self.sizes.intercept { share } else { share.without_public() });
            }
        }
        self.begin()
    }

    /// At Bob: his shares of the canaries, and of what opens to Alice.
    fn open_own(&mut self) -> Result<Body, Abort> {
        let parts: Vec<&Elements> = self.canaries.iter().map(Canary::share).chain(self.shares()).collect();
        let entries = joined(parts.into_iter())?;
        self.opens = entries.count() - self.canaries.len();
        let body = self.message(ProductKind::Shares, entries);
        if self.sizes.both {
            self.place = Place::SharesOfFirst;
        } else {
            (self.gradient, self.weighted, self.loss) = (None, None, None);
            self.opened();
        }
        Ok(body)
    }

    /// At Alice, where it opens to both: her shares of what has opened to her. Bob has compared the canaries before he sent his.
    fn tell(&mut self) -> Result<Body, Abort> {
        let entries = self.told.take().ok_or_else(out_of_order)?;
        self.opens = entries.count();
        let body = self.message(ProductKind::Shares, entries);
        self.opened();
        Ok(body)
    }

    /// The own shares of what is to open.
    fn shares(&self) -> impl Iterator<Item = &Elements> {
        let gradient = self.gradient.as_ref().map(VectorShare::share);
        let weighted = self.weighted.as_ref().map(WeightedShare::share);
        gradient.into_iter().chain(weighted).chain(&self.loss)
    }

    /// Something has opened: the next point, or the end.
    fn opened(&mut self) {
        self.canaries.clear();
        self.vector.clear();
        self.evaluations += u32::from(self.ending.is_none());
        self.unsummed = self.ending.is_none();
        let cut = self.point.as_ref().is_some_and(Point::was_cut);
        self.cut = cut || self.cut && self.sizes.lambdas.is_some();
        self.place = if self.ending == Some(Ending::Fit) { Place::Over } else { Place::Point };
        self.ending = self.ending.filter(|ending| *ending == Ending::Fit);
    }

    /// Compares the canaries with the peer's shares of them. The own ones stay, for the peer.
    fn check_canaries(&self, peer: &Elements) -> Result<(), Refusal> {
        if peer.count() != self.canaries.len() {
            return Err(length("shares of canaries", peer.count(), self.canaries.len()).into());
        }
        for (at, canary) in self.canaries.iter().enumerate() {
            canary.check(&peer.slice(at..at + 1)).map_err(peer_fault)?;
        }
        Ok(())
    }

    /// At Alice: what opens with Bob's shares.
    fn open(&mut self, entries: &Elements) -> Result<(), Refusal> {
        let count = self.canaries.len();
        self.check_canaries(&entries.slice(0..count))?;
        if self.sizes.both {
            let own: Vec<&Elements> = self.shares().collect();
            self.told = Some(joined(own.into_iter())?);
        }
        self.open_here(&entries.slice(count..entries.count()))?;
        match self.told {
            Some(_) => self.place = Place::SharesOfFirst,
            None => self.opened(),
        }
        Ok(())
    }

    /// What opens with the peer's shares, which may be nothing.
    fn open_here(&mut self, rest: &Elements) -> Result<(), Refusal> {
        let point = self.point.as_ref().ok_or_else(out_of_order)?;
        let (columns, rows, map) = (self.table.bits, self.sizes.rows, self.map.as_ref());
        if let Some(share) = self.gradient.take() {
            let (bits, bound) = point.bits(Kernel::Mean, rows, columns)?;
            let opened = share.open(rest, bound).map_err(peer_fault)?;
            match &mut self.lead {
                Some(lead) => lead.take_gradient(&opened, [columns, bits], rows),
                None => self.seen.take_gradient(&opened, [columns, bits], rows, map),
            }
            return Ok(());
        }
        let table = self.weighted.take();
        let size = table.as_ref().map_or(0, |share| share.share().count());
        let expected = size + self.loss.as_ref().map_or(0, Elements::count);
        if rest.count() != expected {
            return Err(length("shares of what opens at the end", rest.count(), expected).into());
        }
        if let Some(share) = table {
            let (bits, bound) = point.bits(Kernel::Weight, rows, columns)?;
            let opened = share.open(&rest.slice(0..size), bound).map_err(peer_fault)?;
            match &mut self.lead {
                Some(lead) => lead.take_weighted(&opened, [columns, bits], &self.sizes),
                None => self.seen.take_weighted(&opened, [columns, bits], &self.sizes, map),
            }
        }
        if let Some(mut own) = self.loss.take() {
            let (bits, _) = point.bits(Kernel::Loss, rows, columns)?;
            own.add(&rest.slice(size..expected)).map_err(|error| Abort::Bug(error.to_string()))?;
            let opened = own.to_integers();
            if self.sizes.family == Family::Binomial && opened[0] < 0 {
                return Err(peer_fault(crate::secure::product::Fault::Bound).into());
            }
            let factor = match self.sizes.family {
                Family::Gaussian | Family::Binomial if !self.sizes.weighted => 0,
                Family::Gaussian | Family::Binomial | Family::Poisson => columns,
            };
            if let Some(lead) = &mut self.lead {
                lead.take_losses(&opened, 2 * bits + factor);
            }
        }
        Ok(())
    }

    /// At Bob: there are no further points, or none at this lambda.
    fn take_end(&mut self, values: &[f64]) -> Result<(), Refusal> {
        let [code] = values[..] else { return Err(length("an end", values.len(), 1).into()) };
        let sums = self.sizes.lambdas.map_or(0, |lambdas| lambdas as u64 * self.sizes.losses());
        if code == SUM && self.unsummed && self.sums < sums {
            return Ok(self.plan_sum()?);
        }
        let wrong = PeerFault::Value { what: "an end", expected: "one of the ends", round: self.evaluations };
        let end = End::ALL.into_iter().find(|end| f64::from(end.code()) == code).ok_or(wrong)?;
        // A fit ends where a gradient has opened; with a penalty the null model may be the fit at every lambda.
        if end == End::Converged && !self.unsummed && self.sizes.lambdas.is_none() {
            let (came, expected) = ("an end", "a point");
            return Err(PeerFault::Kind { came, expected }.into());
        }
        Ok(self.finish_points(end)?)
    }

    /// Plans what the loss at the last point follows from.
    fn plan_sum(&mut self) -> Result<(), Abort> {
        self.sums += 1;
        self.ending = Some(Ending::Lambda);
        self.unsummed = false;
        match self.sizes.family {
            Family::Gaussian | Family::Binomial => {
                let loss = self.loss()?;
                self.plan([loss].into())
            }
            Family::Poisson => {
                // The means are known from the residuals.
                self.loss = self.residuals.take();
                self.plan(VecDeque::new())
            }
        }
    }

    fn loss(&mut self) -> Result<Planned, Abort> {
        let shape = self.rows(Kernel::Loss)?;
        Ok(Planned::Rows(Kernel::Loss, shape.ok_or_else(unheld)?))
    }

    /// Plans what opens at the end of a fit that has converged. With a penalty all has opened.
    fn finish_points(&mut self, end: End) -> Result<(), Abort> {
        self.end = Some(end);
        self.place = Place::Over;
        if end != End::Converged || self.sizes.lambdas.is_some() {
            return Ok(());
        }
        self.ending = Some(Ending::Fit);
        let mut planned = VecDeque::new();
        if self.sizes.inference {
            let shape = self.rows(Kernel::Weight)?.ok_or_else(unheld)?;
            planned.push_back(Planned::Rows(Kernel::Weight, shape));
        }
        if self.sizes.family == Family::Binomial {
            planned.push_back(self.loss()?);
        }
        if self.sizes.inference {
            let Sizes { rows, alice: left, bob: right, .. } = self.sizes;
            let shape = WeightedShape { width: Width::Two, bits: self.table.bits, rows, left, right };
            planned.push_back(Planned::Weighted(shape));
        }
        if self.sizes.family == Family::Poisson {
            // The means are known from the residuals, which open here where they are no part of the gradients.
            self.loss = self.residuals.take();
        }
        if planned.is_empty() && self.loss.is_none() { Ok(()) } else { self.plan(planned) }
    }
}

fn unheld() -> Abort {
    Abort::Bug("the last point has no kernel".to_string())
}

fn joined<'a>(parts: impl Iterator<Item = &'a Elements> + Clone) -> Result<Elements, Abort> {
    Elements::concat(Width::Two, parts).map_err(|error| Abort::Bug(error.to_string()))
}

/// A whole number from 0 to a largest one.
fn whole(value: f64, most: u32) -> Option<u32> {
    (value.fract() == 0.0 && value >= 0.0 && value <= f64::from(most)).then_some(value as u32)
}
