use std::time::Duration;

use fedreg_common::session::PeerFault;
use tokio::time::timeout;

use super::*;

/// Long enough for a busy machine; nothing here waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(30);
const RUN: RunId = RunId([3; 16]);

fn study(matching: &str) -> Study<Vertical> {
    let text = format!(
        "id = \"s\"\n[outcome]\ncolumn = \"y\"\n[parties.alice]\ncertificate = \"a\"\ncolumns = [\"u\"]\n[parties.bob]\n\
         certificate = \"b\"\ncolumns = [\"v\"]\n[match]\nmembership = \"disclosed\"\n{matching}\n"
    );
    Study::parse(&text).unwrap().vertical().unwrap()
}

const KEYS: &str = "max_rows = { alice = 40000, bob = 1000 }\n[match.keys]\nk = { kind = \"identifier\" }\n[[match.pass]]\nname = \"p\"\n\
                    keys = [\"k\"]\n[[match.pass]]\nname = \"q\"\nkeys = [\"k:4\"]\n";

/// A party's end of its line.
struct Party {
    say: Option<mpsc::Sender<Heard<Asked>>>,
    heard: mpsc::Receiver<Answer>,
}

struct Office {
    study: Digest,
    callers: mpsc::Sender<Caller>,
    folder: tempfile::TempDir,
}

impl Office {
    fn open() -> Office {
        let study = study(&format!("protocol = \"coordinator\"\n{KEYS}"));
        let folder = tempfile::tempdir().unwrap();
        let callers = start(&study, folder.path()).unwrap().unwrap();
        Office { study: study.digest(), callers, folder }
    }

    async fn call(&self, name: &str) -> Party {
        let ((say, hear), (told, heard)) = (mpsc::channel(64), mpsc::channel(64));
        self.callers.send(Caller { name: name.to_owned(), hear, say: told }).await.unwrap();
        Party { say: Some(say), heard }
    }

    /// A list of numbers, which stand for tags, in parts.
    async fn list(&self, party: &Party, pass: u32, tags: &[u32]) {
        let announced = Announced { study: self.study, run: RUN, pass, tags: tags.len() as u64 };
        party.say(Asked::List(announced)).await;
        for part in tags.chunks(16_384) {
            party.say(Asked::Part(part.iter().map(|number| tag(*number)).collect())).await;
        }
    }

    /// Both parties, with a list each.
    async fn both(&self, alice: &[u32], bob: &[u32]) -> [Party; 2] {
        let parties = [self.call("a").await, self.call("b").await];
        self.list(&parties[0], 0, alice).await;
        self.list(&parties[1], 0, bob).await;
        parties
    }
}

fn tag(number: u32) -> Tag {
    let mut tag = [0; 16];
    tag[..4].copy_from_slice(&number.to_be_bytes());
    tag
}

impl Party {
    async fn say(&self, asked: Asked) {
        self.say.as_ref().unwrap().send(Heard::Message(asked)).await.unwrap();
    }

    async fn next(&mut self) -> Option<Answer> {
        timeout(PATIENCE, self.heard.recv()).await.expect("nothing happened")
    }

    async fn count(&mut self) -> (u32, u64) {
        loop {
            match self.next().await {
                Some(Answer::Merged(Merged::Count { pass, count })) => return (pass, count),
                Some(Answer::Merged(Merged::Passed { .. })) => {}
                other => panic!("{other:?} in place of a count"),
            }
        }
    }

    async fn positions(&mut self, count: usize) -> Vec<u32> {
        let mut all = Vec::new();
        while all.len() < count {
            let answer = self.next().await;
            let Some(Answer::Merged(Merged::Positions { first, positions, .. })) = answer else { panic!("{answer:?}") };
            assert_eq!(first as usize, all.len());
            all.extend(positions);
        }
        all
    }

    /// A notice, and after it the end of the line.
    async fn dismissed(&mut self, exit: Exit, part: &str) {
        let mut answer = self.next().await;
        while let Some(Answer::Merged(_)) = answer {
            answer = self.next().await;
        }
        let Some(Answer::Notice(notice)) = answer else { panic!("no notice with {part:?}") };
        assert_eq!(notice.exit, exit, "{}", notice.sentence);
        assert!(notice.sentence.contains(part), "{}", notice.sentence);
        assert!(self.next().await.is_none());
    }
}

#[tokio::test]
async fn both_hear_how_many_tags_both_have_and_then_where() {
    let office = Office::open();
    let alice: Vec<u32> = (0..40_000).collect();
    let bob: Vec<u32> = (0..1_000).map(|number| number * 60).collect();
    let [mut a, mut b] = office.both(&alice, &bob).await;
    let both = bob.iter().filter(|number| **number < 40_000).count();
    for party in [&mut a, &mut b] {
        assert_eq!(party.count().await, (0, both as u64));
        assert!(party.heard.try_recv().is_err(), "positions before both ask");
    }
    a.say(Asked::Positions(0)).await;
    // Alice alone gets nothing: Bob may not accept the count.
    assert!(timeout(Duration::from_millis(50), a.heard.recv()).await.is_err());
    b.say(Asked::Positions(0)).await;
    assert_eq!(a.positions(both).await, bob[..both]);
    assert_eq!(b.positions(both).await, (0..both as u32).collect::<Vec<u32>>());
    // The file has no name.
    assert_eq!(std::fs::read_dir(office.folder.path()).unwrap().count(), 0);
    // The next pass.
    office.list(&a, 1, &[1, 5, 9]).await;
    office.list(&b, 1, &[5, 7, 9]).await;
    for party in [&mut a, &mut b] {
        assert_eq!(party.count().await, (1, 2));
        party.say(Asked::Positions(1)).await;
    }
    assert_eq!((a.positions(2).await, b.positions(2).await), (vec![1, 2], vec![0, 2]));
    // Nothing is owed any more.
    drop(a.say.take());
    assert!(b.next().await.is_none());
}

#[tokio::test]
async fn a_pass_that_both_leave_is_followed_by_the_next() {
    let office = Office::open();
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    for party in [&mut a, &mut b] {
        assert_eq!(party.count().await, (0, 1));
        office.list(party, 1, &[4]).await;
    }
    assert_eq!((a.count().await, b.count().await), ((1, 1), (1, 1)));
}

#[tokio::test]
async fn a_party_that_leaves_after_the_count_ends_it_without_a_word() {
    // The gate has closed between the parties, who know why.
    let office = Office::open();
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
    drop(b);
    assert!(a.next().await.is_none());
}

#[tokio::test]
async fn a_party_that_leaves_before_is_named_to_the_other() {
    let office = Office::open();
    let [mut a, b] = [office.call("a").await, office.call("b").await];
    office.list(&a, 0, &[1, 2]).await;
    let announced = Announced { study: office.study, run: RUN, pass: 0, tags: 7 };
    b.say(Asked::List(announced)).await;
    drop(b);
    a.dismissed(Exit::Unreachable, "the coordinator's line to bob is lost").await;
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
    a.say(Asked::Positions(0)).await;
    drop(b);
    a.dismissed(Exit::Unreachable, "the coordinator's line to bob is lost").await;
}

#[tokio::test]
async fn lists_that_cannot_be_merged_end_the_run_for_both() {
    let office = Office::open();
    for (tags, part) in
        [(vec![5, 4], "bob sent tags that do not ascend strictly"), (vec![4, 4], "bob sent tags that do not")]
    {
        let [mut a, mut b] = office.both(&[1, 2], &tags).await;
        a.dismissed(Exit::Peer, part).await;
        b.dismissed(Exit::Peer, part).await;
    }
    let announce = |pass, tags| Asked::List(Announced { study: office.study, run: RUN, pass, tags });
    for (asked, exit, part) in [
        (announce(0, 1_000 + DUMMIES + 1), Exit::Refused, "bob has a longer list than the study allows"),
        (announce(0, u64::MAX), Exit::Refused, "bob has a longer list than the study allows"),
        (announce(1, 3), Exit::Peer, "sent a list of another pass"),
    ] {
        let [mut a, mut b] = [office.call("a").await, office.call("b").await];
        office.list(&a, 0, &[1]).await;
        b.say(asked).await;
        a.dismissed(exit, part).await;
        b.dismissed(exit, part).await;
    }
    // Another pass of both.
    let [mut a, b] = [office.call("a").await, office.call("b").await];
    for party in [&a, &b] {
        party.say(announce(2, 1)).await;
    }
    a.dismissed(Exit::Peer, "another pass").await;
    // More than was announced.
    let [mut a, b] = [office.call("a").await, office.call("b").await];
    a.say(announce(0, 1)).await;
    b.say(announce(0, 1)).await;
    a.say(Asked::Part(vec![tag(1), tag(2)])).await;
    a.dismissed(Exit::Peer, "alice sent a longer list than was announced").await;
}

#[tokio::test]
async fn what_is_asked_out_of_place_ends_the_run() {
    let office = Office::open();
    let mut a = office.call("a").await;
    a.say(Asked::Positions(0)).await;
    a.dismissed(Exit::Peer, "alice sent something else than the length of a list").await;
    let mut a = office.call("a").await;
    let other = Announced { study: Digest([0; 32]), run: RUN, pass: 0, tags: 1 };
    a.say(Asked::List(other)).await;
    a.dismissed(Exit::Peer, "alice sent a list of another study").await;
    let mut a = office.call("a").await;
    a.say.as_ref().unwrap().send(Heard::Fault(PeerFault::Foreign { what: "run" })).await.unwrap();
    a.dismissed(Exit::Peer, "alice sent a message of another run").await;
    let mut carol = office.call("carol").await;
    carol.dismissed(Exit::Refused, "`carol` has no part in the match").await;
    for (first, second) in
        [(Asked::Positions(1), Asked::Positions(1)), (Asked::Positions(0), Asked::Part(vec![tag(9)]))]
    {
        let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
        assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
        a.say(first).await;
        b.say(second).await;
        a.dismissed(Exit::Peer, "did not ask for the same").await;
    }
    // The same pass again.
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    for party in [&mut a, &mut b] {
        party.count().await;
        office.list(party, 0, &[1]).await;
    }
    a.dismissed(Exit::Peer, "another pass").await;
}

#[tokio::test]
async fn only_parties_of_one_run_meet_and_the_newest_line_of_a_party_stands_for_it() {
    let office = Office::open();
    let [mut old, mut a, mut b] = [office.call("a").await, office.call("a").await, office.call("b").await];
    let announced = |run| Asked::List(Announced { study: office.study, run, pass: 0, tags: 0 });
    old.say(announced(RunId([1; 16]))).await;
    b.say(announced(RUN)).await;
    assert!(timeout(Duration::from_millis(50), b.heard.recv()).await.is_err());
    a.say(announced(RUN)).await;
    assert!(old.next().await.is_none());
    assert_eq!((a.count().await, b.count().await), ((0, 0), (0, 0)));
}

#[test]
fn other_studies_have_no_merger() {
    let folder = tempfile::tempdir().unwrap();
    let direct = study(KEYS);
    assert!(matches!(start(&direct, folder.path()), Ok(None)));
    assert!(matches!(start(&study("protocol = \"linked\""), folder.path()), Ok(None)));
}
