// SPDX-License-Identifier: Apache-2.0
//! What became of the frames that left a port: written by the thread that sends them, read by any.

use std::sync::atomic::{AtomicU64, Ordering};

use super::sender::Sent;

/// Totals of one direction of one port. A frame is in exactly one of the counts of frames.
#[derive(Debug, Default)]
pub struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Tally {
    /// Adds what became of a batch.
    pub fn add(&self, sent: &Sent) {
        self.packets.fetch_add(sent.packets, Ordering::Relaxed);
        self.bytes.fetch_add(sent.bytes, Ordering::Relaxed);
        self.add_errors(sent.refused);
    }

    /// Adds frames that were not sent.
    pub fn add_errors(&self, frames: u64) {
        self.errors.fetch_add(frames, Ordering::Relaxed);
    }

    /// Frames that the interface took.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Their bytes, without FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames that it did not take.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}
