use super::MatchProtocol;
use crate::study::{Study, Vertical};

const HEAD: &str = r#"
    id = "s"
    [outcome]
    column = "y"
    [parties.alice]
    certificate = "a"
    columns = ["x"]
    [parties.bob]
    certificate = "b"
    columns = ["z"]
"#;
const DIRECT: &str = r#"
    [match]
    membership = "disclosed"
    max_rows = { alice = 1000, bob = 1000 }
    [match.keys]
    pid = { kind = "identifier", length = [1, 11] }
    surname = { kind = "name", fold = "german" }
    birth = { kind = "date", earliest = "1890-01-01" }
    sex = { kind = "code", levels = ["f", "m"] }
    [[match.pass]]
    name = "pid"
    keys = ["pid"]
    [[match.pass]]
    name = "name"
    keys = ["surname:4", "birth:year", "sex"]
"#;
const LINKED: &str = "[match]\nprotocol = \"linked\"\nmembership = \"disclosed\"\n";

fn parse(more: &str) -> Result<Study<Vertical>, String> {
    Study::parse(&format!("{HEAD}{more}")).map(|study| study.vertical().unwrap()).map_err(|error| error.to_string())
}

#[test]
fn a_study_with_keys_and_passes_parses_and_one_with_a_linkage_table_too() {
    let study = parse(DIRECT).unwrap();
    let terms = study.head.matching.as_ref().unwrap();
    assert_eq!((terms.min_matched, terms.min_pass, terms.pass.len(), terms.keys.len()), (100, 10, 2, 4));
    assert_eq!((terms.least(false), terms.least(true)), (100, 100));
    let study = parse(&format!("{LINKED}min_matched = 5\nmin_matched_predict = 1\n")).unwrap();
    let terms = study.head.matching.as_ref().unwrap();
    assert_eq!((terms.least(false), terms.least(true)), (5, 1));
    assert!(parse("").unwrap().head.matching.is_none());
}

#[test]
fn what_does_not_fit_together_is_refused_with_its_key() {
    let swapped = |from: &str, to: &str| {
        let text = DIRECT.replacen(from, to, 1);
        assert_ne!(text, DIRECT, "{from}");
        parse(&text).unwrap_err()
    };
    for (from, to, said) in [
        ("membership = \"disclosed\"", "", "missing field `membership`"),
        ("\"disclosed\"", "\"hidden\"", "unknown value `hidden`"),
        ("membership", "protocol = \"hidden\"\nmembership", "unknown value `hidden`"),
        (
            "max_rows = { alice = 1000, bob = 1000 }",
            "",
            "`match.max_rows` must state the largest table of alice and of bob",
        ),
        ("bob = 1000", "bob = 5000000000", "`match.max_rows` is 5000000000"),
        ("[1, 11]", "[11, 1]", "key `pid`: `length` must be two ascending numbers"),
        (
            "kind = \"name\"",
            "kind = \"code\", levels = [\"a\"]",
            "`match.keys.surname.fold` has no place in a key of kind `code`",
        ),
        ("1890-01-01", "1890-02-30", "`match.keys.birth.earliest` is wrong: `1890-02-30` is not a day"),
        (
            "earliest = \"1890-01-01\"",
            "earliest = \"1890-01-01\", latest = \"1880-01-01\"",
            "`earliest` is behind `latest`",
        ),
        (", levels = [\"f\", \"m\"]", "", "key `sex`: a code needs `levels`"),
        ("[\"f\", \"m\"]", "[\"f\", \"f\"]", "a level is there twice"),
        ("name = \"name\"", "name = \"pid\"", "pass `pid` is there twice"),
        ("[\"pid\"]", "[\"pod\"]", "pass `pid` has the key `pod`, which is not declared; did you mean `pid`?"),
        ("[\"pid\"]", "[]", "there are no parts of a pass"),
        ("[\"pid\"]", "[\"pid\", \"pid\"]", "the key is in this pass twice"),
        ("[\"pid\"]", "[\"pid:year\"]", "only a date has a year"),
        ("surname:4", "surname:0", "pass `name` has the part `surname:0`"),
        (", \"sex\"", "", "no pass compares the key `sex`"),
        ("max_rows", "reused = [\"age\"]\nmax_rows", "`match.reused` names `age`"),
        (
            "max_rows",
            "capacity = { alice = 5 }\nmax_rows",
            "`match.capacity` must state the length of alice's and of bob's list",
        ),
        ("max_rows", "min_matched = 0\nmax_rows", "`match.min_matched` must be at least 1"),
        ("max_rows", "min_match = 5\nmax_rows", "unknown key `min_match`; did you mean `min_matched`?"),
    ] {
        let error = swapped(from, to);
        assert!(error.contains(said), "{from} -> {to}: {error}");
    }
    let both = parse(&format!("{DIRECT}\n[rows]\nid = \"pid\"\n")).unwrap_err();
    assert!(both.starts_with("`rows.id` has no place beside `[match]`"), "{both}");
    let keys = parse(&DIRECT.replacen("membership", "protocol = \"linked\"\nmembership", 1)).unwrap_err();
    assert!(keys.contains("has no place beside match.protocol = \"linked\""), "{keys}");
    let sites = Study::parse(&format!(
        "id = \"s\"\nprotocol = \"robust\"\n[outcome]\ncolumn = \"y\"\n[model]\nfeatures = [\"x\"]\n[workers.a]\ncertificate = \"a\"\n{LINKED}"
    ));
    assert!(sites.unwrap_err().to_string().contains("`match` has no place in"));
}

#[test]
fn the_digest_of_a_match_is_that_of_what_decides_it_and_of_nothing_else() {
    let digest = |text: &str| parse(text).unwrap().match_digest().unwrap();
    let own = digest(DIRECT);
    assert_eq!(digest(&format!("{DIRECT}\n[fit]\ntol = 1e-6\n[inference]\nallowed = false\n")), own);
    let head = |from: &str, to: &str| {
        let text = format!("{HEAD}{DIRECT}").replacen(from, to, 1);
        Study::parse(&text).unwrap().vertical().unwrap()
    };
    assert_eq!(head("[\"x\"]", "[\"x\", \"w\"]").match_digest(), Some(own), "another formula needs no new match");
    for (from, to) in [
        ("id = \"s\"", "id = \"t\""),
        ("certificate = \"b\"", "certificate = \"c\""),
        ("surname:4", "surname:5"),
        ("max_rows", "min_matched = 7\nmax_rows"),
        ("\"german\"", "\"german\" }\nother = { kind = \"name\""),
    ] {
        let text = match to.contains("other") {
            true => format!("{HEAD}{DIRECT}").replacen("\"sex\"]", "\"sex\", \"other\"]", 1),
            false => format!("{HEAD}{DIRECT}"),
        };
        let study = Study::parse(&text.replacen(from, to, 1)).unwrap_or_else(|error| panic!("{to}: {error}"));
        assert_ne!(study.vertical().unwrap().match_digest(), Some(own), "{to}");
    }
    let sealed = format!("mode = \"sealed\"\n{HEAD}{DIRECT}");
    assert_ne!(Study::parse(&sealed).unwrap().vertical().unwrap().match_digest(), Some(own), "another mode");
    assert!(parse("").unwrap().match_digest().is_none());
}

#[test]
fn a_protocol_is_known_by_its_word() {
    for protocol in [MatchProtocol::Direct, MatchProtocol::Linked, MatchProtocol::Coordinator] {
        assert_eq!(MatchProtocol::of_word(protocol.name()), Some(protocol));
    }
    assert_eq!(MatchProtocol::of_word("hidden"), None);
}
