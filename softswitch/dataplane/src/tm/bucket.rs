// SPDX-License-Identifier: Apache-2.0
//! The token bucket of a shaper: the time at which a frame may leave.
//!
//! Tokens are counted in billionths of a bit, so that a rate of `r` bit/s adds exactly `r` tokens per nanosecond.

use crate::ports::Shaper;

/// Tokens per byte.
const BYTE: i128 = 8_000_000_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    rate_bps: u64,
    capacity: i128,
    /// May be negative after a frame longer than the bucket.
    tokens: i128,
    tokens_at_ns: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(shaper: Shaper, now_ns: u64) -> Self {
        let capacity = i128::from(shaper.burst_bytes) * BYTE;
        Self {
            rate_bps: shaper.rate_bps.max(1),
            capacity,
            tokens: capacity,
            tokens_at_ns: now_ns,
        }
    }

    /// The bucket of a line rate: its size is 0, so that it is always in debt for the frame before.
    pub(super) fn line(rate_bps: u64, now_ns: u64) -> Self {
        let burst_bytes = 0;
        Self::new(
            Shaper {
                rate_bps,
                burst_bytes,
            },
            now_ns,
        )
    }

    /// This bucket with another rate and size; it keeps its tokens up to the new size.
    pub(super) fn changed(mut self, shaper: Shaper, now_ns: u64) -> Self {
        self.refill(now_ns);
        let new = Self::new(shaper, now_ns);
        Self {
            tokens: self.tokens.min(new.capacity),
            ..new
        }
    }

    pub(super) fn refill(&mut self, now_ns: u64) {
        let elapsed = i128::from(now_ns.saturating_sub(self.tokens_at_ns));
        let added = i128::from(self.rate_bps).saturating_mul(elapsed);
        self.tokens = self.tokens.saturating_add(added).min(self.capacity);
        self.tokens_at_ns = self.tokens_at_ns.max(now_ns);
    }

    /// Time at which a frame of `bytes` may leave: when the bucket has its tokens, or is full.
    pub(super) fn ready_ns(&self, bytes: u32) -> u64 {
        let need = (i128::from(bytes) * BYTE).min(self.capacity);
        let missing = (need - self.tokens).max(0);
        let rate = i128::from(self.rate_bps);
        let wait = (missing + rate - 1) / rate;
        self.tokens_at_ns
            .saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Removes the tokens of a frame of `bytes` that leaves at `now_ns`.
    pub(super) fn consume(&mut self, bytes: u32, now_ns: u64) {
        self.refill(now_ns);
        self.tokens -= i128::from(bytes) * BYTE;
    }
}
