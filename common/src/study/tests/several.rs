//! Studies of several parties: who stands first, what is said for whom, and what is refused by key.

use super::{vertical, written};
use crate::id::Role;
use crate::privacy::release::Declaration;
use crate::study::{Study, StudyError, Vertical};

const THREE: &str = r#"
    id = "three-institutions"
    [outcome]
    column = "y"
    [parties.bob]
    certificate = "bob"
    columns = ["b"]
    [parties.carol]
    certificate = "carol"
    formula = "~ log(c) + d"
    [parties.alice]
    certificate = "alice"
    columns = ["a"]
"#;

fn role(name: &str) -> Role {
    name.parse().unwrap()
}

fn complaint(text: &str) -> String {
    let error = Study::parse(text).unwrap_err();
    let sentence = error.to_string();
    assert!(!sentence.contains('\n'), "{sentence}");
    sentence
}

/// Parties with a column each.
fn parties(names: &[String]) -> String {
    let party = |name: &String| format!("[parties.{name}]\ncertificate = \"{name}\"\ncolumns = [\"x_{name}\"]\n");
    let sections: String = names.iter().map(party).collect();
    format!("id = \"x\"\n[outcome]\ncolumn = \"y\"\n{sections}")
}

fn named(names: &[&str]) -> String {
    parties(&names.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn with(more: &str) -> String {
    format!("{more}\n{THREE}")
}

#[test]
fn the_leader_is_named_or_holds_the_outcome_or_is_the_first_by_name() {
    let order = |text: &str| vertical(text).parties_in_order().iter().map(Role::to_string).collect::<Vec<_>>();
    assert_eq!(order(THREE), ["alice", "bob", "carol"]);
    assert_eq!(order(&with("leader = \"carol\"")), ["carol", "alice", "bob"]);
    let held = THREE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"bob\"");
    assert_eq!(order(&held), ["bob", "alice", "carol"]);
    assert_eq!(order(&format!("leader = \"bob\"\n{held}")), order(&held));
    assert_eq!(order(&named(&["zoe", "carol"])), ["carol", "zoe"]);
    let study = vertical(&held);
    assert!(study.is_of_several() && study.leader_of_several() == Some(Role::Bob) && study.first() == Role::Bob);
    assert_eq!(study.others(Role::Alice), [Role::Bob, role("carol")]);
    assert_eq!((study.peer(role("carol")), study.result_to()), (Role::Bob, Role::Bob));
}

#[test]
fn blocks_stand_in_the_order_that_the_study_states() {
    let study = vertical(&with("order = [\"alice\", \"carol\", \"bob\"]"));
    assert_eq!(study.parties_in_order(), [Role::Alice, role("carol"), Role::Bob]);
    assert_eq!((study.place(Role::Bob), study.others(role("carol"))), (2, vec![Role::Alice, Role::Bob]));
    let by_name = vertical(&with("order = [\"alice\", \"bob\", \"carol\"]"));
    assert_eq!(by_name.parties_in_order(), vertical(THREE).parties_in_order());
    assert_ne!(by_name.digest(), study.digest());
    for (order, says) in [
        ("\"alice\", \"carol\"", "`order` must name every party once, and names bob 0 times"),
        ("\"alice\", \"carol\", \"bob\", \"carol\"", "`order` must name every party once, and names carol 2 times"),
        ("\"alice\", \"carol\", \"bob\", \"dave\"", "`order` names dave, which is no party of the study"),
        (
            "\"carol\", \"alice\", \"bob\"",
            "`order` begins with carol, and the first block is that of the leader, alice",
        ),
        ("\"alice\", \"Carol\", \"bob\"", "`order`: `Carol` is not the name of a party"),
    ] {
        assert!(complaint(&with(&format!("order = [{order}]"))).contains(says), "{says}");
    }
    let two = format!("order = [\"alice\", \"bob\"]\n{}", named(&["alice", "bob"]));
    assert!(complaint(&two).contains("`order` has no place in a study of alice and bob"), "{}", complaint(&two));
}

#[test]
fn two_parties_of_other_names_have_a_leader_and_are_two_as_alice_and_bob_are() {
    let two = vertical(&named(&["carol", "alice"]));
    assert!(!two.is_of_several() && two.leader_of_several().is_none() && two.leader() == Some(Role::Alice));
    assert_eq!(
        (two.first(), two.peer(Role::Alice), two.peer(role("carol"))),
        (Role::Alice, role("carol"), Role::Alice)
    );
    let led = vertical(&format!("leader = \"zoe\"\n{}", named(&["carol", "zoe"])));
    assert_eq!((led.first(), led.sender(), led.result_to()), (role("zoe"), role("zoe"), role("zoe")));
    let usual = vertical(&named(&["bob", "alice"]));
    assert!(!usual.is_of_several() && usual.leader().is_none() && usual.first() == Role::Alice);
    assert_eq!((usual.peer(Role::Bob), usual.peer(Role::Alice)), (Role::Alice, Role::Bob));
}

#[test]
fn what_follows_from_the_defaults_is_one_study_however_it_is_written() {
    let digest = |text: &str| Study::parse(text).unwrap().digest();
    assert_eq!(digest(THREE), digest(&with("leader = \"alice\"")));
    let all = THREE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"all\"");
    assert_eq!(digest(THREE), digest(&all));
    assert_ne!(digest(THREE), digest(&with("leader = \"bob\"")));
    assert_eq!(digest(THREE), digest(&written(THREE)));
    assert!(written(THREE).contains("held_by = \"all\"") && written(THREE).contains("leader = \"alice\""));
    assert!(!written(THREE).contains("sender"));
    // Of alice and bob the file says what it always said.
    let two = named(&["alice", "bob"]);
    assert_eq!(digest(&two), digest(&two.replace("column = \"y\"", "column = \"y\"\nheld_by = \"all\"")));
    assert!(written(&two).contains("held_by = \"both\"") && written(&two).contains("sender = \"alice\""));
    assert!(!written(&two).contains("leader"));
}

#[test]
fn the_digest_of_alice_and_bob_is_the_one_of_earlier_versions() {
    let two = named(&["alice", "bob"]);
    let digest = Study::parse(&two).unwrap().digest().to_string();
    assert_eq!(digest, "4a6f16784c48af61e72777e2db3f54ae10dde9652bc999c39711b068e2b45ad0");
    let held = two.replace("column = \"y\"", "column = \"y\"\nheld_by = \"alice\"");
    assert_eq!(
        Study::parse(&held).unwrap().digest().to_string(),
        "6acb1be17c2d405c1f990f7975aec1ddd4da60639ce4402ccf9fdb7eced9ec31"
    );
}

#[test]
fn a_number_of_parties_or_a_name_that_cannot_be_is_refused_by_key() {
    let names = |count: usize| (0..count).map(|at| format!("p{at:02}")).collect::<Vec<_>>();
    assert!(Study::parse(&parties(&names(16))).is_ok());
    for (text, says) in [
        (parties(&names(0)), "`parties` is missing: a vertical study is of two to 16"),
        (parties(&names(1)), "`parties` names one party: a vertical study is of two to 16"),
        (parties(&names(17)), "`parties` names 17 parties: a vertical study is of two to 16"),
        (named(&["alice", "Carol"]), "`parties`: `Carol` is not the name of a party; expected a lowercase letter"),
        (named(&["alice", "all"]), "`parties`: `all` is not the name of a party: it has a meaning of its own"),
        (named(&["alice", "worker"]), "`parties`: `worker` is not the name of a party: it has a meaning of its own"),
        (named(&["alice", "dealer"]), "`parties`: `dealer` is not the name of a party"),
        (with("leader = \"dave\""), "`leader` names dave, which is no party of the study"),
        (with("leader = \"Dave\""), "`leader`: `Dave` is not the name of a party"),
        (with("leader = \"both\""), "`leader`: `both` is not the name of a party: it has a meaning of its own"),
        (
            format!("leader = \"bob\"\n{}", named(&["alice", "bob"])),
            "`leader` has no place in a study of alice and bob",
        ),
        (THREE.replace("columns = [\"a\"]", ""), "`parties.alice` needs either `columns` or `formula`"),
        (
            THREE.replace("columns = [\"a\"]", "columns = [\"b\"]"),
            "`parties.bob.columns` names `b`, which alice has already",
        ),
        (THREE.replace("\"carol\"", "\"bob\""), "must have different certificate names for every party"),
    ] {
        assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
    }
    assert!(matches!(Study::parse(&named(&["alice", "alice"])), Err(StudyError::Parse(_))), "two of one name");
}

#[test]
fn a_column_that_one_party_holds_alone_is_the_leaders_or_in_plain_mode_anybodys() {
    let held = |section: &str, by: &str| {
        format!("leader = \"carol\"\n{THREE}\n[{section}]\ncolumn = \"w\"\nheld_by = \"{by}\"")
    };
    for section in ["offset", "weights"] {
        assert!(Study::parse(&held(section, "carol")).is_ok() && Study::parse(&held(section, "all")).is_ok());
        let study = vertical(&held(section, "bob"));
        assert!(
            study.first() == role("carol")
                && study.sent_to_leader().iter().all(|(_, holder, column)| {
                    *holder == Role::Bob
                        && column.column == "w"
                        && study.has(Role::Bob, column)
                        && !study.has(role("carol"), column)
                })
        );
        assert_eq!((study.sent_to_leader().len(), vertical(&held(section, "carol")).sent_to_leader().len()), (1, 0));
        let says = format!(
            "`{section}.held_by` names bob, and the leader is carol: in sealed mode no column leaves its holder, so what one party holds \
             alone is the leader's; set leader = \"bob\""
        );
        assert_eq!(complaint(&format!("mode = \"sealed\"\n{}", held(section, "bob"))), says);
        let says = format!("`{section}.held_by` names dave, which is no party of the study");
        assert_eq!(complaint(&held(section, "dave")), says);
    }
    let outcome = THREE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"bob\"");
    assert!(
        complaint(&format!("leader = \"carol\"\nmode = \"sealed\"\n{outcome}")).contains(
            "`outcome.held_by` names bob, and the leader is carol: in sealed mode no column leaves its holder"
        )
    );
    let nobody = outcome.replace("\"bob\"", "\"dave\"");
    let nobody =
        nobody.replace("[parties.bob]\n    certificate = \"dave\"", "[parties.bob]\n    certificate = \"bob\"");
    assert_eq!(complaint(&nobody), "`outcome.held_by` names dave, which is no party of the study");
    let two = named(&["alice", "bob"]).replace("column = \"y\"", "column = \"y\"\nheld_by = \"bob\"");
    assert_eq!(complaint(&two), "`outcome.held_by` names bob: it is \"both\" or \"alice\"");
    assert!(complaint(&outcome.replace("\"bob\"", "\"Bob\"")).contains("`held_by`: `Bob` is not the name of a party"));
}

#[test]
fn what_several_parties_cannot_do_is_refused_by_key() {
    for (more, says) in [
        ("[inference]\nsender = \"bob\"", "`inference.sender` names bob, and has no place among several parties"),
        (
            "[prediction]\nresult_to = \"bob\"",
            "`prediction.result_to` names bob, and among several parties only the leader, alice",
        ),
        ("[sealed]", "`sealed`"),
        ("[privacy]\nepsilon = 1", "`privacy`"),
    ] {
        let text = format!("{THREE}\n{more}");
        assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text));
    }
    assert!(Study::parse(&format!("{THREE}\n[prediction]\nresult_to = \"alice\"")).is_ok());
}

#[test]
fn sealed_mode_of_several_is_for_gaussian_fits_without_a_penalty() {
    let sealed = |more: &str| format!("mode = \"sealed\"\n{THREE}\n{more}");
    assert!(Study::parse(&sealed("")).is_ok());
    assert!(Study::parse(&sealed("[weights]\ncolumn = \"w\"\nheld_by = \"all\"")).is_ok());
    let opens = |more: &str| vertical(&sealed(more));
    assert!(opens("[sealed]\nopens = \"all\"").guarantee.opens_to_both());
    assert!(!opens("").guarantee.opens_to_both());
    assert_ne!(opens("[sealed]\nopens = \"all\"").digest(), opens("").digest());
    for (more, says) in [
        ("[model]\nfamily = \"binomial\"", "`model.family` is binomial: a sealed binomial fit is for two parties"),
        ("[model]\nfamily = \"poisson\"", "`model.family` is poisson: a sealed poisson fit is for two parties"),
        ("[penalty]\nlambda = 0.1", "`penalty` is given: a penalty in sealed mode is for two parties"),
        ("[sealed]\nopens = \"both\"", "`sealed.opens` is both, which is for two parties"),
        (
            "[model]\nfamily = \"binomial\"\n[sealed]\nopens = \"all\"",
            "`model.family` is binomial: a sealed binomial fit is for two parties",
        ),
        ("[penalty]\nlambda = 0.1\n[sealed]\nopens = \"all\"", "`penalty` is given: a penalty in sealed mode"),
        (
            "[weights]\ncolumn = \"w\"\nheld_by = \"alice\"",
            "`weights.held_by` is one party: in sealed mode all parties scale their rows by the weights",
        ),
    ] {
        assert!(complaint(&sealed(more)).contains(says), "{says}: {}", complaint(&sealed(more)));
    }
}

#[test]
fn two_parties_by_other_names_may_fit_what_alice_and_bob_may() {
    let two = named(&["alice", "carol"]);
    let bounds = "delta = 1e-6\n[columns.y]\nrange = [0, 1]\n[columns.x_alice]\nrange = [0, 1]\n[columns.x_carol]\nrange = [0, 1]\n";
    let crossprod = format!("[privacy]\nmechanism = \"crossprod\"\nepsilon = 1.0\n{bounds}");
    let residual = format!("[privacy]\nepsilon = 1.0\n{bounds}");
    let binomial = "[model]\nfamily = \"binomial\"\n";
    for (mode, more) in [
        ("sealed", binomial),
        ("sealed", "[penalty]\nlambda = 0.1"),
        ("sealed", "[sealed]\nopens = \"both\""),
        ("sealed", "[sealed]\nopens = \"all\""),
        ("sealed", "[sealed]\nopens = \"all\"\n[model]\nfamily = \"poisson\""),
        ("private", &residual),
        ("private", &crossprod),
        ("private", &format!("{binomial}{crossprod}")),
        ("plain", "[inference]\nsender = \"carol\"\ncovariance = \"shared\""),
        ("plain", "[prediction]\nresult_to = \"carol\""),
    ] {
        let study = format!("mode = \"{mode}\"\n{two}\n{more}");
        assert!(Study::parse(&study).is_ok(), "{:?}: {study}", Study::parse(&study).err());
    }
    // What one party holds alone is the leader's, who can be either.
    let alone = |leader: &str| {
        let held = two.replace("column = \"y\"", "column = \"y\"\nheld_by = \"carol\"");
        format!("leader = \"{leader}\"\nmode = \"private\"\n{held}\n{crossprod}")
    };
    assert!(Study::parse(&alone("carol")).is_ok());
    assert!(complaint(&alone("alice")).contains("set leader = \"carol\""), "{}", complaint(&alone("alice")));
    let study = format!("mode = \"sealed\"\n{two}\n[weights]\ncolumn = \"w\"\nheld_by = \"alice\"");
    let says = "is alice: in sealed mode both parties scale their rows";
    assert!(complaint(&study).contains(says), "{}", complaint(&study));
}

#[test]
fn followers_send_bases_to_the_leader_and_only_the_leader_sends_what_it_holds_alone() {
    let study = vertical(&with("leader = \"carol\""));
    let declares = |study: &Study<Vertical>, name: &str, what| study.disclosures(role(name)).allows(what);
    for (name, basis) in [("alice", true), ("bob", true), ("carol", false)] {
        assert_eq!(declares(&study, name, Declaration::Basis), basis, "{name}");
        assert_eq!(declares(&study, name, Declaration::ProjectionTable), !basis, "{name}");
        assert_eq!(declares(&study, name, Declaration::Prediction), basis, "{name}");
        assert!(!declares(&study, name, Declaration::Outcome));
    }
    let alone = THREE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"carol\"");
    let study =
        vertical(&format!("{alone}\n[model]\nfamily = \"poisson\"\n[weights]\ncolumn = \"w\"\nheld_by = \"carol\""));
    for name in ["alice", "bob", "carol"] {
        assert_eq!(declares(&study, name, Declaration::Outcome), name == "carol");
        assert_eq!(declares(&study, name, Declaration::Weights), name == "carol");
    }
    // What another than the leader holds alone goes to the leader, who says of it what it says of its own.
    let alone = THREE.replace("column = \"y\"", "column = \"y\"\nheld_by = \"bob\"");
    let study = vertical(&format!("leader = \"carol\"\n{alone}\n[offset]\ncolumn = \"o\"\nheld_by = \"alice\""));
    for (name, outcome, offset) in [("alice", false, true), ("bob", true, false), ("carol", false, false)] {
        assert_eq!(declares(&study, name, Declaration::Outcome), outcome, "{name}");
        assert_eq!(declares(&study, name, Declaration::Offset), offset, "{name}");
    }
    // No tables stand for rows among several parties, whatever is fitted.
    let path = vertical(&format!("{THREE}\n[penalty]\nlambda = \"path\""));
    assert!(!path.uses_tables() && !path.uses_basis());
    assert!(vertical(&format!("{}\n[penalty]\nlambda = \"path\"", named(&["alice", "bob"]))).uses_tables());
}

#[test]
fn several_parties_match_their_rows_directly_and_each_has_its_own_limit() {
    let section = "[match]\nmembership = \"disclosed\"\nmax_rows = { alice = 10, bob = 20, carol = 30 }\n[match.keys.name]\nkind = \"name\"\n\
                   [[match.pass]]\nname = \"n\"\nkeys = [\"name\"]\n";
    let text = format!("{THREE}\n{section}");
    let study = vertical(&text);
    let rules = study.head.matching.as_ref().unwrap().rules(false).unwrap();
    assert_eq!(["alice", "bob", "carol"].map(|name| rules.max_rows.of(role(name))), [10, 20, 30]);
    assert!(study.disclosures(Role::Bob).allows(Declaration::Membership));
    let digest = |text: &str| vertical(text).match_digest().unwrap();
    assert_eq!(digest(&text), digest(&text.replace("columns = [\"a\"]", "columns = [\"other\"]")));
    assert_ne!(digest(&text), digest(&format!("leader = \"bob\"\n{text}")), "another leader has other links");
    for (from, to, says) in [
        ("carol = 30", "dave = 30", "`match.max_rows` must state the largest table of every party: alice, bob, carol"),
        (", carol = 30", "", "`match.max_rows` must state the largest table of every party: alice, bob, carol"),
        ("carol = 30", "carol = 0", "`match.max_rows` is 0"),
        (
            "max_rows",
            "capacity = { alice = 10, bob = 10 }\nmax_rows",
            "`match.capacity` must state the length of every party's list, each at least 1: alice, bob, carol",
        ),
        (
            "max_rows",
            "protocol = \"coordinator\"\nmax_rows",
            "`match.protocol` is \"coordinator\", which is for two parties, alice and bob, so far: use protocol = \"direct\"",
        ),
        ("max_rows", "protocol = \"linked\"\nmax_rows", "`match.protocol` is \"linked\", which is for two parties"),
        ("[[match.pass]]", "[[match.pass]]\nname = \"m\"\nkeys = [\"name:3\"]\n[[match.pass]]", ""),
        (
            "[match.keys.name]",
            "capacity = { alice = 10, bob = 10, carol = 10 }\n[[match.pass]]\nname = \"m\"\nkeys = [\"name:3\"]\n[match.keys.name]",
            "`match.capacity` has no place beside more than one pass among several parties",
        ),
        ("[match]", "[rows]\nid = \"id\"\n[match]", "`rows.id` has no place beside `[match]`"),
    ] {
        let text = text.replace(from, to);
        match says {
            "" => assert!(Study::parse(&text).is_ok()),
            says => assert!(complaint(&text).contains(says), "{says}: {}", complaint(&text)),
        }
    }
    let sealed = format!("mode = \"sealed\"\n{text}");
    assert!(vertical(&sealed).disclosures(Role::Bob).allows(Declaration::Membership), "in sealed mode as well");
}
