//! Studies as they are written, and every mistake with its key.

use super::*;
use crate::glm::Family;
use crate::id::{Digest, Role};
use crate::privacy::release::Declaration;

mod budgets;
mod expectation;
mod several;
mod sites;
mod suggestion;

pub(crate) fn vertical(text: &str) -> Study<Vertical> {
    Study::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")).vertical().unwrap()
}

pub(crate) fn sites(text: &str) -> Study<Sites> {
    Study::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}")).sites().unwrap()
}

/// The same file with all its defaults.
pub(crate) fn written(text: &str) -> String {
    let mut file: StudyFile = toml::from_str(text).unwrap();
    file.complete();
    toml::to_string_pretty(&file).unwrap()
}

const MINIMAL: &str = r#"
    id = "two-hospitals"
    [outcome]
    column = "progression"
    [parties.alice]
    certificate = "alice"
    columns = ["age", "sex"]
    [parties.bob]
    certificate = "bob"
    columns = ["bmi"]
"#;

#[test]
fn a_minimal_study_parses_with_the_documented_defaults() {
    let study = vertical(MINIMAL).method;
    assert_eq!(study.fit.tol, 1e-8);
    assert_eq!(study.fit.round_limit(), 1_000);
    assert!(study.inference.allowed && study.intercept);
}

#[test]
fn errors_from_residuals_are_of_plain_fits_without_a_penalty_that_exchange_a_basis() {
    let with = |mode: &str, more: &str| {
        Study::parse(&format!("mode = {mode:?}\n{MINIMAL}\n[inference]\nerrors = \"HC3\"\n{more}"))
    };
    assert_eq!(with("plain", "").unwrap().vertical().unwrap().method.inference.errors.name(), "HC3");
    for (mode, more, expected) in [
        ("sealed", "", "which a sealed study opens to nobody"),
        ("plain", "allowed = false\n", "rules out"),
        ("plain", "[penalty]\nlambda = 1.0\n", "penalised estimates have no standard errors"),
    ] {
        let error = with(mode, more).unwrap_err().to_string();
        assert!(
            error.contains("`inference.errors`") && error.contains("is \"HC3\"") && error.contains(expected),
            "{error}"
        );
    }
    let private = "mode = \"private\"\n".to_string()
        + MINIMAL
        + "\n[inference]\nerrors = \"HC0\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n";
    let error = Study::parse(&private).unwrap_err().to_string();
    assert!(error.contains("`inference.errors`") && error.contains("no noise"), "{error}");
    let unknown = MINIMAL.to_string() + "\n[inference]\nerrors = \"HC4\"\n";
    assert!(Study::parse(&unknown).unwrap_err().to_string().contains("HC4"));
    // A study that says what is usual is the study that says nothing.
    let usual = Study::parse(&(MINIMAL.to_string() + "\n[inference]\nerrors = \"model\"\n")).unwrap();
    assert_eq!(usual.digest(), Study::parse(MINIMAL).unwrap().digest());
}

#[test]
fn comments_and_order_do_not_change_the_digest_but_values_do() {
    let study = Study::parse(MINIMAL).unwrap();
    let commented = Study::parse(&format!("# reviewed\n{MINIMAL}\n[model]\nfamily = \"gaussian\"")).unwrap();
    assert_eq!(study.digest(), commented.digest());
    let other = Study::parse(&MINIMAL.replace("\"sex\"", "\"sax\"")).unwrap();
    assert_ne!(study.digest(), other.digest());
    assert_eq!(Study::differing_keys(&study.key_digests(), &other.key_digests()), ["parties.alice.columns"]);
}

#[test]
fn what_a_partys_formula_cannot_say_is_refused_with_its_place() {
    let with = |formula: &str| MINIMAL.replace("columns = [\"age\", \"sex\"]", &format!("formula = \"{formula}\""));
    let complaint = |formula: &str| Study::parse(&with(formula)).unwrap_err().to_string();
    assert!(Study::parse(&with("progression ~ age * sex")).is_ok() && Study::parse(&with("~ .")).is_ok());
    assert!(complaint("cost ~ age").contains("explains another column than `outcome.column`, which is `progression`"));
    for (formula, place) in [("~ age + offset(w) + offset(v)", 8), ("cost ~ age", 0)] {
        let said = complaint(formula);
        let shown = format!("\n  {formula}\n  {:>width$}", "^", width = place + 1);
        assert!(said.ends_with(&shown), "{said}");
    }
    assert!(complaint("~ sin(age)").contains("cannot be read: formula, character 3: the function `sin`"));
    assert!(Study::parse(&with("~ log(age) + poly(age, 2)")).is_ok());
}

#[test]
fn a_partys_formula_says_that_there_is_no_intercept_and_which_column_is_the_offset() {
    let named = |[first, second]: [&str; 2], parts: [&str; 2], rest: &str| {
        let parts = [(first, parts[0]), (second, parts[1])];
        let part = |(name, formula): (&str, &str)| {
            format!("[parties.{name}]\ncertificate = \"{name}\"\nformula = \"{formula}\"\n")
        };
        let text = format!(
            "id = \"s\"\nprotocol = \"vertical\"\n{rest}\n{}[outcome]\ncolumn = \"y\"\n",
            parts.map(part).concat()
        );
        Study::parse(&text).map(|study| study.vertical().unwrap()).map_err(|error| error.to_string())
    };
    let study = |parts, rest| named(["alice", "bob"], parts, rest);
    let fit = study(["~ a - 1", "~ 0 + b"], "[model]\nintercept = false").unwrap();
    assert!(!fit.method.intercept && fit.method.offset.is_none());
    let fit = study(["y ~ 0 + a + offset(`log n`)", "~ b"], "").unwrap();
    let offset = fit.method.offset.as_ref().unwrap();
    assert!(!fit.method.intercept && offset.column == "log n" && offset.held_by == HeldBy::One(Role::Alice));
    let fit = study(["~ a + offset(w)", "~ b + offset(w)"], "").unwrap();
    assert!(fit.method.intercept && fit.method.offset.unwrap().held_by == HeldBy::Both);
    let fit = study(["~ a + offset(log( w ))", "~ b + offset(log(w))"], "").unwrap();
    let offset = fit.method.offset.as_ref().unwrap();
    assert!(offset.column == "log(w)" && offset.held_by == HeldBy::Both);
    // A column whose name looks alike is another offset.
    let error = study(["~ a + offset(`log(w)`)", "~ b + offset(log(w))"], "").unwrap_err();
    assert!(error.contains("a model has one offset"), "{error}");
    let stated = "[offset]\ncolumn = \"w\"\nheld_by = \"alice\"";
    let fit = study(["~ a + offset(w)", "~ b"], stated).unwrap();
    assert_eq!(fit.method.offset.unwrap().held_by, HeldBy::One(Role::Alice));
    let fit = named(["ward", "zoo"], ["~ a", "~ b + offset(w)"], "leader = \"ward\"").unwrap();
    assert_eq!(fit.method.offset.unwrap().held_by.word(), "zoo");
    assert!(!named(["ward", "zoo"], ["~ a", "~ b - 1"], "leader = \"zoo\"").unwrap().method.intercept);
    for leader in ["ward", "zoo"] {
        let rest = format!("leader = \"{leader}\"");
        assert!(!named(["ward", "zoo"], ["~ a - 1", "~ b - 1"], &rest).unwrap().method.intercept);
    }
    for (parts, rest, key, says, place) in [
        (["~ a", "~ b + offset(w)"], stated, "bob", "has the offset that `offset.held_by` gives to alice alone", 6),
        (
            ["~ a", "~ b -1"],
            "",
            "bob",
            "leaves the intercept out, which alice holds: write it in the formula of alice",
            4,
        ),
        (["~ a", "~ b + offset(w)"], "", "bob", "of alice and bob only alice can hold one alone", 6),
        (["~ a + offset(w)", "~ b + offset(v)"], "", "bob", "has the offset `v`, and the formula of alice has `w`", 6),
        (["~ offset(w) + offset(v)", "~ b"], "", "alice", "a model has one offset, so make a column of their sum", 2),
        (["~ a + offset(v)", "~ b"], stated, "alice", "another offset than `offset.column`, which is `w`", 6),
    ] {
        let said = study(parts, rest).unwrap_err();
        assert!(said.contains(&format!("`parties.{key}.formula` ")) && said.contains(says), "{said}");
        assert_eq!(said.lines().last().unwrap().find('^'), Some(place + 2), "{said}");
    }
    let parts = ["~ a", "~ b - 1"];
    assert!(named(["ward", "zoo"], parts, "leader = \"ward\"").unwrap_err().contains("which ward holds"));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let error = Study::parse(&format!("{MINIMAL}\n[fit]\nmax_round = 5")).unwrap_err();
    let line = MINIMAL.lines().count() + 3;
    assert_eq!(error.to_string(), format!("line {line}: unknown key `max_round`; did you mean `max_rounds`?"));
    let error = Study::parse(&format!("{MINIMAL}\n[model]\nfamily = \"poison\"")).unwrap_err();
    assert_eq!(error.to_string(), format!("line {line}: unknown value `poison`; did you mean `poisson`?"));
    let error = Study::parse("id = \"a\"\n[rows]\nid = \"id\"\n[rows]\n").unwrap_err();
    assert_eq!(error.to_string(), "line 4: the key `rows` stands there a second time");
}

#[test]
fn values_outside_their_range_are_refused_by_key() {
    for (text, key) in [
        ("[fit]\ntol = 0.0", "fit.tol"),
        ("[penalty]\nlambda = -1.0", "penalty.lambda"),
        ("[penalty]\nlambda = 1.0\nalpha = 1.5", "penalty.alpha"),
        ("[penalty]\nlambda = []", "penalty.lambda"),
        ("[columns.region]\nlevels = [\"a\", \"a\"]", "columns.region.levels"),
        ("[columns.age]\nrange = [70.0, 18.0]", "columns.age.range"),
    ] {
        let error = Study::parse(&format!("{MINIMAL}\n{text}")).unwrap_err();
        assert!(matches!(&error, StudyError::Value { key: named, .. } if named == key), "{text}: {error}");
    }
}

#[test]
fn a_column_at_both_parties_is_refused() {
    let error = Study::parse(&MINIMAL.replace("\"bmi\"", "\"age\"")).unwrap_err();
    assert!(error.to_string().contains("which alice has already"), "{error}");
}

#[test]
fn gaussian_outcome_at_alice_never_declares_the_outcome_itself() {
    let text = MINIMAL.replace("column = \"progression\"", "column = \"progression\"\nheld_by = \"alice\"");
    let study = vertical(&text);
    assert!(!study.disclosures(Role::Alice).allows(Declaration::Outcome));
    let study = vertical(&format!("{text}\n[model]\nfamily = \"binomial\""));
    assert!(study.disclosures(Role::Alice).allows(Declaration::Outcome));
    assert!(!study.disclosures(Role::Bob).allows(Declaration::Outcome));
}

#[test]
fn an_estimated_dispersion_is_refused_where_nobody_may_sum_squared_residuals() {
    let with = |mode: &str, family: &str, more: &str| {
        Study::parse(&format!("mode = {mode:?}\n{MINIMAL}\n[model]\nfamily = {family:?}\n{more}"))
    };
    for (family, base) in [("quasibinomial", Family::Binomial), ("quasipoisson", Family::Poisson)] {
        let method = with("plain", family, "").unwrap().vertical().unwrap().method.clone();
        assert_eq!((method.family, method.quasi, method.stated_family().name()), (base, true, family));
        for (mode, more, reason) in [
            ("sealed", "", "which a sealed study opens to nobody"),
            ("private", "[privacy]\nepsilon = 1.0\n", "a private study has no noise"),
            ("plain", "[penalty]\nlambda = 0.1\n", "has no place beside `[penalty]`"),
        ] {
            let error = with(mode, family, more).unwrap_err().to_string();
            assert!(error.contains("`model.family`") && error.contains(reason), "{error}");
            assert!(error.contains(&format!("{base} has the same estimates")), "{error}");
        }
    }
    // A base family is written, and digested, as ever.
    let keys = |family: &str| with("plain", family, "").unwrap().key_digests();
    let [plain, quasi] = [keys("poisson"), keys("quasipoisson")];
    assert_eq!(Study::differing_keys(&plain, &quasi), ["model.family"]);
    assert!(plain.contains(&("model.family".to_string(), Digest::of(b"\"poisson\""))));
}
