//! What records of a stream may spend, and that the filter holds them to it.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::super::tests::{audit, permit, stream_messages};
use super::super::{Query, release};
use super::*;
use crate::privacy::accountant::{Accountant, gaussian_mu};

fn sequence(whole: (f64, f64), first: (f64, f64), exponents: (f64, f64), accountant: Accountant) -> Sequence {
    Sequence::new(Budget::new(whole.0, whole.1, accountant, 1, true).unwrap(), first, exponents, 50)
}

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    whole: (f64, f64),
    first: (f64, f64),
    exponents: (f64, f64),
    parts: Vec<(u64, u64, f64)>,
}

#[test]
fn what_a_record_costs_follows_from_its_place_as_fifty_digits_say() {
    let text = include_str!("../../../../../tests/vectors/privacy/budgets.json");
    let Vectors { cases } = serde_json::from_str(text).unwrap();
    for Case { whole, first, exponents, parts } in cases {
        let mut costs = Costs::new(Spending::Sequence(sequence(whole, first, exponents, Accountant::Zcdp)));
        for (place, last, part) in parts {
            assert_eq!(last_alike(place), last);
            let found = costs.of(place) as f64 / PARTS as f64;
            assert!((found / part - 1.0).abs() < 1e-9, "{first:?} {exponents:?} {place}: {found} {part}");
        }
    }
    // As many as are declared, one part each.
    let mut even = Costs::new(Spending::Even { records: 3 });
    assert_eq!((even.of(1), even.of(u64::MAX), even.spending().room()), (1, 1, 3));
}

#[test]
fn later_records_never_cost_more_and_nothing_leaves_where_the_budget_is_too_thin() {
    for accountant in [Accountant::Zcdp, Accountant::Exact] {
        let mut costs = Costs::new(Spending::Sequence(sequence((1.0, 1e-6), (1.0, 1e-6), (2.0, 0.5), accountant)));
        let mut before = PARTS;
        for place in (1..2000).chain((11..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            let cost = costs.of(place);
            assert!(cost <= before && last_alike(place) >= place, "{place}");
            before = cost;
        }
        assert_eq!((costs.of(1), before), (PARTS, 0));
        // The 95th may have mu = 3.98e-5 and the 100th 3.55e-5 by the first of them (fifty digits), where sqrt(100) 2^-18 = 3.81e-5 is needed.
        let end = (1..).find(|place| costs.of(*place) == 0).unwrap();
        assert!((96..=if accountant == Accountant::Zcdp { 100 } else { 110 }).contains(&end), "{end}");
    }
}

#[test]
fn no_choice_of_costs_brings_a_person_beyond_the_budget_and_what_fits_is_admitted() {
    let mut random = ChaCha8Rng::seed_from_u64(8);
    for room in [1, 3, 1000, PARTS] {
        for _ in 0..200 {
            let (mut spent, mut sum, mut admitted) = (0_u64, 0_u128, 0);
            for _ in 0..60 {
                // Chosen by what was spent before: what is left, one more, a share of it, nothing, everything.
                let left = room - spent;
                let cost = match random.random_range(0..6) {
                    0 => left,
                    1 => left.saturating_add(1),
                    2 => left / 2 + 1,
                    3 => 0,
                    4 => u64::MAX,
                    _ => random.random_range(0..=room),
                };
                let after = admit(spent, cost, room);
                assert_eq!(after.is_some(), cost > 0 && cost <= left, "{cost} of {left}");
                if let Some(after) = after {
                    sum += u128::from(cost);
                    admitted += 1;
                    spent = after;
                }
                assert_eq!((u128::from(spent), sum <= u128::from(room)), (sum, true));
            }
            assert!(admitted > 0);
        }
    }
}

/// The statistic of a transcript of records in places that `next` chooses by the statistic so far, with the filter or without it; and by how
/// many standard deviations of their noise the neighbours differ in it.
fn transcript(
    swapped: bool,
    (right, filtered): (&mut PerRecord, bool),
    (first, second): (&Query, &Query),
    pool: &mut NoisePool,
    mut next: impl FnMut(u32, f64) -> u64,
) -> [f64; 2] {
    let (mut ratio, mut power, mut spent) = (0.0, 0.0, 0);
    for turn in 0..12 {
        let place = next(turn, ratio);
        let after = admit(spent, right.costs.of(place), right.costs.spending().room());
        if filtered && after.is_none() {
            continue;
        }
        spent = after.unwrap_or(spent);
        let mut sent = NoisedRecords::default();
        right.add(place, if swapped { second } else { first }, pool, &mut sent).unwrap();
        let sigma = right.scale.unwrap().1;
        let values = |query: &Query| -> Vec<f64> {
            let step = sigma * STEP_PER_SIGMA;
            query.on_lattice(step).unwrap().into_iter().map(|k| k as f64 * step).collect()
        };
        for (v, (a, b)) in sent.values().iter().zip(values(first).into_iter().zip(values(second))) {
            ratio += (b - a) * ((v - a) + (v - b)) / 2.0 / (sigma * sigma);
            power += ((b - a) / sigma).powi(2);
        }
    }
    [ratio, power.sqrt()]
}

#[test]
fn records_of_one_person_with_budgets_of_their_own_together_cost_what_was_charged() {
    let (epsilon, delta) = (10.0, 1e-5);
    let mu = gaussian_mu(epsilon, delta);
    let (first, second) = stream_messages();
    let spending = Spending::Sequence(sequence((epsilon, delta), (epsilon, delta), (0.25, 0.0), Accountant::Exact));
    let mut pool = NoisePool::new();
    let charged = release(&first, permit(mu), &mut pool).unwrap().stored();
    let mut right = PerRecord::new(&charged, spending);
    let in_order = |turn: u32, _| u64::from(turn) + 2;
    // Dear records for as long as what left points one way, cheap ones otherwise.
    let by_what_left = |turn: u32, ratio: f64| if ratio > 0.0 { 400 + u64::from(turn) } else { 3 + u64::from(turn) };
    // With the limits of the audit what this pair of neighbours reveals where the records leave in a fixed order.
    let mut of = |filtered: bool, next: &dyn Fn(u32, f64) -> u64| {
        let mut power = 0.0;
        let limits = audit(3_000, |swapped| {
            let [ratio, of_pair] = transcript(swapped, (&mut right, filtered), (&first, &second), &mut pool, next);
            power = of_pair;
            ratio
        });
        (limits, power)
    };
    // In order the second, third and more are admitted until the sum of their parts is nearly the whole.
    let ((low, high), power) = of(true, &in_order);
    assert!(low <= power && power <= high, "{low} {power} {high}");
    assert!(power > 0.8 * mu && power <= mu, "{power} {mu}");
    let ((low, _), _) = of(true, &by_what_left);
    assert!(low <= mu, "{low} {mu}");
    // Without the filter all twelve leave, and cost more than was charged.
    let ((low, _), power) = of(false, &in_order);
    assert!(low > mu && low <= power, "{low} {power} {mu}");
}

#[test]
fn a_record_has_the_noise_of_its_place_and_zeros_where_nothing_may_leave() {
    let (first, _) = stream_messages();
    let mut pool = NoisePool::seeded(4);
    let mu = 0.2;
    let charged = release(&first, permit(mu), &mut pool).unwrap().stored();
    let whole = (1.0, 1e-6);
    let falling = sequence(whole, whole, (1.0, 0.0), Accountant::Zcdp);
    let mut right = PerRecord::new(&charged, Spending::Sequence(falling));
    let mut sigma = |place| {
        right.add(place, &first, &mut pool, &mut NoisedRecords::default()).unwrap();
        right.scale.unwrap().1
    };
    let (one, four) = (sigma(1), sigma(4));
    assert!((one / four - falling.part(4).sqrt()).abs() < 1e-9, "{one} {four}");
    let mut sent = NoisedRecords::default();
    right.add(u64::MAX, &first, &mut pool, &mut sent).unwrap();
    assert_eq!((sent.records(), sent.values()), (1, &[0.0; 4][..]));
    // An even share has the bits that it has always had.
    let mut even = PerRecord::new(&charged, Spending::Even { records: 7 });
    assert_eq!(even.share(9), Some(charged.receipt().mu / 7.0_f64.sqrt() * (1.0 - 1e-12)));
}
