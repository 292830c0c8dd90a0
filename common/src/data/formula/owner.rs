//! Whether the columns of a formula are there, and whether they are the party's own.

use super::super::functions::Factor;
use super::{FormulaError, Term};

/// Refuses terms of a formula whose columns a table with this header has not, with the place of the first.
///
/// # Errors
///
/// A column that is not there; the nearest name is suggested.
pub fn all_known(text: &str, terms: &[Term], header: &[&str]) -> Result<(), FormulaError> {
    for factor in terms.iter().flat_map(|term| &term.factors) {
        if let Some(name) = factor.columns().into_iter().find(|name| !header.contains(name)) {
            let problem = super::super::unknown(name, header.iter().copied()).to_string();
            return Err(FormulaError { at: factor.at().max(1), problem, text: text.to_owned() });
        }
    }
    Ok(())
}

/// Refuses terms of a party's formula with columns of another party, with the place of the first; `holder` says whose a column is, and
/// nothing of the party's own.
///
/// # Errors
///
/// A column of another party. A product of columns of two parties comes first, as it is the one that cannot be had otherwise.
pub fn own_alone(
    text: &str,
    terms: &[Term],
    party: &str,
    holder: impl Fn(&str) -> Option<String>,
) -> Result<(), FormulaError> {
    let foreign = |term| Foreign::of(term, &holder);
    let found: Vec<Foreign> = terms.iter().filter_map(foreign).collect();
    let Some(first) = found.iter().find(|foreign| foreign.own.is_some()).or(found.first()) else {
        return Ok(());
    };
    let Foreign { term, own, at, name, holder } = first;
    let problem = match own {
        Some(own) => format!(
            "`{}` has columns of two parties: `{own}` of {party} and `{name}` of {holder}. What is computed from both needs {holder}'s value \
             of every row at {party}, and no mode lets it leave; leave the term out, or let one party hold both columns",
            super::super::error::shown(&term.to_string())
        ),
        None => format!(
            "`{name}` is a column of {holder}, and a formula of {party} has columns of {party} alone; a column is named at one party"
        ),
    };
    Err(FormulaError { at: *at, problem, text: text.to_owned() })
}

/// A column of another party in a term.
struct Foreign<'a> {
    term: &'a Term,
    /// A column of the party's own beside it.
    own: Option<String>,
    at: usize,
    name: String,
    holder: String,
}

impl<'a> Foreign<'a> {
    /// The first of a term.
    fn of(term: &'a Term, holder: &impl Fn(&str) -> Option<String>) -> Option<Foreign<'a>> {
        let columns = |factor: &'a Factor| factor.columns().into_iter().map(move |name| (factor.at().max(1), name));
        let named: Vec<(usize, &str)> = term.factors.iter().flat_map(columns).collect();
        let (at, name, of) = named.iter().find_map(|(at, name)| holder(name).map(|of| (*at, *name, of)))?;
        let own =
            named.iter().find(|(_, name)| holder(name).is_none()).map(|(_, name)| super::super::error::shown(name));
        Some(Foreign { term, own, at, name: super::super::error::shown(name), holder: of })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Formula;
    use super::*;

    #[test]
    fn a_column_that_the_table_has_not_is_named_with_its_place() {
        let text = "~ a + log(x + crp) + b:y";
        let terms = Formula::parse(text).unwrap().terms(&[], &[]);
        assert_eq!(all_known(text, &terms, &["a", "b", "x", "crp", "y"]), Ok(()));
        for (header, at, part) in [
            (&["a", "b", "x", "y"][..], 7, "there is no column `crp`"),
            (&["b", "x", "crp", "y"], 3, "there is no column `a`"),
            (&["a", "b", "x", "crp", "yy"], 24, "there is no column `y`"),
        ] {
            let error = all_known(text, &terms, header).unwrap_err();
            assert!(error.at == at && error.problem.contains(part), "{error}");
            assert_eq!(error.to_string().lines().last().unwrap().find('^'), Some(at + 1), "{error}");
        }
    }

    #[test]
    fn a_term_with_a_column_of_another_party_is_refused_with_its_place_and_the_reason() {
        let holder = |name: &str| ["s5", "s6"].contains(&name).then(|| "bob".to_owned());
        let refused = |text: &str| {
            let terms = Formula::parse(text).unwrap().terms(&[], &[]);
            own_alone(text, &terms, "alice", holder)
        };
        assert_eq!(refused("~ age * bmi + log(sex)"), Ok(()));
        for (text, at, part) in [
            (
                "~ bmi + age:s5",
                13,
                "`age:s5` has columns of two parties: `age` of alice and `s5` of bob. What is computed",
            ),
            ("~ age * s5", 9, "needs bob's value of every row at alice, and no mode lets it leave"),
            ("~ bmi + I(s6 / age)", 9, "`I(s6/age)` has columns of two parties: `age` of alice and `s6` of bob"),
            ("~ age + log(s5)", 9, "`s5` is a column of bob, and a formula of alice has columns of alice alone"),
            ("~ s6 + age:bmi:s5", 16, "leave the term out, or let one party hold both columns"),
        ] {
            let error = refused(text).unwrap_err();
            assert!(error.at == at && error.problem.contains(part), "{text}: {error}");
            assert!(error.to_string().ends_with('^'), "{error}");
        }
    }
}
