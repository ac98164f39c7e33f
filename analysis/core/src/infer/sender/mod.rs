// SPDX-License-Identifier: Apache-2.0
//! Inference for one direction of one connection, from a capture at the sender of its data.

mod acknowledging;
mod settling;

use smallvec::SmallVec;

use crate::infer::captured::Sent;
use crate::infer::cause::{DUPLICATE_ACK_THRESHOLD, Moment, Recovery};
use crate::infer::delivery::Delivery;
use crate::infer::findings::{Cause, Loss, Place, Sink, Verdict};
use crate::infer::holes::{Filling, Holes};
use crate::infer::outstanding::{Piece, Pieces, Slots, Transmission};
use crate::infer::ranges::Ranges;
use crate::infer::sequence::{origin, unwrap};

/// How long a range that was sent more than once waits for a DSACK after its last transmission: a duplicate is
/// acknowledged at once (RFC 2883), so a few round trips, and no less than any delayed acknowledgment.
const SHORTEST_LINGER_NS: i64 = 1_000_000_000;
const LINGER_ROUND_TRIPS: i64 = 4;
/// A quarter of the sequence space: a number farther away belongs to another connection.
const FARTHEST: u64 = 1 << 30;
/// Bound on unacknowledged pieces, and on pieces that wait for DSACKs: more than any window holds. It matters when the
/// capture lacks the other direction, and so has no acknowledgments.
const MOST_PIECES: usize = 1 << 17;
/// After this time a sender may reuse an IP identification.
const COPY_NS: i64 = 50_000_000;
/// SACK blocks that fit beside timestamps: an ACK with fewer lists everything the receiver holds.
const MOST_BLOCKS: usize = 3;

/// Inference for one direction of one connection.
///
/// Memory follows the data in flight, and the ranges sent again during the last second or four round trips.
#[derive(Debug, Default)]
pub struct Sender {
    started: bool,
    /// An acknowledgment was seen: `una` comes from the receiver and is not the first sequence number captured.
    acknowledged: bool,
    initial: Option<u64>,
    /// The end of the data in a SYN (TCP Fast Open), until an acknowledgment covers the SYN.
    syn_data_end: Option<u64>,
    /// The end of the data, after FIN.
    fin_end: Option<u64>,
    /// The end of the last window probe.
    probed_to: u64,
    una: u64,
    max: u64,
    next_order: u64,
    outstanding: Pieces,
    /// Acknowledged pieces that were sent more than once and wait for DSACKs.
    lingering: Pieces,
    slots: Slots,
    holes: Holes,
    sacked: Ranges,
    /// Send order of the youngest transmission known to have arrived.
    frontier: Option<u64>,
    min_rtt_ns: Option<i64>,
    last_rtt_ns: Option<i64>,
    active_ns: i64,
    zero_window: bool,
    /// The receiver uses SACK, so it reports duplicates.
    reports_duplicates: bool,
    /// The capture has cut acknowledgments, so some reports of duplicates are unknown.
    blind: bool,
    /// When the receiver last listed everything that it holds.
    complete_ns: Option<i64>,
    recovery: Recovery,
    fresh: Vec<(u64, u64)>,
    ambiguous: Vec<u64>,
    newest: Option<Newest>,
    /// `None` where rates are not computed.
    delivery: Option<Box<Delivery>>,
}

/// The youngest transmission whose arrival one acknowledgment proves.
#[derive(Debug, Clone, Copy)]
struct Newest {
    slot: u32,
    order: u64,
    sent_ns: i64,
}

impl Sender {
    /// Notes that the receiver agreed to SACK (RFC 2018): a duplicate without a DSACK was lost.
    pub fn expect_dsack(&mut self) {
        self.reports_duplicates = true;
    }

    /// Processes one transmission. Returns whether it is a retransmission.
    pub fn on_send<S: Sink>(&mut self, sent: &Sent, sink: &mut S) -> bool {
        let mut start = unwrap(sent.seq, self.max);
        let other_connection = self.started
            && (start.abs_diff(self.max) > FARTHEST || (sent.syn && self.initial != Some(start)));
        if other_connection {
            self.finish(sent.time_ns, sink);
        }
        if !self.started {
            start = origin(sent.seq);
            self.started = true;
            self.una = start;
            self.max = start;
            self.initial = sent.syn.then_some(start);
        }
        let end = start + u64::from(sent.sequence_length);
        if self.is_probe(sent, start) {
            self.probed_to = end;
            sink.verdict(sent.tag, Verdict::Unknown);
            return false;
        }
        if !self.acknowledged && start < self.una {
            // The capture began during the connection, with data out of order.
            self.una = start;
        }
        if start < self.max && self.is_copy(sent, start) {
            sink.copy(sent.tag);
            sink.verdict(sent.tag, Verdict::Unknown);
            return false;
        }
        let order = self.next_order;
        self.next_order += 1;
        let slot = self.slots.add(Transmission {
            tag: sent.tag,
            order,
            sent_ns: sent.time_ns,
            seq: sent.seq,
            length: sent.payload_length,
            tsval: sent.tsval,
            ip_id: sent.ip_id,
            retransmission: false,
            delivered: false,
            needed: false,
            undecided: false,
            repaired: None,
            evident: false,
            pieces: 0,
        });
        if S::DELIVERY_RATES {
            let idle = self.una == self.max;
            let delivery = self.delivery.get_or_insert_default();
            delivery.on_send(slot, sent.time_ns, idle);
        }
        let mut retransmission = false;
        if !self.holes.is_empty() {
            self.fill((start, end), sent, order, sink);
        }
        if start < self.max {
            retransmission = self.send_again((start, end), slot, sent.time_ns, order);
            self.slots.get_mut(slot).retransmission = retransmission;
        } else {
            if start > self.max {
                self.holes.open((self.max, start), sent, order);
            }
            self.slots.get_mut(slot).pieces = 1;
            let sent = SmallVec::from_slice(&[slot]);
            self.outstanding.pieces.push_back(Piece {
                start,
                end,
                covered: false,
                arrived_before: false,
                sent,
            });
        }
        if sent.syn && sent.payload_length > 0 {
            self.syn_data_end = Some(end);
        }
        if sent.fin {
            self.fin_end = Some(end);
        }
        self.max = self.max.max(end);
        self.active_ns = sent.time_ns;
        if self.outstanding.pieces.len() > MOST_PIECES {
            self.forget(sink);
        }
        retransmission
    }

    /// Drops the oldest piece without a verdict, to bound memory.
    fn forget(&mut self, sink: &mut impl Sink) {
        if let Some(piece) = self.outstanding.pieces.pop_front() {
            if !piece.covered
                && let Some(&last) = piece.sent.last()
            {
                self.slots.get_mut(last).undecided = true;
            }
            self.settle(&piece, None, sink);
        }
    }

    /// Reports the holes that a packet fills.
    fn fill(&mut self, range: (u64, u64), sent: &Sent, order: u64, sink: &mut impl Sink) {
        match self.holes.fill(range, sent, order) {
            None => {}
            Some(Filling::Overtaken) => sink.overtaken(),
            Some(Filling::Lost {
                opened_ns,
                packets,
                confidence,
            }) => {
                let cause = if packets > DUPLICATE_ACK_THRESHOLD.into() {
                    Cause::FastRetransmit
                } else {
                    Cause::Rto
                };
                sink.before(Loss {
                    sent_ns: opened_ns,
                    detected_ns: sent.time_ns,
                    seq: sent.seq,
                    length: sent.payload_length,
                    cause,
                    place: Place::Before,
                    confidence,
                });
            }
        }
    }

    /// Whether `sent` is a second copy of a captured packet, as in a capture of two interfaces: it has the same IP
    /// identification, which senders count up, and the same timestamp. Without an identification it must follow in less
    /// than half an RTT, too early for a retransmission.
    fn is_copy(&self, sent: &Sent, start: u64) -> bool {
        let pieces = if start < self.una {
            &self.lingering
        } else {
            &self.outstanding
        };
        let piece = pieces.pieces.get(pieces.first_after(start));
        let Some(&last) = piece.and_then(|piece| piece.sent.last()) else {
            return false;
        };
        let last = self.slots.get(last);
        let same = (last.seq, last.length, last.tsval, last.ip_id)
            == (sent.seq, sent.payload_length, sent.tsval, sent.ip_id);
        let age_ns = sent.time_ns - last.sent_ns;
        // A SYN is sent again after a second at the earliest (RFC 6298).
        let identified = (sent.ip_id != 0 || sent.syn) && age_ns < COPY_NS;
        same && (identified || self.min_rtt_ns.is_some_and(|rtt| age_ns < rtt / 2))
    }

    /// Whether `sent` is a probe, which is not acknowledged as data: a keepalive repeats the last acknowledged byte (RFC
    /// 9293 section 3.8.4), a window probe sends one byte that the receiver has no room for (section 3.8.6.1).
    fn is_probe(&self, sent: &Sent, start: u64) -> bool {
        let one_byte = sent.payload_length == 1 && sent.sequence_length == 1;
        let keepalive = self.acknowledged && start + 1 == self.una && self.una == self.max;
        one_byte && (keepalive || self.zero_window)
    }

    /// Adds a transmission that begins below `max`; returns whether it repeats data. It does not if it fills a hole, where
    /// the capture missed packets or has them out of order.
    fn send_again(
        &mut self,
        (start, end): (u64, u64),
        slot: u32,
        time_ns: i64,
        order: u64,
    ) -> bool {
        let mut repeats = start < self.una;
        let now = Moment {
            time_ns,
            active_ns: self.active_ns,
            order,
            frontier: self.frontier,
            una: self.una,
            max: self.max,
        };
        let recovery = &mut self.recovery;
        let mut repair = |piece: &Piece, slots: &mut Slots| {
            repeats = true;
            let Some(&last) = piece.sent.last() else {
                return;
            };
            let lost = *slots.get(last);
            if lost.repaired.is_none() {
                let cause = recovery.cause(&lost, piece, &now);
                let overtaken = now.frontier.is_some_and(|frontier| frontier > lost.order);
                let lost = slots.get_mut(last);
                lost.repaired = Some((time_ns, cause));
                lost.evident |= overtaken;
            }
        };
        let settled_to = end.min(self.una);
        if start < settled_to {
            self.lingering.carry(
                (start, settled_to),
                slot,
                true,
                &mut self.slots,
                &mut repair,
            );
        }
        let open_from = start.max(self.una);
        if open_from < end {
            self.outstanding
                .carry((open_from, end), slot, false, &mut self.slots, &mut repair);
        }
        repeats
    }
}
