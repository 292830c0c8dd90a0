//! The report as one page that needs nothing else: style sheet and pictures are inside, there is no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::number::{UNDEFINED, bytes, duration, single, small, thousands, visible};
use super::table::{
    Cells, ending, interval_cells, largest_certificate, measure, only_noised, reconstructible, several_parties,
    shown_lambda, statistic_name, why_no_errors,
};
use super::{Report, account, caution, horizontal, plot};
use crate::fit::{Coefficient, Termination};
use crate::id::{Mode, Protocol, Role};

/// Nothing may be fetched and nothing may run, whatever a column is called.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const STYLE: &str = include_str!("page.css");

/// The report as one self-contained HTML page: coefficients with intervals, convergence, what was disclosed, timings,
/// who saw what, the privacy account, path and cross-validation.
///
/// Every name is escaped, and a content policy in the page forbids scripts and loading anything. It follows the reader's
/// light or dark setting and prints on white.
pub fn html(report: &Report) -> String {
    if report.workers.is_some() {
        return horizontal::html(report);
    }
    let title = format!("{} regression of {}", report.family, visible(&report.outcome));
    let chosen: Vec<(&str, f64)> = [("min", report.lambda_min), ("1se", report.lambda_1se)]
        .into_iter()
        .filter_map(|(name, lambda)| Some((name, lambda?)))
        .collect();
    page(
        &title,
        html! {
            (caution::banner(report))
            (head(report, &title))
            (notes(report))
            (coefficients(report))
            (path(report, &chosen))
            (convergence(report))
            (disclosure(report))
            (account::section(report))
            (timings(report))
            (about(report))
        },
    )
}

/// A self-contained page: the style sheet is inside, and nothing may be fetched or run.
pub fn page(title: &str, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
            }
        }
    }
    .into_string()
}

fn head(report: &Report, title: &str) -> Markup {
    let s = &report.statistics;
    let ended = report.termination.converged() || report.termination == Termination::FixedRounds;
    let good = ended && report.caution.is_none();
    let view = match report.role {
        Some(role) => format!("report of {role}"),
        None => "merged report of both parties".to_string(),
    };
    let mut facts: Vec<(&str, String)> = vec![
        ("rows", thousands(s.nobs)),
        ("coefficients", report.coefficients.iter().filter(|row| row.estimate.is_some()).count().to_string()),
        ("rounds", thousands(u64::from(report.rounds))),
    ];
    match report.mode {
        Mode::Plain => {
            facts.push(("deviance", single(s.deviance, 5)));
            match s.r_squared {
                Some(_) => facts.push(("R squared", single(s.r_squared, 4))),
                None => facts.push(("null deviance", single(s.null_deviance, 5))),
            }
            facts.push(("AIC", single(s.aic, 5)));
        }
        Mode::Private => {}
    }
    html! {
        header {
            p.kicker { "fedreg · " (report.protocol.name()) " · " (report.mode.name()) " · " (view) }
            h1 { (title) }
            p { span class=(if good { "badge good" } else { "badge bad" }) { (report.termination.name().replace('_', " ")) } " " (ending(report)) }
            dl.facts {
                @for (name, value) in &facts {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

pub(crate) fn notes(report: &Report) -> Markup {
    html! {
        @if !report.notes.is_empty() {
            section.notes {
                h2 { "Notes" }
                ul {
                    @for note in &report.notes {
                        li { (visible(note)) }
                    }
                }
            }
        }
    }
}

pub(crate) fn coefficients(report: &Report) -> Markup {
    let rows = &report.coefficients;
    let parties = several_parties(report);
    let picture = plot::coefficients(rows, parties);
    let with_intervals = rows.iter().filter(|row| row.conf_low.is_some()).count();
    html! {
        section {
            h2 { "Coefficients" }
            @if let Some(picture) = &picture {
                figure {
                    (picture)
                    figcaption {
                        "Each estimate is drawn in units of its own standard error, so that terms of every size share the axis; "
                        "the numbers at the right are on the original scale. An interval that crosses zero is compatible with no effect. "
                        @if parties { span.alice { span.swatch {} " alice" } " " span.bob { span.swatch {} " bob" } }
                        @if with_intervals > plot::MOST_ROWS {
                            " The " (plot::MOST_ROWS) " of " (with_intervals) " terms with the largest statistic are drawn; the table has all."
                        }
                    }
                }
            }
            @if let Some(lambda) = shown_lambda(report) { p.remark { "The coefficients are those at " (lambda) "." } }
            @if let Some(why) = why_no_errors(report) {
                p.remark { "Standard errors are not available: " (why) "." }
            }
            @if rows.is_empty() {
                p.remark { "No coefficients." }
            } @else {
                (coefficient_table(rows, statistic_name(report), parties, noise(report)))
            }
            @if report.workers.is_none() { (statistics(report)) }
        }
    }
}

/// What intervals cover in private mode.
fn noise(report: &Report) -> Option<&'static str> {
    match (report.mode, report.protocol) {
        (Mode::Plain, _) => None,
        (Mode::Private, Protocol::Robust) => {
            Some("Intervals include the noise and the sampling of the uncorrupted rows.")
        }
        (Mode::Private, Protocol::Vertical | Protocol::Em | Protocol::Features | Protocol::Stream) => {
            Some("Intervals show the noise alone: see the notes for what they cover.")
        }
    }
}

/// The coefficients as a table with a remark on how its columns came about: `test` names the law of the p-values, `noise` says it in
/// private mode, where there are no stars.
pub(crate) fn coefficient_table(
    rows: &[Coefficient],
    test: char,
    parties: bool,
    noise: Option<&'static str>,
) -> Markup {
    let cells = Cells::new(rows, noise.is_none());
    let interval = |value: fn(&Coefficient) -> Option<f64>| {
        interval_cells(&rows.iter().map(value).collect::<Vec<_>>(), &cells.estimate)
    };
    let (low, high) = (interval(|row| row.conf_low), interval(|row| row.conf_high));
    let dropped = rows.iter().filter(|row| row.estimate.is_none()).count();
    html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text { "Term" }
                        @if parties { th.text { "Party" } }
                        th { "Estimate" }
                        th { "Std. error" }
                        th { (test) " value" }
                        th { "Pr(>|" (test) "|)" }
                        @if cells.starred { th.text {} }
                        th { "2.5 %" }
                        th { "97.5 %" }
                    }
                }
                tbody {
                    @for (at, row) in rows.iter().enumerate() {
                        tr {
                            td class=(term_class(&row.term)) { (visible(&row.term)) }
                            @if parties { td class={ "text " (row.party.name()) } { span.swatch {} " " (row.party) } }
                            td { (cells.estimate[at]) }
                            td { (cells.std_error[at]) }
                            td { (cells.statistic[at]) }
                            td { (cells.p_value[at]) }
                            @if cells.starred { td.text.stars { (cells.stars[at]) } }
                            td { (low[at]) }
                            td { (high[at]) }
                        }
                    }
                }
            }
        }
        p.remark {
            @if dropped > 0 { (dropped) " not defined because of singularities. " }
            @if cells.starred { "*** p ≤ 0.001, ** p ≤ 0.01, * p ≤ 0.05, . p ≤ 0.1. " }
            @if rows.iter().all(|row| row.conf_low.is_none()) {} @else if let Some(covered) = noise {
                (covered)
            } @else if test == 't' {
                "Wald intervals from Student's t with the residual degrees of freedom."
            } @else {
                "Wald intervals from the normal distribution."
            }
        }
    }
}

/// Names that would make the table too wide are wrapped.
fn term_class(term: &str) -> &'static str {
    if term.chars().count() > 40 { "text long" } else { "text" }
}

fn statistics(report: &Report) -> Markup {
    let s = &report.statistics;
    let whole = |df: Option<i64>| df.map_or_else(|| UNDEFINED.to_string(), |df| df.to_string());
    let entries = [
        ("Null deviance", format!("{} on {} df", single(s.null_deviance, 5), whole(s.df_null))),
        ("Residual deviance", format!("{} on {} df", single(s.deviance, 5), whole(s.df_residual))),
        ("Dispersion", single(s.dispersion, 7)),
        ("Log-likelihood", single(s.log_lik, 5)),
        ("AIC", single(s.aic, 5)),
        ("BIC", single(s.bic, 5)),
        ("R squared", single(s.r_squared, 4)),
        ("Rows left out for missing values", thousands(report.missing)),
    ];
    let nothing = only_noised(report) && s.deviance.is_none() && s.aic.is_none();
    html! {
        @if nothing {
            p.remark { "Deviances, AIC and R squared are not available: nobody may look at them in private mode." }
        } @else {
            dl.grid {
                @for (name, value) in entries.iter().filter(|(name, value)| *name != "R squared" || value != UNDEFINED) {
                    div { dt { (name) } dd { (value) } }
                }
            }
        }
    }
}

fn path(report: &Report, chosen: &[(&str, f64)]) -> Markup {
    let points = report.path.as_deref().unwrap_or_default();
    let cv = report.cv.as_deref().unwrap_or_default();
    let marks = "Dashed: the lambda of the smallest error (min) and the largest within one standard error of it (1se).";
    html! {
        @if let Some(picture) = plot::path(points, chosen) {
            section {
                h2 { "Coefficient path" }
                figure {
                    (picture)
                    figcaption {
                        "The intercept is left out; df counts the coefficients that are not zero. "
                        @if plot::path_is_relative(points) { "The sizes differ so much that each line is divided by its largest value. " }
                        @if !chosen.is_empty() { (marks) }
                    }
                }
            }
        }
        @if let Some(picture) = plot::cross_validation(cv, points, &measure(report.family).to_lowercase(), chosen) {
            section {
                h2 { "Cross-validation" }
                figure {
                    (picture)
                    figcaption { "Mean over the folds, bars of one standard error. " @if !chosen.is_empty() { (marks) } }
                }
                @if !chosen.is_empty() {
                    table {
                        thead { tr { th.text { "Choice" } th { "Lambda" } th { "Measure" } th { "SE" } th { "Nonzero" } } }
                        tbody {
                            @for (name, lambda) in chosen {
                                @let point = cv.iter().find(|point| point.lambda == *lambda);
                                @let df = points.iter().find(|point| point.lambda == *lambda).map(|point| point.df.to_string());
                                tr {
                                    td.text { "lambda " (name) }
                                    td { (single(Some(*lambda), 4)) }
                                    td { (single(point.map(|point| point.mean), 5)) }
                                    td { (single(point.map(|point| point.se), 3)) }
                                    td { (df.unwrap_or_else(|| UNDEFINED.to_string())) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn convergence(report: &Report) -> Markup {
    html! {
        section {
            h2 { "Convergence" }
            @match plot::convergence(&report.trace, report.tol) {
                Some(picture) => figure {
                    (picture)
                    figcaption {
                        "The larger value of both sides in each round. The fit ends when the scaled gradient (certificate) and the "
                        "relative change of every coefficient are at most the tolerance."
                    }
                },
                None => p.remark {
                    @if only_noised(report) {
                        "Not recorded: in private mode the number of rounds is fixed and nobody may look at the course."
                    } @else {
                        "Not recorded in this run."
                    }
                },
            }
            dl.grid {
                @for (role, certificate) in report.certificate.each(report.role).into_iter().filter(|(_, c)| c.is_some()) {
                    div { dt { "Certificate of " (role.map_or("this party", Role::name)) } dd { (small(*certificate)) } }
                }
                @if largest_certificate(report).is_some() { div { dt { "Tolerance" } dd { (small(Some(report.tol))) } } }
            }
        }
    }
}

fn disclosure(report: &Report) -> Markup {
    let all = report.disclosure.each(report.role);
    html! {
        section {
            h2 { "Who saw what" }
            @for sentence in reconstructible(report) { p { strong { "No privacy: " } (sentence) "." } }
            div.scroll {
                table {
                    thead {
                        tr {
                            th.text { "From" } th.text { "Seen by" } th.text { "Kinds of values" }
                            th { "Vectors" } th { "Bytes" } th { "Rank disclosed" }
                        }
                    }
                    tbody {
                        @for (role, left) in &all {
                            tr {
                                td class={ "text " (role.map_or("", Role::name)) } { span.swatch {} " " (role.map_or("this party", Role::name)) }
                                td.text { (role.map_or("the peer", |role| role.partner().name())) }
                                td.text.wrap {
                                    @if left.declared.is_empty() { "nothing without noise" } @else {
                                        (left.declared.iter().map(|kind| visible(kind)).collect::<Vec<_>>().join(", "))
                                    }
                                }
                                td { (thousands(left.vectors)) }
                                td { (report.bytes_sent.of_or_own(*role).map_or_else(|| UNDEFINED.to_string(), |sent| bytes(*sent))) }
                                td { (left.rank) }
                            }
                        }
                    }
                }
            }
            p.remark {
                "A vector has one value a row (" (thousands(report.statistics.nobs)) "). The coordinator sees who is ready, rounds and byte counts, and no data."
            }
            @for (role, left) in &all {
                @if let Some(picture) = plot::disclosure(role.unwrap_or(Role::Alice), &left.columns) {
                    h3 { "Columns of " (role.map_or("this party", Role::name)) }
                    figure {
                        (picture)
                        figcaption {
                            "R squared of the centred column on everything that was sent: 100 % means that the peer could reconstruct it. "
                            @if left.columns.len() > plot::MOST_ROWS { "The " (plot::MOST_ROWS) " largest of " (left.columns.len()) " are drawn." }
                        }
                    }
                }
            }
        }
    }
}

fn timings(report: &Report) -> Markup {
    let seconds = report.seconds.each(report.role);
    let memory = report.peak_rss_bytes.each(report.role);
    html! {
        section {
            h2 { "Time and memory" }
            @match plot::timings(&seconds) {
                Some(picture) => figure { (picture) },
                None => p.remark { "Not measured." },
            }
            dl.grid {
                @for (role, seconds) in seconds.iter().filter(|(_, seconds)| seconds.total.is_finite()) {
                    div { dt { "Time of " (role.map_or("this party", Role::name)) " after reading" } dd { (duration((seconds.total - seconds.read).max(0.0))) } }
                }
                @for (role, peak) in &memory {
                    div { dt { "Peak memory of " (role.map_or("this party", Role::name)) } dd { (peak.map_or_else(|| UNDEFINED.to_string(), bytes)) } }
                }
            }
        }
    }
}

pub(crate) fn about(report: &Report) -> Markup {
    html! {
        footer {
            h2 { "This run" }
            pre { (visible(&report.call)) }
            dl.grid {
                div { dt { "Study" } dd { (visible(&report.study)) } }
                div { dt { "Family and link" } dd { (report.family) ", " (visible(&report.link)) } }
                div.wide { dt { "Study digest" } dd { code { (visible(&report.study_digest)) } } }
                div.wide { dt { "Run" } dd { code { (visible(&report.run)) } } }
            }
            p.remark { "Made " @if let Some(date) = &report.date { "on " (visible(date)) " " } "by fedreg " (visible(&report.version)) ". Nothing on this page belongs to a single record." }
        }
    }
}
