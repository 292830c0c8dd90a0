use proptest::prelude::*;

use super::*;
use crate::data::Marks;
use crate::data::matching::{Date, Format};

fn text() -> Source {
    Source { column: "c".to_owned(), reading: Reading::Text, missing: Marks::default() }
}

fn of(kind: Kind, source: &Source, cell: &str) -> Canonical {
    canonical(&Key { name: "k".to_owned(), kind }, source, cell.as_bytes())
}

fn name_of(cell: &str) -> Canonical {
    of(Kind::Name { fold: Fold::Plain }, &text(), cell)
}

fn value(text: &str) -> Canonical {
    Canonical::Value(text.to_owned())
}

/// Expected: `unicodedata` and `str.casefold` of Python 3, by the steps of the specification.
#[test]
fn names_are_compared_without_case_accents_spaces_and_punctuation() {
    for (cell, plain, german) in [
        ("  O'Neill-Smith jr. ", "oneillsmithjr", "oneillsmithjr"),
        ("Müller", "muller", "mueller"),
        ("Mu\u{308}ller", "muller", "mueller"),
        ("MÜLLER", "muller", "mueller"),
        ("Mueller", "mueller", "mueller"),
        ("Strauß", "strauss", "strauss"),
        ("STRAUẞ", "strauss", "strauss"),
        ("Søren Ærø", "sorenaero", "sorenaero"),
        ("Łukasz Đorđe", "lukaszdorde", "lukaszdorde"),
        ("İpek Işık", "ipekisik", "ipekisik"),
        ("Þór Sigurðsson", "thorsigurdsson", "thorsigurdsson"),
        ("Jos\u{e9}", "jose", "jose"),
        ("Jose\u{301}", "jose", "jose"),
        ("Nguyễn Văn", "nguyenvan", "nguyenvan"),
        ("ＡＢＣ　１２", "abc12", "abc12"),
        ("ﬁona", "fiona", "fiona"),
        ("Œuvre", "oeuvre", "oeuvre"),
        ("Ǖnal", "unal", "unal"),
        ("Пётр", "петр", "петр"),
        ("Ὀδυσσεύς", "οδυσσευσ", "οδυσσευσ"),
        // Vowels of Indic scripts are marks, and stay.
        ("कीर्ति", "कीर्ति", "कीर्ति"),
        ("이영희", "이영희", "이영희"),
    ] {
        assert_eq!(name_of(cell), value(plain), "{cell}");
        assert_eq!(of(Kind::Name { fold: Fold::German }, &text(), cell), value(german), "{cell}");
    }
    assert_eq!(name_of("---"), Canonical::Invalid);
    assert_eq!(name_of(""), Canonical::Missing);
    assert_eq!(name_of(" NA "), Canonical::Missing);
    let key = Key { name: "k".to_owned(), kind: Kind::Name { fold: Fold::Plain } };
    assert_eq!(canonical(&key, &text(), b"M\xfcller"), Canonical::Invalid);
}

#[test]
fn identifiers_keep_their_zeros_and_no_number_is_made_of_them() {
    let identifier = |cell| of(Kind::Identifier { length: None }, &text(), cell);
    for (cell, expected) in
        [("007", "007"), ("7", "7"), ("ab-12 c", "AB12C"), ("1e5", "1E5"), ("1.0", "10"), ("ßa", "SSA"), ("é1", "É1")]
    {
        assert_eq!(identifier(cell), value(expected));
    }
    assert_ne!(identifier("007"), identifier("7"));
    assert_eq!(identifier("e\u{301}1"), identifier("\u{e9}1"));
    let eleven = |cell| of(Kind::Identifier { length: Some([11, 11]) }, &text(), cell);
    assert_eq!(eleven("123-456 789.01"), value("12345678901"));
    assert_eq!(eleven("1234567890"), Canonical::Invalid);
    assert_eq!(eleven("123456789012"), Canonical::Invalid);
    // A place-holder is a value unless the party says that it is none.
    assert_eq!(eleven("99999999999"), value("99999999999"));
    let missing = Marks::new(&["99999999999".to_owned()], None).unwrap();
    let source = Source { missing, ..text() };
    assert_eq!(of(Kind::Identifier { length: None }, &source, " 99999999999 "), Canonical::Missing);
}

#[test]
fn dates_are_read_in_the_declared_format_alone() {
    let day = |text: &str| Some(text.parse::<Date>().unwrap());
    let read = |format: &str, cell: &str| {
        let source = Source { reading: Reading::Date(format.parse::<Format>().unwrap()), ..text() };
        of(Kind::Date { earliest: day("1890-01-01"), latest: day("2024-12-31") }, &source, cell)
    };
    for (format, cell) in [
        ("%d.%m.%Y", "31.01.1970"),
        ("%d.%m.%Y", " 31.1.1970 "),
        ("%Y-%m-%d", "1970-01-31"),
        ("%m/%d/%Y", "01/31/1970"),
        ("%Y%m%d", "19700131"),
        ("%d%m%Y", "31011970"),
        ("%Y年%m月%d日", "1970年1月31日"),
        ("%Y-%m-%d", "1970-01-31T00:00:00"),
    ] {
        assert_eq!(read(format, cell), value("1970-01-31"), "{format} {cell}");
    }
    for (format, cell) in [
        ("%d.%m.%Y", "31.02.1970"),
        ("%d.%m.%Y", "31.01.70"),
        ("%d.%m.%Y", "1970-01-31"),
        ("%d.%m.%Y", "01/31/1970"),
        ("%m/%d/%Y", "31/01/1970"),
        ("%d.%m.%Y", "31.01.1970 00:00"),
        ("%Y-%m-%d", "1970-01-31T23:00:00"),
        ("%Y-%m-%d", "1970-01-31T00:00:00Z"),
        ("%d.%m.%Y", "031.01.1970"),
        ("%d.%m.%Y", "31.01.19700"),
        ("%d.%m.%Y", "31.12.1889"),
        ("%d.%m.%Y", "01.01.2025"),
        ("%Y%m%d", "1970131"),
        ("%Y%m%d", "19701 31"),
        ("%d.%m.%Y", "+1.01.1970"),
        ("%d.%m.%Y", "soon"),
    ] {
        assert_eq!(read(format, cell), Canonical::Invalid, "{format} {cell}");
    }
    assert_eq!(read("%d.%m.%Y", ""), Canonical::Missing);
    for format in ["%d.%m.%y", "%d.%m", "%d.%m.%Y.%d", "%d.%m.%Y %H", "%", "", "%d1%m%Y"] {
        assert!(format.parse::<Format>().is_err(), "{format}");
    }
}

#[test]
fn codes_are_declared_levels_or_own_words_for_them() {
    let levels = || Kind::Code { levels: vec!["female".to_owned(), "male".to_owned()] };
    let map = [("w", "female"), ("1", "male")].map(|(own, level)| (own.to_owned(), level.to_owned()));
    let source = Source { reading: Reading::Code(map.into_iter().collect()), ..text() };
    for (cell, expected) in [("w", value("female")), (" 1 ", value("male")), ("male", value("male"))] {
        assert_eq!(of(levels(), &source, cell), expected);
    }
    for cell in ["W", "2", "Female", "f\u{e9}"] {
        assert_eq!(of(levels(), &source, cell), Canonical::Invalid);
    }
    assert_eq!(of(levels(), &text(), "male"), value("male"));
}

#[test]
fn the_versions_are_those_of_unicode() {
    assert!(unicode().iter().all(|version| (15..100).contains(&(version >> 16))), "{:?}", unicode());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: prop::test_runner::RngSeed::Fixed(14), ..ProptestConfig::default() })]

    #[test]
    fn any_cell_has_a_canonical_form_or_none_and_the_form_of_ascii_is_that_of_any_text(cell in ".{0,30}", ascii in "[ -~]{0,30}") {
        for fold in [Fold::Plain, Fold::German] {
            let _ = of(Kind::Name { fold }, &text(), &cell);
            // A letter that forces the long way and leaves no trace.
            prop_assert_eq!(name(&ascii, fold), name(&format!("{ascii}\u{300}"), fold));
        }
        prop_assert_eq!(identifier(&ascii), identifier(&format!("{ascii}\u{2028}")));
    }

    #[test]
    fn names_do_not_depend_on_normal_form_or_case(cell in "[a-zA-ZäöüÄÖÜéèñçøåßłŁ '-]{0,20}") {
        let composed: String = cell.nfc().collect();
        let decomposed: String = cell.nfd().collect();
        for fold in [Fold::Plain, Fold::German] {
            prop_assert_eq!(name(&composed, fold), name(&decomposed, fold));
            prop_assert_eq!(name(&composed, fold), name(&composed.to_uppercase(), fold));
        }
    }
}
