// SPDX-License-Identifier: Apache-2.0
//! One port: its queues, what shapes them, and which goes next.

use super::bucket::Bucket;
use super::link::{Departure, Link};
use crate::exec::packet::Packet;
use crate::ports::{Port, PortConfig, QUEUES, QueueConfig};
use crate::stats::{LinkStats, PortStats, QueueStats};
use std::collections::VecDeque;

/// Preamble, frame delimiter, FCS and inter-packet gap (IEEE 802.3): what a frame takes on the line besides its bytes.
const LINE_OVERHEAD_BYTES: u32 = 8 + 4 + 12;

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Box<Packet>>,
    bytes: u64,
    config: QueueConfig,
    shaper: Option<Bucket>,
    stats: QueueStats,
}

#[derive(Debug)]
pub(crate) struct PortState {
    config: PortConfig,
    queues: [Queue; QUEUES],
    waiting: usize,
    shaper: Option<Bucket>,
    line: Option<Bucket>,
    /// Nothing holds a frame back.
    free: bool,
    /// Frames leave at once, and arrive so.
    straight: bool,
    /// When the next frame leaves a queue; the event in the heap that says otherwise is stale.
    pub(super) dequeue_at_ns: Option<u64>,
    pub(super) link: Link,
    /// When the next frame arrives; as above.
    pub(super) release_at_ns: Option<u64>,
    /// Frames that left without delay and wait for the sink.
    pub(super) ready: u64,
    pub(super) stats: PortStats,
}

/// What a port does with a packet that is offered.
pub(super) enum Offer {
    Now(Box<Packet>),
    Waiting,
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
            free: true,
            straight: true,
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
        }
        self.free = self.shaper.is_none()
            && self.line.is_none()
            && self.queues.iter().all(|queue| queue.shaper.is_none());
        self.straight = self.line.is_none()
            && (config.delay_ns, config.jitter_ns, config.loss_ppb) == (0, 0, 0);
        self.config = config;
    }

    /// Packets that wait, in all queues.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether a packet goes on to egress without a look at tokens and queues; if so, its queue counts it.
    #[inline(always)]
    pub(super) fn lets_through(&mut self, packet: &Packet) -> bool {
        if self.waiting > 0 || !self.free {
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

    /// Whether a frame goes through the link without a look at delay, jitter and loss; if so, it is counted there.
    #[inline(always)]
    pub(super) fn sends_at_once(&mut self, now_ns: u64) -> bool {
        let at_once = self.straight && self.link.is_empty(now_ns);
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
        if self.waiting == 0 && (self.free || self.ready_ns(priority, bytes) <= now_ns) {
            self.take(priority, bytes, now_ns);
            return Offer::Now(packet);
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
        Offer::Waiting
    }

    /// A packet that was dropped goes through egress for another port.
    pub(super) fn count_deflected(&mut self, priority: usize) {
        if let Some(queue) = self.queues.get_mut(priority) {
            queue.stats.deflected_packets += 1;
        }
    }

    /// When a frame at the head of a queue may leave, if no other goes before it.
    fn ready_ns(&self, priority: usize, bytes: u32) -> u64 {
        let own = self.queues.get(priority).and_then(|queue| queue.shaper);
        let buckets = [self.shaper, self.line, own];
        let times = buckets
            .iter()
            .flatten()
            .map(|bucket| bucket.ready_ns(bytes));
        times.max().unwrap_or(0)
    }

    /// Which queue's head leaves next, and when: the highest priority among those that their own shapers let go.
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        let mut next: Option<(u64, usize)> = None;
        if self.waiting == 0 {
            return None;
        }
        for (priority, queue) in self.queues.iter().enumerate() {
            let Some(head) = queue.packets.front() else {
                continue;
            };
            let let_go_ns = queue.shaper.map_or(0, |own| own.ready_ns(head.length));
            // A queue that its own shaper still holds when a lower one's turn comes does not stop that one.
            if next.is_none_or(|(at, _)| let_go_ns <= at) {
                next = Some((self.ready_ns(priority, head.length), priority));
            }
        }
        next
    }

    fn take(&mut self, priority: usize, bytes: u32, now_ns: u64) {
        if let Some(queue) = self.queues.get_mut(priority) {
            queue.stats.passed_packets += 1;
            queue.stats.passed_bytes += u64::from(bytes);
            if let Some(own) = &mut queue.shaper {
                own.take(bytes, now_ns);
            }
        }
        if let Some(shaper) = &mut self.shaper {
            shaper.take(bytes, now_ns);
        }
        if let Some(line) = &mut self.line {
            line.take(bytes.saturating_add(LINE_OVERHEAD_BYTES), now_ns);
        }
    }

    /// Takes the head of a queue at `now_ns`, which is its time.
    pub(super) fn pop(&mut self, priority: usize, now_ns: u64) -> Option<Box<Packet>> {
        let queue = self.queues.get_mut(priority)?;
        let packet = queue.packets.pop_front()?;
        queue.bytes = queue.bytes.saturating_sub(u64::from(packet.length));
        self.waiting -= 1;
        self.take(priority, packet.length, now_ns);
        Some(packet)
    }

    /// Puts the frame that left a queue last on the link.
    pub(super) fn depart(&mut self, packet: Box<Packet>, now_ns: u64) -> Departure {
        // When its last bit is on the line.
        let at_ns = self
            .line
            .map_or(now_ns, |line| line.ready_ns(0).max(now_ns));
        self.link.depart(packet, &self.config, at_ns, now_ns)
    }

    /// Takes all waiting packets; `receive` gets each.
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
