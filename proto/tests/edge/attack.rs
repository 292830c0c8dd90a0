//! Attacks on a process of its own, longer than the other tests: callers that starve handshakes, calls that take memory.
//!
//! ```sh
//! cargo test --release -p fedreg-proto --test edge attack -- --ignored --nocapture --test-threads 1
//! ```

use crate::office::Office;
use fedreg_common::id::{Digest, Role};
use fedreg_proto::files::TlsTerms;
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Event, Link};
use fedreg_proto::register::StatusReply;
use fedreg_proto::tls::{self, Identity, Listener};
use fedreg_proto::wire::coordinator_client::CoordinatorClient;
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::vertical_link_client::VerticalLinkClient;
use fedreg_proto::wire::{self, Frame, HealthReply, KeyDigest};
use fedreg_proto::{coordinator, star};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

const PATIENCE: Duration = Duration::from_secs(30);
/// What a peer may take beyond what the process holds anyway.
const MOST: u64 = 150 << 20;

/// A party, a coordinator and a hub in a process of their own.
struct Target {
    office: Office,
    child: Child,
    party: SocketAddr,
    coordinator: SocketAddr,
    hub: SocketAddr,
}

impl Target {
    fn start() -> Target {
        let office = Office::open("office");
        for name in ["alice", "bob", "coordinator"] {
            office.party(name);
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["attack::the_target", "--exact", "--ignored", "--nocapture"])
            .env("FEDREG_TARGET", office.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let addresses = loop {
            match std::fs::read_to_string(office.path("addresses")) {
                Ok(text) if text.ends_with('\n') => break text,
                _ => assert!(begun.elapsed() < PATIENCE && child.try_wait().unwrap().is_none(), "no target"),
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut addresses = addresses.lines().map(|line| line.parse().unwrap());
        let mut next = || addresses.next().unwrap();
        Target { party: next(), coordinator: next(), hub: next(), office, child }
    }

    /// The largest part of memory that the process has held so far.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    }

    async fn channel(&self, address: SocketAddr) -> tonic::transport::Channel {
        let name = if address == self.party { "alice" } else { "coordinator" };
        tls::dial(&identity(&self.office.path(""), "bob"), &address.to_string(), name, PATIENCE).await.unwrap().channel
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn identity(folder: &std::path::Path, name: &str) -> Identity {
    let file = |file: String| folder.join(file);
    let files = TlsTerms {
        authority: file("authority.pem".to_owned()),
        certificate: file(format!("{name}.pem")),
        key: file(format!("{name}.key")),
    };
    Identity::load(&files).unwrap()
}

/// The process that is attacked; no test by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "serves the attacks of this file"]
async fn the_target() {
    let Some(folder) = std::env::var_os("FEDREG_TARGET").map(PathBuf::from) else { return };
    let expected = ["bob".to_owned()];
    let mut addresses = String::new();
    let mut listeners = Vec::new();
    for name in ["alice", "coordinator", "coordinator"] {
        let listener = Listener::bind("127.0.0.1:0", &identity(&folder, name), &expected).await.unwrap();
        addresses.push_str(&format!("{}\n", listener.address()));
        listeners.push(listener);
    }
    let (hub, desk) = (listeners.pop().unwrap(), listeners.pop().unwrap());
    let mut link =
        GrpcLink::listen(listeners.pop().unwrap(), PeerName { role: Role::Bob, certificate: "bob".to_owned() });
    link.set_limits(Limits { values: 1 << 16, matrix: 0 });
    tokio::spawn(async move {
        loop {
            link.open().await.unwrap();
            while !matches!(link.recv().await, Event::Lost(_) | Event::Fault(_)) {}
        }
    });
    let status = StatusReply {
        study: "x".to_owned(),
        digest: Digest::of(b"x"),
        run: None,
        parties: vec![],
        exit: None,
        quorum: None,
        ends: None,
    };
    let (_status, shown) = watch::channel(status);
    let (callers, mut calls) = mpsc::channel(16);
    tokio::spawn(coordinator::serve(desk, callers, shown.clone(), Box::pin(std::future::pending())));
    tokio::spawn(async move {
        while let Some(mut caller) = calls.recv().await {
            tokio::spawn(async move { while caller.hear.recv().await.is_some() {} });
        }
    });
    let (callers, mut calls) = mpsc::channel(16);
    let limits = star::BodyLimits { counts: 10, values: 10_000 };
    let (wishes, _closings) = mpsc::channel(1);
    tokio::spawn(star::serve(hub, callers, wishes, shown, limits, Box::pin(std::future::pending())));
    tokio::spawn(async move {
        while let Some(mut caller) = calls.recv().await {
            tokio::spawn(async move { while caller.hear.recv().await.is_some() {} });
        }
    });
    let mut file = std::fs::File::create(folder.join("addresses")).unwrap();
    file.write_all(addresses.as_bytes()).unwrap();
    // Until anyone who started this goes.
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await.unwrap().unwrap();
}

/// How long the right party needs to get in.
async fn seconds_to_get_in(target: &Target, address: SocketAddr) -> f64 {
    let begun = Instant::now();
    drop(target.channel(address).await);
    begun.elapsed().as_secs_f64()
}

/// The beginning of a handshake, as a client of TLS makes it.
fn hello() -> Vec<u8> {
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, crypto::ring, version::TLS13};
    let config = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut client = ClientConnection::new(std::sync::Arc::new(config), "alice".try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a minute and a half of connections"]
async fn callers_without_certificates_delay_nobody() {
    let target = Target::start();
    let hello = hello();
    for address in [target.party, target.coordinator, target.hub] {
        for first in [&b""[..], &hello[..1], &hello[..hello.len() - 1], &hello] {
            let mut crowd = Vec::new();
            for _ in 0..500 {
                let mut socket = TcpStream::connect(address).await.unwrap();
                let _ = socket.write_all(first).await;
                crowd.push(socket);
            }
            let seconds = seconds_to_get_in(&target, address).await;
            println!("500 callers that say {} bytes: {seconds:.3} s", first.len());
            assert!(seconds < 2.0);
        }
    }
    // 2,664 in 45 seconds, of which none leaves.
    for first in [&b""[..], &hello] {
        let (begun, mut crowd, mut slowest) = (Instant::now(), Vec::new(), 0.0_f64);
        for number in 0..2_664_u32 {
            let due = begun + Duration::from_secs(45) * number / 2_664;
            tokio::time::sleep(due.saturating_duration_since(Instant::now())).await;
            let mut socket = TcpStream::connect(target.party).await.unwrap();
            let _ = socket.write_all(first).await;
            crowd.push(socket);
            if number % 100 == 99 {
                slowest = slowest.max(seconds_to_get_in(&target, target.party).await);
            }
        }
        println!("2664 callers that say {} bytes in 45 s: {slowest:.3} s at most", first.len());
        assert!(slowest < 2.0);
    }
}

/// Opens calls with `open`, 200 over each of 8 connections, for a while; what the target's memory grew by.
async fn growth<F>(target: &Target, address: SocketAddr, mut open: impl FnMut(tonic::transport::Channel) -> F) -> u64
where
    F: Future<Output = ()> + Send + 'static,
{
    let before = target.peak();
    let mut calls = JoinSet::new();
    let mut channels = Vec::new();
    for _ in 0..8 {
        channels.push(target.channel(address).await);
    }
    for _ in 0..200 {
        channels.iter().for_each(|channel| drop(calls.spawn(open(channel.clone()))));
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    calls.shutdown().await;
    // The system counts it with a little slack.
    target.peak().saturating_sub(before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "three minutes of calls"]
async fn calls_of_a_party_take_little_memory() {
    let target = Target::start();
    let mut taken = Vec::new();
    for (who, address) in [("party", target.party), ("coordinator", target.coordinator), ("hub", target.hub)] {
        // Questions that are never quite complete.
        let health = growth(&target, address, |channel| async move {
            let mut client = tonic::client::Grpc::new(channel);
            client.ready().await.unwrap();
            let path = PathAndQuery::from_static("/fedreg.v1.Health/Check");
            let part = |_| KeyDigest { name: "x".repeat(4_190_000), digest: vec![].into() };
            let parts = tokio_stream::iter((0..1).map(part)).chain(tokio_stream::pending());
            let codec = ProstCodec::<KeyDigest, HealthReply>::default();
            let _ = client.streaming(tonic::Request::new(parts), path, codec).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "questions", health.await));
        // Lines with events as large as they may be, of as many parts as there is room for.
        let joins = growth(&target, address, |channel| async move {
            let join = || wire::PartyEvent {
                event: Some(wire::party_event::Event::Join(wire::Join {
                    role: 2,
                    version: 1,
                    keys: vec![KeyDigest { name: String::new(), digest: vec![].into() }; 250_000],
                    run: None,
                    instance: None,
                    role_name: String::new(),
                })),
            };
            let events = tokio_stream::iter((0..1000).map(move |_| join()));
            let _inbound = CoordinatorClient::new(channel).join(events).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "joins", joins.await));
        let long = growth(&target, address, |channel| async move {
            let name = "x".repeat(1000);
            let digest = vec![7; 32];
            let keys = vec![KeyDigest { name, digest: digest.into() }; 480];
            let join = wire::Join { role: 2, version: 1, keys, run: None, instance: None, role_name: String::new() };
            let events = tokio_stream::iter(
                (0..1000).map(move |_| wire::PartyEvent { event: Some(wire::party_event::Event::Join(join.clone())) }),
            );
            let _inbound = CoordinatorClient::new(channel).join(events).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "long joins", long.await));
        let frames = growth(&target, address, |channel| async move {
            let frame = |_| Frame { kind: Some(Kind::Chunk(vec![1; 256 << 10].into())) };
            let _inbound = VerticalLinkClient::new(channel).exchange(tokio_stream::iter((0..1000).map(frame))).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "frames", frames.await));
        // Many small frames, which cost more than their bytes.
        let small = growth(&target, address, |channel| async move {
            let frame = |_| Frame { kind: Some(Kind::Heartbeat(wire::Nothing {})) };
            let frames = tokio_stream::iter((0..1_000_000).map(frame));
            let _inbound = VerticalLinkClient::new(channel).exchange(frames).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "small frames", small.await));
        let bodies = growth(&target, address, |channel| async move {
            let body = wire::Body { kind: 1, counts: vec![1; 10], values: vec![0; 80_000].into() };
            let contribution =
                wire::Contribution { study: vec![0; 32].into(), run: vec![0; 16].into(), number: 1, body: Some(body) };
            let kind = wire::to_hub::Kind::Contribution(contribution);
            let messages = tokio_stream::iter((0..5000).map(move |_| wire::ToHub { kind: Some(kind.clone()) }));
            let _inbound = wire::star_client::StarClient::new(channel).take(messages).await;
            std::future::pending::<()>().await;
        });
        taken.push((who, "contributions", bodies.await));
    }
    for (who, what, bytes) in &taken {
        println!("{what} at the {who}: {:.0} MB more", *bytes as f64 / 1e6);
    }
    let peak = target.peak();
    println!("peak {:.0} MB", peak as f64 / 1e6);
    assert!(taken.iter().map(|(_, _, bytes)| bytes).sum::<u64>() <= MOST, "too much memory");
}
