//! The lines between the parties of a match and the coordinator that merges their lists, over mutual TLS on loopback.

use crate::office::Office;
use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::secure::group::Tag;
use fedreg_common::secure::merging::{List, Merged, PART_POSITIONS, PART_TAGS};
use fedreg_common::session::{Abort, PeerFault, Request};
use fedreg_proto::coordinator::ServeError;
use fedreg_proto::link::{Notice, OpenError};
use fedreg_proto::merge::{Announced, Answer, Asked, Caller, Merging, answer_frame, answered, asked, open};
use fedreg_proto::port::{self, Beside};
use fedreg_proto::register::StatusReply;
use fedreg_proto::star::Heard;
use fedreg_proto::tls::Listener;
use fedreg_proto::wire::{self, merge_frame, merge_request};
use proptest::prelude::*;
use prost::Message as _;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
const STUDY: Digest = Digest([5; 32]);
const RUN: RunId = RunId([6; 16]);

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened")
}

fn tag(number: u32) -> Tag {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&number.to_be_bytes());
    tag
}

fn list(tags: u32) -> List {
    List::new((0..tags).map(|number| (tag(number), number)).collect()).unwrap()
}

struct Desk {
    office: Office,
    address: String,
    merging: mpsc::Receiver<Caller>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn desk(merges: bool) -> Desk {
    let office = Office::open("office");
    let expected = ["alice", "bob"].map(str::to_owned);
    let listener = Listener::bind("127.0.0.1:0", &office.party("coordinator"), &expected).await.unwrap();
    let address = listener.address().to_string();
    let (found, _) = mpsc::channel(8);
    let (calls, merging) = mpsc::channel(8);
    let status = StatusReply {
        study: "heart".to_owned(),
        digest: STUDY,
        run: None,
        parties: vec![],
        exit: None,
        quorum: None,
        ends: None,
    };
    let (_, shown) = watch::channel(status);
    let beside = Beside { dealing: None, merging: merges.then_some(calls) };
    let served = tokio::spawn(port::serve(listener, found, beside, shown, std::future::pending::<()>()));
    Desk { office, address, merging, served }
}

impl Desk {
    async fn call(&mut self, name: &str) -> (Merging, Caller) {
        let line = soon(open(&self.address, &self.office.party(name), "coordinator", STUDY, RUN)).await.unwrap();
        (line, soon(self.merging.recv()).await.unwrap())
    }
}

fn said(sequence: u64, merged: Merged) -> Message {
    let header = Header { study: STUDY, run: RUN, sender: Role::Coordinator, sequence };
    Message { header, body: Body::Merged(merged) }
}

fn lost(abort: Option<Result<Message, Abort>>, address: &str) {
    let Some(Err(Abort::Unreachable(sentence))) = abort else { panic!("{abort:?}") };
    assert!(sentence.starts_with(&format!("the line to the coordinator at {address} is lost: ")), "{sentence}");
    assert!(sentence.ends_with("start it again on both sides"), "{sentence}");
}

#[tokio::test]
async fn a_list_reaches_the_coordinator_in_parts_and_its_answers_are_messages_in_their_order() {
    let mut desk = desk(true).await;
    let (mut line, mut caller) = desk.call("bob").await;
    assert_eq!(caller.name, "bob");
    let tags = 5 * PART_TAGS as u32 + 7;
    line.requests.send(Request::List { pass: 1, list: list(tags) }).unwrap();
    line.requests.send(Request::Positions { pass: 1 }).unwrap();
    let announced = Announced { study: STUDY, run: RUN, pass: 1, tags: u64::from(tags) };
    assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::List(announced))));
    let mut came = Vec::new();
    while came.len() < tags as usize {
        let Some(Heard::Message(Asked::Part(part))) = soon(caller.hear.recv()).await else { panic!("no part") };
        assert!(part.len() <= PART_TAGS);
        came.extend(part);
    }
    assert_eq!(came, (0..tags).map(tag).collect::<Vec<Tag>>());
    assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::Positions(1))));
    let positions = |first: usize, many: usize| Merged::Positions {
        pass: 1,
        first: first as u64,
        positions: (first as u32..(first + many) as u32).collect(),
    };
    let all = [
        Merged::Passed { pass: 1, entries: 1 << 40 },
        Merged::Count { pass: 1, count: PART_POSITIONS as u64 + 3 },
        positions(0, PART_POSITIONS),
        positions(PART_POSITIONS, 3),
    ];
    for (sequence, merged) in all.into_iter().enumerate() {
        caller.say.send(Answer::Merged(merged.clone())).await.ok().unwrap();
        assert!(soon(line.heard.recv()).await.unwrap().unwrap() == said(sequence as u64, merged));
    }
    // All has come that was asked for: a line that ends then is missed once more is asked for.
    drop(caller);
    desk.served.abort();
    assert!(timeout(Duration::from_millis(200), line.heard.recv()).await.is_err(), "nothing is missing");
    line.requests.send(Request::List { pass: 2, list: list(1) }).unwrap();
    lost(soon(line.heard.recv()).await, &desk.address);
}

#[tokio::test]
async fn a_line_that_ends_before_everything_asked_for_has_come_ends_the_run() {
    let mut desk = desk(true).await;
    let count = || Answer::Merged(Merged::Count { pass: 0, count: 3 });
    let part = || Answer::Merged(Merged::Positions { pass: 0, first: 0, positions: vec![1, 2] });
    let answers: [(bool, Vec<Answer>); 3] = [(false, vec![]), (true, vec![count()]), (true, vec![count(), part()])];
    for (asks, answers) in answers {
        let (mut line, mut caller) = desk.call("alice").await;
        line.requests.send(Request::List { pass: 0, list: list(9) }).unwrap();
        if asks {
            line.requests.send(Request::Positions { pass: 0 }).unwrap();
        }
        for _ in 0..2 + usize::from(asks) {
            assert!(soon(caller.hear.recv()).await.is_some());
        }
        for answer in answers {
            caller.say.send(answer).await.ok().unwrap();
            assert!(soon(line.heard.recv()).await.unwrap().is_ok());
        }
        drop(caller);
        lost(soon(line.heard.recv()).await, &desk.address);
        assert!(soon(line.heard.recv()).await.is_none());
    }
}

#[tokio::test]
async fn a_coordinator_that_ends_the_run_is_quoted_and_a_party_that_leaves_is_gone() {
    let mut desk = desk(true).await;
    let (mut line, mut caller) = desk.call("bob").await;
    let notice = Notice { exit: Exit::Peer, sentence: "alice sent tags that do not ascend strictly".to_owned() };
    caller.say.send(Answer::Notice(notice.clone())).await.ok().unwrap();
    let remote = Abort::Remote { from: Role::Coordinator, exit: notice.exit, sentence: notice.sentence };
    assert!(soon(line.heard.recv()).await == Some(Err(remote)));
    drop(line);
    soon(caller.say.closed()).await;
    assert_eq!(soon(caller.hear.recv()).await, None);
}

#[tokio::test]
async fn strangers_and_coordinators_that_merge_nothing_refuse() {
    let merging = desk(true).await;
    let carol = merging.office.party("carol");
    let error = soon(open(&merging.address, &carol, "coordinator", STUDY, RUN)).await.err();
    assert!(matches!(error, Some(OpenError::Refused(_))), "{error:?}");
    let other = desk(false).await;
    let error = soon(open(&other.address, &other.office.party("bob"), "coordinator", STUDY, RUN)).await.err();
    assert!(matches!(error, Some(OpenError::Refused(_))), "{error:?}");
}

fn chunk(bytes: usize) -> wire::MergeRequest {
    wire::MergeRequest { kind: Some(merge_request::Kind::Chunk(vec![1; bytes].into())) }
}

fn part(bytes: usize) -> wire::MergeFrame {
    let positions = vec![1; bytes].into();
    wire::MergeFrame { kind: Some(merge_frame::Kind::Positions(wire::MergePart { pass: 0, first: 0, positions })) }
}

#[test]
fn requests_and_frames_that_hold_no_whole_entries_are_refused() {
    let list = |study: usize, run: usize| {
        let list = wire::MergeList { study: vec![1; study].into(), run: vec![1; run].into(), pass: 0, tags: u64::MAX };
        wire::MergeRequest { kind: Some(merge_request::Kind::List(list)) }
    };
    assert!(asked(list(32, 16)).is_ok());
    let refused = [
        wire::MergeRequest::default(),
        list(31, 16),
        list(32, 17),
        chunk(0),
        chunk(15),
        chunk(17),
        chunk((256 << 10) + 16),
    ];
    for request in refused {
        assert!(matches!(asked(request), Err(PeerFault::Garbage(_))));
    }
    assert!(asked(chunk(256 << 10)).is_ok() && answered(part(256 << 10)).is_ok());
    for frame in [wire::MergeFrame::default(), part(0), part(3), part((256 << 10) + 4)] {
        assert!(matches!(answered(frame), Err(PeerFault::Garbage(_))));
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = asked(wire::MergeRequest::decode(bytes.clone()).unwrap_or_default());
        if let Ok(answer) = answered(wire::MergeFrame::decode(bytes).unwrap_or_default()) {
            let again = answered(answer_frame(answer.clone())).unwrap();
            prop_assert_eq!(again, answer);
        }
    }
}
