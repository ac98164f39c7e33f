// SPDX-License-Identifier: Apache-2.0
//! Packets that become several: clones of both kinds, and multicast.

use super::Switch;
use crate::exec::packet::Packet;
use crate::exec::parser;
use crate::exec::phv::{self, copy_between, store_opt};

const CLONE_I2E: u64 = 1;
const CLONE_E2E: u64 = 2;

impl Switch {
    /// The packet as it arrived, parsed again; metadata of the field list as it is at the end of ingress.
    #[inline(never)]
    pub(super) fn clone_ingress(&mut self, packet: &Packet, length: u32, session: u32, list: u16) {
        if !self.replication.sessions.contains_key(&session) {
            self.externs.stats.clone_no_session += 1;
            return;
        }
        let mut copy = self.pool.take();
        copy.copy_from(packet);
        phv::reset(&self.program.ir, &mut copy.phv);
        copy.length = length;
        let intrinsics = &self.program.ir.intrinsics;
        store_opt(
            &mut copy.phv,
            intrinsics.ingress_port,
            u64::from(packet.ingress_port),
        );
        let (mut cx, _) = self.cx();
        parser::parse(&mut cx, &mut copy);
        self.preserve(&mut copy.phv, &packet.phv, list, CLONE_I2E);
        self.send_clones(copy, session);
    }

    /// Clears metadata but for the fields of a list, which are taken from `from`.
    pub(super) fn preserve(&self, phv: &mut [u8], from: &[u8], list: u16, instance_type: u64) {
        let ir = &self.program.ir;
        if let Some(metadata) = phv.get_mut(..ir.metadata_bytes) {
            metadata.fill(0);
        }
        for field in ir.field_lists.get(usize::from(list)).into_iter().flatten() {
            copy_between(from, phv, *field);
        }
        store_opt(phv, ir.intrinsics.instance_type, instance_type);
    }

    /// Enqueues one copy per replica of a session.
    pub(super) fn send_clones(&mut self, mut copy: Box<Packet>, session: u32) {
        let rid = self.program.ir.intrinsics.egress_rid;
        if let Some(limit) = self
            .replication
            .sessions
            .get(&session)
            .and_then(|s| s.truncate_bytes)
        {
            copy.cut(limit);
        }
        let class_of_service = self
            .replication
            .sessions
            .get(&session)
            .map_or(0, |s| s.class_of_service);
        // 0 leaves what the program preserved for its clones.
        if class_of_service > 0 {
            let priority = self.program.ir.intrinsics.priority;
            store_opt(&mut copy.phv, priority, u64::from(class_of_service));
        }
        let mut index = 0;
        while let Some(replica) = self
            .replication
            .sessions
            .get(&session)
            .and_then(|s| s.replicas.get(index))
        {
            let replica = *replica;
            index += 1;
            let mut packet = self.pool.take();
            packet.copy_from(&copy);
            packet.passes = packet.passes.saturating_add(1);
            store_opt(&mut packet.phv, rid, u64::from(replica.instance));
            packet.egress_port = replica.port;
            self.externs.stats.cloned += 1;
            if packet.passes > self.config.max_passes {
                self.externs.stats.dropped_loop += 1;
                self.pool.give(packet);
            } else {
                self.enqueue_copy(packet);
            }
        }
        self.pool.give(copy);
    }

    /// One copy per replica of a group; the packet itself becomes the last.
    #[inline(never)]
    pub(super) fn multicast(&mut self, packet: Box<Packet>, group: u64) {
        let rid = self.program.ir.intrinsics.egress_rid;
        let group = u32::try_from(group).unwrap_or(0);
        let count = self.replication.groups.get(&group).map_or(0, Vec::len);
        let mut original = Some(packet);
        for index in 0..count {
            let Some(replica) = self
                .replication
                .groups
                .get(&group)
                .and_then(|g| g.get(index))
                .copied()
            else {
                break;
            };
            let mut copy = if index + 1 == count {
                let Some(packet) = original.take() else { break };
                packet
            } else {
                let mut copy = self.pool.take();
                if let Some(packet) = &original {
                    copy.copy_from(packet);
                    if let Some(limit) = packet.limit() {
                        copy.ask().truncate = Some(limit);
                    }
                }
                copy
            };
            store_opt(&mut copy.phv, rid, u64::from(replica.instance));
            copy.egress_port = replica.port;
            self.externs.stats.multicast_copies += 1;
            self.enqueue_copy(copy);
        }
        if let Some(packet) = original {
            self.externs.stats.dropped_no_replica += 1;
            self.pool.give(packet);
        } else {
            self.externs.stats.multicast += 1;
        }
    }

    /// The packet with its headers as they are at the end of egress, not yet deparsed.
    #[inline(never)]
    pub(super) fn clone_egress(&mut self, packet: &Packet, session: u32, list: u16) {
        if !self.replication.sessions.contains_key(&session) {
            self.externs.stats.clone_no_session += 1;
            return;
        }
        let mut copy = self.pool.take();
        copy.copy_from(packet);
        self.preserve(&mut copy.phv, &packet.phv, list, CLONE_E2E);
        self.send_clones(copy, session);
    }
}
