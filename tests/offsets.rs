//! Offsets that a formula computes from columns, beside the same offsets as columns of the table.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::predict::{NewRows, PredictSession, levels, needed_columns};
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::sim::pair::{self, Faults};
use fedreg_common::study::{Study, Vertical};
use fedreg_party::read;
use fedreg_tests::vertical::{RUN, fitted, run, run_sealed};

/// A study of counts; `more` is put before everything else.
fn study([alice, bob]: [&str; 2], more: &str) -> Arc<Study<Vertical>> {
    let text = format!(
        "id = \"rates\"\n{more}\n[parties.alice]\ncertificate = \"alice\"\nformula = {alice:?}\n[parties.bob]\ncertificate = \"bob\"\n\
         formula = {bob:?}\n[outcome]\ncolumn = \"y\"\n[model]\nfamily = \"poisson\"\n"
    );
    Arc::new(Study::parse(&text).unwrap_or_else(|error| panic!("{error}")).vertical().unwrap())
}

/// Rows with `days`, and beside them what formulas make of them.
fn write(file: &Path, rows: usize, days: impl Fn(usize) -> f64) {
    let mut text = "y,a,b,days,people,log_days,log_rate\n".to_string();
    for row in 0..rows {
        let (a, b) = ((row * 7 % 11) as f64 / 4.0, (row * 5 % 13) as f64 / 5.0);
        let (days, people) = (days(row), (1 + row % 3) as f64);
        let y = (days * (0.2 * a - 0.1 * b).exp() * (1.0 + (row as f64 * 12.9898).sin().abs())).round();
        let (log, rate) = (days.ln(), days.ln() + (people / 2.0).ln());
        text.push_str(&format!("{y},{a},{b},{days},{people},{log:?},{rate:?}\n"));
    }
    std::fs::write(file, text).unwrap();
}

fn days(row: usize) -> f64 {
    (3 + row * 11 % 17) as f64
}

/// What both parties give of the rows of a file: scores at alice, and the columns and functions with values that alice cannot
/// use.
fn scored(study: &Arc<Study<Vertical>>, fits: &[VerticalFit; 2], file: &Path) -> (Vec<f64>, [Vec<(String, usize)>; 2]) {
    let rows = |role: Role, fit: &VerticalFit| {
        let header = read::header(file, None).unwrap();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let columns = Some(needed_columns(study, role, &header).unwrap());
        let levels = levels(study, &fit.model, &header).unwrap();
        let request = read::Request { columns, levels, unseen: true, ..Default::default() };
        NewRows::new(Arc::clone(study), role, fit.model.clone(), read::read(file, &request).unwrap()).unwrap()
    };
    let open = |role: Role, rows: NewRows| {
        let opening = Opening { first: role == Role::Alice, run: RUN, seed: [5; 32], peer: role.partner() };
        PredictSession::new(rows, opening)
    };
    let alice = rows(Role::Alice, &fits[0]);
    let (columns, functions) = alice.unusable_by_kind();
    let unusable = [columns.to_vec(), functions.to_vec()];
    let (mut alice, mut bob) = (open(Role::Alice, alice), open(Role::Bob, rows(Role::Bob, &fits[1])));
    let ended = pair::run(&mut alice, &mut bob, Faults::NONE, |_, _: &Message| {});
    let [scores, _] = ended.results.map(|result| result.unwrap().unwrap());
    (scores.unwrap().link, unusable)
}

#[test]
fn an_offset_of_a_function_is_that_of_the_column_made_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.csv");
    write(&file, 120, days);
    let alone = |offset: &str| [format!("~ a + offset({offset})"), "~ b".to_string()];
    let shared = |offset: &str| [format!("~ a + offset({offset})"), format!("~ b + offset({offset})")];
    for (computed, column) in [
        (alone("log(days)"), alone("log_days")),
        (shared("log(days)"), shared("log_days")),
        (alone("log(days) + log(people / 2)"), alone("log_rate")),
        // The column of an offset may be a term too, alike or not.
        (alone("log(days)").map(|text| text.replace("~ a", "~ a + log(days) + days")), {
            alone("log_days").map(|text| text.replace("~ a", "~ a + log(days) + days"))
        }),
    ] {
        for mode in ["mode = \"plain\"", "mode = \"sealed\""] {
            let fits = [&computed, &column].map(|formulas| {
                let study = study(formulas.each_ref().map(String::as_str), mode);
                let offset = study.method.offset.as_ref().unwrap();
                let name = offset.column.clone();
                let fits = fitted(match mode.contains("plain") {
                    true => run(&study, &file, Faults::NONE),
                    false => run_sealed(&study, &file, Faults::NONE),
                });
                (name, fits)
            });
            let [(name, one), (other, two)] = fits;
            assert!(name.contains("log(days)") && !other.contains('('), "{name} {other}");
            for (one, two) in one.iter().zip(&two) {
                assert!(one.termination.converged(), "{} {:?}", one.termination, one.notes);
                for (one, two) in one.coefficients.iter().zip(&two.coefficients) {
                    let (at, expected) = (one.estimate.unwrap(), two.estimate.unwrap());
                    assert_eq!(one.term, two.term);
                    assert!(
                        (at - expected).abs() <= 1e-7 * expected.abs().max(1e-2),
                        "{mode} {}: {at} {expected}",
                        one.term
                    );
                }
            }
        }
    }
}

#[test]
fn new_rows_have_the_offset_computed_and_no_score_where_it_has_no_value() {
    let folder = tempfile::tempdir().unwrap();
    let (file, fresh) = (folder.path().join("table.csv"), folder.path().join("fresh.csv"));
    write(&file, 120, days);
    write(&fresh, 9, |row| if row == 4 { 0.0 } else { days(row + 3) });
    for bob in ["~ b", "~ b + offset(log(days))"] {
        let computed = study(["~ a + offset(log(days))", bob], "");
        let fits = fitted(run(&computed, &file, Faults::NONE));
        let (scores, unusable) = scored(&computed, &fits, &fresh);
        let [of_columns, of_functions] = unusable;
        assert_eq!((of_columns, of_functions), (vec![], vec![("log(days)".to_string(), 1)]));
        let estimate = |term: &str| {
            let mut rows = fits.iter().flat_map(|fit| &fit.coefficients);
            rows.find(|row| row.term == term).unwrap().estimate.unwrap()
        };
        for (row, score) in scores.iter().enumerate() {
            let (a, b) = ((row * 7 % 11) as f64 / 4.0, (row * 5 % 13) as f64 / 5.0);
            let expected = estimate("(Intercept)") + estimate("a") * a + estimate("b") * b + days(row + 3).ln();
            match row {
                4 => assert!(score.is_nan(), "{score}"),
                _ => assert!((score - expected).abs() < 1e-9, "{score} {expected}"),
            }
        }
    }
}

#[test]
fn an_offset_without_a_value_or_of_the_outcome_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.csv");
    write(&file, 40, |row| if row == 4 { 0.0 } else { days(row) });
    let refused = |offset: &str| {
        let study = study([&format!("~ a + offset({offset})"), "~ b"], "");
        let columns = Some(["y", "a", "days"].map(str::to_string).to_vec());
        let frame = read::read(&file, &read::Request { columns, ..Default::default() }).unwrap();
        Prepared::new(study, Role::Alice, Policy::default(), frame).err().unwrap().to_string()
    };
    let said = refused("log(days)");
    assert!(said.contains("log(days)") && said.contains("line 6") && said.contains("days = 0"), "{said}");
    let said = refused("log(1 + y)");
    assert!(said.contains("column `y` is the outcome and cannot be the offset too"), "{said}");
}

#[test]
fn the_dot_leaves_out_what_the_offset_is_computed_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.csv");
    std::fs::write(&file, "y,a,days,c\n1,2,3,4\n2,5,4,1\n4,1,2,2\n3,3,5,5\n1,4,7,3\n2,6,9,2\n5,7,1,7\n1,2,6,6\n")
        .unwrap();
    let terms = |alice: &str| {
        let study = study([alice, "~ b"], "");
        let header = ["y", "a", "days", "c"];
        let columns =
            Some(fedreg_common::methods::vertical::prepare::needed_columns(&study, Role::Alice, &header).unwrap());
        let frame = read::read(&file, &read::Request { columns, ..Default::default() }).unwrap();
        Prepared::new(study, Role::Alice, Policy::default(), frame).unwrap().term_names().join(" ")
    };
    assert_eq!(terms("~ . + offset(log(days))"), "a c");
    assert_eq!(terms("~ .^2 + offset(sqrt(days))"), "a c a:c");
    assert_eq!(terms("~ c*."), "c a days c:a c:days");
}

#[test]
fn text_in_a_column_that_the_model_has_as_numbers_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.csv");
    write(&file, 120, days);
    let study = study(["~ a + log(days)", "~ b"], "");
    let fits = fitted(run(&study, &file, Faults::NONE));
    let refused = |text: &str| {
        let new = folder.path().join("new.csv");
        std::fs::write(&new, text).unwrap();
        let header = ["a", "days"];
        let columns = Some(needed_columns(&study, Role::Alice, &header).unwrap());
        let levels = levels(&study, &fits[0].model, &header).unwrap();
        let frame = read::read(&new, &read::Request { columns, levels, unseen: true, ..Default::default() }).unwrap();
        NewRows::new(Arc::clone(&study), Role::Alice, fits[0].model.clone(), frame).err().map(|error| error.to_string())
    };
    assert_eq!(refused("a,days\n1,3\n2,4\n"), None);
    let said = refused("a,days\nold,3\nyoung,4\n").unwrap();
    assert!(said.contains("column `a` has text (`old`), and the model has it as numbers"), "{said}");
}
