//! A coordinator of one worker that writes down all that it sees: kinds, numbers and sizes of messages, and how the worker ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::star::message::{Body, Kind, ToHub, ToSite};
use fedreg_party::config::LedgerTerms;
use fedreg_party::drive::Patience;
use fedreg_party::worker::batches::Arrival;
use fedreg_party::worker::config::{Config, Overrides};
use fedreg_party::worker::{join, privacy};
use fedreg_proto::files::TlsTerms;
use fedreg_proto::files::read_study;
use fedreg_proto::register::StatusReply;
use fedreg_proto::star::{BodyLimits, Caller, Heard, serve};
use fedreg_proto::tls::{Identity, Listener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::sites::{PATIENCE, World};

/// Points of the study's grid.
const WIDTH: usize = 8;
const RUN: RunId = RunId([7; 16]);

/// All that can be seen of a worker from outside.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) said: Vec<String>,
    pub(crate) code: i32,
}

impl Seen {
    /// Of a worker that says this, and ends as the coordinator bids it.
    pub(crate) fn of(said: Vec<String>) -> Seen {
        Seen { said, code: i32::from(Exit::Interrupted.code()) }
    }
}

/// The coordinator, before its worker has come.
pub(crate) struct Office {
    pub(crate) address: String,
    runtime: Runtime,
    callers: mpsc::Receiver<Caller>,
    _stop: oneshot::Sender<()>,
}

impl Office {
    pub(crate) fn open(world: &World) -> Office {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let file = |name: &str| world.path(name);
        let files = TlsTerms {
            authority: file("authority.pem"),
            certificate: file("coordinator.pem"),
            key: file("coordinator.key"),
        };
        let identity = Identity::load(&files).unwrap();
        let (found, callers) = mpsc::channel(8);
        let (stop, stopped) = oneshot::channel::<()>();
        let address = runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0", &identity, &["north".to_string()]).await.unwrap();
            let address = listener.address().to_string();
            let digest = Digest::of(b"");
            let status = StatusReply {
                study: String::new(),
                digest,
                run: Some(RUN),
                parties: Vec::new(),
                exit: None,
                quorum: None,
                ends: None,
            };
            let limits = BodyLimits { counts: 1, values: 1 << 16 };
            tokio::spawn(async move {
                let (_said, shown) = watch::channel(status);
                let (wishes, _closings) = mpsc::channel(1);
                serve(listener, found, wishes, shown, limits, Box::pin(async { drop(stopped.await) })).await
            });
            address
        });
        Office { address, runtime, callers, _stop: stop }
    }

    /// Listens to the worker until it has gone; `worker` ends with its code.
    pub(crate) fn watch(self, worker: impl Future<Output = i32>) -> Seen {
        let Office { runtime, callers, .. } = &mut { self };
        let (ended, gone) = oneshot::channel();
        let worker = async {
            let code = worker.await;
            let _ = ended.send(());
            code
        };
        let (said, code) = runtime.block_on(async { tokio::join!(listen(callers, gone), worker) });
        Seen { said, code }
    }
}

async fn listen(callers: &mut mpsc::Receiver<Caller>, gone: oneshot::Receiver<()>) -> Vec<String> {
    let caller = tokio::select! {
        biased;
        caller = callers.recv() => caller.unwrap(),
        _ = gone => return vec!["never came".to_string()],
    };
    let Caller { mut hear, say, .. } = caller;
    let (mut said, mut taken) = (Vec::new(), 0);
    let weights = |taken| ToSite::Broadcast {
        number: taken,
        body: Body { kind: Kind::Weights, counts: vec![taken], values: vec![0.0; WIDTH] },
    };
    while let Some(heard) = timeout(PATIENCE, hear.recv()).await.unwrap() {
        let Heard::Message(message) = heard else {
            said.push("a fault".to_string());
            continue;
        };
        let (word, answers) = match message {
            ToHub::Join(_) => {
                let welcome = ToSite::Welcome { differing: Vec::new(), run: RUN, next: 0, held: false };
                ("joined".to_string(), vec![welcome, weights(0)])
            }
            ToHub::Contribution(piece) => {
                let Body { kind, counts, values } = piece.body;
                assert_eq!(kind, Kind::Updates);
                taken += counts[0];
                let word = format!("contribution {}: {} records, {} values", piece.number, counts[0], values.len());
                (word, vec![ToSite::Acknowledged { next: piece.number + 1 }, weights(taken)])
            }
            ToHub::Complete { contributions, .. } => {
                let over = ToSite::Refused { exit: Exit::Interrupted, sentence: "over".to_string() };
                (format!("complete: {contributions}"), vec![over])
            }
            ToHub::Leave { exit, sentence } => (format!("left ({}): {sentence}", exit.code()), Vec::new()),
            ToHub::Ready => ("ready".to_string(), Vec::new()),
            ToHub::Done => ("done".to_string(), Vec::new()),
        };
        said.push(word);
        for answer in answers {
            let _ = say.send(answer).await;
        }
    }
    said
}

/// Registers a private worker with a ledger of its own; its file is `tag.toml`.
pub(crate) fn private_worker(world: &World, data: &Path, tag: &str) -> Config {
    let file = |name: &str| world.path(name);
    let folder = |name: &str| Some(world.path(&format!("{tag}-{name}")));
    // An anchor folder of its own as well: the ledgers of one folder know each other's files.
    let text =
        format!("[privacy]\nledger = \"{tag}-ledger\"\nanchor = \"{tag}-anchors/anchor\"\ndata_set = \"records\"\n");
    world.write(&format!("{tag}.toml"), &text);
    let overrides = Overrides {
        config: Some(file(&format!("{tag}.toml"))),
        study: Some(file("study.toml")),
        data: Some(data.to_path_buf()),
        coordinator: Some("127.0.0.1:9".to_string()),
        authority: Some(file("authority.pem")),
        certificate: Some(file("north.pem")),
        key: Some(file("north.key")),
        state: folder("state"),
        wait: Some(20),
        ..Overrides::default()
    };
    let mut config = Config::load(&overrides).unwrap();
    config.privacy = LedgerTerms { ledger: folder("ledger"), anchor: folder("anchors/anchor"), ..config.privacy };
    privacy::init(&config).unwrap();
    config
}

/// What is seen of a worker in this process; with `idle` it follows the file.
pub(crate) fn seen_of(world: &World, data: &Path, tag: &str, idle: Option<Duration>) -> Seen {
    let mut config = private_worker(world, data, tag);
    let office = Office::open(world);
    config.coordinator.clone_from(&office.address);
    let job = join::Job {
        study: Arc::new(read_study(&config.study).unwrap().sites().unwrap()),
        patience: Patience { wait: config.patience(), ..Patience::default() },
        config,
        out: None,
        call: String::new(),
        arrival: Arrival { follow: idle.is_some(), idle, stop: Arc::<AtomicBool>::default() },
        threads: 1,
    };
    office.watch(async move {
        let (_stop, stopped) = mpsc::channel(1);
        match join::join(&job, stopped).await {
            Ok((_, exit)) => i32::from(exit.code()),
            Err(failure) => i32::from(failure.exit().code()),
        }
    })
}
