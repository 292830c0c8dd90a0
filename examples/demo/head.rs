//! The first lines of a vertical rehearsal: the result, who could work out what, and what another mode would have shown or cost.

use std::collections::BTreeMap;
use std::path::Path;

use fedreg_common::fit::INTERCEPT;
use fedreg_common::glm::Family;
use fedreg_common::id::{Mode, Role};
use fedreg_common::methods::vertical::report::reconstructible;
use fedreg_common::methods::vertical::report::sealed::opened_in_words;
use fedreg_common::report::Report;
use fedreg_common::report::table::folded;
use fedreg_common::study::{ColumnTerms, HeldBy, PrivacyTerms, StudyFile};

use crate::stage::Stage;

/// Where sentences begin.
const INDENT: usize = 10;

/// The head; `reports_of` are those of the parties in order, `instead` says what sealed mode would have shown.
pub(crate) fn head(
    (file, privacy): (&StudyFile, PrivacyTerms),
    merged: &Report,
    reports_of: &[&Report],
    instead: Option<String>,
    out: &Path,
) -> String {
    // Nothing stands before a caution, which is first in the merged report.
    if merged.caution.is_some() {
        return String::new();
    }
    let columns = merged.coefficients.iter().filter(|row| row.term != INTERCEPT).count();
    let result = format!(
        "{} model of {}, {columns} terms, {} rows, {} mode: {}",
        merged.family.name(),
        merged.outcome,
        merged.statistics.nobs,
        merged.mode.name(),
        ended(merged),
    );
    let reports = format!("{}/report.html, and each party's own in the folders beside it", out.display());
    let lines = std::iter::once(("Result:", result))
        .chain(seen(merged, reports_of).into_iter().map(|sentence| ("Seen:", sentence)))
        .chain(instead.map(|sentence| ("Sealed:", sentence)))
        .chain(price(file, privacy, merged).map(|sentence| ("Private:", sentence)))
        .chain([("Reports:", reports)]);
    let others = " ".repeat(INDENT);
    let lines: Vec<String> =
        lines.map(|(label, sentence)| folded(&sentence, &format!("{label:<INDENT$}"), &others)).collect();
    lines.join("\n") + "\n\n"
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

/// What each party's reader should know first of what the others could see.
fn seen(merged: &Report, reports: &[&Report]) -> Vec<String> {
    match merged.mode {
        Mode::Plain => reports.iter().flat_map(|report| reconstructible(report)).collect(),
        Mode::Sealed if !merged.parties.is_empty() => opened_to(merged, reports),
        Mode::Sealed => {
            let opened = reports.iter().filter_map(|report| report.disclosure.of(report.role?));
            let opened = opened.flat_map(|disclosure| disclosure.opened.iter().map(opened_in_words));
            opened.map(|opened| format!("no value of a row; opened: {opened}")).collect()
        }
        Mode::Private => vec!["noised values only; what they cost is under Privacy, below".to_string()],
    }
}

/// Of several parties, how many numbers opened to each, by whom they are about: the tables stand further down.
fn opened_to(merged: &Report, reports: &[&Report]) -> Vec<String> {
    let line = |to: &Role| {
        let from = reports.iter().filter_map(|report| {
            let role = report.role?;
            let opened = &report.disclosure.of(role)?.opened;
            let numbers: u64 = opened.iter().filter(|opened| opened.to == *to).map(|opened| opened.numbers).sum();
            (numbers > 0).then(|| format!("{numbers} of {role}"))
        });
        let from: Vec<String> = from.collect();
        format!("no value of a row; numbers that opened to {to}: {}", from.join(", "))
    };
    merged.parties.iter().map(line).collect()
}

/// What private mode would cost in accuracy, from public facts alone; nothing where there is no such fit.
fn price(file: &StudyFile, privacy: PrivacyTerms, merged: &Report) -> Option<String> {
    let two = file.parties.keys().all(|role| matches!(role, Role::Alice | Role::Bob));
    if merged.mode != Mode::Plain || file.penalty.is_some() || file.offset.is_some() || file.weights.is_some() {
        return None;
    }
    if merged.family.is_quasi() {
        return None;
    }
    let unit = ColumnTerms::of_range(-1.0, 1.0);
    let outcome = match merged.family.base() {
        Family::Gaussian => unit.clone(),
        // What is expected of counts is the same whatever the largest one is.
        Family::Binomial | Family::Poisson if two => ColumnTerms::of_range(0.0, 1.0),
        Family::Binomial | Family::Poisson => return None,
    };
    let mut file = file.clone();
    file.columns = BTreeMap::from([(file.outcome.column.clone(), outcome)]);
    for (role, party) in &mut file.parties {
        let own = merged.coefficients.iter().filter(|row| row.party == *role && row.term != INTERCEPT);
        // How many there are is what counts.
        party.columns = own.enumerate().map(|(at, _)| format!("{role}{at}")).collect();
        party.formula = None;
        file.columns.extend(party.columns.iter().map(|name| (name.clone(), unit.clone())));
    }
    file.mode = Mode::Private;
    file.outcome.held_by = if two { HeldBy::Both } else { HeldBy::All };
    let epsilon = privacy.epsilon;
    file.privacy = Some(privacy);
    let (study, _) = Stage::accepts(&file).ok()?;
    let study = study.vertical()?;
    let plan = study.private_plan(merged.statistics.nobs).ok()?;
    let outlook = study.outlook(&plan).ok()?;
    let (best, worst) = outlook.cases.iter().fold((f64::INFINITY, 0.0_f64), |(best, worst), case| {
        (best.min(case.relative_error), worst.max(case.relative_error))
    });
    let percent =
        |error: f64| if error < 9.995 { format!("{:.0} %", 100.0 * error) } else { "over 1000 %".to_string() };
    Some(format!(
        "--mode private --epsilon {epsilon} would miss the slopes by about {} to {} of their length at this size, \
         by how correlated the columns are (from public facts alone)",
        percent(best),
        percent(worst)
    ))
}
