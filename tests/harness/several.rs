//! Studies of several parties in the simulated network.

use std::path::Path;
use std::sync::Arc;

use fedreg_common::conversation::Opening;
use fedreg_common::data::Frame;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::methods::vertical::outcome::VerticalFit;
use fedreg_common::methods::vertical::prepare::{Policy, Prepared};
use fedreg_common::methods::vertical::session::VerticalSession;
use fedreg_common::methods::vertical::several::{FitCentre, Hub};
use fedreg_common::session::Abort;
use fedreg_common::sim::pair::Faults;
use fedreg_common::sim::several::{self, EndedSeveral};
use fedreg_common::study::{Study, Vertical};

use crate::vectors::Case;
use crate::vertical::{RUN, frame, parsed};

/// Names of parties in their order.
pub const NAMES: [&str; 5] = ["anna", "ben", "cleo", "dan", "eve"];

/// A study file for the columns of a case, cut in order into at most `parties` blocks; `more` is appended.
pub fn study(case: &Case, parties: usize, held_by: &str, more: &str) -> Study<Vertical> {
    let columns: Vec<String> = case.alice.iter().chain(&case.bob).cloned().collect();
    let count = parties.min(columns.len());
    let blocks: Vec<&[String]> =
        (0..count).map(|at| &columns[at * columns.len() / count..(at + 1) * columns.len() / count]).collect();
    study_of(case, &blocks, held_by, more)
}

/// The same with blocks that are given.
pub fn study_of(case: &Case, blocks: &[&[String]], held_by: &str, more: &str) -> Study<Vertical> {
    let mut text = "id = \"test\"\n".to_string();
    for (name, block) in NAMES.iter().zip(blocks) {
        text.push_str(&format!("[parties.{name}]\ncertificate = \"{name}\"\ncolumns = {block:?}\n"));
    }
    text.push_str(&format!("[outcome]\ncolumn = {:?}\nheld_by = {held_by:?}\n", case.outcome));
    text.push_str(&format!("[model]\nfamily = {:?}\nintercept = {}\n", case.family, case.intercept));
    for (key, column) in [("offset", &case.offset), ("weights", &case.weights)] {
        if let Some(column) = column {
            text.push_str(&format!("[{key}]\ncolumn = {column:?}\nheld_by = {held_by:?}\n"));
        }
    }
    if case.is("missing") {
        text.push_str("[rows]\nmissing = \"complete-cases\"\n");
    }
    text.push_str(more);
    parsed(&text)
}

/// Runs a study over one file that holds the columns of all parties.
pub fn run(study: &Study<Vertical>, file: &Path, faults: Faults) -> EndedSeveral {
    run_with(study, |role| frame(study, role, file), faults, |_, _| {}).unwrap_or_else(|abort| panic!("{abort}"))
}

/// The same over a frame for each party, and with an observer of all messages.
pub fn run_with(
    study: &Study<Vertical>,
    frame: impl Fn(Role) -> Frame,
    faults: Faults,
    observe: impl FnMut(Role, &Message),
) -> Result<EndedSeveral, Abort> {
    let study = Arc::new(study.clone());
    let (mut hub, mut sessions) = sessions(&study, frame)?;
    Ok(several::run_several(&mut hub, &mut sessions, faults, observe))
}

/// The leader's hub and the sessions of its followers in order.
pub fn sessions(
    study: &Arc<Study<Vertical>>,
    frame: impl Fn(Role) -> Frame,
) -> Result<(Hub<FitCentre>, Vec<VerticalSession>), Abort> {
    let parties = study.parties_in_order();
    let leader = parties[0];
    let prepared = |role| Prepared::new(Arc::clone(study), role, Policy::default(), frame(role));
    let opening = |first, at: usize, peer| Opening { first, run: RUN, seed: [at as u8 + 1; 32], peer };
    let hub = Hub::fit(prepared(leader)?, &opening(false, 0, leader));
    let mut sessions = Vec::new();
    for (at, role) in parties[1..].iter().enumerate() {
        sessions.push(VerticalSession::new(prepared(*role)?, opening(true, at + 1, leader)));
    }
    Ok((hub, sessions))
}

/// All results of a run that must succeed, the leader's first.
pub fn fitted(ended: EndedSeveral) -> Vec<VerticalFit> {
    let aborts: Vec<String> =
        ended.results.iter().flatten().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect();
    assert!(aborts.is_empty(), "{aborts:?}");
    ended.results.into_iter().map(|result| result.expect("the run ended at every party").unwrap()).collect()
}
