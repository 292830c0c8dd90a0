//! Tables in CSV, read whole and in batches: never more rows in batches than in the whole.

#![no_main]

use fedreg_party::read::{Request, csv};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let request = Request::default();
    let whole = csv::read(data, "fuzz.csv", &request);
    let Ok(mut table) = csv::Table::new(data, "fuzz.csv", &request) else {
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
