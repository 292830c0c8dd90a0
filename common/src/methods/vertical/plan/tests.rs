use super::*;
use crate::privacy::accountant::gaussian_mu;
use crate::privacy::bounds::ColumnBounds;
use crate::privacy::ledger::Permit;
use crate::privacy::mechanism::release;
use crate::privacy::sampler::NoisePool;
use crate::research::private::TwoParties;
use crate::study::Mechanism;

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

fn comparison(repetitions: u64) {
    for (epsilon, largest) in [(1.0, 0.65), (3.0, 0.17), (10.0, 0.09)] {
        let plan = Plan::new(setup(10_000, epsilon, 1)).unwrap();
        let study = TwoParties::study(0.3, epsilon, 1).unwrap();
        let (mut errors, mut through, mut alone) = (vec![], vec![], vec![]);
        for seed in 0..repetitions {
            let data = data(10_000, 0.3, seed);
            errors.push(relative_error(&run(&plan, &data, 900 + seed, |_, _| {}), &data));
            through.push(data.error(&data.exchange_under_with(&study, &mut NoisePool::seeded(300 + seed)).unwrap()));
            alone.push(data.error(&data.alone().unwrap()));
        }
        let measured = median(errors);
        assert!(measured <= largest, "epsilon {epsilon}: {measured}");
        let (measured, alone) = (median(through), median(alone));
        let outlook = study.outlook(&study.private_plan(10_000).unwrap()).unwrap();
        println!(
            "epsilon {epsilon}: relative error {measured:.3}, predicted {:.3}; nothing exchanged {alone:.3}, predicted {:.3}",
            outlook.relative_error, outlook.relative_error_alone
        );
        let ratio = outlook.relative_error / measured;
        assert!((1.0 / 1.5..1.5).contains(&ratio), "epsilon {epsilon}: predicted {}", outlook.relative_error);
        assert!((outlook.relative_error_alone / alone - 1.0).abs() < 0.1, "{}", outlook.relative_error_alone);
        assert_eq!(outlook.better_alone, epsilon < 3.0);
        assert!(
            outlook.biased || epsilon < 10.0,
            "at epsilon 10 the rounds' own error is above a quarter of the noise"
        );
    }
}

/// Bounds of five columns a party, as in the simulation.
fn bounds() -> RowBounds {
    let columns = (0..5).map(|at| (format!("x{at}"), ColumnBounds::Centred { centre: 0.0, scale: 1.0 }));
    RowBounds::new(columns.collect(), Some(1.0), None).unwrap()
}

#[test]
fn a_prediction_for_random_signs_is_the_mean_over_all_of_them() {
    let (rows, plan) = (bounds(), Plan::new(setup(10_000, 3.0, 1)).unwrap());
    let predict =
        |coefficients: &Coefficients| plan.predict(&Design::new(&[&rows, &rows], 0.3, 4.0 / 9.0, coefficients));
    let random = predict(&Coefficients::Size(0.45));
    let (mut squares, mut alone, mut bias) = (0.0, 0.0, DVector::zeros(10));
    for signs in 0..1024u32 {
        let each = (0..10).map(|at| if signs >> at & 1 == 0 { 0.45 } else { -0.45 }).collect();
        let one = predict(&Coefficients::Each(each));
        squares += one.relative_error.powi(2) / 1024.0;
        alone += one.alone_error.powi(2) / 1024.0;
        bias += one.bias.map(|bias| bias * bias / 1024.0);
    }
    // The comparison is exact but for the share of a message that the cut keeps, which depends on the signs.
    assert!((random.alone_error / alone.sqrt() - 1.0).abs() < 1e-9, "{} {}", random.alone_error, alone.sqrt());
    assert!(
        (random.relative_error / squares.sqrt() - 1.0).abs() < 0.05,
        "{} {}",
        random.relative_error,
        squares.sqrt()
    );
    assert!(random.bias.iter().zip(&bias).all(|(ours, mean)| (ours / mean.sqrt() - 1.0).abs() < 0.15));
    assert_eq!(predict(&Coefficients::Signal(0.3)).relative_error, predict(&Coefficients::Size(0.45)).relative_error);
}

#[test]
fn a_prediction_does_not_depend_on_the_unit_of_a_column_or_on_an_intercept_that_nobody_asks_for() {
    let plan = |alice_width| Plan::new(Setup { alice_width, ..setup(10_000, 3.0, 1) }).unwrap();
    let columns = |scale: f64| -> Vec<(String, ColumnBounds)> {
        (0..5).map(|at| (format!("x{at}"), ColumnBounds::Centred { centre: 7.0, scale })).collect()
    };
    let rows = |scale: f64, radius: f64, intercept: Option<f64>| {
        RowBounds::new(columns(scale), Some(radius), intercept).unwrap()
    };
    let predict = |alice: &RowBounds, size: f64| {
        plan(alice.width()).predict(&Design::new(
            &[alice, &rows(1.0, alice.radius(), None)],
            0.3,
            4.0 / 9.0,
            &Coefficients::Size(size),
        ))
    };
    let plain = predict(&rows(1.0, 1.0, None), 0.45);
    assert_eq!(plain, predict(&rows(1000.0, 1.0, None), 0.45));
    // Rows twice as long of half the coefficients are the same unit rows.
    let longer = predict(&rows(1.0, 2.0, None), 0.225);
    assert!((longer.relative_error / plain.relative_error - 1.0).abs() < 1e-12);
    let centred = predict(&rows(1.0, 1.0, Some(0.1)), 0.45);
    assert_eq!((centred.bias[0], centred.noise[0]), (0.0, 0.0));
    assert!((centred.relative_error / plain.relative_error - 1.0).abs() < 0.1, "{}", centred.relative_error);
}

#[test]
fn few_rows_are_predicted_too() {
    for (rows, epsilon) in [(450, 3.0), (1_500, 1.0), (1_500, 10.0)] {
        let study = TwoParties::study(0.3, epsilon, 1).unwrap();
        let errors = (0..21).map(|seed| {
            let data = data(rows, 0.3, seed);
            data.error(&data.exchange_under_with(&study, &mut NoisePool::seeded(600 + seed)).unwrap())
        });
        let measured = median(errors.collect());
        let predicted = study.outlook(&study.private_plan(rows as u64).unwrap()).unwrap().relative_error;
        println!("{rows} rows, epsilon {epsilon}: {measured:.3}, predicted {predicted:.3}");
        assert!((0.6..1.7).contains(&(predicted / measured)), "{rows} {epsilon}: {measured} {predicted}");
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
        let made = release(&query, Permit::unreserved("run", index, planned), &mut pool).unwrap().unstored();
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
    assert!(matches!(Plan::new(Setup { bob_budget: 1e-30, ..sound }), Err(PlanError::NoBudget)));
    let data = data(50, 0.0, 1);
    assert!(matches!(
        Exchange::new(Plan::new(sound).unwrap(), Side::Alice, data.alice, data.outcome),
        Err(ExchangeError::Shape { expected: 100, got: 50, .. })
    ));
}

fn outlook(rows: usize, epsilon: f64, correlation: Option<f64>) -> Outlook {
    let bounds = bounds();
    let plan = Plan::new(setup(rows, epsilon, 1)).unwrap();
    Outlook::new(&PrivatePlan::Residual(plan), &[&bounds, &bounds], correlation, None, (None, None))
}

#[test]
fn independent_columns_are_correlated_in_a_sample_and_cost_who_exchanges_nothing() {
    let errors = (0..11).map(|seed| {
        let data = data(400, 0.0, seed);
        data.error(&data.alone().unwrap())
    });
    let (measured, predicted) = (median(errors.collect()), outlook(400, 1.0, Some(0.0)).relative_error_alone);
    println!("nothing exchanged, 400 rows: {measured:.3}, predicted {predicted:.3}");
    assert!((0.7..1.4).contains(&(predicted / measured)), "{measured} {predicted}");
}

#[test]
fn without_a_declared_correlation_several_are_shown_and_bias_is_not_ruled_out() {
    let large = outlook(10_000, 10.0, None);
    assert_eq!(large.cases.iter().map(|case| case.correlation).collect::<Vec<_>>(), [0.0, 0.3, 0.6]);
    assert!(!large.better_alone, "independent columns alone are no reason to exchange nothing");
    assert!(large.comparison().contains("from a correlation of about 0.05 on"), "{}", large.comparison());
    println!("biased from a correlation of {:?}, {:?}", large.biased_from_correlation, large.cases);
    assert!(large.biased && large.bias().unwrap().contains("cannot be ruled out"));
    let small = outlook(400, 1.0, None);
    assert!(small.better_alone && small.comparison().contains("even if any two columns have correlation 0.6"));
    assert!(small.cases.iter().all(|case| case.relative_error_alone > 0.05));
    // Of a run on shares figures above one half are called rough.
    let shares = Outlook { moved_by: MovedBy::Table, ..small.clone() };
    assert!(shares.cases.iter().any(|case| case.relative_error > 0.5), "{:?}", shares.cases);
    assert!(small.rough().is_none() && shares.rough().unwrap().starts_with("figures above 50 % are rough ones"));
    let known = Outlook { moved_by: MovedBy::Table, ..large };
    assert_eq!(known.rough().is_some(), known.cases.iter().any(|case| case.relative_error > 0.5));
    // Below epsilon 10 as well.
    assert!(outlook(100_000, 3.0, None).biased);
}

#[test]
fn a_declared_design_decides_alone_whether_bias_is_expected() {
    let independent = outlook(10_000, 10.0, Some(0.0));
    assert!(!independent.biased && independent.bias().unwrap().starts_with("the declared design rules out"));
    let correlated = outlook(10_000, 10.0, Some(0.3));
    assert!(correlated.biased && correlated.bias().unwrap().starts_with("warning: for the declared design"));
    assert!(!correlated.better_alone && correlated.cases.len() == 1);
    assert!(independent.better_alone && independent.comparison().starts_with("warning: for the declared design"));
    assert!(correlated.assumed.words[0].contains("0.3 (declared)"));
}

#[test]
fn the_ridge_is_added_in_full_and_raised_only_where_the_noise_needs_more() {
    let data = data(2_000, 0.3, 2);
    let solver = |ridge: f64| {
        let plan = Plan::new(Setup { ridge, ..setup(2_000, 3.0, 1) }).unwrap();
        let mut noised = None;
        run(&plan, &data, 6, |side, release| {
            if side == Side::Alice && release.receipt().label == "X'X" {
                noised = Some(release.lattice().clone());
            }
        });
        let lattice = noised.unwrap();
        let table = lattice.symmetric(5);
        let solver = Solver::new(&lattice, plan.side(Side::Alice), ridge).unwrap();
        let shift = solver.shifted[(0, 0)] - table[(0, 0)];
        let least = SymmetricEigen::new(table).eigenvalues.min();
        (shift, least, plan.side(Side::Alice).floor())
    };
    let (shift, least, floor) = solver(0.0);
    assert!(least > floor && shift == 0.0, "{shift} {least} {floor}");
    assert!((solver(25.0).0 - 25.0).abs() < 1e-9);
    // Thirty rows: the noised table has eigenvalues below zero.
    let plan = Plan::new(setup(30, 1.0, 1)).unwrap();
    let own = plan.side(Side::Alice);
    let lattice = LatticeVector::decode(&[1.0f64.to_le_bytes().to_vec(), vec![0; 15 * 8]].concat()).unwrap();
    assert!((Solver::new(&lattice, own, 0.0).unwrap().shifted[(0, 0)] - own.floor()).abs() < 1e-9);
    assert!((Solver::new(&lattice, own, 2.0 * own.floor()).unwrap().shifted[(0, 0)] - 2.0 * own.floor()).abs() < 1e-9);
}

/// The table of errors in docs/planning.md. Run by hand:
/// `cargo test --release -p fedreg-common errors_by_rows -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: 15 runs of each of 15 settings, the largest of 100 000 rows"]
fn errors_by_rows_and_epsilon() {
    for rows in [1_000, 3_000, 10_000, 30_000, 100_000] {
        for (epsilon, mechanism) in [1.0, 3.0, 10.0]
            .into_iter()
            .flat_map(|epsilon| [Mechanism::Residual, Mechanism::Crossprod].map(|by| (epsilon, by)))
        {
            let study = match mechanism {
                Mechanism::Residual => TwoParties::study(0.3, epsilon, 1),
                Mechanism::Crossprod => TwoParties::crossprod_study(0.3, epsilon, "both"),
            };
            let study = study.unwrap();
            let planned = study.outlook(&study.private_plan(rows as u64).unwrap()).unwrap();
            let runs = (0..15).map(|seed| {
                let data = TwoParties::draw(rows, 0.3, seed).unwrap();
                data.error(&data.exchange_under_with(&study, &mut NoisePool::seeded(seed)).unwrap())
            });
            let measured = median(runs.collect());
            println!(
                "{mechanism:?}, {rows} rows, epsilon {epsilon}: measured {:.1} %, planned {:.1} %, nothing exchanged {:.1} %",
                100.0 * measured,
                100.0 * planned.relative_error,
                100.0 * planned.relative_error_alone
            );
            // Where noise drowns all, what is planned to second order is too large.
            let sure = mechanism == Mechanism::Residual || measured < 0.5;
            let ratio = planned.relative_error / measured;
            assert!(!sure || (1.0 / 1.6..1.6).contains(&ratio), "{mechanism:?} {rows} {epsilon}: {measured}");
        }
    }
}
