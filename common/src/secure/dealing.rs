//! The dealer's decisions in one run: which orders belong together, when each side gets its seed, and which product is computed next.
//!
//! Both parties order the same products in the same order. Nothing is handed out before both have ordered, so that parties that do not
//! agree learn it before a mask is used. Labels go on from one product to the next; a seed is handed out once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::budget;
use super::kernel;
use super::masks::{Labels, Seed};
use super::product::{
    Dealer, Fault, Foreseen, Masks, RowDealer, RowShape, SeveralDealer, SeveralShape, Shape, Side, VectorDealer,
    VectorShape, WeightedDealer, WeightedShape,
};
use super::ring::{Elements, ROWS, Width};
use crate::id::{Digest, RunId};

/// Most elements of a table, and of a row block of one party: what fits into one message between parties.
pub const MOST_ELEMENTS: usize = 1 << 24;

/// Orders of one party that the other has not followed with its own yet: far beyond any protocol, so that nobody fills the memory.
const AHEAD: usize = 64;

/// What a party asks of the dealer. Both parties order the same, in the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The correction of a table of this shape.
    Table(Shape),
    /// Corrections of products within rows, for the party that the shape names.
    Rows(RowShape),
    /// The correction of a product of the last table's blocks with a shared vector.
    Vector(VectorShape),
    /// Corrections of a weighted table of the last table's blocks, row block by row block for both parties.
    Weighted(WeightedShape),
    /// Corrections of the tables of all pairs of several parties, for the one at a place, from 0.
    Several(SeveralShape, usize),
}

/// The dealer of one run, as a value.
pub struct Dealing {
    /// The parties' names, for sentences.
    names: Vec<String>,
    seeds: Vec<Seed>,
    labels: Labels,
    /// Whether the seeds are handed out.
    given: bool,
    /// Orders that the others have not given yet.
    waiting: Vec<VecDeque<Order>>,
    /// The table with whose blocks later products are made, and its masks.
    table: Option<(Shape, Arc<Masks>)>,
    /// Products with a vector that are still to be ordered.
    foreseen: Foreseen,
    /// Products within rows so far: corrections go to both sides in turn.
    rows: u64,
    /// What is to be done, in this order.
    steps: VecDeque<Step>,
}

/// What the dealer has to do.
pub enum Step {
    /// Hand the party at a place its seed; of two, the left one comes first.
    Seed(usize, [u8; 32]),
    /// Compute the correction of a table, for the right party.
    Table(Shape, Box<Dealer>),
    /// Compute the corrections of the tables of several parties, for all but the first.
    Several(SeveralShape, Box<SeveralDealer>),
    /// Compute what a later product needs, portion by portion.
    Product(Order, Box<Product>),
}

/// A product with a table's blocks, at work.
// A dealer has one of them at a time.
#[allow(clippy::large_enum_variant)]
pub enum Product {
    /// Products within rows.
    Rows(RowShape, RowDealer),
    /// A product with a shared vector.
    Vector(VectorDealer, Arc<Masks>),
    /// A weighted table.
    Weighted(WeightedShape, Box<WeightedDealer>, Arc<Masks>),
    /// All of it has gone out.
    Over,
}

/// What goes out next.
pub enum Portion {
    /// Nothing yet.
    Nothing,
    /// Corrections of row blocks from this one on, for the left and for the right party.
    Rows(u64, [Option<Elements>; 2]),
    /// The last correction of a product, for the right party.
    Last(Elements),
}

impl Product {
    /// Works on the next row blocks; none once the product is done.
    ///
    /// # Errors
    /// Never with masks of the agreed shape.
    pub fn step(&mut self) -> Result<Option<Portion>, Fault> {
        match std::mem::replace(self, Product::Over) {
            Product::Over => Ok(None),
            Product::Rows(shape, mut dealer) => {
                let (mut first, mut parts) = (None, Vec::new());
                while parts.len() < shape.batch() {
                    let Some(frame) = dealer.step()? else { break };
                    first.get_or_insert(frame.block);
                    parts.push(frame.entries);
                }
                let Some(first) = first else { return Ok(None) };
                *self = Product::Rows(shape, dealer);
                let entries = Some(concat(shape.width, &parts)?);
                let both = match shape.corrected {
                    Side::Left => [entries, None],
                    Side::Right => [None, entries],
                };
                Ok(Some(Portion::Rows(first, both)))
            }
            Product::Vector(mut dealer, masks) => {
                if !dealer.step(&masks) {
                    return dealer.finish().map(|last| Some(Portion::Last(last)));
                }
                *self = Product::Vector(dealer, masks);
                Ok(Some(Portion::Nothing))
            }
            Product::Weighted(shape, mut dealer, masks) => {
                let (mut first, mut parts) = (None, [Vec::new(), Vec::new()]);
                while parts[0].len() < shape.batch() {
                    let Some([left, right]) = dealer.step(&masks)? else { break };
                    first.get_or_insert(left.block);
                    parts[0].push(left.entries);
                    parts[1].push(right.entries);
                }
                let Some(first) = first else { return dealer.finish().map(|last| Some(Portion::Last(last))) };
                *self = Product::Weighted(shape, dealer, masks);
                let [left, right] = &parts;
                let both = [Some(concat(shape.width, left)?), Some(concat(shape.width, right)?)];
                Ok(Some(Portion::Rows(first, both)))
            }
        }
    }

    /// The party that hears nothing else at the end but that the product is done.
    pub fn silent(order: &Order) -> Side {
        match order {
            Order::Rows(shape) => shape.corrected.other(),
            Order::Table(_) | Order::Vector(_) | Order::Weighted(_) | Order::Several(..) => Side::Left,
        }
    }
}

fn concat(width: Width, parts: &[Elements]) -> Result<Elements, Fault> {
    Elements::concat(width, parts.iter()).map_err(|fault| Fault::Ring { what: "corrections", fault })
}

/// Why the dealer ends a run. Public sizes only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Rows that no fit can have.
    #[error("{who} ordered a table of {rows} rows, expected 1 to {}", budget::MOST_ROWS)]
    Rows {
        /// Who ordered.
        who: String,
        /// What was ordered.
        rows: usize,
    },
    /// A side without columns, or with too many.
    #[error(
        "{who} ordered a table of {left} x {right} columns, expected at least one on each side, and at most {MOST_ELEMENTS} elements \
         in the table and in a row block, a public column on each side included"
    )]
    Columns {
        /// Who ordered.
        who: String,
        /// Columns of the left block.
        left: usize,
        /// Columns of the right block.
        right: usize,
    },
    /// Other bits than those for which sums are proved to stay below half of the modulus.
    #[error("{who} ordered a table with {came} bits behind the binary point, expected {expected} for {rows} rows")]
    Bits {
        /// Who ordered.
        who: String,
        /// What was ordered.
        came: u32,
        /// What is proved.
        expected: u32,
        /// Rows of the table.
        rows: usize,
    },
    /// A product that does not fit the table, or for which nothing is proved.
    #[error("{who} ordered {what}")]
    Product {
        /// Who ordered.
        who: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// Another kind of product than the other party.
    #[error("{} and {} ordered products of different kinds", .names[0], .names[1])]
    Kinds {
        /// The two parties.
        names: [String; 2],
    },
    /// A number of parties for which there is no such product.
    #[error("{who} ordered {what} in a run of {parties} parties")]
    Parties {
        /// Who ordered.
        who: String,
        /// What was ordered.
        what: &'static str,
        /// Parties of the run.
        parties: usize,
    },
    /// Another ring than that of tables.
    #[error("{who} ordered a table of elements of {came} bytes, expected {}", Width::Two.bytes())]
    Width {
        /// Who ordered.
        who: String,
        /// Bytes of an element.
        came: usize,
    },
    /// More orders than the other party has followed.
    #[error("{who} ordered {AHEAD} products more than the other party")]
    Ahead {
        /// Who ordered.
        who: String,
    },
    /// Orders that stand in the same place and are not the same.
    #[error("{} and {} ordered different tables: {}", names[0], names[1], listed(differing))]
    Different {
        /// The left party and the right party.
        names: [String; 2],
        /// Each difference.
        differing: Vec<Difference>,
    },
}

/// A size in which two orders differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which size.
    pub what: String,
    /// What the left party ordered.
    pub left: usize,
    /// What the right party ordered.
    pub right: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} and {}", self.what, self.left, self.right)
    }
}

fn listed(differing: &[Difference]) -> String {
    differing.iter().map(Difference::to_string).collect::<Vec<_>>().join("; ")
}

impl Dealing {
    /// At the start of a run. `names` are those of the parties in order, of two the left one's first; the seeds are drawn for this run.
    pub fn new(names: Vec<String>, seeds: Vec<[u8; 32]>, study: Digest, run: RunId) -> Dealing {
        Dealing {
            waiting: names.iter().map(|_| VecDeque::new()).collect(),
            names,
            seeds: seeds.into_iter().map(Seed::new).collect(),
            labels: Labels::new(study, run),
            given: false,
            table: None,
            foreseen: Foreseen::default(),
            rows: 0,
            steps: VecDeque::new(),
        }
    }

    /// Takes the next order of the party at a place.
    ///
    /// # Errors
    /// The order is none that can be dealt, or not the same as the others'; the run must end.
    pub fn order(&mut self, place: usize, order: Order) -> Result<(), Refusal> {
        let who = self.name(place).to_owned();
        match &order {
            Order::Table(shape) => check(shape, &who)?,
            Order::Several(shape, of) => {
                check_several(shape, &who)?;
                if *of != place || shape.columns().len() != self.names.len() {
                    return Err(Refusal::Product { who, what: "tables of other parties" });
                }
            }
            Order::Rows(_) | Order::Vector(_) | Order::Weighted(_) => {}
        }
        let several = matches!(order, Order::Several(..));
        if !several && self.names.len() != 2 {
            let what = "a product of two";
            return Err(Refusal::Parties { who, what, parties: self.names.len() });
        }
        let Some(own) = self.waiting.get_mut(place) else {
            return Err(Refusal::Product { who, what: "something and is no party" });
        };
        if own.len() == AHEAD {
            return Err(Refusal::Ahead { who });
        }
        own.push_back(order);
        let fronts: Vec<Order> = self.waiting.iter().filter_map(|waiting| waiting.front().copied()).collect();
        if fronts.len() < self.waiting.len() {
            return Ok(());
        }
        let Some(first) = fronts.first().copied() else { return Ok(()) };
        if let Some((place, other)) = fronts.iter().enumerate().find(|(_, other)| !same(&first, other)) {
            return Err(self.differ(&first, (place, other)));
        }
        for waiting in &mut self.waiting {
            waiting.pop_front();
        }
        self.take(first, &who)
    }

    /// Takes an order that all parties have given.
    fn take(&mut self, order: Order, who: &str) -> Result<(), Refusal> {
        let refused = |what| Err(Refusal::Product { who: who.to_owned(), what });
        if matches!(order, Order::Table(_) | Order::Several(..)) && !std::mem::replace(&mut self.given, true) {
            let seeds = self.seeds.iter().enumerate();
            self.steps.extend(seeds.map(|(place, seed)| Step::Seed(place, *seed.bytes())));
        }
        if let Order::Several(shape, _) = order {
            let dealer = SeveralDealer::new(shape, &self.seeds, &mut self.labels);
            self.steps.push_back(Step::Several(shape, Box::new(dealer)));
            return Ok(());
        }
        let [first, second] = &self.seeds[..] else { return refused("a product of two among several") };
        let product = match (order, &self.table) {
            (Order::Several(..), _) => return refused("tables of several"),
            (Order::Table(shape), _) => {
                let dealer = Dealer::new(shape, first, second, &mut self.labels);
                self.table = Some((shape, dealer.masks()));
                self.foreseen.forget();
                self.steps.push_back(Step::Table(shape, Box::new(dealer)));
                return Ok(());
            }
            (Order::Rows(_) | Order::Vector(_) | Order::Weighted(_), None) => {
                return refused("a product before any table");
            }
            (Order::Rows(shape), Some((table, _))) => {
                let turn = if self.rows.is_multiple_of(2) { Side::Right } else { Side::Left };
                if let Some(what) = unfit_rows(&shape, table, turn) {
                    return refused(what);
                }
                self.rows += 1;
                Product::Rows(shape, RowDealer::new(shape, first, second, &mut self.labels))
            }
            (Order::Vector(shape), Some((table, masks))) => {
                let VectorShape { width, bits, rows, left, right } = shape;
                if !within(table, Shape { width, bits, rows, left, right }) {
                    return refused("a product with a vector that does not fit the table");
                }
                let dealer = self.foreseen.next(shape, first, second, &mut self.labels);
                Product::Vector(dealer, Arc::clone(masks))
            }
            (Order::Weighted(shape), Some((table, masks))) => {
                let WeightedShape { width, bits, rows, left, right } = shape;
                if !within(table, Shape { width, bits, rows, left, right }) {
                    return refused("a weighted table that does not fit the table");
                }
                let dealer = WeightedDealer::new(shape, first, second, &mut self.labels);
                Product::Weighted(shape, Box::new(dealer), Arc::clone(masks))
            }
        };
        self.steps.push_back(Step::Product(order, Box::new(product)));
        Ok(())
    }

    /// What is to be done next, each step once; none until both have ordered.
    pub fn step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// Whether all that was ordered has become a step, and each step was taken.
    pub fn is_done(&self) -> bool {
        self.steps.is_empty() && self.waiting.iter().all(VecDeque::is_empty)
    }

    fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("somebody", String::as_str)
    }

    /// How an order differs from that of the first party.
    fn differ(&self, left: &Order, (place, right): (usize, &Order)) -> Refusal {
        let of = |place| format!("columns of {}", self.name(place));
        let names = [0, place].map(|place| self.name(place).to_owned());
        let [left, right] = match [left, right] {
            [Order::Table(left), Order::Table(right)] => [*left, *right],
            [Order::Rows(left), Order::Rows(right)] => {
                let sizes = vec![
                    ("rows".to_owned(), left.rows, right.rows),
                    ("bits".to_owned(), left.bits as usize, right.bits as usize),
                    ("terms".to_owned(), left.terms, right.terms),
                ];
                return Refusal::Different { names, differing: named(sizes) };
            }
            [Order::Vector(left), Order::Vector(right)] => {
                [left, right].map(|VectorShape { width, bits, rows, left, right }| Shape {
                    width: *width,
                    bits: *bits,
                    rows: *rows,
                    left: *left,
                    right: *right,
                })
            }
            [Order::Weighted(left), Order::Weighted(right)] => {
                [left, right].map(|WeightedShape { width, bits, rows, left, right }| Shape {
                    width: *width,
                    bits: *bits,
                    rows: *rows,
                    left: *left,
                    right: *right,
                })
            }
            [Order::Several(left, _), Order::Several(right, _)] => {
                let mut differing = vec![
                    ("bytes an element".to_owned(), left.width.bytes(), right.width.bytes()),
                    ("bits".to_owned(), left.bits as usize, right.bits as usize),
                    ("rows".to_owned(), left.rows, right.rows),
                ];
                let columns = left.columns().iter().zip(right.columns()).enumerate();
                differing.extend(columns.map(|(place, (left, right))| (of(place), *left, *right)));
                return Refusal::Different { names, differing: named(differing) };
            }
            [Order::Table(_) | Order::Rows(_) | Order::Vector(_) | Order::Weighted(_) | Order::Several(..), _] => {
                return Refusal::Kinds { names };
            }
        };
        let sizes = vec![
            ("bytes an element".to_owned(), left.width.bytes(), right.width.bytes()),
            ("bits".to_owned(), left.bits as usize, right.bits as usize),
            ("rows".to_owned(), left.rows, right.rows),
            (of(0), left.left, right.left),
            (of(1), left.right, right.right),
        ];
        Refusal::Different { names, differing: named(sizes) }
    }
}

/// Sizes that differ.
fn named(sizes: Vec<(String, usize, usize)>) -> Vec<Difference> {
    let differing = sizes.into_iter().filter(|(_, left, right)| left != right);
    differing.map(|(what, left, right)| Difference { what, left, right }).collect()
}

/// Whether two parties have ordered the same, each for itself.
fn same(first: &Order, other: &Order) -> bool {
    match (first, other) {
        (Order::Several(first, _), Order::Several(other, _)) => first == other,
        (first, other) => first == other,
    }
}

/// The same as [`check`] for tables of several parties.
fn check_several(shape: &SeveralShape, who: &str) -> Result<(), Refusal> {
    let (parties, all) = (shape.columns().len(), shape.all());
    for (place, columns) in shape.columns().iter().enumerate() {
        // Where the sum of all is too large for a number, one of them is too large for a table.
        let others = all.saturating_sub(*columns).saturating_sub(parties);
        let left = if place == 0 { [*columns, others] } else { [others, *columns] };
        let SeveralShape { width, bits, rows, .. } = *shape;
        check(&Shape { width, bits, rows, left: left[0], right: left[1] }, who)?;
    }
    Ok(())
}

/// Refuses shapes for which nothing is proved, and those that would take more memory than a message may have.
fn check(shape: &Shape, who: &str) -> Result<(), Refusal> {
    let Shape { width, bits, rows, left, right } = *shape;
    let who = || who.to_owned();
    let Some(expected) = budget::gaussian(rows).filter(|_| rows > 0) else {
        return Err(Refusal::Rows { who: who(), rows });
    };
    // Before anything is multiplied without a check: the public columns stand behind the others.
    let fits = |a: usize, b: usize| a.checked_mul(b).is_some_and(|elements| elements <= MOST_ELEMENTS);
    let [a, b] = [left, right].map(|columns| columns.saturating_add(1));
    if left == 0 || right == 0 || !fits(a, b) || !fits(a.max(b), rows.min(ROWS)) {
        return Err(Refusal::Columns { who: who(), left, right });
    }
    // Whole numbers: the parties choose the ring by a bound of their products that is public.
    if bits == 0 {
        return Ok(());
    }
    match width {
        Width::Two => {}
        Width::One => return Err(Refusal::Width { who: who(), came: width.bytes() }),
    }
    // What is proved for some family.
    let others = [budget::binomial(rows).map(|bits| bits.columns), Some(budget::POISSON_COLUMNS)];
    if bits != expected && !others.contains(&Some(bits)) {
        return Err(Refusal::Bits { who: who(), came: bits, expected, rows });
    }
    Ok(())
}

/// Whether a product takes no more of a table's blocks than there is, in the ring of tables.
fn within(table: &Shape, product: Shape) -> bool {
    let Shape { width, bits, rows, left, right } = product;
    (width, bits, rows) == (table.width, table.bits, table.rows)
        && (1..=table.left).contains(&left)
        && (1..=table.right).contains(&right)
}

/// What is wrong with products within rows, if anything is; `turn` is the side whose turn it is to be corrected.
fn unfit_rows(shape: &RowShape, table: &Shape, turn: Side) -> Option<&'static str> {
    let RowShape { width, bits, rows, terms, corrected } = *shape;
    let proved = match budget::binomial(rows) {
        // Whole numbers: the parties choose the ring by a bound that is public, as for tables.
        _ if table.bits == 0 => bits == 0,
        Some(of) if table.bits == of.columns => [of.features, of.weights, of.losses].contains(&bits),
        Some(_) | None => table.bits == budget::POISSON_COLUMNS && budget::POISSON_FACTORS.contains(&bits),
    };
    let wrong = [
        ((width, rows) != (table.width, table.rows), "products of rows that are not those of the table"),
        (!proved, "products of rows with bits for which nothing is proved"),
        (
            !(1..=kernel::MOST_TERMS).contains(&terms),
            "products of rows with another number of terms than any kernel has",
        ),
        (corrected != turn, "corrections of rows out of turn"),
    ];
    wrong.into_iter().find(|(wrong, _)| *wrong).map(|(_, what)| what)
}
