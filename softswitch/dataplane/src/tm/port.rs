// SPDX-License-Identifier: Apache-2.0
//! One port: its queues, their shapers, and the choice of the next packet.

use super::bucket::Bucket;
use super::link::{Link, LinkOutcome};
use crate::packet::Packet;
use crate::ports::{Port, PortConfig, QUEUES, QueueConfig, Shaper};
use crate::stats::{LinkStats, PortStats, QueueStats};
use std::collections::VecDeque;

/// Preamble, frame delimiter, FCS and inter-packet gap (IEEE 802.3), which a frame occupies on the line besides its
/// bytes.
const LINE_OVERHEAD_BYTES: u32 = 8 + 4 + 12;

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Box<Packet>>,
    bytes: u64,
    config: QueueConfig,
    shaper: Option<Bucket>,
    /// Of frames, each of which counts as one byte.
    pacer: Option<Bucket>,
    stats: QueueStats,
}

impl Queue {
    /// Time at which its own shapers allow a frame of `bytes` to leave.
    fn allowed_ns(&self, bytes: u32) -> u64 {
        let shaper_ns = self.shaper.map_or(0, |own| own.ready_ns(bytes));
        self.pacer
            .map_or(shaper_ns, |pacer| pacer.ready_ns(1).max(shaper_ns))
    }
}

/// The bucket of a rate in frames per second.
fn one_at_a_time(rate_pps: u64) -> Shaper {
    Shaper {
        rate_bps: rate_pps.saturating_mul(8),
        burst_bytes: 1,
    }
}

#[derive(Debug)]
pub(crate) struct PortState {
    config: PortConfig,
    queues: [Queue; QUEUES],
    waiting: usize,
    shaper: Option<Bucket>,
    line: Option<Bucket>,
    /// No shaper and no line rate: a packet never waits, unless the port is held.
    unshaped: bool,
    /// Packets stay in the queues, and leave one at a time when [`PortState::head`] is taken.
    held: bool,
    /// Unshaped and not held.
    open: bool,
    /// No line rate, delay, jitter or loss: a frame arrives when it is transmitted.
    ideal_link: bool,
    /// Time at which the next packet leaves a queue; an event with another time is stale.
    pub(super) dequeue_at_ns: Option<u64>,
    pub(super) link: Link,
    /// Time at which the next frame reaches the end of the link; as above.
    pub(super) release_at_ns: Option<u64>,
    /// Frames that arrived without a wait and that the sink has not received yet.
    pub(super) ready: u64,
    pub(super) stats: PortStats,
}

/// The outcome of offering a packet to a port.
pub(super) enum Offer {
    /// It need not wait.
    Pass(Box<Packet>),
    Queued,
    /// The queue is full; its `deflect_to`.
    Full(Box<Packet>, Option<Port>),
}

impl PortState {
    pub(super) fn new(config: PortConfig, seed: u64, now_ns: u64) -> Self {
        let mut port = Self {
            config: PortConfig::default(),
            queues: Default::default(),
            waiting: 0,
            shaper: None,
            line: None,
            unshaped: true,
            held: false,
            open: true,
            ideal_link: true,
            dequeue_at_ns: None,
            link: Link::new(seed),
            release_at_ns: None,
            ready: 0,
            stats: PortStats::default(),
        };
        port.configure(config, now_ns);
        port
    }

    pub(super) fn config(&self) -> PortConfig {
        self.config
    }

    /// Changes the configuration. A new bucket starts full; a changed one keeps its tokens up to the new burst.
    pub(super) fn configure(&mut self, config: PortConfig, now_ns: u64) {
        let bucket = |old: Option<Bucket>, shaper: Option<_>| {
            shaper.map(|new| match old {
                Some(old) => old.changed(new, now_ns),
                None => Bucket::new(new, now_ns),
            })
        };
        self.shaper = bucket(self.shaper, config.shaper);
        if self.config.line_rate_bps != config.line_rate_bps {
            self.line = config
                .line_rate_bps
                .map(|rate_bps| Bucket::line(rate_bps, now_ns));
        }
        for (priority, queue) in self.queues.iter_mut().enumerate() {
            queue.config = config.queue(priority);
            queue.shaper = bucket(queue.shaper, queue.config.shaper);
            queue.pacer = bucket(queue.pacer, queue.config.rate_pps.map(one_at_a_time));
        }
        self.unshaped = self.shaper.is_none()
            && self.line.is_none()
            && self
                .queues
                .iter()
                .all(|queue| queue.shaper.is_none() && queue.pacer.is_none());
        self.open = self.unshaped && !self.held;
        self.ideal_link = self.line.is_none()
            && (config.delay_ns, config.jitter_ns, config.loss_ppb) == (0, 0, 0);
        self.config = config;
    }

    /// Holds the port's packets in its queues, or lets them leave again.
    pub(super) fn set_held(&mut self, held: bool) {
        self.held = held;
        self.open = self.unshaped && !held;
    }

    /// Packets in a queue.
    pub(super) fn waiting(&self, priority: usize) -> usize {
        self.queues
            .get(priority)
            .map_or(0, |queue| queue.packets.len())
    }

    /// Counts a packet as passed if no packet is queued and nothing is shaped; else returns false.
    #[inline(always)]
    pub(super) fn try_bypass(&mut self, packet: &Packet) -> bool {
        if self.waiting > 0 || !self.open {
            return false;
        }
        let Some(queue) = self.queues.get_mut(packet.queue()) else {
            return false;
        };
        let bytes = u64::from(packet.length);
        queue.stats.offered_packets += 1;
        queue.stats.offered_bytes += bytes;
        queue.stats.passed_packets += 1;
        queue.stats.passed_bytes += bytes;
        true
    }

    /// Counts a frame as transmitted if the link is ideal and empty; else returns false.
    #[inline(always)]
    pub(super) fn try_transmit_at_once(&mut self, now_ns: u64) -> bool {
        let at_once = self.ideal_link && self.link.is_empty(now_ns);
        if at_once {
            self.link.stats.offered_packets += 1;
            self.ready += 1;
        }
        at_once
    }

    pub(super) fn offer(&mut self, packet: Box<Packet>, now_ns: u64) -> Offer {
        let (priority, bytes) = (packet.queue(), packet.length);
        let Some(queue) = self.queues.get_mut(priority) else {
            return Offer::Full(packet, None);
        };
        queue.stats.offered_packets += 1;
        queue.stats.offered_bytes += u64::from(bytes);
        let free = self.waiting == 0 && !self.held;
        if free && (self.unshaped || self.ready_ns(priority, bytes) <= now_ns) {
            self.consume_tokens(priority, bytes, now_ns);
            return Offer::Pass(packet);
        }
        let Some(queue) = self.queues.get_mut(priority) else {
            return Offer::Full(packet, None);
        };
        let queued_bytes = queue.bytes + u64::from(bytes);
        let over = |limit: Option<u64>, value: u64| limit.is_some_and(|limit| value > limit);
        let over_bytes = over(queue.config.limit_bytes, queued_bytes);
        if over_bytes || over(queue.config.limit_packets, queue.packets.len() as u64 + 1) {
            if over_bytes {
                queue.stats.dropped_bytes_limit += 1;
            } else {
                queue.stats.dropped_packets_limit += 1;
            }
            queue.stats.dropped_bytes += u64::from(bytes);
            return Offer::Full(packet, queue.config.deflect_to);
        }
        queue.bytes = queued_bytes;
        queue.packets.push_back(packet);
        self.waiting += 1;
        Offer::Queued
    }

    /// Counts a tail-dropped packet that is deflected to another port.
    pub(super) fn count_deflected(&mut self, priority: usize) {
        if let Some(queue) = self.queues.get_mut(priority) {
            queue.stats.deflected_packets += 1;
        }
    }

    /// Time at which the head of a queue may leave, if no other packet leaves before it.
    fn ready_ns(&self, priority: usize, bytes: u32) -> u64 {
        let own = self.queues.get(priority);
        let own_ns = own.map_or(0, |queue| queue.allowed_ns(bytes));
        let buckets = [self.shaper, self.line];
        let times = buckets
            .iter()
            .flatten()
            .map(|bucket| bucket.ready_ns(bytes));
        times.max().unwrap_or(0).max(own_ns)
    }

    /// Time and queue of the packet that leaves next by itself.
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        if self.held { None } else { self.head() }
    }

    /// Time and queue of the next packet: the highest priority among the queues whose own shapers allow it.
    pub(super) fn head(&self) -> Option<(u64, usize)> {
        let mut next: Option<(u64, usize)> = None;
        if self.waiting == 0 {
            return None;
        }
        for (priority, queue) in self.queues.iter().enumerate() {
            let Some(head) = queue.packets.front() else {
                continue;
            };
            let allowed_ns = queue.allowed_ns(head.length);
            // A queue that its own shaper delays beyond the turn of a lower priority does not block that one.
            if next.is_none_or(|(at, _)| allowed_ns <= at) {
                next = Some((self.ready_ns(priority, head.length), priority));
            }
        }
        next
    }

    fn consume_tokens(&mut self, priority: usize, bytes: u32, now_ns: u64) {
        if let Some(queue) = self.queues.get_mut(priority) {
            queue.stats.passed_packets += 1;
            queue.stats.passed_bytes += u64::from(bytes);
            if let Some(own) = &mut queue.shaper {
                own.consume(bytes, now_ns);
            }
            if let Some(pacer) = &mut queue.pacer {
                pacer.consume(1, now_ns);
            }
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.consume(bytes, now_ns);
        }
        if let Some(line) = &mut self.line {
            line.consume(bytes.saturating_add(LINE_OVERHEAD_BYTES), now_ns);
        }
    }

    /// Dequeues the head of a queue at `now_ns`, the time at which it leaves.
    pub(super) fn pop(&mut self, priority: usize, now_ns: u64) -> Option<Box<Packet>> {
        let queue = self.queues.get_mut(priority)?;
        let packet = queue.packets.pop_front()?;
        queue.bytes = queue.bytes.saturating_sub(u64::from(packet.length));
        self.waiting -= 1;
        self.consume_tokens(priority, packet.length, now_ns);
        Some(packet)
    }

    /// Puts the frame that left a queue last on the link.
    pub(super) fn transmit(&mut self, packet: Box<Packet>, now_ns: u64) -> LinkOutcome {
        // The time of its last bit.
        let sent_ns = self
            .line
            .map_or(now_ns, |line| line.ready_ns(0).max(now_ns));
        self.link.transmit(packet, &self.config, sent_ns, now_ns)
    }

    /// Removes all queued packets; `receive` gets each.
    pub(super) fn clear(&mut self, mut receive: impl FnMut(Box<Packet>)) -> u64 {
        let cleared = self.waiting as u64;
        for queue in &mut self.queues {
            queue.stats.removed_packets += queue.packets.len() as u64;
            queue.packets.drain(..).for_each(&mut receive);
            queue.bytes = 0;
        }
        self.waiting = 0;
        self.dequeue_at_ns = None;
        cleared
    }

    /// By priority.
    pub(crate) fn queue_stats(&self) -> [QueueStats; QUEUES] {
        self.queues.each_ref().map(|queue| QueueStats {
            waiting_packets: queue.packets.len() as u64,
            waiting_bytes: queue.bytes,
            ..queue.stats
        })
    }

    pub(crate) fn link_stats(&self) -> LinkStats {
        LinkStats {
            in_flight_packets: self.link.len() + self.ready,
            ..self.link.stats
        }
    }

    pub(crate) fn snapshot(&self) -> PortStats {
        let mut stats = self.stats;
        for queue in self.queue_stats() {
            stats.queue_drops += queue.dropped_packets();
            stats.queue_drop_bytes += queue.dropped_bytes;
            stats.queued_packets += queue.waiting_packets;
            stats.queued_bytes += queue.waiting_bytes;
        }
        let link = self.link_stats();
        stats.in_flight = link.in_flight_packets;
        stats.link_lost = link.lost_packets;
        stats
    }
}
