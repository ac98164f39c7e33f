// SPDX-License-Identifier: Apache-2.0
//! Decoder: a datagram's payload to its reports.

use crate::error::ReportError;
use crate::format::{
    GROUP_HEADER_BYTES, INDIVIDUAL_HEADER_BYTES, MAIN_BYTES, REPORT_LENGTH_TO_END,
    SEQUENCE_MODULUS, VERSION, WORD_BYTES, rep_type,
};
use crate::metadata::{self, Baseline, Domain};

/// The header that all reports of one datagram share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupHeader {
    /// Subsystem within the node, 6 bits.
    pub hw_id: u8,
    /// Sequence number of this datagram among those of (node, subsystem, destination), 22 bits.
    pub sequence: u32,
    /// The switch.
    pub node_id: u32,
}

/// The kind of a report's inner contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InnerType {
    /// Nothing.
    None,
    /// Type-length-values.
    Tlv,
    /// Extension data of the domain.
    DomainExtension,
    /// A packet from its Ethernet header.
    Ethernet,
    /// A packet from its IPv4 header.
    Ipv4,
    /// A packet from its IPv6 header.
    Ipv6,
    /// A code point that the format reserves (6 to 15).
    Reserved(u8),
}

impl InnerType {
    const fn from_wire(code: u8) -> Self {
        match code {
            0 => Self::None,
            1 => Self::Tlv,
            2 => Self::DomainExtension,
            3 => Self::Ethernet,
            4 => Self::Ipv4,
            5 => Self::Ipv6,
            other => Self::Reserved(other),
        }
    }
}

/// One individual report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<'a> {
    /// The kind of `inner`.
    pub inner_type: InnerType,
    /// D: the packet was dropped.
    pub dropped: bool,
    /// Q: its queue was congested.
    pub congested: bool,
    /// F: it belongs to a tracked flow.
    pub tracked: bool,
    /// I: a transit node reports.
    pub intermediate: bool,
    /// Baseline metadata.
    pub baseline: Baseline,
    /// `DSMdstatus`.
    pub domain_status: u16,
    /// Domain-specific metadata.
    pub domain: Domain<'a>,
    /// The inner contents, usually the beginning of the packet.
    pub inner: &'a [u8],
}

/// A datagram: its group header and the reports after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    group: GroupHeader,
    reports: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads the group header of a UDP payload.
    ///
    /// # Errors
    /// [`ReportError::Truncated`] and [`ReportError::Version`].
    pub fn parse(payload: &'a [u8]) -> Result<Self, ReportError> {
        let (header, reports) = split::<GROUP_HEADER_BYTES>(payload, "group header")?;
        let [a, b, c, d, e, f, g, h] = *header;
        let first = u32::from_be_bytes([a, b, c, d]);
        if a >> 4 != VERSION {
            return Err(ReportError::Version { found: a >> 4 });
        }
        // 4 bits of version, 6 of hw_id, 22 of sequence.
        let [_, _, _, hw_id] = (first >> 22 & 0x3f).to_be_bytes();
        let sequence = first % SEQUENCE_MODULUS;
        let group = GroupHeader {
            hw_id,
            sequence,
            node_id: u32::from_be_bytes([e, f, g, h]),
        };
        Ok(Self { group, reports })
    }

    /// The group header.
    #[must_use]
    pub const fn group(&self) -> &GroupHeader {
        &self.group
    }

    /// The reports, at least one item: a datagram without any yields [`ReportError::Truncated`].
    ///
    /// Ends after the first report that cannot be read, because the start of the next one is then unknown.
    #[must_use]
    pub const fn reports(&self) -> Reports<'a> {
        Reports {
            rest: Some(self.reports),
        }
    }
}

/// Iterator over the reports of a datagram.
#[derive(Debug, Clone)]
pub struct Reports<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Reports<'a> {
    type Item = Result<Report<'a>, ReportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let result = read_report(self.rest.take()?);
        Some(result.map(|(report, rest)| {
            self.rest = (!rest.is_empty()).then_some(rest);
            report
        }))
    }
}

/// Reads the first report of `bytes`; the second value is the bytes after it.
fn read_report(bytes: &[u8]) -> Result<(Report<'_>, &[u8]), ReportError> {
    let (header, body) = split::<INDIVIDUAL_HEADER_BYTES>(bytes, "individual report header")?;
    let [types, report_words, md_words, flags] = *header;
    if types >> 4 != rep_type::INT {
        return Err(ReportError::RepType { found: types >> 4 });
    }
    let metadata_bytes = usize::from(md_words) * WORD_BYTES;
    let needed_words = MAIN_BYTES / WORD_BYTES + usize::from(md_words);
    if report_words != REPORT_LENGTH_TO_END && usize::from(report_words) < needed_words {
        return Err(ReportError::ReportLength {
            words: report_words,
            needed_words,
        });
    }
    let (body, rest) = body
        .split_at_checked(end_of(report_words, body.len()))
        .unwrap_or((body, &[]));

    let (main, after_main) = split::<MAIN_BYTES>(body, "main contents")?;
    let [b0, b1, d0, d1, m0, m1, s0, s1] = *main;
    let rep_md_bits = u16::from_be_bytes([b0, b1]);
    let domain_id = u16::from_be_bytes([d0, d1]);
    let ds_md_bits = u16::from_be_bytes([m0, m1]);
    let Some((metadata, inner)) = after_main.split_at_checked(metadata_bytes) else {
        return Err(ReportError::Truncated {
            part: "metadata",
            needed: metadata_bytes,
            available: after_main.len(),
        });
    };
    let (baseline, domain) =
        metadata::read(metadata, md_words, rep_md_bits, domain_id, ds_md_bits)?;
    let report = Report {
        inner_type: InnerType::from_wire(types & 0x0f),
        dropped: flags & 0x80 != 0,
        congested: flags & 0x40 != 0,
        tracked: flags & 0x20 != 0,
        intermediate: flags & 0x10 != 0,
        baseline,
        domain_status: u16::from_be_bytes([s0, s1]),
        domain,
        inner,
    };
    Ok((report, rest))
}

/// The end of a report of `words` words within the `available` bytes after its first word.
///
/// Senders count whole words, so the last report may end before or after the end that its length gives. Fewer than four
/// bytes after it cannot be another report and belong to this one.
fn end_of(words: u8, available: usize) -> usize {
    let stated = usize::from(words) * WORD_BYTES;
    if words == REPORT_LENGTH_TO_END || stated + INDIVIDUAL_HEADER_BYTES > available {
        available
    } else {
        stated
    }
}

fn split<'a, const N: usize>(
    bytes: &'a [u8],
    part: &'static str,
) -> Result<(&'a [u8; N], &'a [u8]), ReportError> {
    bytes
        .split_first_chunk::<N>()
        .ok_or(ReportError::Truncated {
            part,
            needed: N,
            available: bytes.len(),
        })
}
