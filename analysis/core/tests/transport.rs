// SPDX-License-Identifier: Apache-2.0
//! The TCP segments and UDP datagrams of a capture: frames cut by a snap length, fragments, captures that are not whole.

use crate::support;

use std::io::Write;

use support::cut;
use support::frames::{ACK, CLIENT, CLIENT_PORT, Frame, Pcap, SERVER, SERVER_PORT, SYN};
use tempfile::NamedTempFile;
use weir_capture::CaptureError;
use weir_core::notes::Notes;
use weir_core::transport::{TcpNumbers, TransportPacket, TransportScan};
use weir_packet::{SackBlocks, Timestamps, protocol};

fn read(bytes: &[u8]) -> Result<Vec<TransportPacket>, CaptureError> {
    read_noting(bytes).map(|(found, _)| found)
}

fn read_noting(bytes: &[u8]) -> Result<(Vec<TransportPacket>, Notes), CaptureError> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let mut scan = TransportScan::open(file.path())?;
    let mut found = Vec::new();
    while scan.step(&mut found)? {}
    Ok((found, scan.notes()))
}

/// A UDP datagram of `datagram_bytes` payload bytes in an IPv4 packet that carries `ip_payload_bytes` of it; headers only.
fn datagram(datagram_bytes: u16, ip_payload_bytes: u16, flags_and_offset: u16) -> (Vec<u8>, u32) {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    let total = 20 + ip_payload_bytes;
    bytes.extend(total.to_be_bytes());
    bytes.extend([0, 9]);
    bytes.extend(flags_and_offset.to_be_bytes());
    bytes.extend([64, protocol::UDP, 0, 0]);
    bytes.extend(CLIENT);
    bytes.extend(SERVER);
    for field in [CLIENT_PORT, SERVER_PORT, datagram_bytes + 8, 0] {
        bytes.extend(field.to_be_bytes());
    }
    (bytes, 14 + u32::from(total))
}

fn talk() -> Pcap {
    let mut pcap = Pcap::default();
    let syn = Frame {
        seq: u32::MAX,
        flags: SYN,
        sack_permitted: true,
        ..Frame::default()
    };
    let data = Frame {
        to_client: true,
        seq: 7001,
        ack: 1,
        flags: ACK,
        payload: 1448,
        timestamps: Some((1, 2)),
        ..Frame::default()
    };
    pcap.frame(1_700_000_000_000_000_001, &syn);
    pcap.frame(1_700_000_000_123_456_789, &data);
    pcap
}

#[test]
fn a_segment_has_its_numbers_and_its_payload_as_sent() {
    // The frames hold headers only; the second time not even all TCP options.
    let timestamps = Timestamps {
        value: 1,
        echo_reply: 2,
    };
    for (bytes, timestamps) in [(talk().0, Some(timestamps)), (cut(&talk().0, 58), None)] {
        let found = read(&bytes).expect("a capture");
        let [syn, data] = found[..] else {
            panic!("two segments, not {found:?}");
        };
        assert_eq!(syn.time_ns, 1_700_000_000_000_000_001);
        assert_eq!(
            syn.tcp,
            Some(TcpNumbers {
                seq: u32::MAX,
                ack: None,
                syn: true,
                timestamps: None,
                reset: false,
                sack: SackBlocks::default(),
            })
        );
        assert_eq!(syn.payload_bytes, 0);
        assert_eq!(
            data.key.to_string(),
            "10.0.0.2:5001 > 10.0.0.1:40000 protocol 6"
        );
        assert_eq!(
            data.tcp,
            Some(TcpNumbers {
                seq: 7001,
                ack: Some(1),
                syn: false,
                timestamps,
                reset: false,
                sack: SackBlocks::default(),
            })
        );
        assert_eq!(data.payload_bytes, 1448);
    }
}

#[test]
fn a_datagram_is_its_first_fragment_with_the_payload_of_all() {
    const MORE_FRAGMENTS: u16 = 0x2000;
    let mut pcap = Pcap::default();
    for (frame, wire_length) in [
        datagram(1200, 1208, 0),
        datagram(4000, 1480, MORE_FRAGMENTS),
        datagram(4000, 1480, MORE_FRAGMENTS | 185),
        datagram(4000, 1048, 370),
        datagram(0, 8, 0),
    ] {
        pcap.add(5, &frame, wire_length);
    }
    let found = read(&pcap.0).expect("a capture");
    let payloads: Vec<u32> = found.iter().map(|packet| packet.payload_bytes).collect();
    assert_eq!(payloads, [1200, 4000, 0]);
    assert!(found.iter().all(|packet| packet.tcp.is_none()));
    assert!(
        found
            .iter()
            .all(|packet| packet.key.protocol == protocol::UDP)
    );
}

#[test]
fn what_is_neither_tcp_nor_udp_is_skipped() {
    let mut pcap = Pcap::default();
    let (mut icmp, wire_length) = datagram(56, 64, 0);
    icmp[23] = 1;
    pcap.add(0, &icmp, wire_length);
    pcap.add(0, &[0; 12], 60);
    let (headers_cut, wire_length) = Frame::default().bytes();
    pcap.add(0, &headers_cut[..40], wire_length);
    assert_eq!(read(&pcap.0).expect("a capture"), []);
}

#[test]
fn a_capture_that_ends_inside_a_record_header_is_an_error_at_that_record() {
    let whole = talk().0;
    assert_eq!(read(&whole).expect("a capture").len(), 2);
    let second_record = 24 + 16 + 14 + 20 + 24;
    let error = read(&whole[..second_record + 7]).expect_err("a part of a capture");
    assert_eq!(error.problem, "the file ends inside a record");
    assert_eq!(error.offset, Some(second_record as u64));

    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&whole[..second_record + 7])
        .expect("room for it");
    let mut scan = TransportScan::open(file.path()).expect("a capture").cut();
    let mut found = Vec::new();
    assert!(!scan.step(&mut found).expect("a capture that may be cut"));
    assert_eq!(found.len(), 1);
}

#[test]
fn a_capture_that_ends_inside_a_frame_is_read_up_to_it_and_says_so() {
    let whole = talk().0;
    let second_record = 24 + 16 + 14 + 20 + 24;
    for bytes in [second_record + 16, second_record + 17, whole.len() - 1] {
        let (found, notes) = read_noting(&whole[..bytes]).expect("a capture");
        assert_eq!(found.len(), 1, "{bytes} bytes");
        assert!(notes.truncated, "{bytes} bytes");
    }
    let (_, notes) = read_noting(&whole).expect("a capture");
    assert_eq!(notes, Notes::default());
}

#[test]
fn what_is_no_capture_is_an_error() {
    for bytes in [&b""[..], b"no capture at all, but text of some length"] {
        assert_eq!(read(bytes).expect_err("this is no capture").offset, Some(0));
    }
}

/// More than one step reads.
#[test]
fn a_long_capture_is_read_to_its_end_in_order() {
    const SEGMENTS: u32 = 40_000;
    let mut pcap = Pcap::default();
    for seq in 0..SEGMENTS {
        let frame = Frame {
            seq,
            ..Frame::default()
        };
        pcap.frame(i64::from(seq), &frame);
    }
    let found = read(&pcap.0).expect("a capture");
    let seqs = found.iter().filter_map(|packet| Some(packet.tcp?.seq));
    assert!(seqs.eq(0..SEGMENTS));
}
