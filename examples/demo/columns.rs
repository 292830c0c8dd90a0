//! Who gets which columns.

use std::collections::HashSet;

use fedreg_common::data::formula::{Formula, FormulaError, Term, all_known, columns, own_alone};
use fedreg_common::data::functions::Factor;
use fedreg_common::data::{syntax, unknown};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_proto::wizard::words;

use crate::Failure;

/// Refuses names that no column has and that are model syntax, such as `log(crp)`. Where a list was cut at the comma of
/// `poly(x,2)`, its pieces belong together.
pub(crate) fn refuse_syntax(names: &[String], header: &[String]) -> Result<(), Failure> {
    let known: HashSet<&String> = header.iter().collect();
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !known.contains(name)) {
        let mut whole = name.clone();
        for next in &names[at + 1..] {
            if whole.matches('(').count() <= whole.matches(')').count() {
                break;
            }
            whole = format!("{whole},{next}");
        }
        if syntax::remedy(&whole).is_some() {
            return Err(Failure::new(Exit::Data, unknown(&whole, header.iter().map(String::as_str))));
        }
    }
    Ok(())
}

/// Refuses a call or a sum where a flag takes a single column of the table, such as `--offset "log(days)"`.
pub(crate) fn single(flag: &str, name: &str, header: &[String]) -> Result<(), Failure> {
    let is_known = header.iter().any(|known| known == name);
    if is_known || name.contains('~') || syntax::remedy(name).is_none() {
        return Ok(());
    }
    let sentence = format!(
        "there is no column `{name}`; {flag} takes the name of a column, so make one of `{name}` beforehand and name that"
    );
    Err(Failure::new(Exit::Data, anyhow::anyhow!(sentence)))
}

/// What one party explains the outcome by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Own {
    Columns(Vec<String>),
    Formula(String),
}

impl Own {
    /// What a flag says of a party with these columns: a list of names, or a formula behind `~`.
    pub(crate) fn read(text: &str, flag: &str, header: &[String]) -> Result<Own, Failure> {
        if !text.trim_start().starts_with('~') {
            let names = list(text, flag)?;
            if let Some((_, right)) = text.split_once('~')
                && names.iter().any(|name| name.contains('~') && !header.contains(name))
            {
                let right = right.trim();
                let written = match flag.split_once(", ") {
                    None => format!("write {flag} \"~ {right}\""),
                    Some((_, role)) => format!("write {role}=~ {right}"),
                };
                return Err(Failure::usage(format!(
                    "{flag}: the outcome of a rehearsal is --outcome, and a formula begins with `~`: {written}"
                )));
            }
            refuse_syntax(&names, header)?;
            return Ok(Own::Columns(names));
        }
        let text = text.trim();
        let formula = Formula::parse(text).map_err(|error| Failure::usage(format!("{flag}: {error}")))?;
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let refused = |error| Failure::new(Exit::Data, anyhow::anyhow!("{flag}: {error}"));
        all_known(text, &formula.terms(&[], &[]), &header).map_err(refused)?;
        let offsets: Vec<Term> = formula.offsets.iter().map(|offset| Term { factors: vec![offset.clone()] }).collect();
        all_known(text, &offsets, &header)
            .map_err(|error| refused(FormulaError { at: formula.places.offset, ..error }))?;
        Ok(Own::Formula(text.to_string()))
    }

    /// Whether it is a formula with `.`.
    fn has_rest(&self) -> bool {
        match self {
            Own::Columns(_) => false,
            Own::Formula(text) => Formula::parse(text).is_ok_and(|formula| formula.has_rest()),
        }
    }

    /// The same with these columns in place of `.`.
    pub(crate) fn written_out(self, rest: &[&str], flag: &str) -> Result<Own, Failure> {
        let offsets = self.offsets();
        let rest: Vec<&str> =
            rest.iter().copied().filter(|name| !offsets.iter().any(|offset| offset == name)).collect();
        match self {
            Own::Formula(text) if Own::Formula(text.clone()).has_rest() => match &rest[..] {
                [] => Err(Failure::usage(format!(
                    "{flag}: `.` stands for no column: every other column is taken, or given to another party"
                ))),
                rest => Formula::written_out(&text, rest)
                    .map(Own::Formula)
                    .map_err(|error| Failure::usage(format!("{flag}: {error}"))),
            },
            Own::Columns(_) | Own::Formula(_) => Ok(self),
        }
    }

    /// The columns inside `offset(..)`.
    pub(crate) fn offsets(&self) -> Vec<String> {
        match self {
            Own::Columns(_) => Vec::new(),
            Own::Formula(text) => {
                let offsets = Formula::parse(text).map(|formula| formula.offsets).unwrap_or_default();
                offsets.iter().flat_map(Factor::columns).map(str::to_string).collect()
            }
        }
    }

    /// The columns of the table that its terms need.
    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Own::Columns(names) => names.clone(),
            Own::Formula(text) => match Formula::parse(text) {
                Ok(formula) => columns(&formula.terms(&[], &[])).into_iter().map(str::to_string).collect(),
                Err(_) => Vec::new(),
            },
        }
    }
}

/// What several parties explain the outcome by, as a flag says: `NAME=COLUMNS` or `NAME=FORMULA` for each, behind `;`.
pub(crate) fn of_parties(text: &str, flag: &str) -> Result<Vec<(Role, String)>, Failure> {
    let wrong = |problem: String| Failure::usage(format!("{flag}: {problem}"));
    let party = |(name, own): (String, String)| name.parse().map(|role| (role, own)).map_err(wrong);
    words::entries(text).map_err(wrong)?.into_iter().map(party).collect()
}

/// What a party explains the outcome by, and the flag that says so.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) flag: String,
    pub(crate) own: Own,
}

/// The parts of parties that share one table: `.` stands for the columns that are neither `taken` nor another party's, and no formula has
/// a column of another party.
pub(crate) fn of_one_table(parts: Vec<Part>, header: &[String], taken: &[&str]) -> Result<Vec<Part>, Failure> {
    let resting: Vec<&Part> = parts.iter().filter(|part| part.own.has_rest()).collect();
    if let [one, another, ..] = resting[..] {
        let sentence = format!(
            "{}: `.` stands in the formula of {} too, and only one party can have the other columns; name those of one of them",
            another.flag, one.role
        );
        return Err(Failure::usage(sentence));
    }
    let named: Vec<(Role, Vec<String>)> = parts.iter().map(|part| (part.role, part.own.columns())).collect();
    let holder = |party: Role, name: &str| {
        let has = |(other, columns): &&(Role, Vec<String>)| *other != party && columns.iter().any(|own| own == name);
        named.iter().find(has).map(|(other, _)| other.to_string())
    };
    let offsets: Vec<String> = parts.iter().flat_map(|part| part.own.offsets()).collect();
    let is_taken = |name: &&str| taken.contains(name) || offsets.iter().any(|offset| offset == name);
    let settled = |part: Part| {
        let Part { role, flag, own } = part;
        if let Own::Formula(text) = &own
            && let Ok(formula) = Formula::parse(text)
        {
            own_alone(text, &formula.terms(&[], &[]), role.name(), |name| holder(role, name))
                .map_err(|error| Failure::usage(format!("{flag}: {error}")))?;
        }
        let free = |name: &&str| !is_taken(name) && holder(role, name).is_none();
        let rest: Vec<&str> = header.iter().map(String::as_str).filter(free).collect();
        own.written_out(&rest, &flag).map(|own| Part { role, flag, own })
    };
    parts.into_iter().map(settled).collect()
}

/// What both parties explain the outcome by.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) alice: Own,
    pub(crate) bob: Own,
}

/// Splits a header between the parties; what neither is given is halved between those without a list.
pub(crate) fn split(
    header: &[String],
    taken: &[&str],
    alice: Option<&str>,
    bob: Option<&str>,
) -> Result<Split, Failure> {
    let mut parts = Vec::new();
    for (role, flag, text) in [(Role::Alice, "--alice", alice), (Role::Bob, "--bob", bob)] {
        if let Some(text) = text {
            parts.push(Part { role, flag: flag.to_string(), own: Own::read(text, flag, header)? });
        }
    }
    let parts = of_one_table(parts, header, taken)?;
    let of = |role: Role| parts.iter().find(|part| part.role == role).map(|part| part.own.clone());
    let (alice, bob) = (of(Role::Alice), of(Role::Bob));
    let named: Vec<String> = alice.iter().chain(&bob).flat_map(|own| [own.columns(), own.offsets()].concat()).collect();
    let free: Vec<String> =
        header.iter().filter(|name| !taken.contains(&name.as_str()) && !named.contains(name)).cloned().collect();
    let [alice, bob] = match (alice, bob) {
        (Some(alice), Some(bob)) => [alice, bob],
        (Some(alice), None) => [alice, Own::Columns(free)],
        (None, Some(bob)) => [Own::Columns(free), bob],
        (None, None) => {
            let (alice, bob) = free.split_at(free.len().div_ceil(2));
            [alice, bob].map(|names| Own::Columns(names.to_vec()))
        }
    };
    match [&alice, &bob].iter().any(|own| own.columns().is_empty()) {
        false => Ok(Split { alice, bob }),
        true => Err(Failure::usage("each party needs at least one column: give them with --alice and --bob")),
    }
}

/// A comma-separated list of names, quoted as in CSV.
pub(crate) fn list(names: &str, flag: &str) -> Result<Vec<String>, Failure> {
    words::list(names).map_err(|problem| Failure::usage(format!("{flag}: {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Vec<String> {
        ["id", "a", "b", "c", "y"].map(String::from).to_vec()
    }

    fn names(alice: Option<&str>, bob: Option<&str>) -> (String, String) {
        let split = split(&header(), &["id", "y"], alice, bob).map_err(|failure| failure.error).unwrap();
        (split.alice.columns().join(" "), split.bob.columns().join(" "))
    }

    #[test]
    fn what_nobody_is_given_is_shared_out() {
        assert_eq!(names(None, None), ("a b".to_string(), "c".to_string()));
        assert_eq!(names(Some("b"), None), ("b".to_string(), "a c".to_string()));
        assert_eq!(names(None, Some("a")), ("b c".to_string(), "a".to_string()));
        assert_eq!(names(Some("a"), Some("c")), ("a".to_string(), "c".to_string()));
    }

    #[test]
    fn a_formula_of_one_party_leaves_the_other_columns_to_the_other() {
        let split =
            split(&header(), &["id", "y"], Some(" ~ log(a) * b"), None).map_err(|failure| failure.error).unwrap();
        assert_eq!(split.alice, Own::Formula("~ log(a) * b".to_string()));
        assert_eq!(split.bob, Own::Columns(vec!["c".to_string()]));
    }

    #[test]
    fn the_dot_is_what_is_neither_taken_nor_of_another_party() {
        let formula = |alice: &str, bob: &str| {
            let split = split(&header(), &["id", "y"], Some(alice), Some(bob)).map_err(|failure| failure.error);
            split.map(|split| split.alice).map_err(|error| error.to_string())
        };
        assert_eq!(formula("~ .", "b").unwrap(), Own::Formula("~ a + c".to_string()));
        assert_eq!(formula("~ log(c) + .", "~ log(b)").unwrap(), Own::Formula("~ log(c) + a + c".to_string()));
        // What is an offset is no term.
        assert_eq!(formula("~ . + offset(c)", "b").unwrap(), Own::Formula("~ a + offset(c)".to_string()));
        assert_eq!(formula("~ .", "~ b + offset(c)").unwrap(), Own::Formula("~ a".to_string()));
        assert_eq!(formula("~ .", "~ b + offset(log(c))").unwrap(), Own::Formula("~ a".to_string()));
        assert_eq!(formula("~ .^2", "~ b").unwrap(), Own::Formula("~ (a + c)^2".to_string()));
        assert_eq!(names(Some("~ a + offset(b)"), None), ("a".to_string(), "c".to_string()));
        for (alice, bob, says) in [
            ("~ .", "a,b,c", "--alice: `.` stands for no column"),
            ("~ .", "~ b + .", "--bob: `.` stands in the formula of alice too"),
            ("~ a + offset(n)", "b", "--alice: formula, character 7: there is no column `n`"),
        ] {
            let said = formula(alice, bob).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
        // What is left for bob is nothing.
        let alone = split(&header(), &["id", "y"], Some("~ ."), None).unwrap_err();
        assert!(alone.error.to_string().contains("each party needs at least one column"), "{}", alone.error);
    }

    #[test]
    fn a_column_of_another_party_is_refused_in_a_formula_with_its_place_and_the_reason() {
        for (alice, bob, says) in [
            (
                "~ a:b",
                "b,c",
                "--alice: formula, character 5: `a:b` has columns of two parties: `a` of alice and `b` of bob",
            ),
            ("~ a + b", "b,c", "--alice: formula, character 7: `b` is a column of bob"),
            (
                "a",
                "~ c * a",
                "--bob: formula, character 7: `c:a` has columns of two parties: `c` of bob and `a` of alice",
            ),
        ] {
            let refused = split(&header(), &["id", "y"], Some(alice), Some(bob)).unwrap_err();
            let said = refused.error.to_string();
            assert!(said.starts_with(says) && said.ends_with('^'), "{said}");
            assert_eq!(refused.exit, Exit::Usage);
        }
    }

    #[test]
    fn odd_names_are_quoted_as_in_csv() {
        let names = list("age,\"weight, kg\",\"say \"\"x\"\"\"", "--alice").map_err(|failure| failure.error).unwrap();
        assert_eq!(names, ["age", "weight, kg", "say \"x\""]);
    }

    #[test]
    fn model_syntax_is_named_as_such_unless_a_column_has_that_name() {
        let refused = |names: &str| {
            let failure = split(&header(), &["id", "y"], Some(names), None).unwrap_err();
            format!("{}", failure.error)
        };
        assert!(
            refused("a,log(b)")
                .starts_with("there is no column `log(b)`; `log(b)` is formula syntax: the function `log`")
        );
        assert!(refused("~ log(d)").contains("--alice: formula, character 3: there is no column `d`"));
        assert!(refused("~ log(d)").ends_with("\n  ~ log(d)\n    ^"), "{}", refused("~ log(d)"));
        assert!(refused("~ log(a").contains("--alice: formula, character 8"), "{}", refused("~ log(a"));
        assert!(refused("poly(a,2),b").contains("there is no column `poly(a,2)`"), "{}", refused("poly(a,2),b"));
        assert!(refused("a:b").contains("interactions are terms of `formula`"));
        assert!(refused("a,-1").contains("`model.intercept = false`"));
        let header = ["y", "log(b)", "poly(a,2)", "a:b", "a"].map(String::from);
        let split =
            split(&header, &["y"], Some("log(b),\"poly(a,2)\",a:b"), None).map_err(|failure| failure.error).unwrap();
        assert_eq!(split.alice.columns(), ["log(b)", "poly(a,2)", "a:b"]);
    }

    #[test]
    fn a_formula_with_an_outcome_is_answered_with_the_one_to_write() {
        for (text, right) in [("y ~ a", "a"), ("y~log(a)*b", "log(a)*b")] {
            let refused = split(&header(), &["id", "y"], Some(text), None).unwrap_err();
            let said = refused.error.to_string();
            assert!(said.ends_with(&format!("a formula begins with `~`: write --alice \"~ {right}\"")), "{said}");
            assert_eq!(refused.exit, Exit::Usage);
        }
        let refused = Own::read("y ~ a", "--parties, carol", &header()).unwrap_err().error.to_string();
        assert!(refused.ends_with("write carol=~ a"), "{refused}");
        let odd = ["y".to_string(), "a ~ b".to_string()];
        assert_eq!(Own::read("a ~ b", "--alice", &odd).map_err(|_| ()), Ok(Own::Columns(vec!["a ~ b".to_string()])));
    }

    #[test]
    fn a_flag_that_takes_a_column_says_so_of_a_function() {
        let refused = single("--offset", "log(days)", &header()).unwrap_err();
        assert_eq!(
            refused.error.to_string(),
            "there is no column `log(days)`; --offset takes the name of a column, so make one of `log(days)` beforehand and name that"
        );
        assert_eq!(refused.exit, Exit::Data);
        assert!(single("--offset", "log(days)", &["log(days)".to_string()]).is_ok());
        // What is no syntax is left to whoever reads the table, who names the nearest column.
        assert!(single("--offset", "dais", &header()).is_ok());
    }

    #[test]
    fn several_parties_have_a_name_each_with_columns_or_a_formula() {
        let read = |text: &str| of_parties(text, "--parties").map_err(|failure| failure.error.to_string());
        let parties = read("alice=a,b; carol = ~ log(c) * d ;bob=\"x;y\",\"u=v\";").unwrap();
        let shown: Vec<String> = parties.iter().map(|(role, own)| format!("{role}:{own}")).collect();
        assert_eq!(shown, ["alice:a,b", "carol:~ log(c) * d", "bob:\"x;y\",\"u=v\""]);
        for (text, says) in [
            ("alice", "--parties: `alice` is not NAME=VALUE"),
            ("alice=a;Carol=b", "--parties: `Carol` is not the name of a party"),
            ("alice=a;carol=b;alice=c", "--parties: names `alice` twice"),
            ("alice=a;carol=", "--parties: says nothing of `carol`"),
        ] {
            assert!(read(text).unwrap_err().contains(says), "{text}");
        }
    }

    #[test]
    fn a_party_without_columns_is_refused() {
        let header = ["y".to_string(), "a".to_string()];
        assert!(split(&header, &["y"], Some("a"), None).is_err());
        assert!(list("a,,b", "--bob").is_err());
        assert!(list("", "--bob").is_err());
    }
}
