//! Separated kernels, the descent, and whole binomial fits by three roles.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;

use super::vector::Roles;
use crate::glm::Family;
use crate::methods::vertical::block::{Block, Outcome};
use crate::secure::basis::{Basis, Own};
use crate::secure::budget;
use crate::secure::kernel::{self, CLASSES, Factors, Kernel, Part, Separated};
use crate::secure::optimiser::{Beside, Descent, Next};
use crate::secure::product::{Blocks, RowShape, Shape, Side, VectorShape};
use crate::secure::ring::{Elements, Width, row_blocks};

const KERNELS: [Kernel; 3] = [Kernel::Mean, Kernel::Weight, Kernel::Loss];

#[test]
fn every_kernel_of_the_table_reaches_its_error() {
    for kernel in KERNELS {
        for class in 0..CLASSES.len() {
            for digits in [3, 8, 10] {
                let separated = Separated::new(kernel, class, digits).unwrap();
                let error = separated.error();
                assert!(error <= 10f64.powi(-(digits as i32)), "{separated:?}: {error:e}");
            }
        }
        for digits in [2, 11] {
            assert_eq!(Separated::new(kernel, 0, digits), None);
        }
        assert_eq!(Separated::new(kernel, CLASSES.len(), 8), None);
    }
}

#[test]
fn kernels_are_exact_at_their_nodes_however_far_the_other_predictor_is() {
    for kernel in KERNELS {
        let separated = Separated::new(kernel, 9, 10).unwrap();
        let angle = |j: usize| (j as f64 + 0.5) / separated.terms as f64 * std::f64::consts::PI;
        let node = |j: usize| separated.range * (angle(j).cos() * separated.theta.sin()).asin() / separated.theta;
        let (s, t) = ([node(0), node(7)], [-1e4, -745.0, -40.0, -0.3, 0.0, 2.0, 37.0, 745.0, 1e4]);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        separated.polynomials(&s, &mut left);
        separated.functions(&t, &mut right);
        for (i, s) in s.iter().enumerate() {
            for (j, t) in t.iter().enumerate() {
                let sum: f64 = (0..separated.terms).map(|k| left[2 * k + i] * right[9 * k + j]).sum();
                let exact = kernel.at(s + t);
                assert!(
                    (sum - exact).abs() <= 1e-12 * exact.abs().max(1.0),
                    "{kernel:?} at {s} + {t}: {sum}, not {exact}"
                );
            }
        }
    }
}

#[test]
fn the_table_is_what_the_search_finds() {
    for (kernel, class, digits) in
        [(Kernel::Mean, 4, 8), (Kernel::Mean, 6, 6), (Kernel::Weight, 2, 9), (Kernel::Loss, 7, 4)]
    {
        let found = Separated::search(kernel, CLASSES[class], digits);
        assert_eq!(Separated::new(kernel, class, digits), Some(found));
    }
    // As the specification prints it.
    let terms =
        |class, digits| Separated::new(Kernel::Mean, class, digits).map(|separated| (separated.terms, separated.theta));
    assert_eq!(terms(4, 8), Some((14, 0.6)));
    assert_eq!(terms(9, 8), Some((39, 1.2)));
    assert_eq!(terms(12, 10), Some((88, 1.3)));
}

#[test]
#[ignore = "searches all of the table, minutes"]
fn all_of_the_table_is_what_the_search_finds() {
    for kernel in KERNELS {
        for class in 0..CLASSES.len() {
            for digits in 3..=10 {
                let found = Separated::search(kernel, CLASSES[class], digits);
                assert_eq!(Separated::new(kernel, class, digits), Some(found));
            }
        }
    }
}

#[test]
fn predictors_beyond_the_range_are_cut() {
    let separated = Separated::new(Kernel::Mean, 4, 8).unwrap();
    let (mut cut, mut end) = (Vec::new(), Vec::new());
    separated.polynomials(&[7.0, -1e9, f64::INFINITY], &mut cut);
    separated.polynomials(&[2.0, -2.0, 2.0], &mut end);
    assert_eq!(cut, end);
    assert_eq!((kernel::class(2.0), kernel::class(2.1), kernel::class(33.0)), (Some(4), Some(5), None));
    assert_eq!(kernel::class(f64::NAN), None);
}

/// Vectors of a row a value, made by row block.
fn predictor(basis: &impl Blocks, gamma: &[f64]) -> Vec<f64> {
    let mut eta = Vec::new();
    for range in row_blocks(basis.rows()) {
        let mut rows = Vec::new();
        basis.fill(range.clone(), &mut rows);
        let of = |i: usize| gamma.iter().enumerate().map(|(j, gamma)| gamma * rows[j * range.len() + i]).sum::<f64>();
        eta.extend((0..range.len()).map(of));
    }
    eta
}

/// A model with an intercept and nothing beside.
fn beside(score: &DVector<f64>) -> Beside {
    Beside { intercept: true, mean: score[0], offset: None }
}

struct Data {
    alice: Block,
    bob: Block,
    y: Vec<f64>,
}

/// A binomial fit: linear predictor at the column means, both parts, and evaluations of the gradient.
struct Fit {
    intercept: f64,
    gamma: [DVector<f64>; 2],
    own: [Own; 2],
    evaluations: u32,
}

fn fit(data: &Data) -> Fit {
    let columns = data.alice.columns();
    let alice = Basis::new(data.alice.matrix(), 1..columns, None, Some(&data.y), true).unwrap();
    let bob = Basis::new(data.bob.matrix(), 0..data.bob.columns(), None, None, true).unwrap();
    let (rows, left, right) = (data.y.len(), columns - 1, data.bob.columns());
    let bits = budget::binomial(rows).unwrap();
    let mut roles = Roles::new();
    let shape = Shape { width: Width::Two, bits: bits.columns, rows, left: left + 1, right };
    let table = roles.table(shape, &alice, &bob);
    let own = [alice.finish(), bob.finish()];
    let (joint, score) = moments(&own[0], &table.opened);
    let (mut descent, mut next) = Descent::new(Family::Binomial, joint, &score, beside(&score)).unwrap();
    let constant = DMatrix::from_element(rows, 1, 1.0);
    let (point, step) = loop {
        let (point, digits) = match next {
            Next::Evaluate { point, digits } => (point, digits),
            Next::Converged { point, step, .. } => break (point, step),
            Next::Exhausted { .. } => panic!("not converged after {} evaluations", descent.evaluations()),
        };
        let eta = [predictor(&alice, &point.as_slice()[1..=left]), predictor(&bob, &point.as_slice()[left + 1..])];
        let vector = residuals(&mut roles, &data.y, eta, point[0], digits, descent.evaluations());
        let shape = VectorShape { width: Width::Two, bits: bits.columns, rows, left, right };
        let opened = roles.product(shape, &table, &vector, &alice, &bob, &constant);
        let scale = 2f64.powi(-((bits.columns + 2 * bits.features) as i32)) / rows as f64;
        next = descent.next(DVector::from_iterator(opened.len(), opened.iter().map(|value| *value as f64 * scale)));
    };
    let point = point + step;
    let gamma = [point.rows(1, left).into_owned(), point.rows(left + 1, right).into_owned()];
    Fit { intercept: point[0], gamma, own, evaluations: descent.evaluations() }
}

/// The table of `1, Q_a, Q_b` and their products with the outcome, over the rows.
fn moments(alice: &Own, opened: &DMatrix<f64>) -> (DMatrix<f64>, DVector<f64>) {
    let outcome = alice.outcome.as_ref().unwrap();
    let (left, right) = (opened.nrows() - 1, opened.ncols());
    let cross = opened.rows(0, left).into_owned();
    let mut joint = DMatrix::identity(1 + left + right, 1 + left + right);
    joint.view_mut((1, 1 + left), (left, right)).copy_from(&cross);
    joint.view_mut((1 + left, 1), (right, left)).copy_from(&cross.transpose());
    let of_bob = cross.tr_mul(&outcome.along) + opened.row(left).transpose() * outcome.rest;
    let score = std::iter::once(outcome.centre).chain(outcome.along.iter().copied()).chain(of_bob.iter().copied());
    (joint, DVector::from_iterator(1 + left + right, score))
}

/// Shares of the mean minus the outcome, by row block. The side with the smaller class takes the polynomials.
fn residuals(
    roles: &mut Roles,
    y: &[f64],
    mut eta: [Vec<f64>; 2],
    intercept: f64,
    digits: u32,
    round: u32,
) -> [Vec<Elements>; 2] {
    let bits = budget::binomial(y.len()).unwrap().features;
    let classes = eta
        .each_ref()
        .map(|eta| kernel::class(eta.iter().fold(0.0_f64, |most, eta| most.max(eta.abs()))).unwrap_or(CLASSES.len()));
    let at_alice = classes[0] <= classes[1];
    let separated = Separated::new(Kernel::Mean, classes[0].min(classes[1]), digits).unwrap();
    eta[usize::from(at_alice)].iter_mut().for_each(|eta| *eta += intercept);
    let part = |polynomials| if polynomials { Part::Polynomials } else { Part::Functions };
    let factors =
        |side: usize| Factors { separated, part: part((side == 0) == at_alice), own: &eta[side], roots: None };
    let (f, g) = (factors(0), factors(1));
    let corrected = if round.is_multiple_of(2) { Side::Right } else { Side::Left };
    let shape = RowShape { width: Width::Two, bits, rows: y.len(), terms: separated.terms - 1, corrected };
    let mut shares = roles.rows(shape, &f, &g);
    for (block, range) in row_blocks(y.len()).enumerate() {
        let unit = Elements::from_integers(Width::Two, &vec![1_i128 << bits; range.len()]);
        let scaled = |values: &[f64]| {
            let mut scaled = Elements::fixed(Width::Two, values, bits).unwrap();
            scaled.multiply(&unit).unwrap();
            scaled
        };
        shares[0][block].add(&scaled(&f.constant(range.clone()))).unwrap();
        shares[1][block].add(&scaled(&g.constant(range.clone()))).unwrap();
        shares[0][block].subtract(&scaled(&y[range])).unwrap();
    }
    shares
}

fn block(x: DMatrix<f64>, y: &[f64], intercept: bool) -> Block {
    let (y, family) = (y.to_vec(), Family::Binomial);
    Block::new(x, intercept, true, Outcome { family, y, weights: None, offset: None, hidden: None, spread: 1.0 })
}

#[derive(Deserialize)]
struct Case {
    name: String,
    outcome: String,
    alice: Vec<String>,
    bob: Vec<String>,
    coefficients: Vec<Expected>,
}

#[derive(Deserialize)]
struct Expected {
    term: String,
    estimate: f64,
    std_error: f64,
}

/// Coefficients as a list of terms and estimates on the original scale.
fn coefficients(case: &Case, data: &Data, fit: &Fit) -> Vec<(String, f64)> {
    let mut intercept = fit.intercept;
    let mut rows = Vec::new();
    for (side, (block, names)) in [(&data.alice, &case.alice), (&data.bob, &case.bob)].into_iter().enumerate() {
        let mut inner = fit.gamma[side].clone();
        assert!(fit.own[side].factor.solve_upper_triangular_mut(&mut inner));
        let scalings = &block.scalings()[block.columns() - inner.len()..];
        for ((name, inner), scaling) in names.iter().zip(inner.iter()).zip(scalings) {
            rows.push((name.clone(), inner / scaling.scale));
            intercept -= inner / scaling.scale * scaling.centre;
        }
    }
    rows.push(("(Intercept)".to_string(), intercept));
    rows
}

#[test]
fn sealed_binomial_fits_reach_the_digits_of_the_vectors_in_few_evaluations() {
    let cases = [
        (
            include_str!("../../../../tests/vectors/glm/binomial_unscaled.json"),
            include_str!("../../../../tests/vectors/data/unscaled.csv"),
        ),
        (
            include_str!("../../../../tests/vectors/glm/binomial_wine_like.json"),
            include_str!("../../../../tests/vectors/data/wine_like.csv"),
        ),
        (
            include_str!("../../../../tests/vectors/glm/binomial_steep.json"),
            include_str!("../../../../tests/vectors/data/steep.csv"),
        ),
    ];
    for (case, text) in cases {
        let case: Case = serde_json::from_str(case).unwrap();
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let column = |name: &String| -> Vec<f64> {
            let at = header.iter().position(|header| header == name).unwrap();
            text.lines().skip(1).map(|line| line.split(',').nth(at).unwrap().parse().unwrap()).collect()
        };
        let y = column(&case.outcome);
        let columns =
            |names: &[String]| DMatrix::from_vec(y.len(), names.len(), names.iter().flat_map(column).collect());
        let (alice, bob) = (block(columns(&case.alice), &y, true), block(columns(&case.bob), &y, false));
        let data = Data { alice, bob, y };
        let fit = fit(&data);
        let mut worst = 0.0_f64;
        for (term, estimate) in coefficients(&case, &data, &fit) {
            let expected = case.coefficients.iter().find(|row| row.term == term).unwrap();
            let unit = expected.estimate.abs().max(expected.std_error / 1000.0);
            worst = worst.max((estimate - expected.estimate).abs() / unit);
        }
        println!("{}: {} evaluations, {worst:.1e}", case.name, fit.evaluations);
        // Without the exact Hessian the last step is as good as the curvature.
        assert!(worst <= 1e-7, "{}: {worst:e}", case.name);
        assert!(fit.evaluations <= 22, "{}: {} evaluations", case.name, fit.evaluations);
    }
}

#[test]
fn a_basis_that_stands_in_place_of_its_columns_has_the_same_bits() {
    let rows = 4100;
    let y: Vec<f64> = (0..rows).map(|row| f64::from(row as u32 % 3)).collect();
    // Nearly dependent columns are divided by two factors.
    for lean in [0.0, 0.999_999] {
        let mut x = random(rows, 3, 4);
        let first = x.column(0).into_owned();
        x.column_mut(2).axpy(lean, &first, 1.0 - lean);
        let block = block(x, &y, false);
        let made = Basis::new(block.matrix().clone(), 0..3, None, Some(&y), true).unwrap();
        let mut stored = Basis::new(block.matrix().clone(), 0..3, None, Some(&y), true).unwrap();
        stored.store();
        for range in row_blocks(rows) {
            let [mut one, mut other] = [Vec::new(), Vec::new()];
            made.fill(range.clone(), &mut one);
            stored.fill(range, &mut other);
            assert_eq!(one, other);
        }
        assert_eq!(made.finish().factor, stored.finish().factor);
        let gamma = DVector::from_vec(vec![0.3, -0.2, 0.7]);
        let eta = predictor(&made, gamma.as_slice());
        for came in [made.predictor(&gamma), stored.predictor(&gamma)] {
            assert!(came.iter().zip(&eta).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| (0..12).map(|_| rng.random_range(-0.5..0.5)).sum())
}

/// A descent with gradients in f64: evaluations, and the gradient at the end.
fn descend(family: Family, x: &DMatrix<f64>, y: &DVector<f64>) -> (u32, f64) {
    let rows = x.nrows() as f64;
    let (joint, score) = (x.tr_mul(x) / rows, x.tr_mul(y) / rows);
    let (mut descent, mut next) = Descent::new(family, joint, &score, beside(&score)).unwrap();
    let gradient = |point: &DVector<f64>| x.tr_mul(&((x * point).map(|eta| family.mean(eta)) - y)) / rows;
    loop {
        match next {
            Next::Evaluate { point, .. } => next = descent.next(gradient(&point)),
            Next::Converged { point, step, .. } => {
                return (descent.evaluations(), descent.scaled(&gradient(&(point + step))));
            }
            Next::Exhausted { .. } => return (descent.evaluations(), f64::INFINITY),
        }
    }
}

/// A descent of a column at each party whose means have the error of the kernels of sealed fits.
fn descend_by_kernels(x: &DMatrix<f64>, y: &DVector<f64>) -> (u32, f64) {
    let rows = x.nrows() as f64;
    let (joint, score) = (x.tr_mul(x) / rows, x.tr_mul(y) / rows);
    let (mut descent, mut next) = Descent::new(Family::Binomial, joint, &score, beside(&score)).unwrap();
    let means = |point: &DVector<f64>, digits: u32| {
        let s = x.column(1) * point[1];
        let t = x.column(2).map(|value| value * point[2] + point[0]);
        let separated = Separated::new(Kernel::Mean, kernel::class(s.amax()).unwrap(), digits).unwrap();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        separated.polynomials(s.as_slice(), &mut left);
        separated.functions(t.as_slice(), &mut right);
        let rows = s.len();
        DVector::from_fn(rows, |i, _| {
            (0..separated.terms).map(|k| left[k * rows + i] * right[k * rows + i]).sum::<f64>()
        })
    };
    let exact = |point: &DVector<f64>| x.tr_mul(&((x * point).map(|eta| Family::Binomial.mean(eta)) - y)) / rows;
    loop {
        match next {
            Next::Evaluate { point, digits } => next = descent.next(x.tr_mul(&(means(&point, digits) - y)) / rows),
            Next::Converged { point, step, .. } => {
                return (descent.evaluations(), descent.scaled(&exact(&(point + step))));
            }
            Next::Exhausted { .. } => return (descent.evaluations(), f64::INFINITY),
        }
    }
}

/// Where hardly anything depends on the columns, the linear start is so near the maximum that the gradient is smaller there than the error of
/// the first kernel.
#[test]
fn a_start_that_is_nearer_than_its_kernel_can_tell_still_ends_at_the_maximum() {
    let mut counts = std::collections::BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in 0..400 {
        let rows = 60 + 11 * (seed as usize % 41);
        let mut x = random(rows, 3, 1000 + seed);
        for (at, mut column) in x.column_iter_mut().enumerate() {
            if at == 0 {
                column.fill(1.0);
            } else {
                let mean = column.mean();
                column.add_scalar_mut(-mean);
                let size = (column.norm_squared() / rows as f64).sqrt();
                column /= size;
            }
        }
        let effect = [0.0, 0.0, 0.2, 0.5][seed as usize % 4];
        let draw = random(rows, 1, 5000 + seed);
        let y = DVector::from_fn(rows, |i, _| f64::from(u8::from(draw[i] + effect * (x[(i, 1)] - x[(i, 2)]) > 0.0)));
        let (evaluations, gradient) = descend_by_kernels(&x, &y);
        *counts.entry(evaluations).or_insert(0) += 1;
        if !(gradient <= 1e-8 && evaluations <= 8) {
            wrong.push((seed, rows, evaluations, gradient));
        }
    }
    println!("{counts:?}");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_descent_of_normal_columns_needs_few_evaluations() {
    // Rows, family, size of the coefficients, constant, and evaluations. A poisson fit needs no further one for digits of a kernel.
    for (rows, family, slope, shift, most) in [
        (3000, Family::Binomial, 0.4, -0.3, 6),
        (3000, Family::Binomial, 0.5, -4.5, 8),
        (3000, Family::Binomial, 2.2, 0.0, 11),
        (3000, Family::Poisson, 0.2, 0.5, 6),
        (30_000, Family::Poisson, 0.1, 0.5, 4),
    ] {
        let mut x = random(rows, 11, 7);
        x.column_mut(0).fill(1.0);
        let eta = &x * DVector::from_fn(11, |j, _| if j == 0 { shift } else { slope * (j as f64).cos() });
        let draw = random(rows, 1, 8);
        let y = DVector::from_fn(rows, |i, _| {
            let mean = family.mean(eta[i]);
            match family {
                Family::Binomial => f64::from(u8::from(draw[i] * 0.9 < (mean / (1.0 - mean)).ln() / 1.7)),
                Family::Poisson | Family::Gaussian => (mean + draw[i] * mean.sqrt()).max(0.0).round(),
            }
        });
        let (evaluations, gradient) = descend(family, &x, &y);
        println!("{family} {slope} {shift}: {evaluations} evaluations, gradient {gradient:.1e}");
        assert!(gradient <= 1e-8 && evaluations <= most, "{family} {slope} {shift}: {evaluations}, {gradient:e}");
    }
}

#[test]
fn separated_classes_do_not_converge() {
    let mut x = random(300, 2, 9);
    x.column_mut(0).fill(1.0);
    let y = x.column(1).map(|x| f64::from(u8::from(x > 0.0)));
    let rows = x.nrows() as f64;
    let start = |y: &DVector<f64>| {
        let score = x.tr_mul(y) / rows;
        Descent::new(Family::Binomial, x.tr_mul(&x) / rows, &score, beside(&score))
    };
    let (mut descent, mut next) = start(&y).unwrap();
    let mut largest = 0.0_f64;
    while let Next::Evaluate { point, .. } = next {
        largest = (&x * &point).amax();
        let residuals = (&x * point).map(|eta| Family::Binomial.mean(eta)) - &y;
        next = descent.next(x.tr_mul(&residuals) / rows);
    }
    // The caller sees it by the range, which no class holds.
    assert!(kernel::class(largest).is_none(), "{largest}");
    let constant = DVector::from_element(300, 1.0);
    assert!(start(&constant).is_none());
}

/// A descent, its first point and the step that it tries from there with this gradient.
fn first_step(gradient: &DVector<f64>) -> (Descent, DVector<f64>, DVector<f64>) {
    let x = random(500, 2, 3).insert_column(0, 1.0);
    let y = DVector::from_fn(500, |row, _| f64::from(row % 3 == 0));
    let score = x.tr_mul(&y) / 500.0;
    let (mut descent, next) = Descent::new(Family::Binomial, x.tr_mul(&x) / 500.0, &score, beside(&score)).unwrap();
    let Next::Evaluate { point, .. } = next else { panic!("{next:?}") };
    let Next::Evaluate { point: tried, .. } = descent.next(gradient.clone()) else { panic!("no step") };
    let step = tried - &point;
    (descent, point, step)
}

#[test]
fn a_step_that_climbs_as_steeply_as_it_descended_is_halved_and_one_that_gains_is_kept() {
    let gradient = DVector::from_vec(vec![0.02, -0.01, 0.03]);
    let (mut descent, from, step) = first_step(&gradient);
    let Next::Evaluate { point, .. } = descent.next(-&gradient) else { panic!("no second step") };
    assert!((point - &from - 0.5 * &step).amax() < 1e-12, "the root of the slope lies half way");
    // Beyond the minimum with a small slope, but with a larger gradient than before: nothing is gained for sure.
    let (mut descent, from, step) = first_step(&gradient);
    let aside = {
        let mut aside = DVector::from_vec(vec![1.0, 0.0, 0.0]);
        aside -= &step * (step[0] / step.norm_squared());
        aside * 0.2 + &step * (0.25 * gradient.dot(&step).abs() / step.norm_squared())
    };
    assert!(aside.amax() > gradient.amax() && aside.dot(&step) > 0.0);
    let Next::Evaluate { point, .. } = descent.next(aside) else { panic!("no second step") };
    let share = (point - &from).norm() / step.norm();
    assert!((share - 0.8).abs() < 1e-9, "{share}");
    // A gradient that has become smaller is kept: the next point lies beyond this one.
    let (mut descent, from, step) = first_step(&gradient);
    let Next::Evaluate { point, .. } = descent.next(0.1 * &gradient) else { panic!("no second step") };
    assert!((&point - &from).dot(&step) > step.norm_squared());
}

#[test]
fn a_step_to_a_point_without_a_gradient_is_halved_and_a_first_point_moves_halfway_to_the_null_model() {
    let gradient = DVector::from_vec(vec![0.02, -0.01, 0.03]);
    let (mut descent, from, step) = first_step(&gradient);
    for share in [0.5, 0.25] {
        let Some(Next::Evaluate { point, .. }) = descent.refused() else { panic!("no shorter step") };
        assert!((point - &from - share * &step).amax() < 1e-12);
    }
    // The slope is judged over what is left of the step.
    let Next::Evaluate { point, .. } = descent.next(-&gradient) else { panic!("no step") };
    assert!((point - &from - 0.125 * &step).amax() < 1e-12);
    let x = random(500, 2, 3).insert_column(0, 1.0);
    let y = DVector::from_fn(500, |row, _| f64::from(row as u32 % 3));
    let score = x.tr_mul(&y) / 500.0;
    let (mut descent, next) = Descent::new(Family::Poisson, x.tr_mul(&x) / 500.0, &score, beside(&score)).unwrap();
    let Next::Evaluate { point: start, .. } = next else { panic!("{next:?}") };
    let null = DVector::from_vec(vec![score[0].ln(), 0.0, 0.0]);
    let Some(Next::Evaluate { point, .. }) = descent.refused() else { panic!("no other start") };
    assert!((point - 0.5 * (start + null)).amax() < 1e-12);
    let more = (2..100).take_while(|_| descent.refused().is_some()).count();
    assert_eq!(more, 23);
}

#[test]
fn a_gradient_of_another_length_or_without_a_number_ends_the_fit_where_it_was() {
    let gradient = DVector::from_vec(vec![0.02, -0.01, 0.03]);
    for spoiled in [DVector::zeros(2), DVector::from_vec(vec![0.0, f64::NAN, 0.0])] {
        let (mut descent, from, _) = first_step(&gradient);
        assert_eq!(descent.next(spoiled), Next::Exhausted { point: from });
    }
}
