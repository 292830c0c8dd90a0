//! Formulas in private mode: bounds of terms follow from the study, and the fit is that of the terms.

use super::crossprod::dealt;
use super::*;

/// The same study with formulas in place of lists.
fn with_formulas(alice: &str, bob: &str, more: &str) -> Arc<Study<Vertical>> {
    let text = text(more)
        .replace("columns = [\"a1\", \"a2\"]", &format!("formula = {alice:?}"))
        .replace("columns = [\"b1\", \"kind\"]", &format!("formula = {bob:?}"));
    Arc::new(vertical(&text))
}

const NOISELESS: &str = "epsilon = 1e9\nlarge_epsilon = \"a test of scales\"\nmechanism = \"crossprod\"\n";

#[test]
fn a_formula_of_columns_alone_is_the_list_of_them() {
    let (list, formula) = (study("epsilon = 1.0\n"), with_formulas("~ a1 + a2", "~ b1 + kind", "epsilon = 1.0\n"));
    for role in [Role::Alice, Role::Bob] {
        assert_eq!(list.row_bounds(role).unwrap(), formula.row_bounds(role).unwrap());
        assert_eq!(list.stated_bounds(role), formula.stated_bounds(role));
        for spoil in [&[][..], &[3, 17]] {
            let key = [7; 32];
            let [of_list, of_formula] = [&list, &formula].map(|study| table(study, role, spoil).fingerprint(&key));
            assert_eq!(of_list, of_formula, "{role} {spoil:?}");
        }
    }
}

#[test]
fn with_hardly_any_noise_a_fit_of_formulas_is_the_pooled_one_of_their_terms() {
    let study = with_formulas("~ log(a1 + 1) + I(a2^2) + a2", "~ b1*kind", NOISELESS);
    let ([alice, bob], _) = dealt(&parties(&study, 1e9), Faults::NONE);
    assert_eq!(alice.coefficients, bob.coefficients);
    let terms: Vec<&str> = alice.coefficients.iter().map(|row| row.term.as_str()).collect();
    assert_eq!(terms, ["(Intercept)", "log(a1 + 1)", "I(a2^2)", "a2", "b1", "kindy", "b1:kindy"]);
    let values = values();
    let row = |[a1, a2, b1, kind, _]: [f64; 5]| [1.0, (a1 + 1.0).ln(), a2 * a2, a2, b1, kind, b1 * kind];
    let x = DMatrix::from_fn(ROWS, 7, |at, column| row(values[at])[column]);
    let y = DVector::from_fn(ROWS, |row, _| values[row][4]);
    // What rows in 15 bits and their shortening leave of it is seen in what it predicts.
    let found = DVector::from_iterator(7, alice.coefficients.iter().map(|row| row.estimate.unwrap()));
    let pooled = x.clone().svd(true, true).solve(&y, 1e-12).unwrap();
    let rest = |beta: &DVector<f64>| (&x * beta - &y).norm() / (ROWS as f64).sqrt();
    assert!((&x * (&found - &pooled)).amax() < 0.5, "{found} {pooled}");
    assert!(rest(&found) < rest(&pooled) + 0.05, "{} {}", rest(&found), rest(&pooled));
    for (row, expected) in alice.coefficients[1..4].iter().zip(&pooled.as_slice()[1..4]) {
        let (estimate, error) = (row.estimate.unwrap(), 0.05 * expected.abs().max(2.0));
        assert!((estimate - expected).abs() < error, "{}: {estimate} {expected}", row.term);
    }
}

#[test]
fn a_row_in_which_a_term_has_no_value_becomes_zeros_and_leaves_the_others_as_they_are() {
    let study = with_formulas(
        "~ log(a1 + 1):a2 + a2",
        "~ ns(b1, knots = 20, Boundary.knots = c(10, 30)) + kind",
        "epsilon = 1.0\n",
    );
    rows_that_cannot_be_used_become_zeros(&study);
    // Outside of declared breaks there is no class: before a run that is said, in a run the row counts as zeros.
    let study = with_formulas("~ cut(a1, c(0, 40, 60)) + a2", "~ b1", "epsilon = 1.0\n");
    let outside = values().iter().filter(|row| row[0] > 60.0).count();
    assert!(outside > 0);
    assert_eq!(table(&study, Role::Alice, &[]).clipped().0.invalid(), outside);
    let refused = Table::checked(Arc::clone(&study), Role::Alice, &Policy::default(), frame(Role::Alice, &[]));
    let Err(Abort::OwnData(sentence)) = refused else { panic!("a check lets it pass") };
    assert!(sentence.contains("outside of declared breaks"), "{sentence}");
}

#[test]
fn a_formula_that_looks_at_data_or_has_no_bound_is_refused_with_its_key_and_place() {
    for (formula, part) in [
        ("~ poly(a1, 2)", "takes its orthogonal basis from the data"),
        ("~ ns(a1, df = 3)", "takes its knots from the data"),
        ("~ a2 + log(a1)", "`log(a1)` has no bound: `a1` lies in [0, 100]"),
        ("~ a1 + .", "`.` stands for what a table has"),
        ("~ a3", "`a3` has no public bounds"),
        ("~ a1 + I(y + 1)", "names the outcome `y`"),
    ] {
        let text = text("epsilon = 1.0\n").replace("columns = [\"a1\", \"a2\"]", &format!("formula = {formula:?}"));
        let error = Study::parse(&text).unwrap_err().to_string();
        assert!(error.contains("`parties.alice.formula`") && error.contains(part), "{formula}: {error}");
        assert!(error.lines().last().unwrap().contains('^') || part.contains("outcome"), "{error}");
    }
}
