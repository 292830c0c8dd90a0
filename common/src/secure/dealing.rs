//! The dealer's decisions in one run: which orders belong together, when each side gets its seed, and which product is computed next.
//!
//! Both parties order the same products in the same order. Nothing is handed out before both have ordered, so that parties that do not
//! agree learn it before a mask is used. Labels go on from one product to the next; a seed is handed out once.

use std::collections::VecDeque;
use std::fmt;

use super::budget;
use super::masks::{Labels, Seed};
use super::product::{Dealer, Shape, Side};
use super::ring::{ROWS, Width};
use crate::id::{Digest, RunId};

/// Most elements of a table, and of a row block of one party: what fits into one message between parties.
pub const MOST_ELEMENTS: usize = 1 << 24;

/// Orders of one party that the other has not followed with its own yet: far beyond any protocol, so that nobody fills the memory.
const AHEAD: usize = 64;

/// The dealer of one run, as a value.
pub struct Dealing {
    /// The parties' names, for sentences.
    names: [String; 2],
    seeds: [Seed; 2],
    labels: Labels,
    /// Whether the seeds are handed out.
    given: bool,
    /// Orders that the other party has not given yet.
    waiting: [VecDeque<Shape>; 2],
    /// What is to be done, in this order.
    steps: VecDeque<Step>,
}

/// What the dealer has to do.
pub enum Step {
    /// Hand a party its seed.
    Seed(Side, [u8; 32]),
    /// Compute the correction of a table, for the right party.
    Table(Shape, Box<Dealer>),
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
    /// At the start of a run. `names` are those of the left and the right party; the seeds are drawn for this run.
    pub fn new(names: [String; 2], seeds: [[u8; 32]; 2], study: Digest, run: RunId) -> Dealing {
        Dealing {
            names,
            seeds: seeds.map(Seed::new),
            labels: Labels::new(study, run),
            given: false,
            waiting: [VecDeque::new(), VecDeque::new()],
            steps: VecDeque::new(),
        }
    }

    /// Takes a party's next order of a table.
    ///
    /// # Errors
    /// The order is none that can be dealt, or not the same as the other party's; the run must end.
    pub fn order(&mut self, side: Side, shape: Shape) -> Result<(), Refusal> {
        let who = self.name(side).to_owned();
        check(&shape, &who)?;
        let own = &mut self.waiting[place(side)];
        if own.len() == AHEAD {
            return Err(Refusal::Ahead { who });
        }
        own.push_back(shape);
        let [Some(left), Some(right)] =
            [Side::Left, Side::Right].map(|side| self.waiting[place(side)].front().copied())
        else {
            return Ok(());
        };
        if left != right {
            return Err(Refusal::Different { names: self.names.clone(), differing: self.differences(&left, &right) });
        }
        for waiting in &mut self.waiting {
            waiting.pop_front();
        }
        let [first, second] = &self.seeds;
        if !std::mem::replace(&mut self.given, true) {
            let seeds = [(Side::Left, first), (Side::Right, second)];
            self.steps.extend(seeds.map(|(side, seed)| Step::Seed(side, *seed.bytes())));
        }
        let dealer = Dealer::new(left, first, second, &mut self.labels);
        self.steps.push_back(Step::Table(left, Box::new(dealer)));
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

    fn name(&self, side: Side) -> &str {
        &self.names[place(side)]
    }

    fn differences(&self, left: &Shape, right: &Shape) -> Vec<Difference> {
        let of = |side| format!("columns of {}", self.name(side));
        let sizes = [
            ("bytes an element".to_owned(), left.width.bytes(), right.width.bytes()),
            ("bits".to_owned(), left.bits as usize, right.bits as usize),
            ("rows".to_owned(), left.rows, right.rows),
            (of(Side::Left), left.left, right.left),
            (of(Side::Right), left.right, right.right),
        ];
        let differing = sizes.into_iter().filter(|(_, left, right)| left != right);
        differing.map(|(what, left, right)| Difference { what, left, right }).collect()
    }
}

fn place(side: Side) -> usize {
    match side {
        Side::Left => 0,
        Side::Right => 1,
    }
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
    if bits != expected {
        return Err(Refusal::Bits { who: who(), came: bits, expected, rows });
    }
    Ok(())
}
