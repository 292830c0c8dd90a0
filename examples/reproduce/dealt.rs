//! A sealed fit of two parties and a dealer in one process, with the bytes that pass.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::Context as _;
use fedreg_common::conversation::Opening;
use fedreg_common::data::Frame;
use fedreg_common::id::{Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Dealt, Message};
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::methods::vertical::sealed::SealedSession;
use fedreg_common::privacy::openings::OneRun;
use fedreg_common::secure::open::Limits;
use fedreg_common::secure::product::Side;
use fedreg_common::secure::ring::Elements;
use fedreg_common::session::Order;
use fedreg_common::sim::dealer::dealer;
use fedreg_common::sim::pair::{self, Faults};
use fedreg_common::study::{Study, Vertical};

const RUN: RunId = RunId([7; 16]);

/// No limit on what may open: reference data have few rows.
pub(crate) const UNLIMITED: Limits = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, opened_share: 1e6 };

/// Bytes of elements of the ring, without what carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bytes {
    pub(crate) from_alice: u64,
    pub(crate) from_bob: u64,
    /// To both together.
    pub(crate) from_dealer: u64,
}

/// How a fit went.
pub(crate) struct SealedFit {
    /// What Alice has: the coefficients of both.
    pub(crate) fit: VerticalFit,
    pub(crate) passed: Bytes,
    /// What either party ordered from the dealer.
    orders: Vec<Order>,
}

/// Runs a study over both parties' columns, Alice's first.
///
/// # Errors
/// What ends a run.
pub(crate) fn sealed(study: Study<Vertical>, frames: [Frame; 2], limits: Limits) -> anyhow::Result<SealedFit> {
    let study = Arc::new(study);
    let policy = Policy { limits, ..Policy::default() };
    let start = |role: Role, frame: Frame| -> anyhow::Result<SealedSession> {
        let prepared = Prepared::new(Arc::clone(&study), role, policy.clone(), frame)?;
        let opening = Opening {
            first: role == Role::Alice,
            run: RUN,
            seed: [1 + u8::from(role == Role::Bob); 32],
            peer: role.partner(),
        };
        Ok(SealedSession::new(prepared, opening, Box::new(OneRun)))
    };
    let [of_alice, of_bob] = frames;
    let (mut alice, mut bob) = (start(Role::Alice, of_alice)?, start(Role::Bob, of_bob)?);
    let passed = RefCell::new(Bytes::default());
    let mut orders = Vec::new();
    let mut deal = dealer(&study, RUN, |_, dealt| {
        if let Dealt::Correction(entries) | Dealt::Rows(_, entries) = dealt {
            passed.borrow_mut().from_dealer += size(entries);
        }
    });
    let ordered = |side: usize, order: Order| {
        orders.extend((side == 0).then_some(order));
        deal(side, order)
    };
    let observe = |side: usize, message: &Message| {
        let mut passed = passed.borrow_mut();
        let sum = if side == 0 { &mut passed.from_alice } else { &mut passed.from_bob };
        *sum += match &message.body {
            Body::Masked(masked) => size(&masked.entries),
            Body::Product(product) => size(&product.entries),
            Body::Share(share) => size(&share.canary) + share.table.as_ref().map_or(0, size),
            _ => 0,
        };
    };
    let ended = pair::run_dealt(&mut alice, &mut bob, Faults::NONE, observe, ordered);
    let mut fits = ended.results.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
    anyhow::ensure!(fits.len() == 2, "a party did not end");
    let passed = *passed.borrow();
    Ok(SealedFit { fit: fits.swap_remove(0), passed, orders })
}

fn size(entries: &Elements) -> u64 {
    (entries.count() * entries.width().bytes()) as u64
}

impl SealedFit {
    /// The bytes of the formulas: `16 p_k` a row each way for the table, `16 D` each way and 16 from the dealer for products within rows of
    /// `D - 1` terms with a shared vector after them, and for the weighted table `16 min(p)` one way and `16 p_k` from the dealer to each.
    /// Shares, canaries and tables, whose size does not grow with the rows, are left out.
    ///
    /// # Errors
    /// A run that ordered no table.
    pub(crate) fn predicted(&self) -> anyhow::Result<Bytes> {
        let table =
            self.orders.iter().find_map(|order| if let Order::Table(shape) = order { Some(shape) } else { None });
        let table = table.context("no table was ordered")?;
        let element = |rows: usize, columns: usize| 16 * rows as u64 * columns as u64;
        let mut bytes = Bytes {
            from_alice: element(table.rows, table.left),
            from_bob: element(table.rows, table.right),
            from_dealer: 0,
        };
        let mut both = 0;
        for order in &self.orders {
            match order {
                Order::Table(_) | Order::Several(..) => {}
                Order::Rows(shape) => {
                    both += element(shape.rows, shape.terms);
                    bytes.from_dealer += element(shape.rows, 1);
                }
                Order::Vector(shape) => both += element(shape.rows, 1),
                Order::Weighted(shape) => {
                    both += element(shape.rows, 1);
                    let smaller = element(shape.rows, shape.left.min(shape.right));
                    match shape.sender() {
                        Side::Left => bytes.from_alice += smaller,
                        Side::Right => bytes.from_bob += smaller,
                    }
                    bytes.from_dealer += element(shape.rows, shape.left + shape.right);
                }
            }
        }
        bytes.from_alice += both;
        bytes.from_bob += both;
        Ok(bytes)
    }

    /// The most terms of a kernel, those of its constant included.
    pub(crate) fn terms(&self) -> usize {
        let terms =
            self.orders.iter().filter_map(|order| if let Order::Rows(shape) = order { Some(shape) } else { None });
        terms.map(|shape| shape.terms + 1).max().unwrap_or(0)
    }
}
