use super::*;

fn name(name: &str) -> Key {
    Key { name: name.to_owned(), kind: Kind::Name { fold: Fold::Plain } }
}

fn birth() -> Key {
    Key { name: "birth".to_owned(), kind: Kind::Date { earliest: None, latest: None } }
}

fn pass(name: &str, parts: &[&str]) -> (String, Vec<String>) {
    (name.to_owned(), parts.iter().map(ToString::to_string).collect())
}

#[test]
fn parts_are_read_as_a_study_writes_them() {
    let keys = Keys::new(
        vec![name("surname"), birth()],
        &[pass("all", &["surname", "birth"]), pass("weak", &["birth:year", "surname:3"])],
    )
    .unwrap();
    assert_eq!(keys.passes()[0].parts, [Part { key: 0, cut: Cut::Whole }, Part { key: 1, cut: Cut::Whole }]);
    assert_eq!(keys.passes()[1].parts, [Part { key: 1, cut: Cut::Year }, Part { key: 0, cut: Cut::First(3) }]);
}

#[test]
fn what_does_not_fit_together_is_refused_by_its_name() {
    let refused = |keys: Vec<Key>, passes: &[(String, Vec<String>)]| Keys::new(keys, passes).unwrap_err().to_string();
    let two = || vec![name("surname"), birth()];
    for (part, words) in [
        ("surnam", "did you mean `surname`"),
        ("surname:0", "from 1 to 256"),
        ("surname:+1", "from 1 to 256"),
        ("surname:year", "only a date"),
        ("birth:4", ":year"),
        ("surname:1:2", "from 1 to 256"),
    ] {
        let sentence = refused(two(), &[pass("p", &["birth:year", part])]);
        assert!(sentence.contains(words), "{sentence}");
    }
    let sentences = [
        refused(two(), &[]),
        refused(vec![], &[pass("p", &["surname"])]),
        refused(two(), &[pass("p", &[])]),
        refused(two(), &[pass("p", &["surname"])]),
        refused(two(), &[pass("p", &["surname", "birth", "surname:1"])]),
        refused(two(), &[pass("p", &["surname", "birth"]), pass("p", &["birth"])]),
        refused(vec![name("surname"), name("surname")], &[pass("p", &["surname"])]),
        refused(vec![name("a:b")], &[pass("p", &["a:b"])]),
    ];
    let words =
        ["no pass;", "no keys;", "parts of a pass", "`birth`", "twice", "pass `p` is there", "key `surname`", "`a:b`"];
    for (sentence, words) in sentences.iter().zip(words) {
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn kinds_that_no_value_can_have_are_refused() {
    let day = |text: &str| Some(text.parse::<Date>().unwrap());
    for kind in [
        Kind::Identifier { length: Some([0, 3]) },
        Kind::Identifier { length: Some([4, 3]) },
        Kind::Identifier { length: Some([1, 1000]) },
        Kind::Date { earliest: day("2000-01-02"), latest: day("2000-01-01") },
        Kind::Code { levels: vec![] },
        Kind::Code { levels: vec!["a".to_owned(), "a".to_owned()] },
        Kind::Code { levels: vec![" a".to_owned()] },
    ] {
        let key = Key { name: "k".to_owned(), kind };
        assert!(matches!(Keys::new(vec![key], &[pass("p", &["k"])]), Err(KeysError::Kind { .. })));
    }
}

#[test]
fn days_are_those_of_the_calendar() {
    for text in ["1970-01-31", "2000-02-29", "1896-02-29", "0001-01-01", "9999-12-31"] {
        assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
    }
    for text in ["1900-02-29", "2001-02-29", "2000-02-31", "2000-13-01", "2000-00-10", "2000-01-00", "0000-01-01"] {
        assert!(text.parse::<Date>().is_err(), "{text}");
    }
    for text in ["70-01-31", "1970-1-31", "1970-01-311", "+970-01-31", "1970-01", "", "1970/01/31", "1970-01-3é"] {
        assert!(text.parse::<Date>().is_err(), "{text}");
    }
}
