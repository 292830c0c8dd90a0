use nalgebra::DMatrix;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::tests::{audit, bounds, log_ratio, sound};
use super::*;
use crate::methods::vertical::plan::{CrossPlan, CrossRelease, CrossSetup, OutcomeAt, Side};
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::bounds::{ClippedOutcome, ClippedRows, OutcomeBounds};
use crate::privacy::ledger::Permit;
use crate::privacy::mechanism::{NoisedRelease, release};
use crate::research::crossprod::table_shares;
use crate::secure::product::Blocks;

fn plan(rows: usize, outcome: OutcomeAt, budget: f64) -> CrossPlan {
    CrossPlan::new(CrossSetup { rows, widths: vec![3, 2], outcome, ridge: 0.0, budget }).unwrap()
}

fn rows(width: usize, rows: usize, seed: u64) -> ClippedRows {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    ClippedRows::new(&bounds(width), &DMatrix::from_fn(rows, width, |_, _| random.random_range(-1.0..1.0)))
}

fn outcome(values: &[f64]) -> ClippedOutcome {
    ClippedOutcome::new(&OutcomeBounds::new(-1.0, 1.0).unwrap(), values)
}

fn permitted(plan: &CrossPlan, side: Side, index: usize, query: &Query, pool: &mut NoisePool) -> NoisedRelease {
    let planned = plan.side(side).releases.releases()[index].clone();
    release(query, Permit::unreserved("run", index as u32, planned), pool).unwrap().stored()
}

/// What opens is the exact table and the noise integers of both sides, bit by bit; in both rings, and over more than a row block.
#[test]
fn what_opens_less_the_exact_table_is_the_noise_of_both() {
    for (count, at, budget, words) in [
        (2100, OutcomeAt::Both, 1.0, Width::One),
        (50, OutcomeAt::Alice, 1.0, Width::One),
        (2100, OutcomeAt::Alice, 1e14, Width::Two),
    ] {
        let plan = plan(count, at, budget);
        let shape = plan.shape();
        assert_eq!(shape.width, words);
        let y: Vec<f64> = (0..count).map(|row| ((row * 7919) % 1009) as f64 / 504.5 - 1.0).collect();
        let y = outcome(&y);
        let blocks = [plan.block(Side::Alice, rows(3, count, 1), &y), plan.block(Side::Bob, rows(2, count, 2), &y)];
        let shares = table_shares(shape, &blocks[0], &blocks[1], [[3; 32], [4; 32]]).unwrap();
        let sides = [Side::Alice, Side::Bob];
        let released = [0, 1].map(|at| {
            let side = sides[at];
            let index = plan.side(side).order().iter().position(|release| *release == CrossRelease::Share).unwrap();
            permitted(&plan, side, index, &plan.share(side, &shares[at]), &mut NoisePool::seeded(70 + at as u64))
        });
        // The exact table in integers of another kind.
        let columns = blocks.each_ref().map(|block| {
            let mut out = Vec::new();
            block.fill(0..count, &mut out);
            out.chunks(count).map(|column| column.iter().map(|x| *x as i128).collect()).collect::<Vec<Vec<i128>>>()
        });
        let noise = [70, 71].map(|seed| NoisePool::seeded(seed).take(shape.opened()).unwrap());
        let opened = {
            let mut sum = Elements::zeros(shape.width, shape.opened());
            for made in &released {
                let words = made.lattice().integers().iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
                sum.add(&Elements::from_bytes(shape.width, shape.opened(), &words).unwrap()).unwrap();
            }
            sum.to_integers()
        };
        for (entry, opened) in opened.iter().enumerate() {
            let (left, right) = (&columns[0][entry % shape.left], &columns[1][entry / shape.left]);
            let exact: i128 = left.iter().zip(right).map(|(a, b)| a * b).sum();
            assert_eq!(opened - exact, i128::from(noise[0][entry]) + i128::from(noise[1][entry]), "entry {entry}");
        }
        let values =
            open_shares([released[0].lattice(), released[1].lattice()], [shape.left, shape.right], count, plan.scale());
        let expected = opened.iter().map(|value| *value as f64 * plan.scale().step());
        assert_eq!(values.unwrap(), DMatrix::from_iterator(shape.left, shape.right, expected));
        assert!(released[0].receipt().mu <= plan.side(Side::Alice).releases.releases()[2].mu);
        // The noise has the standard deviation that is claimed: 6 entries or more, so a wide margin.
        let spread = noise[0].iter().map(|k| (*k as f64 * plan.scale().step()).powi(2)).sum::<f64>();
        let spread = (spread / noise[0].len() as f64).sqrt() / plan.scale().sigma();
        assert!((0.4..2.0).contains(&spread), "{spread}");
    }
}

#[test]
fn a_share_that_does_not_fit_is_refused() {
    let plan = plan(40, OutcomeAt::Both, 1.0);
    let (shape, y) = (plan.shape(), outcome(&[0.5; 40]));
    let blocks = [plan.block(Side::Alice, rows(3, 40, 1), &y), plan.block(Side::Bob, rows(2, 40, 2), &y)];
    let shares = table_shares(shape, &blocks[0], &blocks[1], [[3; 32], [4; 32]]).unwrap();
    let mut pool = NoisePool::seeded(1);
    let made = [0, 1].map(|at| {
        let side = [Side::Alice, Side::Bob][at];
        permitted(&plan, side, 2, &plan.share(side, &shares[at]), &mut pool).lattice().clone()
    });
    let open = |first: &LatticeVector| open_shares([first, &made[1]], [shape.left, shape.right], 40, plan.scale());
    assert!(open(&made[0]).is_ok());
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = made[0].encode();
        change(&mut bytes);
        LatticeVector::decode(&bytes).unwrap()
    };
    assert!(matches!(open(&with(|bytes| bytes.truncate(16))), Err(ShareError::Lattice(LatticeError::Entries { .. }))));
    assert!(matches!(open(&with(|bytes| bytes[0] ^= 1)), Err(ShareError::Lattice(LatticeError::OtherStep { .. }))));
    assert!(matches!(open(&with(|bytes| bytes[15] |= 0x80)), Err(ShareError::Ring(RingError::Word))));
    // Residues that are in order and a value that is not: far from all that rows of norm one can give.
    let far = with(|bytes| bytes[8..16].copy_from_slice(&1_u64.to_le_bytes()));
    assert_eq!(open(&far), Err(ShareError::Bound));
    // A share of the budget that the noise does not keep buys nothing.
    let thin = PlannedRelease { label: "share".to_owned(), mu: plan.scale().mu(2.0).unwrap() * 0.999 };
    let refused = release(&plan.share(Side::Alice, &shares[0]), Permit::unreserved("run", 2, thin), &mut pool);
    assert!(matches!(refused, Err(ReleaseError::NoShare { .. })));
}

#[test]
fn the_factor_is_the_largest_that_keeps_the_budget_and_the_ring_holds_what_opens() {
    for mu in [0.0021, 0.01, 0.2681, 0.7191, 2.0004, 40.0] {
        for sensitivity in [2.0, 8f64.sqrt()] {
            let Some(scale) = ShareScale::within(sensitivity, mu) else {
                assert!(mu < sensitivity / 512.0, "{mu}");
                continue;
            };
            assert!(scale.mu(sensitivity).unwrap() <= mu);
            assert!(ShareScale { factor: scale.factor() + 1 }.mu(sensitivity).unwrap() > mu);
            assert!((scale.sigma() * scale.mu(sensitivity).unwrap() / sensitivity - 1.0).abs() < 1e-12);
            // Two thirds of the narrow ring are not passed, and where they would be the wide one is taken.
            for rows in [1, 10_000, 1 << 23, 1 << 30] {
                let most = ((rows as u128 * u128::from(scale.factor())) << 30) + (1 << 47);
                assert!(most < scale.width(rows).modulus() / 2, "{mu} {rows}");
                assert_eq!(scale.width(rows) == Width::One, most < Width::One.modulus() / 2);
            }
        }
    }
}

/// The whole transcript of Alice against Bob, who knows his share, on the neighbours that pay most: opposite rows, and with a private outcome
/// orthogonal rows with opposite outcomes.
fn audit_crossprod(runs: u32, epsilons: &[f64], at: OutcomeAt, weaken: f64) -> Vec<bool> {
    let mut pool = NoisePool::new();
    let (x, z, y, v) = match at {
        OutcomeAt::Both => ([1.0, 0.0], [-1.0, 0.0], 1.0, 1.0),
        OutcomeAt::Alice => ([1.0, 0.0], [0.0, 1.0], 1.0, -1.0),
    };
    let row = |values: [f64; 2]| ClippedRows::new(&bounds(2), &DMatrix::from_row_slice(1, 2, &values));
    let judged = epsilons.iter().map(|&epsilon| {
        let mu = gaussian_mu(epsilon, 1e-5);
        let budget = (mu * weaken).powi(2);
        let setup = CrossSetup { rows: 1, widths: vec![2, 2], outcome: at, ridge: 0.0, budget };
        let plan = CrossPlan::new(setup).unwrap();
        let sides = [(row(x), outcome(&[y])), (row(z), outcome(&[v]))];
        let bob = plan.block(Side::Bob, row([1.0, 0.0]), &outcome(&[y]));
        let blocks = sides.each_ref().map(|(rows, y)| plan.block(Side::Alice, rows.clone(), y));
        let shares =
            blocks.each_ref().map(|block| table_shares(plan.shape(), block, &bob, [[5; 32], [6; 32]]).unwrap());
        // Bob's own share is the same for both neighbours up to what the masked rows tell him, which is nothing.
        let exact = shares.each_ref().map(|[alice, bob]| {
            let mut sum = alice.share().clone();
            sum.add(bob.share()).unwrap();
            sum.to_integers()
        });
        let ratio = |swapped: bool| {
            let me = usize::from(swapped);
            let mut total = 0.0;
            for (index, what) in plan.side(Side::Alice).order().iter().enumerate() {
                let queries =
                    sides.each_ref().map(|(rows, outcome)| plan.query(Side::Alice, *what, rows, outcome).unwrap());
                if let [Some(first), Some(second)] = &queries {
                    let made = permitted(&plan, Side::Alice, index, [first, second][me], &mut pool);
                    total += log_ratio(made.lattice(), first, second);
                    continue;
                }
                let made = permitted(&plan, Side::Alice, index, &plan.share(Side::Alice, &shares[me][0]), &mut pool);
                let words: Vec<u8> = made.lattice().integers().iter().flat_map(|word| word.to_le_bytes()).collect();
                let mut seen = Elements::from_bytes(plan.shape().width, plan.shape().opened(), &words).unwrap();
                seen.add(shares[me][1].share()).unwrap();
                for (k, (a, b)) in seen.to_integers().iter().zip(exact[0].iter().zip(&exact[1])) {
                    total += ((b - a) as f64) * ((k - a) as f64 + (k - b) as f64) / 2.0 / (SCALE as f64).powi(2);
                }
            }
            total
        };
        let (low, high) = audit(runs, ratio);
        println!("epsilon {epsilon}, outcome at {at:?}: mu between {low:.4} and {high:.4}, claimed {mu:.4}");
        sound(low, high, 0.97 * mu, mu)
    });
    judged.collect()
}

#[test]
fn an_audit_finds_the_transcript_sound_and_sees_noise_that_is_too_small() {
    for at in [OutcomeAt::Both, OutcomeAt::Alice] {
        assert_eq!(audit_crossprod(8_000, &[10.0], at, 1.0), [true], "{at:?}");
        assert_eq!(audit_crossprod(8_000, &[10.0], at, std::f64::consts::SQRT_2), [false], "{at:?}");
    }
}

#[test]
#[ignore = "100 000 runs a side"]
fn an_audit_in_full() {
    for at in [OutcomeAt::Both, OutcomeAt::Alice] {
        assert_eq!(audit_crossprod(100_000, &[1.0, 3.0, 10.0], at, 1.0), [true; 3]);
        assert_eq!(audit_crossprod(100_000, &[1.0, 3.0, 10.0], at, std::f64::consts::SQRT_2), [false; 3]);
    }
}
