// SPDX-License-Identifier: Apache-2.0
//! Copies of a packet: clones at the end of ingress and of egress, and multicast.

use super::Switch;
use super::instance_type::{EGRESS_CLONE, INGRESS_CLONE};
use crate::packet::Packet;
use crate::packet::phv::{self, copy_between, store_opt};
use crate::stages;

impl Switch {
    /// Clones the packet as it was received, parsed again, with the field list's metadata from the end of ingress.
    #[inline(never)]
    pub(super) fn clone_ingress(&mut self, packet: &Packet, length: u32, session: u32, list: u16) {
        self.log_words(packet, "Cloning packet at ingress");
        if !self.replication.sessions.contains_key(&session) {
            self.externs.stats.clone_no_session += 1;
            return;
        }
        let mut copy = self.pool.take();
        copy.copy_from(packet);
        self.log_copy(&mut copy);
        phv::reset(&self.program.ir, &mut copy.phv);
        copy.length = length;
        let intrinsics = &self.program.ir.intrinsics;
        store_opt(
            &mut copy.phv,
            intrinsics.ingress_port,
            u64::from(packet.ingress_port),
        );
        let (code, mut cx, _) = self.parts();
        stages::parse(code, &mut cx, &mut copy);
        self.preserve(&mut copy.phv, &packet.phv, list, INGRESS_CLONE);
        self.send_clones(copy, session);
    }

    /// Clears metadata, then copies the fields of a list from `from`.
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
            copy.truncate(limit);
        }
        let class_of_service = self
            .replication
            .sessions
            .get(&session)
            .map_or(0, |s| s.class_of_service);
        // 0 keeps the priority that the field list preserved.
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
            let port = u64::from(replica.port);
            self.log_number(&packet, "Cloning packet to egress port ", port);
            if index > 1 {
                self.log_copy(&mut packet);
            }
            self.externs.stats.cloned += 1;
            if packet.passes > self.config.max_passes {
                self.externs.stats.dropped_loop += 1;
                self.pool.recycle(packet);
            } else {
                self.enqueue_copy(packet);
            }
        }
        self.pool.recycle(copy);
    }

    /// Enqueues one copy per replica of a group; the packet itself becomes the last.
    #[inline(never)]
    pub(super) fn multicast(&mut self, mut packet: Box<Packet>, group: u64) {
        // As in bmv2, copies have all bytes of the payload.
        packet.keep_whole();
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
                }
                copy
            };
            store_opt(&mut copy.phv, rid, u64::from(replica.instance));
            copy.egress_port = replica.port;
            let port = u64::from(replica.port);
            self.log_number(&copy, "Replicating packet on port ", port);
            self.log_copy(&mut copy);
            self.externs.stats.multicast_copies += 1;
            self.enqueue_copy(copy);
        }
        if let Some(packet) = original {
            self.externs.stats.dropped_no_replica += 1;
            self.pool.recycle(packet);
        } else {
            self.externs.stats.multicast += 1;
        }
    }

    /// Clones the packet with its headers from the end of egress, before they are deparsed.
    #[inline(never)]
    pub(super) fn clone_egress(&mut self, packet: &Packet, session: u32, list: u16) {
        self.log_words(packet, "Cloning packet at egress");
        if !self.replication.sessions.contains_key(&session) {
            self.externs.stats.clone_no_session += 1;
            return;
        }
        let mut copy = self.pool.take();
        copy.copy_from(packet);
        self.log_copy(&mut copy);
        self.preserve(&mut copy.phv, &packet.phv, list, EGRESS_CLONE);
        self.send_clones(copy, session);
    }
}
