// SPDX-License-Identifier: Apache-2.0
//! Processing of acknowledgments: which transmissions arrived, and samples of RTT and delivery rate.

use smallvec::SmallVec;

use super::{FARTHEST, MOST_BLOCKS, Newest, Sender};
use crate::infer::captured::Acknowledgment;
use crate::infer::choose::{Candidate, Evidence, choose};
use crate::infer::findings::{RttSample, Sink};
use crate::infer::outstanding::{Piece, Slots};
use crate::infer::sequence::unwrap;

impl Sender {
    /// Processes one acknowledgment.
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
            if self.syn_data_end.take().is_some_and(|end| edge < end) {
                self.refuse_syn_data(edge);
            }
            self.cover(self.una, edge);
        }
        // Without all SACK blocks, data after a hole are reported long after they arrived.
        let late = (duplicated || delivered_bytes > 0 || !self.ambiguous.is_empty())
            && !self.sees_blocks();
        // Without SACK blocks, data after a hole are acknowledged only when the hole is filled: no RTT sample.
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
        // A window probe that found room was data after all.
        let captured_to = self.max.max(self.probed_to);
        if edge > captured_to {
            sink.missed(edge - captured_to);
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

    /// Removes the data from `edge` on from the SYNs that carried it: the receiver acknowledged the SYN without it, so the
    /// sender sends that data again although nothing was lost (RFC 7413 section 4.2).
    fn refuse_syn_data(&mut self, edge: u64) {
        self.outstanding.split_at(edge, &mut self.slots);
        let Some(syn) = self.outstanding.pieces.front() else {
            return;
        };
        let syns = syn.sent.clone();
        let first = self.outstanding.first_after(edge);
        for piece in self.outstanding.pieces.range_mut(first..) {
            piece.sent.retain(|slot| {
                let refused = syns.contains(slot);
                if refused {
                    self.slots.get_mut(*slot).pieces -= 1;
                }
                !refused
            });
        }
    }

    /// Processes the SACK blocks after the first `skip`. Returns the payload bytes that they newly cover, where rates are
    /// computed; else 0.
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

    /// Payload bytes below `edge` that neither an ACK nor a SACK block has covered before.
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

    /// Reports the delivery rate at an acknowledgment of `bytes`.
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

    /// Marks `start..end` as arrived. Ranges that were sent more than once are noted for [`Sender::resolve`].
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

    /// Reports an RTT from the youngest transmission that this acknowledgment newly proves to have arrived, if that is
    /// certain (Karn's rule). Older ones may have waited for a delayed acknowledgment.
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

    /// Chooses which transmission of each range noted by [`Sender::cover`] arrived.
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
                // Another part of the packet has shown already that it arrived.
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

    /// Processes a DSACK: one more transmission of each range in `start..end` arrived.
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
