//! Compiles the wire schema again, for the test that compares it with the code that stands in the repository. Here, so that the libraries
//! which do it are parts of the build: as parts of a test they would have everything built a second time beside the programs.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let proto = Path::new("../proto");
    println!("cargo::rerun-if-changed=../proto/fedreg");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(proto.join("fedreg/v1"))? {
        let name = entry?.file_name().into_string().map_err(|_| "a name that is no text")?;
        if name.ends_with(".proto") {
            files.push(format!("fedreg/v1/{name}"));
        }
    }
    files.sort();
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::TolerantCodec")
        .emit_rerun_if_changed(false)
        .compile_fds(protox::compile(files, [proto])?)?;
    Ok(())
}
