// SPDX-License-Identifier: Apache-2.0
//! Generates the links service from `links.binpb`, the compiled `proto/weir/links/v1/links.proto`.

use std::error::Error;
use std::fs;

use prost::Message;
use prost_types::FileDescriptorSet;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=links.binpb");
    println!("cargo::rerun-if-changed=build.rs");
    let files = FileDescriptorSet::decode(&*fs::read("links.binpb")?)?;
    let mut build = tonic_prost_build::configure().include_file("modules.rs");
    // Counters are printed and written as JSON.
    for counters in ["QueueCounters", "LinkCounters"] {
        let path = format!("weir.links.v1.{counters}");
        build = build.type_attribute(path, "#[derive(serde::Serialize)]");
    }
    build.compile_fds(files)?;
    Ok(())
}
