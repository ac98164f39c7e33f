// SPDX-License-Identifier: Apache-2.0
//! The traffic manager: per port an egress queue with a token bucket, and a delay line behind the deparser.
//!
//! Tokens are counted in billionths of a bit, so that a rate of `r` bit/s adds exactly `r` tokens per nanosecond.

use crate::exec::packet::{Packet, Pool};
use crate::ports::{Port, PortConfig, Shaper};
use crate::stats::PortStats;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tokens per byte.
const BYTE: i128 = 8_000_000_000;

/// One port.
#[derive(Debug)]
pub(crate) struct PortState {
    pub config: PortConfig,
    queue: VecDeque<Box<Packet>>,
    queued_bytes: u64,
    /// May be negative after a frame longer than the bucket.
    tokens: i128,
    tokens_at_ns: u64,
    /// When the head of the queue leaves; the event in the heap that says otherwise is stale.
    dequeue_at_ns: Option<u64>,
    link: VecDeque<(u64, Box<Packet>)>,
    release_at_ns: Option<u64>,
    pub stats: PortStats,
}

impl PortState {
    fn new(config: PortConfig, now_ns: u64) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            queued_bytes: 0,
            tokens: config.shaper.map_or(0, capacity),
            tokens_at_ns: now_ns,
            dequeue_at_ns: None,
            link: VecDeque::new(),
            release_at_ns: None,
            stats: PortStats::default(),
        }
    }

    fn refill(&mut self, shaper: Shaper, now_ns: u64) {
        let elapsed = i128::from(now_ns.saturating_sub(self.tokens_at_ns));
        let added = i128::from(shaper.rate_bps).saturating_mul(elapsed);
        self.tokens = self.tokens.saturating_add(added).min(capacity(shaper));
        self.tokens_at_ns = self.tokens_at_ns.max(now_ns);
    }

    /// When a frame of `bytes` may leave: when the bucket holds it, or is full.
    fn departure_ns(&self, shaper: Shaper, bytes: u32) -> u64 {
        let need = (i128::from(bytes) * BYTE).min(capacity(shaper));
        let missing = (need - self.tokens).max(0);
        let rate = i128::from(shaper.rate_bps.max(1));
        let wait = (missing + rate - 1) / rate;
        self.tokens_at_ns
            .saturating_add(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    pub(crate) fn snapshot(&self) -> PortStats {
        let mut stats = self.stats;
        stats.queued_packets = self.queue.len() as u64;
        stats.queued_bytes = self.queued_bytes;
        stats.in_flight += self.link.len() as u64;
        stats
    }
}

fn capacity(shaper: Shaper) -> i128 {
    i128::from(shaper.burst_bytes) * BYTE
}

/// What became of a packet offered to a port.
pub(crate) enum Admission {
    /// It goes on to egress now; the queue's length as it saw it.
    Now(Box<Packet>),
    Waiting,
    TailDrop(Box<Packet>),
    NoPort(Box<Packet>),
}

type Events = BinaryHeap<Reverse<(u64, u64, Port)>>;

/// All ports, and when something happens at them.
#[derive(Debug, Default)]
pub(crate) struct TrafficManager {
    ports: Vec<Option<Box<PortState>>>,
    /// Time, sequence, port.
    dequeues: Events,
    releases: Events,
    sequence: u64,
    /// Frames that leave without delay, in order of time.
    ready: VecDeque<(u64, Box<Packet>)>,
}

impl TrafficManager {
    pub(crate) fn port(&self, port: Port) -> Option<&PortState> {
        self.ports.get(port as usize)?.as_deref()
    }

    pub(crate) fn port_mut(&mut self, port: Port) -> Option<&mut PortState> {
        self.ports.get_mut(port as usize)?.as_deref_mut()
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = (Port, PortConfig)> + '_ {
        (0..)
            .zip(&self.ports)
            .filter_map(|(port, state)| state.as_ref().map(|s| (port, s.config)))
    }

    /// Creates or changes a port. A new bucket starts full; a changed one keeps its tokens up to the new burst.
    pub(crate) fn set_port(&mut self, port: Port, config: PortConfig, now_ns: u64) {
        let at = port as usize;
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, || None);
        }
        let Some(place) = self.ports.get_mut(at) else {
            return;
        };
        let Some(state) = place else {
            *place = Some(Box::new(PortState::new(config, now_ns)));
            return;
        };
        if let Some(old) = state.config.shaper {
            state.refill(old, now_ns);
        }
        match (state.config.shaper, config.shaper) {
            (_, Some(new)) if state.config.shaper.is_some() => {
                state.tokens = state.tokens.min(capacity(new))
            }
            (_, Some(new)) => state.tokens = capacity(new),
            _ => {}
        }
        state.tokens_at_ns = now_ns;
        state.config = config;
        state.dequeue_at_ns = None;
        self.schedule_dequeue(port, now_ns);
    }

    /// Removes a port; gives back how many packets waited there.
    pub(crate) fn remove_port(&mut self, port: Port, pool: &mut Pool) -> Option<u64> {
        let state = self.ports.get_mut(port as usize)?.take()?;
        let mut ended = 0;
        for packet in state
            .queue
            .into_iter()
            .chain(state.link.into_iter().map(|(_, packet)| packet))
        {
            pool.give(packet);
            ended += 1;
        }
        Some(ended)
    }

    /// Empties all queues; frames on delay lines stay.
    pub(crate) fn clear_queues(&mut self, pool: &mut Pool) -> u64 {
        let mut ended = 0;
        for state in self.ports.iter_mut().flatten() {
            ended += state.queue.len() as u64;
            for packet in state.queue.drain(..) {
                pool.give(packet);
            }
            state.queued_bytes = 0;
            state.dequeue_at_ns = None;
        }
        self.dequeues.clear();
        ended
    }

    /// Waiting packets of a port.
    pub(crate) fn depth(&self, port: Port) -> usize {
        self.port(port).map_or(0, |p| p.queue.len())
    }

    /// Offers a packet to its egress port.
    pub(crate) fn enqueue(&mut self, packet: Box<Packet>, now_ns: u64) -> Admission {
        let port = packet.egress_port;
        let Some(state) = self
            .ports
            .get_mut(port as usize)
            .and_then(Option::as_deref_mut)
        else {
            return Admission::NoPort(packet);
        };
        let bytes = packet.length;
        if state.queue.is_empty() {
            let Some(shaper) = state.config.shaper else {
                return Admission::Now(packet);
            };
            state.refill(shaper, now_ns);
            if state.departure_ns(shaper, bytes) <= now_ns {
                state.tokens -= i128::from(bytes) * BYTE;
                return Admission::Now(packet);
            }
        }
        let waiting = state.queued_bytes + u64::from(bytes);
        if state
            .config
            .queue_limit_bytes
            .is_some_and(|limit| waiting > limit)
        {
            state.stats.queue_drops += 1;
            state.stats.queue_drop_bytes += u64::from(bytes);
            return Admission::TailDrop(packet);
        }
        state.queued_bytes = waiting;
        state.queue.push_back(packet);
        self.schedule_dequeue(port, now_ns);
        Admission::Waiting
    }

    fn schedule_dequeue(&mut self, port: Port, now_ns: u64) {
        let Some(state) = self
            .ports
            .get_mut(port as usize)
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        if state.dequeue_at_ns.is_some() {
            return;
        }
        let Some(head) = state.queue.front() else {
            return;
        };
        let at = state
            .config
            .shaper
            .map_or(now_ns, |s| state.departure_ns(s, head.length))
            .max(now_ns);
        state.dequeue_at_ns = Some(at);
        self.sequence += 1;
        self.dequeues.push(Reverse((at, self.sequence, port)));
    }

    /// When the next packet leaves a queue.
    pub(crate) fn next_dequeue_ns(&self) -> Option<u64> {
        self.dequeues.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the packet that leaves a queue at or before `until_ns`, with its time.
    pub(crate) fn dequeue(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        while let Some(Reverse((at, _, port))) = self.dequeues.peek().copied() {
            if at > until_ns {
                return None;
            }
            self.dequeues.pop();
            let Some(state) = self
                .ports
                .get_mut(port as usize)
                .and_then(Option::as_deref_mut)
            else {
                continue;
            };
            if state.dequeue_at_ns != Some(at) {
                continue;
            }
            state.dequeue_at_ns = None;
            let Some(packet) = state.queue.pop_front() else {
                continue;
            };
            state.queued_bytes = state.queued_bytes.saturating_sub(u64::from(packet.length));
            if let Some(shaper) = state.config.shaper {
                state.refill(shaper, at);
                state.tokens -= i128::from(packet.length) * BYTE;
            }
            self.schedule_dequeue(port, at);
            return Some((at, packet));
        }
        None
    }

    /// Puts a finished frame on its port's link. False: the port is gone, and the packet comes back.
    pub(crate) fn transmit(&mut self, packet: Box<Packet>, now_ns: u64) -> Result<(), Box<Packet>> {
        let port = packet.egress_port;
        let Some(state) = self
            .ports
            .get_mut(port as usize)
            .and_then(Option::as_deref_mut)
        else {
            return Err(packet);
        };
        if state.config.delay_ns == 0 && state.link.is_empty() {
            state.stats.in_flight += 1;
            self.ready.push_back((now_ns, packet));
            return Ok(());
        }
        // A link does not reorder, also when its delay was just shortened.
        let after = state.link.back().map_or(0, |(at, _)| *at);
        state.link.push_back((
            now_ns.saturating_add(state.config.delay_ns).max(after),
            packet,
        ));
        self.schedule_release(port);
        Ok(())
    }

    fn schedule_release(&mut self, port: Port) {
        let Some(state) = self
            .ports
            .get_mut(port as usize)
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        let Some((at, _)) = state.link.front() else {
            return;
        };
        if state.release_at_ns.is_none() {
            state.release_at_ns = Some(*at);
            self.sequence += 1;
            self.releases.push(Reverse((*at, self.sequence, port)));
        }
    }

    /// When the next frame leaves the switch.
    pub(crate) fn next_release_ns(&self) -> Option<u64> {
        let ready = self.ready.front().map(|(at, _)| *at);
        let delayed = self.releases.peek().map(|Reverse((at, _, _))| *at);
        ready.into_iter().chain(delayed).min()
    }

    /// Takes the next frame that leaves at or before `until_ns`, with its time.
    pub(crate) fn release(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        loop {
            let ready = self.ready.front().map_or(u64::MAX, |(at, _)| *at);
            let delayed = self
                .releases
                .peek()
                .map(|Reverse((at, _, port))| (*at, *port));
            if let Some((at, port)) = delayed.filter(|(at, _)| *at < ready) {
                if at > until_ns {
                    return None;
                }
                self.releases.pop();
                let Some(state) = self
                    .ports
                    .get_mut(port as usize)
                    .and_then(Option::as_deref_mut)
                else {
                    continue;
                };
                if state.release_at_ns != Some(at) {
                    continue;
                }
                state.release_at_ns = None;
                let frame = state.link.pop_front();
                self.schedule_release(port);
                match frame {
                    Some(frame) => return Some(frame),
                    None => continue,
                }
            }
            if ready > until_ns {
                return None;
            }
            let (at, packet) = self.ready.pop_front()?;
            if let Some(state) = self.port_mut(packet.egress_port) {
                state.stats.in_flight = state.stats.in_flight.saturating_sub(1);
            }
            return Some((at, packet));
        }
    }
}

#[cfg(test)]
#[path = "tm_tests.rs"]
mod tests;
