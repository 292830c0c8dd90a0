//! What a sealed fit has to say of privacy: what it rests on, which tables opened, and what the other side could predict from them.

use maud::html;

use super::{SMALLEST_SHARE, party};
use crate::glm::Family;
use crate::id::Role;
use crate::report::number::{UNDEFINED, bytes, thousands, visible};
use crate::report::plot::Colours;
use crate::report::section::Section;
use crate::report::table::{Column, Entry};
use crate::report::{Disclosure, Opened, Report, plot};

/// Columns that are named in the text; all of them are in JSON and HTML.
const NAMED_COLUMNS: usize = 5;

/// What the mode promises, and what it rests on. A party's own report lists what opened of its own columns only.
pub(super) const RESTS_ON: &str = "sealed: no value of a row left in a readable form, and only declared tables opened; this rests on \
                                   a peer that follows the protocol and on a dealer that colludes with neither party";

/// In place of the course of an iteration.
const NO_COURSE: &str = "The fit follows from one table: there is no course.";

/// What Bob knows of Alice's columns, which no meter of single columns shows.
const OF_ALICE: &str = "of alice's columns bob learns how well they together explain his own, and how his own relate to alice's column \
                        means and, where he holds the outcome, to alice's part of the linear predictor";

/// Whether the fit follows from one table.
pub(super) fn one_table(report: &Report) -> bool {
    report.family == Family::Gaussian
}

/// The course of a fit: its gradients, at the party to whom they opened.
pub(super) fn course(report: &Report, section: Section) -> Section {
    if one_table(report) {
        return section.remark(html! { (NO_COURSE) });
    }
    match plot::convergence(&report.trace, report.tol) {
        Some(picture) => section.figure(Some(picture), html! {
            "The scaled gradient (certificate) at each point at which one opened to alice, and the relative change of the joint coordinates \
             to it. The fit ends when the gradient is at most the tolerance, after one more step from there."
        }),
        None => section.remark(html! { "Not known on this side: the gradients opened to alice." }),
    }
}

/// A table in words: its size, how many numbers, and how many unknown values they are about.
pub fn opened_in_words(opened: &Opened) -> String {
    format!(
        "{} ({} x {}: {} {} beside {} unknown values)",
        visible(&opened.what),
        thousands(opened.rows),
        thousands(opened.columns),
        thousands(opened.numbers),
        if opened.numbers == 1 { "number" } else { "numbers" },
        thousands(opened.unknowns),
    )
}

/// What the other side could predict of single columns, the best predicted first; nothing where no column is metered.
pub fn predictable(role: Option<Role>, disclosure: &Disclosure) -> Option<String> {
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
    let peer = partner(role, "the other party");
    let from = format!("{peer} could predict, from the columns of {peer} and what opened (R squared): ");
    (!named.is_empty()).then(|| format!("{from}{}{more}", named.join(", ")))
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
    let mut lines = vec![(None, RESTS_ON.to_string())];
    for (role, disclosure) in report.disclosure.each(report.role) {
        lines.extend(
            disclosure
                .opened
                .iter()
                .map(|opened| (role, format!("opened to {}: {}", opened.to, opened_in_words(opened)))),
        );
        lines.extend(about_columns(role, disclosure).into_iter().map(|sentence| (role, sentence)));
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
fn about_columns(role: Option<Role>, disclosure: &Disclosure) -> Vec<String> {
    let of_alice = (role == Some(Role::Alice)).then(|| OF_ALICE.to_string());
    predictable(role, disclosure).into_iter().chain(of_alice).collect()
}

/// What left one party, in the text.
pub(super) fn left_here(disclosure: &Disclosure, sent: Option<u64>) -> String {
    let opened: u64 = disclosure.opened.iter().map(|opened| opened.numbers).sum();
    let mut text = format!("{} numbers that opened", thousands(opened));
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
    let section = Section::new("Who saw what")
        .page(html! {
            p { strong { "Sealed: " } (RESTS_ON.trim_start_matches("sealed: ")) "." }
        })
        .page(html! { h3 { "Numbers that opened" } })
        .table(opened(&all).into_iter().map(Column::page_only).collect())
        .remark(html! {
            "Unknown values: rows times the columns of the party that has fewer. The fewer numbers opened beside them, the less any \
             single value can be solved for."
        })
        .page(html! { h3 { "All that left" } })
        .table(left(report, &all).into_iter().map(Column::page_only).collect())
        .remark(html! {
            "Masked columns are uniform random numbers to a party that does not hold their mask. The dealer of the masks, which is the \
             coordinator unless the study names another, sees who is ready, how many rows and columns there are, phases and byte counts, and no column, masked or not."
        });
    all.iter().fold(section, |section, (role, left)| {
        let name = party(*role);
        let section = section.page(html! {
            h3 { "Columns of " (name) }
            @for sentence in about_columns(*role, left) { p { (capitalised(&sentence)) "." } }
        });
        let Some(picture) = plot::predicted(role.unwrap_or(Role::Alice), &left.columns) else { return section };
        let caption = html! {
            "R squared of the centred column on the other party's columns, and on the outcome where it holds that, as the numbers that \
             opened allow: at 100 % the other party could work the column out. "
            @if left.columns.len() > plot::MOST_ROWS { "The " (plot::MOST_ROWS) " largest of " (left.columns.len()) " are drawn." }
        };
        section.figure(Some(picture), caption)
    })
}

/// Who saw what left one of two parties.
fn partner(role: Option<Role>, unknown: &str) -> String {
    role.map_or_else(|| unknown.to_string(), |role| role.partner().to_string())
}

fn opened(all: &[(Option<Role>, &Disclosure)]) -> Vec<Column> {
    let rows: Vec<(Option<Role>, &Opened)> =
        all.iter().flat_map(|(role, left)| left.opened.iter().map(|opened| (*role, opened))).collect();
    let of = |value: &dyn Fn(&Opened) -> String| rows.iter().map(|(_, opened)| value(opened)).collect();
    vec![
        Column::left("From", rows.iter().map(|(role, _)| party(*role).to_string()).collect())
            .parties(rows.iter().map(|(role, _)| *role), Colours::default()),
        Column::left("To", of(&|opened| opened.to.name().to_string())),
        Column::left("What", of(&|opened| visible(&opened.what))).class("wrap"),
        Column::right("Size", of(&|opened| format!("{} x {}", thousands(opened.rows), thousands(opened.columns)))),
        Column::right("Numbers", of(&|opened| thousands(opened.numbers))),
        Column::right("Unknown values", of(&|opened| thousands(opened.unknowns))),
    ]
}

fn left(report: &Report, all: &[(Option<Role>, &Disclosure)]) -> Vec<Column> {
    let of = |value: &dyn Fn(Option<Role>, &Disclosure) -> String| {
        all.iter().map(|(role, left)| value(*role, left)).collect()
    };
    let sent = |role| report.bytes_sent.of_or_own(role).map_or_else(|| UNDEFINED.to_string(), |sent| bytes(*sent));
    vec![
        Column::left("From", of(&|role, _| party(role))).parties(all.iter().map(|(role, _)| *role), Colours::default()),
        Column::left("Seen by", of(&|role, _| partner(role, "the peer"))),
        Column::left("Kinds of values", of(&|_, left| left.kinds())).class("wrap"),
        Column::right("Bytes", of(&|role, _| sent(role))),
    ]
}

fn capitalised(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
