// SPDX-License-Identifier: Apache-2.0
//! Capture files of every kind: all variants of pcap, cut files, foreign formats, garbage.

use crate::support;

use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use support::frames::{Frame, Pcap};
use support::simulator::{Config, Simulator};
use tempfile::NamedTempFile;
use weir_capture::{CaptureError, CaptureReader};
use weir_core::losses::{Losses, read_losses};

fn read(bytes: &[u8]) -> Result<Losses, CaptureError> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    read_losses(file.path())
}

fn problem(bytes: &[u8]) -> (Option<u64>, String) {
    let error = read(bytes).expect_err("this is no capture");
    (error.offset, error.problem)
}

/// A pcap with one TCP frame captured at 1.000000005 s (ns) or 1.000005 s (µs), in the given byte order.
fn one_frame(big_endian: bool, magic: u32, link_type: u32, link_header: &[u8]) -> Vec<u8> {
    let word = |value: u32| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let half = |value: u16| {
        if big_endian {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    };
    let frame = Frame {
        to_client: true,
        payload: 1000,
        ..Frame::default()
    };
    let (ethernet, wire) = frame.bytes();
    let packet: Vec<u8> = link_header.iter().chain(&ethernet[14..]).copied().collect();
    let mut bytes = word(magic).to_vec();
    bytes.extend(half(2));
    bytes.extend(half(4));
    for value in [0, 0, 262_144, link_type] {
        bytes.extend(word(value));
    }
    let wire = wire - 14 + link_header.len() as u32;
    for value in [1, 5, packet.len() as u32, wire] {
        bytes.extend(word(value));
    }
    bytes.extend(packet);
    bytes
}

const ETHERNET: [u8; 14] = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 8, 0];

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    for (magic, time_ns) in [(0xa1b2_c3d4, 1_000_005_000), (0xa1b2_3c4d, 1_000_000_005)] {
        for big_endian in [false, true] {
            let losses = read(&one_frame(big_endian, magic, 1, &ETHERNET)).expect("a capture");
            let stats = losses.flows[0].stats;
            assert_eq!(
                (stats.packets, stats.bytes, stats.payload_bytes),
                (1, 1054, 1000)
            );
            assert_eq!(
                stats.first_ns, time_ns,
                "magic {magic:x}, big endian {big_endian}"
            );
        }
    }
}

#[test]
fn every_supported_link_layer_is_read() {
    let cooked_v1 = [0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 1, 0, 0, 8, 0];
    let cooked_v2 = [8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 4, 6, 0, 0, 0, 0, 0, 1, 0, 0];
    let tagged = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0x81, 0, 0, 7, 8, 0];
    let layers: [(u32, &[u8]); 5] = [
        (1, &ETHERNET),
        (1, &tagged),
        (101, &[]),
        (113, &cooked_v1),
        (276, &cooked_v2),
    ];
    for (link_type, header) in layers {
        let losses = read(&one_frame(false, 0xa1b2_c3d4, link_type, header)).expect("a capture");
        assert_eq!(losses.flows.len(), 1, "link type {link_type}");
        assert_eq!(losses.flows[0].key.src_port, 5001, "link type {link_type}");
        assert_eq!(losses.not_ip, 0);
    }
}

#[test]
fn an_fcs_counted_by_the_capture_is_not_part_of_the_frame() {
    // Bit 26 set, and two 16-bit words of FCS.
    let losses = read(&one_frame(false, 0xa1b2_c3d4, 0x2400_0001, &ETHERNET)).expect("a capture");
    assert_eq!(losses.flows[0].stats.bytes, 1050);
}

#[test]
fn a_file_that_is_no_capture_is_named() {
    assert_eq!(problem(b""), (Some(0), "the file is empty".into()));
    assert!(problem(b"\x1f\x8b\x08 rest of it").1.contains("gzip"));
    assert!(problem(b"\xfd7zXZ\0 rest of it").1.contains("xz"));
    assert!(
        problem(b"\x28\xb5\x2f\xfd rest of it")
            .1
            .contains("Zstandard")
    );
    assert!(
        problem(b"GIF89a and so on and so on")
            .1
            .contains("no capture")
    );
    assert!(problem(b"ab").1.contains("2 bytes"));
}

#[test]
fn an_error_says_path_offset_and_what_would_be_valid() {
    let error = read_losses(Path::new("/nonexistent/x.pcap")).expect_err("no such file");
    let text = error.to_string();
    let valid = "valid is a readable capture";
    let expected = format!("/nonexistent/x.pcap: No such file or directory; {valid}");
    assert_eq!(text, expected);
    let text = read(&one_frame(false, 0xa1b2_c3d4, 147, &ETHERNET))
        .expect_err("USER0")
        .to_string();
    assert!(
        text.contains("byte 20") && text.contains("147") && text.contains("Ethernet"),
        "{text}"
    );
}

#[test]
fn a_header_that_is_cut_is_an_error() {
    let whole = one_frame(false, 0xa1b2_c3d4, 1, &ETHERNET);
    let (offset, problem) = problem(&whole[..20]);
    assert_eq!(offset, Some(20));
    assert!(problem.contains("20 of 24 bytes"), "{problem}");
}

#[test]
fn a_cut_at_the_end_keeps_what_is_whole_and_says_so() {
    let mut pcap = Pcap::default();
    for port in 0..3 {
        pcap.frame(
            port,
            &Frame {
                ip_id: port as u16,
                payload: 10,
                ..Frame::default()
            },
        );
    }
    assert!(!read(&pcap.0).expect("whole").truncated);
    let record = (pcap.0.len() - 24) / 3;
    for cut in 1..record {
        let losses = read(&pcap.0[..pcap.0.len() - cut]).expect("a capture");
        assert_eq!(
            (losses.records, losses.truncated),
            (2, true),
            "{cut} bytes short"
        );
    }
    assert!(
        !read(&pcap.0[..24 + 2 * record])
            .expect("two whole records")
            .truncated
    );
    assert_eq!(read(&pcap.0[..24]).expect("an empty capture").records, 0);
}

#[test]
fn a_damaged_record_header_is_an_error_at_its_offset() {
    let mut pcap = Pcap::default();
    pcap.frame(0, &Frame::default());
    let offset = pcap.0.len();
    pcap.0.extend([0xff; 64]);
    assert_eq!(problem(&pcap.0).0, Some(offset as u64));
}

#[test]
fn records_across_the_buffers_edge_are_whole() {
    // More than two buffers of 4 MiB.
    let run = Simulator::run(Config {
        segments: 100_000,
        ..Config::default()
    });
    assert!(run.sender.0.len() > 9 << 20);
    let mut reader =
        CaptureReader::new(run.sender.0.as_slice(), Path::new("memory")).expect("a capture");
    let (mut at, mut records) = (24, 0);
    while let Some(record) = reader.next_record().expect("whole records") {
        at += 16 + record.bytes.len();
        assert_eq!(record.bytes, &run.sender.0[at - record.bytes.len()..at]);
        records += 1;
    }
    assert!(records > 150_000, "{records}");
    assert_eq!(at, run.sender.0.len());
}

#[test]
fn what_is_not_ip_is_counted() {
    let mut pcap = Pcap::default();
    let mut arp = vec![0xff; 12];
    arp.extend([8, 6]);
    arp.extend([0; 28]);
    pcap.add(0, &arp, 42);
    pcap.frame(1, &Frame::default());
    let losses = read(&pcap.0).expect("a capture");
    assert_eq!(
        (losses.records, losses.not_ip, losses.flows.len()),
        (2, 1, 1)
    );
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = read(&bytes);
        let mut file = Pcap::default().0;
        file.extend(&bytes);
        let _ = read(&file);
    }

    #[test]
    fn garbage_segments_never_panic(
        segments in proptest::collection::vec(
            (any::<bool>(), 0u32..6000, 0u32..6000, any::<u8>(), 0u16..3000, 0u32..50,
             proptest::collection::vec((0u32..6000, 0u32..6000), 0..4)),
            1..120),
        wide in any::<bool>(),
    ) {
        // Small numbers make the segments overlap, wide ones make them wrap.
        let scale = |value: u32| if wide { value.wrapping_mul(715_827) } else { value };
        let mut pcap = Pcap::default();
        for (number, (to_client, seq, ack, flags, payload, time, sack)) in (0i64..).zip(&segments) {
            let frame = Frame {
                to_client: *to_client,
                seq: scale(*seq),
                ack: scale(*ack),
                flags: *flags,
                payload: *payload,
                timestamps: (time % 2 == 0).then_some((*time, *time)),
                sack: sack.iter().map(|&(start, end)| (scale(start), scale(end))).collect(),
                ..Frame::default()
            };
            pcap.frame(number * 1_000_000 * i64::from(*time), &frame);
        }
        let losses = read(&pcap.0).expect("a well-formed file");
        prop_assert_eq!(losses.records, segments.len() as u64);
        let packets: u64 = losses.flows.iter().map(|flow| flow.stats.packets).sum();
        prop_assert_eq!(packets, segments.len() as u64);
        let lost: u64 = losses.flows.iter().map(|flow| flow.stats.losses + flow.stats.losses_before).sum();
        prop_assert_eq!(lost, losses.losses.len() as u64);
    }
}
