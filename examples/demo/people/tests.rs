use std::collections::{BTreeMap, BTreeSet};

use fedreg_common::data::align::Mask;
use fedreg_common::data::matching::{Pass, Reading, Records, Source};
use fedreg_common::data::{Ids, Marks};

use super::*;
use crate::matching::{SHIPPED_KEYS, parse};

/// The canonical records of both tables.
fn records(people: &People) -> [Records; 2] {
    let keys = parse(std::path::Path::new("shipped"), SHIPPED_KEYS).map_err(|failure| failure.error).unwrap();
    let rules = keys.terms.rules(false).unwrap();
    let both = [(&people.hospital, &keys.configs[0]), (&people.insurer, &keys.configs[1])];
    both.map(|(table, config)| {
        let mut reader = csv::Reader::from_reader(table.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let columns = rules.keys.keys().iter().map(|key| {
            let own = &config.columns[&key.name];
            let at = header.iter().position(|name| name == own.column()).unwrap();
            let mut cells = Ids::default();
            rows.iter().for_each(|row| cells.push(row[at].as_bytes()));
            let reading = match own {
                fedreg_party::config::KeyColumn::Name(_) => Reading::Text,
                fedreg_party::config::KeyColumn::Terms(terms) => match &terms.format {
                    Some(format) => Reading::Date(format.parse().unwrap()),
                    None => Reading::Code(terms.values.clone()),
                },
            };
            let missing = Marks::new(&config.missing.values, None).unwrap();
            (Source { column: own.column().to_string(), reading, missing }, cells)
        });
        Records::normalise(&rules.keys, columns.collect()).unwrap()
    })
}

/// Pairs of rows that a pass links, of rows that no pass linked before.
fn link(records: &[Records; 2], pass: &Pass, known: &[Mask; 2]) -> Vec<[usize; 2]> {
    let digest = fedreg_common::id::Digest([0; 32]);
    let keyed = [0, 1].map(|side| {
        let messages = records[side].messages(pass, &digest);
        let eligible = records[side].eligible(pass, &known[side]).records;
        let mut keyed = BTreeMap::new();
        for record in eligible {
            let mut message = Vec::new();
            messages.write(record, &mut message);
            keyed.insert(message, record as usize);
        }
        keyed
    });
    keyed[0].iter().filter_map(|(key, own)| Some([*own, *keyed[1].get(key)?])).collect()
}

#[test]
fn the_shipped_keys_find_everybody_in_both_tables_but_those_with_errors_in_both_keys() {
    let people = people(SHIPPED, 1);
    assert_eq!(people.hospital.lines().count(), 5001);
    assert_eq!(people.insurer.lines().count(), 5001);
    let records = records(&people);
    let mut known = [Mask::new(5000), Mask::new(5000)];
    let (mut found, mut wrong) = (0, 0);
    for pass in records[0].keys().passes() {
        for [own, theirs] in link(&records, pass, &known) {
            known[0].set(own);
            known[1].set(theirs);
            let same = people.whose[0][own] == people.whose[1][theirs];
            found += u64::from(same);
            wrong += u64::from(!same);
        }
    }
    assert_eq!((found, wrong), (people.findable, 0));
    assert!((3700..3800).contains(&found), "{found}");
    let repeated: BTreeSet<usize> = people.whose[0].iter().copied().collect();
    assert_eq!(repeated.len(), 4970, "some stand in the hospital's table twice");
}

#[test]
fn false_links_on_a_weak_key_are_predicted_within_a_factor_of_two_where_nobody_is_in_both_tables() {
    let (strangers, expected) = weakly_linked(Size { common: 0, ..SHIPPED });
    assert!(expected >= 50.0, "{expected}");
    assert!((0.5..2.0).contains(&(strangers / expected)), "{strangers} {expected}");
    // Where most people are in both, the key of a stranger is mostly the partner's too, and so ambiguous.
    let (strangers, expected) = weakly_linked(SHIPPED);
    assert!(expected >= 50.0 && strangers < expected, "{strangers} {expected}");
}

/// False links of a weak key, and how many were expected.
fn weakly_linked(size: Size) -> (f64, f64) {
    let people = people(size, 1);
    let records = records(&people);
    let weak = fedreg_common::data::matching::Keys::new(
        records[0].keys().keys().to_vec(),
        &[
            ("weak".to_string(), ["surname:3", "birth:year", "postcode:2", "sex"].map(String::from).to_vec()),
            ("others".to_string(), ["national_id", "given"].map(String::from).to_vec()),
        ],
    )
    .unwrap();
    let pass = &weak.passes()[0];
    let nobody = [Mask::new(5000), Mask::new(5000)];
    let [own, theirs] = [0, 1].map(|side| records[side].eligible(pass, &nobody[side]));
    // By the insurer's table, in which nobody stands twice.
    let expected = theirs.expected_false_links(own.repeats.records);
    let links = link(&records, pass, &nobody);
    let wrong = links.iter().filter(|[own, theirs]| people.whose[0][*own] != people.whose[1][*theirs]).count() as f64;
    println!("{expected} expected, {wrong} of {} links are false", links.len());
    (wrong, expected)
}

#[test]
fn a_seed_gives_the_same_tables_again_and_another_seed_gives_others() {
    let size = Size { rows: 200, common: 120 };
    let [a, b, c] = [1, 1, 2].map(|seed| people(size, seed));
    assert_eq!((&a.hospital, &a.insurer), (&b.hospital, &b.insurer));
    assert_ne!(a.hospital, c.hospital);
}

#[test]
fn the_tables_of_the_walkthrough_are_those_of_the_generator() {
    let people = people(WALKTHROUGH, 2);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("two-hospitals/match");
    for (name, table) in [("alice.csv", &people.hospital), ("bob.csv", &people.insurer)] {
        let path = folder.join(name);
        if std::env::var("FEDREG_BOOK").is_ok_and(|word| word == "write") {
            std::fs::write(&path, table).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == *table,
            "{name}: FEDREG_BOOK=write makes it again"
        );
    }
}
