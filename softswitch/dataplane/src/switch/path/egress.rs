// SPDX-License-Identifier: Apache-2.0
//! Egress, deparser and the end of egress: clone, digest, drop, recirculate, transmit.

use super::Switch;
use super::instance_type::RECIRCULATED;
use crate::ir::Slot;
use crate::packet::phv::store_opt;
use crate::packet::{EgressMetadata, EgressResult, Packet};
use crate::stages;

impl Switch {
    /// As [`Switch::egress`], for a packet that did not just come out of ingress.
    #[inline(never)]
    pub(super) fn egress_later<const LOG: bool>(&mut self, packet: Box<Packet>) {
        self.egress::<LOG>(packet);
    }

    /// Runs egress and the deparser, then transmits the packet unless the program dropped or recirculated it.
    #[inline(always)]
    pub(super) fn egress<const LOG: bool>(&mut self, mut packet: Box<Packet>) {
        let metadata = self.egress_metadata(&packet);
        let (code, mut cx, tables) = self.parts();
        let result = stages::egress(code, &mut cx, tables, &mut packet, metadata);
        self.end_egress::<LOG>(packet, result);
    }

    /// Does what the program requested in egress, runs the deparser and transmits the packet.
    #[inline(always)]
    pub(super) fn end_egress<const LOG: bool>(
        &mut self,
        mut packet: Box<Packet>,
        result: EgressResult,
    ) {
        packet.exit = false;
        if result.deparsed {
            packet.seal();
            self.transmit::<LOG>(packet);
            return;
        }
        if let Some(requests) = packet.requests() {
            let (clone, digest) = (requests.clone.take(), requests.digest.take());
            if let Some((session, list)) = clone {
                self.clone_egress(&packet, session, list);
            }
            self.digest(&packet, digest);
        }
        if result.egress_spec == u64::from(self.config.drop_port) {
            if LOG {
                self.log_words(&packet, "Dropping packet at the end of egress");
            }
            self.drop_in_egress(packet);
            return;
        }
        let recirculate = packet
            .requests()
            .and_then(|requests| requests.recirculate.take());
        if recirculate.is_some() {
            packet.keep_whole();
        }
        let (code, ir) = (self.native.as_deref(), &self.program.ir);
        let update_checksums = result.update_checksums;
        if !stages::deparse_at_once(code, ir, &mut packet, update_checksums) {
            let (code, mut cx, _) = self.parts();
            stages::deparse(code, &mut cx, &mut packet, update_checksums);
        }
        packet.seal();
        if packet.exit {
            // An `assert` or `assume` of the deparser was false.
            self.drop_in_egress(packet);
            return;
        }
        if let Some(list) = recirculate {
            self.recirculate(packet, list);
            return;
        }
        self.transmit::<LOG>(packet);
    }

    #[inline(always)]
    fn transmit<const LOG: bool>(&mut self, mut packet: Box<Packet>) {
        if LOG {
            self.log_transmitted(&packet);
        }
        self.pool.take_phv(&mut packet);
        if let Err(packet) = self.tm.transmit(packet, self.now_ns, &mut self.pool) {
            if LOG {
                let line = "Dropping packet, because the switch has no such port";
                self.log_words(&packet, line);
            }
            self.externs.stats.dropped_no_port += 1;
            self.pool.recycle(packet);
        }
    }

    #[inline(always)]
    fn egress_metadata(&self, packet: &Packet) -> EgressMetadata {
        let intrinsics = &self.program.ir.intrinsics;
        // Values of fields that the program never reads are not computed.
        let if_read = |slot: Option<Slot>, value: &dyn Fn() -> u64| slot.map_or(0, |_| value());
        EgressMetadata {
            port: u64::from(packet.egress_port),
            time_us: if_read(intrinsics.egress_timestamp, &|| self.timestamp_us()),
            length: u64::from(packet.length),
            priority: u64::from(packet.priority),
            deflected: packet.deflected,
            queued_us: if_read(intrinsics.deq_timedelta, &|| {
                let enqueued_us = self.config.timestamp_us(packet.enqueued_ns);
                self.timestamp_us().saturating_sub(enqueued_us)
            }),
            deq_qdepth: if_read(intrinsics.deq_qdepth, &|| {
                self.tm.depth(packet.egress_port, packet.queue()) as u64
            }),
            egress_spec: self.config.no_drop(),
            enqueued_us: if_read(intrinsics.enq_timestamp, &|| {
                self.config.timestamp_us(packet.enqueued_ns)
            }),
            enq_qdepth: packet.enq_qdepth,
        }
    }

    fn drop_in_egress(&mut self, packet: Box<Packet>) {
        self.externs.stats.dropped_egress += 1;
        self.pool.recycle(packet);
    }

    #[inline(never)]
    fn recirculate(&mut self, mut packet: Box<Packet>, list: u16) {
        self.externs.stats.recirculated += 1;
        self.log_words(&packet, "Recirculating packet");
        self.reset_fields(&mut packet, list, RECIRCULATED);
        packet.deflected = false;
        packet.ingress_length = packet.length;
        store_opt(
            &mut packet.phv,
            self.program.ir.intrinsics.packet_length,
            u64::from(packet.length),
        );
        self.repeat(packet);
    }
}
