//! Which terms a sub-model has: columns and terms by their names.

use crate::data;
use crate::data::error::shown_written;
use crate::data::formula::Term as FormulaTerm;
use crate::fit::INTERCEPT;
use crate::id::Role;
use crate::methods::vertical::names::source;
use crate::study::{Study, Vertical};

use super::Term;

/// The columns of a sub-model, by the names of columns, of terms of a formula, or of single coefficients.
#[derive(Debug, Clone, PartialEq)]
pub enum Columns {
    /// Those of the fit.
    All,
    /// All but these: a term goes where it is named, or where a column that it is made of is.
    Drop(Vec<String>),
    /// These alone: a term stays where it is named, or where all columns that it is made of are.
    Keep(Vec<String>),
}

/// Columns that a sub-model cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A name that stands in no term of the fit.
    #[error("no column or term of the fit is called `{}`{}", shown_written(name), nearest.as_ref().map(|name| format!("; did you mean `{}`?", shown_written(name))).unwrap_or_default())]
    Unknown {
        /// The name.
        name: String,
        /// The known one that it resembles.
        nearest: Option<String>,
    },
    /// The intercept was to be dropped.
    #[error("the intercept cannot be dropped: a model without one is another study, with `model.intercept = false`")]
    Intercept,
    /// No term is left.
    #[error("no column is left in the model")]
    Nothing,
    /// A list of names that cannot be read.
    #[error("`{}` is no list of names: {problem}", shown_written(text))]
    List {
        /// The list.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Columns {
    /// Of each term, whether it stays.
    pub(super) fn stay(&self, study: &Study<Vertical>, terms: &[Term]) -> Result<Vec<bool>, SelectError> {
        let all: Vec<Named> = terms.iter().map(|term| Named::new(study, term)).collect();
        match self {
            Columns::All => Ok(vec![true; terms.len()]),
            Columns::Drop(names) => {
                if names.iter().any(|name| name == INTERCEPT) {
                    return Err(SelectError::Intercept);
                }
                known(names, &all)?;
                Ok(all.iter().map(|term| !names.iter().any(|name| term.is(name) || term.has(name))).collect())
            }
            Columns::Keep(names) => {
                let names: Vec<String> = names.iter().filter(|name| *name != INTERCEPT).cloned().collect();
                known(&names, &all)?;
                let within = |term: &Named| {
                    names.iter().any(|name| term.is(name))
                        || !term.columns.is_empty() && term.columns.iter().all(|column| names.contains(column))
                };
                Ok(all.iter().map(within).collect())
            }
        }
    }
}

/// Refuses names that no term has.
fn known(names: &[String], all: &[Named]) -> Result<(), SelectError> {
    let unknown = names.iter().find(|name| !all.iter().any(|term| term.is(name) || term.has(name)));
    let Some(name) = unknown else { return Ok(()) };
    let known = || all.iter().flat_map(|term| term.columns.iter().chain([&term.name, &term.label]));
    // A product of the same factors in another order is nearer than any other name.
    let product = known().find(|known| name.contains(':') && factors(known) == factors(name)).cloned();
    let nearest = product.or_else(|| data::nearest(name, known().map(String::as_str)));
    Err(SelectError::Unknown { name: name.clone(), nearest })
}

/// The parts of a product, sorted.
fn factors(name: &str) -> Vec<&str> {
    let mut factors: Vec<&str> = name.split(':').collect();
    factors.sort_unstable();
    factors
}

/// A term with all its names.
struct Named {
    /// Of its coefficient.
    name: String,
    /// Of the column or the term of the formula that it comes from.
    label: String,
    columns: Vec<String>,
}

impl Named {
    fn new(study: &Study<Vertical>, term: &Term) -> Named {
        let source = source(study, term.party, &term.name);
        let columns = source.iter().flat_map(|source| &source.factors).flat_map(|factor| factor.columns());
        Named {
            columns: columns.map(str::to_string).collect(),
            label: source.as_ref().map_or_else(|| term.name.clone(), FormulaTerm::to_string),
            name: term.name.clone(),
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name == name || self.label == name
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column == name)
    }
}

/// The column or term of the formula that a coefficient belongs to, for tests of terms.
pub(super) fn label(study: &Study<Vertical>, party: Role, name: &str) -> String {
    source(study, party, name).map_or_else(|| name.to_string(), |term| term.to_string())
}

/// The names in a list with commas between them. A comma within parentheses, quotes or backticks belongs to a name; backticks and quotes
/// around a whole name are left out.
///
/// # Errors
/// An empty name, or a parenthesis or quote that is not closed.
pub fn names(text: &str) -> Result<Vec<String>, SelectError> {
    let wrong = |problem| SelectError::List { text: text.to_string(), problem };
    let (mut parts, mut part, mut depth, mut quote) = (Vec::new(), String::new(), 0_u32, None);
    for letter in text.chars() {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('`' | '"', None) => quote = Some(letter),
            ('(', None) => depth += 1,
            (')', None) => {
                depth = depth.checked_sub(1).ok_or_else(|| wrong("it closes a parenthesis that is not open"))?
            }
            (',', None) if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            (_, None) => {}
        }
        part.push(letter);
    }
    if depth > 0 || quote.is_some() {
        return Err(wrong("a parenthesis or quote is not closed"));
    }
    parts.push(part);
    let bare = |name: &str| {
        let inner = ['`', '"'].into_iter().find_map(|mark| name.strip_prefix(mark)?.strip_suffix(mark));
        inner.unwrap_or(name).to_string()
    };
    let all: Vec<String> = parts.iter().map(|part| bare(part.trim())).collect();
    if all.iter().any(String::is_empty) {
        return Err(wrong("a name is empty"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_in_another_order_is_suggested_and_names_are_shown_as_they_are() {
        let named = |name: &str, label: &str, columns: &[&str]| Named {
            name: name.to_string(),
            label: label.to_string(),
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        let all = [
            named("age", "age", &["age"]),
            named("sexmale:age", "sex:age", &["sex", "age"]),
            named("a\\b\"", "a\\b\"", &["a\\b\""]),
        ];
        let said = |name: &str| known(&[name.to_string()], &all).unwrap_err().to_string();
        assert_eq!(said("age:sex"), "no column or term of the fit is called `age:sex`; did you mean `sex:age`?");
        assert_eq!(
            said("age:sexmale"),
            "no column or term of the fit is called `age:sexmale`; did you mean `sexmale:age`?"
        );
        assert!(said("agee").ends_with("did you mean `age`?"), "{}", said("agee"));
        assert!(said("a\\b\"c").ends_with("is called `a\\b\"c`; did you mean `a\\b\"`?"), "{}", said("a\\b\"c"));
        assert!(said("x\u{1b}[2J").starts_with("no column or term of the fit is called `x\\u{1b}[2J`"));
    }
}
