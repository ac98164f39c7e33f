// SPDX-License-Identifier: Apache-2.0
//! What lies behind a port: delay, jitter, loss.

use crate::exec::packet::Packet;
use crate::ports::{LOSS_ALL_PPB, PortConfig};
use crate::state::Random;
use crate::stats::LinkStats;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A frame on its way; the first to arrive is the greatest, as the heap wants it.
#[derive(Debug)]
struct Flying {
    arrives_ns: u64,
    sequence: u64,
    packet: Box<Packet>,
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.arrives_ns, other.sequence).cmp(&(self.arrives_ns, self.sequence))
    }
}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Flying {}

#[derive(Debug)]
pub(super) struct Link {
    flying: BinaryHeap<Flying>,
    sequence: u64,
    /// When the last frame arrives, which the next does not overtake.
    last_ns: u64,
    random: Random,
    pub stats: LinkStats,
}

/// What becomes of a frame that is put on a link.
pub(super) enum Departure {
    /// It arrives at once.
    Now(Box<Packet>),
    Flying,
    Lost(Box<Packet>),
}

impl Link {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            flying: BinaryHeap::new(),
            sequence: 0,
            last_ns: 0,
            random: Random::new(seed),
            stats: LinkStats::default(),
        }
    }

    /// Puts a frame on the link; its last bit leaves at `at_ns`, which is `now_ns` or later.
    pub(super) fn depart(
        &mut self,
        packet: Box<Packet>,
        config: &PortConfig,
        at_ns: u64,
        now_ns: u64,
    ) -> Departure {
        self.stats.offered_packets += 1;
        if config.loss_ppb > 0
            && self.random.between(0, u64::from(LOSS_ALL_PPB) - 1) < u64::from(config.loss_ppb)
        {
            self.stats.lost_packets += 1;
            return Departure::Lost(packet);
        }
        let jitter_ns = match config.jitter_ns {
            0 => 0,
            most => self.random.between(0, most),
        };
        let mut arrives_ns = at_ns
            .saturating_add(config.delay_ns)
            .saturating_add(jitter_ns);
        // A link does not reorder, also when its delay was just shortened.
        if !config.reorder {
            arrives_ns = arrives_ns.max(self.last_ns);
            self.last_ns = arrives_ns;
        }
        if arrives_ns <= now_ns && self.flying.is_empty() {
            return Departure::Now(packet);
        }
        self.sequence += 1;
        self.flying.push(Flying {
            arrives_ns,
            sequence: self.sequence,
            packet,
        });
        Departure::Flying
    }

    /// Nothing is on its way at `now_ns`, and nothing that arrived did so later.
    #[inline(always)]
    pub(super) fn is_empty(&self, now_ns: u64) -> bool {
        self.flying.is_empty() && self.last_ns <= now_ns
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.flying.peek().map(|frame| frame.arrives_ns)
    }

    pub(super) fn arrive(&mut self) -> Option<Box<Packet>> {
        self.flying.pop().map(|frame| frame.packet)
    }

    pub(super) fn len(&self) -> u64 {
        self.flying.len() as u64
    }

    pub(super) fn clear(self) -> impl Iterator<Item = Box<Packet>> {
        self.flying.into_iter().map(|frame| frame.packet)
    }
}
