//! Compiles the wire schema without a protoc on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=fedreg");
    let files = ["fedreg/v1/health.proto"];
    let descriptors = protox::compile(files, ["."])?;
    tonic_prost_build::configure()
        .bytes(".")
        .emit_rerun_if_changed(false)
        .compile_fds(descriptors)?;
    Ok(())
}
