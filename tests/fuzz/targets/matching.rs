//! What was heard in a match, as it is stored and as it is said: any bytes go on to an end, or to a sentence why not.

#![no_main]

use std::sync::Arc;

use fedreg_common::conversation::{Opening, Purpose};
use fedreg_common::data::Marks;
use fedreg_common::data::matching::{BySide, Cells, Duplicates, Key, Keys, Kind, Reading, Records, Rules, Source};
use fedreg_common::id::{Digest, Role, RunId};
use fedreg_common::methods::vertical::matching::{Inputs, Journal, MatchSession, Policy};
use fedreg_common::session::{Abort, Session};
use fedreg_common::study::{Study, Vertical};
use libfuzzer_sys::fuzz_target;

const STUDY: &str = "id = \"s\"\n[parties.alice]\ncertificate = \"alice\"\ncolumns = [\"a\"]\n[parties.bob]\ncertificate = \"bob\"\n\
                     columns = [\"b\"]\n[outcome]\ncolumn = \"y\"\n";

/// The peer's messages, one after the other whatever their number.
struct Heard(std::vec::IntoIter<Vec<u8>>);

impl Journal for Heard {
    fn keep(&mut self, _sequence: u64, _message: &[u8]) -> Result<(), Abort> {
        Ok(())
    }

    fn kept(&mut self, _sequence: u64) -> Result<Option<Vec<u8>>, Abort> {
        Ok(self.0.next())
    }

    fn has_begun(&self) -> bool {
        true
    }
}

/// A message from its kind and what follows: as it is, or with what a party would have to know for it to be taken in.
fn message(kind: u8, rest: &[u8]) -> Vec<u8> {
    let short = |number: u32| number.to_le_bytes().to_vec();
    let body = match kind {
        b't' => {
            let unicode = fedreg_common::data::matching::unicode();
            let numbers = [fedreg_common::data::matching::NORMALISER, unicode[0], unicode[1], unicode[2]];
            let mut body: Vec<u8> = numbers.into_iter().flat_map(short).collect();
            body.extend(u64::from(rest.first().copied().unwrap_or(0)).to_le_bytes());
            body
        }
        b's' | b'c' => [short(0), u64::from(rest.first().copied().unwrap_or(0)).to_le_bytes().to_vec()].concat(),
        b'm' | b'd' | b'r' => [short(0), 0_u64.to_le_bytes().to_vec(), rest.to_vec()].concat(),
        _ => rest.to_vec(),
    };
    [vec![kind], body].concat()
}

fn study() -> Study<Vertical> {
    Study::parse(STUDY).ok().and_then(Study::vertical).expect("the study is one of two parties")
}

fuzz_target!(|data: &[u8]| {
    let [head, messages @ ..] = data else { return };
    let kinds = (0..2).map(|key| Key { name: format!("k{key}"), kind: Kind::Identifier { length: None } }).collect();
    let passes = [("one".to_owned(), vec!["k0".to_owned()]), ("two".to_owned(), vec!["k1".to_owned()])];
    let keys = Keys::new(kinds, &passes).expect("two passes");
    let rules = Rules {
        keys,
        duplicates: Duplicates::Exclude,
        min_matched: 1,
        min_pass: 1,
        max_rows: BySide::two(50, 50),
        capacity: (head & 1 == 1).then_some(BySide::two(4, 3)),
    };
    let columns = (0..2).map(|key| {
        let mut cells = Cells::default();
        (0..3).for_each(|row| cells.push(format!("{key}{row}").as_bytes()));
        (Source { column: String::new(), reading: Reading::Text, missing: Marks::default() }, cells)
    });
    let records = Records::normalise(&rules.keys, columns.collect()).expect("columns of one length");
    // Messages after their length; the highest bit says whether what follows is taken as it is.
    let (mut rest, mut heard) = (messages, Vec::new());
    while let [length, kind, after @ ..] = rest {
        let (body, after) = after.split_at(usize::from(length & 127).min(after.len()));
        heard.push(if length & 128 == 0 { message(*kind, body) } else { [&[*kind], body].concat() });
        rest = after;
    }
    let inputs = Inputs {
        rules: Arc::new(rules),
        match_digest: Digest([3; 32]),
        policy: Policy::default(),
        records: Arc::new(records),
        journal: Some(Box::new(Heard(heard.into_iter()))),
    };
    let role = if head & 2 == 0 { Role::Alice } else { Role::Bob };
    let opening = Opening { first: head & 4 == 0, run: RunId([7; 16]), seed: [5; 32], peer: role.partner() };
    let Ok(mut session) = MatchSession::new(role, Purpose::MatchFit, &study(), inputs, opening) else { return };
    match session.start() {
        Ok(turn) => drop(turn),
        Err(abort) => drop(abort.to_string()),
    }
    let _ = session.work();
});
