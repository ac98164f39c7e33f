// SPDX-License-Identifier: Apache-2.0
//! TCP options: MSS, window scale, SACK, timestamps.

use crate::bytes::{u16_at, u32_at};

/// 40 bytes of options hold at most four SACK blocks of 8 bytes (RFC 2018 section 3).
const MAX_SACK_BLOCKS: usize = 4;
const SACK_BLOCK_BYTES: usize = 8;

/// Option kinds (IANA "TCP Option Kind Numbers").
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// The timestamps option, aligned by two no-operations before it.
const ALIGNED_TIMESTAMPS: [u8; 4] = [kind::NO_OPERATION, kind::NO_OPERATION, kind::TIMESTAMPS, 10];

/// Whether sequence number `a` comes before `b` (RFC 9293 section 3.4: modulo 2³²).
#[must_use]
pub const fn sequence_before(a: u32, b: u32) -> bool {
    let distance = b.wrapping_sub(a);
    distance != 0 && distance < 1 << 31
}

/// A range of sequence numbers that the receiver holds: `start` is in it, `end` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: u32,
    /// Sequence number after the last.
    pub end: u32,
}

/// The SACK blocks of one segment, in the order they were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; MAX_SACK_BLOCKS],
    length: usize,
}

impl SackBlocks {
    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..self.length).unwrap_or_default()
    }

    /// The first block when it reports a duplicate: it lies below the segment's acknowledgment number, or inside
    /// the second block (RFC 2883 section 4). `ack` is that segment's acknowledgment number.
    #[must_use]
    pub fn dsack(&self, ack: u32) -> Option<SackBlock> {
        let first = *self.as_slice().first()?;
        let below_ack = !sequence_before(ack, first.end);
        let inside_second = self.as_slice().get(1).is_some_and(|second| {
            !sequence_before(first.start, second.start) && !sequence_before(second.end, first.end)
        });
        (below_ack || inside_second).then_some(first)
    }

    #[inline]
    fn read(data: &[u8]) -> Self {
        let mut sack = Self::default();
        for (slot, block) in sack
            .blocks
            .iter_mut()
            .zip(data.chunks_exact(SACK_BLOCK_BYTES))
        {
            *slot = SackBlock {
                start: u32_at(block, 0),
                end: u32_at(block, 4),
            };
            sack.length += 1;
        }
        sack
    }
}

/// The timestamps option (RFC 7323 section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timestamps {
    /// `TSval`, the sender's clock.
    pub value: u32,
    /// `TSecr`, the peer's last `TSval` as the sender received it; valid only with ACK.
    pub echo_reply: u32,
}

/// How far the options could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OptionsEnd {
    /// All of them.
    #[default]
    Complete,
    /// The capture ends within the options; those before the cut are valid, SACK blocks too.
    Cut,
    /// An option's length is impossible; the options before it are valid.
    Malformed,
}

/// The options of one segment. An option that is absent (or was not reached, see `end`) is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size in bytes (RFC 9293 section 3.7.1).
    pub mss_bytes: Option<u16>,
    /// Window scale as a shift count (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// SACK permitted (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Selective acknowledgments.
    pub sack: SackBlocks,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// How far the options could be read.
    pub end: OptionsEnd,
}

impl TcpOptions {
    /// Reads the captured option bytes; the header had `sent_length` bytes of them.
    #[inline]
    #[must_use]
    pub fn read(captured: &[u8], sent_length: usize) -> Self {
        let mut options = Self::default();
        let mut rest = captured;
        let mut read_to = 0;
        // The layout of nearly every segment (RFC 7323 appendix A).
        if let Some((first, after)) = captured.split_first_chunk::<12>()
            && first.starts_with(&ALIGNED_TIMESTAMPS)
            && sent_length >= first.len()
        {
            options.note(kind::TIMESTAMPS, &first[4..]);
            rest = after;
            read_to = first.len();
        }
        loop {
            let Some((&kind, after_kind)) = rest.split_first() else {
                if read_to < sent_length {
                    options.end = OptionsEnd::Cut;
                }
                return options;
            };
            if kind == kind::END {
                return options;
            }
            let length = if kind == kind::NO_OPERATION {
                1
            } else {
                let Some(&length) = after_kind.first() else {
                    // The length byte is cut, or was never sent.
                    let was_sent = read_to + 1 < sent_length;
                    options.end = if was_sent {
                        OptionsEnd::Cut
                    } else {
                        OptionsEnd::Malformed
                    };
                    return options;
                };
                usize::from(length)
            };
            if length == 0
                || (length == 1 && kind != kind::NO_OPERATION)
                || read_to + length > sent_length
            {
                options.end = OptionsEnd::Malformed;
                return options;
            }
            let Some((option, after)) = rest.split_at_checked(length) else {
                options.end = OptionsEnd::Cut;
                if kind == kind::SACK {
                    // Whole blocks are valid, wherever the capture ends.
                    options.sack = SackBlocks::read(after_kind.get(1..).unwrap_or_default());
                }
                return options;
            };
            options.note(kind, option.get(2..).unwrap_or_default());
            rest = after;
            read_to += length;
        }
    }

    /// Notes one option; a known kind with a wrong length is skipped.
    #[inline]
    fn note(&mut self, kind: u8, data: &[u8]) {
        match (kind, data.len()) {
            (kind::MSS, 2) => self.mss_bytes = Some(u16_at(data, 0)),
            (kind::WINDOW_SCALE, 1) => self.window_scale = data.first().copied(),
            (kind::SACK_PERMITTED, 0) => self.sack_permitted = true,
            (kind::SACK, _) => self.sack = SackBlocks::read(data),
            (kind::TIMESTAMPS, 8) => {
                self.timestamps = Some(Timestamps {
                    value: u32_at(data, 0),
                    echo_reply: u32_at(data, 4),
                });
            }
            _ => {}
        }
    }
}
