use super::*;
use crate::data::Marks;
use crate::data::matching::{BySide, Fold, Key};

fn source() -> Source {
    Source { column: "c".to_owned(), reading: Reading::Text, missing: Marks::default() }
}

fn column(cells: &[&str]) -> (Source, Cells) {
    let mut column = Cells::default();
    cells.iter().for_each(|cell| column.push(cell.as_bytes()));
    (source(), column)
}

fn keys(passes: &[&[&str]]) -> Keys {
    let key = |name: &str, kind| Key { name: name.to_owned(), kind };
    let passes: Vec<(String, Vec<String>)> = passes
        .iter()
        .enumerate()
        .map(|(at, parts)| (format!("p{at}"), parts.iter().map(ToString::to_string).collect()))
        .collect();
    let keys =
        vec![key("name", Kind::Name { fold: Fold::Plain }), key("number", Kind::Identifier { length: Some([1, 4]) })];
    Keys::new(keys, &passes).unwrap()
}

fn rules(keys: &Keys, duplicates: Duplicates) -> Rules {
    let max_rows = BySide::two(100, 100);
    Rules { keys: keys.clone(), duplicates, min_matched: 1, min_pass: 1, max_rows, capacity: None }
}

#[test]
fn every_record_is_eligible_ambiguous_missing_or_invalid_and_repeats_count_matched_records_too() {
    let keys = keys(&[&["name", "number"], &["name:1"]]);
    let names = ["Anna", "ANNA", "Bert", "", "Carl", "Dora", "", "Emil"];
    let numbers = ["1", "1", "2", "3", "12345", "4", "12345", "NA"];
    let records = Records::normalise(&keys, vec![column(&names), column(&numbers)]).unwrap();
    let none = Mask::new(8);
    let eligible = records.eligible(&keys.passes()[0], &none);
    assert_eq!(eligible.records, [2, 5]);
    assert_eq!(eligible.counts, OwnCounts { eligible: 2, ambiguous: 2, missing: 3, invalid: 1 });
    assert_eq!(eligible.first_repeat, Some([0, 1]));
    // Of four complete keys two are equal: a key that stands once is expected once in a table as large, and at most e^-1 is linked.
    assert_eq!(eligible.repeats, Repeats { records: 4, keys: [2, 1, 0] });
    assert!((eligible.expected_false_links(2) - 2.0 * 0.5 * (-0.5_f64).exp()).abs() < 1e-12);
    assert!((eligible.expected_false_links(30) - 2.0 * (-1.0_f64).exp()).abs() < 1e-12);
    // A record whose key a matched record has too stays ambiguous, or it would be linked to that record's partner.
    let mut matched = Mask::new(8);
    matched.set(0);
    matched.set(2);
    let later = records.eligible(&keys.passes()[1], &matched);
    assert_eq!(later.records, [4, 5, 7]);
    assert_eq!(later.counts, OwnCounts { eligible: 3, ambiguous: 1, missing: 2, invalid: 0 });
    assert_eq!(records.lacking(0), (2, 0));
    assert_eq!(records.lacking(1), (1, 2));
    assert_eq!(records.first_invalid(1), Some((4, "12345")));
    assert_eq!((records.value(0, 0), records.value(0, 3), records.value(9, 0)), (Some("anna"), None, None));
}

#[test]
fn records_whose_hashes_are_the_same_are_told_apart_by_their_keys() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(8);
    let cells: Vec<String> = (0..600).map(|_| rng.random_range(0..500_u32).to_string()).collect();
    let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
    let keys = keys(&[&["number"], &["name"]]);
    let records = Records::normalise(&keys, vec![column(&vec!["a"; 600]), column(&cells)]).unwrap();
    let mut matched = Mask::new(600);
    (0..600).step_by(7).for_each(|row| matched.set(row));
    let pass = &keys.passes()[0];
    let apart = records.eligible(pass, &matched);
    assert!(apart.repeats.keys.iter().all(|keys| *keys > 0), "{:?}", apart.repeats);
    let number = |row: u32| cells[row as usize].parse::<u64>().unwrap();
    for hash in [&(|_| 0_u64) as &(dyn Fn(u32) -> u64 + Sync), &|row| number(row) % 3, &|row| number(row) << 60] {
        assert!(records.eligible_by(pass, &matched, hash) == apart);
    }
}

#[test]
fn repeats_in_the_first_pass_are_refused_unless_the_study_excludes_them() {
    let keys = keys(&[&["name"], &["number"]]);
    let records = Records::normalise(&keys, vec![column(&["a", "b", "a"]), column(&["1", "1", "2"])]).unwrap();
    let at = |pass: usize| records.eligible(&keys.passes()[pass], &Mask::new(3));
    let sentence = at(0).refuse_repeats(&rules(&keys, Duplicates::Refuse), 0).unwrap_err().to_string();
    assert!(sentence.contains("2 records share") && sentence.contains("records 1 and 3"), "{sentence}");
    assert_eq!(at(0).refuse_repeats(&rules(&keys, Duplicates::Exclude), 0), Ok(()));
    assert_eq!(at(1).refuse_repeats(&rules(&keys, Duplicates::Refuse), 1), Ok(()));
}

#[test]
fn parts_are_cut_between_characters_and_kept_apart_in_a_message() {
    assert_eq!(cut("öab".as_bytes(), Cut::First(1)), "ö".as_bytes());
    assert_eq!(cut("öab".as_bytes(), Cut::First(9)), "öab".as_bytes());
    assert_eq!(cut(b"1970-01-31", Cut::Year), b"1970");
    let keys = keys(&[&["name", "number"], &["number", "name"], &["name:1", "number"]]);
    let records = Records::normalise(&keys, vec![column(&["ab", "a"]), column(&["c", "bc"])]).unwrap();
    let message = |pass: usize, record, digest: u8| {
        let mut message = Vec::new();
        records.messages(&keys.passes()[pass], &Digest([digest; 32])).write(record, &mut message);
        message
    };
    let all =
        [message(0, 0, 1), message(0, 1, 1), message(0, 0, 2), message(1, 0, 1), message(2, 0, 1), message(2, 1, 1)];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{at}");
    }
}

#[test]
fn columns_that_do_not_fit_their_keys_are_refused() {
    let keys = keys(&[&["name", "number"]]);
    let refused = |columns| Records::normalise(&keys, columns).unwrap_err();
    assert_eq!(refused(vec![column(&["a"])]), RecordsError::Columns { came: 1, expected: 2 });
    let short = refused(vec![column(&["a"]), column(&[])]);
    assert_eq!(short, RecordsError::Length { key: "number".to_owned(), came: 0, expected: 1 });
    let day = Source { reading: Reading::Date("%Y-%m-%d".parse().unwrap()), ..source() };
    let wrong = refused(vec![(day, column(&["a"]).1), column(&["1"])]);
    assert!(matches!(wrong, RecordsError::Reading { .. }), "{wrong}");
    let levels = Kind::Code { levels: vec!["a".to_owned()] };
    let map = Reading::Code([("x".to_owned(), "b".to_owned())].into_iter().collect());
    assert!(check_reading("k", &levels, &map).is_err());
    let date = Kind::Date { earliest: None, latest: None };
    assert!(check_reading("k", &date, &Reading::Text).unwrap_err().to_string().contains("format"));
}

#[test]
fn tables_without_records_or_with_one_have_an_answer() {
    let keys = keys(&[&["name", "number"]]);
    for names in [&[] as &[&str], &["a"]] {
        let records = Records::normalise(&keys, vec![column(names), column(names)]).unwrap();
        let eligible = records.eligible(&keys.passes()[0], &Mask::new(names.len()));
        assert_eq!(eligible.counts.eligible, names.len() as u64);
        assert_eq!(eligible.expected_false_links(1_000_000), 0.0);
    }
}

/// Keys of a small range, as two tables would have them: pairs of different persons with the same key, counted, against the expectation.
/// The count is close to Poisson with mean 270 at least; a deviation beyond a factor of 1.5 has a probability below 1e-13.
#[test]
fn expected_false_links_are_near_those_that_two_independent_tables_have() {
    use rand::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    let keys = keys(&[&["name", "number"]]);
    let mut table = |rows: usize| -> (Records, Eligible) {
        let cells: Vec<String> = (0..rows).map(|_| rng.random_range(0..100_000_u32).to_string()).collect();
        let names: Vec<&str> = cells.iter().map(String::as_str).collect();
        let ones = vec!["1"; rows];
        let records = Records::normalise(&keys, vec![column(&names), column(&ones)]).unwrap();
        let eligible = records.eligible(&keys.passes()[0], &Mask::new(rows));
        (records, eligible)
    };
    let ((a, own), (b, theirs)) = (table(6_000), table(5_000));
    let set: std::collections::HashSet<&str> = own.records.iter().filter_map(|row| a.value(0, *row as usize)).collect();
    let links = theirs.records.iter().filter(|row| set.contains(b.value(0, **row as usize).unwrap())).count() as f64;
    let expected = own.expected_false_links(theirs.repeats.records);
    assert!(
        expected > 50.0 && (links / expected) < 1.5 && (expected / links) < 1.5,
        "{links} seen, {expected} expected"
    );
}

#[test]
fn identifiers_that_were_written_as_decimal_numbers_are_refused() {
    let keys = keys(&[&["name", "number"]]);
    let of = |numbers: &[&str]| {
        let names = vec!["Anna"; numbers.len()];
        Records::normalise(&keys, vec![column(&names), column(numbers)]).map(|_| ()).map_err(|error| error.to_string())
    };
    for numbers in [&["12.0", "13.00", "", "-7.0"][..], &[" 12.0 ", "", "", "1"][..2]] {
        let said = of(numbers).unwrap_err();
        assert!(
            said.starts_with("key `number`: most of its values are whole numbers with a decimal point, such as `12.0`"),
            "{said}"
        );
    }
    // Half of them, points that stand elsewhere, and other punctuation are those of identifiers.
    for numbers in
        [&["12.0", "13"][..], &["1.2", "1.3"], &["12.", ".0"], &["1.2.0", "1.3.0"], &["a.0", "b.0"], &["12,0"]]
    {
        assert_eq!(of(numbers), Ok(()), "{numbers:?}");
    }
}
