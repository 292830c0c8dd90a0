//! The lines between parties and the coordinator over mutual TLS on loopback.

use crate::office::Office;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_proto::coordinator::{Caller, ServeError, join, serve, status};
use fedreg_proto::link::{Notice, OpenError};
use fedreg_proto::register::{CoordinatorEvent, PartyEvent, PeerState, Progress, StatusReply};
use fedreg_proto::tls::Listener;
use fedreg_proto::{convert, wire};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);

struct Desk {
    office: Office,
    address: String,
    callers: mpsc::Receiver<Caller>,
    status: watch::Sender<StatusReply>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn open() -> Desk {
    let office = Office::open("office");
    let expected = ["alice", "bob"].map(str::to_owned);
    let listener = Listener::bind("127.0.0.1:0", &office.party("coordinator"), &expected).await.unwrap();
    let address = listener.address().to_string();
    let (found, callers) = mpsc::channel(8);
    let (status, shown) = watch::channel(nothing_yet());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, found, shown, Box::pin(async { drop(stopped.await) })));
    Desk { office, address, callers, status, stop, served }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened")
}

fn nothing_yet() -> StatusReply {
    StatusReply {
        study: "heart".to_owned(),
        digest: Digest::of(b"study"),
        run: None,
        parties: vec![],
        exit: None,
        quorum: None,
        ends: None,
    }
}

fn notice() -> Notice {
    Notice { exit: Exit::Data, sentence: "the data of bob were refused; the reason is shown there only".to_owned() }
}

fn progress() -> Progress {
    Progress { phase: "rounds".to_owned(), round: 7, certificate: Some(3.5e-9), bytes_sent: u64::MAX }
}

fn party_events() -> Vec<PartyEvent> {
    vec![
        PartyEvent::Join {
            role: Role::Bob,
            version: 1,
            keys: vec![("model.family".to_owned(), Digest::of(b"x"))],
            run: None,
            instance: None,
        },
        PartyEvent::Join {
            role: Role::Alice,
            version: 2,
            keys: vec![],
            run: Some(RunId([3; 16])),
            instance: Some([4; 16]),
        },
        PartyEvent::Ready,
        PartyEvent::Progress(progress()),
        PartyEvent::Progress(Progress::default()),
        PartyEvent::Abort(notice()),
        PartyEvent::Done(Exit::NotConverged),
        PartyEvent::Done(Exit::Done),
    ]
}

fn coordinator_events() -> Vec<CoordinatorEvent> {
    let states = [PeerState::Absent, PeerState::Joined, PeerState::Ready, PeerState::Lost, PeerState::Done];
    let mut events = vec![
        CoordinatorEvent::Welcome { differing: vec![] },
        CoordinatorEvent::Welcome { differing: vec!["model.family".to_owned()] },
        CoordinatorEvent::Start { run: RunId([9; 16]) },
        CoordinatorEvent::Abort { from: Role::Bob, notice: notice() },
        CoordinatorEvent::Ended,
    ];
    let peer = |state| CoordinatorEvent::Peer { role: Role::Alice, state };
    events.extend(states.map(peer));
    events
}

#[tokio::test]
async fn every_event_arrives_in_order_and_the_name_is_the_certificates() {
    let mut office = open().await;
    let bob = office.office.party("bob");
    let mut joined = soon(join(&office.address, &bob, "coordinator")).await.unwrap();
    let mut caller = soon(office.callers.recv()).await.unwrap();
    assert_eq!(caller.name, "bob");
    for event in party_events() {
        joined.say.send(event.clone()).await.unwrap();
        assert_eq!(soon(caller.hear.recv()).await, Some(event));
    }
    for event in coordinator_events() {
        caller.say.send(event.clone()).await.unwrap();
        assert_eq!(soon(joined.hear.recv()).await, Some(event));
    }
    // The party leaves in good order.
    joined.say.send(PartyEvent::Done(Exit::Done)).await.unwrap();
    drop(joined.say);
    assert_eq!(soon(caller.hear.recv()).await, Some(PartyEvent::Done(Exit::Done)));
    assert_eq!(soon(caller.hear.recv()).await, None);
    caller.say.send(CoordinatorEvent::Ended).await.unwrap();
    drop(caller.say);
    assert_eq!(soon(joined.hear.recv()).await, Some(CoordinatorEvent::Ended));
    assert_eq!(soon(joined.hear.recv()).await, None);
    let _ = office.stop.send(());
    soon(office.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_party_that_no_longer_listens_is_still_heard() {
    let mut office = open().await;
    let alice = office.office.party("alice");
    let joined = soon(join(&office.address, &alice, "coordinator")).await.unwrap();
    let mut caller = soon(office.callers.recv()).await.unwrap();
    drop(joined.hear);
    for event in party_events() {
        joined.say.send(event.clone()).await.unwrap();
        let _ = caller.say.send(CoordinatorEvent::Ended).await;
        assert_eq!(soon(caller.hear.recv()).await, Some(event));
    }
}

#[tokio::test]
async fn what_was_said_before_the_shutdown_is_written_and_the_server_does_not_wait_for_ever() {
    let mut office = open().await;
    let bob = office.office.party("bob");
    let mut joined = soon(join(&office.address, &bob, "coordinator")).await.unwrap();
    let caller = soon(office.callers.recv()).await.unwrap();
    for event in coordinator_events() {
        caller.say.send(event).await.unwrap();
    }
    office.stop.send(()).unwrap();
    // Neither the party nor the application lets go of the line.
    for event in coordinator_events() {
        assert_eq!(soon(joined.hear.recv()).await, Some(event));
    }
    assert_eq!(soon(joined.hear.recv()).await, None);
    drop(joined.say);
    soon(office.served).await.unwrap().unwrap();
    assert!(caller.say.send(CoordinatorEvent::Ended).await.is_err());
}

#[tokio::test]
async fn a_coordinator_that_vanishes_is_noticed() {
    let mut office = open().await;
    let bob = office.office.party("bob");
    let mut joined = soon(join(&office.address, &bob, "coordinator")).await.unwrap();
    let caller = soon(office.callers.recv()).await.unwrap();
    drop(caller);
    assert_eq!(soon(joined.hear.recv()).await, None);
    office.served.abort();
    let _ = office.served.await;
    let again = soon(join(&office.address, &bob, "coordinator")).await;
    assert!(matches!(again, Err(OpenError::Unreachable(_))), "{again:?}");
}

#[tokio::test]
async fn the_status_is_what_the_coordinator_last_showed() {
    let office = open().await;
    let alice = office.office.party("alice");
    assert_eq!(soon(status(&office.address, &alice, "coordinator")).await, Ok(nothing_yet()));
    let later = StatusReply {
        run: Some(RunId([1; 16])),
        parties: vec![
            ("alice".to_owned(), PeerState::Ready, progress()),
            ("bob".to_owned(), PeerState::Lost, Progress::default()),
        ],
        exit: Some(Exit::Interrupted),
        ..nothing_yet()
    };
    office.status.send_replace(later.clone());
    assert_eq!(soon(status(&office.address, &alice, "coordinator")).await, Ok(later));
}

#[tokio::test]
async fn strangers_are_refused_and_need_not_try_again() {
    let office = open().await;
    let carol = office.office.party("carol");
    for error in [
        soon(join(&office.address, &carol, "coordinator")).await.err(),
        soon(status(&office.address, &carol, "coordinator")).await.err(),
        soon(join(&office.address, &office.office.party("bob"), "somebody")).await.err(),
    ] {
        assert!(matches!(error, Some(OpenError::Refused(_))), "{error:?}");
    }
}

#[test]
fn malformed_events_are_refused() {
    use wire::{coordinator_event, party_event};
    let party = |event| convert::party_event(wire::PartyEvent { event });
    let join = |role, digest: usize, run: Option<usize>| {
        party(Some(party_event::Event::Join(wire::Join {
            role,
            version: 1,
            keys: vec![wire::KeyDigest { name: "a".to_owned(), digest: vec![0; digest].into() }],
            run: run.map(|bytes| vec![0; bytes].into()),
            instance: None,
            role_name: String::new(),
        })))
    };
    assert!(join(1, 32, Some(16)).is_ok());
    assert!(join(0, 32, None).is_err());
    assert!(join(1, 31, None).is_err());
    assert!(join(1, 32, Some(15)).is_err());
    assert!(party(None).is_err());
    let progress = |certificate| {
        party(Some(party_event::Event::Progress(wire::Progress {
            phase: "\u{1b}".repeat(500),
            round: 1,
            certificate,
            bytes_sent: 0,
        })))
    };
    assert!(progress(Some(f64::NAN)).is_err());
    let Ok(PartyEvent::Progress(tamed)) = progress(None) else { panic!("refused") };
    assert!(tamed.phase.chars().count() <= 100 && !tamed.phase.contains('\u{1b}'));
    let told = |event| convert::coordinator_event(wire::CoordinatorEvent { event });
    assert!(told(None).is_err());
    assert!(told(Some(coordinator_event::Event::Start(wire::Begin { run: vec![].into() }))).is_err());
    let news = wire::PeerNews { role: 2, state: 0, role_name: String::new() };
    assert!(told(Some(coordinator_event::Event::Peer(news))).is_err());
    let abort = wire::RelayedAbort { from: 2, notice: None, from_name: String::new() };
    assert!(told(Some(coordinator_event::Event::Abort(abort))).is_err());
    assert!(convert::status_reply(wire::StatusReply::default()).is_err());
}

#[test]
fn events_of_a_party_by_another_name_arrive_with_it() {
    let carol: Role = "carol".parse().unwrap();
    for role in [Role::Alice, carol] {
        let join = PartyEvent::Join { role, version: 1, keys: vec![], run: Some(RunId([3; 16])), instance: None };
        assert_eq!(convert::party_event((&join).into()).unwrap(), join);
        let notice = Notice { exit: Exit::Data, sentence: "no".to_owned() };
        for event in [
            CoordinatorEvent::Peer { role, state: PeerState::Lost },
            CoordinatorEvent::Abort { from: role, notice: notice.clone() },
        ] {
            assert_eq!(convert::coordinator_event((&event).into()).unwrap(), event);
        }
    }
    let named = |role, name: &str| {
        let news = wire::PeerNews { role, state: 1, role_name: name.to_owned() };
        let event = Some(wire::coordinator_event::Event::Peer(news));
        convert::coordinator_event(wire::CoordinatorEvent { event })
    };
    assert!(named(5, "carol").is_ok() && named(1, "").is_ok());
    assert!(named(5, "").is_err() && named(5, "Carol").is_err() && named(1, "carol").is_err());
}
