// SPDX-License-Identifier: Apache-2.0
//! The file header of a pcap file, and the names of foreign formats.

use std::path::Path;

use weir_packet::LinkType;

use crate::error::CaptureError;

pub(crate) const FILE_HEADER_BYTES: usize = 24;
const VALID: &str =
    "a pcapng file, or a pcap file (magic a1b2c3d4 or a1b23c4d in either byte order)";
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Foreign files that users pass, by their first bytes, and what to do with them.
const FOREIGN: [(&[u8], &str); 10] = [
    (b"\x1f\x8b", "a gzip file (decompress it first)"),
    (b"\xfd7zXZ\0", "an xz file (decompress it first)"),
    (b"\x28\xb5\x2f\xfd", "a zstd file (decompress it first)"),
    (b"BZh", "a bzip2 file (decompress it first)"),
    (b"\x04\x22\x4d\x18", "an LZ4 file (decompress it first)"),
    (b"snoop\0\0\0", "a snoop file (convert it: editcap -F pcap)"),
    (b"btsnoop\0", "a btsnoop file"),
    (
        b"\xa1\xb2\xcd\x34",
        "a pcap file of Kuznetzov's modified format (convert it: editcap -F pcap)",
    ),
    (
        b"\x34\xcd\xb2\xa1",
        "a pcap file of Kuznetzov's modified format (convert it: editcap -F pcap)",
    ),
    (b"PAR1", "a Parquet file"),
];

/// The fields of the file header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileHeader {
    big_endian: bool,
    pub(crate) ticks_per_second: u32,
    pub(crate) ns_per_tick: i64,
    pub(crate) fcs_bytes: u32,
    pub(crate) link_type: LinkType,
}

impl Default for FileHeader {
    fn default() -> Self {
        Self {
            big_endian: false,
            ticks_per_second: 1_000_000,
            ns_per_tick: 1000,
            fcs_bytes: 0,
            link_type: LinkType::Ethernet,
        }
    }
}

impl FileHeader {
    /// Reads the first bytes of a file (fewer than [`FILE_HEADER_BYTES`] when it is shorter).
    pub(crate) fn parse(head: &[u8], path: &Path) -> Result<Self, CaptureError> {
        let fail = |offset, problem: String| Err(CaptureError::new(path, offset, problem, VALID));
        if head.is_empty() {
            return fail(0, "the file is empty".into());
        }
        if let Some((_, name)) = FOREIGN.iter().find(|(start, _)| head.starts_with(start)) {
            return fail(0, format!("this is {name}"));
        }
        let Some(magic) = head.first_chunk::<4>() else {
            return fail(
                0,
                format!("the file has {} bytes and no known magic", head.len()),
            );
        };
        let (big_endian, ticks_per_second) =
            match (u32::from_be_bytes(*magic), u32::from_le_bytes(*magic)) {
                (MAGIC_MICROSECONDS, _) => (true, 1_000_000),
                (MAGIC_NANOSECONDS, _) => (true, 1_000_000_000),
                (_, MAGIC_MICROSECONDS) => (false, 1_000_000),
                (_, MAGIC_NANOSECONDS) => (false, 1_000_000_000),
                (unknown, _) => {
                    return fail(
                        0,
                        format!("this is no capture: it begins with {unknown:08x}"),
                    );
                }
            };
        if head.len() < FILE_HEADER_BYTES {
            let problem = format!(
                "the file header is cut: {} of {FILE_HEADER_BYTES} bytes are there",
                head.len()
            );
            return fail(head.len() as u64, problem);
        }
        let mut header = Self {
            big_endian,
            ticks_per_second,
            ns_per_tick: i64::from(1_000_000_000 / ticks_per_second),
            ..Self::default()
        };
        let [_, _, _, network] = header.words(
            head.get(8..)
                .and_then(<[u8]>::first_chunk)
                .unwrap_or(&[0; 16]),
        );
        // Bit 26 says that the upper four bits hold the FCS length in 16-bit words; the lower 16 are the link type.
        if network & 0x0400_0000 != 0 {
            header.fcs_bytes = (network >> 28) * 2;
        }
        header.link_type = LinkType::from_pcap(network & 0xffff)
            .map_err(|error| CaptureError::new(path, 20, error.to_string(), LinkType::SUPPORTED))?;
        Ok(header)
    }

    /// Four 32-bit words in the file's byte order.
    #[inline]
    pub(crate) fn words(&self, bytes: &[u8; 16]) -> [u32; 4] {
        let (words, _) = bytes.as_chunks::<4>();
        let big_endian = self.big_endian;
        let word = |at: usize| {
            let word = words.get(at).copied().map_or(0, u32::from_le_bytes);
            if big_endian { word.swap_bytes() } else { word }
        };
        [word(0), word(1), word(2), word(3)]
    }
}
