//! Whole gaussian fits by three roles, against the vectors that plain meets.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;

use crate::glm::Family;
use crate::id::{Digest, RunId};
use crate::methods::vertical::block::{Block, Outcome};
use crate::secure::basis::{Basis, BasisError, Own};
use crate::secure::budget;
use crate::secure::gaussian::{Answer, Reduction, Solution, Table};
use crate::secure::masks::{Labels, Seed};
use crate::secure::product::{Blocks, Dealer, Party, Shape, Side};
use crate::secure::ring::Width;

/// One line of a coefficient table.
struct Row {
    term: String,
    estimate: Option<f64>,
    std_error: Option<f64>,
}

/// What a fit yields.
struct Fit {
    rows: Vec<Row>,
    deviance: f64,
    null_deviance: f64,
}

/// Opens the table of two bases: what passes between the roles is a value at every step.
fn open(alice: &impl Blocks, bob: &impl Blocks) -> DMatrix<f64> {
    let (rows, left, right) = (alice.rows(), alice.columns(), bob.columns());
    let shape = Shape { width: Width::Two, bits: budget::gaussian(rows).unwrap(), rows, left, right };
    // The dealer draws two seeds and sends each party its own.
    let seeds = || [Seed::new([11; 32]), Seed::new([12; 32])];
    let labels = || Labels::new(Digest([1; 32]), RunId([2; 16]));
    let mut at_alice = Party::new(shape, Side::Left, &seeds()[0], &mut labels());
    let mut at_bob = Party::new(shape, Side::Right, &seeds()[1], &mut labels());
    // Row blocks go both ways.
    while let (Some(e), Some(f)) = (at_alice.hide(alice).unwrap(), at_bob.hide(bob).unwrap()) {
        at_bob.take(&e, bob).unwrap();
        at_alice.take(&f, alice).unwrap();
    }
    // The dealer needs the shape only.
    let mut dealer = Dealer::new(shape, &seeds()[0], &seeds()[1], &mut labels());
    while dealer.step() {}
    let correction = dealer.finish().unwrap();
    let at_alice = at_alice.finish(None).unwrap();
    let at_bob = at_bob.finish(Some(&correction)).unwrap();
    // The canaries first, and then Bob's share to the leader.
    let to_bob = at_alice.canary().clone();
    let at_alice = at_alice.check(at_bob.canary()).unwrap();
    let at_bob = at_bob.check(&to_bob).unwrap();
    at_alice.open(at_bob.share()).unwrap().mean()
}

/// The joint fit, at Alice; Bob's factor and the columns that became `NA`.
fn joint(alice: &Own, bob: &Own, opened: &DMatrix<f64>) -> (Solution, DMatrix<f64>, Vec<usize>) {
    let outcome = alice.outcome.as_ref().unwrap();
    let table = Table::new(opened, 1e-10).unwrap();
    if !table.dependent() {
        return (table.solve(outcome).unwrap(), bob.factor.clone(), Vec::new());
    }
    // Alice sends what her columns leave of Bob's, and Bob answers which of his stay.
    let reduction = Reduction::new(&table.left_over(), &bob.factor, 1e-10).unwrap();
    assert!(reduction.sound(bob.factor.ncols()));
    let solution = table.reduce(&reduction).unwrap().solve(outcome).unwrap();
    (solution, reduction.factor(&bob.factor), reduction.dropped)
}

struct Data {
    alice: (Vec<String>, DMatrix<f64>),
    bob: (Vec<String>, DMatrix<f64>),
    y: Vec<f64>,
    weights: Option<Vec<f64>>,
    offset: Option<Vec<f64>>,
    intercept: bool,
}

/// A fit as Alice and Bob would make it.
fn fit(data: &Data) -> Fit {
    let outcome = || Outcome {
        family: Family::Gaussian,
        y: data.y.clone(),
        weights: data.weights.clone(),
        offset: None,
        hidden: None,
        spread: 1.0,
    };
    let intercept = data.intercept;
    let blocks = [
        Block::new(data.alice.1.clone(), intercept, intercept, outcome()),
        Block::new(data.bob.1.clone(), false, intercept, outcome()),
    ];
    let first = usize::from(intercept);
    let weights = data.weights.as_deref();
    let target: Vec<f64> =
        data.y.iter().enumerate().map(|(i, y)| y - data.offset.as_ref().map_or(0.0, |offset| offset[i])).collect();
    let columns = blocks[0].columns();
    let alice = Basis::new(blocks[0].matrix(), first..columns, weights, Some(&target), intercept).unwrap();
    let bob = Basis::new(blocks[1].matrix(), 0..blocks[1].columns(), weights, None, intercept).unwrap();
    let (alice, bob, opened) = (alice.finish(), bob.finish(), open(&alice, &bob));
    let (solution, bob_factor, dropped) = joint(&alice, &bob, &opened);
    let bob_kept: Vec<usize> = (0..blocks[1].columns()).filter(|j| !dropped.contains(j)).collect();
    let alice_kept: Vec<usize> = (first..columns).collect();
    let means = |block: &Block, kept: &[usize]| {
        DVector::from_iterator(
            kept.len(),
            kept.iter().map(|j| block.scalings()[*j].centre / block.scalings()[*j].scale),
        )
    };
    let (at_alice, at_bob) = (means(&blocks[0], &alice_kept), means(&blocks[1], &bob_kept));
    // Message 5 and its answer.
    let answer: Answer = solution.answer(&alice.factor, &at_alice);
    let bobs = answer.means(&bob_factor, &at_bob);
    let (shift, variance) = solution.intercept(&alice.factor, &at_alice, bobs);
    let sum = weights.map_or(data.y.len() as f64, |weights| weights.iter().sum());
    let used = weights.map_or(data.y.len(), |weights| weights.iter().filter(|weight| **weight > 0.0).count());
    let df = used as f64 - (first + alice_kept.len() + bob_kept.len()) as f64;
    let dispersion = solution.residual * sum / df;
    let own = alice.outcome.as_ref().unwrap();
    let mut rows = Vec::new();
    if intercept {
        let estimate = Some(own.centre - shift - bobs.shift);
        rows.push(Row {
            term: "(Intercept)".to_string(),
            estimate,
            std_error: Some((dispersion * variance / sum).sqrt()),
        });
    }
    let mut add =
        |names: &[String], block: &Block, kept: &[usize], estimates: DVector<f64>, variances: DMatrix<f64>| {
            for (place, term) in names.iter().enumerate() {
                let at = kept.iter().position(|j| block.places()[*j] == Some(place));
                let scale = |at: usize| block.scalings()[kept[at]].scale;
                let std_error = |at: usize| (dispersion * variances[(at, at)] / sum).sqrt() / scale(at);
                let estimate = at.map(|at| estimates[at] / scale(at));
                rows.push(Row { term: term.clone(), estimate, std_error: at.map(std_error) });
            }
        };
    let part = &solution.alice;
    let mapped = (part.coefficients(&alice.factor), part.coefficient_covariance(&alice.factor));
    add(&data.alice.0, &blocks[0], &alice_kept, mapped.0, mapped.1);
    let mapped = (answer.part.coefficients(&bob_factor), answer.part.coefficient_covariance(&bob_factor));
    add(&data.bob.0, &blocks[1], &bob_kept, mapped.0, mapped.1);
    Fit { rows, deviance: solution.residual * sum, null_deviance: own.square * sum }
}

#[derive(Deserialize)]
struct Case {
    name: String,
    data: String,
    outcome: String,
    alice: Vec<String>,
    bob: Vec<String>,
    offset: Option<String>,
    weights: Option<String>,
    intercept: bool,
    coefficients: Vec<Expected>,
    deviance: Option<f64>,
    null_deviance: Option<f64>,
}

#[derive(Deserialize)]
struct Expected {
    term: String,
    estimate: Option<f64>,
    std_error: Option<f64>,
}

macro_rules! cases {
    ($($name:literal),*) => { [$(include_str!(concat!("../../../../tests/vectors/glm/gaussian_", $name, ".json"))),*] };
}

macro_rules! tables {
    ($($name:literal),*) => { [$(($name, include_str!(concat!("../../../../tests/vectors/data/", $name, ".csv")))),*] };
}

/// A column of numbers of one of the data files.
fn column(file: &str, name: &str) -> Vec<f64> {
    let known = tables!["longley", "wine_like", "unscaled", "small", "diabetes_extra"];
    let text = known.iter().find(|(stem, _)| file.ends_with(&format!("{stem}.csv"))).map(|(_, text)| *text);
    let text = text.unwrap_or(include_str!("../../../../examples/data/diabetes.csv"));
    let mut lines = text.lines();
    let at = lines.next().unwrap().split(',').position(|header| header.trim_matches('"') == name).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
}

fn data(case: &Case) -> Data {
    let columns = |names: &[String]| {
        let values: Vec<f64> = names.iter().flat_map(|name| column(&case.data, name)).collect();
        let rows = values.len() / names.len();
        (names.to_vec(), DMatrix::from_vec(rows, names.len(), values))
    };
    let one = |name: &Option<String>| name.as_ref().map(|name| column(&case.data, name));
    Data {
        alice: columns(&case.alice),
        bob: columns(&case.bob),
        y: column(&case.data, &case.outcome),
        weights: one(&case.weights),
        offset: one(&case.offset),
        intercept: case.intercept,
    }
}

fn compare(case: &Case, tol: f64, elementwise: bool) {
    let fit = fit(&data(case));
    assert_eq!(fit.rows.len(), case.coefficients.len());
    let mut worst = [0.0_f64; 4];
    for expected in &case.coefficients {
        let row = fit.rows.iter().find(|row| row.term == expected.term).unwrap();
        assert_eq!(row.estimate.is_some(), expected.estimate.is_some(), "{} {}", case.name, row.term);
        let (Some(estimate), Some(error)) = (expected.estimate, expected.std_error) else { continue };
        let unit = if elementwise { estimate.abs() } else { estimate.abs().max(error / 1000.0) };
        worst[0] = worst[0].max((row.estimate.unwrap() - estimate).abs() / unit);
        worst[1] = worst[1].max((row.std_error.unwrap() / error - 1.0).abs());
    }
    worst[2] = case.deviance.map_or(0.0, |deviance| (fit.deviance / deviance - 1.0).abs());
    worst[3] = case.null_deviance.map_or(0.0, |deviance| (fit.null_deviance / deviance - 1.0).abs());
    println!(
        "{}: estimates {:.1e}, errors {:.1e}, deviance {:.1e}, null {:.1e}",
        case.name, worst[0], worst[1], worst[2], worst[3]
    );
    assert!(worst.iter().all(|worst| *worst <= tol), "{}: {worst:?}", case.name);
}

#[test]
fn sealed_fits_reach_the_digits_of_the_vectors() {
    let files = cases![
        "diabetes",
        "diabetes_no_intercept",
        "diabetes_one_column_each",
        "diabetes_other_split",
        "offset",
        "offset_no_intercept",
        "small",
        "unscaled",
        "weights",
        "weights_offset",
        "weights_with_zeros",
        "wine_like",
        "collinear_across",
        "collinear_within_alice",
        "collinear_within_bob",
        "collinear_within_and_across",
        "duplicate_across",
        "constant_alice",
        "constant_bob"
    ];
    for file in files {
        compare(&serde_json::from_str(file).unwrap(), 1e-9, false);
    }
}

#[test]
fn longley_is_met_in_every_coefficient() {
    for file in cases!["longley", "longley_other_split", "longley_year_alone"] {
        compare(&serde_json::from_str(file).unwrap(), 1e-8, true);
    }
}

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| rng.random_range(-1.0..1.0))
}

fn simulated(alice: DMatrix<f64>, bob: DMatrix<f64>, y: Vec<f64>) -> Data {
    let names = |prefix: &str, x: &DMatrix<f64>| (0..x.ncols()).map(|j| format!("{prefix}{j}")).collect();
    let (of_alice, of_bob) = (names("a", &alice), names("b", &bob));
    Data { alice: (of_alice, alice), bob: (of_bob, bob), y, weights: None, offset: None, intercept: true }
}

#[test]
fn columns_that_depend_across_are_the_later_ones_and_the_rest_is_fitted() {
    let (a, mut b) = (random(400, 3, 1), random(400, 5, 2));
    let sum = a.column(0) * 2.0 - a.column(2) + b.column(0);
    b.set_column(2, &sum);
    let copy = a.column(1) * -1e4;
    b.set_column(3, &copy);
    let y: Vec<f64> =
        (a.column(0) + b.column(1) - b.column(4) * 3.0 + random(400, 1, 3).column(0)).iter().copied().collect();
    let with = fit(&simulated(a.clone(), b.clone(), y.clone()));
    let missing: Vec<&str> = with.rows.iter().filter(|row| row.estimate.is_none()).map(|row| &row.term[..]).collect();
    assert_eq!(missing, ["b2", "b3"]);
    let without = fit(&simulated(a, b.select_columns(&[0, 1, 4]), y));
    let present = with.rows.iter().filter(|row| row.estimate.is_some());
    for (row, expected) in present.zip(&without.rows) {
        assert!((row.estimate.unwrap() - expected.estimate.unwrap()).abs() <= 1e-10, "{}", row.term);
        assert!((row.std_error.unwrap() - expected.std_error.unwrap()).abs() <= 1e-10, "{}", row.term);
    }
    assert!((with.deviance / without.deviance - 1.0).abs() <= 1e-10);
}

#[test]
fn an_outcome_that_alices_columns_explain_leaves_nothing_to_bob() {
    let (a, b) = (random(300, 3, 1), random(300, 2, 2));
    let y: Vec<f64> = (a.column(0) * 2.0 - a.column(2)).iter().map(|y| y + 5.0).collect();
    let fit = fit(&simulated(a, b, y));
    let expected = [5.0, 2.0, 0.0, -1.0, 0.0, 0.0];
    for (row, expected) in fit.rows.iter().zip(expected) {
        assert!((row.estimate.unwrap() - expected).abs() <= 1e-12, "{}: {:?}", row.term, row.estimate);
    }
    assert_eq!(fit.deviance, 0.0);
}

#[test]
fn a_constant_outcome_has_slopes_of_zero() {
    let fit = fit(&simulated(random(300, 3, 1), random(300, 2, 2), vec![7.25; 300]));
    assert_eq!(fit.rows[0].estimate, Some(7.25));
    assert!(fit.rows[1..].iter().all(|row| row.estimate == Some(0.0)));
    assert_eq!((fit.deviance, fit.null_deviance), (0.0, 0.0));
}

/// A block with mean square 1 in every column, as [`Block`] makes it.
fn standard(mut x: DMatrix<f64>) -> DMatrix<f64> {
    for mut column in x.column_iter_mut() {
        let mean = column.mean();
        column.add_scalar_mut(-mean);
        let scale = (column.norm_squared() / column.len() as f64).sqrt();
        column.scale_mut(1.0 / scale);
    }
    x
}

#[test]
fn a_basis_is_orthonormal_to_the_last_digits_and_gives_the_columns_back() {
    for (columns, nearly) in [(1, 1.0), (6, 1.0), (6, 1e-4), (6, 1e-8), (40, 1.0)] {
        let mut x = random(2500, columns, 4);
        if columns > 4 {
            let near = x.column(0) - x.column(3) + x.column(4) * nearly;
            x.set_column(4, &near);
        }
        let x = standard(x);
        let y: Vec<f64> = random(2500, 1, 5).iter().copied().collect();
        let basis = Basis::new(&x, 0..columns, None, Some(&y), true).unwrap();
        let mut q = Vec::new();
        basis.fill(0..2500, &mut q);
        let q = DMatrix::from_vec(2500, columns + 1, q);
        let gram = q.tr_mul(&q) / 2500.0 - DMatrix::identity(columns + 1, columns + 1);
        assert!(gram.amax() <= 2e-14, "{columns} {nearly}: {}", gram.amax());
        assert!(q.amax() <= 50.0);
        let own = basis.finish();
        let back = q.columns(0, columns) * &own.factor - &x;
        assert!(back.amax() <= 1e-13, "{}", back.amax());
        // Any rows are the same bits as those rows of the whole.
        let mut part = Vec::new();
        basis.fill(2048..2500, &mut part);
        assert_eq!(DMatrix::from_vec(452, columns + 1, part), q.rows(2048, 452));
    }
}

#[test]
fn a_dependent_column_a_wrong_length_and_weights_without_a_sum_are_refused() {
    let mut x = random(200, 3, 6);
    let sum = x.column(0) + x.column(1);
    x.set_column(2, &sum);
    let x = standard(x);
    let refused = |weights: Option<&[f64]>, outcome: Option<&[f64]>| Basis::new(&x, 0..3, weights, outcome, true).err();
    assert_eq!(refused(None, None), Some(BasisError::Dependent(2)));
    assert_eq!(refused(Some(&[0.0; 200]), None), Some(BasisError::Weights));
    assert_eq!(refused(Some(&[f64::NAN; 200]), None), Some(BasisError::Weights));
    assert_eq!(refused(None, Some(&[0.0; 7])), Some(BasisError::Length { came: 7, expected: 200 }));
}

/// A direction between two columns vanishes, of neither of which so little is left beside the other.
#[test]
fn a_column_goes_where_a_direction_vanishes_that_no_pivot_shows() {
    let half = 0.5_f64.sqrt();
    let (along, beside) = (DVector::from_vec(vec![half, half]), DVector::from_vec(vec![half, -half]));
    for (left, goes) in [(0.9e-10, true), (1.1e-10, false)] {
        let left_over = &along * along.transpose() * left + &beside * beside.transpose();
        let reduction = Reduction::new(&left_over, &DMatrix::identity(2, 2), 1e-10);
        assert_eq!(reduction.as_ref().map(|of| of.dropped.clone()), goes.then(|| vec![1]));
        assert!(reduction.is_none_or(|of| of.sound(2)));
    }
}

#[test]
fn a_reduction_of_another_shape_is_not_sound() {
    let sound = Reduction { dropped: vec![1], map: DMatrix::identity(3, 2) };
    assert!(sound.sound(3) && !sound.sound(4) && !sound.sound(2));
    let with = |dropped: &[usize], map: DMatrix<f64>| Reduction { dropped: dropped.to_vec(), map }.sound(3);
    assert!(!with(&[3], DMatrix::identity(3, 2)));
    assert!(!with(&[2, 1], DMatrix::identity(3, 1)));
    assert!(!with(&[], DMatrix::identity(3, 3)));
    assert!(!with(&[1], DMatrix::identity(3, 2) * 2.0));
    assert!(!with(&[1], DMatrix::from_element(3, 2, f64::NAN)));
    assert!(with(&[0, 1, 2], DMatrix::zeros(3, 0)));
    // One entry alone.
    let mut one = DMatrix::identity(3, 2);
    one[(1, 1)] = f64::NAN;
    assert!(!with(&[1], one.clone()));
    let table = Table::new(&DMatrix::from_element(3, 2, f64::NAN), 1e-10).unwrap();
    assert!(table.dependent() && Table::new(&one, 1e-10).unwrap().dependent());
}
