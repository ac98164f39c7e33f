// SPDX-License-Identifier: Apache-2.0
//! Accounts of the datagrams of each sender, and of those that never arrived. Pure: sequence numbers in, counts out.
//!
//! The rules are those of "Sequence" in `docs/spec/telemetry-report.md`.

mod stream;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;

pub use stream::{Arrival, Counts, Fingerprint, REORDERING_WINDOW, Stream};

/// Senders beyond this number are refused: their ids come from outside, and each stream takes memory.
pub const MAX_STREAMS: usize = 1024;

/// A source that numbers its datagrams separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// The switch.
    pub node_id: u32,
    /// Subsystem within it.
    pub hw_id: u8,
    /// Destination of its datagrams: the socket's own address and port.
    pub destination: SocketAddr,
}

/// The stream was refused, because there are [`MAX_STREAMS`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are {MAX_STREAMS} streams (node_id, hw_id) already, no other is accepted")]
pub struct TooManyStreams;

/// The accounts of all streams.
#[derive(Debug, Clone, Default)]
pub struct Accounting {
    streams: BTreeMap<StreamKey, Stream>,
    malformed: BTreeMap<&'static str, u64>,
}

impl Accounting {
    /// Counts a datagram that could be decoded; the result tells whether it is to be stored.
    ///
    /// `sequence` is taken modulo 2²².
    ///
    /// # Errors
    /// [`TooManyStreams`]; the caller counts the datagram as malformed.
    pub fn note(
        &mut self,
        key: StreamKey,
        sequence: u32,
        fingerprint: Fingerprint,
    ) -> Result<Arrival, TooManyStreams> {
        if let Some(stream) = self.streams.get_mut(&key) {
            return Ok(stream.note(sequence, fingerprint));
        }
        if self.streams.len() >= MAX_STREAMS {
            return Err(TooManyStreams);
        }
        self.streams.insert(key, Stream::new(sequence, fingerprint));
        Ok(Arrival::New)
    }

    /// Counts a datagram that is not a report, by the error's name. True for the first of that name.
    pub fn note_malformed(&mut self, error: &'static str) -> bool {
        let count = self.malformed.entry(error).or_default();
        *count += 1;
        *count == 1
    }

    /// The streams, by key.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamKey, &Stream)> {
        self.streams.iter()
    }

    /// Malformed datagrams by the error's name.
    #[must_use]
    pub const fn malformed(&self) -> &BTreeMap<&'static str, u64> {
        &self.malformed
    }

    /// The sum over all streams.
    #[must_use]
    pub fn totals(&self) -> Counts {
        self.streams
            .values()
            .map(Stream::counts)
            .fold(Counts::default(), Counts::plus)
    }
}
