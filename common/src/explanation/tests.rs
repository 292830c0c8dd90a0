use super::*;
use crate::privacy::release::Declaration;
use crate::study::{Mechanism, Vertical, VerticalGuarantee};

/// The chapter whose table has the cells that explanations quote.
const MODES: &str = include_str!("../../../docs/modes.md");

const TWO: &str = "id = \"two\"\n[parties.alice]\ncertificate = \"north.example\"\ncolumns = [\"a\", \"b\"]\n[parties.bob]\n\
                   certificate = \"south.example\"\ncolumns = [\"c\"]\n[coordinator]\ncertificate = \"registry.example\"\n";
const THREE: &str = "id = \"three\"\nleader = \"carol\"\n[parties.carol]\ncertificate = \"x\"\ncolumns = [\"a\", \"b\"]\n\
                     [parties.dave]\ncertificate = \"y\"\ncolumns = [\"c\"]\n[parties.erin]\ncertificate = \"z\"\nformula = \"~ log(d)\"\n";
const BOTH: &str = "[outcome]\ncolumn = \"y\"\n";
const RANGES: &str = "[columns]\na = { range = [0, 1] }\nb = { range = [0, 1] }\nc = { range = [0, 1] }\nd = { range = [0, 1] }\ny = { range = [0, 1] }\n";
const MATCH: &str = "[match]\nmembership = \"disclosed\"\nmax_rows = { alice = 9, bob = 9 }\n[match.keys]\nid = { kind = \"identifier\" }\n\
                     [[match.pass]]\nname = \"id\"\nkeys = [\"id\"]\n";

fn study(head: &str, rest: &str) -> Study {
    Study::parse(&format!("{head}{rest}")).unwrap_or_else(|error| panic!("{error}\n{head}{rest}"))
}

fn private(mechanism: &str) -> String {
    format!("{RANGES}[privacy]\nepsilon = 3\nmechanism = \"{mechanism}\"\n")
}

fn site(protocol: &str, mode: &str, rest: &str) -> Study {
    let privacy = if mode == "private" { "[privacy]\nepsilon = 1\ndelta = 1e-5\n" } else { "" };
    study(
        &format!("id = \"sites\"\nprotocol = \"{protocol}\"\nmode = \"{mode}\"\n"),
        &format!(
            "[workers.north]\ncertificate = \"n\"\n[workers.south]\ncertificate = \"s\"\n[model]\nfeatures = [\"a\", \"b\"]\n{rest}{RANGES}{privacy}"
        ),
    )
}

/// A study of every kind that there is.
fn all() -> Vec<Study> {
    let mode = |mode: &str, head: &str| format!("mode = \"{mode}\"\n{head}");
    let several = THREE.replace("formula = \"~ log(d)\"", "columns = [\"d\"]");
    let alone = "[outcome]\ncolumn = \"y\"\nheld_by = \"alice\"\n";
    let mut studies = Vec::new();
    for family in ["gaussian", "binomial", "poisson"] {
        let family = format!("[model]\nfamily = \"{family}\"\n");
        for outcome in [BOTH, alone] {
            for rows in ["", MATCH] {
                studies.push(study(TWO, &format!("{outcome}{family}{rows}")));
                studies.push(study(&mode("sealed", TWO), &format!("{outcome}{family}{rows}")));
            }
        }
        studies.push(study(THREE, &format!("{BOTH}{family}")));
    }
    studies.push(study(TWO, &format!("{BOTH}[penalty]\nlambda = \"path\"\n")));
    studies.push(study(TWO, &format!("{BOTH}{}", MATCH.replace("[match]", "[match]\nprotocol = \"coordinator\""))));
    studies.push(study(TWO, &format!("{BOTH}[match]\nmembership = \"disclosed\"\nprotocol = \"linked\"\n")));
    studies.push(study(
        TWO,
        &format!("{BOTH}[rows]\nmissing = \"complete-cases\"\n[weights]\ncolumn = \"w\"\nheld_by = \"alice\"\n"),
    ));
    studies.push(study(&mode("sealed", TWO), &format!("{BOTH}[model]\nfamily = \"binomial\"\n[sealed]\nrange = 8\n")));
    studies.push(study(
        &mode("sealed", TWO),
        &format!("{BOTH}[sealed]\nopens = \"both\"\n[dealer]\ncertificate = \"d\"\n"),
    ));
    studies.push(study(&mode("sealed", THREE), BOTH));
    studies.push(study(&mode("sealed", THREE), &format!("{BOTH}[sealed]\nopens = \"all\"\n")));
    studies.push(study(&mode("private", TWO), &format!("{BOTH}{}", private("residual"))));
    studies.push(study(&mode("private", TWO), &format!("{alone}{}", private("crossprod"))));
    studies
        .push(study(&mode("private", TWO), &format!("{BOTH}[model]\nfamily = \"binomial\"\n{}", private("crossprod"))));
    studies.push(study(&mode("private", &several), &format!("{BOTH}{}", private("crossprod"))));
    let outcome = BOTH;
    for mode in ["plain", "private"] {
        studies.push(site("robust", mode, outcome));
        studies.push(site("em", mode, "[em]\nmodel = \"gmm\"\nsigma = 1\ntau = 2\n"));
        studies.push(site("features", mode, outcome));
        studies.push(site("features", mode, &format!("{outcome}[features]\nrelease = \"output\"\n")));
        studies.push(site("stream", mode, outcome));
    }
    studies
}

#[test]
fn every_study_that_there_is_has_an_explanation_without_gaps() {
    let studies = all();
    assert!(studies.len() > 35);
    for study in studies {
        let about = study.explanation();
        let name = format!("{} {} {}", about.protocol.name(), about.mode.name(), about.model);
        let lists = [
            &about.protected,
            &about.assumes,
            &about.breaks,
            &about.counted,
            &about.matching,
            &about.prediction,
            &about.result,
            &about.unknown,
        ];
        assert!(lists.iter().all(|list| !list.is_empty()), "{name}");
        let sentences = lists.into_iter().flatten();
        assert!(sentences.clone().all(|sentence| sentence.len() > 10 && !sentence.ends_with('.')), "{name}: {lists:?}");
        assert!(about.members.len() >= 2, "{name}");
        for member in &about.members {
            assert!(!member.holds.is_empty() && !member.learns.is_empty(), "{name}: {member:?}");
            for leaves in &member.leaves {
                let Leaves { what, to, reveals } = leaves;
                assert!(
                    !what.is_empty() && !to.is_empty() && !reveals.is_empty(),
                    "{name}: {}: {leaves:?}",
                    member.name
                );
                assert!(*to != member.name, "{name}: {}: {leaves:?}", member.name);
            }
        }
        // Whoever holds data sends something, and nobody else does.
        let coordinator = about.members.iter().find(|member| member.name == "coordinator").unwrap();
        assert!(coordinator.leaves.is_empty() && !about.members[0].leaves.is_empty(), "{name}");
        assert!(about.text().lines().all(|line| line.chars().count() <= 160), "{name}");
    }
}

#[test]
fn what_a_party_declares_is_what_its_explanation_lists() {
    for study in all() {
        let about = study.explanation();
        let Some(study) = study.vertical() else { continue };
        match study.guarantee {
            VerticalGuarantee::Private(_) => continue,
            VerticalGuarantee::Plain | VerticalGuarantee::Sealed(_) => {}
        }
        for role in study.parties_in_order() {
            let member = about.members.iter().find(|member| member.name == role.name()).unwrap();
            for declared in study.disclosures(role).declared() {
                let name = declared.name_among(study.is_of_several());
                assert!(member.leaves.iter().any(|leaves| leaves.what == name), "{role}: {name}");
            }
        }
    }
}

#[test]
fn where_a_dealer_hands_out_masks_the_explanation_says_that_it_must_collude_with_nobody() {
    for study in all() {
        let about = study.explanation();
        let dealt = study.vertical().is_some_and(|study| study.is_dealt());
        let (assumes, breaks) = (about.assumes.join("\n"), about.breaks.join("\n"));
        assert_eq!(assumes.contains("colludes with"), dealt, "{assumes}");
        assert_eq!(breaks.contains("a dealer that colludes with a party"), dealt, "{breaks}");
        let knows =
            about.members.iter().filter(|member| member.learns.iter().any(|line| line.contains("seeds of all masks")));
        assert_eq!(knows.count(), usize::from(dealt), "{}", about.model);
    }
    let apart =
        study(&format!("mode = \"sealed\"\n{TWO}"), &format!("{BOTH}[dealer]\ncertificate = \"d\"\n")).explanation();
    let names: Vec<&str> = apart.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["alice", "bob", "coordinator", "dealer"]);
    assert!(apart.assumes.iter().any(|line| line == "of the dealer: that it colludes with neither party"));
}

#[test]
fn plain_mode_is_called_what_it_is() {
    let about = study(TWO, BOTH).explanation();
    assert!(
        about.protected.iter().any(|line| line.contains("against the other party: nothing")),
        "{:?}",
        about.protected
    );
    let learns = &about.members[1].learns[0];
    assert!(
        learns.contains("of a column of alice: after as many rounds as there are columns, the whole column space"),
        "{learns}"
    );
    let stream = site("stream", "plain", BOTH).explanation();
    assert!(stream.members[0].leaves.iter().any(|leaves| leaves.reveals.starts_with("the record:")));
}

#[test]
fn the_cells_of_the_books_table_of_modes_are_the_words_of_explanations() {
    let table: Vec<&str> = MODES.lines().filter(|line| line.starts_with('|')).collect();
    let row = |head: &str| *table.iter().find(|line| line.contains(head)).unwrap_or_else(|| panic!("no row {head}"));
    let plain = study(TWO, BOTH).vertical().unwrap().guarantee;
    let sealed = study(&format!("mode = \"sealed\"\n{TWO}"), BOTH).vertical().unwrap().guarantee;
    let of = |mechanism: &str| {
        study(&format!("mode = \"private\"\n{TWO}"), &format!("{BOTH}{}", private(mechanism)))
            .vertical()
            .unwrap()
            .guarantee
    };
    for guarantee in [plain, sealed, of("residual"), of("crossprod")] {
        let facts = ModeFacts::of(&guarantee);
        for (head, words) in [
            ("in a sentence", facts.sentence),
            ("values of a row that leave readably", facts.readable),
            ("what the other side can learn of a column", facts.learnt),
            ("assumes of the other party", facts.of_party),
            ("assumes of the coordinator", facts.of_coordinator),
            ("kind of guarantee", facts.kind),
            ("counted over runs", facts.counted),
        ] {
            assert!(row(head).contains(words), "{head}: {words}\n{}", row(head));
        }
    }
    for rests in [Rests::Two, Rests::Several] {
        assert!(rests.on().contains("dealer that colludes with"));
    }
}

#[test]
fn private_studies_are_explained_by_the_promise_of_their_reports() {
    let two = study(&format!("mode = \"private\"\n{TWO}"), &format!("{BOTH}{}", private("residual"))).explanation();
    let protected = two.protected.join("\n");
    for words in
        ["protected: one person's row in this party's block", "they may break the protocol", "epsilon 3 at the delta"]
    {
        assert!(protected.contains(words), "{words}: {protected}");
    }
    let shares = study(&format!("mode = \"private\"\n{TWO}"), &format!("{BOTH}{}", private("crossprod"))).explanation();
    assert!(shares.protected.join("\n").contains("as long as they follow the protocol"), "{:?}", shares.protected);
    let sites = site("robust", "private", BOTH);
    let promise = sites.clone().sites().unwrap().site_promise().unwrap().promise;
    assert!(promise.iter().all(|line| sites.explanation().protected.contains(line)));
}

#[test]
fn a_page_fetches_and_runs_nothing_and_names_are_shown_as_names() {
    let head = TWO.replace("id = \"two\"", "id = \"<script>alert(1)</script>\"");
    let head = head.replace("\"c\"", "\"<img src=http://x>\"");
    for about in all().iter().map(Study::explanation).chain([study(&head, BOTH).explanation()]) {
        let page = about.html();
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"));
        for forbidden in ["<script", "<img", "<link", "src=\"", "url(", "@import"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains(&about.study_digest));
        let words = page.replace("<code>", "`").replace("</code>", "`");
        for sentence in about.assumes.iter().chain(&about.protected) {
            let escaped = sentence[1..].replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(words.contains(&escaped), "{sentence}");
        }
    }
}

#[test]
fn an_explanation_of_a_sealed_study_names_what_opens_to_each() {
    let learns = |head: &str, more: &str, at: usize| {
        let about = study(&format!("mode = \"sealed\"\n{head}"), more).explanation();
        about.members[at].learns.join("\n")
    };
    let binomial = format!("{BOTH}[model]\nfamily = \"binomial\"\n");
    let poisson = format!("{BOTH}[model]\nfamily = \"poisson\"\n");
    let all = format!("{BOTH}[sealed]\nopens = \"all\"\n");
    let depend = "only where ";
    let cases: [(&str, &str, usize, &[&str]); 8] = [
        (TWO, BOTH, 0, &["the other party's part of the intercept and of its variance", depend]),
        (
            TWO,
            BOTH,
            1,
            &["two sums of squares", "column means", "part of the linear predictor", "a single column", depend],
        ),
        (TWO, &binomial, 0, &["the sum of the losses at the end", "the outcome's product", "no upper bound", depend]),
        (TWO, &binomial, 1, &["the intercept there", "how many digits", "with its covariance: how well", depend]),
        (TWO, &poisson, 1, &["bits of the largest outcome"]),
        (THREE, BOTH, 0, &["the means of its columns", depend]),
        (THREE, BOTH, 1, &["the column means of carol", "to the rest of the linear predictor", depend]),
        (
            THREE,
            &all,
            1,
            &["the tables of cross-products of every two", "its own part of the solution", "other party stay"],
        ),
    ];
    for (head, more, at, says) in cases {
        let learns = learns(head, more, at);
        assert!(says.iter().all(|says| learns.contains(says)), "{at} {more} {says:?}: {learns}");
    }
    assert!(!learns(TWO, &binomial, 1).contains("two sums of squares"));
    assert!(!learns(TWO, &format!("{BOTH}[penalty]\nlambda = 0.1\n"), 1).contains(depend));
    let sealed = study(&format!("mode = \"sealed\"\n{TWO}"), BOTH).vertical().unwrap();
    let reveals = Reveals::of(&sealed, crate::id::Role::Alice, false).cross_products();
    assert!(reveals.contains("column means") && reveals.contains("part of the linear predictor"), "{reveals}");
}

#[test]
fn names_are_code_on_a_page_unless_one_has_a_backtick() {
    for study in all() {
        let page = study.explanation().html();
        assert!(!page.contains('`'), "{page}");
    }
    let outcome = |name: &str| study(TWO, &BOTH.replace("\"y\"", &format!("\"{name}\""))).explanation().html();
    assert!(outcome("stay").contains("of <code>stay</code> on columns"), "{}", outcome("stay"));
    assert!(outcome("st`ay").contains("of `st`ay` on columns"), "{}", outcome("st`ay"));
}

#[test]
fn errors_are_promised_only_where_a_fit_has_some() {
    let result = |head: &str, more: &str| study(&format!("{head}{TWO}"), &format!("{BOTH}{more}")).explanation().result;
    assert!(result("", "")[0].ends_with(", with standard errors"));
    assert!(result("", "[penalty]\nlambda = 0.1\n")[0].ends_with(", without standard errors"));
    let counts = format!("[model]\nfamily = \"poisson\"\n{}", private("crossprod"));
    assert!(result("mode = \"private\"\n", &counts)[0].ends_with(", without standard errors"));
    assert!(result("mode = \"private\"\n", &private("crossprod"))[0].ends_with(", with standard errors"));
}

#[test]
fn check_and_explanation_say_the_same_of_what_leaves() {
    let plain: Study<Vertical> = study(TWO, BOTH).vertical().unwrap();
    let reveals = Reveals::of(&plain, crate::id::Role::Bob, false);
    let about = study(TWO, BOTH).explanation();
    let leaves = &about.members[1].leaves;
    let of = |what: &str| leaves.iter().find(|leaves| leaves.what == what).unwrap().reveals.as_str();
    assert_eq!(of("partial predictions"), reveals.declared(Declaration::PartialPrediction));
    let terms = study(&format!("mode = \"private\"\n{TWO}"), &format!("{BOTH}{}", private("crossprod"))).explanation();
    let share = terms.members[0].leaves.iter().find(|leaves| leaves.what == NoisedKind::Share.name()).unwrap();
    assert_eq!(share.reveals, NoisedKind::Share.reveals(false));
    assert_eq!(Mechanism::default(), Mechanism::Residual);
}

/// Three parties of a plain study, of which another than the leader holds the outcome alone.
fn of_three(family: &str, more: &str) -> Explanation {
    let outcome = format!("[outcome]\ncolumn = \"y\"\nheld_by = \"dave\"\n[model]\nfamily = \"{family}\"\n");
    study(&format!("mode = \"plain\"\n{THREE}"), &format!("{outcome}{more}")).explanation()
}

fn member<'a>(about: &'a Explanation, name: &str) -> &'a Member {
    about.members.iter().find(|member| member.name == name).unwrap()
}

/// To whom a kind of value of a party goes; empty where none leaves.
fn to<'a>(about: &'a Explanation, name: &str, what: &str) -> &'a str {
    let leaves = member(about, name).leaves.iter().find(|leaves| leaves.what == what);
    leaves.map_or("", |leaves| leaves.to.as_str())
}

#[test]
fn everybody_who_gets_a_column_that_one_of_several_holds_alone_is_told_of_it() {
    let learns = |about: &Explanation, name: &str| member(about, name).learns.join("\n");
    let every = "the outcome of every row";
    for family in ["binomial", "poisson"] {
        let more = "[weights]\ncolumn = \"w\"\nheld_by = \"erin\"\n[offset]\ncolumn = \"o\"\nheld_by = \"dave\"\n";
        let about = of_three(family, more);
        assert_eq!(to(&about, "dave", "outcome"), "carol, who sends it on to all others");
        assert_eq!(to(&about, "carol", "outcome"), "erin");
        assert_eq!(to(&about, "erin", "weights"), "carol, who sends it on to all others");
        assert_eq!(to(&about, "carol", "weights"), "dave");
        assert_eq!(to(&about, "dave", "offset"), "carol, whose partial predictions to all others contain it");
        assert!(learns(&about, "carol").contains(every) && learns(&about, "erin").contains(every));
        assert!(!learns(&about, "dave").contains(every) && learns(&about, "dave").contains("the weight of every row"));
        assert!(!learns(&about, "erin").contains("the weight of every row"));
    }
    // A gaussian outcome goes on in sums, and says no less.
    let about = of_three("gaussian", "");
    assert_eq!(to(&about, "dave", "outcome"), "carol, whose partial predictions to all others contain it");
    assert_eq!(to(&about, "carol", "outcome, in predictions"), "erin");
    assert!(learns(&about, "carol").contains(every) && !learns(&about, "erin").contains(every));
    let within = "the outcome, which the partial predictions of carol contain: with the first one the outcome";
    assert!(learns(&about, "erin").contains(within) && !learns(&about, "dave").contains("the outcome"));
    // That of the leader goes to both.
    let outcome = "[outcome]\ncolumn = \"y\"\nheld_by = \"carol\"\n[model]\nfamily = \"binomial\"\n";
    let about = study(&format!("mode = \"plain\"\n{THREE}"), outcome).explanation();
    assert_eq!(to(&about, "carol", "outcome"), "each of the others");
    assert!(["dave", "erin"].iter().all(|name| learns(&about, name).contains(every)));
    // Of two parties the other.
    let about = study(&format!("mode = \"plain\"\n{TWO}"), &outcome.replace("carol", "alice")).explanation();
    assert!(learns(&about, "bob").contains(every) && !learns(&about, "alice").contains(every));
}

#[test]
fn what_comes_back_to_its_holder_is_no_disclosure() {
    let two = "mode = \"plain\"\nid = \"two\"\nleader = \"north\"\n[parties.north]\ncertificate = \"x\"\ncolumns = [\"a\"]\n\
               [parties.south]\ncertificate = \"y\"\ncolumns = [\"b\"]\n[outcome]\ncolumn = \"y\"\nheld_by = \"south\"\n";
    for more in [
        "",
        "[model]\nfamily = \"binomial\"\n",
        "[model]\nfamily = \"poisson\"\n[weights]\ncolumn = \"w\"\nheld_by = \"south\"\n",
        "[penalty]\nlambda = \"path\"\n[offset]\ncolumn = \"o\"\nheld_by = \"south\"\n",
    ] {
        let about = study(two, more).explanation();
        assert_eq!(to(&about, "south", "outcome"), "north", "{more}");
        let north = &member(&about, "north").leaves;
        let back = ["outcome", "outcome, in predictions", "weights", "offset"];
        assert!(north.len() >= 2 && !north.iter().any(|leaves| back.contains(&leaves.what.as_str())), "{north:?}");
    }
}

#[test]
fn errors_from_residuals_are_said_to_need_a_table_of_their_own() {
    let second = "squared residuals times products";
    let table = |head: &str, at: usize, errors: &str| {
        let about = study(&format!("mode = \"plain\"\n{head}"), &format!("{BOTH}{errors}")).explanation();
        let leaves = &about.members[at].leaves;
        leaves.iter().find(|leaves| leaves.what.starts_with("projection table")).unwrap().reveals.clone()
    };
    for (head, at) in [(TWO, 1), (THREE, 0)] {
        assert!(!table(head, at, "").contains(second));
        for more in ["", "when = \"after\"\n"].into_iter().filter(|more| head == TWO || more.is_empty()) {
            let words = table(head, at, &format!("[inference]\nerrors = \"HC3\"\n{more}"));
            assert!(words.contains(second), "{words}");
        }
    }
}

#[test]
fn a_family_has_its_own_name_in_an_explanation() {
    for family in ["gaussian", "binomial", "poisson", "quasibinomial", "quasipoisson"] {
        let about = study(&format!("mode = \"plain\"\n{TWO}"), &format!("{BOTH}[model]\nfamily = \"{family}\"\n"));
        let model = about.explanation().model;
        assert!(model.starts_with(&format!("one {family} regression of")), "{model}");
    }
}
