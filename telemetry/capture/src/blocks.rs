// SPDX-License-Identifier: Apache-2.0
//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng): sections, their interfaces and packets.

use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, OptionCode, PcapNGOption};
use pcap_parser::{parse_block_be, parse_block_le};
use weir_packet::LinkType;

/// The first bytes of a pcapng file: the type of a Section Header Block, the same in both byte orders.
pub(crate) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Type, length, and in a section header the byte-order magic.
pub(crate) const BLOCK_HEAD_BYTES: usize = 12;
/// Larger than any block with a packet in it.
const LARGEST_BLOCK_BYTES: usize = 2 << 20;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The obsolete Packet Block.
const PACKET_BLOCK: u32 = 2;
/// Offset of the packet in an Enhanced and in a Simple Packet Block; bytes of the length at the end of every block.
const ENHANCED_PACKET_AT: usize = 28;
const SIMPLE_PACKET_AT: usize = 12;
const BLOCK_END_BYTES: usize = 4;
/// The option of an interface whose frames end with a frame check sequence, and its length.
const IF_FCSLEN: OptionCode = OptionCode(13);
const MAX_INTERFACES: usize = 4096;
/// The year 2116. Times after it (or before 1970) are damaged; the bound keeps sums and differences within 64 bits.
const LATEST_NS: i64 = (1 << 62) - 1;
const NS_PER_S: u64 = 1_000_000_000;

/// An interface of the section.
#[derive(Debug, Clone, Copy)]
struct Interface {
    /// As the file numbers it; only packets need one that can be read.
    link_type_code: u32,
    ticks_per_second: u64,
    offset_ns: i64,
    fcs_bytes: u32,
    /// Bytes kept of each frame at most; 0 for all.
    snap_bytes: u32,
    /// Packets that the capture lost, by its latest statistics.
    dropped: u64,
}

/// A packet, by its position in the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// `None` in a Simple Packet Block.
    pub(crate) time_ns: Option<i64>,
    pub(crate) link_type: LinkType,
    pub(crate) wire_length: u32,
    pub(crate) start: usize,
    pub(crate) length: usize,
}

/// The problem of a block, and what would be valid.
pub(crate) type Problem = (String, &'static str);

/// The current section.
#[derive(Debug, Default)]
pub(crate) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Packets lost in earlier sections.
    dropped_before: u64,
}

impl Section {
    /// Bytes of the block that begins with `head`, which may be shorter than [`BLOCK_HEAD_BYTES`] at the file's end.
    /// A section header sets the byte order of the following blocks.
    pub(crate) fn block_bytes(&mut self, head: &[u8]) -> Result<usize, Problem> {
        let word = |at: usize| {
            head.get(at..)
                .and_then(<[u8]>::first_chunk::<4>)
                .copied()
                .unwrap_or_default()
        };
        if word(0) == SECTION_HEADER {
            self.big_endian = u32::from_be_bytes(word(8)) == BYTE_ORDER_MAGIC;
        }
        let bytes = if self.big_endian {
            u32::from_be_bytes(word(4))
        } else {
            u32::from_le_bytes(word(4))
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if (BLOCK_HEAD_BYTES..=LARGEST_BLOCK_BYTES).contains(&bytes) {
            Ok(bytes)
        } else {
            Err((
                format!("block header says {bytes} bytes"),
                "12 to 2,097,152 bytes (the file is damaged here)",
            ))
        }
    }

    /// Reads one whole block; `None` for a block without a packet.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Option<Packet>, Problem> {
        let parsed = if self.big_endian {
            parse_block_be(bytes)
        } else {
            parse_block_le(bytes)
        };
        let Ok((_, block)) = parsed else {
            return Err((
                "the block does not hold what its type says".to_owned(),
                "a block of the pcapng format (the file is damaged here)",
            ));
        };
        match block {
            Block::SectionHeader(_) => {
                self.dropped_before = self.dropped();
                self.interfaces.clear();
                Ok(None)
            }
            Block::InterfaceDescription(description) => {
                self.add_interface(&description)?;
                Ok(None)
            }
            Block::EnhancedPacket(packet) => {
                let interface = self.interface(packet.if_id)?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                Ok(Some(Packet {
                    time_ns: Some(interface.time_ns(ticks)),
                    link_type: interface.link_type()?,
                    wire_length: packet.origlen.saturating_sub(interface.fcs_bytes),
                    start: ENHANCED_PACKET_AT,
                    length: usize::try_from(packet.caplen).unwrap_or(usize::MAX),
                }))
            }
            Block::SimplePacket(packet) => {
                // It belongs to the section's first interface, whose snap length bounds its length (section 4.4).
                let interface = self.interface(0)?;
                let whole = usize::try_from(packet.origlen).unwrap_or(usize::MAX);
                let kept = match usize::try_from(interface.snap_bytes) {
                    Ok(snap) if snap > 0 => whole.min(snap),
                    _ => whole,
                };
                Ok(Some(Packet {
                    time_ns: None,
                    link_type: interface.link_type()?,
                    wire_length: packet.origlen.saturating_sub(interface.fcs_bytes),
                    start: SIMPLE_PACKET_AT,
                    length: kept.min(
                        bytes
                            .len()
                            .saturating_sub(SIMPLE_PACKET_AT + BLOCK_END_BYTES),
                    ),
                }))
            }
            Block::InterfaceStatistics(statistics) => {
                self.note_statistics(statistics.if_id, &statistics.options);
                Ok(None)
            }
            Block::Unknown(unknown) if unknown.block_type == PACKET_BLOCK => Err((
                "this is an obsolete Packet Block".to_owned(),
                "Enhanced Packet Blocks (convert it: editcap -F pcapng)",
            )),
            _ => Ok(None),
        }
    }

    fn add_interface(&mut self, block: &InterfaceDescriptionBlock<'_>) -> Result<(), Problem> {
        let ticks_per_second = ticks_per_second(block.if_tsresol).ok_or((
            format!("interface with time resolution {}", block.if_tsresol),
            "a resolution below 2^64 ticks per second",
        ))?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err((
                "a section with more interfaces".to_owned(),
                "at most 4096 interfaces in a section",
            ));
        }
        let offset_s = self.long(&block.options, OptionCode::IfTsoffset);
        self.interfaces.push(Interface {
            link_type_code: u32::try_from(block.linktype.0).unwrap_or(u32::MAX),
            ticks_per_second,
            offset_ns: (offset_s.unwrap_or(0).cast_signed()).saturating_mul(NS_PER_S.cast_signed()),
            fcs_bytes: option_bytes(&block.options, IF_FCSLEN)
                .and_then(|value| value.first().copied())
                .unwrap_or(0)
                .into(),
            snap_bytes: block.snaplen,
            dropped: 0,
        });
        Ok(())
    }

    /// Notes the drop counts of an Interface Statistics Block: of the interface for lack of resources, and of the operating
    /// system before the capturing program. Both count from the beginning of the capture.
    fn note_statistics(&mut self, id: u32, options: &[PcapNGOption<'_>]) {
        let lost = [OptionCode::IsbIfDrop, OptionCode::IsbOsDrop]
            .map(|code| self.long(options, code).unwrap_or(0));
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        if let Some(interface) = self.interfaces.get_mut(at) {
            let lost = lost[0].saturating_add(lost[1]);
            interface.dropped = interface.dropped.max(lost);
        }
    }

    /// Packets that the capture lost, by its own statistics.
    pub(crate) fn dropped(&self) -> u64 {
        let lost = self.interfaces.iter().map(|interface| interface.dropped);
        lost.fold(self.dropped_before, u64::saturating_add)
    }

    /// The value of a 64-bit option. The parser's own accessor reads it as little-endian in every file.
    fn long(&self, options: &[PcapNGOption<'_>], code: OptionCode) -> Option<u64> {
        let bytes = *option_bytes(options, code)?.first_chunk::<8>()?;
        Some(if self.big_endian {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        })
    }

    fn interface(&self, id: u32) -> Result<Interface, Problem> {
        let at = usize::try_from(id).unwrap_or(usize::MAX);
        self.interfaces.get(at).copied().ok_or_else(|| {
            (
                format!(
                    "packet of interface {id}, and the section describes {}",
                    self.interfaces.len()
                ),
                "a packet of an interface that was described before",
            )
        })
    }
}

fn option_bytes<'a>(options: &'a [PcapNGOption<'_>], code: OptionCode) -> Option<&'a [u8]> {
    let found = options.iter().find(|option| option.code == code);
    found.and_then(|option| option.as_bytes().ok())
}

/// The option if_tsresol: a negative power of 10, or of 2 where the highest bit is set.
fn ticks_per_second(resolution: u8) -> Option<u64> {
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(u32::from(resolution & 0x7f))
}

impl Interface {
    /// Wireshark describes every interface that it was told to capture on (USB, Bluetooth, …), with packets or without.
    fn link_type(&self) -> Result<LinkType, Problem> {
        LinkType::from_pcap(self.link_type_code)
            .map_err(|error| (error.to_string(), LinkType::SUPPORTED))
    }

    /// `ticks` since the interface's epoch, as nanoseconds since 1970.
    fn time_ns(&self, ticks: u64) -> i64 {
        let since = u128::from(ticks) * u128::from(NS_PER_S) / u128::from(self.ticks_per_second);
        i64::try_from(since)
            .unwrap_or(i64::MAX)
            .saturating_add(self.offset_ns)
            .clamp(0, LATEST_NS)
    }
}
