//! The coefficient table, formatted as by R's `printCoefmat`.

use maud::{Markup, html};

use super::number::{UNDEFINED, column, round, significant, single, visible};
use super::plot::Colours;
use super::section::Section;
use super::table::Column;
use super::{Report, plot};
use crate::fit::Coefficient;
use crate::id::Role;

/// Significant digits of estimates, as `summary.glm` prints them.
const DIGITS: usize = 4;
/// Longest name on the page that is not wrapped, in characters.
const LONGEST: usize = 40;

/// What a method says of its coefficient table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style<'a> {
    /// The name of the statistic, by the law that the p-values have.
    pub(crate) test: char,
    /// Where the rows belong to more than one party, so that each must say to whom: the parties' colours.
    pub(crate) parties: Option<Colours<'a>>,
    /// Whose columns they are, where they are one party's.
    pub(crate) holder: Option<Role>,
    /// Whether the text leaves out errors and statistics that are all undefined.
    pub(crate) bare: bool,
    /// What intervals cover in private mode, where there are no stars: they would count noise as evidence.
    pub(crate) covered: Option<&'static str>,
    /// Whether the text has intervals too.
    pub(crate) intervals: bool,
}

impl<'a> Style<'a> {
    /// Of estimates with this statistic, of one holder and without noise.
    pub(crate) fn new(test: char) -> Style<'a> {
        Style { test, parties: None, holder: None, bare: false, covered: None, intervals: false }
    }
}

/// The coefficients of a report, with a picture on the page.
pub(crate) fn section(report: &Report, style: &Style<'_>) -> Section {
    let rows = &report.coefficients;
    let (lambda, why) = (shown_lambda(report), why_no_errors(report));
    let with_intervals = rows.iter().filter(|row| row.conf_low.is_some()).count();
    let caption = html! {
        "Each estimate is drawn in units of its own standard error, so that terms of every size share the axis; "
        "the numbers at the right are on the original scale. An interval that crosses zero is compatible with no effect. "
        @for (at, (role, class)) in style.parties.iter().flat_map(|colours| colours.legend()).enumerate() {
            @if at > 0 { " " }
            span class=(class) { span.swatch {} " " (role) }
        }
        @if with_intervals > plot::MOST_ROWS {
            " The " (plot::MOST_ROWS) " of " (with_intervals) " terms with the largest statistic are drawn; the table has all."
        }
    };
    let section = Section::new("Coefficients").figure(plot::coefficients(rows, style.parties), caption).page(html! {
        @if let Some(lambda) = &lambda { p.remark { "The coefficients are those at " (lambda) "." } }
        @if let Some(why) = why { p.remark { "Standard errors are not available: " (why) "." } }
    });
    if rows.is_empty() {
        return section.line("No Coefficients").remark(html! { "No coefficients." });
    }
    let mut remarks: Vec<String> =
        style.holder.map(|role| format!("columns of {role}")).into_iter().chain(lambda).collect();
    remarks.extend(
        Some(dropped(rows)).filter(|dropped| *dropped > 0).map(|n| format!("{n} not defined because of singularities")),
    );
    let heading = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
    let section = rows_of(section.line(format!("Coefficients:{heading}")), rows, style);
    let missing = if style.bare { "not available" } else { "NA" };
    match why {
        Some(why) => section.line(format!("---\nStandard errors are {missing}: {why}")),
        None => section,
    }
}

/// Adds the table of these coefficients, and how its columns came about.
pub(crate) fn rows_of(section: Section, rows: &[Coefficient], style: &Style<'_>) -> Section {
    let (estimates, std_errors) = sized(rows);
    let tests = values(rows, |row| row.statistic.map(|t| round(t, 3)));
    let p_values = values(rows, |row| row.p_value.filter(|p| p.is_finite()));
    let starred = style.covered.is_none() && p_values.iter().flatten().any(|p| *p < 0.1);
    let symbols = p_values.iter().map(|p| if starred { symbol(*p) } else { "" }.to_string());
    let stars = Column::left("", symbols.collect()).class("stars");
    let ends = [
        Column::right("2.5 %", interval_cells(&values(rows, |row| row.conf_low), &estimates)),
        Column::right("97.5 %", interval_cells(&values(rows, |row| row.conf_high), &estimates)),
    ];
    let long = |row: &Coefficient| if row.term.chars().count() > LONGEST { "long" } else { "" };
    let term = Column::left("", rows.iter().map(|row| visible(&row.term)).collect());
    let mut columns = vec![term.heading("Term").classes(rows.iter().map(long))];
    if let Some(colours) = style.parties {
        let party = Column::left("Party", rows.iter().map(|row| row.party.to_string()).collect());
        columns.push(party.parties(rows.iter().map(|row| Some(row.party)), colours));
    }
    columns.push(Column::right("Estimate", estimates));
    let tests = [
        Column::right("Std. Error", std_errors).heading("Std. error"),
        Column::right(&format!("{} value", style.test), column(&tests, DIGITS)),
        Column::right(&format!("Pr(>|{}|)", style.test), p_value_column(&p_values)),
    ];
    columns.extend(tests.map(|column| if style.bare { column.page_only() } else { column }));
    if !style.bare {
        columns.push(if starred { stars } else { stars.text_only() });
    }
    columns.extend(ends.map(|column| if style.intervals { column } else { column.page_only() }));
    let section = section.table(columns).remark(remark(rows, style, starred));
    match starred {
        true => section.line("---\nSignif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1"),
        false => section,
    }
}

/// How many coefficients have no estimate.
fn dropped(rows: &[Coefficient]) -> usize {
    rows.iter().filter(|row| row.estimate.is_none()).count()
}

/// On the page, below the table.
fn remark(rows: &[Coefficient], style: &Style, starred: bool) -> Markup {
    let dropped = dropped(rows);
    html! {
        @if dropped > 0 { (dropped) " not defined because of singularities. " }
        @if starred { "*** p ≤ 0.001, ** p ≤ 0.01, * p ≤ 0.05, . p ≤ 0.1. " }
        @if rows.iter().all(|row| row.conf_low.is_none()) {} @else if let Some(covered) = style.covered {
            (covered)
        } @else if style.test == 't' {
            "Wald intervals from Student's t with the residual degrees of freedom."
        } @else {
            "Wald intervals from the normal distribution."
        }
    }
}

/// Why there are no standard errors at all; `None` if there are some, or no estimates to have them.
fn why_no_errors(report: &Report) -> Option<&'static str> {
    let estimates = report.coefficients.iter().any(|row| row.estimate.is_some());
    if !estimates || report.coefficients.iter().any(|row| row.std_error.is_some()) {
        None
    } else if report.notes.iter().any(|note| note.to_lowercase().contains("standard error")) {
        Some("see the notes")
    } else if report.noised() {
        Some("in private mode they are printed only where they account for the noise")
    } else if report.path.is_some() {
        Some("the estimates are penalised")
    } else if report.statistics.df_residual.is_some_and(|df| df <= 0) {
        Some("no residual degrees of freedom are left")
    } else {
        Some("this run did not compute them")
    }
}

/// To which penalty the coefficients belong; `None` without one.
fn shown_lambda(report: &Report) -> Option<String> {
    let lambda = single(Some(report.lambda?), DIGITS);
    let last = report.path.as_ref().and_then(|path| path.last()).map(|point| point.lambda);
    Some(match (report.lambda == report.lambda_min, report.lambda == last) {
        (true, _) => format!("lambda = {lambda}, that of the smallest cross-validated error"),
        (_, true) => format!("lambda = {lambda}, the last of the path"),
        _ => format!("lambda = {lambda}"),
    })
}

/// Estimates and standard errors, formatted together: what one needs, all get.
fn sized(rows: &[Coefficient]) -> (Vec<String>, Vec<String>) {
    let n = rows.len();
    let sizes = [values(rows, |row| row.estimate), values(rows, |row| row.std_error)].concat();
    let smallest =
        sizes.iter().flatten().map(|x| x.abs()).filter(|x| x.is_finite() && *x > 0.0).fold(f64::INFINITY, f64::min);
    let before_point = match smallest.is_finite() {
        true => 1 + smallest.log10().floor() as i32,
        false => 0,
    };
    let decimals = (DIGITS as i32 - before_point).max(1);
    let rounded: Vec<Option<f64>> = sizes.iter().map(|x| x.map(|x| round(x, decimals))).collect();
    let mut text = column(&rounded, DIGITS);
    // Rounding to the decimals of the largest may have hidden a small number altogether.
    let hidden: Vec<usize> =
        (0..2 * n).filter(|&at| sizes[at].is_some_and(|x| x != 0.0) && text[at].parse() == Ok(0.0)).collect();
    let shown = column(&hidden.iter().map(|&at| sizes[at]).collect::<Vec<_>>(), DIGITS - 1);
    for (at, shown) in hidden.into_iter().zip(shown) {
        text[at] = shown;
    }
    let std_errors = text.split_off(n);
    (text, std_errors)
}

fn values(rows: &[Coefficient], value: fn(&Coefficient) -> Option<f64>) -> Vec<Option<f64>> {
    rows.iter().map(value).collect()
}

/// The ends of intervals with as many decimals as the estimates beside them.
fn interval_cells(ends: &[Option<f64>], estimates: &[String]) -> Vec<String> {
    let decimals = estimates
        .iter()
        .filter(|text| *text != UNDEFINED)
        .map(|text| match text.contains('e') {
            true => None,
            false => Some(text.split_once('.').map_or(0, |(_, decimals)| decimals.len())),
        })
        .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
        .flatten();
    match decimals {
        Some(decimals) if ends.iter().flatten().all(|x| x.abs() < 1e9) => ends
            .iter()
            .map(|end| match end.filter(|x| x.is_finite()) {
                Some(x) => format!("{x:.decimals$}"),
                None => UNDEFINED.to_string(),
            })
            .collect(),
        _ => column(&ends.iter().map(|end| end.map(|x| significant(x, DIGITS))).collect::<Vec<_>>(), DIGITS),
    }
}

/// The symbol of R's legend.
fn symbol(p_value: Option<f64>) -> &'static str {
    match p_value {
        Some(p) if p <= 0.001 => "***",
        Some(p) if p <= 0.01 => "**",
        Some(p) if p <= 0.05 => "*",
        Some(p) if p <= 0.1 => ".",
        _ => "",
    }
}

/// R's `format.pval` with three digits: small ones in scientific notation, those below the machine's precision as a bound.
pub(crate) fn p_value_column(p_values: &[Option<f64>]) -> Vec<String> {
    const DIGITS: usize = 3;
    let vanishing = |p: f64| p < f64::EPSILON;
    let plain = |p: f64| p == 0.0 || p.log10().floor() >= -4.0;
    let only = |keep: &dyn Fn(f64) -> bool| -> Vec<Option<f64>> {
        p_values.iter().map(|p| p.filter(|p| !vanishing(*p) && keep(*p))).collect()
    };
    let fixed = column(&only(&plain), DIGITS);
    let tiny = column(&only(&|p| !plain(p)), DIGITS);
    let mut text: Vec<String> = p_values
        .iter()
        .zip(fixed.into_iter().zip(tiny))
        .map(|(p, (fixed, tiny))| match p {
            Some(p) if plain(*p) => fixed,
            Some(_) => tiny,
            None => UNDEFINED.to_string(),
        })
        .collect();
    let shown =
        p_values.iter().zip(&text).filter(|(p, _)| p.is_some_and(|p| !vanishing(p))).map(|(_, text)| text.len()).max();
    let bound = if shown.is_some_and(|width| width > 6) { "< 2e-16" } else { "<2e-16" };
    for (p, text) in p_values.iter().zip(&mut text) {
        if p.is_some_and(vanishing) {
            *text = bound.to_string();
        }
    }
    text
}
