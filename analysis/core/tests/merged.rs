// SPDX-License-Identifier: Apache-2.0
//! Captures on a host whose card cuts what it sends (TSO), or whose kernel joins what arrives (GRO).

use std::io::Write;

use tempfile::NamedTempFile;
use weir_core::losses::{Losses, read_losses};

use crate::support::frames::{ACK, FIN, Frame, Pcap, SYN};

const SEGMENT: u16 = 1448;
const START: u32 = u32::MAX - 5000;
const MS: i64 = 1_000_000;

fn read(pcap: &Pcap) -> Losses {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&pcap.0).expect("room for it");
    read_losses(file.path()).expect("a capture")
}

fn after(segments: u16) -> u32 {
    START.wrapping_add(1 + u32::from(segments) * u32::from(SEGMENT))
}

fn handshake(mss: Option<u16>) -> Pcap {
    let mut pcap = Pcap::default();
    let syn = Frame {
        seq: START,
        flags: SYN,
        timestamps: Some((1, 0)),
        sack_permitted: true,
        mss,
        ..Frame::default()
    };
    pcap.frame(0, &syn);
    let answer = Frame {
        to_client: true,
        ack: after(0),
        flags: SYN | ACK,
        seq: 0,
        ..syn
    };
    pcap.frame(20 * MS, &answer);
    pcap
}

fn data(first: u16, payload: u16, flags: u8, sent_ms: u16) -> Frame {
    Frame {
        ip_id: sent_ms * 10 + first,
        seq: after(first),
        ack: 1,
        flags: ACK | flags,
        payload,
        timestamps: Some((u32::from(sent_ms), 1)),
        ..Frame::default()
    }
}

fn acknowledged(segments: u16, sack: &[(u16, u16)], echoed: u32) -> Frame {
    Frame {
        to_client: true,
        seq: 1,
        ack: after(segments),
        flags: ACK,
        timestamps: Some((50, echoed)),
        sack: sack
            .iter()
            .map(|&(from, to)| (after(from), after(to)))
            .collect(),
        ..Frame::default()
    }
}

/// Ten segments and a rest in one frame, of which the policer dropped the fourth, the fifth and the rest.
#[test]
fn segments_of_one_frame_are_lost_each_for_itself() {
    let mut pcap = handshake(Some(1460));
    pcap.frame(40 * MS, &data(0, 10 * SEGMENT + 100, FIN, 40));
    pcap.frame(60 * MS, &acknowledged(3, &[(5, 10)], 40));
    pcap.frame(61 * MS, &data(3, 2 * SEGMENT, 0, 61));
    pcap.frame(81 * MS, &acknowledged(10, &[], 61));
    pcap.frame(90 * MS, &data(10, 100, FIN, 90));
    let mut last = acknowledged(10, &[], 90);
    last.ack = last.ack.wrapping_add(101);
    pcap.frame(110 * MS, &last);
    let found = read(&pcap);
    let [flow, _] = &found.flows[..] else {
        panic!("two directions")
    };
    assert_eq!(flow.stats.packets, 1 + 11 + 2 + 1);
    assert_eq!(flow.stats.payload_bytes, 10 * 1448 + 100 + 2 * 1448 + 100);
    // Ten full frames, twelve in all, two of 100 bytes, and the SYN with 20 bytes of options.
    assert_eq!(flow.stats.bytes, 12 * 1514 + 2 * 166 + 74);
    let lost: Vec<_> = (found.losses.iter())
        .map(|(_, loss)| (loss.sent_ns / MS, loss.seq, loss.length))
        .collect();
    let full = u32::from(SEGMENT);
    let expected = [
        (40, after(3), full),
        (40, after(4), full),
        (40, after(10), 100),
    ];
    assert_eq!(lost, expected);
    assert_eq!((found.records, found.notes.merged), (8, 2));
}

#[test]
fn segments_as_long_as_the_hosts_agreed_on_are_whole() {
    for mss in [8960, 65_495] {
        let mut pcap = handshake(Some(mss));
        pcap.frame(40 * MS, &data(0, mss - 12, 0, 40));
        let found = read(&pcap);
        assert_eq!((found.flows[0].stats.packets, found.notes.merged), (2, 0));
    }
}

#[test]
fn without_a_handshake_only_what_no_ethernet_carries_is_several_segments() {
    for (payload, packets) in [(SEGMENT, 1), (9000, 1), (10 * SEGMENT, 10)] {
        let mut pcap = Pcap::default();
        pcap.frame(0, &data(0, payload, 0, 0));
        assert_eq!(read(&pcap).flows[0].stats.packets, packets, "{payload}");
    }
}

#[test]
fn a_handshake_with_a_tiny_mss_does_not_make_a_segment_of_each_byte() {
    let mut pcap = handshake(Some(1));
    pcap.frame(40 * MS, &data(0, 60_000, 0, 40));
    let found = read(&pcap);
    // 48 bytes less the 12 of the timestamps.
    assert_eq!(found.flows[0].stats.packets, 1 + 60_000_u64.div_ceil(36));
}
