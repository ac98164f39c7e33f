// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests: a packet-level TCP simulator that records the truth, and a pcap writer.
#![allow(missing_docs)]

pub mod frames;
pub mod receiver;
pub mod simulator;

/// xorshift64*: small, seeded, the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        ((self.next() >> 11) as f64 / (1u64 << 53) as f64) < probability
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }
}

/// The same capture with a shorter snap length.
pub fn cut(pcap: &[u8], snap_bytes: usize) -> Vec<u8> {
    let (header, mut rest) = pcap.split_at(24);
    let mut cut = header.to_vec();
    while let Some((record, after)) = rest.split_at_checked(16) {
        let captured = u32::from_le_bytes([record[8], record[9], record[10], record[11]]) as usize;
        let kept = captured.min(snap_bytes);
        cut.extend(&record[..8]);
        cut.extend((kept as u32).to_le_bytes());
        cut.extend(&record[12..]);
        cut.extend(&after[..kept]);
        rest = &after[captured..];
    }
    cut
}
