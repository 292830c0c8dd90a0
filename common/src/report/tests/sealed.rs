//! Reports of sealed fits.

use super::*;
use crate::methods::vertical::report::sealed::size_in_words;

/// The two parties' own reports of a sealed fit of ten columns.
fn sealed() -> (Report, Report) {
    let (mut alice, mut bob) = pair();
    let opened = |what: &str, size: [u64; 2], numbers: u64, to: Role| Opened {
        what: what.into(),
        rows: size[0],
        columns: size[1],
        numbers,
        unknowns: 2210,
        to,
    };
    for report in [&mut alice, &mut bob] {
        report.mode = Mode::Sealed;
        report.rounds = 1;
        report.trace.clear();
        report.certificate = PerParty::Own(None);
    }
    let declared: Vec<String> = vec!["masked columns".into(), "cross-products of both blocks".into()];
    alice.disclosure = PerParty::Own(Disclosure {
        vectors: 0,
        rank: 0,
        declared: declared.clone(),
        columns: Vec::new(),
        opened: vec![opened("bob's part of the solution with its covariance, and two sums", [5, 7], 37, Role::Bob)],
    });
    bob.disclosure = PerParty::Own(Disclosure {
        vectors: 0,
        rank: 0,
        declared,
        columns: vec![
            ColumnDisclosure { term: "s1".into(), share: 0.321 },
            ColumnDisclosure { term: "s2".into(), share: 0.97 },
        ],
        opened: vec![opened("cross-products of both blocks", [6, 5], 30, Role::Alice)],
    });
    (alice, bob)
}

#[test]
fn where_the_table_opened_to_both_a_report_says_that_the_second_party_has_it() {
    let (mut alice, bob) = sealed();
    let (PerParty::Own(first), PerParty::Own(second)) = (&mut alice.disclosure, &bob.disclosure) else { panic!() };
    first.opened.extend(second.opened.iter().cloned().map(|table| Opened { to: Role::Bob, ..table }));
    let shown = text(&merge(&alice, &bob).unwrap()).split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "of alice's columns bob learns how they relate to its own and, where it holds it, to the outcome";
    assert!(shown.contains(says) && !shown.contains("how well they together"), "{shown}");
}

#[test]
fn a_sealed_report_says_first_what_it_rests_on_then_what_opened_then_what_could_be_predicted() {
    let (alice, bob) = sealed();
    let shown = text(&merge(&alice, &bob).unwrap());
    let expected = "\
Ended:     converged (one exchange)
Privacy:   sealed: no value of a row left in a readable form, and only declared tables opened; this
           rests on a peer that follows the protocol and on a dealer that colludes with neither
           party
           alice: opened to bob: bob's part of the solution with its covariance, and two sums (37
                  numbers beside 2,210 unknown values)
           alice: of alice's columns bob learns how well they together explain its own, and how its
                  own relate to alice's column means and, where it holds the outcome, to alice's
                  part of the linear predictor (else to what alice's columns leave of it)
           bob: opened to alice: cross-products of both blocks (6 x 5: 30 numbers beside 2,210
                unknown values)
           bob: alice could predict, from the columns of alice and what opened (R squared): s2
                (.970), s1 (.321)
Left:      alice: 37 numbers that opened, 35,412 bytes in all; declared: masked columns,
                  cross-products of both blocks
           bob: 30 numbers that opened, 28,340 bytes in all; declared: masked columns,
                cross-products of both blocks
";
    assert!(shown.contains(expected), "{shown}");
    assert!(shown.contains("\nOne exchange, without rounds\n"), "{shown}");
    for report in [&alice, &bob] {
        let own = text(report);
        assert!(own.contains("Privacy:   sealed: no value of a row left"), "{own}");
    }
}

#[test]
fn a_size_is_told_only_where_it_is_how_many_numbers_opened() {
    let words = |size: [u64; 2], numbers: u64| {
        let (what, [rows, columns]) = (String::new(), size);
        size_in_words(&Opened { what, rows, columns, numbers, unknowns: 1, to: Role::Bob })
    };
    assert_eq!(words([6, 5], 30), "6 x 5: 30 numbers");
    assert_eq!(words([5, 7], 37), "37 numbers");
    assert_eq!(words([1, 1], 1), "1 number");
    let (alice, bob) = sealed();
    let page = html(&merge(&alice, &bob).unwrap());
    assert!(page.contains("6 x 5") && !page.contains("5 x 7"), "{page}");
}

#[test]
fn a_page_of_a_private_fit_behind_masks_lists_what_opened_and_what_the_dealer_knows() {
    let (mut alice, _) = pair();
    (alice.mode, alice.termination) = (Mode::Private, Termination::FixedRounds);
    alice.privacy = PerParty::Own(Some(account("noised table", 3.0, 2)));
    alice.disclosure = PerParty::Own(Disclosure {
        vectors: 0,
        rank: 0,
        declared: vec!["masked columns".into()],
        columns: Vec::new(),
        opened: Vec::new(),
    });
    let page = html(&alice);
    assert!(page.contains("Opened with noise") && page.contains("The dealer of the masks"), "{page}");
    for wrong in ["Rank disclosed", "rounds and byte counts, and no data"] {
        assert!(!page.contains(wrong), "{wrong}: {page}");
    }
}

#[test]
fn degrees_of_freedom_that_nobody_knows_are_left_out() {
    let (mut alice, _) = pair();
    alice.statistics.df_residual = None;
    let shown = text(&alice);
    let residual = shown.lines().find(|line| line.starts_with("Residual deviance:")).unwrap();
    assert!(!residual.contains("degrees of freedom") && shown.contains("degrees of freedom"), "{shown}");
}

#[test]
fn a_sealed_report_has_no_words_of_an_exchange_of_vectors() {
    let (alice, bob) = sealed();
    let merged = merge(&alice, &bob).unwrap();
    for report in [&alice, &bob, &merged] {
        let page = html(report);
        for shown in [text(report), page.clone()] {
            for word in ["reconstruct", "No privacy", "vector", "ank disclosed", "none:", "rounds of", "round)"] {
                assert!(!shown.contains(word), "{word}: {shown}");
            }
        }
        assert!(page.contains("The fit follows from one table: there is no course."), "{page}");
        assert!(!page.contains("Not recorded in this run"), "{page}");
    }
    let page = html(&merged);
    for said in ["Who saw what", "<strong>Sealed: </strong>", "Unknown values", "6 x 5", "2,210", "could predict"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(
        page.find("colludes with neither party") < page.find("Numbers that opened"),
        "what it rests on comes first"
    );
}

#[test]
fn a_sealed_fit_that_is_led_by_gradients_says_how_many_opened_and_shows_their_course_where_they_did() {
    let (mut alice, mut bob) = sealed();
    for report in [&mut alice, &mut bob] {
        (report.family, report.rounds) = (StatedFamily::Binomial, 3);
    }
    let point = |round, certificate| TracePoint { round, certificate, change: 0.1, objective: f64::NAN };
    alice.trace = vec![point(1, 1e-2), point(2, 1e-5), point(3, 1e-9)];
    for report in [&alice, &bob] {
        let shown = text(report);
        assert!(shown.contains("(3 gradients") && shown.contains("\nNumber of gradients that opened: 3\n"), "{shown}");
        assert!(!shown.contains("ne exchange"), "{shown}");
    }
    assert!(html(&alice).contains("at which one opened to alice"));
    assert!(html(&bob).contains("Not known on this side: the gradients opened to alice."));
}

#[test]
fn r_squared_of_a_fit_by_gradients_counts_cross_products_alone_and_is_called_no_upper_bound() {
    let (_, mut bob) = sealed();
    let words = |shown: String| shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let says = "this is no upper bound: the gradients and the weighted cross-products of a binomial fit, and what follows from them, let alice \
                predict more";
    for shown in [text(&bob), html(&bob)] {
        assert!(!words(shown.clone()).contains("upper bound"), "{shown}");
    }
    (bob.family, bob.rounds) = (StatedFamily::Binomial, 3);
    for shown in [text(&bob), html(&bob)] {
        let shown = words(shown);
        assert!(shown.contains(says) && shown.contains("the cross-products of both blocks alone"), "{shown}");
    }
}

#[test]
fn what_opened_is_in_the_json_of_sealed_reports_and_in_no_other() {
    let (alice, bob) = sealed();
    let merged = merge(&alice, &bob).unwrap();
    let json: Value = serde_json::from_str(&to_json(&merged)).unwrap();
    assert_eq!(
        json["disclosure"]["bob"]["opened"],
        json!([{ "what": "cross-products of both blocks", "rows": 6, "columns": 5, "numbers": 30, "unknowns": 2210, "to": "alice" }])
    );
    assert_eq!(parse(&to_json(&merged)).unwrap(), merged);
    let (alice, bob) = pair();
    assert!(!to_json(&merge(&alice, &bob).unwrap()).contains("opened"), "reports without it are what they were");
}

#[test]
fn the_page_of_a_sub_model_begins_with_what_it_is_and_sends_the_reader_to_the_run() {
    let (mut alice, _) = sealed();
    assert!(html(&alice).contains("what opened, stands under") && html(&alice).contains("<h2>Time and memory</h2>"));
    let dropped = vec![Dropped { term: "s1".into(), party: Role::Bob }];
    alice.refit = Some(Refit { run: "00ff".into(), dropped, numbers_sent: 0, charged: 0.0 });
    let page = html(&alice);
    assert!(page.contains("<main><section class=\"notes\"><h2>Sub-model</h2><p>Sub-model of run 00ff"), "{page}");
    assert!(
        page.contains("Left out: s1 (bob).") && page.contains("what opened in it, stands in its own report"),
        "{page}"
    );
    assert!(!page.contains("Time and memory") && !page.contains("stands under"), "{page}");
}
