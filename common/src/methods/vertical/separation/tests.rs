use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;
use crate::methods::vertical::block::Outcome;

/// What is found for rows whose side is the positive one.
fn found(rows: &[DVector<f64>]) -> Option<DVector<f64>> {
    let k = rows[0].len();
    let columns: Vec<Vec<f64>> = (0..k).map(|j| rows.iter().map(|row| row[j]).collect()).collect();
    let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let sided: Vec<(usize, f64)> = (0..rows.len()).map(|row| (row, 1.0)).collect();
    Moves::new(&sided, &columns, &DMatrix::identity(k, k)).recession()
}

fn normal(k: usize, rng: &mut ChaCha8Rng) -> DVector<f64> {
    DVector::from_fn(k, |_, _| rng.sample::<f64, _>(StandardNormal))
}

/// Rows that a hidden direction moves by so little at least, and a share of them not at all.
fn with_direction(k: usize, n: usize, least: f64, still: f64, rng: &mut ChaCha8Rng) -> Vec<DVector<f64>> {
    let hidden = normal(k, rng).normalize();
    let row = |at: usize| {
        let row = normal(k, rng);
        let across = &row - &hidden * row.dot(&hidden);
        let along = if at > 0 && rng.random_bool(still) { 0.0 } else { least + 0.1 * least * rng.random::<f64>() };
        across + &hidden * along
    };
    (0..n).map(row).collect()
}

#[test]
fn a_direction_is_found_however_narrow_the_cone_of_directions_is() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for k in [1, 2, 3, 7, 20, 40] {
        for (least, still) in [(1.0, 0.0), (0.01, 0.0), (1e-4, 0.0), (1.0, 0.5), (0.01, 0.9)] {
            for n in [k + 1, 5 * k, 60 * k] {
                let rows = with_direction(k, n, least, still, &mut rng);
                let direction = found(&rows).unwrap_or_else(|| panic!("{k} columns, {n} rows, {least} {still}"));
                let moved: Vec<f64> = rows.iter().map(|row| row.dot(&direction) / row.norm()).collect();
                let (back, most) =
                    (moved.iter().copied().fold(0.0, f64::min), moved.iter().copied().fold(0.0, f64::max));
                assert!(most > 0.0 && -back <= 1e-7 * most, "{k} columns, {n} rows, {least} {still}: {back} {most}");
            }
        }
    }
}

#[test]
fn nothing_is_found_where_rows_with_positive_weights_sum_to_zero() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    for k in [1, 2, 3, 7, 20, 40] {
        for (least, still) in [(1.0, 0.0), (1e-4, 0.0), (1.0, 0.5)] {
            for n in [k + 1, 5 * k, 60 * k] {
                // The last row alone takes the direction away.
                let mut rows = with_direction(k, n, least, still, &mut rng);
                let sum = rows.iter().fold(DVector::zeros(k), |sum, row| sum - row * rng.random_range(0.1..1.0));
                rows.push(sum);
                assert!(found(&rows).is_none(), "{k} columns, {n} rows, {least} {still}");
            }
        }
    }
}

/// Whether these weights of the rows, as residuals towards their sides, prove that there is no direction.
fn proved(rows: &[DVector<f64>], weights: &[f64]) -> bool {
    let columns: Vec<Vec<f64>> = (0..rows[0].len()).map(|j| rows.iter().map(|row| row[j]).collect()).collect();
    let columns: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let (metric, kept) = Definite::from_gram_limited(&gram(&columns, &|_| 1.0)).expect("columns that are not zero");
    let columns: Vec<&[f64]> = kept.iter().map(|k| columns[*k]).collect();
    bounded(weights, &columns, &metric, 1.0)
}

#[test]
fn residuals_prove_that_there_is_no_direction_and_never_where_there_is_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for k in [1, 2, 3, 7, 20] {
        for (least, still) in [(1.0, 0.0), (0.01, 0.0), (1e-4, 0.0), (1e-4, 0.5), (0.01, 0.9)] {
            for n in [k + 1, 5 * k, 60 * k] {
                let mut rows = with_direction(k, n, least, still, &mut rng);
                // The weights between 1e-3 and 1 of which the sum of the rows is shortest: the strongest case for a proof.
                let mut weights: Vec<f64> = (0..n).map(|_| rng.random_range(0.1..1.0)).collect();
                let most: f64 = rows.iter().map(|row| row.norm_squared()).sum();
                for _ in 0..300 {
                    assert!(!proved(&rows, &weights), "{k} columns, {n} rows, {least} {still}");
                    let sum =
                        rows.iter().zip(&weights).fold(DVector::zeros(k), |sum, (row, weight)| sum + row * *weight);
                    for (row, weight) in rows.iter().zip(&mut weights) {
                        *weight = (*weight - row.dot(&sum) * 2.0 / most).clamp(1e-3, 1.0);
                    }
                }
                let mut weights: Vec<f64> = (0..n).map(|_| rng.random_range(0.1..1.0)).collect();
                rows.push(rows.iter().zip(&weights).fold(DVector::zeros(k), |sum, (row, weight)| sum - row * *weight));
                weights.push(1.0);
                assert!(proved(&rows, &weights), "{k} columns, {n} rows, {least} {still}");
                // Far from the point at which the sum is zero it is no proof.
                weights[0] += 100.0;
                assert!(!proved(&rows, &weights), "{k} columns, {n} rows, {least} {still}");
            }
        }
    }
}

#[test]
fn the_products_of_further_columns_are_those_of_all_columns_at_once() {
    let (mut rng, rows) = (ChaCha8Rng::seed_from_u64(8), 2 * BLOCK_ROWS + 77);
    let mut column = || (0..rows).map(|_| rng.sample::<f64, _>(StandardNormal)).collect::<Vec<f64>>();
    let (first, second) = (column(), column());
    let own = DMatrix::from_columns(&[DVector::from_vec(column()), DVector::from_vec(column())]);
    for weighted in [false, true] {
        let weights = weighted.then(|| (0..rows).map(|row| (row % 4) as f64).collect::<Vec<f64>>());
        let y = (0..rows).map(|row| (row % 3 / 2) as f64).collect();
        let outcome =
            Outcome { family: Family::Binomial, y, weights: weights.clone(), offset: None, hidden: None, spread: 1.0 };
        let block = Block::new(own.clone(), true, true, outcome);
        let further: [&[f64]; 2] = [&first, &second];
        let columns: Vec<&[f64]> = (0..block.columns()).map(|j| block.column(j)).chain(further).collect();
        let all = gram(&columns, &|row| weights.as_ref().map_or(1.0, |weights| weights[row]));
        assert!((gram_with(&block, &further) - &all).amax() <= 1e-12 * all.amax(), "weights: {weighted}");
        assert!(
            (gram_with(&block, &[]) - all.view((0, 0), (block.columns(), block.columns()))).amax()
                <= 1e-12 * all.amax()
        );
    }
}
