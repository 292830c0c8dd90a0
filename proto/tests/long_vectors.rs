//! Ten million rows cross a line without a second copy of them anywhere. Alone in its process, which it measures.

// Test code may unwrap: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, dead_code)]

#[path = "edge/office.rs"]
mod office;
#[path = "edge/say.rs"]
mod say;

use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::Event;
use fedreg_proto::link::Link;
use fedreg_proto::tls::Listener;
use std::time::{Duration, Instant};
use tokio::time::timeout;

const ROWS: usize = 10_000_000;
const BYTES: u64 = ROWS as u64 * 8;
/// HTTP/2 windows of 16 MiB and buffers.
const EXTRA: u64 = 48 << 20;

async fn receive(link: &mut GrpcLink) -> Message {
    loop {
        match timeout(Duration::from_secs(30), link.recv()).await.unwrap() {
            Event::Message(message) => return message,
            Event::Alive | Event::Part => {}
            event => panic!("{event:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_million_rows_cross_in_the_memory_of_their_two_ends() {
    let office = office::Office::open("office");
    let listener = Listener::bind("127.0.0.1:0", &office.party("alice"), &["bob".to_owned()]).await.unwrap();
    let name = |role: Role| PeerName { role, certificate: role.name().to_owned() };
    let mut bob = GrpcLink::dial(listener.address().to_string(), &office.party("bob"), name(Role::Alice));
    let mut alice = GrpcLink::listen(listener, name(Role::Bob));
    alice.set_limits(Limits::for_rows(ROWS as u64));
    let (opened, dialled) = tokio::join!(alice.open(), bob.open());
    opened.and(dialled).unwrap();

    let message = say::partial(0, ROWS);
    let Body::Partial(partial) = &message.body else { panic!() };
    let sum = partial.values.iter().sum::<f64>();
    let message = say::released(message);
    let before = peak();
    let begun = Instant::now();
    bob.send(message);
    let came = receive(&mut alice).await;
    let seconds = begun.elapsed().as_secs_f64();
    let Body::Partial(partial) = came.body else { panic!("{came:?}") };
    assert_eq!(partial.values.len(), ROWS);
    assert_eq!(partial.values.iter().sum::<f64>(), sum);
    println!("{:.0} MB/s one way", BYTES as f64 / 1e6 / seconds);
    if let (Some(before), Some(after)) = (before, peak()) {
        let grown = after - before;
        println!("peak memory grew by {} MiB for {} MiB", grown >> 20, BYTES >> 20);
        assert!(grown < BYTES + EXTRA, "{} MiB", grown >> 20);
    }
}

/// Peak resident memory of this process, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib = line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(kib << 10)
}
