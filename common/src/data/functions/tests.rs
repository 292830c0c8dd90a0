//! Functions against `model.matrix` of R, and what is refused.

use serde_json::Value;

use super::super::encode::{Design, drop_unused_levels, encode};
use super::super::formula::Formula;
use super::super::{ColumnBuilder, Place, Places};
use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../tests/vectors/formulas/formulas.json")).unwrap()
}

fn frame(table: &Value) -> Frame {
    let mut places = Places::default();
    let columns = table.as_object().unwrap().iter().map(|(name, cells)| {
        let mut builder = ColumnBuilder::new(name);
        for (row, cell) in cells.as_array().unwrap().iter().enumerate() {
            match cell.as_str() {
                Some(text) => builder.cell(text.as_bytes(), Place::Row(row as u64 + 1)).unwrap(),
                None => builder.number(cell.as_f64().unwrap(), Place::Row(row as u64 + 1)).unwrap(),
            }
        }
        builder.finish().unwrap()
    });
    let columns: Vec<Column> = columns.collect();
    (0..columns[0].values.len()).for_each(|row| places.push(Place::Row(row as u64 + 1)));
    Frame::new(columns, None, places).unwrap()
}

fn numbers(rows: &[(&str, &[f64])]) -> Frame {
    frame(&Value::Object(rows.iter().map(|(name, values)| (name.to_string(), Value::from(values.to_vec()))).collect()))
}

/// The design of a fit, and that of new rows with what the fit learnt.
fn designs(text: &str, table: &Frame, fresh: Option<&Frame>) -> Result<(Design, Option<Design>), DataError> {
    let formula = Formula::parse(text).unwrap();
    // What `.` stands for comes in the order of the table's file.
    let mut names: Vec<&str> = table.names().collect();
    names.sort_by_key(|name| ["x", "z", "k", "age", "g", "a b"].iter().position(|known| known == name));
    let terms = formula.terms(&names, &[]);
    let mut fit = table.clone();
    let learnt = derive(&mut fit, &terms, None, None)?;
    let made = encode(&mut fit, &terms, formula.intercept, None)?;
    let Some(fresh) = fresh else { return Ok((made, None)) };
    let mut fresh = fresh.clone();
    let levels = declare(&mut fresh, &made);
    derive(&mut fresh, &terms, None, Some(Fitted { learnt: &learnt, levels: &levels }))?;
    let new = encode(&mut fresh, &terms, formula.intercept, None)?;
    Ok((made, Some(new)))
}

/// New rows are read with the levels of the fit.
fn declare(fresh: &mut Frame, made: &Design) -> BTreeMap<String, Vec<String>> {
    for (name, levels) in &made.levels {
        let Ok(Column { values: Values::Categorical { codes, levels: own, .. }, .. }) = fresh.column(name) else {
            continue;
        };
        let code = |code: &u32| levels.iter().position(|level| *level == own[*code as usize]).unwrap() as u32;
        let values =
            Values::Categorical { codes: codes.iter().map(code).collect(), levels: levels.clone(), declared: true };
        fresh.take(name).unwrap();
        fresh.add(Column { name: name.clone(), values }).unwrap();
    }
    made.levels.clone()
}

fn compare(text: &str, what: &str, design: &Design, expected: &Value) {
    for (place, column) in expected.as_array().unwrap().iter().enumerate() {
        let expected: Vec<f64> = column.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let size = expected.iter().fold(1.0_f64, |size, value| size.max(value.abs()));
        for (row, (came, expected)) in design.matrix.column(place).iter().zip(&expected).enumerate() {
            let distance = (came - expected).abs() / size;
            assert!(distance <= 1e-12, "{text}, {what}, row {row} of {}: {came} {expected}", design.terms[place]);
        }
    }
}

#[test]
fn columns_of_functions_are_those_of_r_for_rows_of_the_fit_and_for_new_ones() {
    let vectors = vectors();
    let (table, fresh) = (frame(&vectors["table"]), frame(&vectors["fresh"]));
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() >= 60);
    for case in cases {
        let text = case["formula"].as_str().unwrap();
        let (made, new) = designs(text, &table, Some(&fresh)).unwrap_or_else(|error| panic!("{text}: {error}"));
        let columns: Vec<&str> = match &case["columns"] {
            Value::String(one) => vec![one.as_str()],
            many => many.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
        };
        // Names are without backticks but inside of functions, where they are R's.
        let names: Vec<String> = made.terms.iter().map(|name| name.replace('`', "")).collect();
        assert_eq!(names, columns, "{text}");
        compare(text, "the fit", &made, &case["values"]);
        compare(text, "new rows", &new.unwrap(), &case["fresh"]);
    }
}

#[test]
fn numbers_are_written_as_r_writes_them() {
    for (value, expected) in [
        (2.0, "2"),
        (0.1, "0.1"),
        (-3.5, "-3.5"),
        (100_000.0, "1e+05"),
        (123_456.0, "123456"),
        (1_000_000.0, "1e+06"),
        (0.0001, "1e-04"),
        (0.00012, "0.00012"),
        (1e-5, "1e-05"),
        (1.0 / 3.0, "0.333333333333333"),
        (1e15, "1e+15"),
        (0.0, "0"),
        (f64::INFINITY, "Inf"),
    ] {
        assert_eq!(expression::number(value), expected);
    }
}

#[test]
fn a_row_without_a_value_is_named_in_a_fit() {
    let table = numbers(&[("a", &[1.0, 2.0, 0.0, 4.0]), ("b", &[-1.0, 1.0, 1.0, 1.0])]);
    for (text, part) in [
        ("~ log(a)", "the term `log(a)`, row 3: is no number of usable size at a = 0"),
        ("~ sqrt(b)", "the term `sqrt(b)`, row 1: is no number of usable size at b = -1"),
        ("~ I(b/a)", "the term `I(b/a)`, row 3: is no number of usable size at b = 1, a = 0"),
        ("~ exp(1000 * a)", "the term `exp(1000 * a)`, row 1"),
        ("~ cut(a, c(0, 1, 3))", "row 3: lies outside of the breaks"),
        ("~ factor(a, levels = c(1, 2, 4))", "row 3: has the value `"),
        ("~ poly(a, 4)", "degree 4 needs more than 4 different values, and there are 4"),
        ("~ poly(b, 2)", "degree 2 needs more than 2 different values, and there are 2"),
        ("~ bs(b, df = 5)", "a quantile of the values is a boundary knot"),
    ] {
        let error = designs(text, &table, None).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    // Declared knots are no quantiles.
    for (text, knot) in
        [("~ ns(a, knots = 500)", "500"), ("~ bs(a, knots = c(-2.5, 3))", "-2.5"), ("~ ns(a, knots = 4)", "4")]
    {
        let error = designs(text, &table, None).unwrap_err().to_string();
        let term = text.trim_start_matches("~ ");
        let says = format!(
            "the term `{term}`, the knot {knot} does not lie between the boundary knots, which are the least and the largest value, 0 and \
             4; give `knots` between them"
        );
        assert!(error.starts_with(&says), "{text}: {error}");
    }
    let text = frame(&serde_json::json!({"g": ["u", "v", "u"]}));
    let error = designs("~ log(g)", &text, None).unwrap_err().to_string();
    assert!(error.ends_with("the column `g` holds text"), "{error}");
}

#[test]
fn new_rows_without_a_value_are_missing() {
    let table = numbers(&[("a", &[1.0, 2.0, 3.0, 4.0]), ("k", &[1.0, 2.0, 1.0, 2.0])]);
    let mut fresh = numbers(&[("a", &[1.0, 0.0, 9.0]), ("k", &[2.0, 1.0, 3.0])]);
    let formula = Formula::parse("~ log(a) + cut(a, c(0, 2, 5)) + factor(k)").unwrap();
    let terms = formula.terms(&[], &[]);
    let mut fit = table.clone();
    let learnt = derive(&mut fit, &terms, None, None).unwrap();
    let made = encode(&mut fit, &terms, true, None).unwrap();
    derive(&mut fresh, &terms, None, Some(Fitted { learnt: &learnt, levels: &made.levels })).unwrap();
    let without = missing(&fresh, &terms, &Mask::new(3)).unwrap();
    let expected = [("cut(a, c(0, 2, 5))", vec![1, 2]), ("factor(k)", vec![2]), ("log(a)", vec![1])];
    assert_eq!(without, expected.map(|(name, rows)| (name.to_owned(), rows)));
}

#[test]
fn what_a_function_cannot_take_is_refused_with_its_place() {
    for (text, at, part) in [
        ("~ log()", 3, "`log` takes a number and, if given, its base"),
        ("~ log(1)", 3, "`log` needs a column"),
        ("~ log(a, base = -1)", 3, "`log` takes a base above 0 and other than 1, and -1 is none"),
        ("~ log(a, 1)", 3, "`log` takes a base above 0 and other than 1, and 1 is none"),
        ("~ sqrt(a, 2)", 3, "`sqrt` takes one number"),
        ("~ log(sin(a))", 3, "`sin` does not stand inside another function"),
        ("~ I(\"a\")", 3, "the text \"a\" is no number"),
        ("~ poly(a, 0)", 3, "`degree` of `poly` must be a whole number from 1 to 100"),
        ("~ poly(a, b)", 3, "`degree` of `poly` must be a whole number"),
        ("~ poly(a, 2, coefs = 1)", 3, "and not `coefs`"),
        ("~ poly(a, 2, TRUE, 3)", 3, "`poly` takes fewer arguments"),
        ("~ ns(a, knots = c(3, 2))", 3, "`knots` of `ns` must be at most 100 numbers in ascending order"),
        ("~ ns(a, knots = 9, Boundary.knots = c(0, 5))", 3, "`knots` must lie between `Boundary.knots`"),
        ("~ bs(a, df = 2)", 3, "a basis of this kind has at least 3 columns, `df` asks for 2"),
        ("~ cut(a, 3)", 3, "`breaks` of `cut` must be at least three numbers"),
        ("~ cut(a, c(0, 1, 2), labels = \"x\")", 3, "`cut` makes 2 classes and has 1 labels"),
        ("~ factor(log(a))", 3, "`factor` takes the name of a column"),
        ("~ factor(a, levels = c(1, 1))", 3, "`levels` of `factor` must be different texts or numbers"),
        ("~ scale(a, scale = 0)", 3, "`scale` of `scale` must be TRUE, FALSE or a number that can be divided by"),
        ("~ log(a", 8, "expected `)`, found the end"),
        ("~ I(a +)", 8, "expected a number or the name of a column, found `)`"),
        ("~ log(a)^2", 9, "the power of a column is `I(column^2)`"),
        ("~ I(a $ b)", 7, "expected `)`, found `$`"),
    ] {
        let error = Formula::parse(text).unwrap_err();
        assert!(error.at == at && error.problem.contains(part), "{text}: {error}");
    }
    let deep = format!("~ I({}a{})", "(".repeat(100), ")".repeat(100));
    assert!(Formula::parse(&deep).unwrap_err().problem.contains("levels of parentheses"));
    // A tree as deep as this would overflow the stack of who walks it.
    for sign in ["+", "*"] {
        let long = format!("~ I(a{})", format!("{sign}a").repeat(100_000));
        assert!(Formula::parse(&long).unwrap_err().problem.contains("more than 500 numbers and names"));
    }
    let calls = format!("~ {}", ["I(a+a+a)"; 400].join("+"));
    assert!(Formula::parse(&calls).is_ok(), "the parts of one function are counted, not those of all");
    let minus = format!("~ I({}a)", "-".repeat(100_000));
    assert!(Formula::parse(&minus).unwrap_err().problem.contains("levels of parentheses"));
}

#[test]
fn a_column_that_is_named_as_a_function_is_is_not_taken_for_it() {
    let table = numbers(&[("a", &[1.0, 2.0, 3.0]), ("log(a)", &[7.0, 8.0, 10.0])]);
    let (made, _) = designs("~ `log(a)`", &table, None).unwrap();
    assert_eq!((made.terms, made.matrix[(2, 0)]), (vec!["log(a)".to_owned()], 10.0));
    let error = designs("~ log(a)", &table, None).unwrap_err().to_string();
    assert!(error.contains("log(a)"), "{error}");
}

/// R 4.2.2: `lm(y ~ cut(age, c(0, 10, 50, 100)))` of ages from 18 on has the coefficients `(Intercept)` and `(50,100]`.
#[test]
fn a_class_that_no_row_has_is_no_reference_and_no_level_of_new_rows() {
    let (cut, factor) = ("cut(age, c(0, 10, 50, 100))", "factor(k, levels = c(2, 1, 3))");
    let terms = Formula::parse(&format!("~ {cut} + {factor}")).unwrap().terms(&[], &[]);
    let mut fit = numbers(&[("age", &[18.0, 30.0, 60.0, 90.0]), ("k", &[3.0, 2.0, 3.0, 2.0])]);
    let learnt = derive(&mut fit, &terms, None, None).unwrap();
    let unused = drop_unused_levels(&mut fit, &terms, None).unwrap();
    assert_eq!(
        unused.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            format!(
                "no row has the level `(0,10]` of `{cut}`: it has no coefficient, and the first level is `(10,50]`"
            ),
            format!("no row has the level `1` of `{factor}`: it has no coefficient"),
        ]
    );
    let made = encode(&mut fit, &terms, true, None).unwrap();
    assert_eq!(made.terms, [format!("{cut}(50,100]"), format!("{factor}3")]);
    assert_eq!(made.matrix.as_slice(), [0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    let mut fresh = numbers(&[("age", &[5.0, 20.0, 70.0, 60.0]), ("k", &[2.0, 1.0, 3.0, 2.0])]);
    derive(&mut fresh, &terms, None, Some(Fitted { learnt: &learnt, levels: &made.levels })).unwrap();
    let mut without = Mask::new(4);
    assert_eq!(
        missing(&fresh, &terms, &without).unwrap(),
        [(cut.to_owned(), vec![0]), (factor.to_owned(), vec![1])],
        "levels that the fit did not have"
    );
    [0, 1].into_iter().for_each(|row| without.set(row));
    let new = encode(&mut fresh, &terms, true, Some(&without)).unwrap();
    assert_eq!(new.terms, made.terms);
    assert_eq!(new.matrix.as_slice(), [1.0, 1.0, 1.0, 0.0]);
}

/// R 4.2.2: `levels(cut(0.5, breaks))`, which gives breaks that are not finite one width.
#[test]
fn infinite_breaks_have_the_labels_of_r() {
    let table = numbers(&[("a", &[-5.0, -0.5, 0.5, 3.0])]);
    for (breaks, terms) in [
        ("c(-Inf, -1, 0, 1, Inf)", ["(-1,0]", "(0,1]", "(1, Inf]"].as_slice()),
        ("c(-Inf, -1, 0, 1, Inf), right = FALSE", &["[-1,0)", "[0,1)", "[1, Inf)"]),
        ("c(-10, 0, Inf)", &["(0,Inf]"]),
        ("c(-Inf, 0, 10.25)", &["(0,10.2]"]),
    ] {
        let call = format!("cut(a, {breaks})");
        let parsed = Formula::parse(&format!("~ {call}")).unwrap().terms(&[], &[]);
        let mut frame = table.clone();
        derive(&mut frame, &parsed, None, None).unwrap();
        let made = encode(&mut frame, &parsed, true, None).unwrap();
        let name = parsed[0].to_string();
        assert_eq!(made.terms, terms.iter().map(|level| format!("{name}{level}")).collect::<Vec<_>>());
    }
}

#[test]
fn a_level_that_is_none_of_those_declared_is_shown_as_it_stands() {
    let table = frame(&serde_json::json!({ "k": ["a", "o'brien", "a"] }));
    let error = designs("~ factor(k, levels = c(\"a\", \"b\"))", &table, None).unwrap_err().to_string();
    assert!(error.contains("has the value `o'brien`"), "{error}");
}
