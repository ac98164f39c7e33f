// SPDX-License-Identifier: Apache-2.0
//! The compiled service is that of its source.

use protox::prost::Message;

#[test]
fn the_descriptors_are_those_of_the_source() {
    let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let compiled = protox::compile(["weir/links/v1/links.proto"], [proto]).expect("it compiles");
    assert!(
        compiled.encode_to_vec() == weir_links::DESCRIPTORS,
        "links.binpb is older than links.proto; write it again with: cargo run -p weir-links --example compile_proto"
    );
}
