//! Keys of a match: every format of a date parses or has a sentence, every cell has a canonical form or none.

#![no_main]

use fedreg_common::data::Marks;
use fedreg_common::data::matching::{Fold, Format, Key, Kind, Reading, Source, canonical};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // A format and a cell, with a zero between them.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (format, cell) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let kinds = [
        Kind::Name { fold: Fold::Plain },
        Kind::Name { fold: Fold::German },
        Kind::Identifier { length: Some([1, 20]) },
        Kind::Code { levels: vec!["a".to_owned()] },
    ];
    let source = |reading| Source { column: String::new(), reading, missing: Marks::default() };
    for kind in kinds {
        let _ = canonical(&Key { name: String::new(), kind }, &source(Reading::Text), cell);
    }
    match String::from_utf8_lossy(format).parse::<Format>() {
        Ok(format) => {
            let kind = Kind::Date { earliest: None, latest: None };
            let _ = canonical(&Key { name: String::new(), kind }, &source(Reading::Date(format)), cell);
        }
        Err(error) => drop(error.to_string()),
    }
});
