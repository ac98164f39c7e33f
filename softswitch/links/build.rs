// SPDX-License-Identifier: Apache-2.0
//! Compiles the service's definition; protox does in Rust what would otherwise need protoc on the machine.

use std::error::Error;

const FILE: &str = "weir/links/v1/links.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile([FILE], ["proto"])?;
    tonic_prost_build::configure()
        .include_file("modules.rs")
        .compile_fds(files)?;
    Ok(())
}
