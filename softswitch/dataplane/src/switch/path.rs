// SPDX-License-Identifier: Apache-2.0
//! The path of a packet through the stages: parse, ingress, traffic manager, egress, deparse. The order is
//! simple_switch's (docs/simple_switch.md of p4lang/behavioral-model, "pseudocode for what happens at the end of
//! ingress and egress").

mod copies;
mod egress;
mod ingress;
mod log;
mod traffic_manager;

use super::{Switch, SwitchConfig};
use crate::context::Cx;
use crate::packet::phv;
use crate::packet::{IngressMetadata, IngressResult, Packet, Through};
use crate::ports::Port;
use crate::stages::{self, Code};
use crate::tables::TableState;

/// The largest number of pipeline runs that one received packet may cause; it bounds programs that copy without end.
const MAX_RUNS: u32 = 1 << 16;

/// Values of `standard_metadata.instance_type`, as simple_switch has them.
mod instance_type {
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATED: u64 = 4;
    pub(super) const REPLICATED: u64 = 5;
    pub(super) const RESUBMITTED: u64 = 6;
    /// weir's own: v1model and bmv2 know no deflection, and bmv2's values end at 6.
    pub(super) const DEFLECTED: u64 = 7;
}

impl SwitchConfig {
    /// Microseconds of the program's clock at a time of the switch.
    fn timestamp_us(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.start_ns) / 1_000
    }

    /// `egress_spec` at the start of egress: any value but the drop port, so that only egress decides.
    fn no_drop(&self) -> u64 {
        u64::from(self.drop_port) + 1
    }
}

/// A packet that waits for a pipeline.
#[derive(Debug)]
pub(super) enum Pending {
    Ingress(Box<Packet>),
    Egress(Box<Packet>),
}

impl Switch {
    /// Machine code, context and tables for a stage that runs now.
    #[inline(always)]
    fn parts(&mut self) -> (Code<'_>, Cx<'_>, &mut [TableState]) {
        self.parts_at(self.now_ns)
    }

    /// The same for a stage that runs at `now_ns`, which may be later than the switch's time.
    #[inline(always)]
    fn parts_at(&mut self, now_ns: u64) -> (Code<'_>, Cx<'_>, &mut [TableState]) {
        let cx = Cx {
            ir: &self.program.ir,
            externs: &mut self.externs,
            profiles: &self.profiles,
            now_ns,
            drop_port: self.config.drop_port,
        };
        (self.native.as_deref(), cx, &mut self.tables)
    }

    /// Microseconds of the program's clock.
    fn timestamp_us(&self) -> u64 {
        self.config.timestamp_us(self.now_ns)
    }

    /// Receives a frame at `now_ns`, which may be later than the switch's time, and runs it as far as [`stages::start`]
    /// does.
    #[inline(always)]
    fn start(&mut self, port: Port, frame: &[u8], (now_ns, may_pause): (u64, bool)) -> Box<Packet> {
        let mut packet = self.pool.take();
        packet.fill(frame);
        packet.ingress_port = port;
        packet.passes = 0;
        packet.received_ns = now_ns;
        packet.clear_requests();
        let metadata = IngressMetadata {
            port: u64::from(port),
            // Not computed if the program never reads it.
            time_us: match self.program.ir.intrinsics.ingress_timestamp {
                Some(_) => self.config.timestamp_us(now_ns),
                None => 0,
            },
        };
        let (code, mut cx, tables) = self.parts_at(now_ns);
        packet.parsed = stages::start(code, &mut cx, tables, &mut packet, (metadata, may_pause));
        packet
    }

    /// Runs a received frame through all stages.
    pub(super) fn process(&mut self, port: Port, frame: &[u8]) {
        let packet = self.start(port, frame, (self.now_ns, false));
        if self.externs.path_log.is_some() {
            self.finish::<true>(packet);
        } else {
            self.finish::<false>(packet);
        }
    }

    /// Runs the part of a burst's frame that does not depend on the packets before it.
    #[inline(always)]
    pub(super) fn start_in_burst(&mut self, port: Port, frame: &[u8], now_ns: u64) -> Box<Packet> {
        self.start(port, frame, (now_ns, true))
    }

    /// Runs the rest of a packet from [`Switch::start_in_burst`], at the packet's own time.
    #[inline(always)]
    pub(super) fn resume(&mut self, packet: Box<Packet>) {
        self.catch_up(packet.received_ns);
        // A program with a log runs in the interpreter, which does not pause.
        self.finish::<false>(packet);
    }

    /// Runs the rest of a packet (with a line of the log for each step if `LOG`): ingress as far as it is left, then all later stages.
    #[inline(always)]
    fn finish<const LOG: bool>(&mut self, mut packet: Box<Packet>) {
        let Self {
            program,
            native,
            config,
            tables,
            profiles,
            externs,
            tm,
            now_ns,
            ..
        } = self;
        let mut cx = Cx {
            ir: &program.ir,
            externs,
            profiles,
            now_ns: *now_ns,
            drop_port: config.drop_port,
        };
        let between = |cx: &mut Cx<'_>, packet: &mut Packet, result: &IngressResult| {
            ingress::bypass(cx, (tm, config), packet, result)
        };
        let code = native.as_deref();
        let result = match stages::through(code, &mut cx, tables, &mut packet, between) {
            Through::Egress(result) => {
                self.end_egress::<LOG>(packet, result);
                self.run_pending::<LOG>();
                return;
            }
            Through::Ingress(result) => result,
        };
        let (length, parsed) = (packet.ingress_length, packet.parsed);
        let packet = self.end_ingress::<LOG>(packet, length, (parsed, result));
        if let Some(packet) = packet {
            if self.pending.is_empty() {
                self.egress::<LOG>(packet);
            } else {
                // Its clones were enqueued before it.
                self.pending.push_back(Pending::Egress(packet));
            }
        }
        self.run_pending::<LOG>();
    }

    /// Runs the packets that wait for a pipeline, first in, first out.
    #[inline(always)]
    fn run_pending<const LOG: bool>(&mut self) {
        if !self.pending.is_empty() {
            self.run_some_pending::<LOG>();
        }
    }

    #[inline(never)]
    fn run_some_pending<const LOG: bool>(&mut self) {
        let mut runs = 0;
        while let Some(pending) = self.pending.pop_front() {
            runs += 1;
            match pending {
                Pending::Ingress(packet) | Pending::Egress(packet) if runs > MAX_RUNS => {
                    self.externs.stats.dropped_loop += 1;
                    self.pool.recycle(packet);
                }
                Pending::Ingress(packet) => {
                    let passed = self.ingress::<LOG>(packet);
                    self.pending.extend(passed.map(Pending::Egress));
                }
                Pending::Egress(packet) => self.egress_later::<LOG>(packet),
            }
        }
    }

    /// Resets the fields for another pass through ingress, except those of a field list.
    fn reset_fields(&mut self, packet: &mut Packet, list: u16, instance_type: u64) {
        let mut fresh = std::mem::take(&mut self.spare_phv);
        phv::reset(&self.program.ir, &mut fresh);
        self.preserve(&mut fresh, &packet.phv, list, instance_type);
        self.spare_phv = std::mem::replace(&mut packet.phv, fresh);
    }

    /// Sends a resubmitted or recirculated packet to the parser again, or drops it after too many passes.
    fn repeat(&mut self, mut packet: Box<Packet>) {
        packet.passes = packet.passes.saturating_add(1);
        if packet.passes > self.config.max_passes {
            self.externs.stats.dropped_loop += 1;
            self.pool.recycle(packet);
        } else {
            self.pending.push_back(Pending::Ingress(packet));
        }
    }
}
