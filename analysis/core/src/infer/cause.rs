// SPDX-License-Identifier: Apache-2.0
//! The reason why a sender sent a range again.

use super::findings::Cause;
use super::outstanding::{Piece, Transmission};

/// Linux' shortest retransmission timeout; a probe of the tail comes before it.
const SHORTEST_RTO_NS: i64 = 200_000_000;
/// RFC 5681 section 3.2.
pub(super) const DUPLICATE_ACK_THRESHOLD: u32 = 3;

/// The sender's state when it sends again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) time_ns: i64,
    /// When a segment or an acknowledgment of this direction was captured last.
    pub(super) active_ns: i64,
    pub(super) order: u64,
    pub(super) frontier: Option<u64>,
    pub(super) una: u64,
    pub(super) max: u64,
}

/// Recovery state that lasts longer than one retransmission.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    pub(super) duplicate_acks: u32,
    /// Without SACK: the end of the data that a fast retransmit began to repair (RFC 6582).
    repairs_to: u64,
    /// Send order and frontier at the last timeout.
    timeout: Option<(u64, Option<u64>)>,
}

impl Recovery {
    /// How the loss of `lost`, the last transmission of `piece` so far, is being repaired.
    pub(super) fn cause(&mut self, lost: &Transmission, piece: &Piece, now: &Moment) -> Cause {
        if lost.retransmission {
            return Cause::LostRetransmission;
        }
        if let Some((order, frontier)) = self.timeout
            && lost.order < order
            && frontier.is_none_or(|frontier| frontier < lost.order)
        {
            // After a timeout everything that was not known to have arrived is sent again (RFC 5681 section 3.1).
            return Cause::Rto;
        }
        let overtaken = now.frontier.is_some_and(|frontier| frontier > lost.order);
        let without_sack =
            self.duplicate_acks >= DUPLICATE_ACK_THRESHOLD || now.una < self.repairs_to;
        if overtaken || (without_sack && piece.start < self.repairs_to.max(now.una + 1)) {
            if without_sack && now.una >= self.repairs_to {
                self.repairs_to = now.max;
            }
            return Cause::FastRetransmit;
        }
        let idle_ns = now.time_ns - now.active_ns;
        if piece.end == now.max && (now.una < piece.start || idle_ns < SHORTEST_RTO_NS) {
            return Cause::Tail;
        }
        self.timeout = Some((now.order, now.frontier));
        Cause::Rto
    }
}
