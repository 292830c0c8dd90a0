//! What the limits look at beside columns: the level of a factor that has no column.

use super::super::limits::references;
use super::*;
use crate::privacy::ledger::Fewest;

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

/// What an account was asked that two tables must differ by.
struct Apart(Arc<Mutex<Vec<Fewest>>>);

impl Account for Apart {
    fn may_open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.0.lock().unwrap().push(opens.apart);
        Ok(())
    }

    fn open(&mut self, opens: &Opens<'_>) -> Result<(), NotOpened> {
        self.may_open(opens)
    }
}

/// Three products open of the two-valued column `b3` of Bob's: with `a1`, with `a2` and with the outcome.
#[test]
fn tables_must_differ_by_as_many_rows_as_a_column_of_two_values_needs() {
    let (study, values) = (study("sealed", ""), values(ROWS, false));
    let apart: [Arc<Mutex<Vec<Fewest>>>; 2] = Default::default();
    let start = |role: Role| {
        let asked = Apart(Arc::clone(&apart[usize::from(role == Role::Bob)]));
        SealedSession::new(prepared(&study, role, &values, &Policy::default()).unwrap(), opening(role), Box::new(asked))
    };
    let dealer = dealer(&study, RUN, |_, _| {});
    fits(pair::run_dealt(&mut start(Role::Alice), &mut start(Role::Bob), Faults::NONE, |_, _| {}, dealer));
    let [alice, bob] = apart.map(|asked| asked.lock().unwrap().clone());
    let share = values.iter().filter(|values| values[4] > 0.0).count() as f64 / ROWS as f64;
    let bits = -(share * share.log2() + (1.0 - share) * (1.0 - share).log2());
    // 64 bits a product, over the bits of a row.
    let rows = (64.0 * 3.0 / bits).ceil() as u64;
    assert!(bob.len() > 1 && bob.iter().all(|asked| *asked == Fewest { rows, values: 10 }), "{bob:?} {rows}");
    assert!(alice.iter().all(|asked| asked.rows == 0), "columns of many values: {alice:?}");
}
