//! What a match of records costs: both parties in one process, one after the other, without a line between them.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, bail};
use fedreg_common::conversation::{Opening, Purpose};
use fedreg_common::data::Marks;
use fedreg_common::data::matching::{BySide, Cells, Duplicates, Key, Keys, Kind, Reading, Records, Rules, Source};
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::matching::message::Match;
use fedreg_common::methods::vertical::matching::{Inputs, MatchSession, Matched, Policy};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::session::{Session, Turn};
use fedreg_common::study::{Study, Vertical};
use fedreg_party::output::peak_rss_bytes;

use crate::Run;
use crate::coordinated;
use crate::document::{Document, Table};
use crate::tables::row;

/// The study, as far as a match looks at it.
const STUDY: &str = "id = \"matching\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n\
                     [parties.bob]\ncertificate = \"bob\"\ncolumns = [\"b\"]\n[outcome]\ncolumn = \"y\"\n";
/// Most CPU seconds of a party at a million records, and most bytes a record beyond the reader.
const SECONDS: f64 = 70.0;
const BYTES: f64 = 100.0;

/// What one party of a match took.
struct Cost {
    /// CPU seconds over all threads, from cells to the result.
    seconds: f64,
    sent: u64,
}

pub(crate) fn tables(run: &Run) -> anyhow::Result<Document> {
    let mut document = Document::new("What a match of records costs");
    let mut table = Table::new(
        "Identifiers of 11 digits, half of them in both tables. CPU seconds of each party over all threads, from the cells to the result; \
         seconds of both, one after the other; megabytes that each sent; bytes a record beyond the tables, at the peak.",
        ["records", "alice", "bob", "both", "sent", "bytes a record"],
    );
    for n in run.size([10_000, 100_000, 1_000_000].as_slice(), [2_000].as_slice()) {
        let clock = Instant::now();
        let ([alice, bob], peak) = matched(*n)?;
        let both = clock.elapsed().as_secs_f64();
        table.ours(row(&n.to_string(), &[alice.seconds, bob.seconds, both, alice.sent as f64 / 1e6, peak]));
        if *n == 1_000_000 {
            for cost in [&alice, &bob] {
                run.target(&mut document, cost.seconds, SECONDS, "CPU seconds of a party at a million records");
            }
            run.target(&mut document, peak, BYTES, "bytes a record");
        }
    }
    document.table(table);
    coordinated::table(run, &mut document)?;
    Ok(document)
}

/// Two tables of `n` records matched; the peak of memory beyond the tables is divided by the records of both.
fn matched(n: u64) -> anyhow::Result<([Cost; 2], f64)> {
    let (rules, tables) = setting(n)?;
    // From here on the peak counts.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = peak_rss_bytes();
    let mut costs = [Cost { seconds: 0.0, sent: 0 }, Cost { seconds: 0.0, sent: 0 }];
    let mut sessions = Vec::new();
    let study = study()?;
    for (side, (role, cells)) in [Role::Alice, Role::Bob].into_iter().zip(tables).enumerate() {
        let clock = cpu_seconds();
        let records = Arc::new(normalised(&rules, cells)?);
        let (rules, policy) = (Arc::clone(&rules), Policy::default());
        let inputs = Inputs {
            rules,
            match_digest: Digest::of(b"study"),
            policy,
            records,
            first: None,
            journal: None,
            coordinated: false,
        };
        let opening =
            Opening { first: side == 0, run: RunId([1; 16]), seed: [side as u8 + 1; 32], peer: role.partner() };
        sessions.push(MatchSession::new(role, Purpose::MatchFit, &study, inputs, opening)?);
        costs[side].seconds += cpu_seconds() - clock;
    }
    let results = converse(&mut sessions, &mut costs)?;
    anyhow::ensure!(
        results.iter().all(|result| result.order.len() as u64 == n.div_ceil(2)),
        "other matches than there are"
    );
    anyhow::ensure!(results[0].order_digest() == results[1].order_digest(), "the orders differ");
    let beyond = peak_rss_bytes().zip(before).map_or(f64::NAN, |(after, before)| after as f64 - before as f64);
    Ok((costs, beyond / (2 * n) as f64))
}

/// The rules of two tables of `n` records, half of them in both, and the tables.
pub(super) fn setting(n: u64) -> anyhow::Result<(Arc<Rules>, [Cells; 2])> {
    let key = Key { name: "id".to_owned(), kind: Kind::Identifier { length: Some([11, 11]) } };
    let keys = Keys::new(vec![key], &[("id".to_owned(), vec!["id".to_owned()])])?;
    let rules = Arc::new(Rules {
        keys,
        duplicates: Duplicates::Refuse,
        min_matched: n / 2,
        min_pass: 1,
        max_rows: BySide::two(n, n),
        capacity: None,
    });
    let tables = [0, n / 2].map(|from| {
        let mut cells = Cells::default();
        // Spread, so that neighbours in one table are none in the other.
        (from..from + n)
            .for_each(|number| cells.push(format!("{:011}", number * 7_368_787 % 99_999_999_977).as_bytes()));
        cells
    });
    Ok((rules, tables))
}

pub(super) fn study() -> anyhow::Result<Study<Vertical>> {
    Study::parse(STUDY)?.vertical().context("the study is one of two parties")
}

/// A party's table in its canonical form.
pub(super) fn normalised(rules: &Rules, cells: Cells) -> anyhow::Result<Records> {
    let source = Source { column: "id".to_owned(), reading: Reading::Text, missing: Marks::default() };
    Ok(Records::normalise(&rules.keys, vec![(source, cells)])?)
}

fn converse(sessions: &mut [MatchSession], costs: &mut [Cost; 2]) -> anyhow::Result<[Matched; 2]> {
    anyhow::ensure!(matches!(sessions[1].start()?, Turn::Wait), "both speak first");
    let mut results: [Option<Matched>; 2] = [None, None];
    let (mut side, mut heard): (usize, Option<Message>) = (0, None);
    loop {
        let (clock, peer) = (cpu_seconds(), sessions[1 - side].role());
        let turn = match heard.take() {
            None => sessions[side].start()?,
            Some(message) => sessions[side].receive(peer, message)?,
        };
        let said = match turn {
            Turn::Wait => None,
            Turn::Send(message) => Some(message),
            Turn::FinishAndSend { output, last } => {
                results[side] = Some(output);
                Some(last)
            }
            Turn::Finish(output) => {
                results[side] = Some(output);
                None
            }
        };
        sessions[side].work()?;
        costs[side].seconds += cpu_seconds() - clock;
        if let [Some(_), Some(_)] = results {
            break;
        }
        let Some(message) = said.map(Message::from) else { bail!("the match does not end") };
        if let Body::Match(Match::Part(part)) = &message.body {
            costs[side].sent += part.bytes.len() as u64;
        }
        (side, heard) = (1 - side, Some(message));
    }
    let [Some(alice), Some(bob)] = results else { bail!("a side has no result") };
    Ok([alice, bob])
}

/// CPU seconds of this process so far, in steps of a hundredth; not-a-number where the system does not tell.
pub(super) fn cpu_seconds() -> f64 {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in brackets, may hold spaces.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    };
    ticks().map_or(f64::NAN, |ticks| ticks / 100.0)
}
