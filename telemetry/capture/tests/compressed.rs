// SPDX-License-Identifier: Apache-2.0
//! Compressed captures: each format, several streams in a file, cut and damaged files, the memory that a file demands.

use std::io::{Cursor, Write};
use std::path::Path;

use weir_capture::{CaptureError, CaptureReader, Source};

/// A pcap file with `records` records of 100 bytes.
fn capture(records: u32) -> Vec<u8> {
    let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for word in [262_144_u32, 1] {
        bytes.extend(word.to_le_bytes());
    }
    let mut noise = 0x2545_f491_4f6c_dd1d_u64;
    for number in 0..records {
        for word in [number, 0, 100, 100] {
            bytes.extend(word.to_le_bytes());
        }
        // Incompressible, because decoders return nothing before they have read a whole chunk.
        bytes.extend((0..100).map(|_| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        }));
    }
    bytes
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn zstandard(plain: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("a level that exists");
    // As the zstd program does.
    encoder
        .include_checksum(true)
        .expect("an option that exists");
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn bzip2(plain: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

fn xz(plain: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).expect("sound options");
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

type Pack = fn(&[u8]) -> Vec<u8>;

const FORMATS: [(&str, Pack); 4] = [
    ("gzip", gzip),
    ("xz", xz),
    ("Zstandard", zstandard),
    ("bzip2", bzip2),
];

/// Records, and whether the file was cut.
fn read(bytes: Vec<u8>) -> Result<(usize, bool), CaptureError> {
    let source = Source::new(Cursor::new(bytes)).expect("memory is readable");
    let mut reader = CaptureReader::new(source, Path::new("a.pcap"))?;
    let mut records = 0;
    while reader.next_record()?.is_some() {
        records += 1;
    }
    Ok((records, reader.truncated()))
}

#[test]
fn every_format_reads_as_the_plain_file() {
    assert_eq!(read(capture(500)).expect("plain"), (500, false));
    for (name, pack) in FORMATS {
        assert_eq!(
            read(pack(&capture(500))).expect(name),
            (500, false),
            "{name}"
        );
    }
}

#[test]
fn streams_one_behind_the_other_are_one_file() {
    let plain = capture(500);
    let (first, second) = plain.split_at(20_001);
    for (name, pack) in FORMATS {
        let both = [pack(first), pack(second)].concat();
        assert_eq!(read(both).expect(name), (500, false), "{name}");
    }
}

#[test]
fn a_cut_file_gives_what_is_whole_and_says_so() {
    for (name, pack) in FORMATS {
        // bzip2 packs 100 kB at a time, so there must be more than that.
        let packed = pack(&capture(3000));
        let (records, cut) = read(packed[..packed.len() / 2].to_vec()).expect(name);
        assert!(cut, "{name}");
        assert!((1..3000).contains(&records), "{name}: {records} records");
    }
}

#[test]
fn damaged_data_are_an_error() {
    for (name, pack) in FORMATS {
        let mut packed = pack(&capture(3000));
        let middle = packed.len() / 2;
        for byte in &mut packed[middle..middle + 64] {
            *byte ^= 0x5a;
        }
        let error = read(packed).expect_err(name);
        // gzip's checksum is at its end: the damage shows first as bytes that are not a capture.
        let expected = format!("cannot be decompressed as {name}");
        let damaged = error.problem.starts_with(&expected) || error.valid.contains("damaged");
        assert!(damaged, "{name}: {error}");
    }
}

#[test]
fn a_format_that_is_not_read_is_named() {
    // An LZ4 frame, as Wireshark writes captures.
    let error = read(b"\x04\x22\x4d\x18\x64\x40\xa7\x00".to_vec()).expect_err("not read");
    assert_eq!(error.problem, "this is an LZ4 file (decompress it first)");
}

#[test]
fn a_file_that_asks_for_more_memory_than_it_should_is_refused() {
    // Written without an encoder of that size: only the header is read.
    let mut packed = xz(&capture(1));
    let dictionary_at = 12 + 4;
    assert_eq!(
        packed[dictionary_at - 2..dictionary_at],
        [0x21, 1],
        "the filter LZMA2, one byte of properties"
    );
    packed[dictionary_at] = 40;
    let crc = crc32(&packed[12..20]);
    packed[20..24].copy_from_slice(&crc.to_le_bytes());
    let error = read(packed).expect_err("4 GiB");
    assert!(error.problem.contains("xz"), "{error}");
}

/// CRC-32 of IEEE 802.3.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
