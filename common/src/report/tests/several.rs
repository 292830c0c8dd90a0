//! Reports of several parties: merged in the study's order, a colour each, and who learnt what from whom.

use crate::data::matching::alignment::PassRecord;
use crate::fit::Coefficient;
use crate::glm::Family;
use crate::id::Role;
use crate::methods::vertical::report::layout;
use crate::report::merge::{MergeError, merge_all};
use crate::report::{Disclosure, MatchReport, PerParty, Report};

fn order() -> Vec<Role> {
    ["carol", "alice", "bob"].map(|name| name.parse().unwrap()).to_vec()
}

/// What each of three parties reports: the whole table, as all are shown it.
fn own() -> Vec<Report> {
    let row = |(at, role): (usize, Role)| {
        Coefficient::new(format!("of_{role}"), role, Some(1.0 + at as f64), Some(0.5), Family::Gaussian, 9.0)
    };
    let table: Vec<Coefficient> = order().into_iter().enumerate().map(row).collect();
    let report = |(at, role): (usize, Role)| Report {
        role: Some(role),
        parties: order(),
        coefficients: table.clone(),
        rounds: 4 + at as u32,
        bytes_sent: PerParty::Own(100 * (at as u64 + 1)),
        disclosure: PerParty::Own(Disclosure {
            vectors: 7 + at as u64,
            rank: 2,
            declared: if at == 0 { Vec::new() } else { vec!["basis".to_string()] },
            ..Disclosure::default()
        }),
        notes: vec!["the same everywhere".to_string(), format!("of {role}")],
        ..Report::default()
    };
    order().into_iter().enumerate().map(report).collect()
}

fn merged(reports: &[Report]) -> Result<Report, MergeError> {
    merge_all(&reports.iter().collect::<Vec<_>>())
}

#[test]
fn reports_of_several_parties_merge_in_the_studys_order() {
    let all = merged(&own()).unwrap();
    let terms: Vec<&str> = all.coefficients.iter().map(|row| row.term.as_str()).collect();
    assert_eq!((terms, all.role, all.rounds), (vec!["of_carol", "of_alice", "of_bob"], None, 6));
    let [carol, alice, bob] = order()[..] else { panic!("three") };
    let sent = [carol, alice, bob].map(|role| *all.bytes_sent.of(role).unwrap());
    assert_eq!(sent, [100, 200, 300]);
    assert_eq!(all.notes, ["the same everywhere", "of carol", "of alice", "of bob"]);

    let mut reports = own();
    reports.swap(1, 2);
    assert_eq!(merged(&reports), Err(MergeError::Role { expected: alice, came: Some(bob) }));
    assert_eq!(merged(&own()[..2]), Err(MergeError::Count { expected: 3, came: 2 }));
    let mut reports = own();
    reports[2].run = "another".to_string();
    let sentence = merged(&reports).unwrap_err().to_string();
    assert_eq!(sentence, "the reports differ in run: carol has ``, bob has `another`");
}

#[test]
fn each_of_several_parties_has_a_colour_and_a_row_of_what_it_learnt() {
    let all = merged(&own()).unwrap();
    let (text, page) = (layout(&all).text(), layout(&all).html());
    for line in [
        "      from carol from alice     from bob",
        "carol -          singly, rank 2 singly, rank 2",
        "alice in sums    -              in sums",
        "bob   in sums    in sums        -",
    ] {
        assert!(text.contains(line), "{text}");
    }
    for legend in ["<span class=\"p0\"><span class=\"swatch\"></span> carol</span>", "class=\"p1\"", "class=\"p2\""] {
        assert!(page.contains(legend), "{legend}");
    }
    assert!(page.contains("8 vectors, each singly, of rank 2, and its column space"));
    assert!(page.contains("sums, 7 vectors in all") && page.contains("what is in the sums of carol"));
    assert!(page.contains("merged report of all parties"));
    // An own report knows what left itself, and no more.
    let own = layout(&own()[1]).text();
    assert!(own.contains("carol -          singly, rank 2 singly"), "{own}");
}

#[test]
fn all_that_opens_of_several_parties_in_private_mode_is_noised_and_opens_to_all() {
    let mut reports = own();
    reports.iter_mut().for_each(|report| report.mode = crate::study::Mode::Private);
    let all = merged(&reports).unwrap();
    let (text, page) = (layout(&all).text(), layout(&all).html());
    for line in ["carol -           noised sums noised sums", "bob   noised sums noised sums -"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(page.contains("noised sums over its columns, and over these with those of every other party"), "{page}");
    assert!(page.contains("and sends them to all") && !page.contains("singly"), "{page}");
}

#[test]
fn what_each_of_several_parties_learnt_in_a_match_is_said_once_and_with_whom_it_matched() {
    let [carol, alice, bob] = order()[..] else { panic!("three") };
    let pass = |with: Option<Role>, name: &str, matched: u64| PassRecord {
        name: name.to_string(),
        with,
        own_eligible: 200,
        peer_eligible: 190,
        matched,
        ..PassRecord::default()
    };
    let own_of = |role: Role| MatchReport {
        run: "1".to_string(),
        protocol: "direct".to_string(),
        rows: 200,
        matched: 120,
        leader: Some(carol),
        passes: match role == carol {
            true => vec![
                pass(Some(alice), "pid", 130),
                pass(Some(alice), "name", 30),
                pass(Some(bob), "pid", 112),
                pass(Some(bob), "name", 28),
            ],
            false => vec![pass(None, "pid", 130), pass(None, "name", 30)],
        },
    };
    let mut reports = own();
    for report in &mut reports {
        report.matching = report.role.map(|role| PerParty::Own(own_of(role)));
    }
    let all = merged(&reports).unwrap();
    let (text, page) = (layout(&all).text(), layout(&all).html());
    for line in [
        "Rows that all parties have: 120 (match by direct)",
        "took part: 160 of alice, 140 of bob",
        "carol learnt which entries of several passes are one row of a party, and not which row",
        "which of its own rows are among the 120 that all have",
        "of the 200 rows of bob 80 are not in all tables",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
        assert!(page.contains(line) || line.starts_with("Rows"), "{line}");
    }
    assert!(text.contains("carol alice pid") && text.contains("bob   carol pid"), "{text}");
    let follower = own_of(bob).text(bob);
    assert!(follower.contains("carol learnt which 160 of its own rows bob has too"), "{follower}");
}
