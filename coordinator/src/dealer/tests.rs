use super::*;
use fedreg_common::id::RunId;
use fedreg_common::secure::budget::{self, MOST_ROWS};
use fedreg_common::secure::masks::{Labels, Seed};
use fedreg_common::secure::product::{RowDealer, RowShape, SeveralShape, VectorShape, WeightedShape};
use fedreg_common::secure::ring::{Elements, Width};
use fedreg_common::session::{Order, PeerFault};
use std::time::Duration;
use tokio::time::timeout;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
const RUN: RunId = RunId([3; 16]);

fn study(mode: &str) -> Study<Vertical> {
    let text = format!(
        "id = \"s\"\nmode = \"{mode}\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = [\"u\"]\n\
         [parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n"
    );
    Study::parse(&text).unwrap().vertical().unwrap()
}

/// A study of three, of which the last leads.
fn three() -> Study<Vertical> {
    let mut text =
        "id = \"s\"\nmode = \"sealed\"\nleader = \"carol\"\n[outcome]\ncolumn = \"y\"\nheld_by = \"all\"\n".to_string();
    for (name, certificate) in [("alice", "a"), ("bob", "b"), ("carol", "c")] {
        text.push_str(&format!(
            "[parties.{name}]\ncertificate = \"{certificate}\"\ncolumns = [\"{certificate}{certificate}\"]\n"
        ));
    }
    Study::parse(&text).unwrap().vertical().unwrap()
}

fn private(mechanism: &str) -> Study<Vertical> {
    let text = format!(
        "id = \"s\"\nmode = \"private\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = [\"u\"]\n\
         [parties.bob]\ncertificate = \"b\"\ncolumns = [\"v\"]\n[columns.u]\nrange = [0, 1]\n[columns.v]\nrange = [0, 1]\n[columns.y]\n\
         range = [0, 1]\n[privacy]\nepsilon = 1.0\nmechanism = \"{mechanism}\"\n"
    );
    Study::parse(&text).unwrap().vertical().unwrap()
}

fn shape(rows: usize, left: usize, right: usize) -> Shape {
    Shape { width: Width::Two, bits: budget::gaussian(rows).unwrap(), rows, left, right }
}

/// A party's end of its line to the dealer.
struct Party {
    orders: Option<mpsc::Sender<Heard<Ordered>>>,
    heard: mpsc::Receiver<Answer>,
}

/// The dealer, and the study that it serves.
struct Office {
    study: Digest,
    callers: mpsc::Sender<Caller>,
}

impl Office {
    fn open() -> Office {
        Office::of(&study("sealed"))
    }

    fn of(study: &Study<Vertical>) -> Office {
        Office { study: study.digest(), callers: start(study).unwrap() }
    }

    async fn call(&self, name: &str) -> Party {
        let ((orders, hear), (say, heard)) = (mpsc::channel(8), mpsc::channel(8));
        self.callers.send(Caller { name: name.to_owned(), hear, say }).await.unwrap();
        Party { orders: Some(orders), heard }
    }

    async fn order(&self, party: &Party, run: RunId, shape: Shape) {
        self.ask(party, run, Order::Table(shape)).await;
    }

    async fn ask(&self, party: &Party, run: RunId, order: Order) {
        party.say(Heard::Message(Ordered { study: self.study, run, order })).await;
    }

    /// Both parties with one order of the same table.
    async fn both(&self, run: RunId, shape: Shape) -> [Party; 2] {
        let parties = [self.call("a").await, self.call("b").await];
        for party in &parties {
            self.order(party, run, shape).await;
        }
        parties
    }
}

impl Party {
    async fn say(&self, said: Heard<Ordered>) {
        self.orders.as_ref().unwrap().send(said).await.unwrap();
    }

    async fn next(&mut self) -> Option<Answer> {
        timeout(PATIENCE, self.heard.recv()).await.expect("nothing happened")
    }

    async fn seed(&mut self) -> [u8; 32] {
        let Some(Answer::Dealt(Dealt::Seed(seed))) = self.next().await else { panic!("no seed") };
        seed
    }

    async fn computed(&mut self) {
        assert!(matches!(self.next().await, Some(Answer::Computed)));
    }

    async fn rows(&mut self, expected: u64) -> Elements {
        let Some(Answer::Dealt(Dealt::Rows(first, entries))) = self.next().await else { panic!("no rows") };
        assert_eq!(first, expected);
        entries
    }

    async fn correction(&mut self) -> Correction {
        let Some(Answer::Dealt(Dealt::Correction(entries))) = self.next().await else { panic!("no correction") };
        Correction(entries)
    }

    /// A notice, and after it the end of the line.
    async fn dismissed(&mut self, exit: Exit, part: &str) {
        let Some(Answer::Notice(notice)) = self.next().await else { panic!("no notice with {part:?}") };
        assert_eq!(notice.exit, exit, "{}", notice.sentence);
        assert!(notice.sentence.contains(part), "{}", notice.sentence);
        assert!(self.next().await.is_none());
    }

    /// Nothing has come, and the line is open.
    fn silent(&mut self) {
        assert!(matches!(self.heard.try_recv(), Err(mpsc::error::TryRecvError::Empty)));
    }
}

#[test]
fn only_a_study_on_shares_has_a_dealer() {
    assert!(start(&study("plain")).is_none() && start(&private("residual")).is_none());
}

#[tokio::test]
async fn both_get_their_seeds_once_and_the_right_one_the_corrections_that_these_seeds_give() {
    let office = Office::open();
    let shapes = [shape(5000, 3, 2), shape(5000, 3, 2), shape(17, 1, 4)];
    let [mut alice, mut bob] = office.both(RUN, shapes[0]).await;
    let seeds = [alice.seed().await, bob.seed().await];
    assert_ne!(seeds[0], seeds[1]);
    for shape in &shapes[1..] {
        office.order(&bob, RUN, *shape).await;
        office.order(&alice, RUN, *shape).await;
    }
    let [left, right] = seeds.map(Seed::new);
    let mut labels = Labels::new(office.study, RUN);
    for shape in shapes {
        let mut pure = Dealer::new(shape, &left, &right, &mut labels);
        while pure.step() {}
        assert!(bob.correction().await == pure.finish().unwrap());
        alice.computed().await;
    }
    // Both have all that they ordered: nobody is told that the other leaves.
    drop(alice);
    let again = office.call("a").await;
    office.order(&again, RunId([4; 16]), shapes[0]).await;
    drop(again);
    bob.silent();
}

#[tokio::test]
async fn nothing_is_dealt_to_a_party_alone_and_the_next_run_has_other_seeds() {
    let office = Office::open();
    let mut seeds = Vec::new();
    for run in [RUN, RunId([8; 16])] {
        let mut alice = office.call("a").await;
        office.order(&alice, run, shape(20, 1, 1)).await;
        let mut bob = office.call("b").await;
        tokio::task::yield_now().await;
        alice.silent();
        office.order(&bob, run, shape(20, 1, 1)).await;
        seeds.extend([alice.seed().await, bob.seed().await]);
    }
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 4);
}

#[tokio::test]
async fn parties_that_order_different_tables_hear_what_differs_and_get_no_seed() {
    let office = Office::open();
    let [mut alice, mut bob] = [office.call("a").await, office.call("b").await];
    office.order(&alice, RUN, shape(20, 1, 2)).await;
    office.order(&bob, RUN, shape(21, 1, 2)).await;
    for party in [&mut alice, &mut bob] {
        party.dismissed(Exit::Peer, "alice and bob ordered different tables: rows 20 and 21").await;
    }
}

#[tokio::test]
async fn a_table_that_cannot_be_dealt_and_a_fault_end_the_run_for_both() {
    let office = Office::open();
    let [mut alice, mut bob] = office.both(RUN, shape(20, 1, 2)).await;
    bob.seed().await;
    bob.correction().await;
    alice.seed().await;
    alice.computed().await;
    let empty = Shape { left: 0, ..shape(20, 1, 2) };
    office.order(&alice, RUN, empty).await;
    for party in [&mut alice, &mut bob] {
        party.dismissed(Exit::Peer, "alice ordered a table of 0 x 2 columns").await;
    }
    let run = RunId([4; 16]);
    let [mut alice, mut bob] = office.both(run, shape(20, 1, 2)).await;
    alice.seed().await;
    alice.computed().await;
    alice.say(Heard::Fault(PeerFault::Garbage("an order of no known kind".to_owned()))).await;
    alice.dismissed(Exit::Peer, "alice sent bytes that are not a message").await;
    bob.seed().await;
    bob.correction().await;
    bob.dismissed(Exit::Peer, "alice sent bytes that are not a message").await;
}

#[tokio::test]
async fn orders_of_another_run_or_study_are_faults() {
    let office = Office::open();
    let [mut alice, mut bob] = office.both(RUN, shape(MOST_ROWS, 1, 1)).await;
    bob.seed().await;
    alice.seed().await;
    office.order(&bob, RunId([4; 16]), shape(20, 1, 2)).await;
    for party in [&mut alice, &mut bob] {
        party.dismissed(Exit::Peer, "bob sent an order of another run").await;
    }
    let mut bob = office.call("b").await;
    let order = Order::Table(shape(20, 1, 2));
    bob.say(Heard::Message(Ordered { study: Digest::of(b"another"), run: RUN, order })).await;
    bob.dismissed(Exit::Peer, "bob sent an order of another study").await;
}

#[tokio::test]
async fn a_party_that_leaves_before_the_end_is_named_to_the_other_and_the_computation_stops() {
    let office = Office::open();
    // It would take hours, and the runtime waits for it.
    let [mut alice, mut bob] = office.both(RUN, shape(MOST_ROWS, 1, 1)).await;
    bob.seed().await;
    alice.seed().await;
    drop(bob);
    alice.dismissed(Exit::Unreachable, "the dealer's line to bob is lost").await;
    // Before the other has come, it hears so when it comes.
    let run = RunId([4; 16]);
    let alice = office.call("a").await;
    office.order(&alice, run, shape(20, 1, 1)).await;
    drop(alice);
    let mut bob = office.call("b").await;
    loop {
        // The news of the party that left and the order that follows it come on different lines, in any order; an order that comes after
        // the notice is not taken any more.
        let order = Ordered { study: office.study, run, order: Order::Table(shape(20, 1, 1)) };
        drop(bob.orders.as_ref().unwrap().send(Heard::Message(order)).await);
        match timeout(PATIENCE, bob.heard.recv()).await.expect("nothing happened") {
            Some(Answer::Notice(notice)) => {
                assert_eq!(notice.exit, Exit::Unreachable);
                assert!(notice.sentence.contains("line to alice is lost"), "{}", notice.sentence);
                break;
            }
            Some(Answer::Dealt(_) | Answer::Computed) => {}
            None => panic!("no reason"),
        }
    }
}

#[tokio::test]
async fn a_party_that_ends_its_orders_still_gets_what_it_ordered() {
    let office = Office::open();
    let [mut alice, mut bob] = [office.call("a").await, office.call("b").await];
    for party in [&mut alice, &mut bob] {
        office.order(party, RUN, shape(5000, 2, 2)).await;
        party.orders = None;
    }
    bob.seed().await;
    bob.correction().await;
    alice.seed().await;
    alice.computed().await;
}

#[tokio::test]
async fn masks_are_handed_out_to_one_line_of_a_party_and_a_run_that_is_over_stays_over() {
    let office = Office::open();
    let [mut alice, mut bob] = office.both(RUN, shape(20, 1, 1)).await;
    alice.seed().await;
    alice.computed().await;
    let mut again = office.call("a").await;
    office.order(&again, RUN, shape(20, 1, 1)).await;
    again.dismissed(Exit::Unreachable, "the masks of alice in run 03030303").await;
    // The first line goes on.
    bob.seed().await;
    bob.correction().await;
    for party in [&alice, &bob] {
        office.order(party, RUN, shape(20, 1, 1)).await;
    }
    bob.correction().await;
    alice.computed().await;
    // A party that takes part in another run has given this one up.
    let next = office.call("a").await;
    office.order(&next, RunId([4; 16]), shape(20, 1, 1)).await;
    assert!(alice.next().await.is_none());
    office.order(&bob, RUN, shape(20, 1, 1)).await;
    bob.dismissed(Exit::Unreachable, "the dealer's line to alice is lost").await;
    let mut late = office.call("b").await;
    office.order(&late, RUN, shape(20, 1, 1)).await;
    late.dismissed(Exit::Unreachable, "is over: the dealer's line to alice is lost").await;
}

#[tokio::test]
async fn a_private_run_is_dealt_for_again_with_fresh_seeds_for_both() {
    let office = Office::of(&private("crossprod"));
    // Whole numbers in the narrow ring.
    let shape = Shape { width: Width::One, bits: 0, rows: 20, left: 2, right: 1 };
    let [mut alice, mut bob] = office.both(RUN, shape).await;
    let first = [alice.seed().await, bob.seed().await];
    bob.correction().await;
    alice.computed().await;
    // Bob was started again: what Alice has belongs to masks that are gone.
    let mut anew = office.call("b").await;
    office.order(&anew, RUN, shape).await;
    alice.dismissed(Exit::Unreachable, "bob was started again and has lost its masks").await;
    anew.silent();
    let mut again = office.call("a").await;
    office.order(&again, RUN, shape).await;
    let second = [again.seed().await, anew.seed().await];
    anew.correction().await;
    assert!(first.iter().all(|seed| !second.contains(seed)), "a seed was handed out twice");
    drop(bob);
}

#[tokio::test]
async fn a_certificate_that_is_none_of_the_parties_is_refused() {
    let office = Office::open();
    let mut carol = office.call("coordinator").await;
    carol.dismissed(Exit::Refused, "`coordinator` has no part in the study").await;
}

#[tokio::test]
async fn products_with_the_columns_of_a_table_stream_to_those_who_get_their_corrections() {
    let office = Office::open();
    // Two messages of row blocks of one column.
    let rows = 300_000;
    let bits = budget::binomial(rows).unwrap();
    let [mut alice, mut bob] = office.both(RUN, Shape { bits: bits.columns, ..shape(rows, 2, 1) }).await;
    let seeds = [alice.seed().await, bob.seed().await].map(Seed::new);
    alice.computed().await;
    bob.correction().await;
    let width = Width::Two;
    let within = RowShape { width, bits: bits.features, rows, terms: 1, corrected: Side::Right };
    let vector = VectorShape { width, bits: bits.columns, rows, left: 1, right: 1 };
    let weighted = WeightedShape { width, bits: bits.columns, rows, left: 1, right: 1 };
    for order in [Order::Rows(within), Order::Vector(vector), Order::Weighted(weighted)] {
        for party in [&alice, &bob] {
            office.ask(party, RUN, order).await;
        }
    }
    // The corrections of rows are those of these seeds.
    let mut labels = Labels::new(office.study, RUN);
    let [left, right] = &seeds;
    let _ = Dealer::new(Shape { bits: bits.columns, ..shape(rows, 2, 1) }, left, right, &mut labels);
    let mut dealer = RowDealer::new(within, left, right, &mut labels);
    let mut expected = Vec::new();
    while let Some(frame) = dealer.step().unwrap() {
        expected.push(frame.entries);
    }
    let whole = |parts: &[Elements]| Elements::concat(width, parts.iter()).unwrap();
    let [first, second] = [bob.rows(0).await, bob.rows(within.batch() as u64).await];
    assert!(first == whole(&expected[..within.batch()]) && second == whole(&expected[within.batch()..]));
    alice.computed().await;
    // A product with a vector has one correction, for Bob; a weighted table corrections of rows for both, and one for him.
    assert_eq!(bob.correction().await.0.count(), 2);
    alice.computed().await;
    for first in [0, weighted.batch() as u64] {
        assert_eq!(alice.rows(first).await.count(), bob.rows(first).await.count());
    }
    assert_eq!(bob.correction().await.0.count(), 3);
    alice.computed().await;
    alice.silent();
    bob.silent();
}

#[tokio::test]
async fn a_party_that_does_not_read_holds_the_dealer_up_and_nothing_piles_up() {
    let office = Office::open();
    // Forty messages of row blocks, of which the line holds eight.
    let rows = 40 * 128 * 2048;
    let bits = budget::binomial(rows).unwrap();
    let wanted = Shape { bits: bits.columns, ..shape(rows, 1, 1) };
    let [mut alice, mut bob] = office.both(RUN, wanted).await;
    alice.seed().await;
    bob.seed().await;
    alice.computed().await;
    bob.correction().await;
    let within = RowShape { width: Width::Two, bits: bits.features, rows, terms: 1, corrected: Side::Right };
    for party in [&alice, &bob] {
        office.ask(party, RUN, Order::Rows(within)).await;
    }
    bob.rows(0).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The dealer has not come to the end, which Alice would hear of.
    alice.silent();
    for at in 1..=40 {
        bob.rows(at * within.batch() as u64).await;
    }
    alice.computed().await;
}

fn of_three(rows: usize, columns: [usize; 3]) -> SeveralShape {
    SeveralShape::new(Width::Two, budget::gaussian(rows).unwrap(), rows, &columns).unwrap()
}

#[tokio::test]
async fn three_parties_get_their_seeds_once_all_have_ordered_and_all_but_the_leader_a_correction() {
    let office = Office::of(&three());
    let shape = of_three(3000, [2, 1, 3]);
    let mut other = office.call("b").await;
    office.ask(&other, RunId([9; 16]), Order::Several(shape, 0)).await;
    other.dismissed(Exit::Peer, "bob ordered tables of other parties").await;
    let [mut carol, mut alice, mut bob] = [office.call("c").await, office.call("a").await, office.call("b").await];
    office.ask(&carol, RUN, Order::Several(shape, 0)).await;
    office.ask(&alice, RUN, Order::Several(shape, 1)).await;
    tokio::task::yield_now().await;
    carol.silent();
    alice.silent();
    office.ask(&bob, RUN, Order::Several(shape, 2)).await;
    let mut seeds = Vec::new();
    for party in [&mut carol, &mut alice, &mut bob] {
        seeds.push(Seed::new(party.seed().await));
    }
    let mut dealer = SeveralDealer::new(shape, &seeds, &mut Labels::new(office.study, RUN));
    while dealer.step() {}
    let expected = dealer.finish().unwrap();
    for (party, expected) in [&mut alice, &mut bob].into_iter().zip(expected) {
        assert!(party.correction().await.0 == expected);
    }
    carol.computed().await;
}

#[tokio::test]
async fn one_of_three_that_orders_another_table_or_leaves_is_named_to_the_others() {
    let office = Office::of(&three());
    let [mut carol, mut alice, mut bob] = [office.call("c").await, office.call("a").await, office.call("b").await];
    for (place, party) in [&carol, &alice].into_iter().enumerate() {
        office.ask(party, RUN, Order::Several(of_three(20, [1, 1, 1]), place)).await;
    }
    office.ask(&bob, RUN, Order::Several(of_three(20, [1, 2, 1]), 2)).await;
    for party in [&mut carol, &mut alice, &mut bob] {
        party.dismissed(Exit::Peer, "carol and bob ordered different tables: columns of alice 1 and 2").await;
    }
    // It would take hours.
    let (run, shape) = (RunId([4; 16]), of_three(MOST_ROWS, [1, 1, 1]));
    let [mut carol, mut alice, mut bob] = [office.call("c").await, office.call("a").await, office.call("b").await];
    for (place, party) in [&carol, &alice, &bob].into_iter().enumerate() {
        office.ask(party, run, Order::Several(shape, place)).await;
    }
    for party in [&mut carol, &mut alice, &mut bob] {
        party.seed().await;
    }
    drop(alice);
    carol.dismissed(Exit::Unreachable, "the dealer's line to alice is lost").await;
    bob.dismissed(Exit::Unreachable, "the dealer's line to alice is lost").await;
    // Nobody gets masks twice: who comes back to the run hears that it is over.
    let mut again = office.call("a").await;
    office.ask(&again, run, Order::Several(shape, 1)).await;
    again.dismissed(Exit::Unreachable, "is over: the dealer's line to alice is lost").await;
}
