use super::*;
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::mechanism::{Permit, release};
use crate::privacy::sampler::NoisePool;
use crate::privacy::simulate::{COEFFICIENTS, TwoParties};

fn data(rows: usize, correlation: f64, seed: u64) -> TwoParties {
    TwoParties::draw(rows, correlation, seed).unwrap()
}

fn setup(rows: usize, epsilon: f64, rounds: u32) -> Setup {
    let budget = gaussian_mu(epsilon, 1e-5).powi(2);
    Setup {
        rows,
        alice_width: 5,
        bob_width: 5,
        rounds,
        message_bound: 0.3,
        ridge: 0.0,
        shares: Shares::default(),
        alice_budget: budget,
        bob_budget: budget,
    }
}

fn run(plan: &Plan, data: &TwoParties, seed: u64, observe: impl FnMut(Side, &NoisedRelease)) -> [Estimate; 2] {
    data.exchange_with(plan, &mut NoisePool::seeded(seed), observe).unwrap()
}

fn relative_error(estimates: &[Estimate; 2], data: &TwoParties) -> f64 {
    let joined =
        DVector::from_iterator(10, estimates.iter().flat_map(|estimate| estimate.coefficients.iter().copied()));
    data.error(&joined)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn declared(correlation: f64) -> Design {
    let mut design = Design::equicorrelated(5, 5, correlation);
    design.coefficients = DVector::from_column_slice(&COEFFICIENTS);
    design
}

fn comparison(repetitions: u64) {
    for (epsilon, largest) in [(1.0, 0.65), (3.0, 0.17), (10.0, 0.09)] {
        let plan = Plan::new(setup(10_000, epsilon, 1)).unwrap();
        let errors = (0..repetitions)
            .map(|seed| {
                let data = data(10_000, 0.3, seed);
                relative_error(&run(&plan, &data, 900 + seed, |_, _| {}), &data)
            })
            .collect();
        let measured = median(errors);
        let predicted = plan.predict(&declared(0.3));
        println!(
            "epsilon {epsilon}: relative error {measured:.3}, predicted {:.3}, nothing exchanged {:.3}",
            predicted.relative_error, predicted.alone_error
        );
        assert!(measured <= largest, "epsilon {epsilon}: {measured}");
        let ratio = predicted.relative_error / measured;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "epsilon {epsilon}: predicted {}", predicted.relative_error);
        assert_eq!(predicted.better_alone(), epsilon < 3.0);
        assert!(
            predicted.biased() || epsilon < 10.0,
            "at epsilon 10 the rounds' own error is above a quarter of the noise"
        );
    }
}

#[test]
fn errors_reach_the_comparison_table_and_are_predicted_from_public_facts() {
    comparison(7);
}

#[test]
#[ignore = "41 repetitions"]
fn errors_reach_the_comparison_table_in_full() {
    comparison(41);
}

#[test]
fn a_plan_charges_its_budget_to_twelve_digits_and_never_more() {
    for epsilon in [0.1, 1.0, 3.0, 10.0] {
        for rounds in [1, 2, 5] {
            for shares in [Shares::default(), Shares { table: 0.3, score: 0.3, message: 0.4 }] {
                let setup = Setup { shares, ..setup(10_000, epsilon, rounds) };
                let plan = Plan::new(setup).unwrap();
                for side in [Side::Alice, Side::Bob] {
                    let charge = plan.side(side).releases.charge();
                    assert!(charge <= setup.alice_budget, "{charge} {}", setup.alice_budget);
                    assert!(charge >= setup.alice_budget * (1.0 - 1e-12), "{charge} {}", setup.alice_budget);
                }
            }
        }
    }
}

#[test]
fn releases_cost_what_was_planned_and_the_free_table_is_the_only_one_left_out() {
    let data = data(500, 0.3, 1);
    let setup = setup(500, 3.0, 2);
    let plan = Plan::new(setup).unwrap();
    let mut spent = [0.0, 0.0];
    let mut seen = [0u32, 0];
    run(&plan, &data, 5, |side, made| {
        let me = usize::from(side == Side::Bob);
        assert_eq!(made.receipt().index, seen[me]);
        seen[me] += 1;
        if made.receipt().label != "X'X" {
            spent[me] += made.receipt().mu.powi(2);
        }
    });
    for (me, side) in [Side::Alice, Side::Bob].into_iter().enumerate() {
        assert_eq!(seen[me] as usize, plan.side(side).releases.releases().len());
        assert!((spent[me] / plan.side(side).releases.charge() - 1.0).abs() < 1e-10);
    }
}

#[test]
fn without_much_noise_many_rounds_reach_the_pooled_fit() {
    let data = data(4_000, 0.3, 3);
    let wide = Setup { message_bound: 4.0, alice_budget: 1e8, bob_budget: 1e8, ..setup(4_000, 1.0, 40) };
    let estimates = run(&Plan::new(wide).unwrap(), &data, 1, |_, _| {});
    let error = relative_error(&estimates, &data);
    assert!(error < 1e-3, "{error}");
}

fn coverage(rows: usize, simulations: u64, epsilons: &[f64], slack: f64) {
    for &epsilon in epsilons {
        let plan = Plan::new(setup(rows, epsilon, 1)).unwrap();
        let mut hits = [0u32; 10];
        let mut pooled_hits = 0;
        for seed in 0..simulations {
            let data = data(rows, 0.3, 5_000 + seed);
            let target = data.target(1, 0.3).unwrap();
            let estimates = run(&plan, &data, seed, |_, _| {});
            for column in 0..10 {
                let estimate = &estimates[column / 5];
                let sd = estimate.covariance[(column % 5, column % 5)].sqrt();
                let value = estimate.coefficients[column % 5];
                hits[column] += u32::from((value - target[column]).abs() <= 1.959964 * sd);
                pooled_hits += u32::from((value - data.pooled[column]).abs() <= 1.959964 * sd);
            }
        }
        let shares = hits.map(|count| f64::from(count) / simulations as f64);
        let mean = shares.iter().sum::<f64>() / 10.0;
        println!(
            "epsilon {epsilon}: coverage of the stated target {mean:.3} (per coefficient {shares:.3?}), of the pooled coefficient {:.3}",
            f64::from(pooled_hits) / 10.0 / simulations as f64
        );
        let judged = if slack == 0.0 { shares.to_vec() } else { vec![mean] };
        for share in judged {
            assert!((0.92 - slack..=0.98 + slack).contains(&share), "epsilon {epsilon}: {share}");
        }
    }
}

/// 20 simulations of 10 coefficients; the bound is five standard errors of a proportion wider than the promise.
#[test]
fn intervals_cover_the_coefficients_of_the_same_rounds_without_noise() {
    coverage(10_000, 20, &[3.0], 0.05);
}

#[test]
#[ignore = "500 simulations"]
fn intervals_cover_in_full() {
    coverage(10_000, 500, &[1.0, 3.0, 10.0], 0.0);
}

#[test]
fn a_malicious_peer_is_cut_and_cannot_change_what_is_charged() {
    let data = data(300, 0.3, 9);
    let plan = Plan::new(setup(300, 1.0, 1)).unwrap();
    let mut bob = Exchange::new(plan.clone(), Side::Bob, data.bob.clone(), data.outcome.clone()).unwrap();
    let mut pool = NoisePool::seeded(4);
    let mut step = |bob: &mut Exchange| {
        let Need::Release { index, query, .. } = bob.need().unwrap() else { panic!("a release is next") };
        let planned = plan.side(Side::Bob).releases.releases()[index as usize].clone();
        let made = release(&query, Permit::new("run".to_owned(), index, planned), &mut pool).unwrap().stored();
        bob.supply(&made).unwrap();
        query.sensitivity()
    };
    step(&mut bob);
    let lattice = plan.side(Side::Alice).message_sigma / (1u64 << 40) as f64;
    let make = |entries: &[i64], step: f64| {
        let mut bytes = step.to_le_bytes().to_vec();
        entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.to_le_bytes()));
        LatticeVector::decode(&bytes).unwrap()
    };
    assert!(matches!(bob.receive(&make(&[0; 299], lattice)), Err(ExchangeError::Vector(LatticeError::Entries { .. }))));
    assert!(matches!(bob.receive(&make(&[0; 300], 1.0)), Err(ExchangeError::Vector(LatticeError::OtherStep { .. }))));
    bob.receive(&make(&[i64::MAX; 300], lattice)).unwrap();
    assert!(matches!(bob.receive(&make(&[0; 300], lattice)), Err(ExchangeError::Order { .. })));
    assert_eq!(step(&mut bob), 2.0 * plan.side(Side::Bob).residual_bound);
}

#[test]
fn plans_without_meaning_are_refused() {
    let sound = setup(100, 1.0, 1);
    for bad in [
        Setup { rows: 0, ..sound },
        Setup { rounds: 0, ..sound },
        Setup { message_bound: f64::NAN, ..sound },
        Setup { message_bound: -0.0, ..sound },
        Setup { alice_budget: f64::INFINITY, ..sound },
        Setup { bob_budget: 0.0, ..sound },
        Setup { ridge: -1.0, ..sound },
    ] {
        assert!(matches!(Plan::new(bad), Err(PlanError::Positive { .. })), "{bad:?}");
    }
    assert!(matches!(Plan::new(Setup { bob_budget: 1e-30, ..sound }), Err(PlanError::NoBudget { side: Side::Bob })));
    let data = data(50, 0.0, 1);
    assert!(matches!(
        Exchange::new(Plan::new(sound).unwrap(), Side::Alice, data.alice, data.outcome),
        Err(ExchangeError::Shape { expected: 100, got: 50, .. })
    ));
}

#[test]
fn declared_independence_says_that_nothing_need_be_exchanged() {
    let prediction = Plan::new(setup(10_000, 10.0, 1)).unwrap().predict(&Design::isotropic(5, 5));
    assert!(prediction.alone_error < 1e-12 && prediction.better_alone());
}
