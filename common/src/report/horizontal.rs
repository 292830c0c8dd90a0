//! The report of a horizontal run, as text and as a page: the same pieces as that of two parties, with the sites, their
//! batches and the course of a stream in place of deviances and rounds.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::number::{UNDEFINED, bytes, column, duration, single, thousands, visible};
use super::table::{Column, coefficients, folded, labelled, table};
use super::{Comparison, Report, WorkerRow, account, caution, function, html as page, plot, standing};
use crate::fit::Termination;
use crate::id::Protocol;
use crate::methods::robust::report as robust;

/// Sites that text and page list.
const NAMED_WORKERS: usize = 60;

/// The report of a horizontal run as text.
pub(super) fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(consolidation) = &report.consolidation {
        standing::write(out, consolidation, &report.coefficients)?;
    }
    writeln!(out, "Call:\n{}\n", visible(&report.call))?;
    match &report.function {
        Some(function) => function::write(out, function)?,
        None => coefficients(out, report)?,
    }
    if let Some(rows) = &report.comparison {
        compared(out, rows)?;
    }
    if let Some(consolidation) = &report.consolidation {
        robust::batches(out, consolidation)?;
    }
    workers(out, report)?;
    let view = report.role.map_or("merged report".to_string(), |role| format!("report of {role}"));
    let digest: String = report.study_digest.chars().take(8).collect();
    let (study, run) = (visible(&report.study), visible(&report.run));
    let (protocol, mode) = (report.protocol.name(), report.mode.name());
    labelled(out, "Study:", &[format!("{study} (digest {}), run {run}, {protocol} {mode}, {view}", visible(&digest))])?;
    let missing = match report.missing {
        0 => String::new(),
        missing => format!(", {} left out here for missing values", thousands(missing)),
    };
    let which = if report.consolidation.is_some() { " in batches of the consensus" } else { "" };
    labelled(out, "Rows:", &[format!("{}{which}{missing}", thousands(report.statistics.nobs))])?;
    labelled(out, "Ended:", &[ending(report)])?;
    if report.rounds > 1 {
        labelled(out, "Rounds:", &[report.rounds.to_string()])?;
    } else if let Some(course) = &report.course {
        let times = match course.switches {
            0 => "no change of the truth was followed".to_string(),
            1 => "one change of the truth was followed".to_string(),
            many => format!("{many} changes of the truth were followed"),
        };
        labelled(out, "Stream:", &[format!("{} estimates arrived, {times}", thousands(course.arrivals))])?;
    }
    labelled(out, "Left:", &[left(report)])?;
    labelled(out, "Privacy:", &privacy(report))?;
    if let Some(seconds) = report.seconds.of_or_own(report.role) {
        labelled(out, "Time:", &[format!("{} in all", duration(seconds.total))])?;
    }
    if let Some(consolidation) = &report.consolidation {
        robust::messages(out, consolidation)?;
    }
    if !report.notes.is_empty() {
        writeln!(out, "Notes:")?;
        for note in &report.notes {
            writeln!(out, "{}", folded(&visible(note), "  - ", "    "))?;
        }
    }
    Ok(())
}

fn ending(report: &Report) -> String {
    match &report.consolidation {
        // The guarantee of a stream is that of its window, not of all that arrived.
        Some(c) if report.course.is_some() => format!(
            "{}; {} of the last {} estimates are in the consensus; the window withstands {}{} wrong ones",
            report.termination,
            thousands(c.trusted),
            thousands(c.batches.len() as u64),
            if c.site_votes {
                format!("{} wrong of {} sites, and ", thousands(c.sites_withstood()), thousands(c.sites_counted))
            } else {
                String::new()
            },
            thousands(c.withstands)
        ),
        // Outside the guarantee the sentence says so itself.
        Some(consolidation) if !consolidation.guaranteed() => consolidation.sentence(),
        Some(consolidation) => format!("{}; {}", report.termination, consolidation.sentence()),
        None if report.termination == Termination::FixedRounds => match report.protocol {
            Protocol::Stream => "every record that came was taken, once".to_string(),
            Protocol::Features => "every worker's release was taken, once".to_string(),
            Protocol::Vertical | Protocol::Robust | Protocol::Em => report.termination.to_string(),
        },
        None => report.termination.to_string(),
    }
}

/// What left the sites, in a sentence.
fn left(report: &Report) -> String {
    let workers = report.workers.as_deref().unwrap_or_default();
    let (count, size) = workers.iter().fold((0_u64, 0_u64), |(count, size), row| {
        (count.saturating_add(row.contributions), size.saturating_add(row.bytes))
    });
    let declared = match report.disclosure.of_or_own(report.role) {
        Some(disclosure) if !disclosure.declared.is_empty() => {
            let kinds: Vec<String> = disclosure.declared.iter().map(|kind| visible(kind)).collect();
            format!("; declared: {}", kinds.join(", "))
        }
        _ => String::new(),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("{} contribution{plural}, {} of numbers{declared}", thousands(count), bytes(size))
}

/// What was promised and spent, a thought a line.
fn privacy(report: &Report) -> Vec<String> {
    let Some(account) = report.privacy.of_or_own(report.role).and_then(Option::as_ref) else {
        return vec!["none spent: values left without noise".to_string()];
    };
    account.promise.iter().chain(&account.account).map(|line| visible(line)).collect()
}

fn workers(out: &mut String, report: &Report) -> std::fmt::Result {
    let all = report.workers.as_deref().unwrap_or_default();
    let shown = &all[..all.len().min(NAMED_WORKERS)];
    let of = |value: &dyn Fn(&WorkerRow) -> String| shown.iter().map(value).collect::<Vec<_>>();
    writeln!(out, "Workers:")?;
    table(
        out,
        &[
            Column::left("", of(&|row| visible(&row.worker))),
            Column::right("Contributions", of(&|row| thousands(row.contributions))),
            Column::right("Rejected", of(&|row| thousands(row.rejected))),
            Column::right("Sent", of(&|row| bytes(row.bytes))),
            Column::left("State", of(&|row| visible(&row.state))),
        ],
    )?;
    if all.len() > shown.len() {
        writeln!(out, "  and {} more", all.len() - shown.len())?;
    }
    writeln!(out)
}

fn compared(out: &mut String, rows: &[Comparison]) -> std::fmt::Result {
    writeln!(out, "Beside least squares of all rows in one place:")?;
    let of = |value: &dyn Fn(&Comparison) -> Option<f64>| column(&rows.iter().map(value).collect::<Vec<_>>(), 4);
    table(
        out,
        &[
            Column::left("", rows.iter().map(|row| visible(&row.term)).collect()),
            Column::right("Ours", of(&|row| row.estimate)),
            Column::right("Least squares", of(&|row| row.pooled)),
            Column::right("Without the damage", of(&|row| row.undamaged)),
        ],
    )?;
    writeln!(out)
}

/// The report of a horizontal run as a page.
pub(super) fn html(report: &Report) -> String {
    let title = title(report);
    page::page(
        &title,
        html! {
            (caution::banner(report))
            @if let Some(consolidation) = &report.consolidation { (standing::section(consolidation, &report.coefficients)) }
            (head(report, &title))
            (page::notes(report))
            @match &report.function {
                Some(function) => (function::section(function, &report.outcome)),
                None => (page::coefficients(report)),
            }
            (comparison(report))
            (course(report))
            @if let Some(consolidation) = &report.consolidation { (robust::section(consolidation)) }
            (sites(report))
            (account::section(report))
            (page::about(report))
        },
    )
}

fn title(report: &Report) -> String {
    let outcome = visible(&report.outcome);
    match report.protocol {
        Protocol::Em if outcome.is_empty() => "Mixture of two groups".to_string(),
        Protocol::Em => format!("Expectation maximisation of {outcome}"),
        Protocol::Features => format!("Random features of {outcome}"),
        Protocol::Stream => format!("Streaming regression of {outcome}"),
        Protocol::Robust | Protocol::Vertical => format!("{} regression of {outcome}", report.protocol.name()),
    }
}

fn head(report: &Report, title: &str) -> Markup {
    let good = report.termination.exit() == crate::exit::Exit::Done && report.caution.is_none();
    let view = report.role.map_or("merged report".to_string(), |role| format!("report of {role}"));
    let workers = report.workers.as_deref().unwrap_or_default();
    let batches = report.consolidation.as_ref().map_or(0, |consolidation| consolidation.batches.len() as u64);
    let mut facts = vec![
        (if batches > 0 { "rows in the consensus" } else { "rows" }, thousands(report.statistics.nobs)),
        ("workers", thousands(workers.len() as u64)),
    ];
    match &report.function {
        Some(function) => facts.push(("inputs", function.inputs.len().to_string())),
        None => facts.push(("coefficients", report.coefficients.len().to_string())),
    }
    if batches > 0 {
        facts.push(("batches", thousands(batches)));
    } else if report.rounds > 1 {
        facts.push(("rounds", thousands(u64::from(report.rounds))));
    }
    html! {
        header {
            p.kicker { "fedreg · " (report.protocol.name()) " · " (report.mode.name()) " · " (view) }
            h1 { (title) }
            p { span class=(if good { "badge good" } else { "badge bad" }) { (report.termination.name().replace('_', " ")) } " " (ending(report)) }
            dl.facts { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn comparison(report: &Report) -> Markup {
    let rows = report.comparison.as_deref().unwrap_or_default();
    let number = |value: Option<f64>| value.map_or_else(|| UNDEFINED.to_string(), |value| single(Some(value), 5));
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Beside least squares of all rows" }
                @if let Some(picture) = plot::comparison(rows) {
                    figure {
                        (picture)
                        figcaption {
                            "How far each estimate lies from least squares of the rows that were not damaged, in standard errors of "
                            "least squares of all rows. Zero is right."
                        }
                    }
                }
                div.scroll {
                    table {
                        thead { tr { th.text { "Term" } th { "Ours" } th { "Least squares of all rows" } th { "Of the rows without damage" } } }
                        tbody {
                            @for row in rows {
                                tr {
                                    td.text { (visible(&row.term)) }
                                    td { (number(row.estimate)) }
                                    td { (number(row.pooled)) }
                                    td { (number(row.undamaged)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn course(report: &Report) -> Markup {
    html! {
        @if let Some(course) = &report.course {
            @let rounds = report.rounds > 1;
            section {
                h2 { @if rounds { "Coefficients over the rounds" } @else { "Consensus over time" } }
                @if let Some(picture) = plot::course(course, if rounds { "round" } else { "arrival" }) {
                    figure {
                        (picture)
                        figcaption {
                            @if rounds { "From the start to the last round, every coefficient divided by its largest size." } @else {
                            "The consensus after each arrival, every coefficient divided by its largest size. Hollow marks: the estimate "
                            "that arrived lay outside the consensus. Dashed lines: a change of the truth was followed."
                            }
                        }
                    }
                }
                @if !rounds { dl.grid {
                    div { dt { "Arrivals" } dd { (thousands(course.arrivals)) } }
                    div { dt { "Changes followed" } dd { (thousands(course.switches)) } }
                } }
            }
        }
    }
}

fn sites(report: &Report) -> Markup {
    let all = report.workers.as_deref().unwrap_or_default();
    html! {
        section {
            h2 { "Who took part, and what left" }
            p { (left(report)) "." }
            div.scroll {
                table {
                    thead { tr { th.text { "Worker" } th { "Contributions" } th { "Rejected" } th { "Sent" } th.text { "State" } } }
                    tbody {
                        @for row in all.iter().take(NAMED_WORKERS) {
                            tr {
                                td.text { (visible(&row.worker)) }
                                td { (thousands(row.contributions)) }
                                td { (thousands(row.rejected)) }
                                td { (bytes(row.bytes)) }
                                td.text.wrap { (visible(&row.state)) }
                            }
                        }
                    }
                }
            }
            @if all.len() > NAMED_WORKERS { p.remark { "and " (all.len() - NAMED_WORKERS) " more; JSON has all." } }
            dl.grid {
                @if let Some(seconds) = report.seconds.of_or_own(report.role) { div { dt { "Time" } dd { (duration(seconds.total)) } } }
                @if let Some(Some(peak)) = report.peak_rss_bytes.of_or_own(report.role) { div { dt { "Peak memory" } dd { (bytes(*peak)) } } }
            }
        }
    }
}
