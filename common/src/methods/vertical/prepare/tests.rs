//! What a party is told of its own table before anybody is contacted.

use super::*;
use crate::data::{ColumnBuilder, Place, Places};
use crate::exit::Exit;
use crate::study::tests::vertical;

/// A table of cells; the first row stands at line 2.
fn frame(columns: &[(&str, &[&str])]) -> Frame {
    let mut places = Places::default();
    (0..columns[0].1.len()).for_each(|row| places.push(Place::Line(row as u64 + 2)));
    let columns = columns.iter().map(|(name, cells)| {
        let mut builder = ColumnBuilder::new(*name);
        for (row, cell) in cells.iter().enumerate() {
            builder.cell(cell.as_bytes(), Place::Line(row as u64 + 2)).unwrap();
        }
        builder.finish().unwrap()
    });
    Frame::new(columns.collect(), None, places).unwrap()
}

/// What `role` prepares where alice has the column `a` and bob what `bob` says.
fn prepared(bob: &str, more: &str, role: Role, columns: &[(&str, &[&str])]) -> Result<Prepared, Abort> {
    let study = vertical(&format!(
        "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n[parties.bob]\n\
         certificate = \"bob\"\n{bob}\n{more}"
    ));
    Prepared::new(Arc::new(study), role, Policy::default(), frame(columns))
}

fn refused(bob: &str, more: &str, columns: &[(&str, &[&str])]) -> String {
    let abort = prepared(bob, more, Role::Bob, columns).err().unwrap();
    assert_eq!(abort.exit(), Exit::Data, "{abort}");
    abort.to_string()
}

const Y: (&str, &[&str]) = ("y", &["1", "2", "4", "3"]);

#[test]
fn more_folds_than_rows_are_refused_at_home() {
    let said =
        refused("columns = [\"b\"]", "[penalty]\nlambda = \"path\"\ncv = 5\n", &[("b", &["1", "2", "3", "5"]), Y]);
    assert!(said.contains("5 folds of 4 rows; each fold needs at least one"), "{said}");
    let four = "[penalty]\nlambda = \"path\"\ncv = 4\n";
    assert!(prepared("columns = [\"b\"]", four, Role::Bob, &[("b", &["1", "2", "3", "5"]), Y]).is_ok());
}

#[test]
fn two_own_coefficients_of_one_name_are_refused_at_home() {
    let columns: [(&str, &[&str]); 3] = [("b", &["c", "d", "c", "d"]), ("bd", &["1", "2", "3", "5"]), Y];
    let said = refused("columns = [\"b\", \"bd\"]", "", &columns);
    assert!(said.contains("two coefficients would have the name `bd`, one of `b` and one of `bd`"), "{said}");
}

#[test]
fn a_missing_value_of_a_predictor_is_refused_with_both_remedies() {
    let said = refused("columns = [\"b\"]", "", &[("b", &["1", "", "3", "5"]), Y]);
    assert!(said.contains("fill them in, or leave such rows out with `missing = \"complete-cases\"`"), "{said}");
}

#[test]
fn the_outcome_cannot_be_the_offset() {
    let said = refused("columns = [\"b\"]", "[offset]\ncolumn = \"y\"\n", &[("b", &["1", "2", "3", "5"]), Y]);
    assert!(said.contains("column `y` is the outcome and cannot be the offset too"), "{said}");
}

/// R 4.2.2: `lm(y ~ cut(age, c(0, 10, 50, 100)))` of these ages has the coefficients `(Intercept)` and `(50,100]`.
#[test]
fn a_level_that_no_row_has_is_no_reference_and_the_report_says_so() {
    let formula = "formula = \"~ cut(age, c(0, 10, 50, 100))\"";
    let prepared = prepared(formula, "", Role::Bob, &[("age", &["18", "30", "60", "90"]), Y]).ok().unwrap();
    let encoded = prepared.encoded().unwrap();
    assert_eq!(encoded.terms, ["cut(age, c(0, 10, 50, 100))(50,100]"]);
    assert_eq!(encoded.levels["cut(age, c(0, 10, 50, 100))"], ["(10,50]", "(50,100]"]);
    assert_eq!(
        encoded.notes,
        [
            "bob: no row has the level `(0,10]` of `cut(age, c(0, 10, 50, 100))`: it has no coefficient, and the first level is `(10,50]`"
        ]
    );
}

/// R 4.2.2: `lm(y ~ a + b - 1)` has the coefficients `a`, `bc` and `bd`.
#[test]
fn without_an_intercept_the_report_of_another_than_the_first_party_names_what_r_has_too() {
    let columns: [(&str, &[&str]); 2] = [("b", &["c", "d", "c", "d"]), Y];
    let without = "[model]\nintercept = false\n";
    let bob = prepared("columns = [\"b\"]", without, Role::Bob, &columns).ok().unwrap();
    let encoded = bob.encoded().unwrap();
    assert_eq!(encoded.terms, ["bd"]);
    assert_eq!(
        encoded.notes,
        [
            "bob: categorical columns keep a reference level in a model without intercept; R's joint fit has `bc` too, unless \
          a party before bob has a categorical column"
        ]
    );
    let numbers: [(&str, &[&str]); 2] = [("b", &["1", "2", "3", "5"]), Y];
    for (role, more, columns) in [(Role::Bob, "", &columns), (Role::Bob, without, &numbers)] {
        let prepared = prepared("columns = [\"b\"]", more, role, columns).ok().unwrap();
        assert_eq!(prepared.encoded().unwrap().notes, Vec::<String>::new());
    }
}
