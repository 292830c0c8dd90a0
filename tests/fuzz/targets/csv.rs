//! Tables in CSV, read whole and in batches: never more rows in batches than in the whole.

#![no_main]

use std::io::Cursor;

use fedreg_party::read::{Opened, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let request = Request::default();
    let open = || Opened::from_reader(Cursor::new(data.to_vec()), "fuzz.csv", None);
    let whole = open().and_then(|table| table.read(&request));
    let Ok(mut table) = open().and_then(|table| table.batches(&request)) else {
        assert!(whole.is_err());
        return;
    };
    let mut rows = 0;
    let failed = loop {
        match table.next(3) {
            Ok(Some(batch)) => rows += batch.rows(),
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    if let Ok(whole) = whole {
        assert!(!failed || rows <= whole.rows());
    }
});
