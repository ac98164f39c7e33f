// SPDX-License-Identifier: Apache-2.0
//! The pool that packets come from and return to.

use super::{Packet, Phv};

/// Packets that are not in use. Buffers keep their capacity, so a warm pool allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[expect(
        clippy::vec_box,
        reason = "packets move between pool and queues by pointer"
    )]
    free: Vec<Box<Packet>>,
    /// PHVs without a packet. A deparsed frame gives its PHV up early, so that the next packet finds one in cache.
    phvs: Vec<Phv>,
}

/// The largest number of packets, and of PHVs, that the pool keeps.
const POOL_LIMIT: usize = 65_536;

impl Pool {
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Box<Packet> {
        let mut packet = self.free.pop().unwrap_or_default();
        if packet.phv.is_empty()
            && let Some(phv) = self.phvs.pop()
        {
            // The old one is empty, so nothing has to be dropped: asking would take a call per packet.
            std::mem::forget(std::mem::replace(&mut packet.phv, phv));
        }
        packet
    }

    /// Takes the PHV of a packet that has been deparsed.
    #[inline(always)]
    pub(crate) fn take_phv(&mut self, packet: &mut Packet) {
        let phv = std::mem::take(&mut packet.phv);
        if !phv.is_empty() && self.phvs.len() < POOL_LIMIT {
            self.phvs.push(phv);
        }
    }

    #[inline(always)]
    pub(crate) fn recycle(&mut self, packet: Box<Packet>) {
        if self.free.len() < POOL_LIMIT {
            self.free.push(packet);
        }
    }
}
