// SPDX-License-Identifier: Apache-2.0
//! Holes in a sender's data as captured.
//!
//! A hole in the sequence has one of three causes: the packet was lost between sender and capture, it was overtaken on
//! that path, or the capture itself missed it. In the third case the data are acknowledged but never seen. The packet that
//! fills a hole distinguishes the first two: it is a retransmission if it was sent after the packet that skipped the hole,
//! by its timestamp (RFC 7323: they never go back), else by its IP identification (RFC 6864: senders count it up), else
//! if more than three packets came in between (RFC 5681 section 3.2).

use std::collections::VecDeque;

use super::captured::Sent;
use super::findings::Confidence;

/// A packet that is late by more packets than this was not merely overtaken.
const REORDERING_PACKETS: u64 = 3;
/// Identifications farther apart than this do not count up.
const CLOSE_IDS: u16 = 1 << 12;
/// Holes kept per direction, a bound on memory.
const MOST_HOLES: usize = 1 << 12;

#[derive(Debug, Clone, Copy)]
struct Hole {
    start: u64,
    end: u64,
    opened_ns: i64,
    /// Timestamp of the packet that skipped the hole.
    tsval: Option<u32>,
    ip_id: u32,
    /// Send order of that packet.
    order: u64,
}

/// How a packet came to fill a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filling {
    /// It is a retransmission: an earlier transmission was lost before the capture.
    Lost {
        /// When the hole appeared in the capture.
        opened_ns: i64,
        /// Packets that came in between.
        packets: u64,
        confidence: Confidence,
    },
    /// Other packets had overtaken it.
    Overtaken,
}

#[derive(Debug, Default)]
pub(super) struct Holes {
    holes: VecDeque<Hole>,
    /// Bytes of holes that were acknowledged and never filled.
    pub(super) missed_bytes: u64,
}

impl Holes {
    pub(super) fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    /// Notes that `sent` skipped `start..end`.
    pub(super) fn open(&mut self, (start, end): (u64, u64), sent: &Sent, order: u64) {
        if self.holes.len() >= MOST_HOLES
            && let Some(oldest) = self.holes.pop_front()
        {
            self.missed_bytes += oldest.end - oldest.start;
        }
        self.holes.push_back(Hole {
            start,
            end,
            opened_ns: sent.time_ns,
            tsval: sent.tsval,
            ip_id: sent.ip_id,
            order,
        });
    }

    /// Closes the holes within `start..end`, which `sent` carries; `None` when there are none.
    pub(super) fn fill(
        &mut self,
        (start, end): (u64, u64),
        sent: &Sent,
        order: u64,
    ) -> Option<Filling> {
        let mut filling = None;
        let mut index = self.holes.partition_point(|hole| hole.end <= start);
        while let Some(&hole) = self.holes.get(index).filter(|hole| hole.start < end) {
            filling = filling.or(Some(hole.filled_by(sent, order)));
            self.holes.remove(index);
            for (start, end) in [(hole.start, start), (end, hole.end)] {
                if start < end {
                    self.holes.insert(index, Hole { start, end, ..hole });
                    index += 1;
                }
            }
        }
        filling
    }

    /// Everything up to `edge` has arrived: the capture missed what is still a hole below it.
    pub(super) fn acknowledged(&mut self, edge: u64) {
        while let Some(hole) = self.holes.front_mut().filter(|hole| hole.start < edge) {
            let end = hole.end.min(edge);
            self.missed_bytes += end - hole.start;
            hole.start = end;
            if hole.start < hole.end {
                break;
            }
            self.holes.pop_front();
        }
    }
}

impl Hole {
    fn filled_by(&self, sent: &Sent, order: u64) -> Filling {
        let packets = order - self.order;
        let lost = |confidence| Filling::Lost {
            opened_ns: self.opened_ns,
            packets,
            confidence,
        };
        if let (Some(before), Some(now)) = (self.tsval, sent.tsval) {
            match now.wrapping_sub(before).cast_signed() {
                0 => {}
                1.. => return lost(Confidence::High),
                _ => return Filling::Overtaken,
            }
        }
        // 0: not set (RFC 6864 section 4.1), or IPv6.
        if self.ip_id != 0 && sent.ip_id != 0 {
            let forward = (sent.ip_id as u16).wrapping_sub(self.ip_id as u16);
            match (forward, forward.wrapping_neg()) {
                (1..=CLOSE_IDS, _) => return lost(Confidence::Medium),
                (_, 1..=CLOSE_IDS) => return Filling::Overtaken,
                _ => {}
            }
        }
        if packets > REORDERING_PACKETS {
            lost(Confidence::Low)
        } else {
            Filling::Overtaken
        }
    }
}
