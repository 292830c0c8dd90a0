//! The Rust code of the wire schema stands in the repository, so that nobody who builds fedreg compiles a compiler of schemas first. Here
//! it is compared with what `build.rs` makes of the schema.

use std::fs;
use std::path::Path;

/// Writes the code where the variable `FEDREG_SCHEMA` is `write`.
const REWRITE: &str = "FEDREG_SCHEMA=write cargo test --release --locked -p fedreg-tests --test all schema";

const MADE: &str = include_str!(concat!(env!("OUT_DIR"), "/fedreg.v1.rs"));

#[test]
fn the_code_of_the_wire_is_that_of_its_schema() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("proto/fedreg/v1/generated.rs");
    assert!(MADE.contains("pub struct Header") && MADE.contains("dealer_server"), "{} letters", MADE.len());
    if std::env::var("FEDREG_SCHEMA").is_ok_and(|word| word == "write") {
        fs::write(&kept, MADE).unwrap();
    }
    assert!(fs::read_to_string(&kept).unwrap() == MADE, "{} is stale: {REWRITE}", kept.display());
}
