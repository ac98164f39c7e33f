// SPDX-License-Identifier: Apache-2.0
//! The emulated link of a port: delay, jitter, loss.

use crate::packet::Packet;
use crate::ports::{LOSS_ALL_PPB, PortConfig};
use crate::state::Random;
use crate::stats::LinkStats;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A frame on the link. The first to arrive is the greatest, as `BinaryHeap` pops the greatest.
#[derive(Debug)]
struct InFlight {
    arrives_ns: u64,
    sequence: u64,
    packet: Box<Packet>,
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.arrives_ns, other.sequence).cmp(&(self.arrives_ns, self.sequence))
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for InFlight {}

#[derive(Debug)]
pub(super) struct Link {
    in_flight: BinaryHeap<InFlight>,
    sequence: u64,
    /// Time at which the last frame arrives; the next does not overtake it.
    last_ns: u64,
    random: Random,
    pub stats: LinkStats,
}

/// The outcome of transmitting a frame.
pub(super) enum LinkOutcome {
    /// It arrived at once.
    Arrived(Box<Packet>),
    InFlight,
    Lost(Box<Packet>),
}

impl Link {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            in_flight: BinaryHeap::new(),
            sequence: 0,
            last_ns: 0,
            random: Random::new(seed),
            stats: LinkStats::default(),
        }
    }

    /// Puts a frame on the link; its last bit is sent at `sent_ns`, which is `now_ns` or later.
    pub(super) fn transmit(
        &mut self,
        packet: Box<Packet>,
        config: &PortConfig,
        sent_ns: u64,
        now_ns: u64,
    ) -> LinkOutcome {
        self.stats.offered_packets += 1;
        if config.loss_ppb > 0
            && self.random.between(0, u64::from(LOSS_ALL_PPB) - 1) < u64::from(config.loss_ppb)
        {
            self.stats.lost_packets += 1;
            return LinkOutcome::Lost(packet);
        }
        let jitter_ns = match config.jitter_ns {
            0 => 0,
            most => self.random.between(0, most),
        };
        let mut arrives_ns = sent_ns
            .saturating_add(config.delay_ns)
            .saturating_add(jitter_ns);
        // A link does not reorder, even if its delay was just reduced.
        if !config.reorder {
            arrives_ns = arrives_ns.max(self.last_ns);
            self.last_ns = arrives_ns;
        }
        if arrives_ns <= now_ns && self.in_flight.is_empty() {
            return LinkOutcome::Arrived(packet);
        }
        self.sequence += 1;
        self.in_flight.push(InFlight {
            arrives_ns,
            sequence: self.sequence,
            packet,
        });
        LinkOutcome::InFlight
    }

    /// No frame is in flight at `now_ns`, and the last one arrived by then.
    #[inline(always)]
    pub(super) fn is_empty(&self, now_ns: u64) -> bool {
        self.in_flight.is_empty() && self.last_ns <= now_ns
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.in_flight.peek().map(|frame| frame.arrives_ns)
    }

    /// The next frame to arrive.
    pub(super) fn pop(&mut self) -> Option<Box<Packet>> {
        self.in_flight.pop().map(|frame| frame.packet)
    }

    pub(super) fn len(&self) -> u64 {
        self.in_flight.len() as u64
    }

    pub(super) fn clear(self) -> impl Iterator<Item = Box<Packet>> {
        self.in_flight.into_iter().map(|frame| frame.packet)
    }
}
