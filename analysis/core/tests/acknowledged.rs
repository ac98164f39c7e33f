// SPDX-License-Identifier: Apache-2.0
//! Captures of ACKs only: the arrivals that they show of data on another path.

use crate::support::frames::{ACK, Frame, Pcap, SYN};

use std::io::Write;

use tempfile::NamedTempFile;
use weir_core::acknowledged::read_acknowledged;

/// Time, acknowledgment number, SACK blocks.
type Ack<'a> = (i64, u32, &'a [(u32, u32)]);

/// Time, sequence number and length of the bytes that each ACK is the first to acknowledge.
fn acknowledged(acks: &[Ack<'_>]) -> Vec<(i64, u32, u32)> {
    acknowledged_in(&capture(acks))
}

fn capture(acks: &[Ack<'_>]) -> Vec<u8> {
    let mut pcap = Pcap::default();
    for (time_ns, ack, sack) in acks {
        let frame = Frame {
            seq: 1,
            ack: *ack,
            flags: ACK,
            sack: sack.to_vec(),
            ..Frame::default()
        };
        pcap.frame(*time_ns, &frame);
    }
    pcap.0
}

fn acknowledged_in(bytes: &[u8]) -> Vec<(i64, u32, u32)> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let found = read_acknowledged(file.path()).expect("a capture");
    assert!(
        found
            .iter()
            .all(|row| row.key.to_string() == "10.0.0.2:5001 > 10.0.0.1:40000 protocol 6")
    );
    found
        .iter()
        .map(|row| (row.time_ns, row.seq, row.length))
        .collect()
}

#[test]
fn an_ack_shows_what_arrived_since_the_last_one() {
    let found = acknowledged(&[(1, 1, &[]), (2, 101, &[]), (3, 101, &[]), (4, 301, &[])]);
    assert_eq!(found, [(2, 1, 100), (4, 101, 200)]);
}

#[test]
fn a_hole_is_filled_when_the_ack_passes_it() {
    // 101 to 201 is missing; it arrives last, and the ACK jumps over what was selectively acknowledged.
    let found = acknowledged(&[
        (1, 101, &[]),
        (2, 101, &[(201, 301)]),
        (3, 101, &[(201, 401)]),
        (4, 401, &[]),
    ]);
    assert_eq!(found, [(2, 201, 100), (3, 301, 100), (4, 101, 100)]);
}

#[test]
fn blocks_that_are_repeated_or_duplicates_show_nothing_new() {
    let found = acknowledged(&[
        (1, 101, &[]),
        (2, 101, &[(301, 401), (201, 251)]),
        (3, 101, &[(301, 401), (201, 251)]),
        (4, 101, &[(1, 101), (301, 401), (201, 251)]),
    ]);
    assert_eq!(found, [(2, 301, 100), (2, 201, 50)]);
}

#[test]
fn numbers_wrap() {
    let found = acknowledged(&[
        (1, u32::MAX - 99, &[]),
        (2, u32::MAX - 99, &[(100, 200)]),
        (3, 200, &[]),
    ]);
    assert_eq!(found, [(2, 100, 100), (3, u32::MAX - 99, 200)]);
}

#[test]
fn a_capture_that_ends_inside_a_record_shows_what_came_before() {
    let acks: [Ack<'_>; 3] = [(1, 1, &[]), (2, 101, &[]), (3, 301, &[])];
    let last_record = capture(&acks[..2]).len();
    let whole = capture(&acks);
    for bytes in [last_record + 7, whole.len() - 1] {
        assert_eq!(acknowledged_in(&whole[..bytes]), [(2, 1, 100)]);
    }
}

/// Two connections on the same ports; each SYN comes twice, and the first connection ends with a hole.
fn twice(syn_flags: u8, second_ack: u32) -> Vec<(i64, u32, u32)> {
    let mut pcap = Pcap::default();
    let mut push = |time_ns, seq, ack, flags, sack: &[(u32, u32)]| {
        let frame = Frame {
            seq,
            ack,
            flags,
            sack: sack.to_vec(),
            ..Frame::default()
        };
        pcap.frame(time_ns, &frame);
    };
    for (start, syn, ack) in [(0, 7, 1001), (10, 900_000_000, second_ack)] {
        for at in [start, start + 1] {
            push(
                at,
                syn,
                if syn_flags & ACK == 0 { 0 } else { ack },
                syn_flags,
                &[],
            );
        }
        push(start + 2, syn + 1, ack, ACK, &[]);
        push(start + 3, syn + 1, ack + 100, ACK, &[]);
        push(
            start + 4,
            syn + 1,
            ack + 100,
            ACK,
            &[(ack + 200, ack + 300)],
        );
    }
    acknowledged_in(&pcap.0)
}

#[test]
fn a_later_connection_on_the_same_ports_continues_the_numbers_of_the_one_before() {
    for syn_flags in [SYN, SYN | ACK] {
        for second_ack in [5, 1051, 3_000_000_000] {
            assert_eq!(
                twice(syn_flags, second_ack),
                [
                    (3, 1001, 100),
                    (4, 1201, 100),
                    (13, 1301, 100),
                    (14, 1501, 100)
                ],
            );
        }
    }
}

#[test]
fn a_syn_without_ack_acknowledges_nothing() {
    let mut pcap = Pcap::default();
    let syn = Frame {
        flags: SYN,
        ack: 7,
        ..Frame::default()
    };
    pcap.frame(1, &syn);
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap.0).expect("room for it");
    assert!(
        read_acknowledged(file.path())
            .expect("a capture")
            .is_empty()
    );
}
