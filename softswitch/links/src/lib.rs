// SPDX-License-Identifier: Apache-2.0
//! Messages, client and server of the links service, generated from `proto/weir/links/v1/links.proto`.

#[allow(missing_docs, clippy::all, clippy::pedantic, rustdoc::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/modules.rs"));
}

pub use generated::weir::links::v1;

/// The serialized `FileDescriptorSet` of the generated module, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!("../links.binpb");
