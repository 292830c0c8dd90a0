//! Studies of several parties in the simulated network.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::Frame;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::{Dealt, Message};
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::methods::vertical::sealed::SealedSession;
use fedreg_common::methods::vertical::session::VerticalSession;
use fedreg_common::methods::vertical::several::{FitCentre, Hub, SealedCentre};
use fedreg_common::privacy::openings::{Account, OneRun};
use fedreg_common::secure::open::Limits;
use fedreg_common::session::Abort;
use fedreg_common::sim::dealer::dealer;
use fedreg_common::sim::pair::{self, Ended, Faults};
use fedreg_common::sim::several::{self, EndedSeveral};
use fedreg_common::study::{Study, Vertical};

use crate::vectors::Case;
use crate::vertical::{RUN, frame, parsed};

/// Names of parties in their order.
pub const NAMES: [&str; 5] = ["anna", "ben", "cleo", "dan", "eve"];

/// A study file for the columns of a case, cut in order into at most `parties` blocks; `more` is appended.
pub fn study(case: &Case, parties: usize, held_by: &str, more: &str) -> Study<Vertical> {
    let blocks = blocks(case, parties);
    study_of(case, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>(), held_by, more)
}

/// The columns of a case, cut in order into at most `parties` blocks.
pub fn blocks(case: &Case, parties: usize) -> Vec<Vec<String>> {
    let columns: Vec<String> = case.alice.iter().chain(&case.bob).cloned().collect();
    let count = parties.min(columns.len());
    (0..count).map(|at| columns[at * columns.len() / count..(at + 1) * columns.len() / count].to_vec()).collect()
}

/// The same with blocks that are given.
pub fn study_of(case: &Case, blocks: &[&[String]], held_by: &str, more: &str) -> Study<Vertical> {
    study_in("plain", case, &named(blocks), held_by, more)
}

/// The same of blocks whose parties stand in another order than by name, which the study states.
pub fn study_ordered(case: &Case, blocks: &[(&str, &[String])], mode: &str) -> Study<Vertical> {
    study_in(mode, case, blocks, "all", "")
}

/// A study in sealed mode; an outcome or offset that one party holds, and weights that all hold.
pub fn study_sealed(case: &Case, blocks: &[&[String]], held_by: &str) -> Study<Vertical> {
    study_in("sealed", case, &named(blocks), held_by, "")
}

/// The same whose tables open to all parties.
pub fn study_to_all(case: &Case, blocks: &[&[String]], held_by: &str) -> Study<Vertical> {
    study_in("sealed", case, &named(blocks), held_by, "[sealed]\nopens = \"all\"\n")
}

/// A study whose factors open for sub-models, to the leader or to all.
pub fn study_with_refits(case: &Case, blocks: &[&[String]], held_by: &str, to_all: bool) -> Study<Vertical> {
    let opens = if to_all { "opens = \"all\"\n" } else { "" };
    study_in("sealed", case, &named(blocks), held_by, &format!("[sealed]\nrefit = true\n{opens}"))
}

fn named<'a>(blocks: &[&'a [String]]) -> Vec<(&'static str, &'a [String])> {
    NAMES.into_iter().zip(blocks.iter().copied()).collect()
}

/// A study that anna leads whose outcome, offset and weights these parties hold alone, each of the three by itself.
pub fn study_held_by(case: &Case, parties: usize, holders: [&str; 3], more: &str) -> Study<Vertical> {
    let blocks = blocks(case, parties);
    let text = text_in("plain", case, &named(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>()), "all", more);
    let mut all = String::from("leader = \"anna\"\n");
    let mut section = String::new();
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.to_string();
        }
        let at = ["[outcome]", "[offset]", "[weights]"].iter().position(|key| *key == section);
        match at {
            Some(at) if line.starts_with("held_by") => all.push_str(&format!("held_by = {:?}\n", holders[at])),
            _ => all.push_str(&format!("{line}\n")),
        }
    }
    parsed(&all)
}

fn study_in(mode: &str, case: &Case, blocks: &[(&str, &[String])], held_by: &str, more: &str) -> Study<Vertical> {
    parsed(&text_in(mode, case, blocks, held_by, more))
}

fn text_in(mode: &str, case: &Case, blocks: &[(&str, &[String])], held_by: &str, more: &str) -> String {
    let mut text = format!("id = \"test\"\nmode = {mode:?}\n");
    let names: Vec<&str> = blocks.iter().map(|(name, _)| *name).collect();
    if !names.is_sorted() {
        text.push_str(&format!("order = {names:?}\n"));
    }
    for (name, block) in blocks {
        text.push_str(&format!("[parties.{name}]\ncertificate = \"{name}\"\ncolumns = {block:?}\n"));
    }
    text.push_str(&format!("[outcome]\ncolumn = {:?}\nheld_by = {held_by:?}\n", case.outcome));
    text.push_str(&format!("[model]\nfamily = {:?}\nintercept = {}\n", case.family, case.intercept));
    for (key, column) in [("offset", &case.offset), ("weights", &case.weights)] {
        if let Some(column) = column {
            let held_by = if mode == "sealed" && key == "weights" { "all" } else { held_by };
            text.push_str(&format!("[{key}]\ncolumn = {column:?}\nheld_by = {held_by:?}\n"));
        }
    }
    if case.is("missing") {
        text.push_str("[rows]\nmissing = \"complete-cases\"\n");
    }
    text + more
}

/// Runs a study over one file that holds the columns of all parties.
pub fn run(study: &Study<Vertical>, file: &Path, faults: Faults) -> EndedSeveral<VerticalFit> {
    run_with(study, |role| frame(study, role, file), faults, |_, _| {}).unwrap_or_else(|abort| panic!("{abort}"))
}

/// The same over a frame for each party, and with an observer of all messages.
pub fn run_with(
    study: &Study<Vertical>,
    frame: impl Fn(Role) -> Frame,
    faults: Faults,
    observe: impl FnMut(Role, &Message),
) -> Result<EndedSeveral<VerticalFit>, Abort> {
    let study = Arc::new(study.clone());
    if let [first, second] = study.parties_in_order()[..] {
        let start = |own: Role, at: u8, peer: Role| -> Result<VerticalSession, Abort> {
            let prepared = Prepared::new(Arc::clone(&study), own, Policy::default(), frame(own))?;
            Ok(VerticalSession::new(prepared, Opening { first: at > 0, run: RUN, seed: [at + 1; 32], peer }))
        };
        let observe = to_receiver([first, second], observe);
        let (mut one, mut other) = (start(first, 0, second)?, start(second, 1, first)?);
        return Ok(as_several(pair::run(&mut one, &mut other, faults, observe)));
    }
    let (mut hub, mut sessions) = sessions(&study, frame)?;
    Ok(several::run_several(&mut hub, &mut sessions, faults, observe))
}

/// The leader's hub and the sessions of its followers in order.
pub fn sessions(
    study: &Arc<Study<Vertical>>,
    frame: impl Fn(Role) -> Frame,
) -> Result<(Hub<FitCentre>, Vec<VerticalSession>), Abort> {
    sessions_with(study, frame, |_| Policy::default())
}

/// The same with a policy for each party.
pub fn sessions_with(
    study: &Arc<Study<Vertical>>,
    frame: impl Fn(Role) -> Frame,
    policy: impl Fn(Role) -> Policy,
) -> Result<(Hub<FitCentre>, Vec<VerticalSession>), Abort> {
    let parties = study.parties_in_order();
    let leader = parties[0];
    let prepared = |role| Prepared::new(Arc::clone(study), role, policy(role), frame(role));
    let opening = |first, at: usize, peer| Opening { first, run: RUN, seed: [at as u8 + 1; 32], peer };
    let hub = Hub::fit(prepared(leader)?, &opening(false, 0, leader));
    let mut sessions = Vec::new();
    for (at, role) in parties[1..].iter().enumerate() {
        sessions.push(VerticalSession::new(prepared(*role)?, opening(true, at + 1, leader)));
    }
    Ok((hub, sessions))
}

/// Runs a study in sealed mode over one file that holds the columns of all parties, with limits that let few rows pass; with an observer of
/// all messages, and of what the dealer sends, which it may change.
pub fn run_sealed(
    study: &Study<Vertical>,
    file: &Path,
    faults: Faults,
    observe: impl FnMut(Role, &Message),
    spoil: impl FnMut(usize, &mut Dealt),
) -> EndedSeveral<VerticalFit> {
    let study = Arc::new(study.clone());
    if let [first, second] = study.parties_in_order()[..] {
        let start = |own: Role, at: u8, peer: Role| {
            let policy = Policy { limits: LOOSE, ..Policy::default() };
            let prepared = Prepared::new(Arc::clone(&study), own, policy, frame(&study, own, file)).unwrap();
            let opening = Opening { first: at > 0, run: RUN, seed: [at + 1; 32], peer };
            SealedSession::new(prepared, opening, Box::new(OneRun))
        };
        let observe = to_receiver([first, second], observe);
        let (mut one, mut other) = (start(first, 0, second), start(second, 1, first));
        let deal = dealer(&study, RUN, spoil);
        return as_several(pair::run_dealt(&mut one, &mut other, faults, observe, deal));
    }
    let (mut hub, mut sessions) =
        sealed_sessions(&study, |role| frame(&study, role, file), LOOSE, |_| Box::new(OneRun))
            .unwrap_or_else(|abort| panic!("{abort}"));
    several::run_several_dealt(&mut hub, &mut sessions, faults, observe, dealer(&study, RUN, spoil))
}

/// An observer of messages by their receiver, for a run of two.
fn to_receiver([first, second]: [Role; 2], mut observe: impl FnMut(Role, &Message)) -> impl FnMut(usize, &Message) {
    move |side, message| observe(if side == 0 { second } else { first }, message)
}

fn as_several(ended: Ended<VerticalFit>) -> EndedSeveral<VerticalFit> {
    EndedSeveral { results: ended.results.into(), sent: ended.sent }
}

/// Limits on what may open that let few rows pass.
pub const LOOSE: Limits = Limits { entropy_bits: 0.0, level_rows: 0, rows_per_column: 0, opened_share: 1e6 };

/// The leader's hub and the sessions of its followers in order, of a study in sealed mode; `account` records what each lets open.
pub fn sealed_sessions(
    study: &Arc<Study<Vertical>>,
    frame: impl Fn(Role) -> Frame,
    limits: Limits,
    account: impl Fn(Role) -> Box<dyn Account + Send>,
) -> Result<(Hub<SealedCentre>, Vec<SealedSession>), Abort> {
    let parties = study.parties_in_order();
    let policy = Policy { limits, ..Policy::default() };
    let prepared = |role| Prepared::new(Arc::clone(study), role, policy.clone(), frame(role));
    let opening = |first, at: usize| Opening { first, run: RUN, seed: [at as u8 + 1; 32], peer: parties[0] };
    let hub = Hub::sealed(prepared(parties[0])?, &opening(false, 0), account(parties[0]));
    let mut sessions = Vec::new();
    for (at, role) in parties.iter().enumerate().skip(1) {
        sessions.push(SealedSession::new(prepared(*role)?, opening(true, at), account(*role)));
    }
    Ok((hub, sessions))
}

/// All results of a run that must succeed, the leader's first.
pub fn fitted(ended: EndedSeveral<VerticalFit>) -> Vec<VerticalFit> {
    let aborts: Vec<String> =
        ended.results.iter().flatten().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect();
    assert!(aborts.is_empty(), "{aborts:?}");
    ended.results.into_iter().map(|result| result.expect("the run ended at every party").unwrap()).collect()
}
