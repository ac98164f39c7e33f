// SPDX-License-Identifier: Apache-2.0
//! v1model's hash algorithms, and the hash of the tables.

use std::sync::LazyLock;

use crc::{Algorithm, CRC_16_ARC, CRC_16_IBM_3740, CRC_32_ISO_HDLC, Crc, Table};

use crate::ir::Algo;

/// Value of `algo` over `bytes`; of a custom CRC, with the parameters that it begins with.
pub(crate) fn compute(algo: Algo, bytes: &[u8]) -> u64 {
    match algo {
        Algo::Csum16 => u64::from(internet_checksum(bytes)),
        Algo::Crc16 | Algo::Crc16Custom => u64::from(CRC16.checksum(bytes)),
        Algo::Crc16Ccitt => u64::from(CRC16_CCITT.checksum(bytes)),
        Algo::Crc32 | Algo::Crc32Custom => u64::from(CRC32.checksum(bytes)),
        Algo::Identity => bytes
            .iter()
            .take(8)
            .fold(0, |sum, b| (sum << 8) | u64::from(*b)),
        Algo::Xor16 => words16(bytes).fold(0, |sum, w| sum ^ u64::from(w)),
        // Not a function of the bytes; callers that have the generator use that.
        Algo::Random => 0,
    }
}

/// Zero bytes before the input of [`compute_after_lead`].
pub(crate) const LEAD_BYTES: usize = CHUNK_BYTES;

/// As [`compute`] over the bytes after the first [`LEAD_BYTES`] of `buffer`, which must be zero. The buffer's contents
/// are unspecified afterwards.
pub(crate) fn compute_after_lead(algo: Algo, buffer: &mut [u8]) -> u64 {
    match algo {
        Algo::Crc16 => u64::from(CRC16_FROM_ZERO.checksum(chunks(buffer, 0))),
        Algo::Crc16Ccitt if buffer.len() >= LEAD_BYTES + 2 => {
            u64::from(CRC16_CCITT_FROM_ZERO.checksum(chunks(buffer, 2)))
        }
        Algo::Crc32 if buffer.len() >= LEAD_BYTES + 4 => {
            u64::from(CRC32_FROM_ZERO.checksum(chunks(buffer, 4)))
        }
        _ => compute(algo, buffer.get(LEAD_BYTES..).unwrap_or_default()),
    }
}

/// Extends the input to whole chunks with zeros of the lead, and inverts its first `inverted` bytes.
///
/// A CRC that starts from zero stays zero while its input is zero, so leading zeros change nothing. Starting from all
/// ones is the same as starting from zero with the first bits of the input inverted.
#[inline(always)]
fn chunks(buffer: &mut [u8], inverted: usize) -> &[u8] {
    for byte in buffer.iter_mut().skip(LEAD_BYTES).take(inverted) {
        *byte = !*byte;
    }
    let start = match buffer.len() % CHUNK_BYTES {
        0 => LEAD_BYTES,
        part => part,
    };
    buffer.get(start..).unwrap_or_default()
}

/// Big-endian 16-bit words; an odd last byte is the high half of its word.
fn words16(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes
        .chunks(2)
        .map(|pair| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// RFC 1071.
pub(crate) fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u64;
    let mut add = |word: u64| sum += (word >> 32) + (word & 0xffff_ffff);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        add(u64::from_be_bytes(*word));
    }
    // Trailing zeros add nothing.
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    add(u64::from_be_bytes(last));
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// CRC-16/ARC: polynomial 0x8005, reflected, initial value 0.
static CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
/// CRC-16/CCITT-FALSE: polynomial 0x1021, initial value 0xffff.
static CRC16_CCITT: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);
/// CRC-32 of IEEE 802.3.
static CRC32: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Bytes per step of the following tables.
const CHUNK_BYTES: usize = 16;
/// The same algorithms from initial value zero, by chunks.
static CRC16_FROM_ZERO: Crc<u16, Table<CHUNK_BYTES>> =
    Crc::<u16, Table<CHUNK_BYTES>>::new(&CRC_16_ARC);
static CRC16_CCITT_FROM_ZERO: Crc<u16, Table<CHUNK_BYTES>> =
    Crc::<u16, Table<CHUNK_BYTES>>::new(&Algorithm {
        init: 0,
        ..CRC_16_IBM_3740
    });
static CRC32_FROM_ZERO: Crc<u32, Table<CHUNK_BYTES>> =
    Crc::<u32, Table<CHUNK_BYTES>>::new(&Algorithm {
        init: 0,
        ..CRC_32_ISO_HDLC
    });

/// The longest input of which [`contributions`] has all bytes.
pub(crate) const SHORT_BYTES: usize = 16;

/// `[k][b]`: the contribution to a CRC of a byte `b` before the last `k` bytes.
pub(crate) type Contributions = [[u32; 256]; SHORT_BYTES];

/// The table of a CRC by bytes; None for other algorithms. A CRC is linear except for its initial value, so the CRC of an
/// input is that of equally many zeros XOR the contribution of each byte.
pub(crate) fn contributions(algo: Algo) -> Option<&'static Contributions> {
    static OF_CRC16: LazyLock<Box<Contributions>> = LazyLock::new(|| all_of(Algo::Crc16));
    static OF_CRC16_CCITT: LazyLock<Box<Contributions>> =
        LazyLock::new(|| all_of(Algo::Crc16Ccitt));
    static OF_CRC32: LazyLock<Box<Contributions>> = LazyLock::new(|| all_of(Algo::Crc32));
    match algo {
        Algo::Crc16 => Some(&OF_CRC16),
        Algo::Crc16Ccitt => Some(&OF_CRC16_CCITT),
        Algo::Crc32 => Some(&OF_CRC32),
        Algo::Crc16Custom
        | Algo::Crc32Custom
        | Algo::Csum16
        | Algo::Identity
        | Algo::Xor16
        | Algo::Random => None,
    }
}

fn all_of(algo: Algo) -> Box<Contributions> {
    let mut all = Box::new([[0; 256]; SHORT_BYTES]);
    for (after, table) in all.iter_mut().enumerate() {
        let mut input = vec![0; after + 1];
        let zeros = compute(algo, &input);
        for (byte, entry) in (0..=u8::MAX).zip(table) {
            input[0] = byte;
            *entry = u32::try_from(compute(algo, &input) ^ zeros).unwrap_or_default();
        }
    }
    all
}

/// Hash of a packed table key of `len` words, which `word` gives by number: folded multiplication of two words at a
/// time, seeded.
#[inline(always)]
pub(crate) fn key_hash(seed: u64, len: usize, word: impl Fn(usize) -> u64) -> u64 {
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are folded")]
        let folded = (product as u64) ^ ((product >> 64) as u64);
        folded
    };
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut at = 0;
    while at + 1 < len {
        state = fold(word(at) ^ state, word(at + 1) ^ 0xa076_1d64_78bd_642f);
        at += 2;
    }
    if at < len {
        state = fold(word(at) ^ state, 0xd6e8_feb8_6659_fd93);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crcs_have_the_check_values_of_the_catalogue() {
        // "123456789" is the check input of the CRC catalogue (reveng.sourceforge.io).
        assert_eq!(CRC16.checksum(b"123456789"), 0xbb3d);
        assert_eq!(CRC16_CCITT.checksum(b"123456789"), 0x29b1);
        assert_eq!(CRC32.checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn internet_checksum_matches_the_example_of_rfc_1071() {
        // RFC 1071 section 3: the sum of these words is 0xddf2.
        assert_eq!(
            internet_checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        // By hand: 0x0102 + 0x0300.
        assert_eq!(internet_checksum(&[1, 2, 3]), !0x0402);
    }

    proptest! {
        #[test]
        fn a_lead_of_zeros_changes_no_hash(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            use Algo::{Crc16, Crc16Ccitt, Crc32, Csum16, Identity, Xor16};
            for algo in [Crc16, Crc16Ccitt, Crc32, Csum16, Identity, Xor16] {
                let mut buffer = vec![0; LEAD_BYTES];
                buffer.extend(&bytes);
                prop_assert_eq!(compute_after_lead(algo, &mut buffer), compute(algo, &bytes), "{:?}", algo);
            }
        }

        #[test]
        fn a_crc_is_the_sum_of_what_its_bytes_contribute(
            bytes in prop::collection::vec(any::<u8>(), 0..=SHORT_BYTES)
        ) {
            for algo in [Algo::Crc16, Algo::Crc16Ccitt, Algo::Crc32] {
                let contributions = contributions(algo).unwrap();
                let zeros = compute(algo, &vec![0; bytes.len()]);
                let sum = bytes.iter().rev().zip(contributions).fold(zeros, |sum, (byte, table)| {
                    sum ^ u64::from(table[usize::from(*byte)])
                });
                prop_assert_eq!(sum, compute(algo, &bytes), "{:?}", algo);
            }
        }

        #[test]
        fn internet_checksum_is_the_sum_of_16_bit_words(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let sum = words16(&bytes).fold(0_u32, |sum, word| {
                let sum = sum + u32::from(word);
                (sum & 0xffff) + (sum >> 16)
            });
            prop_assert_eq!(u32::from(!internet_checksum(&bytes)), sum);
        }
    }

    #[test]
    fn identity_and_xor16_fold_in_wire_order() {
        assert_eq!(compute(Algo::Identity, &[1, 2, 3]), 0x01_0203);
        assert_eq!(
            compute(Algo::Xor16, &[0x12, 0x34, 0xff, 0x00, 0x0f]),
            0x1234 ^ 0xff00 ^ 0x0f00
        );
    }
}
