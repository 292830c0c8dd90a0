//! Functions in a formula: `log(x)`, `I(a / b^2)`, `poly(x, 3)`, `ns(x, df = 4)`, `bs(..)`, `cut(..)`, `factor(..)`, `scale(..)`.
//!
//! A function is computed from the party's own columns, on the rows of the fit, and its columns have R's names. What it takes from the
//! data (orthogonal polynomials, quantiles as knots, a mean, levels) is a [`Learnt`] that the model file keeps, so that new rows are
//! encoded as those of the fit were.
//!
//! # Reference
//!
//! Chambers and Hastie, Statistical Models in S (1992), chapters 2 and 7; `stats` and `splines` of R.

mod declared;
mod expression;
mod interval;
mod polynomial;
mod spline;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::align::Mask;
use super::column::MISSING;
use super::formula::{Parser, Refused, Term};
use super::rows::{LARGEST, Rows, refuse_missing};
use super::{Column, DataError, Frame, Values};
pub use declared::{Constants, Foreknown};
use expression::Expression;
pub use interval::Interval;
use spline::Spline;

/// The functions that a formula may use, for sentences.
pub const KNOWN: &str = "log, log2, log10, log1p, exp, sqrt, I, poly, ns, bs, factor, cut and scale";

/// Most columns that one function may make.
const WIDEST: usize = 100;

/// What a function took from the data of the fit, by the name of its term: coefficients of a polynomial, knots, a centre and a scale.
pub type Learnt = BTreeMap<String, Vec<f64>>;

/// A factor of a term: a column, or a function of columns.
#[derive(Debug, Clone)]
pub struct Factor {
    name: String,
    function: Option<Arc<Function>>,
    /// Where it stands in the formula, in characters from 1; 0 where it stands in none.
    at: usize,
}

impl Factor {
    /// A column by itself.
    pub fn column(name: impl Into<String>) -> Factor {
        Factor { name: name.into(), function: None, at: 0 }
    }

    /// The same at a place of a formula.
    pub(super) fn standing(self, at: usize) -> Factor {
        Factor { at, ..self }
    }

    /// Where it stands in the formula, in characters from 1; 0 where it stands in none.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The name in the model: that of the column, or the function as R writes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a function of columns.
    pub fn is_function(&self) -> bool {
        self.function.is_some()
    }

    /// The columns of the table that it needs.
    pub fn columns(&self) -> Vec<&str> {
        match &self.function {
            None => vec![&self.name],
            Some(function) => function.call.columns(),
        }
    }

    /// What a function makes of the table: names of columns in the frame once [`derive`] has put them there.
    pub(super) fn derived(&self) -> Vec<String> {
        match self.function.as_deref().map(|function| &function.kind) {
            None | Some(Kind::Number | Kind::Scale { .. } | Kind::Factor { .. } | Kind::Cut { .. }) => {
                vec![self.name.clone()]
            }
            Some(Kind::Polynomial { degree, .. }) => numbered(&self.name, *degree),
            Some(Kind::Spline(spline)) => numbered(&self.name, spline.width()),
        }
    }

    /// Whether a coefficient of this factor alone may have such an ending behind its name; none for a column, whose levels decide.
    pub(crate) fn has_ending(&self, ending: &str) -> Option<bool> {
        match &self.function.as_deref()?.kind {
            Kind::Number | Kind::Scale { .. } | Kind::Polynomial { .. } | Kind::Spline(_) => {
                Some(self.derived().iter().any(|column| column.strip_prefix(&self.name) == Some(ending)))
            }
            Kind::Factor { levels: None, .. } => Some(true),
            Kind::Factor { levels: Some(levels), .. } => Some(levels.iter().any(|level| level == ending)),
            Kind::Cut { labels, .. } => Some(labels.iter().any(|label| label == ending)),
        }
    }
}

/// A single column of a basis has no number, as in R.
fn numbered(name: &str, count: usize) -> Vec<String> {
    match count {
        1 => vec![name.to_owned()],
        _ => (1..=count).map(|at| format!("{name}{at}")).collect(),
    }
}

/// Two factors are the same if they are written the same and both are functions, or neither.
impl PartialEq for Factor {
    fn eq(&self, other: &Factor) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Factor {}

impl PartialOrd for Factor {
    fn partial_cmp(&self, other: &Factor) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Factor {
    fn cmp(&self, other: &Factor) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl std::hash::Hash for Factor {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl Factor {
    fn key(&self) -> (&str, bool) {
        (&self.name, self.is_function())
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A function that was read and can be computed.
#[derive(Debug)]
struct Function {
    call: Expression,
    /// What stands as its first argument; of a number, the whole call.
    of: Expression,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A number for each row.
    Number,
    Polynomial {
        degree: usize,
        raw: bool,
    },
    Spline(Spline),
    Scale {
        centre: Declared,
        scale: Declared,
    },
    Factor {
        levels: Option<Vec<String>>,
    },
    Cut {
        breaks: Vec<f64>,
        labels: Vec<String>,
        right: bool,
        lowest: bool,
    },
}

/// A number of `scale`.
#[derive(Debug, Clone, Copy)]
enum Declared {
    No,
    FromData,
    As(f64),
}

/// Reads the function that begins at the next token of a formula.
pub(super) fn read(parser: &mut Parser<'_>) -> Result<Factor, Refused> {
    let start = parser.position();
    let call = expression::call(parser)?;
    finished(parser, start, call)
}

/// A call that began at this token as a factor.
fn finished(parser: &Parser<'_>, start: usize, call: Expression) -> Result<Factor, Refused> {
    match Function::new(call) {
        Ok(function) => {
            let (name, at) = (function.call.to_string(), parser.place(start));
            Ok(Factor { name, function: Some(Arc::new(function)), at })
        }
        Err(problem) => parser.refuse(start, problem),
    }
}

/// Reads a number of each row that begins at the next token: a function of one number as it stands, other arithmetic inside R's `I(..)`.
pub(super) fn read_number(parser: &mut Parser<'_>) -> Result<Factor, Refused> {
    let start = parser.position();
    let of = expression::arithmetic(parser)?;
    let single = matches!(&of, Expression::Call(name, _) if is_number(name));
    finished(parser, start, if single { of } else { Expression::Call("I".to_owned(), vec![(None, of)]) })
}

/// Whether a function of this name makes one number of one number.
pub(super) fn is_number(name: &str) -> bool {
    expression::Single::named(name).is_some()
}

/// Whether a formula knows a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    is_number(name) || matches!(name, "poly" | "ns" | "bs" | "factor" | "cut" | "scale")
}

/// The arguments of a call, by R's names: those without a name in the order of `places`.
struct Arguments<'a> {
    function: &'a str,
    of: &'a Expression,
    others: BTreeMap<&'a str, &'a Expression>,
}

impl<'a> Arguments<'a> {
    fn new(
        function: &'a str,
        arguments: &'a [(Option<String>, Expression)],
        places: &[&'a str],
    ) -> Result<Arguments<'a>, String> {
        let mut of = None;
        let mut others = BTreeMap::new();
        let mut free = places.iter();
        for (name, argument) in arguments {
            let name = match name.as_deref() {
                Some("x") => None,
                None if of.is_none() => None,
                Some(name) => match places.iter().find(|place| **place == name) {
                    Some(place) => Some(*place),
                    None => {
                        let known = places.join("`, `");
                        let name = super::error::shown(name);
                        return Err(format!("`{function}` takes `x`, `{known}` here, and not `{name}`"));
                    }
                },
                None => match free.find(|place| !others.contains_key(**place)) {
                    Some(place) => Some(*place),
                    None => return Err(format!("`{function}` takes fewer arguments")),
                },
            };
            let twice = match name {
                None => of.replace(argument).is_some(),
                Some(name) => others.insert(name, argument).is_some(),
            };
            if twice {
                return Err(format!("`{function}` has an argument twice"));
            }
        }
        match of {
            Some(of) => Ok(Arguments { function, of, others }),
            None => Err(format!("`{function}` needs a column")),
        }
    }

    fn wrong<T>(&self, name: &str, expected: &str) -> Result<T, String> {
        Err(format!("`{name}` of `{}` must be {expected}, written out", self.function))
    }

    fn truth(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.others.get(name) {
            None => Ok(default),
            Some(Expression::Truth(truth)) => Ok(*truth),
            Some(_) => self.wrong(name, "TRUE or FALSE"),
        }
    }

    /// A whole number from 1 to [`WIDEST`].
    fn count(&self, name: &str) -> Result<Option<usize>, String> {
        match self.others.get(name).map(|of| of.constant()) {
            None => Ok(None),
            Some(Some(count)) if (1.0..=WIDEST as f64).contains(&count) && count.fract() == 0.0 => {
                Ok(Some(count as usize))
            }
            Some(_) => self.wrong(name, &format!("a whole number from 1 to {WIDEST}")),
        }
    }

    /// Numbers in ascending order, none twice.
    fn ascending(&self, name: &str) -> Result<Option<Vec<f64>>, String> {
        let Some(of) = self.others.get(name) else { return Ok(None) };
        match of.constants() {
            Some(values) if values.len() <= WIDEST && values.windows(2).all(|pair| pair[0] < pair[1]) => {
                Ok(Some(values))
            }
            _ => self.wrong(name, &format!("at most {WIDEST} numbers in ascending order, such as c(1, 2.5)")),
        }
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let Some(of) = self.others.get(name) else { return Ok(None) };
        match of.texts() {
            Some(texts) if !texts.is_empty() && (1..texts.len()).all(|at| !texts[..at].contains(&texts[at])) => {
                Ok(Some(texts))
            }
            _ => self.wrong(name, "different texts or numbers, such as c(\"low\", \"high\")"),
        }
    }

    fn declared(&self, name: &str) -> Result<Declared, String> {
        match self.others.get(name) {
            None | Some(Expression::Truth(true)) => Ok(Declared::FromData),
            Some(Expression::Truth(false)) => Ok(Declared::No),
            Some(of) => match of.constant() {
                Some(value) if value.is_finite() && (name == "center" || value != 0.0) => Ok(Declared::As(value)),
                _ => self.wrong(name, "TRUE, FALSE or a number that can be divided by"),
            },
        }
    }
}

impl Function {
    fn new(call: Expression) -> Result<Function, String> {
        let Expression::Call(name, given) = &call else { return Err("expected a function".to_owned()) };
        let (of, kind) = match name.as_str() {
            "poly" => {
                let arguments = Arguments::new("poly", given, &["degree", "raw"])?;
                let kind = Kind::Polynomial {
                    degree: arguments.count("degree")?.unwrap_or(1),
                    raw: arguments.truth("raw", false)?,
                };
                (arguments.of.clone(), kind)
            }
            "ns" | "bs" => {
                let places = match name.as_str() {
                    "ns" => &["df", "knots", "intercept", "Boundary.knots"][..],
                    _ => &["df", "knots", "degree", "intercept", "Boundary.knots"],
                };
                let arguments = Arguments::new(name, given, places)?;
                (arguments.of.clone(), Kind::Spline(Spline::new(name == "ns", &arguments)?))
            }
            "factor" => {
                let arguments = Arguments::new("factor", given, &["levels"])?;
                if !matches!(arguments.of, Expression::Name(_)) {
                    return Err("`factor` takes the name of a column".to_owned());
                }
                (arguments.of.clone(), Kind::Factor { levels: arguments.texts("levels")? })
            }
            "cut" => {
                let arguments = Arguments::new("cut", given, &["breaks", "labels", "include.lowest", "right"])?;
                (arguments.of.clone(), cut(&arguments)?)
            }
            "scale" => {
                let arguments = Arguments::new("scale", given, &["center", "scale"])?;
                let kind = Kind::Scale { centre: arguments.declared("center")?, scale: arguments.declared("scale")? };
                (arguments.of.clone(), kind)
            }
            _ => (call.clone(), Kind::Number),
        };
        of.numeric()?;
        if of.columns().is_empty() {
            return Err(format!("`{name}` needs a column"));
        }
        Ok(Function { call, of, kind })
    }
}

/// Classes between declared breaks, with R's labels.
fn cut(arguments: &Arguments<'_>) -> Result<Kind, String> {
    let breaks = match arguments.ascending("breaks")? {
        Some(breaks) if breaks.len() >= 3 => breaks,
        _ => return arguments.wrong("breaks", "at least three numbers in ascending order, such as c(0, 10, Inf)"),
    };
    let (right, lowest) = (arguments.truth("right", true)?, arguments.truth("include.lowest", false)?);
    let classes = breaks.len() - 1;
    let labels = match arguments.texts("labels")? {
        Some(labels) if labels.len() != classes => {
            return Err(format!("`cut` makes {classes} classes and has {} labels", labels.len()));
        }
        Some(labels) => labels,
        None => {
            // R gives breaks that are not finite one width: beside -Inf, Inf has a blank.
            let below = breaks.first() == Some(&f64::NEG_INFINITY);
            let one = |value: f64, digits: usize| match below && value == f64::INFINITY {
                true => format!(" {}", general(value, digits)),
                false => general(value, digits),
            };
            let written = |digits: usize| breaks.iter().map(|value| one(*value, digits)).collect::<Vec<_>>();
            let differ = |texts: &Vec<String>| texts.windows(2).all(|pair| pair[0] != pair[1]);
            let Some(texts) = (3..=12).map(written).find(differ) else {
                return arguments.wrong("breaks", "numbers that differ in twelve digits");
            };
            let label = |at: usize| {
                let ends = (&texts[at], &texts[at + 1]);
                match right {
                    true if lowest && at == 0 => format!("[{},{}]", ends.0, ends.1),
                    true => format!("({},{}]", ends.0, ends.1),
                    false if lowest && at + 1 == classes => format!("[{},{}]", ends.0, ends.1),
                    false => format!("[{},{})", ends.0, ends.1),
                }
            };
            (0..classes).map(label).collect()
        }
    };
    Ok(Kind::Cut { breaks, labels, right, lowest })
}

/// A number with this many significant digits, as `%g` of C writes it.
fn general(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return expression::number(value);
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..digits as i32).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (digits as i32 - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// What new rows are encoded by: a fit's [`Learnt`], and levels by the names of terms.
#[derive(Clone, Copy)]
pub struct Fitted<'a> {
    /// Of functions of numbers.
    pub learnt: &'a Learnt,
    /// Of categorical columns and functions.
    pub levels: &'a BTreeMap<String, Vec<String>>,
}

/// Puts the columns of all functions of these terms into the frame, computed on the rows that are kept; returns what was taken from them.
///
/// With what a fit learnt, a row of which a function has no value is missing there; in a fit it is refused.
///
/// # Errors
///
/// A column that is missing, holds text where a number is needed or has no value in a kept row; a value that is not finite, with its
/// row; fewer different values than a basis needs; a column of the table that is named as the function is.
pub fn derive(
    frame: &mut Frame,
    terms: &[Term],
    dropped: Option<&Mask>,
    fitted: Option<Fitted<'_>>,
) -> Result<Learnt, DataError> {
    let mut learnt = Learnt::new();
    let mut done: Vec<&Factor> = Vec::new();
    for factor in terms.iter().flat_map(|term| &term.factors) {
        let Some(function) = factor.function.as_deref().filter(|_| !done.contains(&factor)) else { continue };
        done.push(factor);
        let rows = Rows::new(frame, dropped)?;
        let work = Work { frame, rows: &rows, name: &factor.name, function, lenient: fitted.is_some() };
        let known = fitted.map(|fitted| fitted.learnt.get(&factor.name).map_or(&[][..], Vec::as_slice));
        let levels = fitted.and_then(|fitted| fitted.levels.get(&factor.name)).map(Vec::as_slice);
        let (columns, taken) = work.columns(known, levels)?;
        if !taken.is_empty() {
            learnt.insert(factor.name.clone(), taken);
        }
        for (name, values) in factor.derived().into_iter().zip(columns) {
            frame.add(Column { name, values })?;
        }
    }
    Ok(learnt)
}

/// By function, the rows in which it has no value though its columns have: levels and breaks that the fit does not know.
///
/// # Errors
///
/// [`derive()`] was not called before.
pub fn missing(frame: &Frame, terms: &[Term], dropped: &Mask) -> Result<Vec<(String, Vec<usize>)>, DataError> {
    let rows = Rows::new(frame, Some(dropped))?;
    let mut found: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for factor in terms.iter().flat_map(|term| &term.factors).filter(|factor| factor.is_function()) {
        if found.contains_key(factor.name()) {
            continue;
        }
        let mut without = Vec::new();
        for name in factor.derived() {
            let column = frame.column(&name)?;
            without.extend(rows.iter().filter(|row| column.values.is_missing(*row)));
        }
        without.sort_unstable();
        without.dedup();
        found.insert(factor.name(), without);
    }
    Ok(found.into_iter().filter(|(_, rows)| !rows.is_empty()).map(|(name, rows)| (name.to_owned(), rows)).collect())
}

/// One function on the rows that are kept.
struct Work<'a> {
    frame: &'a Frame,
    rows: &'a Rows,
    name: &'a str,
    function: &'a Function,
    /// Whether a row without a value is missing, and not refused.
    lenient: bool,
}

impl Work<'_> {
    /// The columns, and what was taken from the data for them.
    fn columns(&self, known: Option<&[f64]>, levels: Option<&[String]>) -> Result<(Vec<Values>, Vec<f64>), DataError> {
        let numeric = |columns: Vec<Vec<f64>>| columns.into_iter().map(Values::Numeric).collect::<Vec<_>>();
        let shape = |problem: String| DataError::Function { term: self.name.to_owned(), problem };
        match &self.function.kind {
            // Of new rows the levels of the fit, which are those of the declared ones that its rows had.
            Kind::Factor { levels: declared } => Ok((vec![self.factor(levels.or(declared.as_deref()))?], Vec::new())),
            Kind::Number => Ok((numeric(vec![self.numbers()?]), Vec::new())),
            Kind::Cut { breaks, labels, right, lowest } => {
                let class = |value: f64| {
                    let above = |at: usize| if *right { value > breaks[at] } else { value >= breaks[at] };
                    let last = breaks.len() - 1;
                    let edge = if *right { 0 } else { last };
                    if *lowest && value == breaks[edge] {
                        return Some(edge.saturating_sub(1));
                    }
                    (0..last).find(|at| above(*at) && !above(at + 1))
                };
                // Of new rows the classes that rows of the fit had.
                let levels = levels.unwrap_or(labels);
                let codes_of: Vec<Option<usize>> =
                    labels.iter().map(|label| levels.iter().position(|level| level == label)).collect();
                let mut codes = vec![MISSING; self.frame.rows()];
                let values = self.numbers()?;
                for row in self.rows.iter().filter(|row| !values[*row].is_nan()) {
                    match class(values[row]).and_then(|class| codes_of[class]) {
                        Some(code) => codes[row] = code as u32,
                        None if self.lenient => {}
                        None => return Err(self.refused(row, "lies outside of the breaks")),
                    }
                }
                Ok((vec![Values::Categorical { codes, levels: levels.to_vec(), declared: true }], Vec::new()))
            }
            Kind::Scale { centre, scale } => {
                let mut values = self.numbers()?;
                let taken = match known {
                    Some(known) => known.to_vec(),
                    None => self.centre_and_scale(&values, *centre, *scale),
                };
                let [centre, scale] = taken[..] else { return Err(shape("the model file lacks its centre".into())) };
                if scale == 0.0 {
                    return Err(shape("every row has the same value".to_owned()));
                }
                values.iter_mut().for_each(|value| *value = (*value - centre) / scale);
                Ok((numeric(vec![values]), taken))
            }
            Kind::Polynomial { degree, raw: true } => {
                let values = self.numbers()?;
                let power = |power: usize| values.iter().map(|value| value.powi(power as i32)).collect();
                Ok((numeric((1..=*degree).map(power).collect()), Vec::new()))
            }
            Kind::Polynomial { degree, raw: false } => {
                let values = self.numbers()?;
                let taken = match known {
                    Some(known) => known.to_vec(),
                    None => polynomial::learn(&self.kept(&values), *degree).map_err(shape)?,
                };
                let columns = polynomial::columns(&values, *degree, &taken).map_err(shape)?;
                Ok((numeric(columns), taken))
            }
            Kind::Spline(spline) => {
                let values = self.numbers()?;
                let taken = match known {
                    Some(known) => known.to_vec(),
                    None => spline.learn(&self.kept(&values)).map_err(shape)?,
                };
                Ok((numeric(spline.columns(&values, &taken).map_err(shape)?), taken))
            }
        }
    }

    fn kept(&self, values: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| values[row]).collect()
    }

    /// The number of each kept row; not-a-number in the others.
    fn numbers(&self) -> Result<Vec<f64>, DataError> {
        let mut columns: Vec<(&str, Vec<f64>)> = Vec::new();
        for name in self.function.of.columns() {
            let column = self.frame.column(name)?;
            refuse_missing(self.frame, column, self.rows)?;
            let values = match &column.values {
                Values::Numeric(values) => values.clone(),
                Values::Boolean(values) => {
                    values.iter().map(|value| value.map_or(f64::NAN, |value| f64::from(u8::from(value)))).collect()
                }
                Values::Categorical { .. } => {
                    let problem = format!("the column `{}` holds text", super::error::shown(name));
                    return Err(DataError::Function { term: self.name.to_owned(), problem });
                }
            };
            columns.push((name, values));
        }
        let mut numbers = vec![f64::NAN; self.frame.rows()];
        for row in self.rows.iter() {
            let number =
                |name: &str| columns.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, of)| of[row]);
            let value = self.function.of.value(&number);
            if value.is_finite() && value.abs() <= LARGEST {
                numbers[row] = value;
            } else if !self.lenient {
                let at: Vec<String> = columns.iter().map(|(name, of)| format!("{name} = {}", of[row])).collect();
                return Err(self.refused(row, &format!("is no number of usable size at {}", at.join(", "))));
            }
        }
        Ok(numbers)
    }

    fn refused(&self, row: usize, problem: &str) -> DataError {
        DataError::Function { term: self.name.to_owned(), problem: format!("{}: {problem}", self.frame.place(row)) }
    }

    fn centre_and_scale(&self, values: &[f64], centre: Declared, scale: Declared) -> Vec<f64> {
        let kept = self.kept(values);
        let centre = match centre {
            Declared::No => 0.0,
            Declared::As(centre) => centre,
            Declared::FromData => kept.iter().sum::<f64>() / kept.len() as f64,
        };
        let scale = match scale {
            Declared::No => 1.0,
            Declared::As(scale) => scale,
            // The root mean square of what is left, with one row less, as R has it.
            Declared::FromData => {
                let squares: f64 = kept.iter().map(|value| (value - centre).powi(2)).sum();
                (squares / (kept.len() as f64 - 1.0).max(1.0)).sqrt()
            }
        };
        vec![centre, scale]
    }

    /// The levels of a column, those that are given or those of the kept rows.
    fn factor(&self, given: Option<&[String]>) -> Result<Values, DataError> {
        let [name] = self.function.of.columns()[..] else {
            return Err(DataError::Function { term: self.name.to_owned(), problem: "takes one column".to_owned() });
        };
        let column = self.frame.column(name)?;
        refuse_missing(self.frame, column, self.rows)?;
        let text = |row: usize| match &column.values {
            Values::Numeric(values) => expression::number(values[row]),
            Values::Boolean(values) => if values[row] == Some(true) { "TRUE" } else { "FALSE" }.to_owned(),
            Values::Categorical { codes, levels, .. } => levels.get(codes[row] as usize).cloned().unwrap_or_default(),
        };
        let levels = match (given, &column.values) {
            (Some(levels), _) => levels.to_vec(),
            (None, Values::Numeric(values)) => {
                let mut numbers = self.kept(values);
                numbers.sort_by(f64::total_cmp);
                numbers.dedup();
                if numbers.len() > super::column::MAX_LEVELS {
                    return Err(DataError::TooManyLevels { column: name.to_owned(), most: super::column::MAX_LEVELS });
                }
                numbers.into_iter().map(expression::number).collect()
            }
            (None, Values::Boolean(_)) => ["FALSE", "TRUE"].map(String::from).to_vec(),
            (None, Values::Categorical { levels, .. }) => levels.clone(),
        };
        let places: std::collections::HashMap<&str, u32> =
            levels.iter().enumerate().map(|(code, level)| (level.as_str(), code as u32)).collect();
        let mut codes = vec![MISSING; self.frame.rows()];
        for row in self.rows.iter() {
            match places.get(text(row).as_str()) {
                Some(code) => codes[row] = *code,
                None if self.lenient => {}
                None => {
                    let value = super::error::shown(&text(row));
                    return Err(self.refused(row, &format!("has the value `{value}`, which is none of the levels")));
                }
            }
        }
        // Declared levels that no row has are kept here, as in a column with declared levels: whether a fit drops them depends on its mode.
        Ok(Values::Categorical { codes, levels, declared: given.is_some() })
    }
}
