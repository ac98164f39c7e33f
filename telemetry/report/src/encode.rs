// SPDX-License-Identifier: Apache-2.0
//! Encoder: the report exactly as weir's pipeline emits it.

use crate::error::EncodeError;
use crate::format::{
    HW_ID_LIMIT, MAIN_BYTES, OCCUPANCY_LIMIT, REPORT_LENGTH_TO_END, SEQUENCE_MODULUS, VERSION,
    WEIR_DOMAIN_ID, WEIR_HEADERS_BYTES, WORD_BYTES, emitted, rep_type,
};

/// A UDP payload over IPv4 holds no more than this.
const MAX_PAYLOAD_BYTES: usize = 65_507;

/// One report with all the metadata weir emits, alone in its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeirReport<'a> {
    /// The switch.
    pub node_id: u32,
    /// Subsystem within the switch, below 64.
    pub hw_id: u8,
    /// Number of this report, below [`SEQUENCE_MODULUS`].
    pub sequence: u32,
    /// D: the packet was dropped.
    pub dropped: bool,
    /// Q: its queue was congested.
    pub congested: bool,
    /// F: it belongs to a tracked flow.
    pub tracked: bool,
    /// Egress queue; 0 for a packet that was dropped before it was enqueued.
    pub queue_id: u8,
    /// Bytes in that queue, below 2²⁴.
    pub queue_occupancy: u32,
    /// Ingress time, by the switch's clock.
    pub ingress_ns: u64,
    /// Egress time; 0 for a packet that was dropped before.
    pub egress_ns: u64,
    /// See [`crate::drop_reason`].
    pub drop_reason: u8,
    /// Index of the meter cell.
    pub policer: u16,
    /// See [`crate::colour`].
    pub colour: u8,
    /// Bytes of the frame without FCS, as metered.
    pub wire_length: u32,
    /// The packet's number in its policer, 1 for the first.
    pub packet_number: u32,
    /// The beginning of the frame, from its Ethernet header.
    pub inner: &'a [u8],
}

impl WeirReport<'_> {
    /// Appends the UDP payload to `out`.
    ///
    /// # Errors
    /// [`EncodeError`] names the field whose value does not fit; `out` is then as it was.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.check()?;
        let sequence = u32::from(VERSION) << 28 | u32::from(self.hw_id) << 22 | self.sequence;
        out.extend(sequence.to_be_bytes());
        out.extend(self.node_id.to_be_bytes());

        let flags = u8::from(self.dropped) << 7
            | u8::from(self.congested) << 6
            | u8::from(self.tracked) << 5;
        let types = rep_type::INT << 4 | emitted::IN_TYPE_ETHERNET;
        out.extend([types, self.report_words(), emitted::MD_WORDS, flags]);

        out.extend(emitted::REP_MD_BITS.to_be_bytes());
        out.extend(WEIR_DOMAIN_ID.to_be_bytes());
        out.extend(emitted::DS_MD_BITS.to_be_bytes());
        out.extend([0, 0]);

        out.extend((u32::from(self.queue_id) << 24 | self.queue_occupancy).to_be_bytes());
        out.extend(self.ingress_ns.to_be_bytes());
        out.extend(self.egress_ns.to_be_bytes());
        out.extend([self.queue_id, self.drop_reason, 0, 0]);

        out.extend(self.policer.to_be_bytes());
        out.extend([self.colour, 0]);
        out.extend(self.wire_length.to_be_bytes());
        out.extend(self.packet_number.to_be_bytes());
        out.extend(self.inner);
        Ok(())
    }

    /// Bytes of the UDP payload.
    #[must_use]
    pub const fn encoded_length(&self) -> usize {
        WEIR_HEADERS_BYTES + self.inner.len()
    }

    /// Words after the first one, the inner packet rounded up to whole words.
    fn report_words(&self) -> u8 {
        let words = MAIN_BYTES / WORD_BYTES
            + usize::from(emitted::MD_WORDS)
            + self.inner.len().div_ceil(WORD_BYTES);
        u8::try_from(words).unwrap_or(REPORT_LENGTH_TO_END)
    }

    fn check(&self) -> Result<(), EncodeError> {
        let fits = |field, value: u64, limit: u64| {
            if value < limit {
                Ok(())
            } else {
                Err(EncodeError {
                    field,
                    value,
                    max: limit - 1,
                })
            }
        };
        let inner_limit = MAX_PAYLOAD_BYTES - WEIR_HEADERS_BYTES + 1;
        fits("hw_id", self.hw_id.into(), HW_ID_LIMIT.into())?;
        fits("sequence", self.sequence.into(), SEQUENCE_MODULUS.into())?;
        fits(
            "queue_occupancy",
            self.queue_occupancy.into(),
            OCCUPANCY_LIMIT.into(),
        )?;
        fits(
            "bytes of the inner packet",
            self.inner.len() as u64,
            inner_limit as u64,
        )
    }
}
