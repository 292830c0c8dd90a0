//! The Rust code of the wire schema stands in the repository, so that nobody who builds fedreg compiles a compiler of schemas first. Here
//! it is made again and compared.

use std::fs;
use std::path::Path;

/// Writes the code where the variable `FEDREG_SCHEMA` is `write`.
const REWRITE: &str = "FEDREG_SCHEMA=write cargo test --release --locked -p fedreg-tests --test all schema";

#[test]
fn the_code_of_the_wire_is_that_of_its_schema() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("proto");
    let version = proto.join("fedreg/v1");
    let mut files: Vec<String> = fs::read_dir(&version)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".proto"))
        .map(|name| format!("fedreg/v1/{name}"))
        .collect();
    files.sort();
    assert!(files.len() > 1, "{files:?}");
    let made = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::TolerantCodec")
        .emit_rerun_if_changed(false)
        .out_dir(made.path())
        .compile_fds(protox::compile(files, [&proto]).unwrap())
        .unwrap();
    let made = fs::read_to_string(made.path().join("fedreg.v1.rs")).unwrap();
    let kept = version.join("generated.rs");
    if std::env::var("FEDREG_SCHEMA").is_ok_and(|word| word == "write") {
        fs::write(&kept, &made).unwrap();
    }
    assert!(fs::read_to_string(&kept).unwrap() == made, "{} is stale: {REWRITE}", kept.display());
}
