//! What the limits look at beside columns: the level of a factor that has no column.

use super::super::limits::references;
use super::*;

type Row = (&'static str, &'static str, u8, u8);

/// Of Bob, whose factor `g` has the levels p, q and r, `two` the levels no and yes, and whose numbers `n` and `m` are 0 or 1.
fn with_factors(rows: &[Row]) -> Prepared {
    let study = Arc::new(vertical(
        "id = \"s\"\nmode = \"sealed\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"alice\"\n[parties.alice]\ncertificate = \"alice\"\n\
         columns = [\"a\"]\n[parties.bob]\ncertificate = \"bob\"\ncolumns = [\"g\", \"two\", \"n\", \"m\"]\n",
    ));
    let mut places = Places::default();
    (1..=rows.len()).for_each(|row| places.push(Place::Row(row as u64)));
    let column = |name: &str, of: fn(&Row) -> String| {
        let mut builder = ColumnBuilder::new(name);
        for (row, values) in rows.iter().enumerate() {
            builder.cell(of(values).as_bytes(), Place::Row(row as u64 + 1)).unwrap();
        }
        builder.finish().unwrap()
    };
    let columns = vec![
        column("g", |row| row.0.to_string()),
        column("two", |row| row.1.to_string()),
        column("n", |row| row.2.to_string()),
        column("m", |row| row.3.to_string()),
    ];
    Prepared::new(study, Role::Bob, Policy::default(), Frame::new(columns, None, places).unwrap()).unwrap()
}

#[test]
fn the_level_of_a_factor_that_has_no_column_is_looked_at_like_the_others() {
    let rows = [
        ("q", "no", 1, 0),
        ("p", "yes", 0, 1),
        ("r", "yes", 1, 1),
        ("q", "no", 0, 0),
        ("p", "no", 0, 1),
        ("r", "no", 1, 0),
    ];
    let prepared = with_factors(&rows);
    let rest = |values: &[f64]| vec![("g, its reference level".to_string(), values.to_vec())];
    // Of two levels the one column has both values, and numbers are no levels.
    assert_eq!(references(prepared.encoded().unwrap(), None), rest(&[0.0, 1.0, 0.0, 0.0, 1.0, 0.0]));
    let weights = [1.0, 0.0, 1.0, 0.0, 2.0, 1.0];
    assert_eq!(references(prepared.encoded().unwrap(), Some(&weights)), rest(&[0.0, 0.0, 1.0, 0.0]));
}

#[test]
fn a_rare_level_without_a_column_is_refused_by_the_name_of_its_factor() {
    // Of 600 rows nine have the level that comes first by name.
    let level = |row: u32| match (row % 67, row % 3) {
        (3, _) => "p",
        (_, 0) => "q",
        _ => "r",
    };
    let rows: Vec<Row> = (0..600_u32)
        .map(|row| (level(row), if row % 5 < 2 { "no" } else { "yes" }, (row % 7 > 2).into(), (row % 11 > 5).into()))
        .collect();
    let abort = super::super::allowed(&with_factors(&rows), &[1], Before::default()).unwrap_err();
    let sentence = abort.to_string();
    assert!(abort.exit() == Exit::Data && sentence.contains("`g, its reference level` has 9 rows"), "{sentence}");
    assert!(!abort.sentence_for_peer(Role::Alice).contains("reference"), "{}", abort.sentence_for_peer(Role::Alice));
}
