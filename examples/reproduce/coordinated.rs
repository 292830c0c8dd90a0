//! What a match through the coordinator costs: the three in one process, one after the other, without a line between them.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::bail;
use fedreg_common::conversation::{Opening, Purpose};
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::matching::{Inputs, MatchSession, Matched, Policy};
use fedreg_common::methods::vertical::message::Message;
use fedreg_common::session::{Request, Session, Turn};
use fedreg_common::sim::merger::merger;

use crate::Run;
use crate::document::{Document, Table};
use crate::matching::{cpu_seconds, normalised, setting, study};
use crate::tables::row;

/// Most CPU seconds of a party at ten million records, behind reading and normalising.
const SECONDS: f64 = 6.0;

/// What it took, in CPU seconds over all threads.
#[derive(Default)]
struct Cost {
    reading: [f64; 2],
    parties: [f64; 2],
    coordinator: f64,
    /// Bytes of tags of a party.
    sent: u64,
}

pub(crate) fn table(run: &Run, document: &mut Document) -> anyhow::Result<()> {
    let mut table = Table::new(
        "The same tables through the coordinator. CPU seconds over all threads: of a party for normalising its table, of each party behind \
         that, and of the coordinator; megabytes of tags that each party sent.",
        ["records", "normalising", "alice", "bob", "coordinator", "sent"],
    );
    for n in run.size([100_000, 1_000_000, 10_000_000].as_slice(), [2_000].as_slice()) {
        let Cost { reading, parties: [alice, bob], coordinator, sent } = matched(*n)?;
        table.ours(row(&n.to_string(), &[reading[0], alice, bob, coordinator, sent as f64 / 1e6]));
        if *n == 10_000_000 {
            let what = "CPU seconds of a party at ten million records through the coordinator";
            for seconds in [alice, bob] {
                run.target(document, seconds, SECONDS, what);
            }
        }
    }
    document.table(table);
    Ok(())
}

fn matched(n: u64) -> anyhow::Result<Cost> {
    let (rules, tables) = setting(n)?;
    let (mut cost, mut sessions, study) = (Cost::default(), Vec::new(), study()?);
    let run = RunId([1; 16]);
    for (side, (role, cells)) in [Role::Alice, Role::Bob].into_iter().zip(tables).enumerate() {
        let clock = cpu_seconds();
        let records = Arc::new(normalised(&rules, cells)?);
        let read = cpu_seconds();
        let inputs = Inputs {
            rules: Arc::clone(&rules),
            match_digest: Digest::of(b"study"),
            policy: Policy::default(),
            records,
            first: None,
            journal: None,
            coordinated: true,
        };
        let opening = Opening { first: side == 0, run, seed: [side as u8 + 1; 32], peer: role.partner() };
        sessions.push(MatchSession::new(role, Purpose::MatchFit, &study, inputs, opening)?);
        (cost.reading[side], cost.parties[side]) = (read - clock, cpu_seconds() - read);
    }
    let results = converse(&mut sessions, merger(&study, run, |_, _| {}), &mut cost)?;
    anyhow::ensure!(
        results.iter().all(|result| result.order.len() as u64 == n.div_ceil(2)),
        "other matches than there are"
    );
    anyhow::ensure!(results[0].order_digest() == results[1].order_digest(), "the orders differ");
    Ok(cost)
}

fn converse(
    sessions: &mut [MatchSession],
    mut merge: impl FnMut(usize, Request) -> Vec<(usize, Message)>,
    cost: &mut Cost,
) -> anyhow::Result<[Matched; 2]> {
    let roles = [Role::Alice, Role::Bob];
    let mut results: [Option<Matched>; 2] = [None, None];
    // What is on its way to a side.
    let mut lines: [VecDeque<(Role, Message)>; 2] = Default::default();
    let mut starting = 2;
    while results.iter().any(Option::is_none) {
        let side = match starting {
            0 => lines.iter().position(|line| !line.is_empty()),
            _ => Some(starting - 1),
        };
        let Some(side) = side else { bail!("the match does not end") };
        let clock = cpu_seconds();
        let turn = if starting > 0 {
            starting -= 1;
            sessions[side].start()?
        } else if let Some((from, message)) = lines[side].pop_front() {
            sessions[side].receive(from, message)?
        } else {
            Turn::Wait
        };
        match turn {
            Turn::Wait => {}
            Turn::Send(message) => lines[1 - side].push_back((roles[side], message.into())),
            Turn::FinishAndSend { output, last } => {
                results[side] = Some(output);
                lines[1 - side].push_back((roles[side], last.into()));
            }
            Turn::Finish(output) => results[side] = Some(output),
        }
        sessions[side].work()?;
        cost.parties[side] += cpu_seconds() - clock;
        while let Some(request) = sessions[side].request() {
            if let Request::List { list, .. } = &request {
                cost.sent = list.len() * 16;
            }
            let clock = cpu_seconds();
            for (to, message) in merge(side, request) {
                lines[to].push_back((Role::Coordinator, message));
            }
            cost.coordinator += cpu_seconds() - clock;
        }
    }
    let [Some(alice), Some(bob)] = results else { bail!("a side has no result") };
    Ok([alice, bob])
}
