//! What stands beside the coefficients: ratios, measures of the whole fit, terms, discrimination and calibration.

use maud::{Markup, html};

use super::whole;
use crate::fit::{Coefficient, Covariance, Performance, TermTest, Test};
use crate::glm::Family;
use crate::id::Role;
use crate::report::coefficients::{Style, p_value_column};
use crate::report::number::{UNDEFINED, significant, single, visible};
use crate::report::section::Section;
use crate::report::table::{Column, markup};
use crate::report::{Report, plot};

const DIGITS: usize = 4;

/// Values with four significant digits each, in a column.
fn cells(values: impl Iterator<Item = Option<f64>>) -> Vec<String> {
    values.map(|x| single(x.map(|x| significant(x, DIGITS)), DIGITS)).collect()
}

fn p_value(p: f64) -> String {
    p_value_column(&[Some(p)]).swap_remove(0)
}

/// A test in words.
fn tested(test: &Test) -> String {
    let statistic = single(Some(test.statistic), DIGITS);
    match test.df_residual {
        Some(residual) => format!("{statistic} on {} and {residual} DF, p-value: {}", test.df, p_value(test.p_value)),
        None => format!("{statistic} on {} DF, p-value: {}", test.df, p_value(test.p_value)),
    }
}

/// What the ratios of a family are.
fn name(family: Family) -> &'static str {
    match family {
        Family::Gaussian => "Ratio",
        Family::Binomial => "Odds ratio",
        Family::Poisson => "Rate ratio",
    }
}

/// Odds or rate ratios with their intervals; `None` for gaussian.
pub(super) fn ratios(report: &Report, style: &Style<'_>) -> Option<Section> {
    let has_ratios = report.family.base().has_ratios() && report.coefficients.iter().any(|row| row.ratio.is_some());
    let overflows = |x: Option<f64>| x.is_some_and(|x| x.exp() == f64::INFINITY);
    let has_ratio = |row: &&Coefficient| row.ratio.is_some() || (has_ratios && overflows(row.estimate));
    let rows: Vec<_> = report.coefficients.iter().filter(has_ratio).cloned().collect();
    if rows.is_empty() {
        return None;
    }
    let name = name(report.family.base());
    let mut columns = vec![Column::left("", rows.iter().map(|row| visible(&row.term)).collect()).heading("Term")];
    if let Some(colours) = style.parties {
        let party = Column::left("Party", rows.iter().map(|row| row.party.to_string()).collect());
        columns.push(party.parties(rows.iter().map(|row| Some(row.party)), colours));
    }
    // JSON has no number for what overflows; as R, the text says Inf.
    let ratios = |of: fn(&Coefficient) -> (Option<f64>, Option<f64>)| {
        let shown =
            |(ratio, x)| if overflows(x) { "Inf".to_string() } else { cells(std::iter::once(ratio)).swap_remove(0) };
        rows.iter().map(|row| shown(of(row))).collect::<Vec<_>>()
    };
    columns.push(Column::right(name, ratios(|row| (row.ratio, row.estimate))));
    let with_intervals = rows.iter().any(|row| row.ratio_low.is_some() || row.ratio_high.is_some());
    if with_intervals {
        columns.push(Column::right("2.5 %", ratios(|row| (row.ratio_low, row.conf_low))));
        columns.push(Column::right("97.5 %", ratios(|row| (row.ratio_high, row.conf_high))));
    }
    let caption = html! {
        "What one more unit of the column multiplies the " @if report.family.base() == Family::Binomial { "odds" } @else { "rate" }
        " by, the other columns unchanged; an interval that holds 1 is compatible with no effect."
    };
    let plain = "Exponentials of the estimates and of the ends of their intervals. That of the intercept belongs to columns of zero.";
    let remark = match with_intervals {
        true => style.covered.unwrap_or(plain),
        false => "Exponentials of the estimates. That of the intercept belongs to columns of zero.",
    };
    Some(
        Section::new(&format!("{name}s"))
            .figure(plot::ratios(&rows, name, style.parties), caption)
            .line(format!("{name}s:"))
            .table(columns)
            .remark(html! { (remark) }),
    )
}

/// Measures of the whole fit as lines of the text.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let measures = &report.measures;
    let adjusted = measures.adj_r_squared.map(|r| format!("Adjusted R squared: {}", single(Some(r), DIGITS + 1)));
    let f = measures.f_test.map(|test| format!("F statistic: {}", tested(&test)));
    let mcfadden = measures.mcfadden_r_squared.map(|r| format!("McFadden R squared: {}", single(Some(r), DIGITS)));
    let ratio = measures.lr_test.map(|test| format!("Likelihood ratio test: {}", tested(&test)));
    let lines =
        [[adjusted, f], [mcfadden, ratio]].map(|line| line.into_iter().flatten().collect::<Vec<_>>().join(",  "));
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The same on the page, with their names.
pub(super) fn entries(report: &Report) -> Vec<(&'static str, String)> {
    let measures = &report.measures;
    let number = |x: Option<f64>| x.map(|x| single(Some(x), DIGITS));
    let test = |test: Option<Test>| test.as_ref().map(tested);
    let entries = [
        ("Adjusted R squared", number(measures.adj_r_squared)),
        ("F statistic", test(measures.f_test)),
        ("McFadden R squared", number(measures.mcfadden_r_squared)),
        ("Likelihood ratio test", test(measures.lr_test)),
    ];
    entries.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Tests and inflation of the terms.
pub(super) fn terms(report: &Report, style: &Style<'_>) -> Option<Section> {
    let all = report.term_tests.as_deref().filter(|tests| !tests.is_empty())?;
    let columns = table(all, report.family.estimates_dispersion(), style);
    let inflated = has_vif(all);
    let scaled = inflated.then(|| Column::right("VIF^(1/(2 Df))", cells(all.iter().map(|row| row.scaled_vif))));
    let second = type_ii(all);
    let heading = match is_contained(all) {
        true => "Wald tests of the terms (type III, and type II beside all but the terms that contain it):",
        false => "Wald tests of the terms (type III):",
    };
    let section = Section::new("Terms").line(heading);
    Some(section.table(columns.into_iter().chain(second).chain(scaled).collect()).remark(html! {
        "Wald tests that all coefficients of a term are zero, beside all other terms (type III)"
        @if is_contained(all) { ", and beside all but those that contain it (type II)" }
        @if inflated {
            ". The variance inflation factor (of several columns the generalised one) says "
            "how much the other columns, those of other parties among them, blur the estimate."
        } @else {
            ". Variance inflation factors are not computed in this fit."
        }
    }))
}

/// Whether any term has a variance inflation factor: terms of a sealed binomial or poisson fit have none, as they would need the own columns
/// with the weights of the fit.
fn has_vif(rows: &[TermTest]) -> bool {
    rows.iter().any(|row| row.vif.is_some())
}

/// Whether a term is part of another one, so that its tests differ; reports of earlier versions do not say.
fn is_contained(rows: &[TermTest]) -> bool {
    rows.iter().any(|row| row.wald_type_ii.is_some() && row.wald != row.wald_type_ii)
}

/// Columns of the tests by type II, where they differ from the others.
fn type_ii(rows: &[TermTest]) -> Vec<Column> {
    if !is_contained(rows) {
        return Vec::new();
    }
    let p_values: Vec<Option<f64>> = rows.iter().map(|row| row.wald_type_ii.map(|test| test.p_value)).collect();
    vec![
        Column::right("Type II", cells(rows.iter().map(|row| row.wald_type_ii.map(|test| test.statistic)))),
        Column::right("Pr(type II)", p_value_column(&p_values)),
    ]
}

/// The tests, of the F distribution in place of the chi-squared one where the dispersion is estimated.
fn table(rows: &[TermTest], f: bool, style: &Style<'_>) -> Vec<Column> {
    let walds = || rows.iter().map(|row| row.wald);
    let p_values: Vec<Option<f64>> = walds().map(|test| test.map(|test| test.p_value)).collect();
    let mut columns = vec![Column::left("", rows.iter().map(|row| visible(&row.term)).collect()).heading("Term")];
    if let Some(colours) = style.parties {
        let party = Column::left("Party", rows.iter().map(|row| row.party.to_string()).collect());
        columns.push(party.parties(rows.iter().map(|row| Some(row.party)), colours));
    }
    columns.extend([
        Column::right("Df", rows.iter().map(|row| row.df.to_string()).collect()),
        Column::right(if f { "F" } else { "Chisq" }, cells(walds().map(|test| test.map(|test| test.statistic)))),
        Column::right(if f { "Pr(>F)" } else { "Pr(>Chisq)" }, p_value_column(&p_values)),
    ]);
    if has_vif(rows) {
        columns.push(Column::right("VIF", cells(rows.iter().map(|row| row.vif))));
    }
    columns
}

/// Most columns of a covariance matrix that stand on the page unfolded.
const UNFOLDED: usize = 10;
/// Most columns of one that stand on the page at all.
const LARGEST: usize = 60;

/// The covariance matrix of the coefficients, on the page only.
pub(super) fn covariance(report: &Report, style: &Style<'_>) -> Option<Section> {
    let Covariance { terms, parties, matrix } = report.covariance.as_ref()?;
    let size = terms.len();
    let section = Section::new("Covariance of the coefficients");
    if size > LARGEST {
        return Some(section.remark(html! {
            "A matrix of " (size) " rows and columns, which stands in report.json: `covariance`."
        }));
    }
    let names: Vec<String> = terms.iter().map(|term| visible(term)).collect();
    let mut columns = vec![Column::left("Term", names.clone())];
    if let Some(colours) = style.parties {
        let party = Column::left("Party", parties.iter().map(Role::to_string).collect());
        columns.push(party.parties(parties.iter().copied().map(Some), colours));
    }
    let values = |at: usize| cells(matrix.iter().map(|row| row.get(at).copied().flatten()));
    columns.extend(names.iter().enumerate().map(|(at, name)| Column::right(name, values(at))));
    let table = html! { div.scroll { (markup(&columns)) } };
    let unknown = matrix.iter().flatten().any(Option::is_none);
    let section = section.page(match size > UNFOLDED {
        true => html! { details { summary { (size) " rows and columns" } (table) } },
        false => table,
    });
    Some(section.remark(html! {
        "The standard errors are the roots of its diagonal."
        @if unknown { " " (UNDEFINED) ": not known in this report." }
    }))
}

/// ROC curve and calibration.
pub(super) fn performance(report: &Report) -> Option<Section> {
    let of = report.performance.as_ref()?;
    let number = |x: Option<f64>| single(x.map(|x| significant(x, DIGITS)), DIGITS);
    let area = match (of.auc, of.auc_low, of.auc_high) {
        (Some(_), Some(low), Some(high)) => {
            format!("{} [{}, {}] (DeLong)", number(of.auc), number(Some(low)), number(Some(high)))
        }
        _ => number(of.auc),
    };
    let fit = of.hosmer_lemeshow.as_ref().map_or_else(|| UNDEFINED.to_string(), tested);
    let brier = number(Some(of.brier));
    let (error, intercept) = (number(of.auc_std_error), number(of.calibration_intercept.map(zero)));
    let slope = number(of.calibration_slope);
    let facts = [
        ("Area under the ROC curve", area.clone()),
        ("Standard error", error.clone()),
        ("Brier score", brier.clone()),
        ("Hosmer-Lemeshow test", fit.clone()),
        ("Calibration intercept", intercept.clone()),
        ("Calibration slope", slope.clone()),
    ];
    let section = Section::new("Discrimination and calibration")
        .line(format!("Area under the ROC curve: {area},  standard error: {error}"))
        .line(format!("Brier score: {brier},  Hosmer-Lemeshow test: {fit}"))
        .line(format!("Calibration intercept: {intercept},  calibration slope: {slope}"))
        .figure(plot::roc(&of.roc), html! {
            "ROC curve on the rows of the fit, " (whole(Some(of.events))) " of them with outcome 1; a model that tells nothing apart lies on the diagonal."
        })
        .figure(plot::calibration(&of.deciles), html! {
            "Observed shares against mean probabilities, between the deciles of the probabilities; a calibrated model lies on the diagonal."
        })
        .facts(facts);
    Some(section.table(deciles(of).into_iter().map(Column::page_only).collect()).remark(remark()))
}

/// What rounding leaves of a calibration intercept of zero.
fn zero(intercept: f64) -> f64 {
    if intercept.abs() < 1e-6 { 0.0 } else { intercept }
}

fn remark() -> Markup {
    html! {
        "Computed at a party that holds the outcome; nothing of it was sent. It is measured on the rows that the model was fitted to, so new rows will "
        "do worse; intercept and slope of calibration are 0 and 1 where the model has an intercept and neither penalty nor offset. The curve and this table are about groups of at least 5 rows; "
        "who is given them learns the outcome of a row whose group has one outcome only."
    }
}

fn deciles(of: &Performance) -> Vec<Column> {
    let each =
        |cell: &dyn Fn(&crate::fit::performance::Decile) -> String| of.deciles.iter().map(cell).collect::<Vec<_>>();
    vec![
        Column::right("Group", (1..=of.deciles.len()).map(|at| at.to_string()).collect()),
        Column::right("Rows", each(&|group| group.rows.to_string())),
        Column::right(
            "Mean probability",
            each(&|group| single(Some(significant(group.expected / group.rows as f64, 3)), 3)),
        ),
        Column::right("Expected", each(&|group| format!("{:.1}", group.expected))),
        Column::right("Observed", each(&|group| group.observed.to_string())),
    ]
}
