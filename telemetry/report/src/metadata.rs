// SPDX-License-Identifier: Apache-2.0
//! The optional metadata of a report: baseline (of any sender) and domain-specific (weir's own, or opaque).

use crate::error::ReportError;
use crate::format::{WEIR_DOMAIN_ID, WORD_BYTES, bit};

/// Ingress and egress interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interfaces {
    /// Ingress interface.
    pub ingress: u32,
    /// Egress interface, also of a packet that was dropped before it.
    pub egress: u32,
}

/// Fill level of a queue or buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Queue or buffer id.
    pub id: u8,
    /// Level, 24 bits, in the sender's unit (weir on v1model: packets; on Tofino: cells of 80 bytes).
    pub level: u32,
}

/// Queue and reason of a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropCause {
    /// The queue that the packet was destined for.
    pub queue_id: u8,
    /// See [`crate::drop_reason`].
    pub reason: u8,
}

/// Baseline metadata; `None` for fields that the report lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Baseline {
    /// Bit 1: level-1 interface ids (16 bits each).
    pub interfaces: Option<Interfaces>,
    /// Bit 2: hop latency, in the sender's unit.
    pub hop_latency: Option<u32>,
    /// Bit 3: queue id and occupancy.
    pub queue: Option<Occupancy>,
    /// Bit 4: ingress time, by the switch's clock.
    pub ingress_ns: Option<u64>,
    /// Bit 5: egress time, by the switch's clock; 0 for a packet that never reached egress.
    pub egress_ns: Option<u64>,
    /// Bit 6: level-2 interface ids (32 bits each).
    pub logical_interfaces: Option<Interfaces>,
    /// Bit 7: utilization of the egress port, in the sender's unit.
    pub tx_utilization: Option<u32>,
    /// Bit 8: buffer id and occupancy.
    pub buffer: Option<Occupancy>,
    /// Bit 15: queue and reason of a drop.
    pub drop: Option<DropCause>,
}

/// The policer that metered the packet, and the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicerVerdict {
    /// Index of the meter cell.
    pub policer: u16,
    /// See [`crate::colour`].
    pub colour: u8,
}

/// Metadata of weir's own domain; `None` for fields that the report lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeirMetadata {
    /// Bit 0.
    pub verdict: Option<PolicerVerdict>,
    /// Bit 1: bytes of the frame without FCS, as metered.
    pub wire_length: Option<u32>,
    /// Bit 2: the packet's number in its policer, 1 for the first, modulo 2³².
    pub packet_number: Option<u32>,
    /// Bit 3: number of packets that the queue dropped before this one, where the switch cannot tell which.
    pub queue_lost: Option<u32>,
}

/// Domain-specific metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain<'a> {
    /// Weir's own.
    Weir(WeirMetadata),
    /// Metadata of another domain, not interpreted (0 is the default domain, which defines none).
    Other {
        /// Domain Specific ID.
        id: u16,
        /// `DSMdBits`.
        bits: u16,
        /// All domain metadata.
        bytes: &'a [u8],
    },
}

/// Reads words one after the other; the caller has checked that there are enough.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((chunk, rest)) => {
                self.0 = rest;
                *chunk
            }
            None => [0; N],
        }
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }

    fn skip(&mut self, words: u32) {
        for _ in 0..words {
            self.u32();
        }
    }

    fn occupancy(&mut self) -> Occupancy {
        let [id, level @ ..] = self.bytes::<4>();
        let [high, middle, low] = level;
        Occupancy {
            id,
            level: u32::from_be_bytes([0, high, middle, low]),
        }
    }
}

/// Bits of `RepMdBits` that stand for two words; all others stand for one, also reserved ones.
const TWO_WORDS: u16 = 0x8000 >> 4 | 0x8000 >> 5 | 0x8000 >> 6;
/// The reserved bits between bit 8 and bit 15.
const RESERVED: u16 = 0x007e;

fn baseline_words(rep_md_bits: u16) -> usize {
    (rep_md_bits.count_ones() + (rep_md_bits & TWO_WORDS).count_ones()) as usize
}

/// Splits metadata of `md_words` words into its two blocks and reads them.
///
/// `metadata` holds exactly those words.
pub(crate) fn read(
    metadata: &[u8],
    md_words: u8,
    rep_md_bits: u16,
    domain_id: u16,
    ds_md_bits: u16,
) -> Result<(Baseline, Domain<'_>), ReportError> {
    let baseline_words = baseline_words(rep_md_bits);
    let domain_words = if domain_id == WEIR_DOMAIN_ID {
        weir_words(ds_md_bits)
    } else {
        0
    };
    let needed_words = baseline_words + domain_words;
    let split = metadata.split_at_checked(baseline_words * WORD_BYTES);
    let (Some((baseline, domain)), true) = (split, needed_words <= usize::from(md_words)) else {
        return Err(ReportError::MetadataLength {
            words: md_words,
            needed_words,
        });
    };
    Ok((
        read_baseline(baseline, rep_md_bits),
        read_domain(domain, domain_id, ds_md_bits),
    ))
}

/// Unrolled, one line for each bit in order: a loop takes several times as long.
fn read_baseline(bytes: &[u8], bits: u16) -> Baseline {
    let mut words = Words(bytes);
    if bit(bits, 0) {
        words.skip(1);
    }
    let mut baseline = Baseline {
        interfaces: bit(bits, 1).then(|| {
            let [a, b, c, d] = words.bytes();
            Interfaces {
                ingress: u32::from(u16::from_be_bytes([a, b])),
                egress: u32::from(u16::from_be_bytes([c, d])),
            }
        }),
        hop_latency: bit(bits, 2).then(|| words.u32()),
        queue: bit(bits, 3).then(|| words.occupancy()),
        ingress_ns: bit(bits, 4).then(|| words.u64()),
        egress_ns: bit(bits, 5).then(|| words.u64()),
        logical_interfaces: bit(bits, 6).then(|| {
            let (ingress, egress) = (words.u32(), words.u32());
            Interfaces { ingress, egress }
        }),
        tx_utilization: bit(bits, 7).then(|| words.u32()),
        buffer: bit(bits, 8).then(|| words.occupancy()),
        drop: None,
    };
    words.skip((bits & RESERVED).count_ones());
    baseline.drop = bit(bits, 15).then(|| {
        let [queue_id, reason, _, _] = words.bytes();
        DropCause { queue_id, reason }
    });
    baseline
}

/// Words of the bits that weir defines; those of later versions follow them.
fn weir_words(ds_md_bits: u16) -> usize {
    (ds_md_bits & 0xf000).count_ones() as usize
}

fn read_domain(bytes: &[u8], id: u16, bits: u16) -> Domain<'_> {
    if id != WEIR_DOMAIN_ID {
        return Domain::Other { id, bits, bytes };
    }
    let mut words = Words(bytes);
    let mut weir = WeirMetadata::default();
    if bit(bits, 0) {
        let [high, low, colour, _] = words.bytes();
        weir.verdict = Some(PolicerVerdict {
            policer: u16::from_be_bytes([high, low]),
            colour,
        });
    }
    if bit(bits, 1) {
        weir.wire_length = Some(words.u32());
    }
    if bit(bits, 2) {
        weir.packet_number = Some(words.u32());
    }
    if bit(bits, 3) {
        weir.queue_lost = Some(words.u32());
    }
    Domain::Weir(weir)
}
