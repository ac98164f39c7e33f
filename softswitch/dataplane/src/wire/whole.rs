// SPDX-License-Identifier: Apache-2.0
//! One direction of a wire whose frames stay whole: a TSO frame is delayed as one frame, and counted by its segments.
//!
//! A delay is the same for all segments. Rates, queues, jitter and loss act on single segments, so such a wire has none
//! of them.

use crate::ports::PortConfig;
use crate::stats::{LinkStats, PortStats, QueueStats};
use std::collections::VecDeque;

/// The segments of a whole frame: one Ethernet frame each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// Number of frames.
    pub frames: u64,
    /// Bytes of all of them, without FCS.
    pub bytes: u64,
}

impl Carried {
    fn add(&mut self, more: Self) {
        self.frames += more.frames;
        self.bytes += more.bytes;
    }
}

#[derive(Debug)]
struct InFlight {
    arrives_ns: u64,
    carried: Carried,
    content: Vec<u8>,
}

/// Buffers kept for later frames.
const MOST_SPARE: usize = 64;

/// The direction towards one end, and what was received at that end.
#[derive(Debug, Default)]
pub(super) struct Whole {
    delay_ns: u64,
    in_flight: VecDeque<InFlight>,
    spare: Vec<Vec<u8>>,
    received: Carried,
    offered: Carried,
    arrived: Carried,
}

impl Whole {
    /// The reason why a wire with whole frames cannot have this configuration, if there is one.
    pub(super) fn problem(config: &PortConfig) -> Option<&'static str> {
        let delayed = PortConfig {
            delay_ns: config.delay_ns,
            ..PortConfig::default()
        };
        (*config != delayed).then_some(
            "the frames of this wire stay whole (gso=yes), so it can have nothing but a delay; rates, queues, jitter \
             and loss are for single frames",
        )
    }

    /// Frames offered from now on have this delay, but none overtakes another.
    pub(super) fn set_delay(&mut self, delay_ns: u64) {
        self.delay_ns = delay_ns;
    }

    /// Counts a frame that was received at this end.
    pub(super) fn count_received(&mut self, carried: Carried) {
        self.received.add(carried);
    }

    /// Puts a frame on the wire.
    pub(super) fn offer(&mut self, content: &[u8], carried: Carried, now_ns: u64) {
        let last_ns = self.in_flight.back().map_or(0, |last| last.arrives_ns);
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(content);
        self.offered.add(carried);
        self.in_flight.push_back(InFlight {
            arrives_ns: now_ns.saturating_add(self.delay_ns).max(last_ns),
            carried,
            content: buffer,
        });
    }

    /// Time at which the next frame arrives.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.in_flight.front().map(|first| first.arrives_ns)
    }

    /// Passes the next frame on; what it was on the wire.
    pub(super) fn arrive(&mut self, sink: impl FnOnce(&[u8], u64)) -> Carried {
        let Some(first) = self.in_flight.pop_front() else {
            return Carried::default();
        };
        sink(&first.content, first.arrives_ns);
        self.arrived.add(first.carried);
        if self.spare.len() < MOST_SPARE {
            self.spare.push(first.content);
        }
        first.carried
    }

    pub(super) fn port_stats(&self) -> PortStats {
        PortStats {
            rx_packets: self.received.frames,
            rx_bytes: self.received.bytes,
            tx_packets: self.arrived.frames,
            tx_bytes: self.arrived.bytes,
            in_flight: self.link_stats().in_flight_packets,
            ..PortStats::default()
        }
    }

    /// The statistics of the queue, in which no frame waits.
    pub(super) fn queue_stats(&self) -> QueueStats {
        QueueStats {
            offered_packets: self.offered.frames,
            offered_bytes: self.offered.bytes,
            passed_packets: self.offered.frames,
            passed_bytes: self.offered.bytes,
            ..QueueStats::default()
        }
    }

    pub(super) fn link_stats(&self) -> LinkStats {
        LinkStats {
            offered_packets: self.offered.frames,
            passed_packets: self.arrived.frames,
            lost_packets: 0,
            in_flight_packets: self.offered.frames - self.arrived.frames,
        }
    }
}
