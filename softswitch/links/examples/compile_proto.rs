// SPDX-License-Identifier: Apache-2.0
//! Compiles `links.proto` to `links.binpb`, after a change: `cargo run -p weir-links --example compile_proto`.

use protox::prost::Message;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = env!("CARGO_MANIFEST_DIR");
    let files = protox::compile(["weir/links/v1/links.proto"], [format!("{folder}/proto")])?;
    std::fs::write(format!("{folder}/links.binpb"), files.encode_to_vec())?;
    Ok(())
}
