// SPDX-License-Identifier: Apache-2.0
//! A TCP receiver: cumulative and selective acknowledgments, DSACK, delayed ACKs, echoed timestamps.

/// The contents of one ACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub ack: u64,
    pub tsecr: u32,
    pub sack: Vec<(u64, u64)>,
}

#[derive(Debug, Default)]
pub struct Receiver {
    next: u64,
    /// Out-of-order ranges, the one that changed last first (RFC 2018 section 4).
    held: Vec<(u64, u64)>,
    ts_recent: u32,
    last_ack: u64,
    pending: u32,
}

impl Receiver {
    pub fn new(next: u64) -> Self {
        Self {
            next,
            last_ack: next,
            ..Self::default()
        }
    }

    /// A segment arrives. `None`: the ACK is delayed, call [`Receiver::flush`] later.
    pub fn arrive(&mut self, start: u64, end: u64, tsval: u32) -> Option<Reply> {
        // RFC 7323 section 4.3: only a segment that covers the byte acknowledged last is echoed.
        if start <= self.last_ack
            && end > self.next
            && tsval.wrapping_sub(self.ts_recent).cast_signed() >= 0
        {
            self.ts_recent = tsval;
        }
        if end <= self.next {
            return Some(self.reply(Some((start, end))));
        }
        if let Some(index) = self
            .held
            .iter()
            .position(|held| held.0 <= start && end <= held.1)
        {
            let held = self.held.remove(index);
            self.held.insert(0, held);
            return Some(self.reply(Some((start, end))));
        }
        if start > self.next {
            let mut merged = (start, end);
            self.held.retain(|held| {
                let apart = held.1 < merged.0 || merged.1 < held.0;
                if !apart {
                    merged = (merged.0.min(held.0), merged.1.max(held.1));
                }
                apart
            });
            self.held.insert(0, merged);
            return Some(self.reply(None));
        }
        self.next = end;
        let had_holes = !self.held.is_empty();
        while let Some(index) = self.held.iter().position(|held| held.0 <= self.next) {
            let held = self.held.remove(index);
            self.next = self.next.max(held.1);
        }
        self.pending += 1;
        (had_holes || self.pending >= 2).then(|| self.reply(None))
    }

    /// The delayed ACK, if one is pending.
    pub fn flush(&mut self) -> Option<Reply> {
        (self.pending > 0).then(|| self.reply(None))
    }

    fn reply(&mut self, duplicate: Option<(u64, u64)>) -> Reply {
        self.pending = 0;
        self.last_ack = self.next;
        // Three blocks fit beside the timestamps.
        let sack = duplicate
            .into_iter()
            .chain(self.held.iter().copied())
            .take(3)
            .collect();
        Reply {
            ack: self.next,
            tsecr: self.ts_recent,
            sack,
        }
    }
}
