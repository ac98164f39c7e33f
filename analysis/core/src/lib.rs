// SPDX-License-Identifier: Apache-2.0
//! From packet captures to loss events, and drop reports joined to the packets they are about.
//!
//! # Layout
//!
//! - `segment`: the few header fields that inference and join need, as plain values
//! - `tracker`: flows, their counters, and the inference of each
//! - `infer`: which transmissions arrived and which were lost, from the sender's view alone
//! - `losses`: one capture in, loss events out
//! - `reading`: the packets of a capture, read on another core ahead of the inference
//! - `acknowledged`: one capture in, the bytes that its ACKs acknowledge out
//! - `notes`: warnings about a capture
//! - `transport`: one capture in, its TCP segments and UDP datagrams out, not judged
//! - `join`: captures and drop reports in, one row per packet out (feature `tables`)
//! - `tables`: results as Arrow record batches (feature `tables`)
//! - `python`: the extension module `weir_core` (feature `python`)

pub mod acknowledged;
pub mod bucket;
pub mod infer;
#[cfg(feature = "tables")]
pub mod join;
pub mod losses;
pub mod notes;
mod reading;
pub mod segment;
#[cfg(feature = "tables")]
pub mod tables;
pub mod tracker;
pub mod transport;

#[cfg(feature = "python")]
mod python;

pub use weir_capture::CaptureError;
