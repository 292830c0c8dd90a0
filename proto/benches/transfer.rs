//! One message with a value a row, over mutual TLS on loopback.
//!
//! `cargo bench -p fedreg-proto`. Throughput is in bytes.

// Benchmark code may unwrap: a failed unwrap ends the benchmark.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, dead_code)]

#[path = "../tests/edge/office.rs"]
mod office;
#[path = "../tests/edge/say.rs"]
mod say;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fedreg_common::id::Role;
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Event, Link};
use fedreg_proto::tls::Listener;
use std::time::{Duration, Instant};

fn transfer(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut alice, mut bob) = runtime.block_on(async {
        let office = office::Office::open("office");
        let listener = Listener::bind("127.0.0.1:0", &office.party("alice"), &["bob".to_owned()]).await.unwrap();
        let name = |role: Role| PeerName { role, certificate: role.name().to_owned() };
        let mut bob = GrpcLink::dial(listener.address().to_string(), &office.party("bob"), name(Role::Alice));
        let mut alice = GrpcLink::listen(listener, name(Role::Bob));
        let (opened, dialled) = tokio::join!(alice.open(), bob.open());
        opened.and(dialled).unwrap();
        (alice, bob)
    });
    let mut group = criterion.benchmark_group("transfer");
    group.sample_size(20).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(4));
    for rows in [1_000, 1_000_000] {
        alice.set_limits(Limits::for_rows(rows as u64));
        group.throughput(Throughput::Bytes(rows as u64 * 8));
        group.bench_function(format!("{rows} rows"), |bench| {
            bench.iter_custom(|times| {
                let mut spent = Duration::ZERO;
                for _ in 0..times {
                    let message = say::released(say::partial(0, rows));
                    let begun = Instant::now();
                    runtime.block_on(async {
                        bob.send(message);
                        while !matches!(alice.recv().await, Event::Message(_)) {}
                    });
                    spent += begun.elapsed();
                }
                spent
            });
        });
    }
}

criterion_group!(benches, transfer);
criterion_main!(benches);
