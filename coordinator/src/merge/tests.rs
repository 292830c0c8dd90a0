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
    // The file with the positions has no name.
    let left: Vec<_> =
        std::fs::read_dir(office.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["merges.jsonl"]);
    // The next pass has lines of its own; those of the last one stay for as long as no party has left them.
    assert!(timeout(Duration::from_millis(50), b.heard.recv()).await.is_err());
    let [mut c, mut d] = [office.call("a").await, office.call("b").await];
    office.list(&c, 1, &[1, 5, 9]).await;
    assert!(a.next().await.is_none() && b.next().await.is_none());
    office.list(&d, 1, &[5, 7, 9]).await;
    for party in [&mut c, &mut d] {
        assert_eq!(party.count().await, (1, 2));
        party.say(Asked::Positions(1)).await;
    }
    assert_eq!((c.positions(2).await, d.positions(2).await), (vec![1, 2], vec![0, 2]));
    drop(c);
    assert!(d.next().await.is_none());
}

#[tokio::test]
async fn a_pass_that_both_leave_is_followed_by_the_next() {
    let office = Office::open();
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    for (party, name) in [(&mut a, "a"), (&mut b, "b")] {
        assert_eq!(party.count().await, (0, 1));
        *party = office.call(name).await;
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
async fn a_line_that_is_lost_ends_that_of_the_other_and_both_come_again_with_the_same_lists() {
    let office = Office::open();
    let (alice, bob) = ([1, 2, 3, 4], [2, 3, 5]);
    // In the middle of a list, behind both lists, and when one party has asked for positions.
    for place in 0..3 {
        let [mut a, mut b] = [office.call("a").await, office.call("b").await];
        office.list(&a, 0, &alice).await;
        match place {
            0 => b.say(Asked::List(Announced { study: office.study, run: RUN, pass: 0, tags: 3 })).await,
            _ => {
                office.list(&b, 0, &bob).await;
                assert_eq!((a.count().await, b.count().await), ((0, 2), (0, 2)));
            }
        }
        if place == 2 {
            a.say(Asked::Positions(0)).await;
        }
        drop(b);
        assert!(a.next().await.is_none(), "no word of it");
    }
    let [mut a, mut b] = office.both(&alice, &bob).await;
    for party in [&mut a, &mut b] {
        assert_eq!(party.count().await, (0, 2));
        party.say(Asked::Positions(0)).await;
    }
    assert_eq!((a.positions(2).await, b.positions(2).await), (vec![1, 2], vec![0, 1]));
}

#[tokio::test]
async fn a_newer_line_of_a_party_ends_what_is_done_on_its_older_one() {
    let office = Office::open();
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
    // Alice was started again, and nobody has noticed that her line is dead.
    let mut again = office.call("a").await;
    office.list(&again, 0, &[1, 2]).await;
    assert!(b.next().await.is_none());
    let mut b = office.call("b").await;
    office.list(&b, 0, &[2, 3]).await;
    assert_eq!((again.count().await, b.count().await), ((0, 1), (0, 1)));
}

#[tokio::test]
async fn another_list_in_the_same_pass_of_a_run_is_not_counted() {
    let office = Office::open();
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
    // A coordinator that was started again remembers it too.
    let callers = start(&study(&format!("protocol = \"coordinator\"\n{KEYS}")), office.folder.path()).unwrap().unwrap();
    let office = Office { callers, ..office };
    let [mut a, mut b] = office.both(&[1, 2], &[2, 4]).await;
    for party in [&mut a, &mut b] {
        party.dismissed(Exit::Peer, "bob sent another list than before in this pass of the run").await;
    }
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    assert_eq!((a.count().await, b.count().await), ((0, 1), (0, 1)));
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
    // Another list on the same line.
    let [mut a, mut b] = office.both(&[1, 2], &[2, 3]).await;
    for party in [&mut a, &mut b] {
        party.count().await;
        office.list(party, 1, &[]).await;
    }
    a.dismissed(Exit::Peer, "did not ask for the same").await;
}

#[tokio::test]
async fn only_parties_of_one_run_and_pass_meet_and_the_newest_line_of_a_party_stands_for_it() {
    let office = Office::open();
    let [mut old, a, mut b] = [office.call("a").await, office.call("a").await, office.call("b").await];
    let announced = |run| Asked::List(Announced { study: office.study, run, pass: 0, tags: 0 });
    old.say(announced(RunId([1; 16]))).await;
    b.say(announced(RUN)).await;
    assert!(timeout(Duration::from_millis(50), b.heard.recv()).await.is_err());
    a.say(Asked::List(Announced { study: office.study, run: RUN, pass: 1, tags: 0 })).await;
    assert!(old.next().await.is_none());
    assert!(timeout(Duration::from_millis(50), b.heard.recv()).await.is_err());
    let mut a = office.call("a").await;
    a.say(announced(RUN)).await;
    assert_eq!((a.count().await, b.count().await), ((0, 0), (0, 0)));
}

#[test]
fn other_studies_have_no_merger() {
    let folder = tempfile::tempdir().unwrap();
    let direct = study(KEYS);
    assert!(matches!(start(&direct, folder.path()), Ok(None)));
    assert!(matches!(start(&study("protocol = \"linked\""), folder.path()), Ok(None)));
}
