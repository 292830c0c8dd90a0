//! The lines between sites and the hub over mutual TLS on loopback, and what hostile ones bring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, RunId};
use fedreg_common::privacy::release::{Declaration, Disclosures, Released};
use fedreg_common::session::PeerFault;
use fedreg_common::star::message::{Body, Contribution, Join, Kind, ToHub, ToSite};
use fedreg_proto::convert::star::{SiteDecoder, site_frames, to_hub};
use fedreg_proto::coordinator::{ServeError, join, status};
use fedreg_proto::link::OpenError;
use fedreg_proto::register::{Quorum, StatusReply};
use fedreg_proto::star::{BodyLimits, Caller, Closing, Heard, body_from_bytes, body_to_bytes, dial, serve};
use fedreg_proto::tls::{self, Listener};
use fedreg_proto::wire;
use fedreg_proto::wire::star_client::StarClient;
use proptest::prelude::*;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::office::Office;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
const LIMITS: BodyLimits = BodyLimits { counts: 3, values: 10 };

struct Desk {
    office: Office,
    address: String,
    callers: mpsc::Receiver<Caller>,
    closings: mpsc::Receiver<Closing>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn open() -> Desk {
    let office = Office::open("office");
    let expected = ["north", "south"].map(str::to_owned);
    let listener = Listener::bind("127.0.0.1:0", &office.party("hub"), &expected).await.unwrap();
    let address = listener.address().to_string();
    let (found, callers) = mpsc::channel(8);
    let status = StatusReply {
        study: "sites".to_owned(),
        digest: Digest::of(b"study"),
        run: Some(RunId([1; 16])),
        parties: vec![],
        exit: None,
        quorum: Some(Quorum { needed: 2, came: 1 }),
        ends: None,
    };
    let (_, shown) = watch::channel(status);
    let (stop, stopped) = oneshot::channel::<()>();
    let (wishes, closings) = mpsc::channel(1);
    let served = tokio::spawn(serve(listener, found, wishes, shown, LIMITS, Box::pin(async { drop(stopped.await) })));
    Desk { office, address, callers, closings, stop, served }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened")
}

fn body(values: usize) -> Body {
    let numbers = [1.5, -0.0, f64::MIN_POSITIVE, 1e300];
    Body {
        kind: Kind::EstimateWithGram,
        counts: vec![u64::MAX, 0, 1],
        values: (0..values).map(|at| numbers[at % 4]).collect(),
    }
}

fn released(body: Body) -> Released<Body> {
    Disclosures::new([Declaration::BatchEstimate, Declaration::BatchGram]).release(body).unwrap()
}

fn contribution(body: Body) -> ToHub<Released<Body>> {
    let (study, run) = (Digest([2; 32]), RunId([3; 16]));
    ToHub::Contribution(Contribution { study, run, number: 7, body: released(body) })
}

fn to_hub_messages() -> Vec<ToHub<Released<Body>>> {
    let keys = vec![("model.features".to_owned(), Digest::of(b"x"))];
    vec![
        ToHub::Join(Join { version: 1, instance: [4; 16], keys }),
        contribution(body(10)),
        contribution(Body { kind: Kind::Unfit, counts: vec![3], values: vec![] }),
        ToHub::Complete { run: RunId([3; 16]), contributions: 2 },
        ToHub::Leave { exit: Exit::Data, sentence: "the data were refused".to_owned() },
        ToHub::Ready,
        ToHub::Done,
    ]
}

fn to_site_messages() -> Vec<ToSite> {
    vec![
        ToSite::Welcome { differing: vec![], run: RunId([3; 16]), next: 5, held: true },
        ToSite::Welcome { differing: vec!["sites.batch_rows".to_owned()], run: RunId([3; 16]), next: 0, held: false },
        ToSite::Acknowledged { next: (1 << 48) - 1 },
        ToSite::Rejected { number: 4, reason: "expected finite numbers".to_owned() },
        ToSite::Broadcast { number: 2, body: body(3) },
        ToSite::Outcome { exit: Exit::NotConverged, report: "{}".to_owned() },
        // Longer than a frame.
        ToSite::Outcome { exit: Exit::Done, report: "ä".repeat(400_000) },
        ToSite::Outcome { exit: Exit::Done, report: String::new() },
        ToSite::Refused { exit: Exit::Refused, sentence: "another process".to_owned() },
    ]
}

#[tokio::test]
async fn what_is_said_on_a_line_arrives_in_order_with_the_same_bits() {
    let mut desk = open().await;
    let sent = Arc::new(AtomicU64::new(0));
    let north = desk.office.party("north");
    let mut line = soon(dial(&desk.address, &north, "hub", LIMITS, &sent)).await.unwrap();
    let mut caller = soon(desk.callers.recv()).await.unwrap();
    assert_eq!(caller.name, "north");
    for message in to_hub_messages() {
        line.say.send(message.clone()).await.unwrap();
        assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(message.into())));
    }
    assert!(sent.load(Ordering::Relaxed) > 100);
    for message in to_site_messages() {
        caller.say.send(message.clone()).await.unwrap();
        assert_eq!(soon(line.hear.recv()).await, Some(Heard::Message(message)));
    }
    drop(line.say);
    assert_eq!(soon(caller.hear.recv()).await, None);
    drop(caller.say);
    assert_eq!(soon(line.hear.recv()).await, None);
    desk.stop.send(()).unwrap();
    soon(desk.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_longer_than_the_study_allows_is_a_fault_that_closes_its_line_and_no_other() {
    let mut desk = open().await;
    let sent = Arc::default();
    let (north, south) = (desk.office.party("north"), desk.office.party("south"));
    let good = soon(dial(&desk.address, &south, "hub", LIMITS, &sent)).await.unwrap();
    let mut healthy = soon(desk.callers.recv()).await.unwrap();
    // A little too long, and so long that not even its frame is taken.
    for (values, says) in [(11, "11 values of numbers, expected 10"), (1 << 20, "not a message")] {
        let line = soon(dial(&desk.address, &north, "hub", LIMITS, &sent)).await.unwrap();
        let mut caller = soon(desk.callers.recv()).await.unwrap();
        line.say.send(contribution(body(values))).await.unwrap();
        match soon(caller.hear.recv()).await {
            Some(Heard::Fault(fault)) => assert!(fault.to_string().contains(says), "{fault}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(soon(caller.hear.recv()).await, None);
    }
    good.say.send(ToHub::Done).await.unwrap();
    assert_eq!(soon(healthy.hear.recv()).await, Some(Heard::Message(ToHub::Done)));
}

#[tokio::test]
async fn bytes_that_are_no_message_are_a_fault() {
    let mut desk = open().await;
    let connection = soon(tls::dial(&desk.office.party("north"), &desk.address, "hub", PATIENCE)).await.unwrap();
    let mut client = StarClient::new(connection.channel);
    let messages = tokio_stream::iter([wire::ToHub { kind: None }]);
    let _answers = soon(client.take(messages)).await.unwrap();
    let mut caller = soon(desk.callers.recv()).await.unwrap();
    assert!(matches!(soon(caller.hear.recv()).await, Some(Heard::Fault(PeerFault::Garbage(_)))));
}

#[tokio::test]
async fn parties_of_another_kind_of_study_are_told_so_and_status_is_the_same_for_both() {
    let desk = open().await;
    let north = desk.office.party("north");
    match soon(join(&desk.address, &north, "hub")).await {
        Err(OpenError::Refused(sentence)) => assert!(sentence.contains("a study with workers"), "{sentence}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(soon(status(&desk.address, &north, "hub")).await.unwrap().study, "sites");
    let stranger = desk.office.party("stranger");
    let refused = soon(dial(&desk.address, &stranger, "hub", LIMITS, &Arc::default())).await;
    assert!(matches!(refused, Err(OpenError::Refused(_))), "{refused:?}");
}

#[test]
fn kept_bodies_come_back_with_the_same_bits_and_damaged_ones_are_refused() {
    let bytes = body_to_bytes(&body(10));
    assert_eq!(body_from_bytes(&bytes, LIMITS).unwrap().digest(), body(10).digest());
    assert!(body_from_bytes(&body_to_bytes(&body(11)), LIMITS).is_err());
    assert!(body_from_bytes(&bytes[..bytes.len() - 3], LIMITS).is_err());
    let odd = wire::Body { kind: 1, counts: vec![], values: Bytes::from_static(b"123") };
    assert!(
        body_from_bytes(&prost::Message::encode_to_vec(&odd), LIMITS)
            .unwrap_err()
            .to_string()
            .contains("multiple of 8")
    );
}

#[test]
fn nobody_can_make_a_site_report_success_or_print_control_characters() {
    let refused = wire::Refused { exit: 0, sentence: "\u{1b}]0;x\u{7}".repeat(1000) };
    let frame = wire::ToSite { kind: Some(wire::to_site::Kind::Refused(refused)) };
    match SiteDecoder::new(LIMITS).push(frame).unwrap() {
        Some(ToSite::Refused { exit, sentence }) => {
            assert_eq!(exit, Exit::Peer);
            assert!(!sentence.chars().any(char::is_control) && sentence.chars().count() <= 500);
        }
        other => panic!("{other:?}"),
    }
    // Nor make a site count beyond what numbers hold.
    let beyond = wire::ToSite { kind: Some(wire::to_site::Kind::Acknowledged(u64::MAX)) };
    assert!(SiteDecoder::new(LIMITS).push(beyond).is_err());
    // An outcome that never ends is given up.
    let part = || wire::OutcomePart { exit: 0, report: Bytes::from(vec![b'x'; 16 << 20]), last: false };
    let mut decoder = SiteDecoder::new(LIMITS);
    let mut push = || decoder.push(wire::ToSite { kind: Some(wire::to_site::Kind::Outcome(part())) });
    assert!((0..4).all(|_| push().is_ok()) && push().is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(message) = <wire::ToHub as prost::Message>::decode(&bytes[..]) {
            let _ = to_hub(message, LIMITS);
        }
        if let Ok(message) = <wire::ToSite as prost::Message>::decode(&bytes[..]) {
            let _ = SiteDecoder::new(LIMITS).push(message);
        }
        let _ = body_from_bytes(&bytes, LIMITS);
    }

    #[test]
    fn frames_put_together_again_are_the_message(at in 0usize..9) {
        let message = to_site_messages().swap_remove(at);
        let mut decoder = SiteDecoder::new(LIMITS);
        let mut got = None;
        for frame in site_frames(message.clone()) {
            prop_assert!(got.is_none());
            got = decoder.push(frame).unwrap();
        }
        prop_assert_eq!(got, Some(message));
    }
}

#[test]
fn counts_that_no_run_reaches_are_refused_on_the_line() {
    use wire::to_hub::Kind;
    let complete = |contributions| {
        let complete = wire::Complete { run: vec![3; 16].into(), contributions };
        to_hub(wire::ToHub { kind: Some(Kind::Complete(complete)) }, LIMITS)
    };
    let contribution = |number| {
        let body = wire::Body { kind: 3, counts: vec![1], values: Bytes::new() };
        let (study, run) = (vec![2; 32].into(), vec![3; 16].into());
        let contribution = wire::Contribution { study, run, number, body: Some(body) };
        to_hub(wire::ToHub { kind: Some(Kind::Contribution(contribution)) }, LIMITS)
    };
    assert!(complete(1000).is_ok() && contribution(1000).is_ok());
    for number in [1 << 48, 1 << 63, u64::MAX] {
        assert!(matches!(complete(number), Err(PeerFault::Garbage(_))), "{number}");
        assert!(matches!(contribution(number), Err(PeerFault::Garbage(_))), "{number}");
    }
}

#[test]
fn nobody_exits_with_a_bug_of_the_hubs_or_with_its_success_where_there_is_no_result() {
    let take = |kind| SiteDecoder::new(LIMITS).push(wire::ToSite { kind: Some(kind) });
    for (said, taken) in
        [(1, Exit::Peer), (0, Exit::Peer), (3, Exit::Peer), (69, Exit::Unreachable), (130, Exit::Interrupted)]
    {
        let refused = wire::to_site::Kind::Refused(wire::Refused { exit: said, sentence: "no".to_owned() });
        assert_eq!(take(refused), Ok(Some(ToSite::Refused { exit: taken, sentence: "no".to_owned() })));
    }
    for (said, sound) in [(0, true), (3, true), (1, false), (69, false), (300, false)] {
        let outcome = wire::to_site::Kind::Outcome(wire::OutcomePart { exit: said, report: Bytes::new(), last: true });
        assert_eq!(take(outcome).is_ok(), sound, "{said}");
    }
}

#[tokio::test]
async fn a_wish_to_close_the_run_reaches_the_hub_with_the_name_of_who_has_it() {
    let Desk { office, address, mut closings, stop: _stop, callers: _callers, .. } = open().await;
    let north = office.party("north");
    let asked =
        tokio::spawn(async move { fedreg_proto::coordinator::finish(&address, &north, "hub", Digest([7; 32])).await });
    let Closing { name, study, answer } = soon(closings.recv()).await.unwrap();
    assert_eq!((name.as_str(), study), ("north", Digest([7; 32])));
    answer.send((false, "not you\u{1b}".to_owned())).unwrap();
    let (closed, sentence) = soon(asked).await.unwrap().unwrap();
    assert!(!closed && !sentence.contains('\u{1b}'), "{sentence}");
}
