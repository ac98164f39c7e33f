// SPDX-License-Identifier: Apache-2.0
//! Between ingress and egress: packets enter and leave the queues of the traffic manager, or are dropped and deflected.

use super::instance_type::DEFLECTED;
use super::{Pending, Switch};
use crate::packet::Packet;
use crate::packet::phv::{load_opt, store_opt};
use crate::ports::Port;
use crate::tm::Admission;

impl Switch {
    /// Enqueues a packet at its egress port. Returns it if egress comes next, without a wait in a queue.
    #[inline(always)]
    pub(super) fn enqueue(
        &mut self,
        mut packet: Box<Packet>,
        priority: u64,
    ) -> Option<Box<Packet>> {
        packet.enqueued_ns = self.now_ns;
        // Three bits wide, so it names one of the eight queues; as in bmv2, the highest priority leaves first.
        packet.priority = priority as u8;
        if self.program.ir.intrinsics.enq_qdepth.is_some() {
            packet.enq_qdepth = self.tm.depth(packet.egress_port, packet.queue()) as u64;
        }
        if priority >= u64::from(self.config.queues) {
            return self.drop_priority(packet);
        }
        if self.tm.try_bypass(&packet) {
            return Some(packet);
        }
        self.enqueue_or_deflect(packet)
    }

    #[cold]
    #[inline(never)]
    fn drop_priority(&mut self, packet: Box<Packet>) -> Option<Box<Packet>> {
        self.externs.stats.dropped_queue += 1;
        self.log_words(&packet, "Priority out of range, dropping packet");
        self.pool.recycle(packet);
        None
    }

    /// Enqueues a clone or a multicast copy.
    #[inline(never)]
    pub(super) fn enqueue_copy(&mut self, packet: Box<Packet>) {
        let priority = load_opt(&packet.phv, self.program.ir.intrinsics.priority);
        let passed = self.enqueue(packet, priority);
        self.pending.extend(passed.map(Pending::Egress));
    }

    #[inline(never)]
    fn enqueue_or_deflect(&mut self, packet: Box<Packet>) -> Option<Box<Packet>> {
        match self.tm.enqueue(packet, self.now_ns) {
            // Egress may still recirculate or clone a packet without a port; it is dropped and counted when it is sent.
            Admission::Pass(packet) | Admission::NoPort(packet) => Some(packet),
            Admission::Queued => None,
            Admission::TailDrop(packet, Some(port)) if !packet.deflected => {
                self.deflect(packet, port)
            }
            Admission::TailDrop(packet, _) => {
                self.externs.stats.dropped_queue += 1;
                let port = u64::from(packet.egress_port);
                self.log_number(
                    &packet,
                    "Dropping packet, because its queue is full at port ",
                    port,
                );
                self.pool.recycle(packet);
                None
            }
        }
    }

    /// Sends a tail-dropped packet through egress to `port`, the port that the queue's configuration names for drops.
    /// Its fields describe the drop: `egress_spec` is the port that it was for, and both depths are those at the drop.
    fn deflect(&mut self, mut packet: Box<Packet>, port: Port) -> Option<Box<Packet>> {
        let intrinsics = &self.program.ir.intrinsics;
        let (original, depth) = (
            packet.egress_port,
            self.tm.depth(packet.egress_port, packet.queue()),
        );
        self.tm.count_deflected(original, packet.queue());
        self.externs.stats.deflected += 1;
        let phv = &mut packet.phv;
        store_opt(phv, intrinsics.instance_type, DEFLECTED);
        store_opt(phv, intrinsics.egress_spec, u64::from(original));
        store_opt(phv, intrinsics.deq_qdepth, depth as u64);
        store_opt(phv, intrinsics.deq_timedelta, 0);
        packet.deflected = true;
        packet.egress_port = port;
        self.enqueue_or_deflect(packet)
    }

    /// Dequeues the packets that leave a queue by `until_ns` and runs egress for each at its own time.
    pub(in crate::switch) fn run_queues(&mut self, until_ns: u64) {
        if self.externs.path_log.is_some() {
            self.run_queues_until::<true>(until_ns);
        } else {
            self.run_queues_until::<false>(until_ns);
        }
    }

    /// Runs egress for a packet that left a queue.
    pub(in crate::switch) fn run_dequeued(&mut self, packet: Box<Packet>) {
        if self.externs.path_log.is_some() {
            self.egress_later::<true>(packet);
            self.run_pending::<true>();
        } else {
            self.egress_later::<false>(packet);
            self.run_pending::<false>();
        }
    }

    fn run_queues_until<const LOG: bool>(&mut self, until_ns: u64) {
        while let Some((at, packet)) = self.tm.dequeue(until_ns) {
            self.now_ns = self.now_ns.max(at);
            self.egress_later::<LOG>(packet);
            self.run_pending::<LOG>();
        }
    }
}
