//! Bounds of terms hold for every row, and rows are computed as in a fit without noise.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::ColumnBuilder;
use super::*;

static LEVELS: LazyLock<Vec<String>> = LazyLock::new(|| ["low", "mid", "high"].map(String::from).to_vec());

/// `x`, `z` in ranges, `n` about a centre, `d` of three levels, `t` a truth value.
fn stated(x: [f64; 2], z: [f64; 2]) -> impl Fn(&str) -> Option<Stated> {
    move |name| match name {
        "x" => Some(Stated::Range(x)),
        "z" => Some(Stated::Range(z)),
        "n" => Some(Stated::Centred),
        "d" => Some(Stated::Levels(LEVELS.clone())),
        "t" => Some(Stated::Levels(["false", "true"].map(String::from).to_vec())),
        _ => None,
    }
}

fn formula(text: &str, x: [f64; 2], z: [f64; 2]) -> Result<DeclaredFormula, FormulaError> {
    DeclaredFormula::new(text, stated(x, z))
}

fn column(name: &str, values: &[f64]) -> Column {
    match name {
        "d" | "t" => {
            let levels = if name == "d" { LEVELS.clone() } else { ["false", "true"].map(String::from).to_vec() };
            let code = |value: &f64| if value.is_nan() { MISSING } else { value.abs() as u32 % levels.len() as u32 };
            let codes = values.iter().map(code).collect();
            Column { name: name.into(), values: Values::Categorical { codes, levels, declared: true } }
        }
        _ => Column { name: name.into(), values: Values::Numeric(values.to_vec()) },
    }
}

/// The columns that a formula makes of these values of each column that it needs.
fn made(formula: &DeclaredFormula, of: impl Fn(&str) -> Vec<f64>) -> DMatrix<f64> {
    formula.matrix(formula.columns().map(|name| column(name, &of(name))).collect()).unwrap()
}

const BOX: ([f64; 2], [f64; 2]) = ([1.0, 50.0], [-2.0, 3.0]);

/// Bounds that can be checked by hand.
#[test]
fn bounds_of_terms_follow_from_those_of_their_columns() {
    let indicator = |name: &str| (name.to_owned(), None);
    let within = |name: &str, low: f64, high: f64| (name.to_owned(), Some((low, high)));
    for (text, expected) in [
        ("~ x", vec![within("x", 1.0, 50.0)]),
        ("~ log(x)", vec![within("log(x)", 0.0, 50f64.ln())]),
        ("~ log(x, 2)", vec![within("log(x, 2)", 0.0, 50f64.log2())]),
        ("~ I(z^2)", vec![within("I(z^2)", 0.0, 9.0)]),
        ("~ I(z^3)", vec![within("I(z^3)", -8.0, 27.0)]),
        ("~ I(2 - x*z)", vec![within("I(2 - x * z)", -148.0, 102.0)]),
        ("~ I(z/x)", vec![within("I(z/x)", -2.0, 3.0)]),
        ("~ I(x^-1)", vec![within("I(x^-1)", 0.02, 1.0)]),
        ("~ exp(z)", vec![within("exp(z)", (-2f64).exp(), 3f64.exp())]),
        ("~ sqrt(x + 3)", vec![within("sqrt(x + 3)", 2.0, 53f64.sqrt())]),
        ("~ log1p(x)", vec![within("log1p(x)", 2f64.ln(), 51f64.ln())]),
        (
            "~ poly(z, 2, raw = TRUE)",
            vec![within("poly(z, 2, raw = TRUE)1", -2.0, 3.0), within("poly(z, 2, raw = TRUE)2", 0.0, 9.0)],
        ),
        ("~ scale(x, center = 25, scale = 10)", vec![within("scale(x, center = 25, scale = 10)", -2.4, 2.5)]),
        ("~ x:z", vec![within("x:z", -100.0, 150.0)]),
        ("~ d", vec![indicator("dmid"), indicator("dhigh")]),
        ("~ t + t:x", vec![indicator("tTRUE"), within("tFALSE:x", 0.0, 50.0), within("tTRUE:x", 0.0, 50.0)]),
        ("~ cut(x, c(0, 10, Inf))", vec![indicator("cut(x, c(0, 10, Inf))(10,Inf]")]),
        (
            "~ factor(z, levels = c(0, 1, 2))",
            vec![indicator("factor(z, levels = c(0, 1, 2))1"), indicator("factor(z, levels = c(0, 1, 2))2")],
        ),
        ("~ factor(d)", vec![indicator("factor(d)mid"), indicator("factor(d)high")]),
        (
            "~ bs(x, degree = 2, Boundary.knots = c(0, 50))",
            vec![
                within("bs(x, degree = 2, Boundary.knots = c(0, 50))1", 0.0, 1.0),
                within("bs(x, degree = 2, Boundary.knots = c(0, 50))2", 0.0, 1.0),
            ],
        ),
    ] {
        let formula = formula(text, BOX.0, BOX.1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(formula.extents().len(), expected.len(), "{text}");
        for ((name, extent), (known, bounds)) in formula.extents().iter().zip(&expected) {
            assert_eq!(name, known, "{text}");
            match (extent, bounds) {
                (Extent::Indicator, None) => {}
                (Extent::Within(Interval { low, high }), Some((least, most))) => {
                    // Outward, and by no more than rounding needs.
                    let room = 2e-9 * (1.0 + least.abs().max(most.abs()));
                    assert!(low <= least && least - low <= room, "{text} {name}: {low} {least}");
                    assert!(high >= most && high - most <= room, "{text} {name}: {high} {most}");
                }
                other => panic!("{text} {name}: {other:?}"),
            }
        }
    }
    let centred = formula("~ n", BOX.0, BOX.1).unwrap();
    assert_eq!(centred.extents(), [("n".to_owned(), Extent::Centred)]);
}

#[test]
fn what_looks_at_data_or_has_no_bound_is_refused_with_its_place() {
    for (text, at, part) in [
        ("~ x + poly(x, 2)", 7, "takes its orthogonal basis from the data"),
        ("~ ns(x, df = 4)", 3, "takes its knots from the data; declare `knots` and `Boundary.knots`"),
        ("~ bs(x, knots = 20)", 3, "takes its knots from the data"),
        ("~ z * ns(x, df = 3, Boundary.knots = c(0, 60))", 7, "takes its knots from the data"),
        ("~ scale(x)", 3, "takes its centre from the data"),
        ("~ scale(x, center = 3)", 3, "takes its scale from the data"),
        ("~ factor(x)", 3, "takes its levels from the data"),
        ("~ x + .", 7, "`.` stands for what a table has"),
        ("~ x + log(z)", 7, "`log(z)` has no bound: `z` lies in [-2, 3]"),
        ("~ sqrt(z)", 3, "`sqrt(z)` has no bound"),
        ("~ log1p(z)", 3, "`log1p(z)` has no bound"),
        ("~ I(x/z)", 3, "`z` lies in [-2, 3], which holds 0"),
        ("~ I(z^-2)", 3, "`z^-2` has no bound"),
        ("~ I(z^0.5)", 3, "`z^0.5` has no bound"),
        ("~ I(z^x)", 3, "`z^x` has no bound"),
        ("~ log(x, z)", 3, "its base `z` lies in [-2, 3]"),
        ("~ log(x - 1)", 3, "`log(x - 1)` has no bound: `x - 1` lies in [0, 49]"),
        ("~ log(I(z^3 / 3e9))", 3, "`I(z^3/3e+09)` lies in [-2.66667e-09, 9e-09]"),
        ("~ exp(exp(x))", 3, "has no bound of usable size"),
        ("~ bs(x, Boundary.knots = c(5, 50))", 3, "`x`, which lies in [1, 50], goes beyond `Boundary.knots`"),
        ("~ ns(x, knots = 20, Boundary.knots = c(0, 40))", 3, "goes beyond `Boundary.knots`"),
        ("~ w", 3, "`w` has no public bounds: give [columns.w]"),
        ("~ log(w)", 3, "`w` has no public bounds"),
        ("~ log(n)", 3, "`n` has a centre and a scale; inside a function it needs a `range`"),
        ("~ z + x:n", 7, "each of its columns needs a `range`"),
        ("~ I(d + 1)", 3, "`d` has levels"),
        ("~ x + ", 7, "found the end"),
    ] {
        let error = formula(text, BOX.0, BOX.1).unwrap_err();
        assert!(error.at == at && error.problem.contains(part), "{text}: {error}");
        let shown = error.to_string();
        let caret = shown.lines().last().unwrap().find('^').unwrap();
        assert_eq!(caret, at + 1, "{shown}");
    }
}

#[test]
fn a_row_without_a_value_has_no_numbers_and_changes_no_other() {
    let formula =
        formula("~ log(x)*d + cut(z, c(-2, 0, 2)) + ns(x, knots = 9, Boundary.knots = c(1, 50))", BOX.0, BOX.1);
    let formula = formula.unwrap();
    let usual: BTreeMap<&str, Vec<f64>> = BTreeMap::from([
        ("x", vec![1.0, 2.0, 3.0, 40.0]),
        ("d", vec![0.0, 1.0, 2.0, 1.0]),
        ("z", vec![-1.0, 1.0, 2.0, -1.5]),
    ]);
    let whole = made(&formula, |name| usual[name].clone());
    assert!(whole.iter().all(|value| value.is_finite()));
    // A gap, infinity, a level that is none, and a value outside of the breaks, which its range allows.
    for (name, value) in [("x", f64::NAN), ("x", f64::INFINITY), ("d", f64::NAN), ("z", 3.0), ("z", -2.0)] {
        let mut spoiled = usual.clone();
        spoiled.get_mut(name).unwrap()[1] = value;
        let made = made(&formula, |name| spoiled[name].clone());
        for row in [0, 2, 3] {
            assert_eq!(made.row(row), whole.row(row), "{name} = {value}");
        }
        assert!(made.row(1).iter().all(|value| value.is_nan()), "{name} = {value}");
    }
    // Numbers beyond their range count as its nearer end.
    let mut beyond = usual.clone();
    (beyond.get_mut("x").unwrap()[0], beyond.get_mut("x").unwrap()[3]) = (-7.0, 1e300);
    let moved = made(&formula, |name| beyond[name].clone());
    let ends: Vec<f64> = vec![1.0, 2.0, 3.0, 50.0];
    let at_ends = made(&formula, |name| if name == "x" { ends.clone() } else { usual[name].clone() });
    assert_eq!(moved, at_ends);
    // Where no row has a value there are no numbers at all.
    let none = made(&formula, |name| if name == "x" { vec![f64::NAN; 4] } else { usual[name].clone() });
    assert!(none.iter().all(|value| value.is_nan()));
}

#[test]
fn declared_columns_are_those_of_a_fit_without_noise() {
    let text =
        "~ log(x)*t + bs(x, knots = c(9, 20), Boundary.knots = c(1, 50)) + d:z + scale(z, center = 1, scale = 2)";
    let formula = formula(text, BOX.0, BOX.1).unwrap();
    let values = |name: &str| match name {
        "x" => vec![1.0, 2.5, 20.0, 50.0, 33.0],
        "z" => vec![-2.0, 0.0, 1.0, 3.0, 0.25],
        _ => vec![0.0, 1.0, 2.0, 1.0, 0.0],
    };
    let mut frame = {
        let columns = formula
            .columns()
            .map(|name| bounded(column(name, &values(name)), &stated(BOX.0, BOX.1)(name).unwrap()).unwrap());
        let mut places = Places::default();
        places.extend(Place::Row(1), 5);
        Frame::new(columns.collect(), None, places).unwrap()
    };
    let terms = Formula::parse(text).unwrap().terms(&[], &[]);
    functions::derive(&mut frame, &terms, None, None).unwrap();
    let design = encode::encode(&mut frame, &terms, true, None).unwrap();
    assert_eq!(design.matrix, made(&formula, values));
    let names: Vec<String> = formula.extents().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(design.terms, names);
}

#[test]
fn columns_of_another_kind_than_declared_are_refused() {
    let formula = formula("~ log(x) + d", BOX.0, BOX.1).unwrap();
    let text = formula.matrix(vec![column("d", &[1.0]), column("d", &[1.0])]).unwrap_err().to_string();
    assert!(text.contains("holds text, and the study declares something else"), "{text}");
    let mut undeclared = ColumnBuilder::new("d");
    undeclared.cell(b"low", Place::Row(1)).unwrap();
    let text = formula.matrix(vec![column("x", &[1.0]), undeclared.finish().unwrap()]).unwrap_err().to_string();
    assert!(text.contains("the study declares something else"), "{text}");
}

/// Arithmetic of `x` and `z`, in R's words.
fn arithmetic() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("x".to_owned()),
        Just("z".to_owned()),
        (-40_i32..40).prop_map(|value| format!("({})", f64::from(value) / 8.0)),
    ];
    leaf.prop_recursive(4, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone(), prop::sample::select(vec!["+", "-", "*", "/"]));
        prop_oneof![
            two.prop_map(|(a, b, sign)| format!("({a} {sign} {b})")),
            (inner.clone(), -3_i32..5).prop_map(|(a, power)| format!("({a})^({power})")),
            (inner.clone(), prop::sample::select(vec!["0.5", "1.7", "-0.3"]))
                .prop_map(|(a, power)| format!("({a})^({power})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})^({b})")),
            (inner, prop::sample::select(vec!["log", "log2", "log10", "log1p", "exp", "sqrt", "-"]))
                .prop_map(|(a, f)| format!("{f}({a})")),
        ]
    })
}

/// A formula of everything that has bounds, about arithmetic.
fn bounded_formula() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => arithmetic().prop_map(|of| format!("~ I({of})")),
        1 => (arithmetic(), 1_usize..5).prop_map(|(of, degree)| format!("~ poly({of}, {degree}, raw = TRUE):t + z")),
        1 => arithmetic().prop_map(|of| format!("~ scale({of}, center = 0.7, scale = -3.1):x")),
        1 => prop::sample::select(vec![
            "~ x*z*d",
            "~ ns(z, knots = c(-1, 0.2), Boundary.knots = c(-60, 60)) + d",
            "~ ns(x, knots = c(-1, 0.2, 7), Boundary.knots = c(-60, 60), intercept = TRUE):z",
            "~ ns(x/7 + z, knots = 0.1, Boundary.knots = c(-100, 100)):ns(z, Boundary.knots = c(-60, 60))",
            "~ bs(x, knots = c(-1, 0.2, 7), Boundary.knots = c(-60, 60)):t",
            "~ bs(z, degree = 5, knots = 1, Boundary.knots = c(-50, 50), intercept = TRUE)",
        ]).prop_map(String::from),
    ]
}

/// Two numbers in ascending order, sizes of many kinds and ends of zero among them.
fn range() -> impl Strategy<Value = [f64; 2]> {
    let number = prop_oneof![Just(0.0), -50.0..50.0_f64, 1e-9..1e-3_f64, 0.1..3.0_f64];
    [number.clone(), number].prop_filter_map("empty", |[a, b]| (a != b).then(|| [a.min(b), a.max(b)]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, max_global_rejects: 400_000, ..ProptestConfig::default() })]

    #[test]
    fn no_row_within_the_ranges_leaves_the_bounds_of_a_term(
        text in bounded_formula(), x in range(), z in range(), shares in prop::collection::vec([0.0..=1.0_f64, 0.0..=1.0_f64], 1..20)
    ) {
        // Most have no bound somewhere, and are refused.
        let Ok(formula) = formula(&text, x, z) else { return Err(TestCaseError::reject("no bound")) };
        let along = |[low, high]: [f64; 2], share: f64| (low + share * (high - low)).clamp(low, high);
        let ends = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]];
        let all: Vec<[f64; 2]> = ends.into_iter().chain(shares).collect();
        let made = made(&formula, |name| {
            all.iter().enumerate().map(|(row, [of_x, of_z])| match name {
                "x" => along(x, *of_x),
                "z" => along(z, *of_z),
                _ => row as f64,
            }).collect()
        });
        for ((name, extent), values) in formula.extents().iter().zip(made.column_iter()) {
            for value in values.iter() {
                let inside = match extent {
                    Extent::Within(Interval { low, high }) => low <= value && value <= high,
                    Extent::Indicator => *value == 0.0 || *value == 1.0,
                    Extent::Centred => value.is_finite(),
                };
                prop_assert!(inside, "{text} {name}: {value} outside of {extent:?} where x in {x:?}, z in {z:?}");
            }
        }
    }
}
