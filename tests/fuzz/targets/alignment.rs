//! What a match leaves, and tables of pairs: only records that the data have, each once.

#![no_main]

use std::collections::BTreeSet;

use fedreg_common::data::Ids;
use fedreg_common::data::matching::alignment::{Alignment, Expected, MatchPurpose, MatchRecord};
use fedreg_common::data::matching::linked::Linked;
use fedreg_common::id::{Digest, Role, RunId};
use libfuzzer_sys::fuzz_target;

fn check(records: &[u32], rows: usize) {
    let once: BTreeSet<u32> = records.iter().copied().collect();
    assert!(once.len() == records.len() && once.iter().all(|record| (*record as usize) < rows));
}

fuzz_target!(|data: &[u8]| {
    let [rows, rest @ ..] = data else { return };
    let (rows, data) = (usize::from(*rows), Digest([1; 32]));
    let expected = Expected { role: Role::Alice, purpose: MatchPurpose::Fit, peer: "bob", match_digest: Digest([2; 32]) };
    // A record as it comes, and one that names these bytes.
    let read = |binary: &[u8], json: &str| match Alignment::read(binary, json, &expected, data) {
        Ok(alignment) => check(alignment.records(), rows),
        Err(error) => drop(error.to_string()),
    };
    if let Some(json) = std::str::from_utf8(rest).ok().and_then(|json| MatchRecord::parse(json).ok()) {
        let _ = json.belongs(&expected);
    }
    let about = MatchRecord {
        run: RunId([3; 16]).to_string(),
        role: Role::Alice,
        purpose: MatchPurpose::Fit,
        protocol: "direct".to_owned(),
        peer: "bob".to_owned(),
        leader: None,
        match_digest: expected.match_digest.to_string(),
        data: data.to_string(),
        rows: rows as u64,
        alignment: Digest::of(rest).to_string(),
        passes: Vec::new(),
        matched: rest.len().saturating_sub(16) as u64 / 4,
        order_digest: Digest([4; 32]).to_string(),
    };
    let json = Alignment::new(Vec::new(), [4; 32], about.clone()).json();
    read(rest, &json);
    if let Ok(json) = serde_json::to_string(&about) {
        read(rest, &json);
    }
    // Own ids and pairs, a byte each, and the ids of the data.
    let ids = |bytes: &[u8]| {
        let mut ids = Ids::default();
        bytes.iter().for_each(|byte| ids.push(byte.to_string().as_bytes()));
        ids
    };
    let (own, pairs) = rest.split_at(rest.len() / 2);
    let pairs = &pairs[..own.len()];
    let known = ids(&(0..rows.min(200)).map(|row| row as u8).collect::<Vec<u8>>());
    for (known, rows) in [(None, rows), (Some(&known), known.len())] {
        match Linked::new(&ids(own), &ids(pairs), known, rows) {
            Ok(linked) => check(linked.records(), rows),
            Err(error) => drop(error.to_string()),
        }
    }
});
