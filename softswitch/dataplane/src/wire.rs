// SPDX-License-Identifier: Apache-2.0
//! Plain wires: a frame received at one end is transmitted unchanged at the other, through the queues and the link
//! there.

use crate::packet::{Packet, Pool};
use crate::ports::{Port, PortConfig, QUEUES};
use crate::stats::{LinkStats, PortStats, QueueStats, Stats};
use crate::switch::Sink;
use crate::tm::{Admission, PortState, TrafficManager};

/// Wires without a P4 program. Time is the caller's, in ns; a time earlier than the last one counts as the last one.
#[derive(Debug)]
pub struct Wire {
    /// The other end of each port, by port.
    peers: Vec<Option<Port>>,
    tm: TrafficManager,
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

    /// Creates an end or changes its queues and link.
    pub fn set_port(&mut self, port: Port, config: PortConfig, now_ns: u64) {
        self.run_queues(now_ns);
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
        dequeue.chain(self.tm.next_release_ns()).min()
    }

    /// Advances time to `now_ns` and passes every frame that has arrived by then to the sink, in order of time.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl Sink) {
        self.run_queues(now_ns);
        while let Some((at, packet)) = self.tm.release(self.now_ns) {
            self.stats.transmitted += 1;
            sink.transmit(packet.egress_port, packet.original(), at);
            self.pool.recycle(packet);
        }
    }

    /// Removes an end with its queued frames; later frames for it are counted as `dropped_no_port`.
    pub fn remove_port(&mut self, port: Port) {
        let ended = self.tm.remove_port(port, &mut self.pool);
        self.stats.dropped_reconfigured += ended.unwrap_or(0);
    }

    /// Totals of all wires.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Totals of one end; zeros for one that does not exist.
    pub fn port_stats(&self, port: Port) -> PortStats {
        let state = self.tm.port(port);
        state.map(PortState::snapshot).unwrap_or_default()
    }

    /// Totals of an end's queues; only the first is used, because a wire has no priorities.
    pub fn queue_stats(&self, port: Port) -> Option<[QueueStats; QUEUES]> {
        self.tm.port(port).map(PortState::queue_stats)
    }

    /// Totals of the link towards one end.
    pub fn link_stats(&self, port: Port) -> Option<LinkStats> {
        self.tm.port(port).map(PortState::link_stats)
    }
}
