// SPDX-License-Identifier: Apache-2.0
//! The frames of pcap and pcapng files, one at a time through a bounded buffer.
//!
//! # Layout
//!
//! - `reader`: [`CaptureReader`], the buffer and the search for the next [`Record`]
//! - `classic`: the header of a pcap file, and the names of foreign formats
//! - `blocks`: the blocks of a pcapng file: its sections, interfaces and packets
//! - `source`: [`Source`], a file or standard input, decompressed if necessary
//! - `error`: [`CaptureError`], with file and offset

mod blocks;
mod classic;
mod error;
mod reader;
mod source;

pub use error::CaptureError;
pub use reader::{CaptureReader, Record};
pub use source::Source;
