// SPDX-License-Identifier: Apache-2.0
//! The result of sending: of one batch ([`Sent`]), and of a port since its start ([`Tally`]).

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::whole::Size;

/// The result of sending a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// Frames that the interface accepted.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Frames that the interface refused.
    pub refused: u64,
    /// The reason for the last refusal.
    pub error: Option<io::Error>,
}

impl Sent {
    /// Counts a frame, with the error if it was refused.
    pub(crate) fn add(&mut self, bytes: usize, error: Option<io::Error>) {
        let size = Size {
            frames: 1,
            bytes: bytes as u64,
        };
        self.add_whole(size, error);
    }

    /// Counts a whole frame as what it is on a wire.
    pub(crate) fn add_whole(&mut self, size: Size, error: Option<io::Error>) {
        if error.is_some() {
            self.refused += size.frames;
            self.error = error;
        } else {
            self.packets += size.frames;
            self.bytes += size.bytes;
        }
    }

    /// The `errno` of the last refusal, if it means that the interface went down or away.
    pub fn interface_gone(&self) -> Option<i32> {
        let errno = self.error.as_ref()?.raw_os_error()?;
        matches!(errno, libc::ENETDOWN | libc::ENXIO | libc::ENODEV).then_some(errno)
    }
}

/// Totals of the frames sent from one port: written by the thread that sends them, read by any. Each frame is in exactly
/// one of `packets` and `errors`.
#[derive(Debug, Default)]
pub struct Tally {
    packets: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Tally {
    /// Adds the result of a batch.
    pub fn add(&self, sent: &Sent) {
        self.packets.fetch_add(sent.packets, Ordering::Relaxed);
        self.bytes.fetch_add(sent.bytes, Ordering::Relaxed);
        self.add_errors(sent.refused);
    }

    /// Adds frames that were not sent.
    pub fn add_errors(&self, frames: u64) {
        self.errors.fetch_add(frames, Ordering::Relaxed);
    }

    /// Frames that the interface accepted.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Their bytes, without FCS.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames that were not sent.
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}
