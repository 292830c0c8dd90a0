//! What is read, what is refused, and the terms of both.

use super::*;
use proptest::prelude::*;

const COLUMNS: [&str; 5] = ["id", "y", "a", "b", "c"];

fn terms(text: &str) -> Vec<String> {
    let formula = Formula::parse(text).unwrap();
    formula.terms(&COLUMNS, &["id"]).iter().map(Term::to_string).collect()
}

/// Expected: `attr(terms(formula, data = d), "term.labels")` in R 4 on the columns y, a, b, c. Those with an
/// offset differ on purpose: in R the dot makes a column of an offset a predictor too.
#[test]
fn terms_come_in_the_order_of_r() {
    for (text, expected) in [
        ("y ~ a + b", &["a", "b"][..]),
        ("~ b + a", &["b", "a"]),
        ("y ~ .", &["a", "b", "c"]),
        ("y ~ b + .", &["b", "a", "c"]),
        ("y ~ . + offset(c)", &["a", "b"]),
        ("y ~ a:b + a", &["a", "a:b"]),
        ("y ~ a*b", &["a", "b", "a:b"]),
        ("y ~ a + b + b:a", &["a", "b", "a:b"]),
        ("y ~ a*b*c", &["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"]),
        ("y ~ (a + b + c)^2", &["a", "b", "c", "a:b", "a:c", "b:c"]),
        ("y ~ (a + b)^3 + c", &["a", "b", "c", "a:b"]),
        ("y ~ (a + b):c", &["a:c", "b:c"]),
        ("y ~ (a + b)*c", &["a", "b", "c", "a:c", "b:c"]),
        ("y ~ log(a)*b", &["log(a)", "b", "log(a):b"]),
        ("y ~ b + I( a^2 )+log( a,base=2 )", &["b", "I(a^2)", "log(a, base = 2)"]),
        ("y ~ poly(a,3,raw=TRUE) + . ", &["poly(a, 3, raw = TRUE)", "a", "b", "c"]),
        ("y ~ a*b:c", &["a", "b:c", "a:b:c"]),
        ("y ~ a:a + a", &["a"]),
        ("y ~ b:a + .", &["a", "b", "c", "b:a"]),
        ("y ~ 1", &[]),
        ("y ~ . + b:a", &["a", "b", "c", "a:b"]),
        ("y ~ .^2", &["a", "b", "c", "a:b", "a:c", "b:c"]),
        ("y ~ (.)^2", &["a", "b", "c", "a:b", "a:c", "b:c"]),
        ("y ~ (. + log(a))^2", &["a", "b", "c", "log(a)", "a:b", "a:c", "a:log(a)", "b:c", "b:log(a)", "c:log(a)"]),
        ("y ~ b*.", &["b", "a", "c", "b:a", "b:c"]),
        ("y ~ .*b", &["a", "b", "c", "a:b", "b:c"]),
        ("y ~ .:c", &["c", "a:c", "b:c"]),
        ("y ~ (.)", &["a", "b", "c"]),
        ("y ~ .^3 + offset(log(c))", &["a", "b", "a:b"]),
    ] {
        assert_eq!(terms(text), expected, "{text}");
    }
}

#[test]
fn the_intercept_can_be_left_out_in_three_ways() {
    for (text, intercept) in [
        ("y~a", true),
        ("y ~ a - 1", false),
        ("y ~ 0 + a", false),
        ("y~a+0", false),
        ("~ -1 + a", false),
        ("y~a+1", true),
    ] {
        assert_eq!(Formula::parse(text).unwrap().intercept, intercept, "{text}");
    }
}

#[test]
fn outcome_offsets_and_odd_names_are_read() {
    let formula = Formula::parse("`my y` ~ `a b` + offset(`log n`) + x.1_z + offset(w) + größe + `tick\\`ed`").unwrap();
    assert_eq!(formula.outcome.as_deref(), Some("my y"));
    let names = |formula: &Formula| formula.offsets.iter().map(Factor::to_string).collect::<Vec<_>>();
    assert_eq!(names(&formula), ["log n", "w"]);
    assert!(formula.offsets.iter().all(|offset| !offset.is_function()));
    let offsets =
        "~ a + offset(log( days )) + offset(a/b) + offset(I(a^2)) + offset(log(a+1,base=2) - `b c`) + offset(-2 * (a))";
    let computed = Formula::parse(offsets).unwrap();
    let expected = ["log(days)", "I(a/b)", "I(a^2)", "I(log(a + 1, base = 2) - `b c`)", "I(-2 * (a))"];
    assert_eq!(names(&computed), expected);
    assert_eq!(computed.predictors(), ["a"]);
    assert_eq!(computed.offsets[3].columns(), ["a", "b c"]);
    assert_eq!(formula.predictors(), ["a b", "x.1_z", "größe", "tick`ed"]);
    assert_eq!(Formula::parse("~ offset").unwrap().predictors(), ["offset"]);
    assert!(Formula::parse("y ~ .").unwrap().has_rest());
}

#[test]
fn everything_else_is_refused_with_its_position() {
    for (text, at, part) in [
        ("", 1, "expected the name of the outcome, found the end"),
        ("y", 2, "expected `~` after the outcome, found the end"),
        ("y ~", 4, "found the end"),
        ("log(y) ~ a", 1, "functions of the outcome are not understood"),
        ("y ~ sin(a)", 5, "the function `sin` is not understood"),
        ("y ~ s(a, 2)", 5, "the function `s` is not understood"),
        ("y ~ a ^ 2", 7, "found `^`; the power of a column is `I(column^2)`"),
        ("y ~ (a + b", 11, "expected `+` or `)`, found the end"),
        ("y ~ (a + b)^a", 13, "expected a whole number from 1 to 12"),
        ("y ~ (a - b)", 8, "expected `+` or `)`, found `-`"),
        ("y ~ \"a\"", 5, "found the text \"a\""),
        ("y ~ \"a", 5, "the quote is never closed"),
        ("y ~ a / b", 7, "nested terms are not understood"),
        ("y ~ a %in% b", 7, "nested terms are not understood"),
        ("y ~ a | b", 7, "found `|`; groups of rows are not understood"),
        ("y ~ a b", 7, "found the name `b`"),
        ("y ~ a + 2", 9, "found `2`"),
        ("y ~ . - a", 9, "terms cannot be taken away"),
        ("y ~ a - 0", 9, "found `0`"),
        ("y ~ ./a", 6, "nested terms are not understood"),
        ("y ~ a:.b:*", 10, "expected the name of a column, found `*`"),
        ("y ~ .^a", 7, "expected a whole number from 1 to 12"),
        ("y ~ I(.^2)", 7, "expected a number or the name of a column, found `.`"),
        ("y ~ a +", 8, "found the end"),
        ("y ~ `a", 5, "never closed"),
        ("y ~ ``", 5, "no name between"),
        ("y ~ offset(a b)", 14, "expected `)` after the offset, found the name `b`"),
        ("y ~ offset(sin(a))", 12, "`sin(a)` is no offset, which is a column or arithmetic of columns"),
        ("y ~ offset(poly(a, 2))", 12, "`poly(a, 2)` is no offset"),
        ("y ~ offset(log(sin(a)))", 12, "`sin` does not stand inside another function"),
        ("y ~ offset(log(2))", 12, "`log` needs a column"),
        ("y ~ offset(2)", 12, "`I` needs a column"),
        ("y ~ offset(.)", 12, "expected the name of the offset, found `.`"),
        ("y ~ offset()", 12, "expected the name of the offset"),
        ("y ~ a + y", 9, "stands on both sides"),
        ("y ~ 0", 6, "neither a term nor an intercept"),
        ("y ~ a ~ b", 7, "found `~`"),
        ("größe ~ a $", 11, "found `$`"),
    ] {
        let error = Formula::parse(text).unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.problem.contains(part), "{text}: {error}");
    }
}

#[test]
fn a_header_that_is_written_as_a_function_is_a_name_in_backticks() {
    let formula = Formula::parse("`log(crp)` ~ `factor(x)` + `poly(x,2)`:`a*b`").unwrap();
    assert_eq!(formula.outcome.as_deref(), Some("log(crp)"));
    assert_eq!(formula.predictors(), ["factor(x)", "poly(x,2)", "a*b"]);
}

#[test]
fn the_message_points_at_the_place() {
    let message = Formula::parse("y ~ a ^ 2").unwrap_err().to_string();
    assert!(message.ends_with("\n  y ~ a ^ 2\n        ^"), "{message}");
}

#[test]
fn the_dot_is_written_out_with_the_names_of_the_columns() {
    let columns = ["a", "b c", "d`e", "log(f)", "_g", "x.1"];
    for (text, expected) in [
        ("~ .", "~ a + `b c` + `d\\`e` + `log(f)` + `_g` + x.1"),
        ("y ~ log(z) + . + `.`:z.2", "y ~ log(z) + a + `b c` + `d\\`e` + `log(f)` + `_g` + x.1 + `.`:z.2"),
        ("~ I(z * .5)", "~ I(z * .5)"),
        ("~ .^2", "~ (a + `b c` + `d\\`e` + `log(f)` + `_g` + x.1)^2"),
        (
            "~ z:. + (. + z)^2",
            "~ z:(a + `b c` + `d\\`e` + `log(f)` + `_g` + x.1) + (a + `b c` + `d\\`e` + `log(f)` + `_g` + x.1 + z)^2",
        ),
    ] {
        let written = Formula::written_out(text, &columns).unwrap();
        assert_eq!(written, expected);
        let [before, after] = [text, &written].map(|text| Formula::parse(text).unwrap());
        assert_eq!(before.terms(&columns, &[]), after.terms(&[], &[]), "{text}");
    }
}

#[test]
fn products_of_the_dot_are_known_once_the_columns_are() {
    let formula = Formula::parse("~ log(z)*. + z:.").unwrap();
    assert!(formula.has_rest() && formula.predictors() == ["z"] && formula.has_functions());
    assert_eq!(formula.terms(&[], &[]).iter().map(Term::to_string).collect::<Vec<_>>(), ["log(z)"]);
    // A factor stands where the formula has it, and a column of the dot nowhere.
    let terms = formula.expanded(&["a", "z"], &[]).unwrap();
    let places: Vec<(&str, usize)> =
        terms.iter().flat_map(|term| &term.factors).map(|factor| (factor.name(), factor.at())).collect();
    let [log, a, z] = [("log(z)", 3), ("a", 0), ("z", 14)];
    assert_eq!(places, [log, a, z, log, a, log, z, a, z]);
    let names: Vec<String> = (0..100).map(|at| format!("x{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let formula = Formula::parse("~ z + .^2").unwrap();
    let error = formula.expanded(&names, &[]).unwrap_err();
    assert!(error.problem.contains("more than 4096 terms"), "{error}");
    assert_eq!(formula.terms(&names, &[]).len(), 1);
}

#[test]
fn terms_that_contain_others_are_known_by_name() {
    let terms = Formula::parse("~ a * b * c + log(a):d").unwrap().terms(&[], &[]);
    let known = containing(&terms);
    assert_eq!(known["a"], ["a:b", "a:c", "a:b:c"]);
    assert_eq!(known["a:b"], ["a:b:c"]);
    assert!(!known.contains_key("a:b:c") && !known.contains_key("a:d") && !known.contains_key("log(a):d"));
}

#[test]
fn a_product_of_many_names_is_refused_before_it_fills_the_memory() {
    let names: Vec<String> = (0..40).map(|index| format!("x{index}")).collect();
    let error = Formula::parse(&format!("y ~ {}", names.join("*"))).unwrap_err();
    assert!(error.problem.contains("more than 4096 terms"));
    let error =
        Formula::parse(&format!("y ~ {}", (0..10_000).map(|index| format!("x{index}")).collect::<Vec<_>>().join(":")));
    assert!(error.unwrap_err().problem.contains("more than 100 factors"));
    // Two long sums, whose product would be millions of terms.
    let sum = (0..2000).map(|index| format!("x{index}")).collect::<Vec<_>>().join("+");
    for text in [format!("y ~ ({sum})*({sum})"), format!("y ~ ({sum}):({sum})"), format!("y ~ ({sum})^2")] {
        assert!(Formula::parse(&text).unwrap_err().problem.contains("more than 4096 terms"));
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ab.~+*:()`0-9 \\\\é-]{0,40}|\\PC{0,40}") {
        if let Err(error) = Formula::parse(&text) {
            prop_assert!(error.at >= 1 && error.at <= text.chars().count() + 1);
            let _ = error.to_string();
        }
    }

    #[test]
    fn names_in_backticks_come_back(names in proptest::collection::btree_set("[^`\\\\]{1,8}", 1..6)) {
        let names: Vec<String> = names.into_iter().collect();
        let text = format!("~ {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" + "));
        let formula = Formula::parse(&text).unwrap();
        prop_assert_eq!(formula.predictors(), names);
    }
}
