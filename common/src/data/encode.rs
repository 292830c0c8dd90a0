//! From columns to the design matrix.
//!
//! Categorical columns are coded as R's `model.matrix` does with treatment contrasts, and terms have R's names without
//! backticks: the header joined to the level (`smokerTRUE`), factors of an interaction joined by `:`.
//!
//! # Reference
//!
//! Chambers and Hastie, Statistical Models in S (1992), chapter 2: when a factor is coded by contrasts, and when by all
//! its levels.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use nalgebra::DMatrix;

use super::align::Mask;
use super::column::MISSING;
use super::error::{few, shown};
use super::formula::Term;
use super::functions::{Factor, Foreknown, Interval};
use crate::names;

use super::rows::{LARGEST, Rows, SMALLEST, check, kept_levels};
use super::{Column, DataError, Frame, Values};

/// Most columns of a design matrix; interactions of long categorical columns would exhaust the memory while being named.
const WIDEST: usize = 1_000_000;

/// The predictors of one party, without an intercept.
#[derive(Clone, PartialEq)]
pub struct Design {
    /// Names of the columns of `matrix`.
    pub terms: Vec<String>,
    /// For each column, the term that it comes from; those of one term are neighbours.
    pub sources: Vec<String>,
    /// One row per kept row of the frame, one column per term.
    pub matrix: DMatrix<f64>,
    /// The levels of every categorical column in use, the reference first: what a prediction must declare.
    pub levels: BTreeMap<String, Vec<String>>,
}

/// Sizes only: the matrix is the data that must not leave.
impl fmt::Debug for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Design").field("rows", &self.matrix.nrows()).field("terms", &self.terms).finish_non_exhaustive()
    }
}

/// Terms for a plain list of columns.
///
/// # Errors
///
/// A column named twice.
pub fn column_terms<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Term>, DataError> {
    let mut seen = HashSet::new();
    names
        .into_iter()
        .map(|name| match seen.insert(name) {
            true => Ok(Term::column(name)),
            false => Err(DataError::RepeatedColumn { column: name.to_owned() }),
        })
        .collect()
}

/// Refuses predictors that have another role already; `roles` are pairs of a column and what it is.
///
/// # Errors
///
/// A predictor that is the outcome, the id, an offset or the weights.
pub fn check_roles(terms: &[Term], roles: &[(&str, &'static str)]) -> Result<(), DataError> {
    for used in super::formula::columns(terms) {
        if let Some(&(column, role)) = roles.iter().find(|(column, _)| *column == used) {
            return Err(DataError::RoleAmongTerms { column: column.to_owned(), role });
        }
    }
    Ok(())
}

/// Refuses two columns of one name, and one with the name of the intercept: nobody could tell them apart. `sources` are the terms that they
/// come from.
///
/// # Errors
///
/// Such a name, with the terms that it comes from.
pub fn refuse_same_names(names: &[String], sources: &[String], intercept: &str) -> Result<(), DataError> {
    let mut seen: HashMap<&str, &str> = HashMap::with_capacity(names.len());
    for (name, source) in names.iter().zip(sources) {
        if name == intercept {
            return Err(DataError::NamedAsIntercept { term: source.clone() });
        }
        if let Some(first) = seen.insert(name, source) {
            let (first, second) = (first.to_owned(), source.clone());
            return Err(DataError::SameName { name: name.clone(), first, second });
        }
    }
    Ok(())
}

/// Refuses names of terms that cannot be sent and shown: they have letters that control a terminal or reorder text, or are too long.
///
/// # Errors
/// The first of them.
pub fn refuse_odd_names(terms: &[String]) -> Result<(), DataError> {
    match terms.iter().find(|name| name.len() > names::LONGEST || name.chars().any(names::is_hidden)) {
        Some(name) if name.len() > names::LONGEST => {
            Err(DataError::LongName { name: name.chars().take(60).collect(), bytes: name.len() })
        }
        Some(name) => Err(DataError::OddName { name: name.clone() }),
        None => Ok(()),
    }
}

/// Refuses columns whose squares are no numbers any more, unless all of one is zero.
///
/// # Errors
/// The first of them.
pub fn refuse_tiny(design: &Design) -> Result<(), DataError> {
    let is_tiny = |column: &[f64]| {
        !column.iter().any(|value| value.abs() >= SMALLEST) && column.iter().any(|value| *value != 0.0)
    };
    let rows = design.matrix.nrows().max(1);
    match design.matrix.as_slice().chunks_exact(rows).position(is_tiny) {
        Some(at) => Err(DataError::TooSmall { column: design.terms.get(at).cloned().unwrap_or_default() }),
        None => Ok(()),
    }
}

/// Declared levels of a term that no row in use has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedLevels {
    factor: String,
    levels: Vec<String>,
    /// The first level that a row has, where the first declared one is among those that no row has.
    first: Option<String>,
}

impl fmt::Display for UnusedLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, have) = match self.levels.len() {
            1 => ("level", "it has no coefficient"),
            _ => ("levels", "they have no coefficients"),
        };
        write!(f, "no row has the {word} {} of `{}`: {have}", few(&self.levels), shown(&self.factor))?;
        match &self.first {
            Some(first) => write!(f, ", and the first level is `{}`", shown(first)),
            None => Ok(()),
        }
    }
}

/// Takes away the declared levels that no kept row has from the columns of these terms, so that they have no coefficient and are not the
/// reference, as in R's `lm`. A column is left as it is where fewer than two levels would remain.
///
/// # Errors
///
/// A mask of another length, no rows left.
pub fn drop_unused_levels(
    frame: &mut Frame,
    terms: &[Term],
    dropped: Option<&Mask>,
) -> Result<Vec<UnusedLevels>, DataError> {
    let rows = Rows::new(frame, dropped)?;
    let mut found = Vec::new();
    let mut seen: HashSet<&Factor> = HashSet::new();
    for factor in terms.iter().flat_map(|term| &term.factors).filter(|factor| seen.insert(*factor)) {
        for name in factor.derived() {
            let Some(column) = frame.columns.iter_mut().find(|column| column.name == name) else { continue };
            let Values::Categorical { codes, levels, declared } = &mut column.values else { continue };
            if !*declared {
                continue;
            }
            let mut used = vec![false; levels.len()];
            let codes = rows.iter().map(|row| codes[row]).filter(|code| *code != MISSING);
            codes.for_each(|code| used[code as usize] = true);
            let of = |wanted: bool| -> Vec<String> {
                let levels = levels.iter().zip(&used).filter(|(_, used)| **used == wanted);
                levels.map(|(level, _)| level.clone()).collect()
            };
            let (kept, unused) = (of(true), of(false));
            if unused.is_empty() || kept.len() < 2 {
                continue;
            }
            // From here on the levels are those of the rows, in the declared order.
            *declared = false;
            let first = kept.into_iter().next().filter(|_| !used[0]);
            found.push(UnusedLevels { factor: factor.name().to_owned(), levels: unused, first });
        }
    }
    Ok(found)
}

/// The names that the columns of the design matrix will have, for showing them before anything is built.
///
/// # Errors
///
/// As [`encode`].
pub fn term_names(
    frame: &Frame,
    terms: &[Term],
    intercept: bool,
    dropped: Option<&Mask>,
) -> Result<Vec<String>, DataError> {
    let rows = Rows::new(frame, dropped)?;
    Ok(Layout::new(frame, terms, intercept, &rows)?.columns.into_iter().map(|column| column.name).collect())
}

/// Refuses more coefficients than rows before anything is built of them; `intercept` is that of [`encode`], `beside` are coefficients that
/// are no terms, such as the intercept.
///
/// # Errors
///
/// As [`encode`]; more coefficients than rows, with the categorical column that makes most of them.
pub fn refuse_too_many(
    frame: &Frame,
    terms: &[Term],
    (intercept, beside): (bool, usize),
    dropped: Option<&Mask>,
) -> Result<(), DataError> {
    let rows = Rows::new(frame, dropped)?;
    let Layout { columns, levels, .. } = Layout::new(frame, terms, intercept, &rows)?;
    let (rows, columns) = (rows.len(), columns.len() + beside);
    if columns <= rows {
        return Ok(());
    }
    let widths = levels.into_iter().map(|(column, levels)| (column, levels.len() - 1));
    // The first of several that are equally wide.
    let widest = widths.reduce(|widest, next| if next.1 > widest.1 { next } else { widest });
    Err(DataError::TooManyCoefficients { rows, columns, widest })
}

/// Builds the design matrix, in the order of `terms`, and takes every column out of the frame after its last use.
///
/// `intercept` says whether the model has an intercept, at whichever party; without one the first categorical term is
/// coded by all its levels. At peak the frame and the matrix together hold each value once, and one column twice.
///
/// # Errors
///
/// Unknown columns, missing values in kept rows, numbers beyond [`super::LARGEST`], a categorical column with a single level, a
/// mask of another length, no rows left. Constant or dependent columns are left to the solver.
pub fn encode(frame: &mut Frame, terms: &[Term], intercept: bool, dropped: Option<&Mask>) -> Result<Design, DataError> {
    let rows = Rows::new(frame, dropped)?;
    let Layout { columns, sources, levels } = Layout::new(frame, terms, intercept, &rows)?;
    let (n, p) = (rows.len(), columns.len());
    let too_big = DataError::TooBig { rows: n, columns: p };
    let size = n.checked_mul(p).filter(|size| *size <= isize::MAX as usize / 8).ok_or(too_big.clone())?;
    let mut data: Vec<f64> = Vec::new();
    data.try_reserve_exact(size).map_err(|_| too_big)?;
    let mut names = Vec::with_capacity(p);
    for (index, planned) in columns.iter().enumerate() {
        let start = data.len();
        for (position, part) in planned.parts.iter().enumerate() {
            let column = frame.column(&part.column)?;
            match (position, &column.values) {
                (0, Values::Numeric(values)) if rows.are_all() => data.extend_from_slice(values),
                (0, _) => data.extend(rows.iter().map(|row| part.value(column, row))),
                _ => {
                    let kept = data[start..].iter_mut();
                    kept.zip(rows.iter()).for_each(|(value, row)| *value *= part.value(column, row));
                }
            }
        }
        if planned.parts.len() > 1 {
            let beyond =
                data[start..].iter().zip(rows.iter()).find(|(value, _)| value.is_nan() || value.abs() > LARGEST);
            if let Some((value, row)) = beyond {
                let place = frame.place(row);
                return Err(DataError::TooLarge { column: planned.name.clone(), place, value: format!("{value:e}") });
            }
        }
        for part in &planned.parts {
            let used_again =
                columns[index + 1..].iter().flat_map(|later| &later.parts).any(|p| p.column == part.column);
            if !used_again && frame.column(&part.column).is_ok() {
                drop(frame.take(&part.column)?);
            }
        }
        names.push(planned.name.clone());
    }
    Ok(Design { terms: names, sources, matrix: DMatrix::from_vec(n, p, data), levels })
}

/// Where a column of the design matrix lies, whatever the rows are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// Numbers within an interval.
    Within(Interval),
    /// Numbers about the public centre of their column.
    Centred,
    /// Zeros and ones.
    Indicator,
}

/// The columns that the design matrix will have, and where each lies, of factors of which `known` says what they are.
///
/// # Errors
///
/// A term that stands there twice, a factor of a single level, too many columns; a product with a column that has no range.
pub(super) fn extents(
    terms: &[Term],
    intercept: bool,
    known: &BTreeMap<&Factor, Foreknown>,
) -> Result<Vec<(String, Extent)>, DataError> {
    let problem = |factor: &Factor, problem: &str| DataError::Function {
        term: factor.name().to_owned(),
        problem: problem.to_owned(),
    };
    let of = |factor: &Factor| known.get(factor).ok_or_else(|| problem(factor, "has no public bounds"));
    let used = |factor: &Factor| {
        let columns = factor.derived().into_iter().map(Arc::from).collect();
        let levels = match of(factor)? {
            Foreknown::Within(_) | Foreknown::Centred => None,
            Foreknown::Levels(levels) => {
                Some(levels.iter().enumerate().map(|(code, level)| (code as u32, level.clone())).collect())
            }
        };
        Ok(Used { text: levels.is_some(), columns, levels })
    };
    let mut within: BTreeMap<String, Interval> = BTreeMap::new();
    for factor in terms.iter().flat_map(|term| &term.factors) {
        if let Foreknown::Within(intervals) = of(factor)? {
            within.extend(factor.derived().into_iter().zip(intervals.iter().copied()));
        }
    }
    let layout = Layout::of(terms, intercept, 0, used)?;
    let extent = |(planned, term): (Planned, String)| {
        let numbers = planned.parts.iter().filter(|part| part.level.is_none());
        let numbers: Vec<Option<Interval>> = numbers.map(|part| within.get(&*part.column).copied()).collect();
        let indicators = planned.parts.len() - numbers.len();
        let extent = match &numbers[..] {
            [] => Extent::Indicator,
            [None] if indicators == 0 => Extent::Centred,
            _ => {
                let ranges: Option<Vec<Interval>> = numbers.iter().copied().collect();
                let product = ranges.and_then(|ranges| ranges.into_iter().reduce(Interval::times));
                let product = product.filter(|product| product.low.abs().max(product.high.abs()) <= LARGEST);
                let product = product.ok_or_else(|| DataError::Function {
                    term,
                    problem: "has no bound of usable size: each of its columns needs a `range` or `levels`".to_owned(),
                })?;
                Extent::Within(if indicators > 0 { product.with_zero() } else { product })
            }
        };
        Ok((planned.name, extent))
    };
    layout.columns.into_iter().zip(layout.sources).map(extent).collect()
}

/// What one column of the design matrix is made of.
struct Planned {
    name: String,
    parts: Vec<Part>,
}

/// A factor of a product: a numeric column, or the indicator of one level.
#[derive(Clone)]
struct Part {
    column: Arc<str>,
    level: Option<u32>,
}

impl Part {
    #[inline]
    fn value(&self, column: &Column, row: usize) -> f64 {
        match (&column.values, self.level) {
            (Values::Numeric(values), _) => values[row],
            (Values::Boolean(values), level) => f64::from(u8::from(values[row].map(u32::from) == level)),
            (Values::Categorical { codes, .. }, level) => f64::from(u8::from(Some(codes[row]) == level)),
        }
    }
}

struct Layout {
    columns: Vec<Planned>,
    sources: Vec<String>,
    levels: BTreeMap<String, Vec<String>>,
}

/// A factor in use.
struct Used {
    /// Its columns in the frame.
    columns: Vec<Arc<str>>,
    /// The levels by code and name, or none where it is numeric.
    levels: Option<Vec<(u32, String)>>,
    /// Whether the levels are texts, and not truth values.
    text: bool,
}

impl Used {
    fn of(frame: &Frame, factor: &Factor, rows: &Rows) -> Result<Used, DataError> {
        let columns: Vec<Arc<str>> = factor.derived().into_iter().map(Arc::from).collect();
        let mut used = Used { columns, levels: None, text: false };
        for name in &used.columns {
            let column = frame.column(name)?;
            check(frame, column, rows)?;
            let name = |code: u32| match &column.values {
                Values::Categorical { levels, .. } => levels[code as usize].clone(),
                Values::Numeric(_) | Values::Boolean(_) => ["FALSE", "TRUE"][code as usize].to_owned(),
            };
            let kept = || kept_levels(&column.values, rows).into_iter().map(|code| (code, name(code))).collect();
            used.text = matches!(column.values, Values::Categorical { .. });
            used.levels = (!matches!(column.values, Values::Numeric(_))).then(kept);
        }
        Ok(used)
    }

    /// Labels and parts: all levels or all but the first, or the numbers.
    fn parts(&self, factor: &Factor, full: bool) -> Vec<(String, Part)> {
        let number = |column: &Arc<str>| (column.to_string(), Part { column: Arc::clone(column), level: None });
        match (&self.levels, &self.columns[..]) {
            (Some(levels), [column]) => levels
                .iter()
                .skip(usize::from(!full))
                .map(|(code, level)| {
                    (format!("{factor}{level}"), Part { column: Arc::clone(column), level: Some(*code) })
                })
                .collect(),
            (Some(_) | None, columns) => columns.iter().map(number).collect(),
        }
    }
}

impl Layout {
    fn new(frame: &Frame, terms: &[Term], intercept: bool, rows: &Rows) -> Result<Layout, DataError> {
        Layout::of(terms, intercept, rows.len(), |factor| Used::of(frame, factor, rows))
    }

    /// Of factors of which `of` says what they are.
    fn of(
        terms: &[Term],
        intercept: bool,
        rows: usize,
        of: impl Fn(&Factor) -> Result<Used, DataError>,
    ) -> Result<Layout, DataError> {
        let mut used: BTreeMap<&Factor, Used> = BTreeMap::new();
        let mut levels = BTreeMap::new();
        let mut seen = HashSet::new();
        for term in terms {
            if !seen.insert(term) {
                return Err(DataError::RepeatedColumn { column: term.to_string() });
            }
            for factor in &term.factors {
                if used.contains_key(factor) {
                    continue;
                }
                let of = of(factor)?;
                if let (Some(kept), true) = (&of.levels, of.text) {
                    if let [(_, level)] = &kept[..] {
                        return Err(DataError::OneLevel { column: factor.name().to_owned(), level: level.clone() });
                    }
                    levels.insert(factor.name().to_owned(), kept.iter().map(|(_, level)| level.clone()).collect());
                }
                used.insert(factor, of);
            }
        }
        let codings = codings(terms, intercept, |factor| used[factor].levels.is_some());
        let (mut columns, mut sources) = (Vec::new(), Vec::new());
        for (term, full) in terms.iter().zip(codings) {
            let mut products = vec![Planned { name: String::new(), parts: Vec::new() }];
            for (factor, full) in term.factors.iter().zip(full) {
                let parts = used[factor].parts(factor, full);
                let width = products.len().saturating_mul(parts.len()).saturating_add(columns.len());
                if width > WIDEST {
                    return Err(DataError::TooBig { rows, columns: width });
                }
                // The first factor varies fastest.
                products = parts
                    .iter()
                    .flat_map(|(label, part)| products.iter().map(move |product| product.times(label, part)))
                    .collect();
            }
            sources.extend(products.iter().map(|_| term.to_string()));
            columns.extend(products);
        }
        Ok(Layout { columns, sources, levels })
    }
}

impl Planned {
    fn times(&self, label: &str, part: &Part) -> Planned {
        let name = match self.parts.is_empty() {
            true => label.to_owned(),
            false => format!("{}:{label}", self.name),
        };
        Planned { name, parts: self.parts.iter().chain([part]).cloned().collect() }
    }
}

/// For every factor of every term, whether all levels are coded, and not all but the first.
///
/// A factor is coded by contrasts where the rest of its term is part of an earlier term, the empty rest counting as the
/// intercept; where there is no intercept, the first categorical factor of the model is coded by all levels instead.
fn codings(terms: &[Term], intercept: bool, categorical: impl Fn(&Factor) -> bool) -> Vec<Vec<bool>> {
    let mut first = !intercept;
    terms
        .iter()
        .enumerate()
        .map(|(index, term)| {
            term.factors
                .iter()
                .map(|factor| {
                    let rest: Vec<&Factor> = term.factors.iter().filter(|other| *other != factor).collect();
                    let margin = rest.is_empty()
                        || terms[..index].iter().any(|earlier| rest.iter().all(|name| earlier.factors.contains(name)));
                    let full = categorical(factor) && (!margin || first);
                    first &= !categorical(factor);
                    full
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::formula::Formula;
    use super::super::{ColumnBuilder, Place, Places};
    use super::*;
    use proptest::prelude::*;

    /// A frame from text columns, by the rules for cells; the first row stands at line 2.
    pub(in super::super) fn frame(columns: &[(&str, &[&str])]) -> Frame {
        let mut places = Places::default();
        (0..columns[0].1.len()).for_each(|row| places.push(Place::Line(row as u64 + 2)));
        let columns = columns.iter().map(|(name, cells)| {
            let mut builder = ColumnBuilder::new(*name);
            for (row, cell) in cells.iter().enumerate() {
                builder.cell(cell.as_bytes(), Place::Line(row as u64 + 2)).unwrap();
            }
            builder.finish().unwrap()
        });
        Frame::new(columns.collect(), None, places).unwrap()
    }

    pub(in super::super) fn declared(name: &str, levels: &[&str], cells: &[&str]) -> Frame {
        let levels: Vec<String> = levels.iter().map(|level| level.to_string()).collect();
        let mut builder = ColumnBuilder::with_levels(name, &levels).unwrap();
        let mut places = Places::default();
        for (row, cell) in cells.iter().enumerate() {
            builder.cell(cell.as_bytes(), Place::Line(row as u64 + 2)).unwrap();
            places.push(Place::Line(row as u64 + 2));
        }
        Frame::new(vec![builder.finish().unwrap()], None, places).unwrap()
    }

    pub(in super::super) fn mask(rows: usize, dropped: &[usize]) -> Mask {
        let mut mask = Mask::new(rows);
        dropped.iter().for_each(|&row| mask.set(row));
        mask
    }

    fn design(frame: &Frame, text: &str) -> Result<Design, DataError> {
        let formula = Formula::parse(text).unwrap();
        let names: Vec<&str> = frame.names().collect();
        encode(&mut frame.clone(), &formula.terms(&names, &[]), formula.intercept, None)
    }

    fn mixed() -> Frame {
        frame(&[
            ("y", &["1", "2", "3", "4", "5", "6"]),
            ("a", &["1", "2", "4", "8", "16", "32"]),
            ("f", &["u", "v", "w", "u", "v", "w"]),
            ("g", &["p", "p", "p", "q", "q", "q"]),
            ("h", &["true", "true", "false", "true", "false", "false"]),
        ])
    }

    /// Expected: `colnames(model.matrix(formula, d))` in R 4, without `(Intercept)`.
    #[test]
    fn columns_are_coded_and_named_as_by_r() {
        for (text, expected) in [
            ("y ~ a + f + h", "a fv fw hTRUE"),
            ("y ~ 0 + f + g", "fu fv fw gq"),
            ("y ~ 0 + g + f", "gp gq fv fw"),
            ("y ~ 0 + a + h", "a hFALSE hTRUE"),
            ("y ~ f*g", "fv fw gq fv:gq fw:gq"),
            ("y ~ f + f:g", "fv fw fu:gq fv:gq fw:gq"),
            ("y ~ f:g", "fu:gp fv:gp fw:gp fu:gq fv:gq fw:gq"),
            ("y ~ a:f", "a:fu a:fv a:fw"),
            ("y ~ a*f", "a fv fw a:fv a:fw"),
            ("y ~ f + a:f", "fv fw fu:a fv:a fw:a"),
            ("y ~ a*f*h", "a fv fw hTRUE a:fv a:fw a:hTRUE fv:hTRUE fw:hTRUE a:fv:hTRUE a:fw:hTRUE"),
            ("y ~ 0 + a:f", "a:fu a:fv a:fw"),
            ("y ~ 0 + f:g + a", "a fu:gp fv:gp fw:gp fu:gq fv:gq fw:gq"),
        ] {
            assert_eq!(design(&mixed(), text).unwrap().terms.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn the_matrix_holds_indicators_and_products() {
        let design = design(&mixed(), "y ~ a*f + h").unwrap();
        assert_eq!(design.terms, ["a", "fv", "fw", "hTRUE", "a:fv", "a:fw"]);
        let expected = DMatrix::from_row_slice(
            6,
            6,
            &[
                1.0, 0.0, 0.0, 1.0, 0.0, 0.0, //
                2.0, 1.0, 0.0, 1.0, 2.0, 0.0, //
                4.0, 0.0, 1.0, 0.0, 0.0, 4.0, //
                8.0, 0.0, 0.0, 1.0, 0.0, 0.0, //
                16.0, 1.0, 0.0, 0.0, 16.0, 0.0, //
                32.0, 0.0, 1.0, 0.0, 0.0, 32.0,
            ],
        );
        assert_eq!(design.matrix, expected);
        assert_eq!(design.levels, BTreeMap::from([("f".into(), vec!["u".into(), "v".into(), "w".into()])]));
    }

    #[test]
    fn columns_leave_the_frame_after_their_last_use_and_others_stay() {
        let mut frame = mixed();
        let terms = Formula::parse("~ a + f + a:f").unwrap().terms(&[], &[]);
        let expected = term_names(&frame, &terms, true, None).unwrap();
        assert_eq!(encode(&mut frame, &terms, true, None).unwrap().terms, expected);
        assert_eq!(frame.names().collect::<Vec<_>>(), ["y", "g", "h"]);
    }

    proptest! {
        #[test]
        fn encoding_agrees_with_the_definition(
            cells in proptest::collection::vec((-9i32..9, 0usize..4, any::<bool>(), any::<bool>()), 2..40),
            intercept in any::<bool>(),
        ) {
            let x: Vec<String> = cells.iter().map(|cell| cell.0.to_string()).collect();
            let level: Vec<String> = cells.iter().map(|cell| ["d", "b", "a", "c"][cell.1].to_string()).collect();
            let truth: Vec<String> = cells.iter().map(|cell| cell.2.to_string()).collect();
            let view = |cells: &'_ [String]| cells.iter().map(|s| s.clone().leak() as &str).collect::<Vec<_>>();
            let mut frame = frame(&[("x", &view(&x)), ("level", &view(&level)), ("truth", &view(&truth))]);
            let dropped = mask(cells.len(), &(0..cells.len()).filter(|&row| cells[row].3).collect::<Vec<_>>());
            let kept: Vec<usize> = dropped.kept().collect();
            let mut used: Vec<&str> = kept.iter().map(|&row| level[row].as_str()).collect();
            used.sort();
            used.dedup();
            let terms = column_terms(["truth", "level", "x"]).unwrap();
            let result = encode(&mut frame, &terms, intercept, Some(&dropped));
            if kept.is_empty() {
                prop_assert_eq!(result.unwrap_err(), DataError::NoCompleteRow { rows: cells.len() });
                return Ok(());
            }
            if used.len() == 1 {
                prop_assert_eq!(
                    result.unwrap_err(),
                    DataError::OneLevel { column: "level".into(), level: used[0].into() }
                );
                return Ok(());
            }
            let mut names: Vec<String> = vec!["truthTRUE".into()];
            if !intercept {
                names.insert(0, "truthFALSE".into());
            }
            names.extend(used[1..].iter().map(|level| format!("level{level}")));
            names.push("x".into());
            let design = result.unwrap();
            prop_assert_eq!(&design.terms, &names);
            for (position, &row) in kept.iter().enumerate() {
                for (column, name) in names.iter().enumerate() {
                    let expected = match name.as_str() {
                        "x" => f64::from(cells[row].0),
                        "truthTRUE" => f64::from(u8::from(cells[row].2)),
                        "truthFALSE" => f64::from(u8::from(!cells[row].2)),
                        name => f64::from(u8::from(name["level".len()..] == level[row])),
                    };
                    prop_assert_eq!(design.matrix[(position, column)], expected);
                }
            }
        }
    }

    #[test]
    fn declared_levels_stay_without_rows_and_keep_their_order() {
        let frame = declared("dose", &["low", "high", "none"], &["high", "low", "high"]);
        let design = design(&frame, "~ dose").unwrap();
        assert_eq!(design.terms, ["dosehigh", "dosenone"]);
        assert_eq!(design.matrix.as_slice(), [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn two_coefficients_of_one_name_are_refused_with_both_sources() {
        let frame = frame(&[("a", &["b", "c", "b"]), ("ac", &["1", "2", "4"]), ("(Intercept)", &["1", "0", "2"])]);
        let refused = |text: &str| {
            let design = design(&frame, text).unwrap();
            refuse_same_names(&design.terms, &design.sources, "(Intercept)").map_err(|error| error.to_string())
        };
        assert_eq!(
            refused("~ a + ac").unwrap_err(),
            "two coefficients would have the name `ac`, one of `a` and one of `ac`; rename a column"
        );
        assert_eq!(
            refused("~ ac + `(Intercept)`").unwrap_err(),
            "a coefficient of `(Intercept)` would have the name of the intercept; rename the column"
        );
        assert_eq!(refused("~ a"), Ok(()));
        assert_eq!(refused("~ ac"), Ok(()));
    }

    #[test]
    fn a_single_row_is_told_of_as_one() {
        assert_eq!(
            DataError::TooManyCoefficients { rows: 1, columns: 2, widest: None }.to_string(),
            "1 row cannot determine 2 coefficients; leave columns out or use a penalty"
        );
    }

    #[test]
    fn declared_levels_without_rows_are_taken_away_where_two_others_remain() {
        let term = [Term::column("dose")];
        let mut three = declared("dose", &["low", "high", "none"], &["none", "high", "high", "low"]);
        let said = drop_unused_levels(&mut three, &term, Some(&mask(4, &[3]))).unwrap();
        assert_eq!(
            said.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["no row has the level `low` of `dose`: it has no coefficient, and the first level is `high`"]
        );
        let design = encode(&mut three, &term, true, Some(&mask(4, &[3]))).unwrap();
        assert_eq!(design.terms, ["dosenone"]);
        assert_eq!(design.levels["dose"], ["high", "none"], "the reference is the first that a row has");
        let mut one = declared("dose", &["low", "high", "none"], &["high", "high"]);
        assert_eq!(drop_unused_levels(&mut one, &term, None), Ok(Vec::new()));
        assert_eq!(encode(&mut one, &term, true, None).unwrap().terms, ["dosehigh", "dosenone"]);
    }

    #[test]
    fn the_first_used_level_is_the_reference_where_dropped_rows_took_others_away() {
        let mut frame = frame(&[("f", &["a", "b", "c", "b"])]);
        let design = encode(&mut frame, &[Term::column("f")], true, Some(&mask(4, &[0]))).unwrap();
        assert_eq!(design.terms, ["fc"]);
        assert_eq!(design.matrix.as_slice(), [0.0, 1.0, 0.0]);
    }

    #[test]
    fn names_that_cannot_be_shown_and_columns_without_squares_are_refused() {
        let names =
            |name: &str| refuse_odd_names(&["age".to_string(), name.to_string()]).map_err(|error| error.to_string());
        assert_eq!(names("Größe (cm) ≥ 3"), Ok(()));
        assert_eq!(names(&"x".repeat(1000)), Ok(()));
        for odd in ["a\u{1b}[31m", "income\n(EUR)", "a\u{202e}b", "a\u{feff}"] {
            let sentence = names(odd).unwrap_err();
            assert!(sentence.contains("rename the column or the level") && !sentence.contains(odd), "{sentence}");
        }
        let sentence = names(&"x".repeat(1001)).unwrap_err();
        assert!(sentence.contains("has 1001 bytes") && sentence.len() < 200, "{sentence}");
        let of = |values: [f64; 3]| Design {
            matrix: DMatrix::from_column_slice(3, 2, &[&[1.0, 2.0, 3.0][..], &values].concat()),
            terms: vec!["age".to_string(), "dose".to_string()],
            sources: vec!["age".to_string(), "dose".to_string()],
            levels: BTreeMap::new(),
        };
        for usable in [[0.0; 3], [0.0, 0.0, 1e-150], [1e-200, -1.0, 0.0]] {
            assert_eq!(refuse_tiny(&of(usable)), Ok(()));
        }
        let sentence = refuse_tiny(&of([0.0, -9e-151, 1e-300])).unwrap_err().to_string();
        assert_eq!(sentence, "column `dose`: no value is larger than 1e-150, so rescale the column");
    }

    #[test]
    fn predictors_that_cannot_be_used_are_refused_with_a_sentence() {
        let frame = frame(&[
            ("age", &["1", "NA", "3", ""]),
            ("big", &["1", "2", "-1e308", "4"]),
            ("f", &["a", "a", "a", "a"]),
            ("u", &["1e100", "1", "1", "1"]),
            ("v", &["1", "1e100", "1e100", "1"]),
        ]);
        let message = |text: &str| design(&frame, text).unwrap_err().to_string();
        assert_eq!(message("~ age"), "column `age` has 2 missing values (the first at line 3); fill them in");
        let droppable = design(&frame, "~ age").unwrap_err().droppable().to_string();
        assert!(droppable.contains("`--missing complete-cases`"), "{droppable}");
        assert_eq!(
            message("~ big"),
            "column `big`, line 4: -1e308 is too large; sizes up to 1e150 can be used, so rescale the column"
        );
        assert_eq!(message("~ f"), "column `f` has the single level `a` in all rows used; leave it out");
        assert_eq!(message("~ aeg"), "there is no column `aeg`; the nearest name is `age`");
        assert!(design(&frame, "~ u:v").is_ok());
        let squares = [Term { factors: ["u", "v"].map(Factor::column).to_vec() }, Term::column("u")];
        let mut larger = frame.clone();
        larger.reorder(&[1, 0, 2, 3]).unwrap();
        assert!(encode(&mut larger, &squares, true, None).is_ok());
        assert_eq!(column_terms(["u", "v", "u"]).unwrap_err().to_string(), "column `u` is named twice");
        assert_eq!(
            check_roles(&[Term::column("u")], &[("v", "the id"), ("u", "the outcome")]).unwrap_err().to_string(),
            "column `u` is the outcome and cannot be a predictor too"
        );
        let term = [Term::column("u")];
        assert_eq!(
            encode(&mut frame.clone(), &term, true, Some(&mask(4, &[0, 1, 2, 3]))).unwrap_err().to_string(),
            "none of the 4 rows is complete"
        );
        assert_eq!(
            encode(&mut frame.clone(), &term, true, Some(&Mask::new(5))),
            Err(DataError::MaskLength { mask: 5, rows: 4 })
        );
    }

    #[test]
    fn products_beyond_range_are_refused() {
        let frame = frame(&[("u", &["1", "1e100"]), ("v", &["1", "1e100"])]);
        assert_eq!(
            design(&frame, "~ u:v").unwrap_err().to_string(),
            "column `u:v`, line 3: 1e200 is too large; sizes up to 1e150 can be used, so rescale the column"
        );
    }

    #[test]
    fn interactions_of_identifiers_are_refused_before_they_fill_the_memory() {
        let cells: Vec<String> = (0..2000).map(|row| format!("p{row}")).collect();
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        let frame = frame(&[("f", &cells), ("g", &cells)]);
        assert_eq!(design(&frame, "~ f*g"), Err(DataError::TooBig { rows: 2000, columns: 1999 * 1999 + 2 * 1999 }));
    }

    #[test]
    fn missing_values_in_dropped_rows_do_no_harm() {
        let mut frame = frame(&[("age", &["1", "NA", "3", ""])]);
        let dropped = frame.missing(["age"]).unwrap();
        let design = encode(&mut frame, &[Term::column("age")], true, Some(&dropped)).unwrap();
        assert_eq!(design.matrix.as_slice(), [1.0, 3.0]);
    }

    #[test]
    fn the_first_missing_value_is_named_in_the_order_of_the_file() {
        let mut frame = frame(&[("age", &["1", "NA", "3", ""])]);
        frame.reorder(&[3, 2, 1, 0]).unwrap();
        assert!(design(&frame, "~ age").unwrap_err().to_string().contains("(the first at line 3)"));
    }

    #[test]
    fn the_debug_view_of_a_design_shows_no_numbers() {
        let design = design(&frame(&[("x", &["123.5", "7"])]), "~ x").unwrap();
        assert_eq!(format!("{design:?}"), "Design { rows: 2, terms: [\"x\"], .. }");
    }
}
