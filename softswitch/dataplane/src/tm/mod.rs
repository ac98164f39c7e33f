// SPDX-License-Identifier: Apache-2.0
//! The traffic manager: per port eight egress queues with strict priorities and token buckets, and an emulated link
//! after the deparser.
//!
//! Layout: `bucket` is the token bucket of a shaper, `port` has the queues and selects the next packet, `link` has
//! delay, jitter and loss, `ready` what waits for neither; this module has all ports and the times of their next events.

mod bucket;
mod link;
mod port;
mod ready;

use crate::packet::{Packet, Pool};
use crate::ports::{Port, PortConfig};
use link::LinkOutcome;
use port::Offer;
pub(crate) use port::PortState;
use ready::Ready;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The outcome of enqueueing a packet.
pub(crate) enum Admission {
    /// Egress comes next, without a wait.
    Pass(Box<Packet>),
    Queued,
    /// The queue is full; the port to which the packet may be deflected.
    TailDrop(Box<Packet>, Option<Port>),
    NoPort(Box<Packet>),
}

/// Times of the next events of ports. Stale times stay in the heap and are skipped.
#[derive(Debug, Default)]
struct Events {
    heap: BinaryHeap<Reverse<(u64, u64, Port)>>,
    sequence: u64,
}

impl Events {
    fn push(&mut self, at_ns: u64, port: Port) {
        self.sequence += 1;
        self.heap.push(Reverse((at_ns, self.sequence, port)));
    }

    fn next(&self) -> Option<(u64, Port)> {
        self.heap.peek().map(|Reverse((at, _, port))| (*at, *port))
    }
}

/// All ports, and the times of their next events.
#[derive(Debug, Default)]
pub(crate) struct TrafficManager {
    ports: Vec<Option<Box<PortState>>>,
    dequeues: Events,
    releases: Events,
    /// Frames that need not wait on a link, in order of time.
    ready: Ready,
    seed: u64,
}

fn schedule_dequeue(state: &mut PortState, events: &mut Events, port: Port, now_ns: u64) {
    let next = state.next().map(|(at, _)| at.max(now_ns));
    if state.dequeue_at_ns != next {
        state.dequeue_at_ns = next;
        if let Some(at) = next {
            events.push(at, port);
        }
    }
}

fn schedule_release(state: &mut PortState, events: &mut Events, port: Port) {
    let next = state.link.next_ns();
    if state.release_at_ns != next {
        state.release_at_ns = next;
        if let Some(at) = next {
            events.push(at, port);
        }
    }
}

#[inline(always)]
fn state(ports: &mut [Option<Box<PortState>>], port: Port) -> Option<&mut PortState> {
    ports.get_mut(port as usize)?.as_deref_mut()
}

impl TrafficManager {
    /// Without ports; `seed` decides jitter and loss.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    pub(crate) fn port(&self, port: Port) -> Option<&PortState> {
        self.ports.get(port as usize)?.as_deref()
    }

    pub(crate) fn ports(&self) -> impl Iterator<Item = (Port, PortConfig)> + '_ {
        (0..)
            .zip(&self.ports)
            .filter_map(|(port, state)| state.as_ref().map(|s| (port, s.config())))
    }

    /// Counts a frame that a port received.
    pub(crate) fn count_received(&mut self, port: Port, bytes: usize) {
        if let Some(state) = state(&mut self.ports, port) {
            state.stats.rx_packets += 1;
            state.stats.rx_bytes += bytes as u64;
        }
    }

    /// Creates or changes a port.
    pub(crate) fn set_port(&mut self, port: Port, config: PortConfig, now_ns: u64) {
        let at = port as usize;
        if self.ports.len() <= at {
            self.ports.resize_with(at + 1, || None);
        }
        let Some(slot) = self.ports.get_mut(at) else {
            return;
        };
        match slot {
            Some(state) => {
                state.configure(config, now_ns);
                schedule_dequeue(state, &mut self.dequeues, port, now_ns);
            }
            None => {
                // The ports of a switch must not lose the same packets.
                let seed = self.seed ^ (u64::from(port) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
                *slot = Some(Box::new(PortState::new(config, seed, now_ns)));
            }
        }
    }

    /// Removes a port; returns how many packets were queued there or on its link.
    pub(crate) fn remove_port(&mut self, port: Port, pool: &mut Pool) -> Option<u64> {
        let mut state = self.ports.get_mut(port as usize)?.take()?;
        let mut ended = state.clear(|packet| pool.recycle(packet));
        for packet in state.link.clear() {
            pool.recycle(packet);
            ended += 1;
        }
        Some(ended + self.ready.remove(port))
    }

    /// Empties all queues; frames on links stay.
    pub(crate) fn clear_queues(&mut self, pool: &mut Pool) -> u64 {
        self.dequeues.heap.clear();
        let states = self.ports.iter_mut().flatten();
        states
            .map(|state| state.clear(|packet| pool.recycle(packet)))
            .sum()
    }

    /// Packets in the queue of a port and priority.
    pub(crate) fn depth(&self, port: Port, priority: usize) -> usize {
        self.port(port).map_or(0, |state| state.waiting(priority))
    }

    /// Counts a packet as passed if its egress port has no queued packets and no shaper; else returns false.
    #[inline(always)]
    pub(crate) fn try_bypass(&mut self, packet: &Packet) -> bool {
        state(&mut self.ports, packet.egress_port).is_some_and(|state| state.try_bypass(packet))
    }

    /// Enqueues a packet at its egress port.
    pub(crate) fn enqueue(&mut self, packet: Box<Packet>, now_ns: u64) -> Admission {
        let port = packet.egress_port;
        let Some(state) = state(&mut self.ports, port) else {
            return Admission::NoPort(packet);
        };
        match state.offer(packet, now_ns) {
            Offer::Pass(packet) => Admission::Pass(packet),
            Offer::Queued => {
                schedule_dequeue(state, &mut self.dequeues, port, now_ns);
                Admission::Queued
            }
            Offer::Full(packet, deflect_to) => Admission::TailDrop(packet, deflect_to),
        }
    }

    /// Holds a port's packets in its queues, or lets them leave again from `now_ns` on.
    pub(crate) fn hold(&mut self, port: Port, held: bool, now_ns: u64) {
        if let Some(state) = state(&mut self.ports, port) {
            state.set_held(held);
            schedule_dequeue(state, &mut self.dequeues, port, now_ns);
        }
    }

    /// Dequeues the next packet of a port whose packets are held, if its shapers allow one.
    pub(crate) fn dequeue_held(&mut self, port: Port, now_ns: u64) -> Option<Box<Packet>> {
        let state = state(&mut self.ports, port)?;
        let (_, priority) = state.head().filter(|(at, _)| *at <= now_ns)?;
        state.pop(priority, now_ns)
    }

    /// Counts that a packet that was dropped at `port` is deflected to another.
    pub(crate) fn count_deflected(&mut self, port: Port, priority: usize) {
        if let Some(state) = state(&mut self.ports, port) {
            state.count_deflected(priority);
        }
    }

    /// Time at which the next packet leaves a queue.
    pub(crate) fn next_dequeue_ns(&self) -> Option<u64> {
        self.dequeues.next().map(|(at, _)| at)
    }

    /// Dequeues the next packet that leaves a queue at or before `until_ns`, with its time.
    pub(crate) fn dequeue(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        while let Some((at, port)) = self.dequeues.next().filter(|(at, _)| *at <= until_ns) {
            self.dequeues.heap.pop();
            let Some(state) = state(&mut self.ports, port) else {
                continue;
            };
            if state.dequeue_at_ns != Some(at) {
                continue;
            }
            state.dequeue_at_ns = None;
            let packet = match state.next() {
                Some((_, priority)) => state.pop(priority, at),
                None => None,
            };
            schedule_dequeue(state, &mut self.dequeues, port, at);
            if let Some(packet) = packet {
                return Some((at, packet));
            }
        }
        None
    }

    /// Transmits a deparsed frame on its port's link. An error returns the packet: the port does not exist.
    #[inline(always)]
    pub(crate) fn transmit(
        &mut self,
        packet: Box<Packet>,
        now_ns: u64,
        pool: &mut Pool,
    ) -> Result<(), Box<Packet>> {
        let port = packet.egress_port;
        let Some(state) = state(&mut self.ports, port) else {
            return Err(packet);
        };
        if state.try_transmit_at_once(now_ns) {
            self.ready.push(now_ns, packet);
        } else {
            self.transmit_on_link(packet, now_ns, pool);
        }
        Ok(())
    }

    #[inline(never)]
    fn transmit_on_link(&mut self, packet: Box<Packet>, now_ns: u64, pool: &mut Pool) {
        let port = packet.egress_port;
        let Some(state) = state(&mut self.ports, port) else {
            return pool.recycle(packet);
        };
        match state.transmit(packet, now_ns) {
            LinkOutcome::Arrived(packet) => {
                state.ready += 1;
                self.ready.push(now_ns, packet);
            }
            LinkOutcome::InFlight => schedule_release(state, &mut self.releases, port),
            LinkOutcome::Lost(packet) => pool.recycle(packet),
        }
    }

    /// Time at which the next frame reaches the end of its link.
    pub(crate) fn next_release_ns(&self) -> Option<u64> {
        let ready = self.ready.first_ns();
        let delayed = self.releases.next().map(|(at, _)| at);
        ready.into_iter().chain(delayed).min()
    }

    /// Takes the next frame that reaches the end of its link at or before `until_ns`, with its time.
    #[inline(always)]
    pub(crate) fn release(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        if self.releases.heap.is_empty() {
            self.release_ready(until_ns)
        } else {
            self.release_either(until_ns)
        }
    }

    /// Takes the next frame that did not have to wait on its link.
    #[inline(always)]
    fn release_ready(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        if self.ready.first_ns()? > until_ns {
            return None;
        }
        let (at, packet) = self.ready.pop()?;
        if let Some(state) = state(&mut self.ports, packet.egress_port) {
            state.ready = state.ready.saturating_sub(1);
            count_sent(state, &packet);
        }
        Some((at, packet))
    }

    #[inline(never)]
    fn release_either(&mut self, until_ns: u64) -> Option<(u64, Box<Packet>)> {
        loop {
            let ready = self.ready.first_ns().unwrap_or(u64::MAX);
            let delayed = self.releases.next().filter(|(at, _)| *at < ready);
            let Some((at, port)) = delayed else {
                return self.release_ready(until_ns);
            };
            if at > until_ns {
                return None;
            }
            self.releases.heap.pop();
            let Some(state) = state(&mut self.ports, port) else {
                continue;
            };
            if state.release_at_ns != Some(at) {
                continue;
            }
            state.release_at_ns = None;
            let packet = state.link.pop();
            schedule_release(state, &mut self.releases, port);
            if let Some(packet) = packet {
                count_sent(state, &packet);
                return Some((at, packet));
            }
        }
    }
}

#[inline(always)]
fn count_sent(state: &mut PortState, packet: &Packet) {
    state.link.stats.passed_packets += 1;
    state.stats.tx_packets += 1;
    state.stats.tx_bytes += packet.frame_bytes();
}

#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod tests;
