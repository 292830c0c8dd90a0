//! Private studies of two parties: bounds, plans, designs, and what is refused.

use super::*;
use crate::methods::vertical::pair::Pair;
use crate::study::tests::{vertical, written};
use crate::study::{ColumnTerms, Study};

pub(crate) const PRIVATE: &str = r#"
    id = "private"
    mode = "private"
    [privacy]
    epsilon = 1.0
    delta = 1e-5
    [outcome]
    column = "y"
    [parties.alice]
    certificate = "alice"
    columns = ["age", "smoker"]
    [parties.bob]
    certificate = "bob"
    columns = ["region"]
    [columns.age]
    range = [18, 90]
    [columns.smoker]
    levels = ["false", "true"]
    [columns.region]
    levels = ["north", "south", "west"]
    [columns.y]
    range = [0.0, 100.0]
"#;

fn complaint(text: &str) -> String {
    Study::parse(text).unwrap_err().to_string()
}

fn with(more: &str) -> String {
    format!("{PRIVATE}\n{more}")
}

#[test]
fn bounds_terms_and_plan_follow_from_the_study_and_the_number_of_rows() {
    let study = vertical(PRIVATE);
    assert_eq!(study.row_bounds(Role::Alice).unwrap().names(), ["age", "smokerTRUE"]);
    assert_eq!(study.row_bounds(Role::Bob).unwrap().names(), ["regionsouth", "regionwest"]);
    let plan = study.private_plan(1_000).unwrap();
    let side = |role| Pair::of(&study, role).side();
    assert_eq!((plan.width(side(Role::Alice)), plan.width(side(Role::Bob))), (3, 2));
    let cap = study.run_budget(1_000).unwrap().cap();
    for side in [crate::methods::vertical::plan::Side::Alice, crate::methods::vertical::plan::Side::Bob] {
        assert!(plan.releases(side).charge() <= cap);
    }
    assert_eq!(study.disclosures(Role::Alice).declared(), []);
}

#[test]
fn bounds_that_are_missing_infinite_empty_or_from_the_data_are_refused() {
    let replaced = |range: &str| complaint(&PRIVATE.replace("range = [18, 90]", range));
    assert!(replaced("").contains("lacks public bounds of `age`"), "{}", replaced(""));
    assert!(replaced("range = [18, inf]").contains("two finite numbers"), "{}", replaced("range = [18, inf]"));
    assert!(replaced("range = [18, 18]").contains("ascending"));
    assert!(replaced("range = \"data\"").contains("taken from the data"), "{}", replaced("range = \"data\""));
    assert!(replaced("range = [18]").contains("two numbers"));
    assert!(complaint(&PRIVATE.replace("range = [0.0, 100.0]", "")).contains("give [columns.y] a `range`"));
    assert!(complaint(&PRIVATE.replace("\"north\", \"south\", \"west\"", "\"north\"")).contains("`region`"));
}

#[test]
fn a_centre_with_a_scale_and_a_row_norm_are_bounds_and_part_of_what_is_agreed() {
    let age = |bounds: &str| PRIVATE.replace("range = [18, 90]", bounds);
    let centred = vertical(&age("centre = 50\nscale = 12.5"));
    let bounds = centred.row_bounds(Role::Alice).unwrap();
    assert_eq!(bounds.radius(), 2f64.sqrt());
    let normed =
        |norm: &str| PRIVATE.replace("columns = [\"region\"]", &format!("columns = [\"region\"]\nrow_norm = {norm}"));
    let cut = vertical(&normed("1.25"));
    assert_eq!(cut.row_bounds(Role::Bob).unwrap().radius(), 1.25);
    assert_eq!(cut.row_bounds(Role::Alice), vertical(PRIVATE).row_bounds(Role::Alice));
    // Rows of these bounds, by hand: (62.5 - 50) / 12.5 = 1, divided by the norm 2^1/2, times what the intercept leaves.
    let values = nalgebra::DMatrix::from_row_slice(1, 2, &[62.5, 0.0]);
    let entry = crate::privacy::bounds::ClippedRows::new(&bounds, &values)
        .products(&nalgebra::DVector::from_column_slice(&[0.0, 1.0, 0.0]), 0)[0];
    assert!((entry - (1.0f64 / 2.0 * 2.0 / 3.0).sqrt()).abs() < 2.0 / 32768.0, "{entry}");
    let digests =
        [PRIVATE, &age("centre = 50\nscale = 12.5"), &age("centre = 50\nscale = 12"), &normed("1.25"), &normed("2")]
            .map(|text| Study::parse(text).unwrap().digest());
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(digest), "{at}");
    }
    assert_eq!(vertical(&written(&normed("1.25"))), cut);
}

#[test]
fn centres_scales_and_row_norms_without_meaning_are_refused_by_key() {
    let age = |bounds: &str| complaint(&PRIVATE.replace("range = [18, 90]", bounds));
    for (bounds, says) in [
        ("centre = 50", "`columns.age` needs both `centre` and `scale`"),
        ("scale = 12", "`columns.age` needs both `centre` and `scale`"),
        ("centre = 50\nscale = 0", "`columns.age.scale` must be a positive"),
        ("centre = 50\nscale = -1", "`columns.age.scale` must be a positive"),
        ("centre = 50\nscale = inf", "`columns.age.scale` must be a positive"),
        ("centre = nan\nscale = 1", "`columns.age.centre` must be a finite"),
        ("centre = \"mean\"\nscale = 1", "taken from the data"),
        ("centre = 50\nscale = \"sd\"", "taken from the data"),
        ("centre = [50]\nscale = 1", "centre must be a number"),
        ("range = [18, 90]\ncentre = 50\nscale = 12", "`columns.age` must state one of"),
        ("range = [18, 90]\nlevels = [\"a\", \"b\"]", "`columns.age` must state one of"),
    ] {
        assert!(age(bounds).contains(says), "{bounds}: {}", age(bounds));
    }
    let outcome = complaint(&PRIVATE.replace("range = [0.0, 100.0]", "centre = 50\nscale = 10"));
    assert!(outcome.contains("give [columns.y] a `range`"), "{outcome}");
    for norm in ["0", "-1.0", "inf", "nan"] {
        let text = PRIVATE.replace("[parties.bob]", &format!("[parties.bob]\nrow_norm = {norm}"));
        assert!(complaint(&text).contains("`parties.bob.row_norm` must be a positive"), "{}", complaint(&text));
    }
    let plain = PRIVATE
        .replace("mode = \"private\"", "")
        .replace("[privacy]\n    epsilon = 1.0\n    delta = 1e-5", "")
        .replace("[parties.bob]", "[parties.bob]\nrow_norm = 1.0");
    assert!(complaint(&plain).contains("`parties.bob.row_norm` has no place"), "{}", complaint(&plain));
}

#[test]
fn a_declared_design_is_what_a_prediction_rests_on_and_all_of_it_is_said() {
    let outlook = |design: &str| {
        let study = vertical(&with(design));
        study.outlook(&study.private_plan(5_000).unwrap()).unwrap()
    };
    let neutral = outlook("");
    assert_eq!((neutral.cases.len(), neutral.assumed.correlation, neutral.assumed.random_signs), (3, None, true));
    assert!(!neutral.assumed.words.iter().any(|words| words.contains("(declared)")), "{:?}", neutral.assumed.words);
    let declared = outlook(
        "[privacy.design]\ncorrelation = 0.2\nmean_square = 0.3\ncoefficients = { age = 0.5, smokerTRUE = -0.25, regionsouth = 0.125, \
         regionwest = 1 }",
    );
    let said = declared.assumed.words.join("; ");
    for part in
        ["correlation 0.2 (declared)", "0.300", "age 0.5, smokerTRUE -0.25, regionsouth 0.125, regionwest 1 (declared)"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!((declared.cases.len(), declared.assumed.random_signs), (1, false));
    // Twice the coefficients: the same relative distance if nothing is exchanged, half the noise relative to them but for the cut.
    let size = |size: &str| outlook(&format!("[privacy.design]\ncorrelation = 0.2\ncoefficients = {size}"));
    let (one, two) = (size("0.1"), size("0.2"));
    assert!((one.relative_error_alone / two.relative_error_alone - 1.0).abs() < 1e-9);
    assert!(
        (one.relative_error / two.relative_error / 2.0 - 1.0).abs() < 0.1,
        "{} {}",
        one.relative_error,
        two.relative_error
    );
    assert!(outlook("[privacy.design]\nsignal = 0.3").assumed.words[2].contains("(declared)"));
}

#[test]
fn designs_without_meaning_are_refused_by_key() {
    for (design, says) in [
        ("correlation = 1.0", "`privacy.design.correlation` must be at least 0"),
        ("correlation = nan", "`privacy.design.correlation` must be at least 0"),
        ("mean_square = 0.0", "`privacy.design.mean_square` must lie"),
        ("mean_square = 1.5", "`privacy.design.mean_square` must lie"),
        ("coefficients = 0.0", "`privacy.design.coefficients` must be a positive"),
        ("coefficients = inf", "`privacy.design.coefficients` must be a positive"),
        ("coefficients = \"ols\"", "one number, or a table"),
        ("coefficients = { age = 1.0 }", "lack `smokerTRUE`"),
        (
            "coefficients = { age = 1, smokerTRUE = 1, regionsouth = 1, regionwest = 1, regon = 1 }",
            "name `regon`, which is no term",
        ),
        ("coefficients = { age = 0, smokerTRUE = 0, regionsouth = 0, regionwest = 0 }", "not all of them 0"),
        ("coefficients = { age = nan, smokerTRUE = 0, regionsouth = 0, regionwest = 0 }", "must be finite"),
        ("coefficients = 0.5\nsignal = 0.2", "`privacy.design.signal` has no place beside"),
        ("residual = 0.2", "`privacy.design.residual` has no place"),
        ("outcome_mean = 0.2", "`privacy.design.outcome_mean` has no place in a gaussian model"),
        ("outcome_mean = 1.0", "`privacy.design.outcome_mean` must lie between 0 and 1"),
    ] {
        let complaint = complaint(&with(&format!("[privacy.design]\n{design}")));
        assert!(complaint.contains(says), "{design}: {complaint}");
    }
}

#[test]
fn budgets_that_promise_nothing_are_refused() {
    let replaced = |epsilon: &str| complaint(&PRIVATE.replace("epsilon = 1.0", epsilon));
    assert!(replaced("epsilon = 0.0").contains("positive"));
    assert!(replaced("epsilon = -1.0").contains("positive"));
    assert!(replaced("epsilon = nan").contains("positive"));
    assert!(replaced("epsilon = 11.0").contains("large_epsilon"));
    assert!(Study::parse(&PRIVATE.replace("epsilon = 1.0", "epsilon = 11.0\nlarge_epsilon = \"a rehearsal\"")).is_ok());
    assert!(complaint(&PRIVATE.replace("delta = 1e-5", "delta = 0.0")).contains("privacy.delta"));
    let study = vertical(&PRIVATE.replace("delta = 1e-5", "delta = 0.01"));
    let error = study.private_plan(1_000).unwrap_err();
    assert!(error.to_string().contains("1/n"), "{error}");
    assert!(study.private_plan(100).is_ok());
}

#[test]
fn everything_that_needs_values_without_noise_is_refused_with_the_reason() {
    for (more, reason) in [
        ("[fit]\ntol = 1e-6", "stopping rule"),
        ("[fit]\nacceleration = \"none\"", "without noise"),
        ("[fit]\nmax_rounds = 5", "privacy.rounds"),
        ("[penalty]\nlambda = 0.1", "privacy.ridge"),
        ("[penalty]\nlambda = \"path\"", "privacy.ridge"),
        ("[penalty]\nlambda = 0.1\ncv = 5", "folds"),
        ("[rows]\nmissing = \"complete-cases\"", "which rows are incomplete"),
        ("[offset]\ncolumn = \"o\"", "no public bounds"),
        ("[weights]\ncolumn = \"w\"", "sensitivity"),
        ("[model]\nfamily = \"binomial\"", "the mechanism `residual` is for gaussian only"),
        ("[model]\nintercept = false", "leaves an intercept"),
        ("[model]\nfamily = \"poisson\"", "the mechanism `residual` is for gaussian only"),
    ] {
        let complaint = complaint(&with(more));
        assert!(complaint.contains(reason), "{more}: {complaint}");
    }
    // By the other mechanism a penalty is computed from what has opened.
    let crossprod = |more: &str| with(more).replace("epsilon = 1.0", "epsilon = 1.0\nmechanism = \"crossprod\"");
    for penalty in ["lambda = 0.1", "lambda = [1.0, 0.1]\nalpha = 0.5", "lambda = \"path\"\nalpha = 0"] {
        assert!(Study::parse(&crossprod(&format!("[penalty]\n{penalty}"))).is_ok());
    }
    for (more, reason) in [
        ("[penalty]\nlambda = 0.1\ncv = 5", "`penalty.cv` cannot be used in private mode"),
        ("[weights]\ncolumn = \"w\"\n[penalty]\nlambda = 0.1", "sensitivity"),
        ("[offset]\ncolumn = \"o\"\n[penalty]\nlambda = 0.1", "no public bounds"),
    ] {
        assert!(complaint(&crossprod(more)).contains(reason), "{more}: {}", complaint(&crossprod(more)));
    }
    let twice = crossprod("[penalty]\nlambda = 0.1").replace("epsilon = 1.0", "epsilon = 1.0\nridge = 0.5");
    assert!(complaint(&twice).contains("`privacy.ridge` cannot be used"), "{}", complaint(&twice));
    let hidden = PRIVATE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"alice\"");
    assert!(complaint(&hidden).contains("not protected"));
    let formula = PRIVATE.replace("columns = [\"region\"]", "formula = \"~ region\"");
    let (listed, formula) = (vertical(PRIVATE), vertical(&formula));
    assert_eq!(listed.row_bounds(Role::Bob).unwrap(), formula.row_bounds(Role::Bob).unwrap());
    assert!(complaint(&PRIVATE.replace("mode = \"private\"", "")).contains("set mode"));
}

#[test]
fn a_plain_study_has_the_digest_that_it_had_before_there_was_a_private_mode() {
    let plain = "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = \
                 [\"u\"]\n[parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n";
    let keys = Study::parse(plain).unwrap().key_digests();
    assert!(keys.iter().all(|(key, _)| !key.starts_with("privacy")));
}

#[test]
fn each_party_states_the_bounds_of_its_own_columns_and_of_the_outcome() {
    let study = vertical(
        r#"
        id = "s"
        mode = "private"
        [privacy]
        epsilon = 1.0
        delta = 1e-5
        [outcome]
        column = "y"
        [parties.alice]
        certificate = "alice"
        columns = ["age"]
        [parties.bob]
        certificate = "bob"
        columns = ["region"]
        row_norm = 1.25
        [columns.age]
        range = [18, 90.5]
        [columns.region]
        levels = ["north", "south"]
        [columns.y]
        range = [0, 100]
        "#,
    );
    let stated = |role| study.stated_bounds(role).into_iter().map(|(name, words)| format!("{name}: {words}"));
    assert_eq!(
        stated(Role::Alice).collect::<Vec<_>>(),
        ["age: 18 to 90.5", "norm of rows: the default", "y: 0 to 100"]
    );
    assert_eq!(
        stated(Role::Bob).collect::<Vec<_>>(),
        ["norm of rows: 1.25", "region: levels north, south", "y: 0 to 100"]
    );
    let mut centred = study.clone();
    centred
        .head
        .columns
        .insert("age".to_owned(), ColumnTerms { centre: Some(50.0), scale: Some(12.5), ..ColumnTerms::default() });
    assert_eq!(centred.stated_bounds(Role::Alice)["age"], "centre 50 and scale 12.5");
}

#[test]
fn the_mechanism_crossprod_refuses_rounds_and_cuts_and_takes_an_outcome_at_alice() {
    let by = |more: &str| PRIVATE.replace("[privacy]", &format!("[privacy]\nmechanism = \"crossprod\"\n{more}"));
    for (more, says) in [
        ("rounds = 2", "`privacy.rounds` has no place beside"),
        ("clip = 0.2", "`privacy.clip` has no place beside"),
        ("ridge = -1.0", "`privacy.ridge` must be zero or above"),
    ] {
        assert!(complaint(&by(more)).contains(says), "{more}: {}", complaint(&by(more)));
    }
    let own = format!("{}\n[fit]\ncoefficients = \"own\"\n", by(""));
    assert!(complaint(&own).contains("both know all coefficients"), "{}", complaint(&own));
    let study = vertical(&by("ridge = 0.5"));
    assert!(study.is_dealt() && !vertical(PRIVATE).is_dealt());
    // Masked columns alone may leave as they are; what follows from them leaves with noise.
    let masked = [crate::privacy::release::Declaration::Masked];
    assert_eq!(study.disclosures(Role::Alice).declared(), masked);
    let plan = study.private_plan(1_000).unwrap();
    let cap = study.run_budget(1_000).unwrap().cap();
    for role in [Role::Alice, Role::Bob] {
        let side = Pair::of(&study, role).side();
        assert!(plan.releases(side).charge() <= cap && plan.releases(side).charge() > 0.999 * cap);
    }
    // Masks may be dealt by somebody apart from the coordinator, where masks are dealt.
    let dealer = "\n[dealer]\ncertificate = \"registry\"\n";
    assert!(vertical(&format!("{}{dealer}", by(""))).is_dealt());
    assert!(complaint(&format!("{PRIVATE}{dealer}")).contains("`dealer` has no place in a private study"));
    // A study that names no mechanism means the other one, with its digest.
    let named = vertical(&PRIVATE.replace("[privacy]", "[privacy]\nmechanism = \"residual\""));
    assert_eq!(named.private_plan(1_000).unwrap(), vertical(PRIVATE).private_plan(1_000).unwrap());
    let errors = study.errors_by_mechanism(1_000);
    assert!(errors.crossprod < errors.residual, "{errors:?}");
    assert_eq!(errors, ErrorsByMechanism { ..vertical(&by("ridge = 0.5")).errors_by_mechanism(1_000) });
    assert!(errors.text().contains("Best by this: "), "{}", errors.text());
}

#[test]
fn the_mechanism_crossprod_takes_a_binomial_outcome_and_refuses_what_is_not_proved() {
    let text = PRIVATE
        .replace("[privacy]", "[model]\nfamily = \"binomial\"\n[privacy]\nmechanism = \"crossprod\"")
        .replace("range = [0.0, 100.0]", "range = [0, 1]");
    let study = vertical(&text);
    assert!(study.is_dealt());
    assert_eq!(study.disclosures(Role::Alice).declared(), [crate::privacy::release::Declaration::Masked]);
    // The intercept is no entry of a row.
    assert_eq!([Role::Alice, Role::Bob].map(|role| study.row_bounds(role).unwrap().width()), [2, 2]);
    let plan = study.private_plan(1_000).unwrap();
    let cap = study.run_budget(1_000).unwrap().cap();
    for role in [Role::Alice, Role::Bob] {
        let side = Pair::of(&study, role).side();
        assert!(plan.releases(side).charge() <= cap && plan.releases(side).charge() > 0.98 * cap);
        assert_eq!(plan.lines(side).len(), 6);
    }
    assert_eq!(plan.exchanges(), 3);
    // Bob has no vector of an outcome that Alice holds alone, and she pays for more of what opens.
    let alone = vertical(&text.replace("\"y\"", "\"y\"\nheld_by = \"alice\""));
    assert_eq!(alone.disclosures(Role::Alice).declared(), [crate::privacy::release::Declaration::Masked]);
    let planned = alone.private_plan(1_000).unwrap();
    let sides = [crate::methods::vertical::plan::Side::Alice, crate::methods::vertical::plan::Side::Bob];
    assert_eq!(sides.map(|side| planned.lines(side).len()), [6, 5]);
    assert!(sides.iter().all(|side| planned.releases(*side).charge() <= cap));
    let [more, less] = [&alone, &study].map(|study| study.errors_by_mechanism(100_000).crossprod);
    assert!(more > less && more < less.map(|less| 2.0 * less), "{more:?} {less:?}");
    let outlook = study.outlook(&plan).unwrap();
    assert!(outlook.assumed.words.iter().any(|word| word.contains("a signal of 1 log odds")), "{:?}", outlook.assumed);
    let errors = study.errors_by_mechanism(100_000);
    assert!(errors.residual.is_none() && errors.crossprod < errors.nothing, "{errors:?}");
    let more = |more: &str| complaint(&format!("{text}\n{more}"));
    for (given, reason) in [
        (more("[weights]\ncolumn = \"w\""), "sensitivity of that person's row"),
        (more("[offset]\ncolumn = \"o\""), "no public bounds"),
        (more("[penalty]\nlambda = 0.1"), "takes no penalty"),
        (more("[penalty]\nlambda = 0.1\ncv = 5"), "errors of folds"),
        (complaint(&text.replace("[0, 1]", "[0, 2]")), "`columns.y.range` must be [0, 1]"),
        (complaint(&text.replace("epsilon = 1.0", "epsilon = 1.0\nridge = 0.5")), "takes no penalty"),
        (complaint(&text.replace("epsilon = 1.0", "epsilon = 1.0\nrounds = 2")), "`privacy.rounds` has no place"),
    ] {
        assert!(given.contains(reason), "{reason}: {given}");
    }
}

/// Few ones cost weight, and the plan says for how many it holds before anything else.
#[test]
fn a_declared_mean_of_the_outcome_is_what_a_binomial_plan_holds_for() {
    let text = PRIVATE
        .replace("[privacy]", "[model]\nfamily = \"binomial\"\n[privacy]\nmechanism = \"crossprod\"")
        .replace("range = [0.0, 100.0]", "range = [0, 1]");
    let outlook = |design: &str| {
        let study = vertical(&format!("{text}\n[privacy.design]\ncorrelation = 0.3\n{design}"));
        (study.outlook(&study.private_plan(100_000).unwrap()).unwrap(), study.digest())
    };
    let ((neutral, digest), (half, _)) = (outlook(""), outlook("outcome_mean = 0.5"));
    assert!((neutral.relative_error / half.relative_error - 1.0).abs() < 1e-9);
    assert!(neutral.assumed.words[0].starts_with("half of the rows have the outcome 1 (not declared)"));
    let (rare, other) = outlook("outcome_mean = 0.02");
    assert_eq!(rare.assumed.words[0], "2 % of the rows have the outcome 1 (declared)");
    let (other_rare, _) = outlook("outcome_mean = 0.07");
    assert_eq!(other_rare.assumed.words[0], "7 % of the rows have the outcome 1 (declared)");
    let times = rare.relative_error / neutral.relative_error;
    assert!((8.0..13.0).contains(&times) && digest != other, "{times}");
    let (few, _) = outlook("outcome_mean = 0.98");
    assert!((few.relative_error / rare.relative_error - 1.0).abs() < 1e-6);
}

#[test]
fn the_mechanism_crossprod_takes_counts_with_a_largest_one_and_refuses_other_ranges() {
    let text = PRIVATE.replace("[privacy]", "[model]\nfamily = \"poisson\"\n[privacy]\nmechanism = \"crossprod\"");
    let study = vertical(&text);
    let plan = study.private_plan(100_000).unwrap();
    let outlook = study.outlook(&plan).unwrap();
    let words = outlook.assumed.words.join("; ");
    assert!(words.contains("a signal of 0.5 log rates") && words.contains("0.125 of the largest one"), "{words}");
    let errors = study.errors_by_mechanism(100_000);
    assert!(errors.residual.is_none() && errors.crossprod < errors.nothing, "{errors:?}");
    // The largest count is the unit of everything.
    let longer = vertical(&text.replace("range = [0.0, 100.0]", "range = [0, 7]"));
    assert_eq!(longer.errors_by_mechanism(100_000), errors);
    let more = |more: &str| complaint(&format!("{text}\n{more}"));
    for (given, reason) in [
        (complaint(&text.replace("[0.0, 100.0]", "[1, 100]")), "`columns.y.range` must begin at 0"),
        (complaint(&text.replace("[0.0, 100.0]", "[-5, 100]")), "`columns.y.range` must begin at 0"),
        (more("[penalty]\nlambda = 0.1"), "a poisson model takes no penalty"),
        (complaint(&text.replace("epsilon = 1.0", "epsilon = 1.0\nridge = 0.5")), "a poisson model takes no penalty"),
        (more("[offset]\ncolumn = \"o\""), "no public bounds"),
    ] {
        assert!(given.contains(reason), "{reason}: {given}");
    }
}
