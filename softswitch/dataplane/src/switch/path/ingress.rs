// SPDX-License-Identifier: Apache-2.0
//! Ingress of a further pass, and the end of ingress: clone, digest, resubmit, multicast, drop, unicast.

use super::instance_type::{REPLICATED, RESUBMITTED};
use super::{Switch, SwitchConfig};
use crate::context::Cx;
use crate::exec::action;
use crate::packet::phv::store_opt;
use crate::packet::{EgressMetadata, IngressResult, Packet};
use crate::ports::Port;
use crate::stages;
use crate::tm::TrafficManager;

/// Between ingress and egress, does the work for a packet that passes without requests, copies and queues, and returns
/// its metadata for egress. None for any other packet, which [`Switch::end_ingress`] handles.
#[inline(always)]
pub(super) fn bypass(
    cx: &mut Cx<'_>,
    (tm, config): (&mut TrafficManager, &SwitchConfig),
    packet: &mut Packet,
    result: &IngressResult,
) -> Option<EgressMetadata> {
    let dropped = result.egress_spec == u64::from(cx.drop_port);
    let plain = packet.requests().is_none() && result.mcast_grp == 0 && result.instance_type == 0;
    if dropped || !plain || result.priority >= u64::from(config.queues) {
        return None;
    }
    packet.egress_port = Port::try_from(result.egress_spec).unwrap_or(Port::MAX);
    packet.priority = result.priority as u8;
    if !tm.try_bypass(packet) {
        return None;
    }
    packet.exit = false;
    packet.enqueued_ns = cx.now_ns;
    if !packet.parsed {
        cx.externs.stats.parser_errors += 1;
    }
    // Both depths and the time in the queue are 0.
    let intrinsics = &cx.ir.intrinsics;
    let time_us = match (intrinsics.egress_timestamp, intrinsics.enq_timestamp) {
        (None, None) => 0,
        _ => config.timestamp_us(cx.now_ns),
    };
    Some(EgressMetadata {
        port: u64::from(packet.egress_port),
        time_us,
        length: u64::from(packet.length),
        priority: u64::from(packet.priority),
        deflected: false,
        queued_us: 0,
        deq_qdepth: 0,
        egress_spec: config.no_drop(),
        enqueued_us: time_us,
        enq_qdepth: 0,
    })
}

impl Switch {
    /// Parses a resubmitted or recirculated packet and runs ingress. Returns the packet if egress comes next, without a
    /// wait in a queue.
    pub(super) fn ingress<const LOG: bool>(
        &mut self,
        mut packet: Box<Packet>,
    ) -> Option<Box<Packet>> {
        packet.clear_requests();
        if LOG {
            self.log_again(&mut packet);
        }
        let length = packet.length;
        let (code, mut cx, tables) = self.parts();
        let parsed = stages::parse(code, &mut cx, &mut packet);
        let result = stages::ingress(code, &mut cx, tables, &mut packet);
        self.end_ingress::<LOG>(packet, length, (parsed, result))
    }

    /// Does what the program requested in ingress for a packet that had `length` bytes before. Returns the packet if
    /// egress comes next, without a wait in a queue.
    #[inline(always)]
    pub(super) fn end_ingress<const LOG: bool>(
        &mut self,
        mut packet: Box<Packet>,
        length: u32,
        (parsed, result): (bool, IngressResult),
    ) -> Option<Box<Packet>> {
        packet.exit = false;
        if !parsed {
            self.externs.stats.parser_errors += 1;
        }
        if let Some(requests) = packet.requests() {
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
        if LOG {
            self.log_end_of_ingress(&packet, &result);
        }
        let intrinsics = &self.program.ir.intrinsics;
        if result.mcast_grp != 0 {
            store_opt(&mut packet.phv, intrinsics.instance_type, REPLICATED);
            self.multicast(packet, result.mcast_grp);
            return None;
        }
        if result.egress_spec == u64::from(self.config.drop_port) {
            self.externs.stats.dropped_ingress += 1;
            self.pool.recycle(packet);
            return None;
        }
        if result.instance_type != 0 {
            store_opt(&mut packet.phv, intrinsics.instance_type, 0);
        }
        packet.egress_port = Port::try_from(result.egress_spec).unwrap_or(Port::MAX);
        self.enqueue(packet, result.priority)
    }

    /// Sends the digest that the program requested in either pipeline.
    #[inline(never)]
    pub(super) fn digest(&mut self, packet: &Packet, list: Option<u16>) {
        if let Some(list) = list {
            let (_, mut cx, _) = self.parts();
            action::emit_digest(&mut cx, packet, list);
        }
    }

    #[inline(never)]
    fn resubmit(&mut self, mut packet: Box<Packet>, length: u32, list: u16) {
        self.externs.stats.resubmitted += 1;
        self.log_words(&packet, "Resubmitting packet");
        packet.keep_whole();
        self.reset_fields(&mut packet, list, RESUBMITTED);
        packet.length = length;
        store_opt(
            &mut packet.phv,
            self.program.ir.intrinsics.packet_length,
            u64::from(length),
        );
        self.repeat(packet);
    }
}
