//! The lines between the parties of a match and the coordinator that merges their lists, over mutual TLS on loopback.

use crate::office::Office;
use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::secure::group::Tag;
use fedreg_common::secure::merging::{Known, List, Merged, PART_POSITIONS, PART_TAGS};
use fedreg_common::session::{Abort, PeerFault, Request};
use fedreg_proto::coordinator::ServeError;
use fedreg_proto::link::Notice;
use fedreg_proto::merge::{Announced, Answer, Asked, Caller, Merging, Place, answer_frame, answered, asked, open};
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
    _served: JoinHandle<Result<(), ServeError>>,
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
    let served = tokio::spawn(port::serve(listener, found, beside, shown, Box::pin(std::future::pending())));
    Desk { office, address, merging, _served: served }
}

impl Desk {
    fn open(&self, name: &str) -> Merging {
        open(Place {
            address: self.address.clone(),
            coordinator: "coordinator".to_owned(),
            identity: self.office.party(name),
            study: STUDY,
            run: RUN,
        })
    }

    /// The coordinator's end of a line, and the list that came on it.
    async fn list(&mut self, pass: u32, tags: u32) -> Caller {
        let mut caller = soon(self.merging.recv()).await.unwrap();
        let announced = Announced { study: STUDY, run: RUN, pass, tags: u64::from(tags) };
        assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::List(announced))));
        let mut came = Vec::new();
        while came.len() < tags as usize {
            let Some(Heard::Message(Asked::Part(part))) = soon(caller.hear.recv()).await else { panic!("no part") };
            assert!(part.len() <= PART_TAGS);
            came.extend(part);
        }
        assert_eq!(came, (0..tags).map(tag).collect::<Vec<Tag>>());
        caller
    }
}

fn said(sequence: u64, merged: Merged) -> Message {
    let header = Header { study: STUDY, run: RUN, sender: Role::Coordinator, sequence };
    Message { header, body: Body::Merged(merged) }
}

/// All that the coordinator says of pass 1.
fn answers() -> [Merged; 4] {
    let positions = |first: usize, many: usize| Merged::Positions {
        pass: 1,
        first: first as u64,
        positions: (first as u32..(first + many) as u32).collect(),
    };
    [
        Merged::Passed { pass: 1, entries: 1 << 40 },
        Merged::Count { pass: 1, count: PART_POSITIONS as u64 + 3 },
        positions(0, PART_POSITIONS),
        positions(PART_POSITIONS, 3),
    ]
}

fn ask(line: &Merging, pass: u32, tags: u32, known: Known) {
    line.requests.send(Request::List { pass, list: list(tags), known }).unwrap();
}

async fn tell(caller: &Caller, answers: &[Merged]) {
    for merged in answers {
        caller.say.send(Answer::Merged(merged.clone())).await.ok().unwrap();
    }
}

async fn hears(line: &mut Merging, sequence: u64, merged: &Merged) {
    assert!(soon(line.heard.recv()).await.unwrap().unwrap() == said(sequence, merged.clone()));
}

#[tokio::test]
async fn a_list_reaches_the_coordinator_in_parts_and_its_answers_are_messages_in_their_order() {
    let mut desk = desk(true).await;
    let mut line = desk.open("bob");
    let tags = 5 * PART_TAGS as u32 + 7;
    ask(&line, 1, tags, Known::default());
    line.requests.send(Request::Positions { pass: 1 }).unwrap();
    let mut caller = desk.list(1, tags).await;
    assert_eq!(caller.name, "bob");
    assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::Positions(1))));
    for (sequence, merged) in answers().iter().enumerate() {
        tell(&caller, std::slice::from_ref(merged)).await;
        hears(&mut line, sequence as u64, merged).await;
    }
    // The next list has a line of its own.
    ask(&line, 2, 3, Known::default());
    soon(caller.say.closed()).await;
    let caller = desk.list(2, 3).await;
    let count = Merged::Count { pass: 2, count: 1 };
    tell(&caller, std::slice::from_ref(&count)).await;
    hears(&mut line, 4, &count).await;
    drop(line);
    soon(caller.say.closed()).await;
}

#[tokio::test]
async fn a_line_that_is_lost_is_opened_again_with_the_same_list_and_every_answer_is_heard_once() {
    let mut desk = desk(true).await;
    let answers = answers();
    for before in 0..=answers.len() {
        let mut line = desk.open("alice");
        ask(&line, 1, 9, Known::default());
        let wanted = before > 1;
        if wanted {
            line.requests.send(Request::Positions { pass: 1 }).unwrap();
        }
        let mut caller = desk.list(1, 9).await;
        if wanted {
            assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::Positions(1))));
        }
        tell(&caller, &answers[..before]).await;
        for (sequence, merged) in answers[..before].iter().enumerate() {
            hears(&mut line, sequence as u64, merged).await;
        }
        drop(caller);
        let mut caller = desk.list(1, 9).await;
        if !wanted {
            line.requests.send(Request::Positions { pass: 1 }).unwrap();
        }
        assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(Asked::Positions(1))));
        // It begins again, and reads less at a time.
        tell(&caller, &[Merged::Passed { pass: 1, entries: 7 }]).await;
        if before == 0 {
            hears(&mut line, 0, &Merged::Passed { pass: 1, entries: 7 }).await;
        }
        tell(&caller, &answers).await;
        let first = if before == 0 { 1 } else { 0 };
        for (sequence, merged) in answers.iter().enumerate().skip(before) {
            hears(&mut line, first + sequence as u64, merged).await;
        }
        assert!(line.heard.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_party_that_was_started_again_hears_what_it_lacks_under_the_numbers_that_follow() {
    let mut desk = desk(true).await;
    let mut line = desk.open("alice");
    let count = PART_POSITIONS as u64;
    ask(&line, 1, 9, Known { messages: 7, passed: 1 << 40, count: Some(count + 3), positions: count });
    line.requests.send(Request::Positions { pass: 1 }).unwrap();
    let caller = desk.list(1, 9).await;
    tell(&caller, &answers()).await;
    hears(&mut line, 7, &answers()[3]).await;
    assert!(line.heard.try_recv().is_err());
}

#[tokio::test]
async fn a_coordinator_that_says_another_count_the_second_time_ends_the_run() {
    let mut desk = desk(true).await;
    let mut line = desk.open("alice");
    ask(&line, 0, 9, Known::default());
    let caller = desk.list(0, 9).await;
    tell(&caller, &[Merged::Count { pass: 0, count: 3 }]).await;
    hears(&mut line, 0, &Merged::Count { pass: 0, count: 3 }).await;
    drop(caller);
    let caller = desk.list(0, 9).await;
    tell(&caller, &[Merged::Count { pass: 0, count: 4 }]).await;
    let abort = soon(line.heard.recv()).await.unwrap().err().unwrap();
    assert!(matches!(abort, Abort::Peer { peer: Role::Coordinator, fault: PeerFault::Match { .. } }), "{abort}");
    assert!(soon(line.heard.recv()).await.is_none());
}

#[tokio::test]
async fn a_coordinator_that_ends_the_run_is_quoted_and_a_party_that_leaves_is_gone() {
    let mut desk = desk(true).await;
    let mut line = desk.open("bob");
    ask(&line, 0, 3, Known::default());
    let mut caller = desk.list(0, 3).await;
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
    for (desk, name) in [(desk(true).await, "carol"), (desk(false).await, "bob")] {
        let mut line = desk.open(name);
        ask(&line, 0, 3, Known::default());
        let abort = soon(line.heard.recv()).await.unwrap().err().unwrap();
        assert!(matches!(abort, Abort::Refused(_)), "{abort}");
    }
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
