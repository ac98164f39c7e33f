// SPDX-License-Identifier: Apache-2.0
//! Plain wires: a frame received at one end is transmitted unchanged at the other, through the queues and the link
//! there.

mod whole;

pub use whole::Carried;

use crate::packet::{Packet, Pool};
use crate::ports::{Port, PortConfig, QUEUES};
use crate::stats::{LinkStats, PortStats, QueueStats, Stats};
use crate::switch::Sink;
use crate::tm::{Admission, PortState, TrafficManager};
use std::collections::BTreeMap;
use whole::Whole;

/// Wires without a P4 program. Time is the caller's, in ns; a time earlier than the last one counts as the last one.
#[derive(Debug)]
pub struct Wire {
    /// The other end of each port, by port.
    peers: Vec<Option<Port>>,
    tm: TrafficManager,
    /// The ends of wires whose frames stay whole.
    whole: BTreeMap<Port, Whole>,
    pool: Pool,
    now_ns: u64,
    stats: Stats,
}

impl Wire {
    /// Without ends; `seed` decides jitter and loss.
    pub fn new(seed: u64) -> Self {
        Self {
            peers: Vec::new(),
            tm: TrafficManager::new(seed),
            whole: BTreeMap::new(),
            pool: Pool::default(),
            now_ns: 0,
            stats: Stats::default(),
        }
    }

    /// Makes `port` the other end of `peer`, for frames in both directions; both need [`Wire::set_port`] to send.
    pub fn connect(&mut self, port: Port, peer: Port) {
        for (one, other) in [(port, peer), (peer, port)] {
            let at = one as usize;
            if self.peers.len() <= at {
                self.peers.resize(at + 1, None);
            }
            if let Some(peer) = self.peers.get_mut(at) {
                *peer = Some(other);
            }
        }
    }

    /// Frames of an end stay whole from now on ([`Wire::receive_whole`]); it needs [`Wire::set_port`] too.
    pub fn keep_whole(&mut self, port: Port) {
        self.whole.entry(port).or_default();
    }

    /// Whether frames of this end stay whole.
    pub fn keeps_whole(&self, port: Port) -> bool {
        self.whole.contains_key(&port)
    }

    /// The reason why an end cannot have this configuration, if there is one.
    pub fn problem(&self, port: Port, config: &PortConfig) -> Option<&'static str> {
        let whole = self.keeps_whole(port).then(|| Whole::problem(config));
        config.problem().or(whole.flatten())
    }

    /// Creates an end or changes its queues and link, which have no [`Wire::problem`].
    pub fn set_port(&mut self, port: Port, config: PortConfig, now_ns: u64) {
        self.run_queues(now_ns);
        if let Some(whole) = self.whole.get_mut(&port) {
            whole.set_delay(config.delay_ns);
        }
        self.tm.set_port(port, config, self.now_ns);
    }

    /// The ends, ascending.
    pub fn ports(&self) -> impl Iterator<Item = (Port, PortConfig)> + '_ {
        self.tm.ports()
    }

    /// Receives a frame at one end. Output waits for [`Wire::advance`].
    pub fn receive(&mut self, port: Port, frame: &[u8], now_ns: u64) {
        self.run_queues(now_ns);
        self.stats.received += 1;
        self.tm.count_received(port, frame.len());
        let Some(peer) = self.peers.get(port as usize).copied().flatten() else {
            self.stats.dropped_no_port += 1;
            return;
        };
        let mut packet = self.pool.take();
        packet.fill(frame);
        packet.egress_port = peer;
        match self.tm.enqueue(packet, self.now_ns) {
            Admission::Pass(packet) => self.transmit(packet),
            Admission::Queued => {}
            Admission::TailDrop(packet, _) => {
                self.stats.dropped_queue += 1;
                self.pool.recycle(packet);
            }
            Admission::NoPort(packet) => {
                self.stats.dropped_no_port += 1;
                self.pool.recycle(packet);
            }
        }
    }

    /// Receives a frame at an end where frames stay whole: its content, which is passed on unchanged, and what it would be
    /// on a wire. Output waits for [`Wire::advance`].
    pub fn receive_whole(&mut self, port: Port, content: &[u8], carried: Carried, now_ns: u64) {
        self.run_queues(now_ns);
        self.stats.received += carried.frames;
        if let Some(whole) = self.whole.get_mut(&port) {
            whole.count_received(carried);
        }
        let peer = self.peers.get(port as usize).copied().flatten();
        match peer.and_then(|peer| self.whole.get_mut(&peer)) {
            Some(whole) => whole.offer(content, carried, self.now_ns),
            None => self.stats.dropped_no_port += carried.frames,
        }
    }

    fn transmit(&mut self, packet: Box<Packet>) {
        if let Err(packet) = self.tm.transmit(packet, self.now_ns, &mut self.pool) {
            self.stats.dropped_no_port += 1;
            self.pool.recycle(packet);
        }
    }

    fn run_queues(&mut self, until_ns: u64) {
        let until_ns = until_ns.max(self.now_ns);
        while let Some((at, packet)) = self.tm.dequeue(until_ns) {
            self.now_ns = self.now_ns.max(at);
            self.transmit(packet);
        }
        self.now_ns = until_ns;
    }

    /// Time at which the next frame leaves a queue or reaches the other end.
    pub fn next_event_ns(&self) -> Option<u64> {
        let dequeue = self.tm.next_dequeue_ns().into_iter();
        let whole = self.next_whole().map(|(at_ns, _)| at_ns);
        dequeue.chain(self.tm.next_release_ns()).chain(whole).min()
    }

    /// Advances time to `now_ns` and passes every frame that has arrived by then to the sink, in order of time.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.run_queues(now_ns);
        while let Some((at_ns, port)) = self.next_whole().filter(|(at_ns, _)| *at_ns <= self.now_ns)
        {
            // Frames of other wires that arrive before it leave first.
            self.release(at_ns, sink);
            if let Some(whole) = self.whole.get_mut(&port) {
                let carried = whole.arrive(|content, at_ns| sink.transmit(port, content, at_ns));
                self.stats.transmitted += carried.frames;
            }
        }
        self.release(self.now_ns, sink);
    }

    fn release(&mut self, until_ns: u64, sink: &mut impl Sink) {
        while let Some((at, packet)) = self.tm.release(until_ns) {
            self.stats.transmitted += 1;
            sink.transmit(packet.egress_port, packet.original(), at);
            self.pool.recycle(packet);
        }
    }

    /// When and where the next whole frame arrives.
    fn next_whole(&self) -> Option<(u64, Port)> {
        let fronts = self.whole.iter();
        fronts
            .filter_map(|(port, whole)| Some((whole.next_ns()?, *port)))
            .min()
    }

    /// Removes an end with its queued frames; later frames for it are counted as `dropped_no_port`.
    pub fn remove_port(&mut self, port: Port) {
        let ended = self.tm.remove_port(port, &mut self.pool).unwrap_or(0);
        let whole = self.whole.remove(&port);
        let whole = whole.map_or(0, |whole| whole.link_stats().in_flight_packets);
        self.stats.dropped_reconfigured += ended + whole;
    }

    /// Totals of all wires.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Totals of one end; zeros for one that does not exist.
    pub fn port_stats(&self, port: Port) -> PortStats {
        if let Some(whole) = self.whole.get(&port) {
            return whole.port_stats();
        }
        let state = self.tm.port(port);
        state.map(PortState::snapshot).unwrap_or_default()
    }

    /// Totals of an end's queues; only the first is used, because a wire has no priorities.
    pub fn queue_stats(&self, port: Port) -> Option<[QueueStats; QUEUES]> {
        let mut queues = self.tm.port(port).map(PortState::queue_stats)?;
        if let (Some(whole), Some(first)) = (self.whole.get(&port), queues.first_mut()) {
            *first = whole.queue_stats();
        }
        Some(queues)
    }

    /// Totals of the link towards one end.
    pub fn link_stats(&self, port: Port) -> Option<LinkStats> {
        match self.whole.get(&port) {
            Some(whole) => Some(whole.link_stats()),
            None => self.tm.port(port).map(PortState::link_stats),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TEN: Carried = Carried {
        frames: 10,
        bytes: 15_140,
    };
    const ONE: Carried = Carried {
        frames: 1,
        bytes: 54,
    };

    fn delayed(delay_ns: u64) -> PortConfig {
        PortConfig {
            delay_ns,
            ..PortConfig::default()
        }
    }

    /// A wire from 1 to 2 of 5 ms, back of 1 ms, where frames stay whole.
    fn whole() -> Wire {
        let mut wire = Wire::new(1);
        wire.connect(1, 2);
        for (port, delay_ns) in [(1, MS), (2, 5 * MS)] {
            wire.keep_whole(port);
            wire.set_port(port, delayed(delay_ns), 0);
        }
        wire
    }

    fn advance(wire: &mut Wire, now_ns: u64) -> Vec<(Port, Vec<u8>, u64)> {
        let mut out = Vec::new();
        wire.advance(now_ns, &mut |port: Port, frame: &[u8], at_ns: u64| {
            out.push((port, frame.to_vec(), at_ns));
        });
        out
    }

    #[test]
    fn a_whole_frame_is_delayed_as_one_and_counted_as_many() {
        let mut wire = whole();
        wire.receive_whole(1, b"ten", TEN, 0);
        wire.receive_whole(2, b"ack", ONE, MS);
        assert_eq!(wire.next_event_ns(), Some(2 * MS));
        assert_eq!(
            wire.link_stats(2).map(|link| link.in_flight_packets),
            Some(10)
        );
        assert_eq!(advance(&mut wire, 4 * MS), [(1, b"ack".to_vec(), 2 * MS)]);
        assert_eq!(advance(&mut wire, 9 * MS), [(2, b"ten".to_vec(), 5 * MS)]);
        let (a, b) = (wire.port_stats(1), wire.port_stats(2));
        assert_eq!((a.rx_packets, a.rx_bytes, a.tx_packets), (10, 15_140, 1));
        assert_eq!((b.rx_packets, b.tx_bytes, b.tx_packets), (1, 15_140, 10));
        let stats = wire.stats();
        assert_eq!((stats.received, stats.transmitted), (11, 11));
        assert_eq!(wire.queue_stats(2).map(|q| q[0].passed_packets), Some(10));
    }

    #[test]
    fn a_shorter_delay_lets_no_whole_frame_overtake() {
        let mut wire = whole();
        wire.receive_whole(1, b"first", TEN, 0);
        wire.set_port(2, delayed(0), MS);
        wire.receive_whole(1, b"second", ONE, 2 * MS);
        let arrived = advance(&mut wire, 5 * MS);
        let times = arrived
            .iter()
            .map(|(_, content, at_ns)| (&**content, *at_ns));
        assert!(times.eq([(&b"first"[..], 5 * MS), (b"second", 5 * MS)]));
    }

    #[test]
    fn frames_of_all_wires_arrive_in_order_of_time() {
        let mut wire = whole();
        wire.connect(3, 4);
        wire.set_port(4, delayed(3 * MS), 0);
        wire.receive(3, b"early", 0);
        wire.receive_whole(1, b"middle", ONE, 0);
        wire.receive(3, b"late", 4 * MS);
        let arrived = advance(&mut wire, 9 * MS);
        assert!(arrived.iter().map(|(port, _, _)| *port).eq([4, 2, 4]));
    }

    #[test]
    fn whole_frames_need_a_wire_with_a_delay_only() {
        let wire = whole();
        let lossy = PortConfig {
            loss_ppb: 1,
            ..delayed(MS)
        };
        assert_eq!(wire.problem(1, &delayed(7 * MS)), None);
        assert!(
            wire.problem(1, &lossy)
                .is_some_and(|why| why.contains("gso=yes"))
        );
        assert_eq!(wire.problem(3, &lossy), None);
    }

    #[test]
    fn whole_frames_of_a_removed_end_are_counted() {
        let mut wire = whole();
        wire.receive_whole(1, b"ten", TEN, 0);
        wire.remove_port(2);
        wire.receive_whole(1, b"ten", TEN, MS);
        let stats = wire.stats();
        assert_eq!(
            (stats.dropped_reconfigured, stats.dropped_no_port),
            (10, 10)
        );
        assert_eq!(stats.begun(), stats.ended());
    }
}
