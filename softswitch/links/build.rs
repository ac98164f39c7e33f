// SPDX-License-Identifier: Apache-2.0
//! Compiles the service's definition with protox, in Rust, so that the build needs no protoc.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use protox::prost::Message;

const FILE: &str = "weir/links/v1/links.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile([FILE], ["proto"])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is unset")?);
    fs::write(out.join("descriptors.binpb"), files.encode_to_vec())?;
    let mut build = tonic_prost_build::configure().include_file("modules.rs");
    // Counters are printed and written as JSON.
    for counters in ["QueueCounters", "LinkCounters"] {
        let path = format!("weir.links.v1.{counters}");
        build = build.type_attribute(path, "#[derive(serde::Serialize)]");
    }
    build.compile_fds(files)?;
    Ok(())
}
