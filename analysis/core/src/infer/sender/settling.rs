// SPDX-License-Identifier: Apache-2.0
//! Verdicts on ranges, given once no report of a duplicate can come any more, or at the end of the capture.

use super::{LINGER_ROUND_TRIPS, MOST_PIECES, SHORTEST_LINGER_NS, Sender};
use crate::infer::findings::Sink;
use crate::infer::outstanding::Piece;

impl Sender {
    /// Settles the acknowledged pieces that need not wait any longer.
    pub(super) fn retire(&mut self, now_ns: i64, sink: &mut impl Sink) {
        while let Some(front) = self.outstanding.pieces.front()
            && front.end <= self.una
        {
            let Some(piece) = self.outstanding.pieces.pop_front() else {
                break;
            };
            if piece.sent.len() == 1 {
                self.settle(&piece, None, sink);
            } else {
                self.lingering.pieces.push_back(piece);
            }
        }
        self.sacked.drop_below(self.una);
        let linger_ns = self.linger_ns();
        while let Some(front) = self.lingering.pieces.front()
            && (self.last_sent_ns(front).saturating_add(linger_ns) < now_ns
                || self.lingering.pieces.len() > MOST_PIECES)
        {
            let Some(piece) = self.lingering.pieces.pop_front() else {
                break;
            };
            self.settle(&piece, None, sink);
        }
    }

    /// Whether the receiver uses SACK and the capture has all of its blocks.
    pub(super) fn sees_blocks(&self) -> bool {
        self.reports_duplicates && !self.blind
    }

    fn linger_ns(&self) -> i64 {
        self.last_rtt_ns
            .map_or(0, |rtt| rtt.saturating_mul(LINGER_ROUND_TRIPS))
            .max(SHORTEST_LINGER_NS)
    }

    /// Whether all data and the FIN are acknowledged, and no report of a duplicate can come any more.
    pub fn is_over(&self, now_ns: i64) -> bool {
        self.fin_end.is_some_and(|end| end <= self.una)
            && now_ns - self.active_ns > self.linger_ns()
    }

    fn last_sent_ns(&self, piece: &Piece) -> i64 {
        piece
            .sent
            .last()
            .map_or(i64::MIN / 2, |&slot| self.slots.get(slot).sent_ns)
    }

    /// Releases the transmissions of `piece`. At the end of the capture (`end_ns`) a DSACK may still be in flight.
    pub(super) fn settle(&mut self, piece: &Piece, end_ns: Option<i64>, sink: &mut impl Sink) {
        let rtt_ns = self.last_rtt_ns.unwrap_or(0);
        let sees_blocks = self.sees_blocks();
        let mut arrived = piece.arrived_before;
        for &slot in &piece.sent {
            let transmission = self.slots.get_mut(slot);
            if !arrived {
                transmission.needed = true;
            } else if !transmission.delivered {
                let too_late =
                    end_ns.is_some_and(|end| end - transmission.sent_ns < rtt_ns + rtt_ns / 2);
                transmission.undecided |= too_late || !sees_blocks;
            }
            arrived |= transmission.delivered;
            if let Some((tag, verdict)) = self.slots.release(slot, rtt_ns, sees_blocks) {
                sink.verdict(tag, verdict);
            }
        }
    }

    /// Judges the remaining pieces when the capture (or the connection) ends at `end_ns`, and resets the state.
    pub fn finish(&mut self, end_ns: i64, sink: &mut impl Sink) {
        while let Some(piece) = self.lingering.pieces.pop_front() {
            self.settle(&piece, Some(end_ns), sink);
        }
        // Without SACK blocks, overtaken data may have arrived all the same, after a hole.
        let sees_blocks = self.sees_blocks();
        let frontier = self.frontier.filter(|_| sees_blocks);
        // Data sent two round trips before an ACK that lists everything else had not arrived.
        let absent_ns = self
            .complete_ns
            .filter(|_| sees_blocks)
            .zip(self.last_rtt_ns)
            .map(|(complete_ns, rtt_ns)| complete_ns - 2 * rtt_ns);
        while let Some(piece) = self.outstanding.pieces.pop_front() {
            if !piece.covered
                && let Some(&last) = piece.sent.last()
            {
                let transmission = self.slots.get_mut(last);
                let overtaken = frontier.is_some_and(|order| order > transmission.order);
                let absent = absent_ns.is_some_and(|before| transmission.sent_ns < before);
                // Otherwise it may have been in flight.
                transmission.undecided |= !(overtaken || absent);
            }
            self.settle(&piece, Some(end_ns), sink);
        }
        *self = Self::default();
    }
}
