use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn ranges(count: usize, intercept: Option<f64>) -> RowBounds {
    let columns = (0..count).map(|index| (format!("x{index}"), ColumnBounds::Range { low: -2.0, high: 6.0 })).collect();
    RowBounds::new(columns, None, intercept).unwrap()
}

const NASTY: [f64; 14] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    6.0,
    1e300,
    -1e300,
    f64::MAX,
    f64::MIN_POSITIVE,
    5e-324,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.1,
];

#[test]
fn rows_have_norm_at_most_one_whatever_comes() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    for intercept in [None, Some(0.5), Some(1e-9), Some(0.999_999)] {
        let columns = vec![
            ("a".to_owned(), ColumnBounds::Range { low: -2.0, high: 6.0 }),
            ("b".to_owned(), ColumnBounds::Centred { centre: 1e-300, scale: 1e-300 }),
            ("c".to_owned(), ColumnBounds::Centred { centre: 1e300, scale: 1e300 }),
            ("d".to_owned(), ColumnBounds::Indicator),
        ];
        let bounds = RowBounds::new(columns, Some(0.3), intercept).unwrap();
        let values = DMatrix::from_fn(3_000, 4, |_, _| *NASTY.choose(&mut random).unwrap());
        let rows = ClippedRows::new(&bounds, &values);
        for (row, entries) in rows.entries.chunks_exact(rows.width).enumerate() {
            let square: i64 = entries.iter().map(|&entry| i64::from(entry) * i64::from(entry)).sum();
            assert!(square <= UNIT * UNIT, "row {row}: {entries:?}");
            let sound = values.row(row).iter().all(|value| value.is_finite());
            assert_eq!(square == 0, !sound || square == 0, "row {row}");
            assert!(sound || square == 0, "an invalid row is the zero row");
        }
        let invalid = (0..3_000).filter(|&row| !values.row(row).iter().all(|value| value.is_finite())).count();
        assert_eq!(rows.invalid(), invalid);
    }
}

#[test]
fn no_row_within_its_ranges_is_shortened_by_default() {
    for count in 1..=10 {
        for intercept in [None, Some(0.5)] {
            let bounds = ranges(count, intercept);
            // Every corner: columns of two values have no other rows.
            let values =
                DMatrix::from_fn(1 << count, count, |row, column| if row >> column & 1 == 0 { -2.0 } else { 6.0 });
            let rows = ClippedRows::new(&bounds, &values);
            assert_eq!(rows.shortened(), 0, "{count} columns");
            let slopes = rows.entries.chunks_exact(rows.width).flat_map(|row| &row[rows.width - count..]);
            let least = slopes.map(|entry| entry.abs()).min().unwrap();
            let scale = UNIT as f64 * (1.0 - intercept.map_or(0.0, |share: f64| share * share)).sqrt();
            assert!((f64::from(least) - scale / (count as f64).sqrt()).abs() < 2.0, "{count} columns: {least}");
        }
    }
}

#[test]
fn a_row_depends_on_itself_alone() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let bounds = ranges(3, Some(0.4));
    let values = DMatrix::from_fn(200, 3, |_, _| random.random_range(-3.0..7.0));
    let all = ClippedRows::new(&bounds, &values);
    for replaced in [0, 77, 199] {
        let mut changed = values.clone();
        changed[(replaced, 1)] = *NASTY.choose(&mut random).unwrap();
        let other = ClippedRows::new(&bounds, &changed);
        for row in (0..200).filter(|&row| row != replaced) {
            assert_eq!(all.entries[row * 4..row * 4 + 4], other.entries[row * 4..row * 4 + 4]);
        }
    }
}

#[test]
fn sums_do_not_depend_on_the_order_of_rows() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let bounds = ranges(4, None);
    let rows = 70_000;
    let values = DMatrix::from_fn(rows, 4, |_, _| random.random_range(-3.0..7.0));
    let residuals: Vec<f64> = (0..rows).map(|_| random.random_range(-3.0..3.0)).collect();
    let mut order: Vec<usize> = (0..rows).collect();
    order.shuffle(&mut random);
    let shuffled = DMatrix::from_fn(rows, 4, |row, column| values[(order[row], column)]);
    let shuffled_residuals: Vec<f64> = order.iter().map(|&row| residuals[row]).collect();
    let (first, second) = (ClippedRows::new(&bounds, &values), ClippedRows::new(&bounds, &shuffled));
    assert_eq!(first.gram(), second.gram());
    assert_eq!(
        first.cross(&ClippedResiduals::clip(&residuals, 2.5)),
        second.cross(&ClippedResiduals::clip(&shuffled_residuals, 2.5))
    );
}

/// More rows than are summed in one go, the largest entries that there are among them.
#[test]
fn sums_are_those_of_integers() {
    let mut random = ChaCha8Rng::seed_from_u64(9);
    for (width, rows) in [(1, (1 << 20) + 3), (3, (1 << 16) + 1), (7, 65), (7, 64), (7, 1), (7, 0)] {
        let entry =
            |_| [-(1 << 15), 1 << 15, 0, 1, random.random_range(-(1 << 15)..=1 << 15)][random.random_range(0..5)];
        let entries: Vec<i32> = (0..width * rows).map(entry).collect();
        let all = ClippedRows {
            width,
            entries: Arc::new(entries),
            whole: Vec::new(),
            intercept: None,
            invalid: 0,
            shortened: 0,
        };
        let column = |at: usize| all.entries.iter().skip(at).step_by(width).map(|entry| i128::from(*entry));
        let upper = (0..width).flat_map(|left| (left..width).map(move |right| (left, right)));
        let expected = upper.map(|(left, right)| column(left).zip(column(right)).map(|(a, b)| a * b).sum());
        assert_eq!(all.gram(), expected.collect::<Vec<i128>>(), "{width} x {rows}");

        let entry = |_| [-(1 << 17), 1 << 17, random.random_range(-(1 << 17)..=1 << 17)][random.random_range(0..3)];
        let residuals = ClippedResiduals { entries: (0..rows).map(entry).collect(), exponent: 0, bound: 1.0 };
        let along = |at| column(at).zip(&residuals.entries).map(|(a, b)| a * i128::from(*b)).sum();
        assert_eq!(all.cross(&residuals), (0..width).map(along).collect::<Vec<i128>>(), "{width} x {rows}");

        let mut out = vec![7.0];
        let some = rows / 3..rows;
        all.append(some.clone(), 3.0, &mut out);
        let each = (0..width).flat_map(|at| column(at).skip(some.start)).map(|entry| 3.0 * entry as f64);
        assert!(out.into_iter().eq(std::iter::once(7.0).chain(each)), "{width} x {rows}");
    }
}

#[test]
fn residuals_stay_within_their_bound() {
    for bound in [1.0, 0.3, 1e-4, 7.9, 8.0, 8.1, 1e12] {
        let values: Vec<f64> =
            NASTY.iter().flat_map(|&v| [v, v * bound, 0.999_999 * bound, 1.000_001 * bound]).collect();
        for (residuals, rejecting) in
            [(ClippedResiduals::clip(&values, bound), false), (ClippedResiduals::reject(&values, bound), true)]
        {
            let step = 2f64.powi(residuals.exponent());
            for (value, &entry) in values.iter().zip(&residuals.entries) {
                let kept = f64::from(entry) * step;
                assert!(kept.abs() <= bound && entry.unsigned_abs() <= 1 << RESIDUAL_BITS);
                if value.is_nan() || rejecting && value.abs() > bound {
                    assert_eq!(entry, 0);
                } else if value.abs() <= bound {
                    assert!((kept - value).abs() < step);
                }
            }
        }
    }
    for bound in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let residuals = ClippedResiduals::clip(&[1.0, -1.0], bound);
        assert_eq!((residuals.entries, residuals.bound), (vec![0, 0], 0.0));
    }
}

#[test]
fn bounds_without_meaning_are_refused_by_name() {
    let one = |bounds| RowBounds::new(vec![("age".to_owned(), bounds)], None, None).unwrap_err().to_string();
    assert_eq!(RowBounds::new(Vec::new(), None, None), Err(BoundsError::Empty));
    for (low, high) in [(0.0, f64::INFINITY), (f64::NAN, 1.0), (1.0, 1.0), (2.0, 1.0)] {
        let sentence = one(ColumnBounds::Range { low, high });
        assert!(sentence.starts_with("bounds of column age must be two finite numbers"), "{sentence}");
        assert!(OutcomeBounds::new(low, high).is_err());
    }
    for (centre, scale) in [(0.0, 0.0), (0.0, -1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
        assert!(one(ColumnBounds::Centred { centre, scale }).contains("column age"));
    }
    let columns = || vec![("age".to_owned(), ColumnBounds::Indicator)];
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(RowBounds::new(columns(), Some(bad), None), Err(BoundsError::Radius { .. })));
        assert!(matches!(RowBounds::new(columns(), None, Some(bad)), Err(BoundsError::Intercept { .. })));
    }
    assert!(
        matches!(RowBounds::range("age", Err("auto")), Err(BoundsError::DataDerived { word, .. }) if word == "auto")
    );
    for numbers in [&[][..], &[1.0], &[2.0, 1.0], &[1.0, 2.0, 3.0]] {
        assert!(matches!(RowBounds::range("age", Ok(numbers)), Err(BoundsError::Range { .. })));
    }
    assert_eq!(RowBounds::range("age", Ok(&[18.0, 64.0])), Ok(ColumnBounds::Range { low: 18.0, high: 64.0 }));
}

#[test]
fn coefficients_return_to_the_original_scale() {
    let columns = vec![
        ("a".to_owned(), ColumnBounds::Range { low: 10.0, high: 30.0 }),
        ("b".to_owned(), ColumnBounds::Centred { centre: -4.0, scale: 2.0 }),
    ];
    for intercept in [None, Some(0.5)] {
        let bounds = RowBounds::new(columns.clone(), Some(3.0), intercept).unwrap();
        let outcome = OutcomeBounds::new(100.0, 200.0).unwrap();
        let x = DMatrix::from_row_slice(2, 2, &[14.0, -3.0, 25.0, -5.5]);
        let rows = ClippedRows::new(&bounds, &x);
        let unit = DVector::from_fn(bounds.width(), |index, _| 0.3 + index as f64);
        let scale = bounds.original_scale(&outcome);
        let original = scale.coefficients(&unit);
        for (row, product) in rows.products(&unit, 0).into_iter().enumerate() {
            let here = scale.outcome_centre() + original[0] + original[1] * x[(row, 0)] + original[2] * x[(row, 1)];
            assert!((here - (outcome.centre() + outcome.half_range() * product)).abs() < 1e-2, "{here}");
        }
        let covariance = scale.covariance(&DMatrix::identity(bounds.width(), bounds.width()));
        assert!(covariance[(1, 1)] > 0.0 && covariance.nrows() == 3);
    }
}

#[test]
fn mapping_shortens_again_and_keeps_the_zero_row() {
    let bounds = ranges(2, None);
    let range = OutcomeBounds::new(0.0, 1.0).unwrap();
    let x = DMatrix::from_row_slice(3, 2, &[6.0, 6.0, f64::NAN, 0.0, 2.5, 2.0]);
    let (rows, _) = ClippedRows::with_outcome(&bounds, &x, &range, &[0.5, 0.5, 0.5]);
    let mapped = rows.mapped(&(DMatrix::identity(2, 2) * 50.0));
    for entries in mapped.entries.chunks_exact(2) {
        let square: i64 = entries.iter().map(|&entry| i64::from(entry) * i64::from(entry)).sum();
        assert!(square <= UNIT * UNIT);
    }
    assert_eq!(mapped.entries[2..4], [0, 0]);
    assert!(mapped.entries[4] > UNIT as i32 / 2, "a short row was stretched");
    let broken = rows.mapped(&DMatrix::from_element(2, 2, f64::NAN));
    assert!(broken.entries.iter().all(|&entry| entry == 0));
}

#[test]
fn logs_show_sizes_and_no_values() {
    let rows = ClippedRows::new(&ranges(1, None), &DMatrix::from_element(2, 1, 4.0));
    assert_eq!(format!("{rows:?}"), "ClippedRows(2 x 1)");
    let outcome = ClippedOutcome::new(&OutcomeBounds::new(0.0, 1.0).unwrap(), &[0.25]);
    assert_eq!(format!("{outcome:?}"), "ClippedOutcome(1 rows)");
}
