//! The lines between parties and the dealer, over mutual TLS on loopback, and what a dealer that errs brings.

use crate::office::Office;
use crate::sealed::some;
use bytes::Bytes;
use fedreg_common::exit::Exit;
use fedreg_common::id::{Digest, Header, Role, RunId};
use fedreg_common::methods::vertical::message::{Body, Dealt, Message};
use fedreg_common::secure::product::{RowShape, SeveralShape, Shape, Side, VectorShape, WeightedShape};
use fedreg_common::secure::ring::Width;
use fedreg_common::session::{Abort, Order, PeerFault};
use fedreg_proto::coordinator::{self, ServeError, join};
use fedreg_proto::dealer::{Answer, AnswerDecoder, Caller, Dealing, Ordered, answer_frames, open, ordered};
use fedreg_proto::limits::CHUNK_BYTES;
use fedreg_proto::link::{Notice, OpenError};
use fedreg_proto::port::{self, Beside};
use fedreg_proto::register::StatusReply;
use fedreg_proto::star::Heard;
use fedreg_proto::tls::{self, Listener};
use fedreg_proto::wire::dealer_frame::Kind;
use fedreg_proto::wire::dealer_server::{Dealer, DealerServer};
use fedreg_proto::wire::{self, DealerFrame, DealerOrder};
use proptest::prelude::*;
use prost::Message as _;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
const STUDY: Digest = Digest([5; 32]);
const RUN: RunId = RunId([6; 16]);
const SEED: [u8; 32] = [9; 32];

async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("nothing happened")
}

fn table(left: usize, right: usize) -> Order {
    Order::Table(Shape { width: Width::Two, bits: 44, rows: 100, left, right })
}

fn correction(elements: usize) -> Answer {
    Answer::Dealt(Dealt::Correction(some(Width::Two, elements)))
}

fn seed() -> Answer {
    Answer::Dealt(Dealt::Seed(SEED))
}

fn notice() -> Notice {
    Notice { exit: Exit::Unreachable, sentence: "the dealer's line to alice is lost".to_owned() }
}

/// What a decoder makes of some frames, after some orders.
fn decode(orders: &[Order], frames: impl IntoIterator<Item = DealerFrame>) -> Result<Vec<Answer>, PeerFault> {
    let mut decoder = AnswerDecoder::default();
    orders.iter().for_each(|order| decoder.order(*order));
    let mut answers = Vec::new();
    for frame in frames {
        answers.extend(decoder.push(DealerFrame::decode(Bytes::from(frame.encode_to_vec())).unwrap())?);
    }
    Ok(answers)
}

fn fault(orders: &[Order], frames: Vec<DealerFrame>) -> String {
    match decode(orders, frames) {
        Err(fault) => fault.to_string(),
        Ok(_) => panic!("taken"),
    }
}

fn frames(answers: impl IntoIterator<Item = Answer>) -> Vec<DealerFrame> {
    answers.into_iter().flat_map(answer_frames).collect()
}

fn frame(kind: Kind) -> DealerFrame {
    DealerFrame { kind: Some(kind) }
}

#[test]
fn an_order_survives_the_wire_and_a_malformed_one_is_refused() {
    let order = Ordered { study: STUDY, run: RUN, order: table(3, usize::MAX) };
    let form = DealerOrder::decode(Bytes::from(DealerOrder::from(&order).encode_to_vec())).unwrap();
    assert_eq!(ordered(form.clone()), Ok(order));
    let with = |change: fn(&mut DealerOrder)| {
        let mut form = form.clone();
        change(&mut form);
        ordered(form).unwrap_err().to_string()
    };
    assert!(with(|form| form.study = Bytes::new()).contains("0 bytes, expected 32"));
    assert!(with(|form| form.run = Bytes::from(vec![0; 17])).contains("17 bytes, expected 16"));
    assert!(with(|form| form.order = None).contains("no known kind"));
    let words = |form: &mut DealerOrder| {
        let Some(wire::dealer_order::Order::Table(table)) = &mut form.order else { panic!("no table") };
        table.words = 3;
    };
    assert!(with(words).contains("elements of 3 words"));
}

/// All that stands in a shape. Every field is named: what is added has to be counted here too.
fn sizes(form: wire::dealer_order::Order) -> Vec<u64> {
    use wire::dealer_order::Order as Form;
    match form {
        Form::Table(shape) | Form::Vector(shape) | Form::Weighted(shape) => {
            let wire::TableShape { words, bits, rows, left, right } = shape;
            vec![words.into(), bits.into(), rows, left, right]
        }
        Form::Rows(wire::RowsShape { words, bits, rows, terms, left }) => {
            vec![words.into(), bits.into(), rows, terms, left.into()]
        }
        Form::Several(wire::SeveralShape { words, bits, rows, columns, place }) => {
            [vec![words.into(), bits.into(), rows], columns, vec![place.into()]].concat()
        }
    }
}

#[test]
fn an_order_of_several_survives_the_wire_and_says_the_columns_of_all_and_the_own_place() {
    let shape = SeveralShape::new(Width::Two, 44, 100, &[3, 1, 70]).unwrap();
    let order = Ordered { study: STUDY, run: RUN, order: Order::Several(shape, 2) };
    let form = DealerOrder::decode(Bytes::from(DealerOrder::from(&order).encode_to_vec())).unwrap();
    assert_eq!(ordered(form.clone()), Ok(order));
    assert_eq!(sizes(form.order.clone().unwrap()), [2, 44, 100, 3, 1, 70, 2]);
    let with = |change: fn(&mut wire::SeveralShape)| {
        let mut form = form.clone();
        let Some(wire::dealer_order::Order::Several(several)) = &mut form.order else { panic!("not of several") };
        change(several);
        ordered(form).unwrap_err().to_string()
    };
    assert!(with(|several| several.place = 3).contains("place 3 of 3"));
    assert!(with(|several| several.columns = vec![3, 0, 70]).contains("an empty block"));
    assert!(with(|several| several.columns = vec![1; 17]).contains("of 17"));
    assert!(with(|several| several.columns = vec![1]).contains("place 2 of 1"));
    assert!(with(|several| several.words = 3).contains("elements of 3 words"));
}

#[test]
fn the_bytes_of_an_order_are_those_of_study_run_phase_and_sizes() {
    let (width, bits, rows) = (Width::Two, 30, 300);
    let orders = [
        (table(3, 5), [2, 44, 100, 3, 5]),
        (Order::Vector(VectorShape { width, bits, rows, left: 2, right: 5 }), [2, 30, 300, 2, 5]),
        (Order::Weighted(WeightedShape { width, bits, rows, left: 2, right: 5 }), [2, 30, 300, 2, 5]),
        (Order::Rows(RowShape { width, bits, rows, terms: 9, corrected: Side::Left }), [2, 30, 300, 9, 1]),
    ];
    for (order, expected) in orders {
        let form = DealerOrder::from(&Ordered { study: STUDY, run: RUN, order });
        let length = form.encoded_len();
        let DealerOrder { study, run, order } = form;
        assert_eq!((&study[..], &run[..]), (&STUDY.0[..], &RUN.0[..]));
        assert_eq!(sizes(order.unwrap()), expected);
        // A byte before each number, one more for numbers above 127; two before study, run and shape.
        let numbers: usize = expected.iter().map(|number| if *number > 127 { 3 } else { 2 }).sum();
        assert_eq!(length, 2 + 32 + 2 + 16 + 2 + numbers);
    }
}

#[test]
fn what_the_dealer_says_survives_the_wire_in_chunks() {
    // One word of an element of a word and a half chunk: 16 bytes each.
    let (elements, small) = (CHUNK_BYTES / 16 + 16, 6);
    let orders = [table(elements / 16 - 1, 15), table(1, 2), table(2, 1)];
    let parts = frames([seed(), correction(elements), Answer::Computed, correction(small), Answer::Notice(notice())]);
    let sizes: Vec<usize> = parts.iter().map(DealerFrame::encoded_len).collect();
    assert_eq!(parts.len(), 1 + 3 + 1 + 2 + 1, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < CHUNK_BYTES + 100));
    let came = decode(&orders, parts).unwrap();
    let [Answer::Dealt(first), Answer::Dealt(second), Answer::Computed, Answer::Dealt(third), Answer::Notice(last)] =
        &came[..]
    else {
        panic!("{} answers", came.len())
    };
    assert!(*first == Dealt::Seed(SEED));
    assert!(*second == Dealt::Correction(some(Width::Two, elements)));
    assert!(*third == Dealt::Correction(some(Width::Two, small)));
    assert_eq!(*last, notice());
}

#[test]
fn nothing_but_what_was_ordered_is_taken() {
    let one = [table(1, 2)];
    let after_seed = |kind: Kind| frames([seed()]).into_iter().chain([frame(kind)]).collect::<Vec<_>>();
    let begin = |words, elements| after_seed(Kind::Correction(wire::Correction { words, elements }));
    let has = |sentence: String, part: &str| assert!(sentence.contains(part), "{sentence}");
    has(fault(&[], frames([seed()])), "sent a seed, expected nothing");
    has(fault(&one, frames([seed(), seed()])), "sent a second seed, expected a correction");
    has(fault(&one, frames([seed(), Answer::Computed, seed()])), "sent a second seed, expected nothing");
    has(fault(&one, frames([correction(6)])), "sent a correction, expected a seed");
    has(fault(&one, frames([Answer::Computed])), "sent the end of a computation, expected a seed");
    has(fault(&one, frames([seed(), correction(6), correction(6)])), "sent a correction, expected nothing");
    has(fault(&one, frames([seed(), correction(6), Answer::Computed])), "expected nothing");
    has(fault(&one, vec![frame(Kind::Seed(vec![1; 31].into()))]), "31 bytes, expected 32");
    has(fault(&one, vec![DealerFrame { kind: None }]), "no known kind");
    for wrong in [0, 5, 7, u64::MAX] {
        has(fault(&one, begin(2, wrong)), &format!("sent {wrong} values of a correction, expected 6"));
    }
    has(fault(&one, begin(1, 6)), "elements of 1 words, expected 2");
    has(fault(&one, begin(3, 6)), "elements of 3 words, expected 1 or 2");
    // Too much, too little, and something else in between.
    let chunked = |bytes: usize| {
        let mut parts = begin(2, 6);
        parts.push(frame(Kind::Chunk(vec![0; bytes].into())));
        parts
    };
    assert!(decode(&one, chunked(96)).is_ok());
    for bytes in [0, 95, 97] {
        has(fault(&one, chunked(bytes)), &format!("a chunk of {bytes} bytes, expected 96"));
    }
    has(fault(&one, after_seed(Kind::Chunk(vec![0; 96].into()))), "sent a part of a correction, expected a correction");
    let mut twice = begin(2, 6);
    twice.extend(answer_frames(correction(6)));
    has(fault(&one, twice), "sent a correction, expected a part of a correction");
    let mut bad = chunked(96);
    bad[2] = frame(Kind::Chunk([vec![0; 88], vec![255; 8]].concat().into()));
    has(fault(&one, bad), "below their primes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(21), ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_frames_makes_the_decoder_panic(
        orders in prop::collection::vec((0..3_usize, 0..3_usize), 0..4),
        parts in prop::collection::vec(any_frame(), 0..12),
    ) {
        let mut decoder = AnswerDecoder::default();
        for (left, right) in orders {
            decoder.order(table(left, right));
        }
        for part in parts {
            let _ = decoder.push(part);
        }
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let bytes = Bytes::from(bytes);
        let _ = ordered(DealerOrder::decode(bytes.clone()).unwrap_or_default());
        let mut decoder = AnswerDecoder::default();
        decoder.order(table(usize::MAX, usize::MAX));
        let _ = decoder.push(DealerFrame::decode(bytes).unwrap_or_default());
    }
}

fn any_frame() -> impl Strategy<Value = DealerFrame> {
    let kind = prop_oneof![
        4 => Just(Kind::Seed(vec![1; 32].into())),
        4 => (1..3_u32, prop_oneof![0..10_u64, any::<u64>()])
            .prop_map(|(words, elements)| Kind::Correction(wire::Correction { words, elements })),
        4 => (0..10_usize).prop_map(|elements| Kind::Chunk(vec![0; 16 * elements].into())),
        2 => Just(Kind::Computed(wire::Nothing {})),
        1 => Just(Kind::Notice(wire::Notice::default())),
    ];
    prop::option::weighted(0.97, kind).prop_map(|kind| DealerFrame { kind })
}

/// A coordinator that is a dealer, of which a test says what it answers.
struct Desk {
    office: Office,
    address: String,
    callers: mpsc::Receiver<coordinator::Caller>,
    dealing: mpsc::Receiver<Caller>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn desk() -> Desk {
    let (office, listener, address) = listen().await;
    let (found, callers) = mpsc::channel(8);
    let (ordering, dealing) = mpsc::channel(8);
    let (_, shown) = watch::channel(status());
    let beside = Beside { dealing: Some(ordering), merging: None };
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(port::serve(listener, found, beside, shown, Box::pin(async { drop(stopped.await) })));
    Desk { office, address, callers, dealing, stop, served }
}

async fn listen() -> (Office, Listener, String) {
    let office = Office::open("office");
    let expected = ["alice", "bob"].map(str::to_owned);
    let listener = Listener::bind("127.0.0.1:0", &office.party("coordinator"), &expected).await.unwrap();
    let address = listener.address().to_string();
    (office, listener, address)
}

fn status() -> StatusReply {
    let study = "heart".to_owned();
    StatusReply { study, digest: STUDY, run: None, parties: vec![], exit: None, quorum: None, ends: None }
}

impl Desk {
    async fn call(&mut self, name: &str) -> (Dealing, Caller) {
        let identity = self.office.party(name);
        let line = soon(open(&self.address, &identity, "coordinator", STUDY, RUN)).await.unwrap();
        (line, soon(self.dealing.recv()).await.unwrap())
    }
}

fn lost(abort: Option<Result<Message, Abort>>, address: &str) {
    let Some(Err(Abort::Unreachable(sentence))) = abort else { panic!("{abort:?}") };
    assert!(sentence.starts_with(&format!("the line to the dealer at {address} is lost: ")), "{sentence}");
    assert!(sentence.ends_with("start again what has ended of dealer, coordinator and parties"), "{sentence}");
}

#[tokio::test]
async fn orders_reach_the_dealer_and_its_answers_are_messages_of_the_coordinator_in_their_order() {
    let mut desk = desk().await;
    let (mut line, mut caller) = desk.call("bob").await;
    assert_eq!(caller.name, "bob");
    for order in [table(1, 2), table(3, 4)] {
        line.orders.send(order).unwrap();
        let ordered = Ordered { study: STUDY, run: RUN, order };
        assert_eq!(soon(caller.hear.recv()).await, Some(Heard::Message(ordered)));
    }
    for answer in [seed(), Answer::Computed, correction(20)] {
        caller.say.try_send(answer).ok().unwrap();
    }
    let expected = [Dealt::Seed(SEED), Dealt::Correction(some(Width::Two, 20))];
    for (sequence, dealt) in expected.into_iter().enumerate() {
        let came = soon(line.heard.recv()).await.unwrap().unwrap();
        let header = Header { study: STUDY, run: RUN, sender: Role::Coordinator, sequence: sequence as u64 };
        assert!(came == Message { header, body: Body::Dealt(dealt) }, "{came:?}");
    }
    // The register is served on the same port.
    let joined = soon(join(&desk.address, &desk.office.party("bob"), "coordinator")).await.unwrap();
    assert_eq!(soon(desk.callers.recv()).await.unwrap().name, "bob");
    // A party that ends its orders stays on its line, one that drops it is gone.
    let Dealing { orders, heard } = line;
    drop(orders);
    assert_eq!(soon(caller.hear.recv()).await, None);
    assert!(!caller.say.is_closed());
    drop(heard);
    soon(caller.say.closed()).await;
    drop((joined, caller));
    let _ = desk.stop.send(());
    soon(desk.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_line_that_ends_before_everything_ordered_has_come_ends_the_run() {
    let mut desk = desk().await;
    let address = desk.address.clone();
    let answers: [fn() -> Vec<Answer>; 4] =
        [Vec::new, || vec![seed()], || vec![seed(), correction(6)], || vec![seed(), Answer::Computed]];
    for answers in answers {
        let (mut line, caller) = desk.call("alice").await;
        line.orders.send(table(1, 2)).unwrap();
        line.orders.send(table(1, 2)).unwrap();
        let messages = answers().into_iter().filter(|answer| matches!(answer, Answer::Dealt(_))).count();
        for answer in answers() {
            caller.say.try_send(answer).ok().unwrap();
        }
        for _ in 0..messages {
            assert!(soon(line.heard.recv()).await.unwrap().is_ok());
        }
        drop(caller);
        lost(soon(line.heard.recv()).await, &address);
        assert!(soon(line.heard.recv()).await.is_none());
    }
}

#[tokio::test]
async fn a_party_that_has_all_that_it_ordered_goes_on_without_the_dealer_until_it_orders_more() {
    let mut desk = desk().await;
    let (mut line, caller) = desk.call("alice").await;
    line.orders.send(table(1, 2)).unwrap();
    for answer in [seed(), Answer::Computed] {
        caller.say.try_send(answer).ok().unwrap();
    }
    assert!(soon(line.heard.recv()).await.unwrap().is_ok());
    drop(caller);
    desk.served.abort();
    assert!(timeout(Duration::from_millis(200), line.heard.recv()).await.is_err(), "nothing is missing");
    line.orders.send(table(1, 2)).unwrap();
    lost(soon(line.heard.recv()).await, &desk.address);
}

#[tokio::test]
async fn a_dealer_that_ends_the_run_is_quoted() {
    let mut desk = desk().await;
    let (mut line, caller) = desk.call("bob").await;
    caller.say.try_send(Answer::Notice(notice())).ok().unwrap();
    let Notice { exit, sentence } = notice();
    let remote = Abort::Remote { from: Role::Coordinator, exit, sentence };
    assert!(soon(line.heard.recv()).await == Some(Err(remote)));
    assert!(soon(line.heard.recv()).await.is_none());
}

#[tokio::test]
async fn a_malformed_order_ends_the_line_with_its_fault() {
    let mut desk = desk().await;
    let identity = desk.office.party("bob");
    let connection = soon(tls::dial(&identity, &desk.address, "coordinator", PATIENCE)).await.unwrap();
    let mut client = wire::dealer_client::DealerClient::new(connection.channel);
    let orders = tokio_stream::iter([DealerOrder::default()]);
    let _inbound = soon(client.deal(orders)).await.unwrap();
    let mut caller = soon(desk.dealing.recv()).await.unwrap();
    let Some(Heard::Fault(PeerFault::Garbage(_))) = soon(caller.hear.recv()).await else { panic!("taken") };
    assert_eq!(soon(caller.hear.recv()).await, None);
}

#[tokio::test]
async fn strangers_and_coordinators_of_other_studies_are_refused() {
    let desk = desk().await;
    let carol = desk.office.party("carol");
    let error = soon(open(&desk.address, &carol, "coordinator", STUDY, RUN)).await.err();
    assert!(matches!(error, Some(OpenError::Refused(_))), "{error:?}");
    let (office, listener, address) = listen().await;
    let (found, _callers) = mpsc::channel(8);
    let (_, shown) = watch::channel(status());
    tokio::spawn(coordinator::serve(listener, found, shown, Box::pin(std::future::pending())));
    let error = soon(open(&address, &office.party("bob"), "coordinator", STUDY, RUN)).await.err();
    assert!(matches!(error, Some(OpenError::Refused(_))), "{error:?}");
}

/// A dealer that says the same to everybody after their first order, and then nothing.
struct Erring(Vec<DealerFrame>);

#[tonic::async_trait]
impl Dealer for Erring {
    type DealStream = ReceiverStream<Result<DealerFrame, Status>>;

    async fn deal(&self, request: Request<Streaming<DealerOrder>>) -> Result<Response<Self::DealStream>, Status> {
        let (out, outbound) = mpsc::channel(1);
        let (mut orders, frames) = (request.into_inner(), self.0.clone());
        tokio::spawn(async move {
            let first = orders.message().await;
            for frame in frames {
                let _ = out.send(Ok(frame)).await;
            }
            let _ = orders.message().await;
            drop(first);
        });
        Ok(Response::new(ReceiverStream::new(outbound)))
    }
}

#[tokio::test]
async fn a_dealer_that_errs_is_named_with_its_fault() {
    let begin = |words, elements| frame(Kind::Correction(wire::Correction { words, elements }));
    let sound = || answer_frames(seed()).remove(0);
    let cases = [
        (vec![sound(), sound()], "sent a second seed, expected a correction"),
        (vec![sound(), begin(2, 5)], "sent 5 values of a correction, expected 6"),
        (vec![sound(), begin(2, 6), frame(Kind::Chunk(vec![255; 96].into()))], "below their primes"),
        (vec![sound(), begin(2, 6), frame(Kind::Chunk(vec![0; 80].into()))], "a chunk of 80 bytes, expected 96"),
        (frames([seed(), correction(6), correction(6)]), "sent a correction, expected nothing"),
        (vec![frame(Kind::Seed(Bytes::new()))], "a seed of 0 bytes, expected 32"),
        (vec![sound(), frame(Kind::Chunk(vec![0; CHUNK_BYTES + (100 << 10)].into()))], ""),
    ];
    for (said, part) in cases {
        let (office, listener, address) = listen().await;
        let router = tls::server().add_service(DealerServer::new(Erring(said)));
        let server = tokio::spawn(router.serve_with_incoming(listener.incoming()));
        let mut line = soon(open(&address, &office.party("bob"), "coordinator", STUDY, RUN)).await.unwrap();
        line.orders.send(table(1, 2)).unwrap();
        let abort = loop {
            match soon(line.heard.recv()).await {
                Some(Ok(_)) => {}
                Some(Err(abort)) => break abort,
                None => panic!("the line ended without a reason, expected {part:?}"),
            }
        };
        assert_eq!(abort.exit(), Exit::Peer);
        assert!(matches!(abort, Abort::Peer { peer: Role::Coordinator, .. }), "{abort:?}");
        assert!(abort.to_string().contains(part), "{abort}");
        server.abort();
    }
}

/// Orders of later products: two messages of corrections of rows, for products within rows and for a weighted table.
fn products() -> [Order; 3] {
    let (width, rows) = (Width::Two, 300_000);
    [
        Order::Rows(RowShape { width, bits: 36, rows, terms: 1, corrected: Side::Right }),
        Order::Vector(VectorShape { width, bits: 30, rows, left: 2, right: 1 }),
        Order::Weighted(WeightedShape { width, bits: 30, rows, left: 1, right: 1 }),
    ]
}

#[test]
fn orders_of_products_survive_the_wire() {
    for order in products() {
        let order = Ordered { study: STUDY, run: RUN, order };
        let form = DealerOrder::decode(Bytes::from(DealerOrder::from(&order).encode_to_vec())).unwrap();
        assert_eq!(ordered(form), Ok(order));
    }
}

#[test]
fn corrections_of_rows_come_in_their_order_and_sizes_and_nothing_else_does() {
    let [rows, vector, weighted] = products();
    // 147 row blocks, 128 in the first message; the row of the canary behind them.
    let sizes = [128 * 2048, 300_000 - 128 * 2048];
    let dealt = |first: u64, elements: usize| Answer::Dealt(Dealt::Rows(first, some(Width::Two, elements)));
    let sent = [
        seed(),
        dealt(0, sizes[0]),
        dealt(128, sizes[1] + 1),
        correction(3),
        dealt(0, sizes[0]),
        dealt(128, sizes[1]),
        correction(3),
    ];
    let came = decode(&[rows, vector, weighted], frames(sent)).unwrap();
    let firsts: Vec<Option<u64>> = came
        .iter()
        .map(|answer| match answer {
            Answer::Dealt(Dealt::Rows(first, _)) => Some(*first),
            _ => None,
        })
        .collect();
    assert_eq!(firsts, [None, Some(0), Some(128), None, Some(0), Some(128), None]);
    // The silent party hears of the end only, of a weighted table after its corrections.
    let silent =
        [seed(), Answer::Computed, Answer::Computed, dealt(0, sizes[0]), dealt(128, sizes[1]), Answer::Computed];
    assert_eq!(decode(&[rows, vector, weighted], frames(silent)).unwrap().len(), 6);
    let says = |orders: &[Order], answers: Vec<Answer>, part: &str| {
        let said = fault(orders, frames([seed()].into_iter().chain(answers)));
        assert!(said.contains(part), "{said}");
    };
    says(&[rows], vec![dealt(1, sizes[0])], "corrections of row block 1, expected 0");
    says(&[rows], vec![dealt(0, sizes[0]), dealt(0, sizes[0])], "corrections of row block 0, expected 128");
    says(&[rows], vec![dealt(0, sizes[0] - 1)], "262143");
    says(&[rows], vec![correction(3)], "sent a correction, expected corrections of rows");
    says(
        &[rows],
        vec![dealt(0, sizes[0]), Answer::Computed],
        "sent the end of a computation, expected corrections of rows",
    );
    says(&[vector], vec![dealt(0, sizes[0])], "sent corrections of rows, expected a correction");
    says(&[weighted], vec![Answer::Computed], "sent the end of a computation, expected corrections of rows");
    says(&[weighted], vec![correction(3)], "sent a correction, expected corrections of rows");
    says(&[weighted], vec![dealt(0, sizes[0]), dealt(128, sizes[1]), correction(4)], "sent 4 values of a correction");
}
