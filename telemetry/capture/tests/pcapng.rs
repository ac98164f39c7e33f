// SPDX-License-Identifier: Apache-2.0
//! pcapng files: sections, interfaces, refused files, garbage. pcap files are tested in weir-core's `tests/captures.rs`.

use std::path::Path;

use proptest::prelude::*;
use weir_capture::{CaptureError, CaptureReader};
use weir_packet::LinkType;

/// A pcapng file in one byte order.
struct File {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl File {
    fn new(big_endian: bool) -> Self {
        let mut file = Self {
            big_endian,
            bytes: Vec::new(),
        };
        file.section();
        file
    }

    fn half(&self, value: u16) -> [u8; 2] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn word(&self, value: u32) -> [u8; 4] {
        if self.big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let length = self.word((12 + padded) as u32);
        self.bytes.extend(self.word(kind));
        self.bytes.extend(length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(length);
    }

    fn section(&mut self) {
        let mut body = self.word(0x1a2b_3c4d).to_vec();
        body.extend(self.half(1));
        body.extend(self.half(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    /// `options` are (code, value).
    fn interface(&mut self, link_type: u16, options: &[(u16, &[u8])]) {
        let mut body = self.half(link_type).to_vec();
        body.extend([0; 2]);
        body.extend(self.word(0));
        for (code, value) in options {
            body.extend(self.half(*code));
            body.extend(self.half(value.len() as u16));
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            body.extend([0; 4]);
        }
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, ticks: u64, wire_length: u32, frame: &[u8]) {
        let mut body = Vec::new();
        for value in [
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            frame.len() as u32,
            wire_length,
        ] {
            body.extend(self.word(value));
        }
        body.extend(frame);
        self.block(6, &body);
    }
}

/// Time, link type, length on the wire and bytes of each record, and whether the file was cut.
type Found = (Vec<(i64, LinkType, u32, Vec<u8>)>, bool);

fn read(bytes: &[u8]) -> Result<Found, CaptureError> {
    let mut reader = CaptureReader::new(bytes, Path::new("memory"))?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push((
            record.time_ns,
            record.link_type,
            record.wire_length,
            record.bytes.to_vec(),
        ));
    }
    Ok((records, reader.truncated()))
}

#[test]
fn both_byte_orders_and_interfaces_with_clocks_of_their_own_are_read() {
    for big_endian in [false, true] {
        let mut file = File::new(big_endian);
        // Without options: microseconds. Then nanoseconds (option 9) and 2^-10 s; an offset of 100 s (option 14).
        file.interface(1, &[]);
        let offset: [u8; 8] = if big_endian {
            100_i64.to_be_bytes()
        } else {
            100_i64.to_le_bytes()
        };
        file.interface(101, &[(9, &[9]), (14, &offset)]);
        file.interface(1, &[(9, &[0x80 | 10]), (13, &[4])]);
        file.packet(0, 5_000_001, 64, b"first");
        // An interface statistics block without drop counts.
        file.block(5, &[0; 12]);
        file.packet(1, 1_600_000_000_000_000_007, 8, b"second..");
        file.packet(2, 512, 68, b"third");
        let expected = vec![
            (5_000_001_000, LinkType::Ethernet, 64, b"first".to_vec()),
            (
                1_600_000_100_000_000_007,
                LinkType::RawIp,
                8,
                b"second..".to_vec(),
            ),
            (500_000_000, LinkType::Ethernet, 64, b"third".to_vec()),
        ];
        assert_eq!(read(&file.bytes).expect("a capture"), (expected, false));
    }
}

#[test]
fn a_new_section_begins_with_interfaces_of_its_own() {
    let mut file = File::new(false);
    file.interface(1, &[]);
    file.packet(0, 0, 1, b"a");
    let first = file.bytes;
    let mut second = File::new(true);
    second.interface(101, &[]);
    second.packet(0, 0, 1, b"b");
    let both = [first, second.bytes].concat();
    let (records, _) = read(&both).expect("a capture");
    assert_eq!(records[1].1, LinkType::RawIp);

    let mut without = File::new(false);
    without.packet(0, 0, 1, b"c");
    let error = read(&without.bytes).expect_err("no interface");
    assert_eq!(error.offset, Some(28));
    assert!(error.problem.contains("interface 0"), "{error}");
}

#[test]
fn a_cut_at_the_end_keeps_what_is_whole_and_says_so() {
    let mut file = File::new(false);
    file.interface(1, &[]);
    file.packet(0, 1, 1, b"a");
    let whole = file.bytes.len();
    file.packet(0, 2, 5, b"abcde");
    for length in whole + 1..file.bytes.len() {
        let (records, cut) = read(&file.bytes[..length]).expect("a capture");
        assert_eq!((records.len(), cut), (1, true), "{length} bytes");
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_byte() {
    let mut damaged = File::new(false);
    damaged.bytes.extend([0xff; 64]);
    let error = read(&damaged.bytes).expect_err("damaged");
    assert_eq!(error.offset, Some(28));
    assert!(error.to_string().contains("damaged"), "{error}");

    let mut obsolete = File::new(false);
    obsolete.interface(1, &[]);
    obsolete.block(2, &[0; 32]);
    let error = read(&obsolete.bytes).expect_err("obsolete");
    assert!(error.problem.contains("obsolete Packet Block"), "{error}");
    let mut nowhere = File::new(false);
    nowhere.block(3, &[0; 32]);
    let error = read(&nowhere.bytes).expect_err("no interface");
    assert!(error.problem.contains("describes 0"), "{error}");
    let mut usb = File::new(false);
    usb.interface(189, &[]);
    usb.packet(0, 1, 60, b"urb");
    let error = read(&usb.bytes).expect_err("USB").to_string();
    let named = "link type 189 (USB, Linux) is not supported; valid is 0 or 108 (BSD loopback), 1 (Ethernet), ";
    assert!(error.contains(named), "{error}");
}

#[test]
fn an_interface_without_packets_may_have_any_link_type() {
    let mut file = File::new(false);
    file.interface(189, &[]);
    file.interface(1, &[]);
    file.packet(1, 3, 60, b"frame");
    let (records, _) = read(&file.bytes).expect("only Ethernet has a packet");
    assert_eq!(records, [(3000, LinkType::Ethernet, 60, b"frame".to_vec())]);
    file.packet(0, 4, 60, b"urb");
    let error = read(&file.bytes).expect_err("USB").to_string();
    assert!(error.contains("link type 189 (USB, Linux)"), "{error}");
}

#[test]
fn times_that_no_clock_shows_are_within_what_can_be_reckoned_with() {
    let mut file = File::new(false);
    file.interface(1, &[]);
    file.packet(0, u64::MAX, 60, b"late");
    file.interface(1, &[(14, &(-1_i64 << 40).to_le_bytes())]);
    file.packet(1, 5, 60, b"early");
    let mut reader = CaptureReader::new(file.bytes.as_slice(), Path::new("a")).expect("a capture");
    for expected in [(1 << 62) - 1, 0] {
        let record = reader.next_record().expect("sound").expect("a record");
        assert_eq!(record.time_ns, expected);
    }
}

#[test]
fn simple_packet_blocks_have_the_time_of_the_packet_before_and_are_counted() {
    for big_endian in [false, true] {
        let mut file = File::new(big_endian);
        file.interface(1, &[]);
        file.packet(0, 3, 60, b"timed");
        // Five bytes of payload, three of padding.
        let mut body = file.word(5).to_vec();
        body.extend(b"plain");
        file.block(3, &body);
        let mut reader =
            CaptureReader::new(file.bytes.as_slice(), Path::new("a")).expect("a capture");
        reader.next_record().expect("sound");
        let record = reader.next_record().expect("sound").expect("a record");
        let seen = (record.time_ns, record.wire_length, record.bytes);
        assert_eq!(seen, (3000, 5, b"plain".as_slice()));
        assert_eq!(reader.untimed(), 1);
    }
}

#[test]
fn a_simple_packet_is_as_long_as_the_snap_length_allows() {
    let mut file = File::new(false);
    let mut interface = file.half(1).to_vec();
    interface.extend([0, 0]);
    interface.extend(file.word(6));
    file.block(1, &interface);
    let mut body = file.word(1500).to_vec();
    body.extend(b"123456");
    file.block(3, &body);
    let mut reader = CaptureReader::new(file.bytes.as_slice(), Path::new("a")).expect("a capture");
    let record = reader.next_record().expect("sound").expect("a record");
    assert_eq!(
        (record.wire_length, record.bytes),
        (1500, b"123456".as_slice())
    );
}

#[test]
fn packets_that_the_capture_lost_are_those_of_its_newest_statistics() {
    for big_endian in [false, true] {
        let mut file = File::new(big_endian);
        let long = |value: u64| {
            if big_endian {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        for (interface, if_drop, os_drop) in [(0, 1, 1), (0, 3, 4), (1, 5, 0), (7, 100, 100)] {
            if interface == 0 && if_drop == 1 {
                file.interface(1, &[]);
                file.interface(1, &[]);
            }
            let mut body = file.word(interface).to_vec();
            body.extend([0; 8]);
            for (code, value) in [(5, if_drop), (7, os_drop)] {
                body.extend(file.half(code));
                body.extend(file.half(8));
                body.extend(long(value));
            }
            body.extend([0; 4]);
            file.block(5, &body);
        }
        file.section();
        let mut reader =
            CaptureReader::new(file.bytes.as_slice(), Path::new("a")).expect("a capture");
        assert!(reader.next_record().expect("sound").is_none());
        assert_eq!(reader.dropped(), 12, "3 + 4 and 5; interface 7 is unknown");
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(at in 0_usize..200, byte: u8, tail in proptest::collection::vec(any::<u8>(), 0..100)) {
        let mut file = File::new(byte % 2 == 0);
        file.interface(1, &[(9, &[9])]);
        file.packet(0, 1, 60, &[7; 60]);
        let at = at % file.bytes.len();
        file.bytes[at] = byte;
        file.bytes.extend(tail);
        let _ = read(&file.bytes);
    }
}
