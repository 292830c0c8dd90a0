//! What a sealed fit has to say of privacy: what it rests on, which tables opened, and what the other side could predict from them.

use maud::html;

use super::{SMALLEST_SHARE, party};
use crate::glm::Family;
use crate::id::Role;
use crate::report::number::{UNDEFINED, bytes, thousands, visible};
use crate::report::section::Section;
use crate::report::table::{Column, Entry};
use crate::report::{Disclosure, OF_BOTH, OF_PAIRS, Opened, Report, plot};

/// Columns that are named in the text; all of them are in JSON and HTML.
const NAMED_COLUMNS: usize = 5;

/// What the mode promises, and what it rests on. A party's own report lists what opened of its own columns only.
pub(super) const RESTS_ON: &str = "sealed: no value of a row left in a readable form, and only declared tables opened; this rests on \
                                   a peer that follows the protocol and on a dealer that colludes with neither party";

/// In place of the course of an iteration.
const NO_COURSE: &str = "The fit follows from one table: there is no course.";

/// The same of several parties.
const SEVERAL_REST_ON: &str = "sealed: no value of a row left in a readable form, and only declared tables opened; this rests on \
                               parties that follow the protocol and on a dealer that colludes with none of them";

/// What the second of two parties knows of the first one's columns, which no meter of single columns shows; `opened` says whether their
/// cross-products opened to it.
fn of_first([first, second]: [Role; 2], opened: bool) -> String {
    if opened {
        return format!(
            "of {first}'s columns {second} learns how they relate to its own and, where it holds it, to the outcome"
        );
    }
    format!(
        "of {first}'s columns {second} learns how well they together explain its own, and how its own relate to {first}'s column means and, \
         where it holds the outcome, to {first}'s part of the linear predictor (else to what {first}'s columns leave of it)"
    )
}

/// The same of several parties, at the leader and at another one, where the tables open to the leader or to all.
fn of_several(leader: Role, role: Role, to_all: bool) -> String {
    match role == leader {
        _ if to_all => format!(
            "of {role}'s columns each of the others learns how they relate to those of every other party and to the outcome"
        ),
        true => format!(
            "of {leader}'s columns each of the others learns how well all columns but its own together explain its own, and how its own \
             relate to the column means of {leader} and of the parties before it and, where it holds the outcome, to the rest of the \
             linear predictor"
        ),
        false => format!(
            "of {role}'s columns {leader} learns how they relate to those of every other party; the others learn what is in how well all \
             columns but their own together explain their own"
        ),
    }
}

/// What the mode rests on.
fn rests_on(report: &Report) -> &'static str {
    if report.is_of_several() { SEVERAL_REST_ON } else { RESTS_ON }
}

/// Whether the fit follows from one table.
pub(super) fn one_table(report: &Report) -> bool {
    report.family.base() == Family::Gaussian
}

/// The course of a fit: its gradients, at the party to whom they opened.
pub(super) fn course(report: &Report, section: Section) -> Section {
    if one_table(report) {
        return section.remark(html! { (NO_COURSE) });
    }
    match plot::convergence(&report.trace, report.tol) {
        Some(picture) => section.figure(Some(picture), html! {
            "The scaled gradient (certificate) at each point at which one opened to " (report.first()) ", and the relative change of the joint coordinates \
             to it. The fit ends when the gradient is at most the tolerance, after one more step from there."
        }),
        None => section.remark(html! { "Not known on this side: the gradients opened to " (report.first()) "." }),
    }
}

/// A table in words: its size, how many numbers, and how many unknown values they are about.
pub fn opened_in_words(opened: &Opened) -> String {
    format!(
        "{} ({} beside {} unknown values)",
        visible(&opened.what),
        size_in_words(opened),
        thousands(opened.unknowns)
    )
}

/// How many numbers something is, after its size where that is their number.
pub fn size_in_words(opened: &Opened) -> String {
    let numbers = match opened.numbers {
        1 => "1 number".to_string(),
        numbers => format!("{} numbers", thousands(numbers)),
    };
    match shape(opened).filter(|_| opened.numbers != 1) {
        Some(shape) => format!("{shape}: {numbers}"),
        None => numbers,
    }
}

/// The size of a table; none of what is no table with a number in each cell, as a triangle or several tables together.
fn shape(opened: &Opened) -> Option<String> {
    let whole = opened.rows.checked_mul(opened.columns) == Some(opened.numbers);
    whole.then(|| format!("{} x {}", thousands(opened.rows), thousands(opened.columns)))
}

/// What the other side could predict of single columns, the best predicted first; nothing where no column is metered.
pub fn predictable(report: &Report, role: Option<Role>, disclosure: &Disclosure) -> Option<String> {
    let mut columns: Vec<_> = disclosure.columns.iter().filter(|column| column.share > SMALLEST_SHARE).collect();
    columns.sort_by(|a, b| b.share.total_cmp(&a.share));
    let more = match columns.len().saturating_sub(NAMED_COLUMNS) {
        0 => String::new(),
        1 => " and 1 more column".to_string(),
        more => format!(" and {more} more columns"),
    };
    columns.truncate(NAMED_COLUMNS);
    let named: Vec<String> =
        columns.iter().map(|column| format!("{} ({})", visible(&column.term), r_squared(column.share))).collect();
    let from = match report.is_of_several() {
        false => {
            let peer = super::peer(report, role, "the other party");
            let what = if one_table(report) { "what opened" } else { "the cross-products of both blocks alone" };
            format!("{peer} could predict, from the columns of {peer} and {what} (R squared): ")
        }
        true => "all others together could predict, from their columns and what opened (R squared): ".to_string(),
    };
    let beyond = if one_table(report) { String::new() } else { format!("; {}", no_bound(report, role)) };
    (!named.is_empty()).then(|| format!("{from}{}{more}{beyond}", named.join(", ")))
}

/// Why R squared of a fit by gradients is not the most that the other side could predict: gradients and weighted cross-products, and what
/// follows from them, are not counted.
fn no_bound(report: &Report, role: Option<Role>) -> String {
    let peer = super::peer(report, role, "the other party");
    format!(
        "this is no upper bound: the gradients and the weighted cross-products of a {} fit, and what follows from them, let {peer} predict more",
        report.family.base()
    )
}

/// Three digits, and never one where the column is not known exactly.
fn r_squared(share: f64) -> String {
    match share {
        share if share >= 1.0 - 1e-9 => "1".to_string(),
        share if share > 0.999 => ">.999".to_string(),
        share if share < 0.001 => "<.001".to_string(),
        share => format!("{share:.3}").trim_start_matches('0').to_string(),
    }
}

/// What stands behind `Privacy:` in the text.
pub(super) fn privacy(report: &Report) -> Entry {
    let mut lines = vec![(None, rests_on(report).to_string())];
    for (role, disclosure) in report.disclosure.each(report.role) {
        lines.extend(
            disclosure
                .opened
                .iter()
                .map(|opened| (role, format!("opened to {}: {}", opened.to, opened_in_words(opened)))),
        );
        lines.extend(about_columns(report, role, disclosure).into_iter().map(|sentence| (role, sentence)));
    }
    ("Privacy:", lines)
}

/// In place of the privacy account.
pub(super) fn no_account() -> Section {
    Section::new("Privacy").remark(html! {
        "Nothing was charged to a privacy budget: sealed mode adds no noise. What it rests on, and what opened, stands under \"Who saw what\"."
    })
}

/// What the other side learns of the columns of one.
fn about_columns(report: &Report, role: Option<Role>, disclosure: &Disclosure) -> Vec<String> {
    let beside = match (report.leader_of_several(), role) {
        (Some(leader), Some(role)) => Some(of_several(leader, role, opens_to_all(report))),
        (None, Some(role)) if report.first() == role => {
            let opened = disclosure.opened.iter().any(|opened| opened.what.starts_with(OF_BOTH));
            Some(of_first(report.pair(), opened))
        }
        (None, _) | (Some(_), None) => None,
    };
    predictable(report, role, disclosure).into_iter().chain(beside).collect()
}

/// Whether the tables of several parties have opened to all of them.
fn opens_to_all(report: &Report) -> bool {
    let leader = report.leader_of_several();
    let tables = report.disclosure.each(report.role).into_iter().flat_map(|(_, left)| &left.opened);
    tables.filter(|opened| opened.what.starts_with(OF_PAIRS)).any(|opened| Some(opened.to) != leader)
}

/// Numbers that opened, of which those that opened to several parties are the same for each.
fn distinct(all: &[Opened]) -> u64 {
    let before = |at: usize| all[..at].iter().any(|one| one.what == all[at].what && one.to != all[at].to);
    all.iter().enumerate().filter(|(at, _)| !before(*at)).map(|(_, opened)| opened.numbers).sum()
}

/// What left one party, in the text.
pub(super) fn left_here(disclosure: &Disclosure, sent: Option<u64>) -> String {
    let mut text = format!("{} numbers that opened", thousands(distinct(&disclosure.opened)));
    match sent {
        Some(sent) if sent >= 1_000_000 => {
            text.push_str(&format!(", {} bytes ({}) in all", thousands(sent), bytes(sent)));
        }
        Some(sent) => text.push_str(&format!(", {} bytes in all", thousands(sent))),
        None => {}
    }
    text.push_str(&format!("; declared: {}", disclosure.kinds()));
    text
}

/// What each party showed the other, on the page.
pub(super) fn disclosure(report: &Report) -> Section {
    let all = report.disclosure.each(report.role);
    let several = report.is_of_several();
    let section = Section::new("Who saw what")
        .page(html! {
            p { strong { "Sealed: " } (rests_on(report).trim_start_matches("sealed: ")) "." }
        })
        .page(html! { h3 { "Numbers that opened" } })
        .table(opened(report, &all).into_iter().map(Column::page_only).collect())
        .remark(html! {
            "Unknown values: rows times the columns of the party that has fewer" @if several { ", or of all others together" } ". The \
             fewer numbers opened beside them, the less any single value can be solved for."
        })
        .page(html! { h3 { "All that left" } })
        .table(left(report, &all).into_iter().map(Column::page_only).collect())
        .remark(html! { (super::OF_MASKS) });
    let section = match learnt(report) {
        None => section,
        Some(table) if opens_to_all(report) => section.line("Who learnt what from whom:").table(table).remark(html! {
            "The tables of all pairs open to every party, each of which solves by itself from them: numbers that open to several are the \
             same. Masked columns pass by the leader to all others."
        }),
        Some(table) => section.line("Who learnt what from whom:").table(table).remark(html! {
            "The tables of all pairs open to the leader; another party receives its own part of the solution, which is one of all columns. \
             Its masked columns pass by the leader to all others."
        }),
    };
    all.iter().fold(section, |section, (role, left)| {
        let name = party(*role);
        let section = section.page(html! {
            h3 { "Columns of " (name) }
            @for sentence in about_columns(report, *role, left) { p { (capitalised(&sentence)) "." } }
        });
        let Some(picture) = plot::predicted(role.unwrap_or(report.first()), &left.columns, report.colours()) else { return section };
        let caption = html! {
            @if several {
                "R squared of the centred column on the columns of all others together, and on the outcome where they hold that, as the \
                 numbers that opened allow: at 100 % they could work the column out. "
            } @else if one_table(report) {
                "R squared of the centred column on the other party's columns, and on the outcome where it holds that, as the numbers that \
                 opened allow: at 100 % the other party could work the column out. "
            } @else {
                "R squared of the centred column on the other party's columns, and on the outcome where it holds that, as the cross-products \
                 of both blocks allow. At 100 % the other party could work the column out; below, " (no_bound(report, *role)) ". "
            }
            @if left.columns.len() > plot::MOST_ROWS { "The " (plot::MOST_ROWS) " largest of " (left.columns.len()) " are drawn." }
        };
        section.figure(Some(picture), caption)
    })
}

/// Of several parties: what opened of whose columns to whom.
fn learnt(report: &Report) -> Option<Vec<Column>> {
    let leader = report.leader_of_several()?;
    let left = |from: Role| report.disclosure.of(from).filter(|_| report.role.is_none_or(|own| own == from));
    let numbers = |from: Role, to: Role| {
        let opened = left(from)?.opened.iter().filter(|opened| opened.to == to);
        Some(thousands(opened.map(|opened| opened.numbers).sum::<u64>()))
    };
    let to_all = opens_to_all(report);
    let text = |to: Role, from: Role| match (to == from, to_all || to == leader || from == leader, numbers(from, to)) {
        (true, ..) => "-".to_string(),
        (_, true, Some(numbers)) => format!("{numbers} numbers"),
        (_, true, None) => "numbers".to_string(),
        (_, false, _) => "in solution".to_string(),
    };
    let page = |to: Role, from: Role| match (to == from, to == leader, from == leader) {
        (true, ..) => "-".to_string(),
        (_, false, true) if to_all => {
            format!("{}: the tables of all pairs, and the own part of the solution", text(to, from))
        }
        (_, false, false) if to_all => format!("{}: the tables, by way of {leader}", text(to, from)),
        (_, true, _) => format!("{}: its tables with the columns of all others and the outcome", text(to, from)),
        (_, _, true) => format!("{}: the own part of the solution", text(to, from)),
        (_, false, false) => format!("what is in the solution that {leader} sends"),
    };
    let to = report.parties.iter();
    let names = Column::left("", to.clone().map(Role::to_string).collect()).heading("Learnt by");
    let mut columns = vec![names.parties(to.clone().map(|role| Some(*role)), report.colours())];
    columns.extend(report.parties.iter().map(|from| {
        let cells = |of: &dyn Fn(Role, Role) -> String| to.clone().map(|to| of(*to, *from)).collect();
        Column::left(&format!("from {from}"), cells(&text)).on_page(cells(&page)).class("wrap")
    }));
    Some(columns)
}

fn opened(report: &Report, all: &[(Option<Role>, &Disclosure)]) -> Vec<Column> {
    let rows: Vec<(Option<Role>, &Opened)> =
        all.iter().flat_map(|(role, left)| left.opened.iter().map(|opened| (*role, opened))).collect();
    let of = |value: &dyn Fn(&Opened) -> String| rows.iter().map(|(_, opened)| value(opened)).collect();
    vec![
        Column::left("From", rows.iter().map(|(role, _)| party(*role).to_string()).collect())
            .parties(rows.iter().map(|(role, _)| *role), report.colours()),
        Column::left("To", of(&|opened| opened.to.name().to_string())),
        Column::left("What", of(&|opened| visible(&opened.what))).class("wrap"),
        Column::right("Size", of(&|opened| shape(opened).unwrap_or_default())),
        Column::right("Numbers", of(&|opened| thousands(opened.numbers))),
        Column::right("Unknown values", of(&|opened| thousands(opened.unknowns))),
    ]
}

/// Who saw what left a party: of several, all others its masked columns, and those to whom it opened what opened.
fn seen_by(report: &Report, role: Option<Role>, left: &Disclosure) -> String {
    if !report.is_of_several() {
        return super::peer(report, role, "the peer");
    }
    let mut to: Vec<&str> = Vec::new();
    for opened in &left.opened {
        if !to.contains(&opened.to.name()) {
            to.push(opened.to.name());
        }
    }
    match to.is_empty() || to.len() + 1 >= report.parties.len() {
        true => "all others".to_string(),
        false => format!("masked columns: all others; what opened: {}", to.join(", ")),
    }
}

fn left(report: &Report, all: &[(Option<Role>, &Disclosure)]) -> Vec<Column> {
    let of = |value: &dyn Fn(Option<Role>, &Disclosure) -> String| {
        all.iter().map(|(role, left)| value(*role, left)).collect()
    };
    let sent = |role| report.bytes_sent.of_or_own(role).map_or_else(|| UNDEFINED.to_string(), |sent| bytes(*sent));
    vec![
        Column::left("From", of(&|role, _| party(role))).parties(all.iter().map(|(role, _)| *role), report.colours()),
        Column::left("Seen by", of(&|role, left| seen_by(report, role, left))).class("wrap"),
        Column::left("Kinds of values", of(&|_, left| left.kinds())).class("wrap"),
        Column::right("Bytes", of(&|role, _| sent(role))),
    ]
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
