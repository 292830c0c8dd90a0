//! What another mode would have shown of a vertical rehearsal, or cost it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fedreg_common::fit::INTERCEPT;
use fedreg_common::glm::Family;
use fedreg_common::id::{Mode, Role};
use fedreg_common::methods::vertical::sealed::Sizes;
use fedreg_common::report::Report;
use fedreg_common::secure::open::{Earlier, Limits, Refusal, Rows};
use fedreg_common::study::{ColumnTerms, HeldBy, PrivacyTerms, Study, StudyFile, Vertical};
use fedreg_party::check;
use fedreg_party::config::{Config, Overrides};

use crate::stage::Stage;

/// What the two modes in which the run was not would have shown or cost, each behind its name; `privacy` is what a private run would be
/// asked for, and `stage` is where the private files of the parties are.
pub(crate) fn others(
    file: &StudyFile,
    privacy: PrivacyTerms,
    merged: &Report,
    stage: &Path,
) -> [(&'static str, String); 2] {
    let plain = || ("Plain:", plain(merged));
    let sealed = || ("Sealed:", sealed(file, merged, stage));
    match merged.mode {
        Mode::Plain => [sealed(), ("Private:", private(file, privacy, merged))],
        Mode::Sealed => [plain(), ("Private:", private(file, privacy, merged))],
        Mode::Private => [plain(), sealed()],
    }
}

/// What a mode without noise gives where the run had none, and where it had.
fn exact(merged: &Report) -> &'static str {
    match merged.mode {
        Mode::Plain | Mode::Sealed => "the same coefficients",
        Mode::Private => "the coefficients without noise",
    }
}

/// The parties, the one that leads first.
pub(crate) fn parties(merged: &Report) -> Vec<Role> {
    merged.all_parties().to_vec()
}

/// How many columns of a party the model has.
fn columns(merged: &Report, role: Role) -> u64 {
    merged.coefficients.iter().filter(|row| row.party == role && row.term != INTERCEPT).count() as u64
}

/// What plain mode would have shown.
fn plain(merged: &Report) -> String {
    let parties = parties(merged);
    let all = if parties.len() == 2 { "both" } else { "all" };
    let counts: Vec<String> = parties.iter().map(|role| format!("{role} {}", columns(merged, *role))).collect();
    format!(
        "--mode plain gives {}, and vectors with a value a row leave {all} parties: as many as a party has columns ({}) give these away",
        exact(merged),
        counts.join(", ")
    )
}

/// What sealed mode would have disclosed.
fn sealed(file: &StudyFile, merged: &Report, stage: &Path) -> String {
    let mut file = StudyFile { mode: Mode::Sealed, privacy: None, columns: BTreeMap::new(), ..file.clone() };
    file.parties.values_mut().for_each(|party| party.row_norm = None);
    let study = match Stage::accepts(&file).map(|(study, _)| study.vertical()) {
        Ok(Some(study)) => Arc::new(study),
        Ok(None) => return "--mode sealed is of two parties or more".to_string(),
        Err(failure) => {
            return format!(
                "--mode sealed, in which no value of a row leaves readably, has no such fit: {:#}",
                failure.error
            );
        }
    };
    let [first, second, ..] = *merged.all_parties() else {
        return "--mode sealed is of two parties or more".to_string();
    };
    if merged.is_of_several()
        && let Some((leader, others)) = merged.parties.split_first()
    {
        let others = others.iter().map(|role| columns(merged, *role));
        let met = sealed_of_several(merged, (*leader, columns(merged, *leader)), others);
        return met
            .and_then(|shown| beyond_limits(&study, merged, stage).map_or(Ok(shown), Err))
            .unwrap_or_else(refused);
    }
    let (alice, bob) = (columns(merged, first), columns(merged, second));
    let (rows, exact) = (merged.statistics.nobs, exact(merged));
    let sizes = Sizes::new(&study, rows as usize, alice as usize, bob as usize);
    let penalised = file.penalty.is_some();
    let by_gradients = match merged.family.base() {
        Family::Gaussian => false,
        Family::Binomial | Family::Poisson => true,
    };
    // A fit by gradients takes ten of them, say; of one with a penalty the number is known to be the least.
    let numbers = match by_gradients && !penalised {
        true => sizes.before_gradients(second) + sizes.leaving(second, 10),
        false => sizes.at_least(second),
    };
    let limits = Limits::default();
    let met = limits
        .rows(Rows::All, rows, alice + bob)
        .and_then(|()| limits.opened(Earlier::default(), numbers, rows, [alice, bob]).map(|_| ()));
    if let (Err(refusal @ Refusal::Opened { .. }), true) = (&met, by_gradients && !penalised) {
        return may_stop(refusal);
    }
    if let Some(refusal) = met.err().map(|refusal| refusal.to_string()).or_else(|| beyond_limits(&study, merged, stage))
    {
        return refused(refusal);
    }
    let (so, tables) = match sizes.folds() {
        0 => (format!("(recommended) gives {exact}"), "a table"),
        _ => (format!("gives {exact} where every fold meets its limits"), "a table and sums a fold"),
    };
    let head = format!("--mode sealed {so}, and no value of a row leaves readably:");
    let beside = format!("beside {} unknown values", rows * alice.min(bob));
    let factor = format!("{second}'s factor");
    let (back, table) = (sizes.beside_table(first), sizes.table());
    match (by_gradients, penalised) {
        (false, false) => format!(
            "{head} one table of {} x {bob} cross-products, {table} numbers {beside}, opens to {first}, and {back} numbers of the solution to \
             {second}",
            alice + 1,
        ),
        (false, true) => format!(
            "{head} {numbers} numbers {beside} open to {first} ({tables}, {factor}), and {back} to {second} (the estimates)"
        ),
        (true, _) => {
            let last = match (penalised, sizes.inference()) {
                (true, _) => format!(", and {factor}"),
                (false, true) => ", and a weighted table".to_string(),
                (false, false) => String::new(),
            };
            format!(
                "{head} about {numbers} numbers {beside} open to {first}, a table of cross-products, a gradient of {} numbers several times{last}",
                sizes.gradient(),
            )
        }
    }
}

/// That sealed mode has limits which the run does not meet.
fn refused(refusal: String) -> String {
    format!("--mode sealed would have refused it, for its limits on what may open: {refusal}")
}

/// Most values of all parties that are read again to look at their limits: a rehearsal may be larger than this process's memory.
const LOOKED_AT: u64 = 20_000_000;

/// What a party's columns themselves lack of the limits, if anything, such as rows with the rarer value of one with two.
fn beyond_limits(study: &Arc<Study<Vertical>>, merged: &Report, stage: &Path) -> Option<String> {
    let all: u64 = parties(merged).into_iter().map(|role| columns(merged, role)).sum();
    if merged.statistics.nobs.saturating_mul(all) > LOOKED_AT {
        return None;
    }
    parties(merged).into_iter().find_map(|role| {
        let file = Some(stage.join(format!("{role}.toml")));
        let config = Config::load(role, &Overrides { config: file, ..Overrides::default() }).ok()?;
        let others = study.others(role).into_iter().map(|other| columns(merged, other) as usize);
        check::beyond_limits(role, &config, study, &others.collect::<Vec<_>>())
    })
}

/// Of a fit by gradients without a penalty: it begins where there is room for one gradient, and ends where the limits are reached.
fn may_stop(refusal: &Refusal) -> String {
    format!(
        "--mode sealed may stop before the end, or refuse it, for its limits on what may open: with ten gradients {refusal}; a fit that needs \
         fewer gradients converges"
    )
}

/// The same of several parties, whose sealed fits are gaussian and follow from tables.
fn sealed_of_several(
    merged: &Report,
    (leader, own): (Role, u64),
    others: impl Iterator<Item = u64>,
) -> Result<String, String> {
    let others: Vec<u64> = others.collect();
    let (all, rows, limits) = (own + others.iter().sum::<u64>(), merged.statistics.nobs, Limits::default());
    let opened = |columns: &u64| {
        let numbers = columns * (all - columns + 1);
        limits.opened(Earlier::default(), numbers, rows, [*columns, all - columns]).map(|_| numbers)
    };
    let met = limits.rows(Rows::All, rows, all).and_then(|()| others.iter().map(opened).collect::<Result<Vec<_>, _>>());
    match met {
        Err(refusal) => Err(refusal.to_string()),
        Ok(numbers) => {
            let solution: u64 = others.iter().map(|columns| columns * (columns + 2) + 3).sum();
            // A table between two of the others is one of both.
            let between: u64 = others.iter().enumerate().map(|(at, a)| a * others[at + 1..].iter().sum::<u64>()).sum();
            Ok(format!(
                "--mode sealed (recommended) gives {}, and no value of a row leaves readably: the tables of cross-products of every two \
                 parties, {} numbers, open to {leader}, and {solution} numbers of the solution to the others",
                exact(merged),
                numbers.iter().sum::<u64>() - between,
            ))
        }
    }
}

/// What private mode would cost in accuracy, from public facts alone.
fn private(file: &StudyFile, privacy: PrivacyTerms, merged: &Report) -> String {
    let unit = ColumnTerms::of_range(-1.0, 1.0);
    let outcome = match merged.family.base() {
        Family::Gaussian => unit.clone(),
        // What is expected of counts is the same whatever the largest one is.
        Family::Binomial | Family::Poisson => ColumnTerms::of_range(0.0, 1.0),
    };
    let mut file = StudyFile { mode: Mode::Private, sealed: None, ..file.clone() };
    file.columns = BTreeMap::from([(file.outcome.column.clone(), outcome)]);
    for (role, party) in &mut file.parties {
        // How many there are is what counts.
        party.columns = (0..columns(merged, *role)).map(|at| format!("{role}{at}")).collect();
        party.formula = None;
        file.columns.extend(party.columns.iter().map(|name| (name.clone(), unit.clone())));
    }
    file.outcome.held_by = if merged.parties.is_empty() { HeldBy::Both } else { HeldBy::All };
    let epsilon = privacy.epsilon;
    file.privacy = Some(privacy);
    let study = match Stage::accepts(&file) {
        Ok((study, _)) => study,
        Err(failure) => return format!("--mode private has no such fit: {:#}", failure.error),
    };
    let Some(study) = study.vertical() else { return "--mode private has no such fit".to_string() };
    let rows = merged.statistics.nobs;
    let outlook = match study.private_plan(rows).and_then(|plan| study.outlook(&plan)) {
        Ok(outlook) => outlook,
        Err(error) => return format!("--mode private --epsilon {epsilon} would have refused it: {error}"),
    };
    let (best, worst) = outlook.cases.iter().fold((f64::INFINITY, 0.0_f64), |(best, worst), case| {
        (best.min(case.relative_error), worst.max(case.relative_error))
    });
    let percent =
        |error: f64| if error < 9.995 { format!("{:.0} %", 100.0 * error) } else { "over 1000 %".to_string() };
    let slopes = match file.penalty {
        None => "the slopes",
        Some(_) => "the slopes without a penalty",
    };
    let (best, worst) = (percent(best), percent(worst));
    let by = if best == worst { best } else { format!("{best} to {worst}") };
    let about = if by.starts_with("over") { "" } else { "about " };
    format!(
        "--mode private --epsilon {epsilon} would miss {slopes} by {about}{by} of their length at this size, by how correlated the columns are \
         (from public facts alone)"
    )
}
