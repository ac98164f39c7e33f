// SPDX-License-Identifier: Apache-2.0
//! A packet's way: ingress, what follows it, egress, what follows that. The order is simple_switch's
//! (docs/simple_switch.md of p4lang/behavioral-model, "pseudocode for what happens at the end of ingress and egress").

mod copies;

use super::Switch;
use crate::exec::packet::Packet;
use crate::exec::phv::{self, load_opt, store_opt};
use crate::exec::pipeline::{self, Cx};
use crate::exec::{action, deparser, parser};
use crate::ir::Slot;
use crate::native::{Arrival, Departure, Ingressed};
use crate::ports::Port;
use crate::tables::TableState;
use crate::tm::Admission;

const RECIRCULATED: u64 = 4;
const REPLICATED: u64 = 5;
const RESUBMITTED: u64 = 6;
/// Ours: v1model and bmv2 know no deflection, and bmv2 stops at 6.
const DEFLECTED: u64 = 7;

/// What one received packet may cause before the rest is dropped: a bound on programs that copy without end.
const MAX_WORK: u32 = 1 << 16;

/// A packet that waits for a pipeline.
#[derive(Debug)]
pub(super) enum Work {
    Ingress(Box<Packet>),
    Egress(Box<Packet>),
}

impl Switch {
    /// The context of the packet path, beside the tables.
    #[inline(always)]
    fn cx(&mut self) -> (Cx<'_>, &mut [TableState]) {
        self.cx_at(self.now_ns)
    }

    /// The same at a time to come.
    #[inline(always)]
    fn cx_at(&mut self, now_ns: u64) -> (Cx<'_>, &mut [TableState]) {
        let cx = Cx {
            ir: &self.program.ir,
            native: self.native.as_deref(),
            externs: &mut self.externs,
            profiles: &self.profiles,
            now_ns,
            drop_port: self.config.drop_port,
        };
        (cx, &mut self.tables)
    }

    /// The program's clock.
    fn timestamp_us(&self) -> u64 {
        self.program_us(self.now_ns)
    }

    fn program_us(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.config.start_ns) / 1_000
    }

    /// A frame enters at a time, which may be to come. It comes through ingress as far as [`pipeline::take_in`] says.
    #[inline(always)]
    fn enter(&mut self, port: Port, frame: &[u8], (now_ns, pauses): (u64, bool)) -> Box<Packet> {
        let mut packet = self.pool.take();
        packet.fill(frame);
        packet.ingress_port = port;
        packet.passes = 0;
        packet.arrived_ns = now_ns;
        packet.clear_requests();
        let arrival = Arrival {
            port: u64::from(port),
            time_us: self.program_us(now_ns),
        };
        let (mut cx, tables) = self.cx_at(now_ns);
        packet.parsed = pipeline::take_in(&mut cx, tables, &mut packet, (arrival, pauses));
        packet
    }

    /// A frame enters.
    pub(super) fn accept(&mut self, port: Port, frame: &[u8]) {
        let packet = self.enter(port, frame, (self.now_ns, false));
        self.complete(packet);
    }

    /// A frame of a burst enters: all that does not depend on the packets before it.
    #[inline(always)]
    pub(super) fn begin(&mut self, port: Port, frame: &[u8], now_ns: u64) -> Box<Packet> {
        self.enter(port, frame, (now_ns, true))
    }

    /// The rest of what [`Switch::begin`] began, at the packet's time.
    #[inline(always)]
    pub(super) fn go_on(&mut self, packet: Box<Packet>) {
        self.catch_up(packet.arrived_ns);
        self.complete(packet);
    }

    /// The rest of a packet's way.
    #[inline(always)]
    fn complete(&mut self, mut packet: Box<Packet>) {
        let (mut cx, tables) = self.cx();
        let asked = pipeline::go_on(&mut cx, tables, &mut packet);
        let (length, parsed) = (packet.ingress_length, packet.parsed);
        let packet = self.leave_ingress(packet, length, (parsed, asked));
        self.pass_on(packet);
    }

    /// What follows ingress: egress, and what that causes.
    #[inline(always)]
    fn pass_on(&mut self, packet: Option<Box<Packet>>) {
        if let Some(packet) = packet {
            if self.work.is_empty() {
                self.egress(packet);
            } else {
                // Its clones came before it.
                self.work.push_back(Work::Egress(packet));
            }
        }
        if !self.work.is_empty() {
            self.drain();
        }
    }

    /// Runs what waits for a pipeline, first in, first out.
    #[inline(never)]
    fn drain(&mut self) {
        let mut done = 0;
        while let Some(work) = self.work.pop_front() {
            done += 1;
            match work {
                Work::Ingress(packet) | Work::Egress(packet) if done > MAX_WORK => {
                    self.externs.stats.dropped_loop += 1;
                    self.pool.give(packet);
                }
                Work::Ingress(packet) => {
                    let passed = self.ingress(packet);
                    self.work.extend(passed.map(Work::Egress));
                }
                Work::Egress(packet) => self.egress(packet),
            }
        }
    }

    /// Packets whose turn in a queue has come by `until_ns` go through egress, each at its own time.
    pub(super) fn run_queues(&mut self, until_ns: u64) {
        while let Some((at, packet)) = self.tm.dequeue(until_ns) {
            self.now_ns = self.now_ns.max(at);
            self.egress(packet);
            self.drain();
        }
    }

    /// Gives the packet back if it goes on to egress at once.
    fn ingress(&mut self, mut packet: Box<Packet>) -> Option<Box<Packet>> {
        packet.clear_requests();
        let length = packet.length;
        let (mut cx, tables) = self.cx();
        let parsed = parser::parse(&mut cx, &mut packet);
        let asked = pipeline::run_ingress(&mut cx, tables, &mut packet);
        self.leave_ingress(packet, length, (parsed, asked))
    }

    /// What the program asked for in ingress; the packet, which had `length` bytes before, if it goes on to egress at once.
    #[inline(always)]
    fn leave_ingress(
        &mut self,
        mut packet: Box<Packet>,
        length: u32,
        (parsed, asked): (bool, Ingressed),
    ) -> Option<Box<Packet>> {
        packet.exit = false;
        if !parsed {
            self.externs.stats.parser_errors += 1;
        }
        if let Some(requests) = packet.asked() {
            let (clone, digest) = (requests.clone.take(), requests.digest.take());
            let resubmit = requests.resubmit.take();
            if let Some((session, list)) = clone {
                self.clone_ingress(&packet, length, session, list);
            }
            self.digest(&packet, digest);
            if let Some(list) = resubmit {
                self.resubmit(packet, length, list);
                return None;
            }
        }
        let intrinsics = &self.program.ir.intrinsics;
        if asked.group != 0 {
            store_opt(&mut packet.phv, intrinsics.instance_type, REPLICATED);
            self.multicast(packet, asked.group);
            return None;
        }
        if asked.egress_spec == u64::from(self.config.drop_port) {
            self.externs.stats.dropped_ingress += 1;
            self.pool.give(packet);
            return None;
        }
        if asked.instance_type != 0 {
            store_opt(&mut packet.phv, intrinsics.instance_type, 0);
        }
        packet.egress_port = Port::try_from(asked.egress_spec).unwrap_or(Port::MAX);
        self.enqueue(packet, asked.priority)
    }

    /// Sends the digest that a packet asked for.
    #[inline(never)]
    fn digest(&mut self, packet: &Packet, list: Option<u16>) {
        if let Some(list) = list {
            let (mut cx, _) = self.cx();
            action::emit_digest(&mut cx, packet, list);
        }
    }

    #[inline(never)]
    fn resubmit(&mut self, mut packet: Box<Packet>, length: u32, list: u16) {
        self.externs.stats.resubmitted += 1;
        self.restart(&mut packet, list, RESUBMITTED);
        packet.length = length;
        store_opt(
            &mut packet.phv,
            self.program.ir.intrinsics.packet_length,
            u64::from(length),
        );
        self.again(packet);
    }

    #[inline(never)]
    fn recirculate(&mut self, mut packet: Box<Packet>, list: u16) {
        self.externs.stats.recirculated += 1;
        self.restart(&mut packet, list, RECIRCULATED);
        packet.deflected = false;
        packet.ingress_length = packet.length;
        store_opt(
            &mut packet.phv,
            self.program.ir.intrinsics.packet_length,
            u64::from(packet.length),
        );
        self.again(packet);
    }

    /// Fresh fields for another pass, but for those of a list.
    fn restart(&mut self, packet: &mut Packet, list: u16, instance_type: u64) {
        let mut fresh = std::mem::take(&mut self.spare_phv);
        phv::reset(&self.program.ir, &mut fresh);
        self.preserve(&mut fresh, &packet.phv, list, instance_type);
        self.spare_phv = std::mem::replace(&mut packet.phv, fresh);
    }

    fn again(&mut self, mut packet: Box<Packet>) {
        packet.passes = packet.passes.saturating_add(1);
        if packet.passes > self.config.max_passes {
            self.externs.stats.dropped_loop += 1;
            self.pool.give(packet);
        } else {
            self.work.push_back(Work::Ingress(packet));
        }
    }

    /// Hands a packet to the traffic manager; gives it back if it goes on to egress at once.
    #[inline(always)]
    fn enqueue(&mut self, mut packet: Box<Packet>, priority: u64) -> Option<Box<Packet>> {
        packet.enqueued_ns = self.now_ns;
        if self.program.ir.intrinsics.enq_qdepth.is_some() {
            packet.enqueued_depth = self.tm.depth(packet.egress_port) as u64;
        }
        // Three bits wide, so it names one of the eight queues; bmv2 takes it the same way: the higher goes first.
        packet.priority = priority as u8;
        if self.tm.lets_through(&packet) {
            return Some(packet);
        }
        self.offer(packet)
    }

    /// Enqueues a packet that is not the one that the pipeline is at.
    #[inline(never)]
    fn enqueue_copy(&mut self, packet: Box<Packet>) {
        let priority = load_opt(&packet.phv, self.program.ir.intrinsics.priority);
        let passed = self.enqueue(packet, priority);
        self.work.extend(passed.map(Work::Egress));
    }

    #[inline(never)]
    fn offer(&mut self, packet: Box<Packet>) -> Option<Box<Packet>> {
        match self.tm.enqueue(packet, self.now_ns) {
            // Without a port, egress may recirculate or clone it yet; it is dropped and counted when it is to be sent.
            Admission::Now(packet) | Admission::NoPort(packet) => Some(packet),
            Admission::Waiting => None,
            Admission::TailDrop(packet, Some(port)) if !packet.deflected => {
                self.deflect(packet, port)
            }
            Admission::TailDrop(packet, _) => {
                self.externs.stats.dropped_queue += 1;
                self.pool.give(packet);
                None
            }
        }
    }

    /// A tail-dropped packet goes through egress for the port that its queue names, with the fields of its drop:
    /// the port that it was for as `egress_spec`, and the queue's depth at both ends.
    fn deflect(&mut self, mut packet: Box<Packet>, port: Port) -> Option<Box<Packet>> {
        let intrinsics = &self.program.ir.intrinsics;
        let (original, depth) = (packet.egress_port, self.tm.depth(packet.egress_port));
        self.tm.count_deflected(original, packet.queue());
        self.externs.stats.deflected += 1;
        let phv = &mut packet.phv;
        store_opt(phv, intrinsics.instance_type, DEFLECTED);
        store_opt(phv, intrinsics.egress_spec, u64::from(original));
        store_opt(phv, intrinsics.deq_qdepth, depth as u64);
        store_opt(phv, intrinsics.deq_timedelta, 0);
        packet.deflected = true;
        packet.egress_port = port;
        self.offer(packet)
    }

    fn egress(&mut self, mut packet: Box<Packet>) {
        let intrinsics = &self.program.ir.intrinsics;
        // What the program never looks at is not worked out.
        let wanted = |slot: Option<Slot>, value: &dyn Fn() -> u64| slot.map_or(0, |_| value());
        let departure = Departure {
            port: u64::from(packet.egress_port),
            time_us: wanted(intrinsics.egress_timestamp, &|| self.timestamp_us()),
            length: u64::from(packet.length),
            priority: u64::from(packet.priority),
            deflected: packet.deflected,
            queued_us: wanted(intrinsics.deq_timedelta, &|| {
                let enqueued_us = self.program_us(packet.enqueued_ns);
                self.timestamp_us().saturating_sub(enqueued_us)
            }),
            depth: wanted(intrinsics.deq_qdepth, &|| {
                self.tm.depth(packet.egress_port) as u64
            }),
            // Any value but the drop port's, so that only this pipeline decides.
            egress_spec: u64::from(self.config.drop_port) + 1,
            enqueued_us: wanted(intrinsics.enq_timestamp, &|| {
                self.program_us(packet.enqueued_ns)
            }),
            enqueued_depth: packet.enqueued_depth,
        };
        let (mut cx, tables) = self.cx();
        let left = pipeline::run_egress(&mut cx, tables, &mut packet, departure);
        packet.exit = false;
        if let Some(requests) = packet.asked() {
            let (clone, digest) = (requests.clone.take(), requests.digest.take());
            if let Some((session, list)) = clone {
                self.clone_egress(&packet, session, list);
            }
            self.digest(&packet, digest);
        }
        if left.egress_spec == u64::from(self.config.drop_port) {
            self.externs.stats.dropped_egress += 1;
            self.pool.give(packet);
            return;
        }
        let recirculate = packet
            .asked()
            .and_then(|requests| requests.recirculate.take());
        let (mut cx, _) = self.cx();
        deparser::deparse(&mut cx, &mut packet, left.updates);
        if packet.exit {
            // A statement of the deparser was false.
            self.externs.stats.dropped_egress += 1;
            self.pool.give(packet);
            return;
        }
        if let Some(list) = recirculate {
            self.recirculate(packet, list);
            return;
        }
        self.pool.strip(&mut packet);
        if let Err(packet) = self.tm.transmit(packet, self.now_ns, &mut self.pool) {
            self.externs.stats.dropped_no_port += 1;
            self.pool.give(packet);
        }
    }
}
