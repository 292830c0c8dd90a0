//! Private fits by one table on shares, through the real masks, ledger, releases and noise, without the conversation.

use fedreg_common::id::{Digest, RunId};
use fedreg_common::methods::vertical::plan::{CrossFit, CrossPlan, CrossRelease, CrossTables, Side};
use fedreg_common::privacy::bounds::{ClippedOutcome, ClippedRows};
use fedreg_common::privacy::mechanism::LatticeVector;
use fedreg_common::privacy::mechanism::share::open_shares;
use fedreg_common::privacy::sampler::NoisePool;
use fedreg_common::secure::masks::{Labels, Seed};
use fedreg_common::secure::product::{self, Blocks, Dealer, Party, Shape, TableShare};

use super::private::{SimulatedLedger, SimulationError};

/// Both parties' shares of a table, computed by both and a dealer with these seeds.
///
/// # Errors
/// Blocks that do not have the shape.
pub(crate) fn table_shares(
    shape: Shape,
    left: &impl Blocks,
    right: &impl Blocks,
    seeds: [[u8; 32]; 2],
) -> Result<[TableShare; 2], SimulationError> {
    let labels = || Labels::new(Digest([1; 32]), RunId([2; 16]));
    let seeds = seeds.map(Seed::new);
    let mut alice = Party::new(shape, product::Side::Left, &seeds[0], &mut labels());
    let mut bob = Party::new(shape, product::Side::Right, &seeds[1], &mut labels());
    let mut dealer = Dealer::new(shape, &seeds[0], &seeds[1], &mut labels());
    while let (Some(e), Some(f)) = (alice.hide(left)?, bob.hide(right)?) {
        alice.take(&f, left)?;
        bob.take(&e, right)?;
        dealer.step();
    }
    let (alice, bob) = (alice.finish(None)?, bob.finish(Some(&dealer.finish()?))?);
    let (of_alice, of_bob) = (alice.canary().clone(), bob.canary().clone());
    Ok([alice.check(&of_bob)?, bob.check(&of_alice)?])
}

/// What opens of clipped rows, and the fit of it.
///
/// # Errors
/// Rows that are not of the plan, no randomness.
pub(crate) fn opened(
    plan: &CrossPlan,
    [alice, bob]: [&ClippedRows; 2],
    outcome: &ClippedOutcome,
    pool: &mut NoisePool,
) -> Result<CrossFit, SimulationError> {
    let tables = opened_tables(plan, [alice, bob], outcome, pool)?;
    plan.fit(&tables).ok_or(SimulationError::NoEstimate)
}

/// What opens of clipped rows.
///
/// # Errors
/// Rows that are not of the plan, no randomness.
pub(crate) fn opened_tables(
    plan: &CrossPlan,
    [alice, bob]: [&ClippedRows; 2],
    outcome: &ClippedOutcome,
    pool: &mut NoisePool,
) -> Result<CrossTables, SimulationError> {
    let shape = plan.shape();
    let blocks =
        [(Side::Alice, alice), (Side::Bob, bob)].map(|(side, rows)| (side, plan.block(side, rows.clone(), outcome)));
    let shares = table_shares(shape, &blocks[0].1, &blocks[1].1, [[11; 32], [12; 32]])?;
    let mut released: Vec<(Side, CrossRelease, LatticeVector)> = Vec::new();
    for ((side, block), share) in blocks.iter().zip(&shares) {
        let mut ledger = SimulatedLedger::reserved(&plan.side(*side).releases)?;
        for (index, release) in plan.side(*side).order().iter().enumerate() {
            let query = match plan.query(*side, *release, block.clipped(), outcome)? {
                Some(query) => query,
                None => plan.share(*side, share),
            };
            released.push((*side, *release, ledger.release(&query, index as u32, pool)?.lattice().clone()));
        }
    }
    let of = |side: Side, release: CrossRelease| {
        released.iter().find(|(of, what, _)| (*of, *what) == (side, release)).map(|(_, _, value)| value.clone())
    };
    let [Some(first), Some(second)] = [Side::Alice, Side::Bob].map(|side| of(side, CrossRelease::Share)) else {
        return Err(SimulationError::NoEstimate);
    };
    let table = open_shares([&first, &second], [shape.left, shape.right], shape.rows, plan.scale())?;
    let square = outcome.values().iter().map(|y| y * y).sum();
    plan.tables(of, &table, square).ok_or(SimulationError::NoEstimate)
}
