//! The first lines of a vertical rehearsal: the result, who could work out what, and what another mode would have shown or cost.

use std::path::Path;

use fedreg_common::fit::INTERCEPT;
use fedreg_common::id::{Mode, Role};
use fedreg_common::methods::vertical::report::reconstructible;
use fedreg_common::report::caution::{Caution, WITHHELD};
use fedreg_common::report::table::folded;
use fedreg_common::report::{Opened, Report};
use fedreg_common::study::{PrivacyTerms, StudyFile};

use crate::modes::{others, parties};

/// Where sentences begin.
const INDENT: usize = 10;

/// Most lines of the head.
const MOST: usize = 10;

/// Most lines of what another mode would have shown or cost.
const MOST_OF_A_MODE: usize = 3;

/// The head; `reports_of` are those of the parties in order. It has at most [`MOST`] lines, whatever the run was: what does not fit
/// stands in the report below it.
pub(crate) fn head(
    (file, privacy): (&StudyFile, PrivacyTerms),
    merged: &Report,
    reports_of: &[&Report],
    out: &Path,
) -> String {
    let caution = merged.caution.iter().flat_map(|caution| lines("Caution:", &cautioned(caution), 1));
    let result = lines("Result:", &result(merged), 2);
    let other_modes = others(file, privacy, merged, out);
    let other_modes = other_modes.iter().flat_map(|(label, sentence)| lines(label, sentence, MOST_OF_A_MODE));
    let page = out.join("report.html").display().to_string();
    let beside = folded(&format!("{page}, and each party's own in the folders beside it"), &label("Reports:"), "");
    let reports = match beside.contains('\n') {
        false => beside,
        true => label("Reports:") + &page,
    };
    let before: Vec<String> = caution.chain(result).collect();
    let after: Vec<String> = other_modes.chain([reports]).collect();
    let room = MOST.saturating_sub(before.len() + after.len());
    let all: Vec<String> = before.into_iter().chain(seen_in(merged, reports_of, room)).chain(after).collect();
    all.join("\n") + "\n\n"
}

fn label(label: &str) -> String {
    format!("{label:<INDENT$}")
}

/// A sentence behind its label, cut after so many lines.
fn lines(name: &str, sentence: &str, most: usize) -> Vec<String> {
    let all = folded(sentence, &label(name), &" ".repeat(INDENT));
    let all: Vec<&str> = all.lines().collect();
    let mut kept: Vec<String> = all.iter().take(most).map(|line| line.to_string()).collect();
    if let Some(last) = kept.last_mut().filter(|_| all.len() > most) {
        // What is left out of a line makes room for the sign that something is.
        if let Some((words, _)) = last.rsplit_once(' ').filter(|(words, _)| words.len() > INDENT) {
            *last = words.to_string();
        }
        last.push_str(" ...");
    }
    kept
}

/// The caution in one line; its reasons are the first that stands below the head.
fn cautioned(caution: &Caution) -> String {
    let withheld = caution.inference_withheld && caution.banner != WITHHELD;
    let withheld = if withheld { format!("; {WITHHELD}") } else { String::new() };
    format!("{}{withheld}; why: below", caution.banner.to_uppercase())
}

fn result(merged: &Report) -> String {
    let columns = merged.coefficients.iter().filter(|row| row.term != INTERCEPT).count();
    format!(
        "{} model of {}, {columns} terms, {} rows, {} mode: {}",
        merged.family.name(),
        merged.outcome,
        merged.statistics.nobs,
        merged.mode.name(),
        ended(merged),
    )
}

fn ended(merged: &Report) -> String {
    let rounds = match merged.rounds {
        1 => "1 round".to_string(),
        rounds => format!("{rounds} rounds"),
    };
    match merged.termination.converged() {
        true => format!("converged in {rounds}"),
        false => format!("ended after {rounds}: {}", merged.termination),
    }
}

/// What the others could see, in so many lines; whole sentences, and at the end where the rest stands.
fn seen_in(merged: &Report, reports: &[&Report], room: usize) -> Vec<String> {
    let sentences: Vec<Vec<String>> =
        seen(merged, reports).iter().map(|sentence| lines("Seen:", sentence, usize::MAX)).collect();
    if sentences.iter().map(Vec::len).sum::<usize>() <= room {
        return sentences.into_iter().flatten().collect();
    }
    let mut kept = Vec::new();
    for sentence in &sentences {
        if kept.len() + sentence.len() >= room {
            break;
        }
        kept.extend(sentence.iter().cloned());
    }
    let first = if kept.is_empty() { "what each party saw stands" } else { "what else was seen stands" };
    kept.push(format!("{}{first} at the end of this text and in the reports", label("Seen:")));
    kept
}

/// What each party's reader should know first of what the others could see.
fn seen(merged: &Report, reports: &[&Report]) -> Vec<String> {
    match merged.mode {
        Mode::Plain => reports.iter().flat_map(|report| reconstructible(report)).collect(),
        Mode::Sealed => opened_to(merged, reports),
        Mode::Private => vec!["noised values only; what they cost is under Privacy, below".to_string()],
    }
}

/// How many numbers opened to each party, by whom they are about: the tables stand further down.
fn opened_to(merged: &Report, reports: &[&Report]) -> Vec<String> {
    let parties = parties(merged);
    let two = parties.len() == 2;
    let line = |to: &Role| {
        let from = reports.iter().filter_map(|report| {
            let role = report.role?;
            let opened = report.disclosure.of(role)?.opened.iter().filter(|opened| opened.to == *to);
            let opened: Vec<&Opened> = opened.collect();
            let numbers: u64 = opened.iter().map(|opened| opened.numbers).sum();
            let tables = match opened.len() {
                1 => "1 table".to_string(),
                tables => format!("{tables} tables"),
            };
            // Of two parties it is the same for all tables.
            let beside =
                opened.first().filter(|_| two).map(|opened| format!(", beside {} unknown values", opened.unknowns));
            (numbers > 0).then(|| format!("{numbers} of {role} ({tables}{})", beside.unwrap_or_default()))
        });
        let from: Vec<String> = from.collect();
        let from = if from.is_empty() { "none".to_string() } else { from.join(", ") };
        format!("no value of a row; numbers that opened to {to}: {from}")
    };
    parties.iter().map(line).collect()
}
