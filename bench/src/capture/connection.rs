// SPDX-License-Identifier: Apache-2.0
//! One TCP connection, as captured at its sender.

use std::collections::VecDeque;

use fastrand::Rng;

use super::frame::{Addresses, FileWriter, Segment, flags};

pub(super) const MSS: u32 = 1448;
/// Segments that the masks of sender and receiver hold.
const MOST_IN_FLIGHT: u64 = 128;
const DELAYED_ACK_NS: u64 = 40_000_000;
/// Linux' shortest retransmission timeout.
const SHORTEST_RTO_NS: u64 = 200_000_000;
/// The timestamp clock counts milliseconds and started before the capture.
const NS_PER_TICK: u64 = 1_000_000;
const FIRST_TICK: u64 = 1_000_000;
/// Blocks that fit beside timestamps.
const BLOCKS: usize = 3;

/// A block of segments: `start` included, `end` excluded.
type Block = (u64, u64);

/// An acknowledgment in flight.
#[derive(Debug, Clone, Copy)]
struct Ack {
    at_ns: u64,
    /// All segments before this one arrived.
    next: u64,
    blocks: [Block; BLOCKS],
    /// Time at which the acknowledged segment was sent.
    sent_ns: u64,
    echoed: u32,
    fin: bool,
}

/// The parameters of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) addresses: Addresses,
    pub(super) segments: u64,
    pub(super) window: u64,
    pub(super) rtt_ns: u64,
    pub(super) loss: f64,
}

/// The counts of all connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Connections started.
    pub connections: u64,
    /// Data segments sent, retransmissions included.
    pub data: u64,
    /// Of those, dropped by the path.
    pub dropped: u64,
}

#[derive(Debug)]
pub(super) struct Connection {
    shape: Shape,
    first_seq: u32,
    first_ack: u32,
    ip_ids: [u16; 2],
    // The sender.
    una: u64,
    next: u64,
    /// Bit i: segment `una + i` was selectively acknowledged, or is to be retransmitted.
    sacked: u128,
    lost: u128,
    sent_ns: [u64; MOST_IN_FLIGHT as usize],
    /// Number of the drop of each segment's last transmission, if it was dropped.
    drops: [Option<usize>; MOST_IN_FLIGHT as usize],
    last_sent_ns: u64,
    backoff: u32,
    /// The receiver has all data; then it has also sent its last acknowledgment.
    closed: bool,
    finished: bool,
    // The receiver.
    expected: u64,
    /// Bit i: segment `expected + i` has arrived.
    held: u128,
    unacknowledged: u32,
    delayed: Option<Ack>,
    acks: VecDeque<Ack>,
    last_ack_at_ns: u64,
}

impl Connection {
    /// Opens the connection: its handshake is written at once.
    pub(super) fn open(shape: Shape, now_ns: u64, random: &mut Rng, out: &mut FileWriter) -> Self {
        let mut connection = Self {
            shape,
            first_seq: random.u32(..),
            first_ack: random.u32(..),
            ip_ids: [random.u16(..), random.u16(..)],
            una: 0,
            next: 0,
            sacked: 0,
            lost: 0,
            sent_ns: [0; MOST_IN_FLIGHT as usize],
            drops: [None; MOST_IN_FLIGHT as usize],
            last_sent_ns: now_ns,
            backoff: 0,
            closed: false,
            finished: false,
            expected: 0,
            held: 0,
            unacknowledged: 0,
            delayed: None,
            acks: VecDeque::new(),
            last_ack_at_ns: 0,
        };
        let (seq, ack) = (connection.first_seq, connection.first_ack);
        let before = |number: u32| number.wrapping_sub(1);
        connection.write(now_ns, false, before(ack), 0, flags::SYN, 0, 0, &[], out);
        let both = flags::SYN | flags::ACK;
        connection.write(now_ns, true, before(seq), ack, both, 0, 0, &[], out);
        connection.write(now_ns, false, ack, seq, flags::ACK, 0, 0, &[], out);
        connection
    }

    /// Time of the next event; `None` when the connection has ended.
    pub(super) fn due_ns(&self) -> Option<u64> {
        if self.finished {
            return None;
        }
        let answers = [self.acks.front(), self.delayed.as_ref()];
        let first = answers.into_iter().flatten().map(|ack| ack.at_ns).min();
        let timeout_ns = SHORTEST_RTO_NS.max(2 * self.shape.rtt_ns) << self.backoff.min(6);
        Some(first.unwrap_or(self.last_sent_ns + timeout_ns))
    }

    /// Handles the events that are due.
    pub(super) fn run(
        &mut self,
        now_ns: u64,
        random: &mut Rng,
        counts: &mut Counts,
        out: &mut FileWriter,
    ) {
        let delayed_first = self.delayed.is_some_and(|delayed| {
            let other = self.acks.front();
            other.is_none_or(|ack| delayed.at_ns < ack.at_ns)
        });
        let ack = if delayed_first {
            self.delayed.take()
        } else {
            self.acks.pop_front()
        };
        if let Some(ack) = ack {
            self.acknowledged(&ack, now_ns, out);
        } else if self.next > 0 {
            self.backoff += 1;
            self.lost = !self.sacked & mask(self.next - self.una);
        }
        while !self.closed && self.in_flight() < self.shape.window {
            if self.lost != 0 {
                let segment = self.una + u64::from(self.lost.trailing_zeros());
                self.lost &= self.lost - 1;
                self.send(segment, now_ns, random, counts, out);
            } else if self.next < self.shape.segments && self.next - self.una < MOST_IN_FLIGHT {
                self.drops[(self.next % MOST_IN_FLIGHT) as usize] = None;
                self.next += 1;
                self.send(self.next - 1, now_ns, random, counts, out);
            } else {
                break;
            }
        }
    }

    fn in_flight(&self) -> u64 {
        let absent = u64::from((self.sacked | self.lost).count_ones());
        self.next - self.una - absent
    }

    /// The last segment carries FIN.
    fn send(
        &mut self,
        segment: u64,
        now_ns: u64,
        random: &mut Rng,
        counts: &mut Counts,
        out: &mut FileWriter,
    ) {
        let last = segment + 1 == self.shape.segments;
        let flags = flags::ACK | if last { flags::FIN } else { 0 };
        let (seq, ack) = (self.seq(segment), self.first_ack);
        let ticks = ticks(now_ns);
        self.write(now_ns, true, seq, ack, flags, MSS, ticks, &[], out);
        let slot = (segment % MOST_IN_FLIGHT) as usize;
        if let Some(drop) = self.drops[slot].take() {
            out.drops[drop].sent_again = true;
        }
        self.sent_ns[slot] = now_ns;
        self.last_sent_ns = now_ns;
        counts.data += 1;
        if random.f64() < self.shape.loss {
            counts.dropped += 1;
            self.drops[slot] = Some(out.note_drop());
        } else {
            self.arrived(segment, now_ns, random);
        }
    }

    /// The receiver's part, computed ahead of time: its acknowledgment is queued.
    fn arrived(&mut self, segment: u64, now_ns: u64, random: &mut Rng) {
        let jitter_ns = random.u64(..=self.shape.rtt_ns / 20);
        let at_ns = (now_ns + self.shape.rtt_ns + jitter_ns).max(self.last_ack_at_ns);
        let mut blocks = [(0, 0); BLOCKS];
        let duplicate = segment < self.expected || self.held >> (segment - self.expected) & 1 == 1;
        let mut filled = 0;
        if duplicate {
            blocks[0] = (segment, segment + 1);
        } else {
            self.held |= 1 << (segment - self.expected);
            filled = u64::from(self.held.trailing_ones());
            self.held = self.held.checked_shr(filled as u32).unwrap_or(0);
            self.expected += filled;
        }
        self.list(segment, usize::from(duplicate), &mut blocks);
        let answer = Ack {
            at_ns,
            next: self.expected,
            blocks,
            sent_ns: now_ns,
            echoed: ticks(now_ns),
            fin: self.expected == self.shape.segments,
        };
        let orderly = filled == 1 && self.held == 0 && !answer.fin;
        if orderly && self.unacknowledged == 0 {
            self.unacknowledged = 1;
            let at_ns = at_ns + DELAYED_ACK_NS;
            self.delayed = Some(Ack { at_ns, ..answer });
            return;
        }
        self.unacknowledged = 0;
        self.delayed = None;
        self.last_ack_at_ns = at_ns;
        self.acks.push_back(answer);
    }

    /// SACK blocks from `blocks[at]` on: the one with `newest` first (RFC 2018 section 4), then the lowest.
    fn list(&self, newest: u64, mut at: usize, blocks: &mut [Block; BLOCKS]) {
        let mut rest = self.held;
        if newest >= self.expected && self.held != 0 {
            let offset = (newest - self.expected) as u32;
            let below = (self.held << (127 - offset)).leading_ones();
            let above = (self.held >> offset).trailing_ones();
            let start = offset + 1 - below;
            let length = below + above - 1;
            if below > 0 && at < BLOCKS {
                let first = self.expected + u64::from(start);
                blocks[at] = (first, first + u64::from(length));
                at += 1;
                rest &= !(mask(u64::from(length)) << start);
            }
        }
        while rest != 0 && at < BLOCKS {
            let start = rest.trailing_zeros();
            let length = (rest >> start).trailing_ones();
            let first = self.expected + u64::from(start);
            blocks[at] = (first, first + u64::from(length));
            at += 1;
            rest &= !(mask(u64::from(length)) << start);
        }
    }

    /// The sender receives an acknowledgment, which is captured.
    fn acknowledged(&mut self, ack: &Ack, now_ns: u64, out: &mut FileWriter) {
        let fin = u32::from(ack.fin);
        let number = self.seq(ack.next).wrapping_add(fin);
        let seq = self.first_ack;
        let sequence = ack
            .blocks
            .map(|(start, end)| (self.seq(start), self.seq(end)));
        let length = ack.blocks.iter().take_while(|block| block.1 > 0).count();
        let (echoed, blocks) = (ack.echoed, &sequence[..length]);
        let flags = flags::ACK | if ack.fin { flags::FIN } else { 0 };
        self.write(now_ns, false, seq, number, flags, 0, echoed, blocks, out);
        if ack.fin && !self.closed {
            let (seq, fin_ack) = (self.seq(self.shape.segments) + 1, seq.wrapping_add(1));
            self.write(now_ns, true, seq, fin_ack, flags::ACK, 0, echoed, &[], out);
            self.closed = true;
        }
        if self.closed {
            // Acknowledgments of spurious retransmissions are still in flight.
            self.finished = self.acks.is_empty();
            return;
        }
        self.backoff = 0;
        let advanced = ack.next.saturating_sub(self.una);
        self.una += advanced;
        self.sacked = self.sacked.checked_shr(advanced as u32).unwrap_or(0);
        self.lost = self.lost.checked_shr(advanced as u32).unwrap_or(0);
        for &(start, end) in &ack.blocks[..length] {
            let start = start.max(self.una);
            if end > start {
                self.sacked |= mask(end - start) << (start - self.una);
            }
        }
        self.lost &= !self.sacked;
        // RACK (RFC 8985): a segment sent a quarter of a round trip before one that arrived is lost.
        let overdue_ns = ack.sent_ns.saturating_sub(self.shape.rtt_ns / 4);
        let mut open = !self.sacked & !self.lost & mask(self.next - self.una);
        if self.sacked == 0 {
            open = 0;
        }
        while open != 0 {
            let offset = u64::from(open.trailing_zeros());
            open &= open - 1;
            if self.sent_ns[((self.una + offset) % MOST_IN_FLIGHT) as usize] < overdue_ns {
                self.lost |= 1 << offset;
            }
        }
    }

    fn seq(&self, segment: u64) -> u32 {
        self.first_seq
            .wrapping_add((segment as u32).wrapping_mul(MSS))
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one header")]
    fn write(
        &mut self,
        now_ns: u64,
        to_client: bool,
        seq: u32,
        ack: u32,
        flags: u8,
        payload: u32,
        ticks: u32,
        blocks: &[(u32, u32)],
        out: &mut FileWriter,
    ) {
        let id = &mut self.ip_ids[usize::from(to_client)];
        *id = id.wrapping_add(1);
        let timestamps = if to_client { (ticks, 7) } else { (7, ticks) };
        let segment = Segment {
            addresses: self.shape.addresses,
            to_client,
            ip_id: *id,
            seq,
            ack,
            flags,
            payload,
            timestamps,
            blocks,
        };
        out.segment(now_ns, &segment);
    }
}

const fn mask(bits: u64) -> u128 {
    if bits >= 128 {
        u128::MAX
    } else {
        (1 << bits) - 1
    }
}

const fn ticks(now_ns: u64) -> u32 {
    (FIRST_TICK + now_ns / NS_PER_TICK) as u32
}
