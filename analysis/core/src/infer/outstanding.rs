// SPDX-License-Identifier: Apache-2.0
//! The ranges of the sequence space that are not settled, and the transmissions that carried them.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::findings::{Cause, Confidence, Loss, Place, Verdict};

/// One transmission, until its verdict.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transmission {
    pub(super) tag: u64,
    /// Position among the transmissions of this sender.
    pub(super) order: u64,
    pub(super) sent_ns: i64,
    pub(super) seq: u32,
    pub(super) length: u32,
    pub(super) tsval: Option<u32>,
    pub(super) ip_id: u32,
    pub(super) retransmission: bool,
    pub(super) delivered: bool,
    /// It carried bytes of which no earlier transmission had arrived; otherwise it was spurious.
    pub(super) needed: bool,
    /// The capture ends before a DSACK could have arrived.
    pub(super) undecided: bool,
    /// When the range was sent again, and why.
    pub(super) repaired: Option<(i64, Cause)>,
    /// Data sent later had arrived when the range was sent again, or a timestamp identified another transmission.
    pub(super) evident: bool,
    /// Pieces that still refer to this transmission.
    pub(super) pieces: u32,
}

/// A contiguous range of sequence numbers carried by the same transmissions.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Acknowledged, cumulatively or selectively.
    pub(super) covered: bool,
    /// It was acknowledged before any of its recorded transmissions.
    pub(super) arrived_before: bool,
    /// Slots of its transmissions in the order they were sent.
    pub(super) sent: SmallVec<[u32; 2]>,
}

/// Transmissions in reused slots: memory follows the data in flight.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Transmission>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn add(&mut self, transmission: Transmission) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = transmission;
            return slot;
        }
        self.slots.push(transmission);
        // 2³² transmissions in flight would need more memory than any machine has.
        (self.slots.len() - 1) as u32
    }

    pub(super) fn get(&self, slot: u32) -> &Transmission {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Transmission {
        &mut self.slots[slot as usize]
    }

    /// Settles one piece of the transmission; returns the verdict after the last one.
    ///
    /// A loss that was never repaired counts as detected when its acknowledgment was due, `rtt_ns` after it was sent.
    /// `reports`: the receiver's reports of duplicates are known; without them the confidence is low.
    pub(super) fn release(
        &mut self,
        slot: u32,
        rtt_ns: i64,
        reports: bool,
    ) -> Option<(u64, Verdict)> {
        let transmission = &mut self.slots[slot as usize];
        transmission.pieces = transmission.pieces.saturating_sub(1);
        if transmission.pieces > 0 {
            return None;
        }
        self.free.push(slot);
        let spurious = !transmission.needed;
        let verdict = if transmission.delivered {
            Verdict::Delivered { spurious }
        } else if transmission.undecided {
            Verdict::Unknown
        } else {
            let never = if transmission.retransmission {
                Cause::LostRetransmission
            } else {
                Cause::Tail
            };
            let (detected_ns, cause) = transmission
                .repaired
                .unwrap_or((transmission.sent_ns + rtt_ns, never));
            let loss = Loss {
                sent_ns: transmission.sent_ns,
                detected_ns,
                seq: transmission.seq,
                length: transmission.length,
                cause,
                place: Place::Behind,
                confidence: match (reports, transmission.evident) {
                    (false, _) => Confidence::Low,
                    (true, false) => Confidence::Medium,
                    (true, true) => Confidence::High,
                },
            };
            Verdict::Lost { loss, spurious }
        };
        Some((transmission.tag, verdict))
    }
}

/// Disjoint pieces in order of sequence.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) pieces: VecDeque<Piece>,
}

impl Pieces {
    /// Index of the first piece that ends after `edge`.
    pub(super) fn first_after(&self, edge: u64) -> usize {
        // Nearly every acknowledgment is about the front.
        match self.pieces.front() {
            Some(front) if front.end > edge => 0,
            _ => self.pieces.partition_point(|piece| piece.end <= edge),
        }
    }

    /// Splits the piece that reaches across `edge`, if there is one.
    pub(super) fn split_at(&mut self, edge: u64, slots: &mut Slots) {
        let index = self.first_after(edge);
        if (self.pieces.get(index)).is_some_and(|piece| piece.start < edge) {
            self.split(index, edge, slots);
        }
    }

    /// Splits the piece at `index`, which reaches across `edge`.
    pub(super) fn split(&mut self, index: usize, edge: u64, slots: &mut Slots) {
        let Some(piece) = self.pieces.get_mut(index) else {
            return;
        };
        let mut upper = piece.clone();
        piece.end = edge;
        upper.start = edge;
        for &slot in &upper.sent {
            slots.get_mut(slot).pieces += 1;
        }
        self.pieces.insert(index + 1, upper);
    }

    /// Adds one transmission to all of `start..end`: to the existing pieces, and as new pieces between them. `known` is
    /// called with each existing piece before the transmission is added.
    pub(super) fn carry(
        &mut self,
        (start, end): (u64, u64),
        slot: u32,
        covered: bool,
        slots: &mut Slots,
        mut known: impl FnMut(&Piece, &mut Slots),
    ) {
        self.split_at(start, slots);
        self.split_at(end, slots);
        let mut index = self.first_after(start);
        let mut at = start;
        while at < end {
            let next_start = self
                .pieces
                .get(index)
                .map_or(end, |piece| piece.start.min(end));
            if next_start > at {
                let sent = SmallVec::from_slice(&[slot]);
                self.pieces.insert(
                    index,
                    Piece {
                        start: at,
                        end: next_start,
                        covered,
                        arrived_before: covered,
                        sent,
                    },
                );
                at = next_start;
            } else if let Some(piece) = self.pieces.get_mut(index) {
                known(piece, slots);
                piece.sent.push(slot);
                at = piece.end;
            }
            slots.get_mut(slot).pieces += 1;
            index += 1;
        }
    }
}
