//! Reads `y ~ a + b * c` as R does, and turns it into the list of terms of the model.
//!
//! Understood are `+`, `:`, `*`, `.` for all other columns, `- 1`, `+ 0` and `0 +` for no intercept, `offset(x)`, and
//! backticks around names that are not plain words. Everything else is refused with its position.

use std::fmt;

/// Most terms of one formula; `a * b * c ...` doubles them with every name.
pub const MAX_TERMS: usize = 4096;

/// Longest formula, bytes.
pub const MAX_LENGTH: usize = 1 << 20;

/// One term of a model: a column, or an interaction of several, such as `a:b`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// The columns, in the order in which the formula names them first.
    pub factors: Vec<String>,
}

impl Term {
    /// A column by itself.
    pub fn column(name: impl Into<String>) -> Term {
        Term { factors: vec![name.into()] }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.factors.join(":"))
    }
}

/// A formula as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formula {
    /// The column on the left, if there is one.
    pub outcome: Option<String>,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// Columns inside `offset(..)`; their sum is the offset.
    pub offsets: Vec<String>,
    items: Vec<Item>,
    /// Names in the order of their first appearance.
    names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Rest,
    Term(Vec<String>),
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    ///
    /// Anything outside the grammar, with the position of the first character that was not understood.
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        Parser::new(text)?.formula()
    }

    /// Whether the formula has a `.`, which stands for all other columns.
    pub fn has_rest(&self) -> bool {
        self.items.contains(&Item::Rest)
    }

    /// Names of the columns that the right side uses by name, offsets apart, in order of appearance.
    pub fn predictors(&self) -> Vec<&str> {
        let mut out = Vec::new();
        for name in self.items.iter().filter_map(|item| if let Item::Term(names) = item { Some(names) } else { None }) {
            out.extend(name.iter().map(String::as_str).filter(|name| !out.contains(name)).collect::<Vec<_>>());
        }
        out
    }

    /// The terms, each once, single columns before interactions of two, and so on, as R orders them.
    ///
    /// `.` stands for those of `columns` that are not the outcome, not in an `offset(..)` and not in `others` (the id and
    /// the weights).
    pub fn terms(&self, columns: &[&str], others: &[&str]) -> Vec<Term> {
        let free = |name: &str| {
            self.outcome.as_deref() != Some(name)
                && !self.offsets.iter().any(|offset| offset == name)
                && !others.contains(&name)
        };
        let mut rank: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
        for name in self.names.iter().map(String::as_str).chain(columns.iter().copied()) {
            let next = rank.len();
            rank.entry(name).or_insert(next);
        }
        let mut seen = std::collections::HashSet::new();
        let mut terms = Vec::new();
        let mut add = |mut factors: Vec<String>| {
            factors.sort_by_key(|name| rank.get(name.as_str()).copied());
            factors.dedup();
            if seen.insert(factors.clone()) {
                terms.push(Term { factors });
            }
        };
        for item in &self.items {
            match item {
                Item::Rest => columns.iter().filter(|name| free(name)).for_each(|name| add(vec![name.to_string()])),
                Item::Term(factors) => add(factors.clone()),
            }
        }
        terms.sort_by_key(|term| term.factors.len());
        terms
    }
}

/// Why a formula was refused, with a caret below the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("formula, character {at}: {problem}{}", caret(text, *at))]
pub struct FormulaError {
    /// Position in characters, from 1.
    pub at: usize,
    /// What was expected, and what came.
    pub problem: String,
    /// The formula.
    pub text: String,
}

/// A long formula is cut to the surroundings of the problem.
fn caret(text: &str, at: usize) -> String {
    const AROUND: usize = 60;
    let start = at.saturating_sub(1 + AROUND);
    let window: String = text
        .chars()
        .skip(start)
        .take(2 * AROUND)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    format!("\n  {window}\n  {:>width$}", "^", width = at - start)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    /// A number, which only 0 and 1 may be.
    Number(String),
    Dot,
    Symbol(char),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => write!(f, "the name `{}`", super::error::shown(name)),
            Token::Number(number) => write!(f, "`{}`", super::error::shown(number)),
            Token::Dot => write!(f, "`.`"),
            Token::Symbol(symbol) => write!(f, "`{}`", symbol.escape_debug()),
            Token::End => write!(f, "the end"),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    next: usize,
    names: Vec<String>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, FormulaError> {
        if text.len() > MAX_LENGTH {
            let problem = format!("the formula has {} bytes, at most {MAX_LENGTH} are read", text.len());
            return Err(FormulaError { at: 1, problem, text: text.chars().take(100).collect() });
        }
        let refuse = |at: usize, problem: String| Err(FormulaError { at, problem, text: text.to_owned() });
        let mut tokens = Vec::new();
        let mut characters = text.chars().enumerate().map(|(index, c)| (index + 1, c)).peekable();
        while let Some((at, character)) = characters.next() {
            let token = match character {
                c if c.is_whitespace() => continue,
                '`' => {
                    let mut name = String::new();
                    loop {
                        match characters.next() {
                            Some((_, '`')) => break,
                            Some((_, '\\')) => match characters.next() {
                                Some((_, escaped @ ('`' | '\\'))) => name.push(escaped),
                                Some((at, _)) => {
                                    return refuse(at, "only ` and \\ can follow a \\ inside backticks".to_owned());
                                }
                                None => return refuse(at, "the backtick is never closed".to_owned()),
                            },
                            Some((_, c)) => name.push(c),
                            None => return refuse(at, "the backtick is never closed".to_owned()),
                        }
                    }
                    if name.is_empty() {
                        return refuse(at, "there is no name between the backticks".to_owned());
                    }
                    Token::Name(name)
                }
                c if c.is_alphanumeric() || c == '.' => {
                    let mut word = String::from(c);
                    while let Some((_, c)) = characters.next_if(|&(_, c)| c.is_alphanumeric() || matches!(c, '.' | '_'))
                    {
                        word.push(c);
                    }
                    let mut start = word.chars();
                    match (start.next(), start.next()) {
                        (Some('.'), None) => Token::Dot,
                        (Some('.'), Some(c)) if c.is_ascii_digit() => Token::Number(word),
                        (Some(c), _) if c.is_numeric() => Token::Number(word),
                        _ => Token::Name(word),
                    }
                }
                c => Token::Symbol(c),
            };
            tokens.push((at, token));
        }
        Ok(Parser { text, tokens, next: 0, names: Vec::new() })
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.next).map_or(Token::End, |(_, token)| token.clone())
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.peek() == Token::Symbol(symbol);
        self.next += usize::from(found);
        found
    }

    /// What stands between the parenthesis that comes next and the one that closes it.
    fn inside(&self) -> String {
        let Some(&(open, _)) = self.tokens.get(self.next) else { return String::new() };
        let mut depth = 0usize;
        let inside = |c: &char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth > 0
        };
        self.text.chars().skip(open - 1).take_while(inside).skip(1).collect()
    }

    fn refuse<T>(&self, index: usize, problem: String) -> Result<T, FormulaError> {
        let at = self.tokens.get(index).map_or(self.text.chars().count() + 1, |&(at, _)| at);
        Err(FormulaError { at, problem, text: self.text.to_owned() })
    }

    fn formula(mut self) -> Result<Formula, FormulaError> {
        let outcome = match self.peek() {
            Token::Symbol('~') => None,
            Token::Name(_) | Token::Number(_) | Token::Symbol(_) | Token::Dot | Token::End => {
                Some(self.name("the outcome")?)
            }
        };
        if !self.take_symbol('~') {
            let found = self.peek();
            let hint = match found {
                Token::Symbol('(') => "; functions of the outcome are not understood, transform the column beforehand",
                Token::Name(_) | Token::Number(_) | Token::Symbol(_) | Token::Dot | Token::End => "",
            };
            return self.refuse(self.next, format!("expected `~` after the outcome, found {found}{hint}"));
        }
        let mut formula =
            Formula { outcome, intercept: true, offsets: Vec::new(), items: Vec::new(), names: Vec::new() };
        let mut minus = self.take_symbol('-');
        if !minus {
            self.take_symbol('+');
        }
        loop {
            self.item(&mut formula, minus)?;
            match self.peek() {
                Token::End => break,
                Token::Symbol(sign @ ('+' | '-')) => {
                    self.next += 1;
                    minus = sign == '-';
                }
                found @ (Token::Name(_) | Token::Number(_) | Token::Symbol(_) | Token::Dot) => {
                    let hint = match found {
                        Token::Symbol('^') => {
                            "powers are not understood, make a column of them beforehand and name that; "
                        }
                        Token::Symbol('/') | Token::Symbol('%') => {
                            "nested terms are not understood, write them out with `:`; "
                        }
                        Token::Symbol('|') => "groups of rows are not understood, name a column of them; ",
                        Token::Name(_) | Token::Number(_) | Token::Symbol(_) | Token::Dot | Token::End => "",
                    };
                    let problem = format!(
                        "expected `+` or the end, found {found}; {hint}known are `+`, `:`, `*`, `.`, `- 1`, `+ 0`, \
                         `offset(name)` and names, in backticks where they are not plain words"
                    );
                    return self.refuse(self.next, problem);
                }
            }
        }
        if formula.items.is_empty() && !formula.intercept {
            return self.refuse(self.tokens.len(), "the model has neither a term nor an intercept".to_owned());
        }
        if let Some(outcome) = &formula.outcome
            && formula.predictors().contains(&outcome.as_str())
        {
            let index = self.tokens.iter().rposition(|(_, token)| *token == Token::Name(outcome.clone()));
            let problem = format!("the outcome `{}` stands on both sides", super::error::shown(outcome));
            return self.refuse(index.unwrap_or(0), problem);
        }
        formula.names = self.names;
        Ok(formula)
    }

    fn item(&mut self, formula: &mut Formula, minus: bool) -> Result<(), FormulaError> {
        let start = self.next;
        match self.peek() {
            Token::Number(number) => {
                self.next += 1;
                formula.intercept = match (number.as_str(), minus) {
                    ("1", false) => true,
                    ("0", false) | ("1", true) => false,
                    _ => {
                        return self.refuse(
                            start,
                            format!("expected a name, 0 or 1, found `{}`", super::error::shown(&number)),
                        );
                    }
                };
                Ok(())
            }
            found if minus => {
                self.refuse(start, format!("expected 1 after `-`, found {found}; terms cannot be taken away by `-`"))
            }
            Token::Dot => {
                self.next += 1;
                formula.items.push(Item::Rest);
                Ok(())
            }
            Token::Name(name)
                if name == "offset"
                    && self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == Token::Symbol('(')) =>
            {
                self.next += 2;
                let name = self.name("the offset")?;
                if !self.take_symbol(')') {
                    let found = self.peek();
                    return self.refuse(self.next, format!("expected `)` after the name of the offset, found {found}"));
                }
                formula.offsets.push(name);
                Ok(())
            }
            Token::Name(_) | Token::Symbol(_) | Token::End => {
                let mut sets = self.interaction()?;
                while self.take_symbol('*') {
                    let right = self.interaction()?;
                    let crossed: Vec<Vec<String>> = sets
                        .iter()
                        .flat_map(|left| right.iter().map(move |right| [left.as_slice(), right.as_slice()].concat()))
                        .collect();
                    sets.extend(right);
                    sets.extend(crossed);
                    if sets.len() > MAX_TERMS {
                        return self.refuse(start, format!("the product makes more than {MAX_TERMS} terms"));
                    }
                }
                formula.items.extend(sets.into_iter().map(Item::Term));
                if formula.items.len() > MAX_TERMS {
                    return self.refuse(start, format!("more than {MAX_TERMS} terms"));
                }
                Ok(())
            }
        }
    }

    /// `a:b:c`, as a list of one so that products can grow it.
    fn interaction(&mut self) -> Result<Vec<Vec<String>>, FormulaError> {
        let mut factors = vec![self.name("a column")?];
        while self.take_symbol(':') {
            let name = self.name("a column")?;
            if !factors.contains(&name) {
                factors.push(name);
            }
        }
        Ok(vec![factors])
    }

    fn name(&mut self, what: &str) -> Result<String, FormulaError> {
        let at = self.next;
        match self.take() {
            Token::Name(name) => {
                if self.peek() == Token::Symbol('(') {
                    let remedy = super::syntax::of_function(&name, &self.inside());
                    return self.refuse(at, format!("{remedy}; a header that is written so goes in backticks"));
                }
                if !self.names.contains(&name) {
                    self.names.push(name.clone());
                }
                Ok(name)
            }
            Token::Symbol('(') => {
                let problem =
                    format!("expected the name of {what}, found `(`; write the terms out without parentheses");
                self.refuse(at, problem)
            }
            found @ (Token::Number(_) | Token::Symbol(_) | Token::Dot | Token::End) => {
                self.refuse(at, format!("expected the name of {what}, found {found}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: [&str; 5] = ["id", "y", "a", "b", "c"];

    fn terms(text: &str) -> Vec<String> {
        let formula = Formula::parse(text).unwrap();
        formula.terms(&COLUMNS, &["id"]).iter().map(Term::to_string).collect()
    }

    /// Expected: `attr(terms(formula, data = d), "term.labels")` in R 4 on the columns y, a, b, c. One line differs on
    /// purpose: in R the dot makes a column that is an offset a predictor too.
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
            ("y ~ a*b:c", &["a", "b:c", "a:b:c"]),
            ("y ~ a:a + a", &["a"]),
            ("y ~ b:a + .", &["a", "b", "c", "b:a"]),
            ("y ~ 1", &[]),
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
        let formula =
            Formula::parse("`my y` ~ `a b` + offset(`log n`) + x.1_z + offset(w) + größe + `tick\\`ed`").unwrap();
        assert_eq!(formula.outcome.as_deref(), Some("my y"));
        assert_eq!(formula.offsets, ["log n", "w"]);
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
            ("log(y) ~ a", 1, "the function `log` is not understood"),
            ("y ~ log(a)", 5, "the function `log` is not understood, make a column of its values beforehand"),
            ("y ~ a + factor(ward)", 9, "`[columns.ward] levels`"),
            ("y ~ poly(a, 2)", 5, "make its columns from `a` beforehand"),
            ("y ~ I(a^2)", 5, "make its columns from `a` beforehand"),
            ("y ~ a ^ 2", 7, "found `^`; powers are not understood"),
            ("y ~ (a + b)", 5, "found `(`; write the terms out"),
            ("y ~ a / b", 7, "nested terms are not understood"),
            ("y ~ a %in% b", 7, "nested terms are not understood"),
            ("y ~ a | b", 7, "found `|`; groups of rows are not understood"),
            ("y ~ a b", 7, "found the name `b`"),
            ("y ~ a + 2", 9, "found `2`"),
            ("y ~ . - a", 9, "terms cannot be taken away"),
            ("y ~ a - 0", 9, "found `0`"),
            ("y ~ .:a", 6, "found `:`"),
            ("y ~ a +", 8, "found the end"),
            ("y ~ `a", 5, "never closed"),
            ("y ~ ``", 5, "no name between"),
            ("y ~ offset(a + b)", 14, "expected `)`"),
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
    fn a_product_of_many_names_is_refused_before_it_fills_the_memory() {
        let names: Vec<String> = (0..40).map(|index| format!("x{index}")).collect();
        let error = Formula::parse(&format!("y ~ {}", names.join("*"))).unwrap_err();
        assert!(error.problem.contains("more than 4096 terms"));
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
}
