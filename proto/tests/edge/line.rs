//! The line between Alice and Bob over mutual TLS on loopback.

use crate::office::Office;
use crate::say::{message, partial, released, same, say};
use fedreg_common::exit::Exit;
use fedreg_common::id::Role;
use fedreg_common::methods::vertical::message::{Body, Message};
use fedreg_common::session::PeerFault;
use fedreg_proto::convert::frames;
use fedreg_proto::limits::Limits;
use fedreg_proto::line::{GrpcLink, PeerName};
use fedreg_proto::link::{Event, Link, Notice, OpenError};
use fedreg_proto::tls::{self, Identity, Listener};
use fedreg_proto::wire::frame::Kind;
use fedreg_proto::wire::{self, Frame};
use prost::Message as _;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
/// More than the 16 MiB that HTTP/2 lets a sender run ahead of a reader.
const LONG: usize = 5_000_000;
const LIMITS: Limits = Limits { values: LONG as u64, matrix: 100 };

struct Ends {
    office: Office,
    alice: GrpcLink,
    address: SocketAddr,
    bob: Identity,
}

fn name(role: Role) -> PeerName {
    PeerName { role, certificate: role.name().to_owned() }
}

/// Alice listens for Bob; heartbeats are so rare that they never come.
async fn ends() -> Ends {
    let office = Office::open("office");
    let (alice, bob) = (office.party("alice"), office.party("bob"));
    let listener = Listener::bind("127.0.0.1:0", &alice, &["bob".to_owned()]).await.unwrap();
    let address = listener.address();
    let mut alice = GrpcLink::listen(listener, name(Role::Bob));
    alice.set_limits(LIMITS);
    alice.set_heartbeat(PATIENCE);
    Ends { office, alice, address, bob }
}

impl Ends {
    fn dialler(&self, address: SocketAddr) -> GrpcLink {
        let mut bob = GrpcLink::dial(address.to_string(), &self.bob, name(Role::Alice));
        bob.set_limits(LIMITS);
        bob.set_heartbeat(PATIENCE);
        bob
    }
}

async fn pair() -> (GrpcLink, GrpcLink) {
    let ends = ends().await;
    let mut bob = ends.dialler(ends.address);
    let mut alice = ends.alice;
    open_both(&mut alice, &mut bob).await;
    (alice, bob)
}

async fn open_both(alice: &mut GrpcLink, bob: &mut GrpcLink) {
    let (opened, dialled) = tokio::join!(soon(alice.open()), soon(bob.open()));
    opened.unwrap();
    dialled.unwrap();
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened")
}

/// The next event that is not a sign of life.
async fn next(link: &mut GrpcLink) -> Event<Message> {
    loop {
        match soon(link.recv()).await {
            Event::Alive | Event::Part => {}
            event => return event,
        }
    }
}

async fn next_message(link: &mut GrpcLink) -> Message {
    match next(link).await {
        Event::Message(message) => message,
        event => panic!("{event:?}"),
    }
}

async fn lost(link: &mut GrpcLink) -> String {
    match next(link).await {
        Event::Lost(reason) => reason,
        event => panic!("{event:?}"),
    }
}

async fn faulted(link: &mut GrpcLink) -> PeerFault {
    match next(link).await {
        Event::Fault(fault) => fault,
        event => panic!("{event:?}"),
    }
}

fn notice() -> Notice {
    Notice { exit: Exit::Interrupted, sentence: "interrupted by the user of bob".to_owned() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_go_both_ways_and_bytes_are_counted_as_written() {
    let (mut alice, mut bob) = pair().await;
    let expected = |message: Message| -> usize { frames(released(message)).map(|frame| frame.encoded_len()).sum() };
    let mut bytes = 0;
    for (sequence, rows) in [(0, 0), (1, 3), (2, 32_768), (3, 100_001)] {
        let (from, to) = match sequence % 2 {
            0 => (&mut bob, &mut alice),
            _ => (&mut alice, &mut bob),
        };
        from.send(released(partial(sequence, rows)));
        same(&next_message(to).await, &partial(sequence, rows));
        if sequence % 2 == 0 {
            bytes += expected(partial(sequence, rows));
        }
    }
    bob.bye();
    assert!(matches!(next(&mut alice).await, Event::Bye));
    soon(async { tokio::join!(alice.close(), bob.close()) }).await;
    assert_eq!(bob.bytes_sent(), bytes as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_messages_that_cross_do_not_block_each_other() {
    let (mut alice, mut bob) = pair().await;
    alice.send(released(partial(1, LONG)));
    bob.send(released(partial(0, LONG)));
    // Bob does not read while Alice does.
    same(&next_message(&mut alice).await, &partial(0, LONG));
    same(&next_message(&mut bob).await, &partial(1, LONG));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_for_a_peer_who_does_not_read_waits_once_however_often_it_is_said() {
    let (mut alice, mut bob) = pair().await;
    for _ in 0..50 {
        alice.send(released(partial(1, LONG)));
    }
    alice.send(say(3, Body::Go));
    same(&next_message(&mut bob).await, &partial(1, LONG));
    same(&next_message(&mut bob).await, &message(3, Body::Go));
    // Once it is written it may be asked for again.
    alice.send(released(partial(1, 3)));
    same(&next_message(&mut bob).await, &partial(1, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_can_be_interrupted_in_the_middle_of_a_message() {
    let (mut alice, mut bob) = pair().await;
    bob.send(released(partial(0, LONG)));
    bob.send(say(2, Body::Go));
    let mut cancelled = 0;
    let came = loop {
        tokio::select! {
            biased;
            event = alice.recv() => match event {
                Event::Message(message) => break message,
                Event::Alive => {}
                // Heard and asked again in the middle of it, too.
                Event::Part => cancelled += 1,
                event => panic!("{event:?}"),
            },
            // Dropped whenever it has to wait, so that every part of the message is waited for anew.
            () = std::future::ready(()) => cancelled += 1,
        }
        tokio::task::yield_now().await;
    };
    assert!(cancelled > 0, "the message came at once");
    same(&came, &partial(0, LONG));
    same(&next_message(&mut alice).await, &message(2, Body::Go));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_and_a_goodbye_come_behind_everything_handed_over() {
    for listener_ends in [true, false] {
        let (mut alice, mut bob) = pair().await;
        let (from, to) = if listener_ends { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
        from.send(released(partial(0, LONG)));
        from.send(say(2, Body::Go));
        from.bye();
        from.abort(notice());
        let read = async {
            same(&next_message(to).await, &partial(0, LONG));
            same(&next_message(to).await, &message(2, Body::Go));
            assert!(matches!(next(to).await, Event::Bye));
            let Event::Abort(came) = next(to).await else { panic!("no abort") };
            assert_eq!(came, notice());
            to.close().await;
        };
        soon(async { tokio::join!(from.close(), read) }).await;
        assert!(lost(from).await.ends_with("is closed"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_party_that_says_nothing_is_heard_to_live() {
    let ends = ends().await;
    let mut bob = ends.dialler(ends.address);
    let mut alice = ends.alice;
    alice.set_heartbeat(Duration::from_millis(20));
    bob.set_heartbeat(Duration::from_millis(20));
    open_both(&mut alice, &mut bob).await;
    for _ in 0..3 {
        assert!(matches!(soon(alice.recv()).await, Event::Alive));
        assert!(matches!(soon(bob.recv()).await, Event::Alive));
    }
    assert_eq!((alice.bytes_sent(), bob.bytes_sent()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_comes_early_is_held_alive_and_unread() {
    let mut ends = ends().await;
    ends.alice.set_heartbeat(Duration::from_millis(20));
    let mut bob = ends.dialler(ends.address);
    soon(bob.open()).await.unwrap();
    bob.send(released(partial(0, 100)));
    assert!(matches!(soon(bob.recv()).await, Event::Alive));
    // Limits that are known only now apply to what came before.
    ends.alice.set_limits(Limits { values: 99, matrix: 0 });
    soon(ends.alice.open()).await.unwrap();
    assert_eq!(
        faulted(&mut ends.alice).await,
        PeerFault::Length { what: "partial predictions", came: 100, expected: 99 }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_connection_of_the_same_peer_replaces_the_old_one() {
    let ends = ends().await;
    let (mut old, mut new) = (ends.dialler(ends.address), ends.dialler(ends.address));
    let mut alice = ends.alice;
    open_both(&mut alice, &mut old).await;
    old.send(say(0, Body::Go));
    same(&next_message(&mut alice).await, &message(0, Body::Go));
    soon(new.open()).await.unwrap();
    new.send(say(2, Body::Go));
    assert_eq!(lost(&mut alice).await, "bob opened a new connection");
    assert_eq!(lost(&mut alice).await, "bob opened a new connection");
    // What is said on a lost line is dropped, not kept for the next.
    alice.send(say(99, Body::Go));
    soon(alice.open()).await.unwrap();
    same(&next_message(&mut alice).await, &message(2, Body::Go));
    lost(&mut old).await;
    alice.send(say(3, Body::Go));
    same(&next_message(&mut new).await, &message(3, Body::Go));
}

/// Passes bytes on, except while it is cut.
struct Wire {
    address: SocketAddr,
    cut: watch::Sender<bool>,
}

impl Wire {
    async fn to(target: SocketAddr) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, severed) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = TcpStream::connect(target).await.unwrap();
                let mut severed = severed.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = severed.wait_for(|cut| *cut) => {}
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                    }
                });
            }
        });
        Wire { address, cut }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_a_message_is_lost_at_both_ends_and_opens_again() {
    let ends = ends().await;
    let wire = Wire::to(ends.address).await;
    let mut bob = ends.dialler(wire.address);
    let mut alice = ends.alice;
    open_both(&mut alice, &mut bob).await;
    bob.send(say(0, Body::Go));
    same(&next_message(&mut alice).await, &message(0, Body::Go));
    // Alice reads nothing more, so at most a window of this has passed.
    bob.send(released(partial(2, LONG)));
    wire.cut.send_replace(true);
    lost(&mut alice).await;
    lost(&mut bob).await;
    assert!(matches!(soon(bob.open()).await, Err(OpenError::Unreachable(_))));
    wire.cut.send_replace(false);
    // What is said on a lost line is not kept for the next.
    bob.send(say(99, Body::Go));
    open_both(&mut alice, &mut bob).await;
    bob.send(released(partial(2, LONG)));
    same(&next_message(&mut alice).await, &partial(2, LONG));
    alice.send(say(3, Body::Go));
    same(&next_message(&mut bob).await, &message(3, Body::Go));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_that_goes_does_not_leave_a_waiting_line_alive() {
    let ends = ends().await;
    let mut bob = ends.dialler(ends.address);
    soon(bob.open()).await.unwrap();
    drop(ends.alice);
    lost(&mut bob).await;
}

/// A driver runs on any thread.
#[tokio::test]
async fn the_futures_of_a_link_may_move_between_threads() {
    fn movable<T: Send>(value: T) -> T {
        value
    }
    let ends = ends().await;
    let mut link = movable(ends.alice);
    drop(movable(link.open()));
    drop(movable(link.recv()));
    movable(link.close()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_ends_without_a_word_is_lost() {
    for listener_ends in [true, false] {
        let (alice, bob) = pair().await;
        let (gone, mut left) = if listener_ends { (alice, bob) } else { (bob, alice) };
        drop(gone);
        lost(&mut left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_worth_another_try_and_a_refusal_is_not() {
    let mut ends = ends().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut early = ends.dialler(free);
    assert!(matches!(soon(early.open()).await, Err(OpenError::Unreachable(_))));
    let carol = ends.office.party("carol");
    let mut stranger = GrpcLink::dial(ends.address.to_string(), &carol, name(Role::Alice));
    assert!(matches!(soon(stranger.open()).await, Err(OpenError::Refused(_))));
    // The listener goes on waiting for the right one.
    let mut bob = ends.dialler(ends.address);
    open_both(&mut ends.alice, &mut bob).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_the_peer_can_be_given_up_and_begun_again() {
    let mut ends = ends().await;
    assert!(timeout(Duration::from_millis(10), ends.alice.open()).await.is_err());
    let mut bob = ends.dialler(ends.address);
    open_both(&mut ends.alice, &mut bob).await;
    bob.send(say(0, Body::Go));
    same(&next_message(&mut ends.alice).await, &message(0, Body::Go));
}

/// A peer with the right certificate that writes what it likes.
async fn raw<T: prost::Message + 'static>(ends: &Ends) -> (mpsc::Sender<T>, Streaming<Frame>) {
    let connection = tls::dial(&ends.bob, &ends.address.to_string(), "alice", PATIENCE).await.unwrap();
    let (out, outbound) = mpsc::channel(8);
    let mut client = tonic::client::Grpc::new(connection.channel);
    client.ready().await.unwrap();
    let request = tonic::Request::new(ReceiverStream::new(outbound));
    let path = PathAndQuery::from_static("/fedreg.v1.VerticalLink/Exchange");
    let codec = ProstCodec::<T, Frame>::default();
    let inbound = client.streaming(request, path, codec).await.unwrap().into_inner();
    (out, inbound)
}

/// Reads until the other side aborts.
async fn told(inbound: &mut Streaming<Frame>) -> String {
    loop {
        match soon(inbound.message()).await.unwrap().expect("told nothing").kind {
            Some(Kind::Abort(notice)) => return notice.sentence,
            Some(Kind::Heartbeat(_)) => {}
            kind => panic!("{kind:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_sends_garbage_is_a_fault_and_is_told_so() {
    let mut ends = ends().await;
    // Bytes of another message: they do not decode as a frame.
    let (out, mut inbound) = raw::<wire::KeyDigest>(&ends).await;
    soon(ends.alice.open()).await.unwrap();
    let bytes = wire::KeyDigest { name: "not a frame at all".to_owned(), digest: vec![9; 40].into() };
    out.send(bytes).await.unwrap();
    let fault = faulted(&mut ends.alice).await;
    assert!(matches!(fault, PeerFault::Garbage(_)), "{fault}");
    ends.alice.abort(Notice { exit: Exit::Peer, sentence: fault.to_string() });
    let told = async {
        let sentence = told(&mut inbound).await;
        drop(out);
        assert_eq!(inbound.message().await.unwrap(), None);
        sentence
    };
    let (sentence, ()) = soon(async { tokio::join!(told, ends.alice.close()) }).await;
    assert_eq!(sentence, fault.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_beyond_any_limit_is_a_fault_before_it_is_read() {
    let mut ends = ends().await;
    let (out, mut inbound) = raw::<Frame>(&ends).await;
    soon(ends.alice.open()).await.unwrap();
    let kind = Some(Kind::Chunk(vec![0; 2 << 20].into()));
    out.send(Frame { kind }).await.unwrap();
    let fault = faulted(&mut ends.alice).await;
    assert!(matches!(fault, PeerFault::Garbage(_)), "{fault}");
    // The line no longer reads, but it still tells.
    ends.alice.abort(notice());
    let (sentence, ()) = soon(async { tokio::join!(told(&mut inbound), ends.alice.close()) }).await;
    assert_eq!(sentence, notice().sentence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_ends_inside_a_message_is_lost_and_one_with_a_goodbye_there_is_a_fault() {
    let mut ends = ends().await;
    let parts = || frames(released(partial(0, 40_000))).take(2);
    let (out, _inbound) = raw::<Frame>(&ends).await;
    soon(ends.alice.open()).await.unwrap();
    for frame in parts() {
        out.send(frame).await.unwrap();
    }
    drop(out);
    lost(&mut ends.alice).await;

    let (out, _inbound) = raw::<Frame>(&ends).await;
    soon(ends.alice.open()).await.unwrap();
    let bye = Frame { kind: Some(Kind::Bye(wire::Nothing {})) };
    for frame in parts().chain([bye]) {
        out.send(frame).await.unwrap();
    }
    assert_eq!(
        faulted(&mut ends.alice).await,
        PeerFault::Length { what: "partial predictions", came: 32_768, expected: 40_000 }
    );
}
