//! Compiles the wire schema without a protoc on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=fedreg");
    let files = ["dealer", "health", "horizontal", "merge", "session", "vertical"]
        .map(|file| format!("fedreg/v1/{file}.proto"));
    let descriptors = protox::compile(files, ["."])?;
    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::TolerantCodec")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
