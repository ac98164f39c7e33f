// SPDX-License-Identifier: Apache-2.0
//! One direction of one connection, seen where its data is sent.

use smallvec::SmallVec;

use super::captured::{Acknowledgment, Sent};
use super::cause::{DUPLICATE_ACK_THRESHOLD, Moment, Recovery};
use super::choose::{Candidate, Evidence, choose};
use super::delivery::Delivery;
use super::holes::{Filling, Holes};
use super::outstanding::{Piece, Pieces, Slots, Transmission};
use super::ranges::Ranges;
use super::sequence::{origin, unwrap};
use super::{Cause, Loss, Place, RttSample, Sink, Verdict};

/// How long a range that was sent more than once waits for a DSACK after its last transmission: a duplicate is
/// acknowledged at once (RFC 2883), so a few round trips, and no less than any delayed acknowledgment.
const SHORTEST_LINGER_NS: i64 = 1_000_000_000;
const LINGER_ROUND_TRIPS: i64 = 4;
/// Half of the sequence space's half: what is farther off belongs to another connection.
const FARTHEST: u64 = 1 << 30;
/// Pieces kept of what is not acknowledged, or waits for DSACKs: more than any window holds. A capture without the other
/// direction never sees an acknowledgment.
const MOST_PIECES: usize = 1 << 17;
/// Senders that set no identification of their own may use one again after this.
const COPY_NS: i64 = 50_000_000;
/// SACK blocks that fit beside timestamps: an ACK with fewer names everything the receiver holds.
const MOST_BLOCKS: usize = 3;

/// Inference for one direction of one connection.
///
/// Memory follows the data in flight, and the ranges sent again during the last second or four round trips.
#[derive(Debug, Default)]
pub struct Sender {
    started: bool,
    /// An acknowledgment was seen, so `una` is the receiver's word and not the first sequence number captured.
    acknowledged: bool,
    initial: Option<u64>,
    /// The end of the data, behind FIN.
    fin_end: Option<u64>,
    una: u64,
    max: u64,
    next_order: u64,
    outstanding: Pieces,
    /// Acknowledged, sent more than once, waiting for DSACKs.
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
    /// The receiver uses SACK, and so reports duplicates.
    reports_duplicates: bool,
    /// The capture has cut acknowledgments, so that not every report of a duplicate is known.
    blind: bool,
    /// When the receiver last listed all that it holds.
    complete_ns: Option<i64>,
    recovery: Recovery,
    fresh: Vec<(u64, u64)>,
    ambiguous: Vec<u64>,
    newest: Option<Newest>,
    /// Where its rates are wanted.
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
    /// The receiver agreed to SACK (RFC 2018), so that a duplicate without a DSACK was lost.
    pub fn expect_dsack(&mut self) {
        self.reports_duplicates = true;
    }

    /// Takes in one transmission. Returns whether it is a retransmission.
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
            sink.verdict(sent.tag, Verdict::Unknown);
            return false;
        }
        if !self.acknowledged && start < self.una {
            // The capture began in mid-connection, with data out of order.
            self.una = start;
        }
        if start < self.max && self.is_copy(sent, start) {
            sink.copy();
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

    /// Gives up the oldest piece: nobody knows what became of it.
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

    /// A packet that may fill holes.
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

    /// The capture has one packet twice, as it does when it sees two interfaces: the same IP identification, which senders
    /// count up, and the same timestamp. Where there is no identification, sooner than anything could be known of it.
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
        // No SYN is sent again sooner (RFC 6298: a second).
        let identified = (sent.ip_id != 0 || sent.syn) && age_ns < COPY_NS;
        same && (identified || self.min_rtt_ns.is_some_and(|rtt| age_ns < rtt / 2))
    }

    /// Keepalives repeat the last acknowledged byte (RFC 9293 section 3.8.4), window probes send one byte that the
    /// receiver has no room for (section 3.8.6.1): neither is acknowledged as data.
    fn is_probe(&self, sent: &Sent, start: u64) -> bool {
        let one_byte = sent.payload_length == 1 && sent.sequence_length == 1;
        let keepalive = self.acknowledged && start + 1 == self.una && self.una == self.max;
        one_byte && (keepalive || self.zero_window)
    }

    /// Adds a transmission that begins below `max`; whether it repeats something. It may not, where the capture missed
    /// packets or has them out of order.
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

    /// Takes in one acknowledgment.
    pub fn on_ack<S: Sink>(&mut self, ack: &Acknowledgment<'_>, sink: &mut S) {
        if !self.started {
            return;
        }
        let edge = unwrap(ack.ack, self.una);
        if edge.abs_diff(self.max) > FARTHEST {
            return;
        }
        if !self.acknowledged {
            self.una = self.una.min(edge);
            self.acknowledged = true;
        }
        self.zero_window = ack.window == 0;
        let advances = edge > self.una;
        let duplicated = self.recovery.duplicate_acks > 0;
        if advances || ack.with_data {
            self.recovery.duplicate_acks = 0;
        } else if edge == self.una && self.una < self.max {
            self.recovery.duplicate_acks += 1;
        }
        let trigger = advances.then_some(self.una);
        let dsack = ack.sack.dsack(ack.ack);
        if ack.options_cut {
            self.blind = true;
        } else if ack.sack.as_slice().len() < MOST_BLOCKS {
            self.complete_ns = Some(ack.time_ns);
        }
        self.newest = None;
        let mut delivered_bytes = 0;
        if !ack.sack.as_slice().is_empty() {
            delivered_bytes =
                self.cover_blocks::<S>(ack, edge.max(self.una), usize::from(dsack.is_some()));
        }
        if advances {
            self.cover(self.una, edge);
        }
        // Without all blocks, data behind a hole are news when they are old.
        let late = (duplicated || delivered_bytes > 0 || !self.ambiguous.is_empty())
            && !self.sees_blocks();
        // Without blocks, what lies behind a hole is acknowledged when the hole is filled, long after it arrived.
        if self.ambiguous.is_empty() || self.sees_blocks() {
            self.sample(ack.time_ns, sink);
        }
        if !self.ambiguous.is_empty() {
            self.resolve(ack, trigger, sink);
        }
        if S::DELIVERY_RATES {
            delivered_bytes += self.newly_acknowledged(edge);
            self.rate(delivered_bytes, late, ack.time_ns, sink);
        }
        if let Some(block) = dsack {
            self.reports_duplicates = true;
            let start = unwrap(block.start, edge);
            let end = unwrap(block.end, edge);
            self.duplicate(start, end, ack.time_ns);
        }
        if edge > self.max {
            sink.missed(edge - self.max);
        }
        if !self.holes.is_empty() && advances {
            self.holes.acknowledged(edge);
        }
        if self.holes.missed_bytes > 0 {
            sink.missed(std::mem::take(&mut self.holes.missed_bytes));
        }
        if let Some(newest) = self.newest {
            self.frontier = self.frontier.max(Some(newest.order));
        }
        self.una = self.una.max(edge);
        self.max = self.max.max(edge);
        self.active_ns = ack.time_ns;
        self.retire(ack.time_ns, sink);
    }

    /// Takes in the blocks behind the first `skip`; where rates are wanted, the payload that they newly cover, in bytes.
    fn cover_blocks<S: Sink>(&mut self, ack: &Acknowledgment<'_>, edge: u64, skip: usize) -> u64 {
        let mut bytes = 0;
        for block in ack.sack.as_slice().iter().skip(skip) {
            self.reports_duplicates = true;
            let start = unwrap(block.start, edge).max(edge);
            let end = unwrap(block.end, edge).min(self.max);
            let mut fresh = std::mem::take(&mut self.fresh);
            self.sacked.insert(start, end, &mut fresh);
            for (start, end) in fresh.drain(..) {
                self.cover(start, end);
                if S::DELIVERY_RATES {
                    bytes += self.payload_bytes(start, end);
                }
            }
            self.fresh = fresh;
        }
        bytes
    }

    /// Payload below `edge`, in bytes, that neither an ACK nor a SACK block has covered before.
    fn newly_acknowledged(&self, edge: u64) -> u64 {
        if edge <= self.una {
            return 0;
        }
        self.payload_bytes(self.una, edge)
            .saturating_sub(self.sacked.covered_bytes(self.una, edge))
    }

    /// Bytes of `start..end` without SYN and FIN.
    fn payload_bytes(&self, start: u64, end: u64) -> u64 {
        let within = |at: u64| u64::from((start..end).contains(&at));
        let syn = self.initial.map_or(0, within);
        let fin = self.fin_end.map_or(0, |end| within(end - 1));
        (end - start).saturating_sub(syn + fin)
    }

    /// The delivery rate, when an acknowledgment delivers `bytes`.
    fn rate(&mut self, bytes: u64, late: bool, time_ns: i64, sink: &mut impl Sink) {
        if bytes > 0
            && let Some(delivery) = &mut self.delivery
        {
            let newest = (self.newest).map(|newest| (newest.slot, self.slots.get(newest.slot)));
            if let Some(sample) = delivery.on_ack(time_ns, bytes, late, newest, self.min_rtt_ns) {
                sink.delivery_rate(sample);
            }
        }
    }

    /// Marks `start..end` as arrived: at once where it was sent once, else noted for [`Sender::resolve`].
    fn cover(&mut self, start: u64, end: u64) {
        let mut index = self.outstanding.first_after(start);
        if (self.outstanding.pieces.get(index)).is_some_and(|piece| piece.start < start) {
            self.outstanding.split(index, start, &mut self.slots);
            index += 1;
        }
        while let Some(piece) = self.outstanding.pieces.get_mut(index)
            && piece.start < end
        {
            if piece.end > end {
                self.outstanding.split(index, end, &mut self.slots);
                continue;
            }
            index += 1;
            if piece.covered {
                continue;
            }
            piece.covered = true;
            match piece.sent.as_slice() {
                &[slot] => deliver(&mut self.slots, slot, &mut self.newest),
                _ => self.ambiguous.push(piece.start),
            }
        }
    }

    /// A round-trip time from the youngest transmission that this acknowledgment newly proves, if that is certain
    /// (Karn's rule): older ones may have waited for a delayed acknowledgment.
    fn sample(&mut self, time_ns: i64, sink: &mut impl Sink) {
        let Some(newest) = self.newest else { return };
        let rtt_ns = time_ns - newest.sent_ns;
        if rtt_ns <= 0 {
            return;
        }
        self.last_rtt_ns = Some(rtt_ns);
        self.min_rtt_ns = Some(self.min_rtt_ns.map_or(rtt_ns, |min| min.min(rtt_ns)));
        sink.rtt(RttSample { time_ns, rtt_ns });
    }

    /// Decides which transmission of each range noted by [`Sender::cover`] arrived.
    fn resolve(&mut self, ack: &Acknowledgment<'_>, trigger: Option<u64>, sink: &mut impl Sink) {
        let mut ambiguous = std::mem::take(&mut self.ambiguous);
        for start in ambiguous.drain(..) {
            let index = self.outstanding.first_after(start);
            let Some(piece) = self.outstanding.pieces.get(index) else {
                continue;
            };
            if piece
                .sent
                .iter()
                .any(|&slot| self.slots.get(slot).delivered)
            {
                // The packet is known to have arrived through another part of it.
                continue;
            }
            let evidence = Evidence {
                time_ns: ack.time_ns,
                tsecr: ack.tsecr.filter(|_| trigger == Some(start)),
                frontier: self.frontier,
                min_rtt_ns: self.min_rtt_ns,
                last_rtt_ns: self.last_rtt_ns,
            };
            let Some((slot, singled_out)) = choose(&candidates(piece, &self.slots), &evidence)
            else {
                continue;
            };
            if singled_out {
                for &other in piece.sent.iter().filter(|&&other| other != slot) {
                    self.slots.get_mut(other).evident = true;
                }
            }
            let first = self.newest.is_none();
            deliver(&mut self.slots, slot, &mut self.newest);
            if first && singled_out {
                self.sample(ack.time_ns, sink);
            }
        }
        self.ambiguous = ambiguous;
    }

    /// A DSACK: one more transmission of each range in `start..end` arrived.
    fn duplicate(&mut self, start: u64, end: u64, time_ns: i64) {
        let evidence = Evidence {
            time_ns,
            tsecr: None,
            frontier: self.frontier,
            min_rtt_ns: self.min_rtt_ns,
            last_rtt_ns: self.last_rtt_ns,
        };
        let mut reported: SmallVec<[u32; 4]> = SmallVec::new();
        for pieces in [&self.lingering, &self.outstanding] {
            let first = pieces.first_after(start);
            for piece in pieces.pieces.range(first..) {
                if piece.start >= end {
                    break;
                }
                if piece.sent.iter().any(|slot| reported.contains(slot)) {
                    continue;
                }
                if let Some((slot, _)) = choose(&candidates(piece, &self.slots), &evidence) {
                    reported.push(slot);
                    deliver(&mut self.slots, slot, &mut self.newest);
                }
            }
        }
    }

    /// Lets go of what is acknowledged and needs to wait no longer.
    fn retire(&mut self, now_ns: i64, sink: &mut impl Sink) {
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

    /// The receiver uses SACK, and the capture has all of its blocks.
    fn sees_blocks(&self) -> bool {
        self.reports_duplicates && !self.blind
    }

    fn linger_ns(&self) -> i64 {
        self.last_rtt_ns
            .map_or(0, |rtt| rtt.saturating_mul(LINGER_ROUND_TRIPS))
            .max(SHORTEST_LINGER_NS)
    }

    /// All data are acknowledged, their end too, and no report of a duplicate can come any more.
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

    /// Gives up `piece`; at the end of the capture (`end_ns`) a DSACK may still have been on its way.
    fn settle(&mut self, piece: &Piece, end_ns: Option<i64>, sink: &mut impl Sink) {
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

    /// Judges what is left when the capture (or the connection) ends at `end_ns`, and starts afresh.
    pub fn finish(&mut self, end_ns: i64, sink: &mut impl Sink) {
        while let Some(piece) = self.lingering.pieces.pop_front() {
            self.settle(&piece, Some(end_ns), sink);
        }
        // Where SACK blocks are not seen, what was overtaken may be there all the same, behind a hole.
        let sees_blocks = self.sees_blocks();
        let frontier = self.frontier.filter(|_| sees_blocks);
        // What was sent two round trips before an ACK that lists everything else was not there.
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
                // Else it may have been in flight.
                transmission.undecided |= !(overtaken || absent);
            }
            self.settle(&piece, Some(end_ns), sink);
        }
        *self = Self::default();
    }
}

fn candidates(piece: &Piece, slots: &Slots) -> SmallVec<[Candidate; 4]> {
    let pending = piece
        .sent
        .iter()
        .filter(|&&slot| !slots.get(slot).delivered);
    pending
        .map(|&slot| {
            let transmission = slots.get(slot);
            Candidate {
                slot,
                order: transmission.order,
                sent_ns: transmission.sent_ns,
                tsval: transmission.tsval,
            }
        })
        .collect()
}

fn deliver(slots: &mut Slots, slot: u32, newest: &mut Option<Newest>) {
    let transmission = slots.get_mut(slot);
    if transmission.delivered {
        return;
    }
    transmission.delivered = true;
    if newest.is_none_or(|newest| newest.order < transmission.order) {
        *newest = Some(Newest {
            slot,
            order: transmission.order,
            sent_ns: transmission.sent_ns,
        });
    }
}
