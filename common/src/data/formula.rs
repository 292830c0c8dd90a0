//! Reads `y ~ a + b * c` as R does, and turns it into the list of terms of the model.
//!
//! Understood are `+`, `:`, `*`, parentheses, `(a + b)^2`, `.` for all other columns, `- 1`, `+ 0` and `0 +` for no intercept,
//! `offset(x)` of a column or of arithmetic, the functions of [`super::functions`], and backticks around names that are not plain words.
//! Everything else is refused with its position.

use std::fmt;

use super::functions::{self, Factor};

pub use self::owner::{all_known, own_alone};

mod owner;
#[cfg(test)]
mod tests;

/// Most terms of one formula; `a * b * c ...` doubles them with every name.
pub const MAX_TERMS: usize = 4096;

/// Longest formula, bytes.
pub const MAX_LENGTH: usize = 1 << 20;

/// Most factors of one term.
const MOST_FACTORS: usize = 100;

/// Deepest nesting of parentheses.
const DEEPEST: usize = 32;

/// What stands for `.` within a product until the columns are known: no column has this name.
const REST: &str = "";

/// Highest power of a sum of terms; higher ones add nothing to a sum of as many.
const HIGHEST_POWER: usize = 12;

/// One term of a model: a column or a function of columns, or an interaction of several, such as `a:b`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// The factors, in the order in which the formula names them first.
    pub factors: Vec<Factor>,
}

impl Term {
    /// A column by itself.
    pub fn column(name: impl Into<String>) -> Term {
        Term { factors: vec![Factor::column(name)] }
    }
}

/// The columns of the table that terms need, each once, in the order of the terms.
pub fn columns(terms: &[Term]) -> Vec<&str> {
    let mut seen = std::collections::HashSet::new();
    let needed = terms.iter().flat_map(|term| &term.factors).flat_map(Factor::columns);
    needed.filter(|name| seen.insert(*name)).collect()
}

/// By the name of a term, those of the others that contain it, as `a:b` contains `a`; terms that none contains are left out.
pub fn containing(terms: &[Term]) -> std::collections::BTreeMap<String, Vec<String>> {
    let contains = |large: &Term, small: &Term| {
        large.factors.len() > small.factors.len() && small.factors.iter().all(|factor| large.factors.contains(factor))
    };
    let names = |term: &Term| -> Vec<String> {
        terms.iter().filter(|other| contains(other, term)).map(ToString::to_string).collect()
    };
    terms.iter().map(|term| (term.to_string(), names(term))).filter(|(_, names)| !names.is_empty()).collect()
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.factors.iter().map(Factor::name).collect();
        f.write_str(&names.join(":"))
    }
}

/// A formula as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Formula {
    /// The column on the left, if there is one.
    pub outcome: Option<String>,
    /// Whether the model has an intercept.
    pub intercept: bool,
    /// What stands inside each `offset(..)`, a column or a number computed from columns; their sum is the offset.
    pub offsets: Vec<Factor>,
    /// Where the outcome, the last word on the intercept and the first offset stand.
    pub places: Places,
    items: Vec<Item>,
    /// Names in the order of their first appearance, [`REST`] where the first `.` stands.
    names: Vec<String>,
    /// The formula as it was written.
    text: String,
}

/// Characters from 1; 1 of what the formula does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// The outcome.
    pub outcome: usize,
    /// The last `- 1`, `0` or `1`.
    pub intercept: usize,
    /// The first `offset(..)`.
    pub offset: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Rest,
    Term(Vec<Factor>),
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
        self.items.contains(&Item::Rest) || self.has_rest_within()
    }

    /// Whether a `.` stands within a product or a power.
    fn has_rest_within(&self) -> bool {
        self.items.iter().any(|item| if let Item::Term(factors) = item { holds_rest(factors) } else { false })
    }

    /// A formula with these columns by name in place of `.`, so that it means the same whatever else a table has. Within a product or a
    /// power they stand in parentheses.
    ///
    /// # Errors
    ///
    /// The formula cannot be read.
    pub fn written_out(text: &str, columns: &[&str]) -> Result<String, FormulaError> {
        let names: Vec<String> = columns.iter().map(|name| in_backticks(name)).collect();
        let sum = names.join(" + ");
        let parser = Parser::new(text)?;
        let joins = |index: Option<usize>, signs: &[char]| match index.and_then(|index| parser.tokens.get(index)) {
            Some((_, Token::Symbol(sign))) => signs.contains(sign),
            Some((_, Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Dot | Token::End)) | None => false,
        };
        let dots = parser.tokens.iter().enumerate().filter(|(_, (_, token))| *token == Token::Dot);
        let within =
            |index: usize| joins(index.checked_sub(1), &[':', '*']) || joins(Some(index + 1), &[':', '*', '^']);
        let dots: std::collections::HashMap<usize, bool> = dots.map(|(index, (at, _))| (*at, within(index))).collect();
        let written = text.chars().enumerate().map(|(index, letter)| match dots.get(&(index + 1)) {
            Some(true) => format!("({sum})"),
            Some(false) => sum.clone(),
            None => letter.to_string(),
        });
        Ok(written.collect())
    }

    /// Names of the columns that the right side uses by name, offsets apart, in order of appearance.
    pub fn predictors(&self) -> Vec<&str> {
        let mut seen = std::collections::HashSet::new();
        let terms =
            self.items.iter().filter_map(|item| if let Item::Term(factors) = item { Some(factors) } else { None });
        terms.flatten().flat_map(Factor::columns).filter(|name| *name != REST && seen.insert(*name)).collect()
    }

    /// Whether a term is, or has in it, a function of columns.
    pub fn has_functions(&self) -> bool {
        self.items
            .iter()
            .any(|item| if let Item::Term(factors) = item { factors.iter().any(Factor::is_function) } else { false })
    }

    /// The terms, as [`Formula::expanded`] has them; without those of a `.` within a product where it makes too many.
    pub fn terms(&self, columns: &[&str], others: &[&str]) -> Vec<Term> {
        self.expanded(columns, others).unwrap_or_else(|_| self.terms_beside(&self.free(columns, others)))
    }

    /// The terms, each once, single columns before interactions of two, and so on, as R orders them.
    ///
    /// `.` stands for those of `columns` that are not the outcome, not in an `offset(..)` and not in `others` (the id and
    /// the weights).
    ///
    /// # Errors
    ///
    /// With these columns a product with a `.` makes too many terms.
    pub fn expanded(&self, columns: &[&str], others: &[&str]) -> Result<Vec<Term>, FormulaError> {
        let free = self.free(columns, others);
        if free.is_empty() || !self.has_rest_within() {
            return Ok(self.terms_beside(&free));
        }
        let mut terms = Formula::parse(&Formula::written_out(&self.text, &free)?)?.terms_beside(&[]);
        // Factors stand where they did before.
        let named: Vec<&Factor> = self
            .items
            .iter()
            .flat_map(|item| if let Item::Term(factors) = item { &factors[..] } else { &[] })
            .collect();
        for factor in terms.iter_mut().flat_map(|term| &mut term.factors) {
            let at = named.iter().find(|known| ***known == *factor).map_or(0, |known| known.at());
            *factor = factor.clone().standing(at);
        }
        Ok(terms)
    }

    /// The columns that `.` stands for.
    fn free<'a>(&self, columns: &[&'a str], others: &[&str]) -> Vec<&'a str> {
        let is_free = |name: &str| {
            self.outcome.as_deref() != Some(name)
                && !self.offsets.iter().any(|offset| offset.columns().contains(&name))
                && !others.contains(&name)
        };
        columns.iter().copied().filter(|name| is_free(name)).collect()
    }

    /// The terms with these columns in place of a `.` that is a term, and without products of one.
    fn terms_beside(&self, free: &[&str]) -> Vec<Term> {
        let mut rank: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
        for name in self.names.iter().map(String::as_str) {
            for name in if name == REST { free } else { std::slice::from_ref(&name) } {
                let next = rank.len();
                rank.entry(*name).or_insert(next);
            }
        }
        let mut seen = std::collections::HashSet::new();
        let mut terms = Vec::new();
        let mut add = |mut factors: Vec<Factor>| {
            factors.sort_by_key(|factor| rank.get(factor.name()).copied());
            factors.dedup();
            if seen.insert(factors.clone()) {
                terms.push(Term { factors });
            }
        };
        for item in &self.items {
            match item {
                Item::Rest => free.iter().for_each(|name| add(vec![Factor::column(*name)])),
                Item::Term(factors) if holds_rest(factors) => {}
                Item::Term(factors) => add(factors.clone()),
            }
        }
        terms.sort_by_key(|term| term.factors.len());
        terms
    }
}

/// Whether `.` is one of these factors.
fn holds_rest(factors: &[Factor]) -> bool {
    factors.iter().any(|factor| factor.name().is_empty())
}

/// A name as a formula has it: in backticks where it is no plain word.
fn in_backticks(name: &str) -> String {
    let plain = name.starts_with(char::is_alphabetic)
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '_'));
    match plain {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")),
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

/// Two more lines of a message: the formula, and a caret below the place. A long formula is cut to its surroundings.
pub fn caret(text: &str, at: usize) -> String {
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

/// A formula that cannot be read.
pub(super) type Refused = FormulaError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A number; among terms only 0 and 1.
    Number(String),
    /// Text in quotes, inside a function.
    Text(String),
    Dot,
    Symbol(char),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => write!(f, "the name `{}`", super::error::shown(name)),
            Token::Number(number) => write!(f, "`{}`", super::error::shown(number)),
            Token::Text(text) => write!(f, "the text \"{}\"", super::error::shown(text)),
            Token::Dot => write!(f, "`.`"),
            Token::Symbol(symbol) => write!(f, "`{}`", symbol.escape_debug()),
            Token::End => write!(f, "the end"),
        }
    }
}

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(usize, Token)>,
    /// Tokens that stand in backticks.
    quoted: std::collections::HashSet<usize>,
    next: usize,
    names: Vec<String>,
    /// Numbers and names of the present function.
    parts: usize,
}

/// What stands up to the closing mark; where it is wrong, and why. Without a place, the mark is never closed.
fn delimited(
    characters: &mut impl Iterator<Item = (usize, char)>,
    mark: char,
) -> Result<String, (Option<usize>, String)> {
    let what = if mark == '`' { "backtick" } else { "quote" };
    let mut inside = String::new();
    loop {
        match characters.next() {
            Some((_, c)) if c == mark => return Ok(inside),
            Some((_, '\\')) => match characters.next() {
                Some((_, c)) if c == mark || c == '\\' => inside.push(c),
                Some((at, _)) => {
                    return Err((Some(at), format!("only {mark} and \\ can follow a \\ inside {what}s")));
                }
                None => break,
            },
            Some((_, c)) => inside.push(c),
            None => break,
        }
    }
    Err((None, format!("the {what} is never closed")))
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, FormulaError> {
        if text.len() > MAX_LENGTH {
            let problem = format!("the formula has {} bytes, at most {MAX_LENGTH} are read", text.len());
            return Err(FormulaError { at: 1, problem, text: text.chars().take(100).collect() });
        }
        let refuse = |at: usize, problem: String| Err(FormulaError { at, problem, text: text.to_owned() });
        let mut tokens = Vec::new();
        let mut quoted = std::collections::HashSet::new();
        let mut characters = text.chars().enumerate().map(|(index, c)| (index + 1, c)).peekable();
        while let Some((at, character)) = characters.next() {
            let token = match character {
                c if c.is_whitespace() => continue,
                '`' => {
                    let name = match delimited(&mut characters, '`') {
                        Ok(name) if name.is_empty() => {
                            return refuse(at, "there is no name between the backticks".to_owned());
                        }
                        Ok(name) => name,
                        Err((place, problem)) => return refuse(place.unwrap_or(at), problem),
                    };
                    quoted.insert(tokens.len());
                    Token::Name(name)
                }
                '"' | '\'' => match delimited(&mut characters, character) {
                    Ok(text) => Token::Text(text),
                    Err((place, problem)) => return refuse(place.unwrap_or(at), problem),
                },
                c if c.is_alphanumeric() || c == '.' => {
                    let mut word = String::from(c);
                    loop {
                        // The sign of an exponent belongs to its number.
                        let exponent = word.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                            && word.ends_with(['e', 'E'])
                            && word[..word.len() - 1].chars().all(|c| c.is_ascii_digit() || c == '.');
                        let next = characters.next_if(|&(_, c)| {
                            c.is_alphanumeric() || matches!(c, '.' | '_') || (exponent && matches!(c, '+' | '-'))
                        });
                        match next {
                            Some((_, c)) => word.push(c),
                            None => break,
                        }
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
        Ok(Parser { text, tokens, quoted, next: 0, names: Vec::new(), parts: 0 })
    }

    pub(super) fn peek(&self) -> Token {
        self.tokens.get(self.next).map_or(Token::End, |(_, token)| token.clone())
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    pub(super) fn take_symbol(&mut self, symbol: char) -> bool {
        let found = self.peek() == Token::Symbol(symbol);
        self.next += usize::from(found);
        found
    }

    /// Whether the next token is a name in backticks.
    pub(super) fn is_quoted(&self) -> bool {
        self.quoted.contains(&self.next)
    }

    /// Whether a call begins here.
    pub(super) fn calls(&self) -> bool {
        let opens = self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == Token::Symbol('('));
        opens && !self.is_quoted()
    }

    /// `name =` in front of an argument.
    pub(super) fn take_argument_name(&mut self) -> Option<String> {
        let Token::Name(name) = self.peek() else { return None };
        let named = self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == Token::Symbol('='));
        named.then(|| {
            self.next += 2;
            name
        })
    }

    /// A function begins.
    pub(super) fn begin_parts(&mut self) {
        self.parts = 0;
    }

    /// How many numbers and names a function has with the one that comes now.
    pub(super) fn next_part(&mut self) -> usize {
        self.parts += 1;
        self.parts
    }

    /// Which token is next.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Where a token stands, in characters from 1.
    pub(super) fn place(&self, index: usize) -> usize {
        self.tokens.get(index).map_or(self.text.chars().count() + 1, |&(at, _)| at)
    }

    /// Refuses the next token.
    pub(super) fn refused<T>(&self, problem: String) -> Result<T, Refused> {
        self.refuse(self.next, problem)
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

    pub(super) fn refuse<T>(&self, index: usize, problem: String) -> Result<T, FormulaError> {
        Err(FormulaError { at: self.place(index), problem, text: self.text.to_owned() })
    }

    fn formula(mut self) -> Result<Formula, FormulaError> {
        let outcome = match self.peek() {
            Token::Symbol('~') => None,
            Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Symbol(_) | Token::Dot | Token::End => {
                Some(self.name("the outcome")?)
            }
        };
        if !self.take_symbol('~') {
            let found = self.peek();
            let hint = match found {
                Token::Symbol('(') => "; functions of the outcome are not understood, transform the column beforehand",
                Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Symbol(_) | Token::Dot | Token::End => "",
            };
            return self.refuse(self.next, format!("expected `~` after the outcome, found {found}{hint}"));
        }
        let places = Places { outcome: self.place(0), intercept: 1, offset: 1 };
        let (offsets, items, names) = (Vec::new(), Vec::new(), Vec::new());
        let text = self.text.to_owned();
        let mut formula = Formula { outcome, intercept: true, offsets, places, items, names, text };
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
                found @ (Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Symbol(_) | Token::Dot) => {
                    let hint = match found {
                        Token::Symbol('^') => "the power of a column is `I(column^2)`; ",
                        Token::Symbol('/') | Token::Symbol('%') => {
                            "nested terms are not understood, write them out with `:`; "
                        }
                        Token::Symbol('|') => "groups of rows are not understood, name a column of them; ",
                        Token::Name(_)
                        | Token::Number(_)
                        | Token::Text(_)
                        | Token::Symbol(_)
                        | Token::Dot
                        | Token::End => "",
                    };
                    let problem = format!(
                        "expected `+` or the end, found {found}; {hint}known are `+`, `:`, `*`, `(a + b)^2`, `.`, `- 1`, `+ 0`, \
                         `offset(..)`, {} and names, in backticks where they are not plain words",
                        functions::KNOWN
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
                formula.places.intercept = self.place(start - usize::from(minus));
                Ok(())
            }
            found if minus => {
                self.refuse(start, format!("expected 1 after `-`, found {found}; terms cannot be taken away by `-`"))
            }
            Token::Dot if self.is_summand() => {
                self.next += 1;
                self.note(REST);
                formula.items.push(Item::Rest);
                Ok(())
            }
            Token::Name(name)
                if name == "offset"
                    && self.tokens.get(self.next + 1).is_some_and(|(_, token)| *token == Token::Symbol('(')) =>
            {
                self.next += 2;
                let offset = self.offset()?;
                if !self.take_symbol(')') {
                    let found = self.peek();
                    return self.refuse(self.next, format!("expected `)` after the offset, found {found}"));
                }
                if formula.offsets.is_empty() {
                    formula.places.offset = self.place(start);
                }
                formula.offsets.push(offset);
                Ok(())
            }
            Token::Name(_) | Token::Text(_) | Token::Symbol(_) | Token::Dot | Token::End => {
                let sets = self.product(0)?;
                formula.items.extend(sets.into_iter().map(Item::Term));
                if formula.items.len() > MAX_TERMS {
                    return self.refuse(start, format!("more than {MAX_TERMS} terms"));
                }
                Ok(())
            }
        }
    }

    /// Whether the next token is a summand by itself.
    fn is_summand(&self) -> bool {
        match self.tokens.get(self.next + 1) {
            None | Some((_, Token::Symbol('+' | '-'))) => true,
            Some((_, Token::Symbol(sign))) => !matches!(sign, '*' | ':' | '^'),
            Some((_, Token::Name(_) | Token::Number(_) | Token::Text(_) | Token::Dot | Token::End)) => true,
        }
    }

    /// A name appears.
    fn note(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }

    /// What stands inside `offset(..)`: the name of a column, or arithmetic.
    fn offset(&mut self) -> Result<Factor, FormulaError> {
        let (start, calls) = (self.next, self.calls());
        let ends = self.tokens.get(self.next + 1).is_none_or(|(_, token)| *token == Token::Symbol(')'));
        match self.peek() {
            Token::Name(name) if calls && !functions::is_number(&name) => {}
            Token::Name(_) if ends => {}
            Token::Text(_) | Token::Dot | Token::End | Token::Symbol(')') => {}
            Token::Name(_) | Token::Number(_) | Token::Symbol(_) => return functions::read_number(self),
        }
        Ok(Factor::column(self.name("the offset")?).standing(self.place(start)))
    }

    /// `a * b:c`, as the terms that it stands for.
    fn product(&mut self, depth: usize) -> Result<Vec<Vec<Factor>>, FormulaError> {
        let start = self.next;
        let mut sets = self.interaction(depth)?;
        while self.take_symbol('*') {
            let right = self.interaction(depth)?;
            let crossed = self.crossed(start, &sets, &right)?;
            sets.extend(right);
            sets.extend(crossed);
            self.few(start, sets.len())?;
        }
        Ok(sets)
    }

    /// `a:b:c`.
    fn interaction(&mut self, depth: usize) -> Result<Vec<Vec<Factor>>, FormulaError> {
        let start = self.next;
        let mut sets = self.primary(depth)?;
        while self.take_symbol(':') {
            let right = self.primary(depth)?;
            sets = self.crossed(start, &sets, &right)?;
            self.few(start, sets.len())?;
            if sets.iter().any(|factors| factors.len() > MOST_FACTORS) {
                return self.refuse(start, format!("a term with more than {MOST_FACTORS} factors"));
            }
        }
        Ok(sets)
    }

    /// A factor, or a sum in parentheses with its power.
    fn primary(&mut self, depth: usize) -> Result<Vec<Vec<Factor>>, FormulaError> {
        let start = self.next;
        if depth < DEEPEST && self.take_symbol('(') {
            let mut sets = self.product(depth + 1)?;
            while self.take_symbol('+') {
                sets.extend(self.product(depth + 1)?);
                self.few(start, sets.len())?;
            }
            if !self.take_symbol(')') {
                let found = self.peek();
                return self.refuse(self.next, format!("expected `+` or `)`, found {found}"));
            }
            return self.powered(start, sets);
        }
        if self.peek() == Token::Dot {
            self.next += 1;
            self.note(REST);
            return self.powered(start, vec![vec![Factor::column(REST)]]);
        }
        if let Token::Name(name) = self.peek()
            && self.calls()
            && functions::is_known(&name)
        {
            let factor = functions::read(self)?;
            self.note(factor.name());
            return Ok(vec![vec![factor]]);
        }
        Ok(vec![vec![Factor::column(self.name("a column")?).standing(self.place(start))]])
    }

    /// `(..)^k`: all interactions of up to as many of the terms.
    fn powered(&mut self, start: usize, sets: Vec<Vec<Factor>>) -> Result<Vec<Vec<Factor>>, FormulaError> {
        if !self.take_symbol('^') {
            return Ok(sets);
        }
        let at = self.next;
        let power = match self.take() {
            Token::Number(number) => number.parse().ok().filter(|power| (1..=HIGHEST_POWER).contains(power)),
            Token::Name(_) | Token::Text(_) | Token::Dot | Token::Symbol(_) | Token::End => None,
        };
        let Some(power) = power else {
            return self.refuse(at, format!("expected a whole number from 1 to {HIGHEST_POWER} after `^`"));
        };
        let mut all = sets.clone();
        for _ in 1..power {
            let further = self.crossed(start, &all, &sets)?;
            all.extend(further);
            let mut seen = std::collections::HashSet::new();
            all.retain(|factors| {
                let mut names: Vec<&Factor> = factors.iter().collect();
                names.sort_unstable();
                seen.insert(names.into_iter().cloned().collect::<Vec<_>>())
            });
            self.few(start, all.len())?;
        }
        Ok(all)
    }

    fn few(&self, start: usize, count: usize) -> Result<(), FormulaError> {
        match count > MAX_TERMS {
            true => self.refuse(start, format!("the product makes more than {MAX_TERMS} terms")),
            false => Ok(()),
        }
    }

    /// Each of some terms with each of others, unless these are too many.
    fn crossed(
        &self,
        start: usize,
        left: &[Vec<Factor>],
        right: &[Vec<Factor>],
    ) -> Result<Vec<Vec<Factor>>, FormulaError> {
        // Of a power most are equal.
        self.few(start, left.len().saturating_mul(right.len()) / 16)?;
        let joined = |left: &Vec<Factor>, right: &Vec<Factor>| {
            let further = right.iter().filter(|factor| !left.contains(factor));
            left.iter().chain(further).cloned().collect()
        };
        Ok(left.iter().flat_map(|left| right.iter().map(move |right| joined(left, right))).collect())
    }

    fn name(&mut self, what: &str) -> Result<String, FormulaError> {
        let at = self.next;
        match self.take() {
            Token::Name(name) => {
                if self.peek() == Token::Symbol('(') && !self.quoted.contains(&at) {
                    if what == "the outcome" {
                        let problem = "functions of the outcome are not understood, make a column of its values beforehand and name that";
                        return self.refuse(at, problem.to_owned());
                    }
                    if what == "the offset" {
                        let call = format!("{name}({})", self.inside());
                        let call = super::error::shown(&call);
                        let problem = format!(
                            "`{call}` is no offset, which is a column or arithmetic of columns: make a column of it beforehand and name that"
                        );
                        return self.refuse(at, format!("{problem}; a header that is written so goes in backticks"));
                    }
                    let remedy = super::syntax::of_function(&name, &self.inside());
                    return self.refuse(at, format!("{remedy}; a header that is written so goes in backticks"));
                }
                self.note(&name);
                Ok(name)
            }
            found @ (Token::Number(_) | Token::Text(_) | Token::Symbol(_) | Token::Dot | Token::End) => {
                self.refuse(at, format!("expected the name of {what}, found {found}"))
            }
        }
    }
}
