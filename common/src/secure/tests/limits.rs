//! Budgets and limits.

use crate::secure::budget;
use crate::secure::open::{
    Earlier, Limits, Numbers, Refusal, Rows, beside_majority, effective_rows, entropy, few_values, rarer_value,
};
use crate::secure::ring::{LARGEST_FIXED, Width};

#[test]
fn every_budget_stays_below_half_of_the_modulus() {
    let half = Width::Two.modulus() / 2;
    for lg in 0..=30 {
        let rows = 1_usize << lg;
        let n = rows.max(16) as u128;
        let bits = budget::gaussian(rows).unwrap();
        assert!(n << (2 * bits) < half);
        assert!((n as f64).sqrt() * 2f64.powi(bits as i32) <= LARGEST_FIXED);
        let bits = budget::binomial(rows).unwrap();
        assert!((n << (bits.columns + 2 * bits.features)) * 2 < half);
        assert!((n << (2 * bits.columns + 2 * bits.weights)) / 4 < half);
        assert!(bits.features >= 31 && bits.weights >= 17, "{lg} {bits:?}");
        for (largest, outcome) in [(0.0_f64, 1.0_f64), (7.0, 300.0), (3.0, 40_000.0)] {
            let most = f64::max(largest.exp(), 1.0 + outcome);
            let Some(bits) = budget::poisson(rows, largest, outcome) else {
                assert!(f64::from(lg.max(4)) + most.log2().ceil() > 34.0);
                continue;
            };
            assert!(((n << (bits.columns + 2 * bits.features)) as f64) * most < half as f64);
            assert!(((n << (2 * bits.columns + 2 * bits.weights)) as f64) * most < half as f64);
        }
        assert_eq!(budget::gaussian(rows + 1).is_some(), lg < 30);
    }
    assert_eq!(budget::gaussian(1000), Some(44));
    assert_eq!(budget::gaussian(1_000_000), Some(41));
    assert_eq!(budget::gaussian((1 << 30) + 1), None);
    assert_eq!(budget::binomial(usize::MAX), None);
    assert_eq!([f64::NAN, f64::INFINITY, 1e9].map(|largest| budget::poisson(100, largest, 1.0)), [None; 3]);
    assert_eq!(budget::poisson(100, 1.0, f64::NAN), None);
}

#[test]
fn a_column_is_two_valued_however_it_is_coded() {
    assert_eq!(rarer_value(&[0.0, 1.0, 0.0, 0.0], None), Some(1));
    assert_eq!(rarer_value(&[-0.5, -0.5, 3.25, 3.25], None), Some(2));
    assert_eq!(rarer_value(&[1.0, 2.0, 1.0, 3.0], None), None);
    assert_eq!(rarer_value(&[2.0, 2.0], None), None);
    assert_eq!(rarer_value(&[], None), None);
    // -0 and 0 are one value.
    assert_eq!(rarer_value(&[0.0, -0.0], None), None);
    assert!((entropy(100, 50) - 100.0).abs() < 1e-12 && entropy(100, 0) == 0.0 && entropy(0, 0) == 0.0);
    assert!((entropy(1000, 110) - 499.9).abs() < 0.1);
}

fn coded(rows: usize, ones: usize, values: [f64; 2]) -> Vec<f64> {
    (0..rows).map(|row| values[usize::from(row < ones)]).collect()
}

fn products(products: u64) -> Numbers {
    Numbers { products, all: products }
}

#[test]
fn a_part_of_a_table_has_rows_enough_if_the_limits_would_hold_of_it_were_it_like_the_whole() {
    let limits = Limits::default();
    let part = |values: Vec<f64>, numbers| limits.part([("x", &values[..])].into_iter(), None, products(numbers));
    // 192 bits of 1000; half of the twenty rows of the rarer value; half of the forty that are not zero.
    assert_eq!(part(coded(1000, 500, [0.0, 1.0]), 3), 192);
    assert_eq!(part(coded(1000, 20, [5.0, 7.0]), 1), 500);
    assert_eq!(part((0..1000).map(|row| if row < 40 { 1.5 + f64::from(row) } else { 0.0 }).collect(), 10), 500);
    assert_eq!(part((0..1000).map(f64::from).collect(), 10), 0);
    assert_eq!(part(vec![2.0; 1000], 10), 0);
    assert_eq!(part(Vec::new(), 10), 0);
    // Of several columns that which needs most; none where the party asks for nothing.
    let (flag, rare) = (coded(1000, 500, [0.0, 1.0]), coded(1000, 20, [5.0, 7.0]));
    let both = || [("flag", &flag[..]), ("rare", &rare[..])].into_iter();
    assert_eq!(limits.part(both(), None, products(1)), 500);
    let none = Limits { entropy_bits: 0.0, level_rows: 0, ..limits };
    assert_eq!(none.part(both(), None, products(1)), 0);
}

#[test]
fn a_two_valued_column_needs_entropy_for_every_column_of_the_peer() {
    let limits = Limits::default();
    let of = |rows: usize, ones: usize, numbers: u64| {
        limits.columns(Rows::All, [("sex", &coded(rows, ones, [7.5, -1.0])[..])].into_iter(), None, products(numbers))
    };
    // 100 rows, half of them: 100 bits, for one number 64 are needed, for two 128.
    assert_eq!(of(100, 50, 1), Ok(()));
    let Err(Refusal::Entropy { column, rarer: 50, rows: 100, numbers: 2, entropy, needed, .. }) = of(100, 50, 2) else {
        panic!("a column of 100 bits passed for two numbers");
    };
    assert_eq!((&column[..], entropy.round(), needed), ("sex", 100.0, 128.0));
    assert_eq!(of(1000, 500, 15), Ok(()));
    assert!(of(1000, 500, 16).is_err());
    let rare = || Err(Refusal::Rare { column: "sex".to_string(), which: Rows::All, rarer: 9, needed: 10 });
    assert_eq!(of(10_000, 9, 1), rare());
    assert_eq!(of(10_000, 10_000 - 9, 1), rare());
    // Loosened by the party itself.
    let loose = Limits { entropy_bits: 0.0, level_rows: 0, ..limits };
    assert_eq!(
        loose.columns(Rows::All, [("sex", &coded(50, 1, [0.0, 1.0])[..])].into_iter(), None, products(9)),
        Ok(())
    );
    let many = (0..50).map(f64::from).collect::<Vec<_>>();
    assert_eq!(
        limits.columns(Rows::All, [("age", &many[..]), ("one", &[1.0; 50][..])].into_iter(), None, products(9)),
        Ok(())
    );
}

#[test]
fn few_rows_beside_a_value_that_most_rows_share_are_found_with_and_without_weights() {
    let costs = |rows: usize, of: usize| (0..rows).map(|row| if row < of { 3.5 + row as f64 } else { 0.0 }).collect();
    let column: Vec<f64> = costs(600, 2);
    assert_eq!(beside_majority(&column, None), Some(2));
    assert_eq!(beside_majority(&costs(600, 299), None), Some(299));
    assert_eq!(beside_majority(&costs(600, 300), None), None);
    assert_eq!([beside_majority(&[4.0; 7], None), beside_majority(&[], None)], [Some(0), None]);
    // Whichever order the rows have.
    let mixed: Vec<f64> = (0..700).map(|row| if row % 7 < 3 { row as f64 } else { -1.0 }).collect();
    assert_eq!(beside_majority(&mixed, None), Some(300));
    // Half of the rows differ, and nearly all of the weight lies on two of them; or on the zeros.
    let half: Vec<f64> = costs(600, 300);
    let on_two: Vec<f64> = (0..600).map(|row| if row < 2 { 1.0 } else { 1e-9 }).collect();
    assert_eq!(beside_majority(&half, Some(&on_two)), None);
    let on_zeros: Vec<f64> = (0..600).map(|row| if !(2..300).contains(&row) { 1.0 } else { 1e-9 }).collect();
    assert_eq!(beside_majority(&half, Some(&on_zeros)), Some(2));
    assert_eq!(beside_majority(&half, Some(&[0.3; 600])), None);

    let limits = Limits { entropy_bits: 0.0, ..Limits::default() };
    let of = |column: &[f64], weights: Option<&[f64]>, numbers| {
        limits.columns(Rows::All, [("cost", column)].into_iter(), weights, numbers)
    };
    let refused = |differ, numbers, needed| {
        Err(Refusal::Sparse { column: "cost".to_string(), which: Rows::All, differ, numbers, needed })
    };
    assert_eq!(of(&column, None, products(3)), refused(2, 3, 10));
    assert_eq!(of(&costs(600, 9), None, products(1)), refused(9, 1, 10));
    assert_eq!(of(&costs(600, 10), None, products(5)), Ok(()));
    // Twice as many as open, gradients and weighted products among them.
    assert_eq!(of(&costs(600, 11), None, products(6)), refused(11, 6, 12));
    assert_eq!(of(&costs(600, 39), None, Numbers { products: 6, all: 20 }), refused(39, 20, 40));
    assert_eq!(of(&costs(600, 40), None, Numbers { products: 6, all: 20 }), Ok(()));
    assert_eq!(of(&half, Some(&on_zeros), products(3)), refused(2, 3, 10));
    // As loose as a party's own file may have it.
    let loose = Limits { level_rows: 0, opened_share: 1.0, ..limits };
    assert_eq!(loose.columns(Rows::All, [("cost", &column[..])].into_iter(), None, products(900)), Ok(()));
    // Rows with a cost outweigh all others, and yet they are two.
    let heavy: Vec<f64> = column.iter().map(|cost| if *cost > 0.0 { 1e4 } else { 1.0 }).collect();
    assert_eq!(of(&column, Some(&heavy), products(3)), refused(2, 3, 10));
}

#[test]
fn one_value_more_does_not_free_a_column_from_its_entropy() {
    // Sixty ones of 600, of which one is a two: 281 bits and what tells the two from the ones.
    let column: Vec<f64> = (0..600).map(|row| f64::from(row < 60) + f64::from(row == 0)).collect();
    let share = |k: f64| -k / 600.0 * (k / 600.0).log2();
    let (values, bits) = few_values(&column, None).unwrap();
    assert_eq!(values, 3);
    assert!((bits - 600.0 * (share(540.0) + share(59.0) + share(1.0))).abs() < 1e-9 && bits > entropy(600, 60));
    assert!((few_values(&column, Some(&[0.7; 600])).unwrap().1 - bits).abs() < 1e-9);
    let light: Vec<f64> = (0..600).map(|row| if row == 0 { 1e-9 } else { 1.0 }).collect();
    assert!((few_values(&column, Some(&light)).unwrap().1 - entropy(599, 59)).abs() < 1e-3);
    // As many values as the root of the rows, and one more; -0 is 0.
    let of = |values: usize| (0..100).map(|row| (row % values) as f64).collect::<Vec<f64>>();
    assert!(matches!(few_values(&of(10), None), Some((10, bits)) if (bits - 100.0 * 10_f64.log2()).abs() < 1e-9));
    assert_eq!(few_values(&of(11), None), None);
    assert_eq!(few_values(&[0.0, -0.0, 0.0, 0.0], None), Some((1, 0.0)));

    let limits = Limits::default();
    let columns = |numbers| limits.columns(Rows::All, [("visits", &column[..])].into_iter(), None, products(numbers));
    assert_eq!(columns(4), Ok(()));
    let refused = columns(5).unwrap_err();
    assert!(matches!(refused, Refusal::Levels { values: 3, rows: 600, numbers: 5, .. }), "{refused}");
    assert_eq!(
        refused.to_string(),
        "column `visits` has 3 different values in 600 of the rows: 289 bits, and 320 are needed for the 5 numbers that open of it"
    );
}

#[test]
fn rows_of_tiny_weight_do_not_stand_for_rows() {
    assert_eq!([effective_rows(&[0.1; 70]), effective_rows(&[3e-200; 70]), effective_rows(&[1e200; 70])], [70; 3]);
    assert_eq!([effective_rows(&[]), effective_rows(&[0.0; 5]), effective_rows(&[f64::NAN; 5])], [0; 3]);
    let one_heavy: Vec<f64> = (0..1000).map(|row| if row == 0 { 1.0 } else { 1e-9 }).collect();
    assert_eq!(effective_rows(&one_heavy), 1);
    // Half as heavy: (500 + 250)^2 / (500 + 125) = 900.
    let half: Vec<f64> = (0..1000).map(|row| if row % 2 == 0 { 1.0 } else { 0.5 }).collect();
    assert_eq!(effective_rows(&half), 900);
    let limits = Limits::default();
    let of = |column: &[f64], weights: &[f64]| {
        limits.columns(Rows::All, [("sex", column)].into_iter(), Some(weights), products(3))
    };
    let column = coded(1000, 500, [0.0, 1.0]);
    assert_eq!((rarer_value(&column, Some(&[0.7; 1000])), of(&column, &[0.7; 1000])), (Some(500), Ok(())));
    // All rows of one value weigh next to nothing, or but one of them.
    let by_value: Vec<f64> = column.iter().map(|value| if *value == 1.0 { 1.0 } else { 1e-9 }).collect();
    assert!(matches!(of(&column, &by_value), Err(Refusal::Rare { rarer: 0, .. })));
    let but_one: Vec<f64> = (0..1000).map(|row| if row < 499 { 1e-9 } else { 1.0 }).collect();
    assert!(matches!(of(&column, &but_one), Err(Refusal::Rare { rarer: 0 | 1, .. })));
    let folds: Vec<u32> = (0..1000).map(|row| 1 + (row / 500) as u32).collect();
    let light: Vec<f64> = (0..1000).map(|row| if row > 0 && row < 500 { 1e-9 } else { 1.0 }).collect();
    let few = limits.folds(&folds, 2, &[], Some(&light), (4, products(3)));
    assert_eq!(few, Err(Refusal::Rows { which: Rows::Fold(1), rows: 1, columns: 4, needed: 40 }));
    // A party that loosens every limit still needs rows of some weight in every fold.
    let loose = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, ..limits };
    let empty: Vec<f64> = (0..1000).map(|row| f64::from(row >= 500)).collect();
    assert!(matches!(loose.folds(&folds, 2, &[], Some(&empty), (4, products(3))), Err(Refusal::Rows { rows: 0, .. })));
}

#[test]
fn rows_and_openings_are_limited() {
    let limits = Limits::default();
    assert_eq!(limits.rows(Rows::All, 120, 12), Ok(()));
    let refused = Refusal::Rows { which: Rows::All, rows: 119, columns: 12, needed: 120 };
    assert_eq!(limits.rows(Rows::All, 119, 12), Err(refused));
    assert!(limits.rows(Rows::All, 119, u64::MAX).is_err());
    // 100 rows, 5 and 5 columns: 500 unknowns, 250 may open.
    let before = |numbers, plain| Earlier { numbers, plain };
    assert_eq!(limits.opened(before(0, 0), 250, 100, [5, 5]), Ok(250));
    assert_eq!(limits.opened(before(220, 0), 30, 100, [5, 8]), Ok(250));
    let refused = limits.opened(before(220, 200), 31, 100, [8, 5]).unwrap_err();
    assert_eq!(refused, Refusal::Opened { opened: 251, before: 220, plain: 200, most: 250, unknowns: 500 });
    assert_eq!(
        refused.to_string(),
        "251 numbers would be open, 220 of them by earlier runs on the same data set (200 by runs that were not sealed, which \
         show whole vectors), at most 250 may be of 500 unknown values"
    );
    assert!(limits.opened(before(u64::MAX, 0), 1, u64::MAX, [u64::MAX, 2]).is_err());
}

#[test]
fn every_fold_and_its_complement_meet_the_limits() {
    let limits = Limits::default();
    let column: Vec<f64> = (0..600).map(|row| f64::from(row % 2 == 0)).collect();
    let folds = |of: fn(usize) -> u32| (0..600).map(of).collect::<Vec<u32>>();
    assert_eq!(
        limits.folds(&folds(|row| 1 + (row / 200) as u32), 3, &[("sex", &column[..])], None, (4, products(3))),
        Ok(())
    );
    // One row in a fold of its own.
    let one =
        limits.folds(&folds(|row| if row == 17 { 2 } else { 1 }), 2, &[("sex", &column[..])], None, (4, products(3)));
    assert_eq!(one, Err(Refusal::Rows { which: Rows::Without(1), rows: 1, columns: 4, needed: 40 }));
    // Folds that separate the values leave none two-valued; nearly so is refused.
    let nearly = limits.folds(
        &folds(|row| if row % 2 == 0 || row < 10 { 1 } else { 2 }),
        2,
        &[("sex", &column[..])],
        None,
        (4, products(3)),
    );
    assert!(matches!(nearly, Err(Refusal::Rare { which: Rows::Fold(1), rarer: 5, .. })), "{nearly:?}");
}

/// What the limits say of columns, without the place in which they stand.
fn together(columns: &[(&str, Vec<f64>)], limits: Limits, numbers: u64) -> Result<(), String> {
    let columns = columns.iter().map(|(name, values)| (*name, values.as_slice()));
    limits.columns(Rows::All, columns, None, products(numbers)).map_err(|refusal| refusal.to_string())
}

/// Indicators of all levels of a factor but one.
fn indicators(levels: &[u64], reference: usize) -> Vec<(&'static str, Vec<f64>)> {
    let names = ["a", "b", "c", "d"];
    let of_row: Vec<usize> =
        levels.iter().enumerate().flat_map(|(level, rows)| (0..*rows).map(move |_| level)).collect();
    (0..levels.len())
        .filter(|level| *level != reference)
        .map(|level| (names[level], of_row.iter().map(|of| f64::from(u8::from(*of == level))).collect()))
        .collect()
}

#[test]
fn a_rare_level_is_found_whichever_level_is_the_reference() {
    let limits = Limits::default();
    for (levels, numbers, fits) in [
        (&[1, 300, 299][..], 3, false),
        (&[9, 300, 291], 1, false),
        (&[10, 300, 290], 1, true),
        // Enough rows, and too little entropy for six products.
        (&[40, 280, 280], 6, false),
        (&[200, 200, 200], 6, true),
        (&[150, 250, 195, 5], 1, false),
    ] {
        for reference in 0..levels.len() {
            let said = together(&indicators(levels, reference), limits, numbers);
            assert_eq!(said.is_ok(), fits, "{levels:?} {reference}: {said:?}");
        }
    }
    let said = together(&indicators(&[1, 300, 299], 0), limits, 3).unwrap_err();
    assert_eq!(
        said,
        "column `b, c together` has the same value in all but 1 of the rows: 10 must differ from it, as 3 numbers open of it. Own columns \
         give it together, as they give the reference level of a factor, or the rows in which two of them differ"
    );
}

#[test]
fn rows_in_which_columns_differ_are_found_however_they_are_coded() {
    let (rows, limits) = (600, Limits::default());
    let half = |row: usize| f64::from(u8::from(row.is_multiple_of(2)));
    let but = |few: usize| move |row: usize| if row < few { 1.0 - half(row) } else { half(row) };
    let column = |of: &dyn Fn(usize) -> f64| (0..rows).map(of).collect::<Vec<f64>>();
    let cells = |of: &dyn Fn(usize) -> [f64; 2]| {
        let [first, second] = [0, 1].map(|at| column(&|row| of(row)[at]));
        let both = first.iter().zip(&second).map(|(a, b)| a * b).collect();
        [("u", first), ("v", second), ("u:v", both)]
    };
    // A third of each other cell, and few rows with neither, one, the other, both.
    let rare = |cell: usize| {
        move |row: usize| {
            let at = if row < 5 { cell } else { (cell + 1 + row % 3) % 4 };
            [f64::from(u8::from(at & 1 == 1)), f64::from(u8::from(at & 2 == 2))]
        }
    };
    for cell in 0..4 {
        assert!(together(&cells(&rare(cell)), limits, 3).is_err(), "{cell}");
    }
    assert!(together(&cells(&|row| [half(row), half(row / 2)]), limits, 3).is_ok());
    for (few, fits) in [(1, false), (9, false), (100, true)] {
        for (scale, shift) in [(1.0, 0.0), (-2.5, 7.0)] {
            let other = column(&|row| scale * but(few)(row) + shift);
            let said = together(&[("u", column(&half)), ("v", other)], limits, 3);
            assert_eq!(said.is_ok(), fits, "{few} {scale}: {said:?}");
        }
    }
    let stamped = column(&|row| 1e9 + but(3)(row));
    assert!(together(&[("u", column(&half)), ("v", stamped)], limits, 3).is_err());
    // The sum of two scores is the third but for some rows.
    let score = |at: usize| move |row: usize| ((row * (7 + at) / 3) % 4) as f64;
    let sum = |few: usize| move |row: usize| score(0)(row) + score(4)(row) + f64::from(u8::from(row < few));
    for (few, fits) in [(3, false), (300, true)] {
        let scores = [("s", column(&score(0))), ("t", column(&score(4))), ("u", column(&sum(few)))];
        let said = together(&scores, limits, 3);
        assert_eq!(said.is_ok(), fits, "{few}: {said:?}");
    }
    // Without limits nothing is refused, and columns of many values are not looked at.
    let none = Limits { entropy_bits: 0.0, level_rows: 0, ..limits };
    assert!(together(&cells(&rare(0)), none, 3).is_ok());
}

#[test]
fn many_independent_columns_are_no_rare_combination() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
    for (rows, many, numbers) in [(600, 3, 6), (2000, 12, 13), (20_000, 50, 51)] {
        let names: Vec<String> = (0..many).map(|at| format!("x{at}")).collect();
        let columns: Vec<(&str, Vec<f64>)> = names
            .iter()
            .map(|name| (name.as_str(), (0..rows).map(|_| f64::from(u8::from(rng.random_bool(0.4)))).collect()))
            .collect();
        assert_eq!(together(&columns, Limits::default(), numbers), Ok(()), "{rows} {many}");
    }
}

/// Of patterns that hardly repeat the rows of a rare level may come first, as rows are sorted.
#[test]
fn two_columns_that_differ_in_few_rows_are_found_beside_many_others() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let (rows, limits) = (1000, Limits::default());
    let names: Vec<String> = (0..20).map(|at| format!("x{at}")).collect();
    let mut columns: Vec<(&str, Vec<f64>)> = names
        .iter()
        .map(|name| (name.as_str(), (0..rows).map(|_| f64::from(u8::from(rng.random_bool(0.5)))).collect()))
        .collect();
    assert!(together(&columns, limits, 6).is_ok());
    let mut nearly = columns[3].1.clone();
    (0..5).for_each(|row| nearly[row] = 1.0 - nearly[row]);
    columns.push(("again", nearly));
    let said = together(&columns, limits, 6).unwrap_err();
    assert!(said.starts_with("column `x3, again together` has the same value in all but 5 of the rows"), "{said}");
}
