// SPDX-License-Identifier: Apache-2.0
//! The binary on loopback: reports sent, rows stored, accounts.

use crate::common;
#[path = "../../report/tests/common/mod.rs"]
mod spec;

use std::time::{SystemTime, UNIX_EPOCH};

use common::{Folder, Running, any_port, read_parquet};
use nix::sys::signal::Signal;
use parquet::record::Field;
use serde_json::json;
use weir_report::{SEQUENCE_MODULUS, WeirReport, colour, drop_reason};

const NODE: u32 = 0x0a0b_0c0d;
const LAST: u32 = SEQUENCE_MODULUS - 1;

fn unix_ns() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    i64::try_from(now.as_nanos()).expect("before 2262")
}

/// The inner packet of a vector: a TCP segment.
fn inner(name: &str) -> Vec<u8> {
    let vector = spec::vector("vector", name);
    vector.bytes[vector.bytes.len() - vector.number::<usize>("inner_bytes")..].to_vec()
}

/// A drop report whose values all differ and follow from its sequence number.
fn drop_report(sequence: u32, inner: &[u8]) -> WeirReport<'_> {
    WeirReport {
        node_id: NODE,
        hw_id: 5,
        sequence,
        dropped: true,
        tracked: sequence.is_multiple_of(2),
        ingress_ns: 1_000_000_000 + u64::from(sequence),
        drop_reason: drop_reason::POLICER,
        policer: 40_000,
        colour: colour::RED,
        wire_length: 1514 - sequence % 7,
        packet_number: sequence.wrapping_add(u32::MAX),
        inner,
        ..WeirReport::default()
    }
}

#[test]
fn every_report_is_stored_once_and_what_did_not_come_is_accounted() {
    let folder = Folder::new();
    let collector = Running::start(folder.command(any_port()).args(["--run-id", "demo-1"]));
    let address = collector.address.to_string();
    let before_ns = unix_ns();
    let (data, ack) = (
        inner("red-tcp-1514-cut-to-128"),
        inner("yellow-ack-66-rounded-up"),
    );

    // The wrap; 1 and 2 are lost; 0 arrives twice; 4 arrives after 5.
    let arriving: [(u32, &[u8]); 7] = [
        (LAST - 1, &data),
        (LAST, &ack),
        (0, &data),
        (0, &data),
        (3, &ack),
        (5, &data),
        (4, &ack),
    ];
    collector.send(b"garbage, and not a report");
    for (sequence, inner) in arriving {
        collector.send_report(&drop_report(sequence, inner));
        collector.send(&[0x10, 0, 0, 0, 0, 0, 0, 0]);
    }
    collector.send(b"");
    // Another subsystem of the same switch has separate numbers.
    let queued = WeirReport {
        hw_id: 6,
        congested: true,
        dropped: false,
        queue_id: 3,
        queue_occupancy: 0x01_2345,
        egress_ns: 77,
        drop_reason: drop_reason::NONE,
        colour: colour::GREEN,
        ..drop_report(9, &[0xff; 60])
    };
    collector.send_report(&queued);
    let ended = collector.stop();
    let after_ns = unix_ns();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let summary = format!(
        "weir-collector: 7 reports received, 2 lost, 1 duplicate, 9 malformed, 0 dropped by the kernel; 7 rows in {}\n",
        folder.output().display()
    );
    assert_eq!(ended.stdout, summary);

    let expected = json!({
        "schema": 1, "received": 7, "malformed": 9, "duplicates": 1, "lost": 2, "reordered": 1, "restarts": 0,
        "source": format!("listening on {address}"), "kernel_drops": 0, "ignored": 0, "rows": 7, "ended": true,
        "complete": true,
        // "garbage…" begins with 'g' = 0x67: version 6. The empty one is truncated.
        "malformed_reasons": {"truncated": 1, "version": 8},
        "streams": [
            {"node_id": NODE, "hw_id": 5, "destination": address, "received": 6, "lost": 2, "reordered": 1,
             "duplicates": 1, "restarts": 0, "first_sequence": LAST - 1, "last_sequence": 5},
            {"node_id": NODE, "hw_id": 6, "destination": address, "received": 1, "lost": 0, "reordered": 0,
             "duplicates": 0, "restarts": 0, "first_sequence": 9, "last_sequence": 9},
        ],
    });
    let mut accounting = folder.accounting();
    assert_eq!(accounting["files"].take(), 1);
    accounting
        .as_object_mut()
        .expect("an object")
        .remove("files");
    assert_eq!(accounting, expected);
    // One line for each kind of garbage, not for each datagram.
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("refused: version is 6, valid is 2"),
        "{}",
        ended.stderr
    );
    assert_eq!(folder.names(), ["collector.json", "telemetry.parquet"]);

    let (rows, key_values) = read_parquet(&folder.output());
    let value = |key: &str| {
        key_values
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(
        (value("weir.schema_version"), value("weir.run_id")),
        (Some("1"), Some("demo-1"))
    );
    let in_file: serde_json::Value =
        serde_json::from_str(value("weir.accounting").expect("there")).expect("JSON");
    assert_eq!(in_file, expected);

    let sequences = [LAST - 1, LAST, 0, 3, 5, 4, 9];
    let wire_length = |sequence: u32| 1514 - sequence % 7;
    let packet_number = |sequence: u32| {
        if sequence == 0 {
            u32::MAX
        } else {
            sequence - 1
        }
    };
    let bytes = |values: [u8; 7]| values.map(Field::UByte).to_vec();
    let flags = |values: [bool; 7]| values.map(Field::Bool).to_vec();
    let ports = |first, second| {
        let six = [first, second, first, second, first, second].map(Field::UShort);
        [&six[..], &[Field::Null]].concat()
    };
    let hosts = |first: &str, second: &str| {
        let six = [first, second, first, second, first, second].map(|host| Field::Str(host.into()));
        [&six[..], &[Field::Null]].concat()
    };
    let (yes, no) = (true, false);
    let inner: [&[u8]; 7] = [&data, &ack, &data, &ack, &data, &ack, &[0xff; 60]];
    let columns: Vec<(&str, Vec<Field>)> = vec![
        ("node_id", vec![Field::UInt(NODE); 7]),
        ("hw_id", bytes([5, 5, 5, 5, 5, 5, 6])),
        ("sequence", sequences.map(Field::UInt).to_vec()),
        ("dropped", flags([yes, yes, yes, yes, yes, yes, no])),
        ("congested", flags([no, no, no, no, no, no, yes])),
        ("tracked", flags([yes, no, yes, no, no, yes, no])),
        ("queue_id", bytes([0, 0, 0, 0, 0, 0, 3])),
        (
            "queue_occupancy",
            [0, 0, 0, 0, 0, 0, 74_565].map(Field::UInt).to_vec(),
        ),
        (
            "ingress_ns",
            sequences
                .map(|s| Field::ULong(1_000_000_000 + u64::from(s)))
                .to_vec(),
        ),
        (
            "egress_ns",
            [0, 0, 0, 0, 0, 0, 77].map(Field::ULong).to_vec(),
        ),
        ("drop_reason", bytes([70, 70, 70, 70, 70, 70, 0])),
        ("policer", vec![Field::UShort(40_000); 7]),
        ("colour", bytes([2, 2, 2, 2, 2, 2, 0])),
        (
            "wire_length",
            sequences.map(|s| Field::UInt(wire_length(s))).to_vec(),
        ),
        (
            "packet_number",
            sequences.map(|s| Field::UInt(packet_number(s))).to_vec(),
        ),
        ("queue_lost", vec![Field::Null; 7]),
        // From the hex of the two vectors: data flows from 10.0.0.2:5001 to 10.0.0.1:40000, ACKs the other way.
        ("src", hosts("10.0.0.2", "10.0.0.1")),
        ("dst", hosts("10.0.0.1", "10.0.0.2")),
        ("src_port", ports(5001, 40_000)),
        ("dst_port", ports(40_000, 5001)),
        (
            "protocol",
            [vec![Field::UByte(6); 6], vec![Field::Null]].concat(),
        ),
        (
            "inner",
            inner
                .map(|packet| Field::Bytes(packet.to_vec().into()))
                .to_vec(),
        ),
    ];
    let expected_names: Vec<_> = std::iter::once("received_ns")
        .chain(columns.iter().map(|(name, _)| *name))
        .collect();
    assert_eq!(rows.names, expected_names);
    for (name, expected) in &columns {
        assert_eq!(&rows.column(name), expected, "{name}");
    }
    let received_ns = rows.column("received_ns");
    // Not in order: see the socket's test of its stamps.
    assert!(
        received_ns
            .iter()
            .all(|field| matches!(field, Field::Long(ns) if (before_ns..=after_ns).contains(ns))),
        "{received_ns:?}"
    );
}

#[test]
fn what_a_report_does_not_carry_is_null() {
    let folder = Folder::new();
    let collector = Running::start(&mut folder.command(any_port()));
    for name in [
        "unknown-domain",
        "every-baseline-bit",
        "two-reports-in-one-datagram",
    ] {
        collector.send(&spec::vector("vector", name).bytes);
    }
    assert_eq!(collector.stop().code, Some(0));
    let (rows, _) = read_parquet(&folder.output());
    let nulls = |name: &str| {
        let column = rows.column(name);
        let null = column.iter().map(|field| *field == Field::Null);
        null.collect::<Vec<_>>()
    };
    // Rows: the unknown domain's, every bit's, and the two of one datagram.
    assert_eq!(nulls("policer"), [true; 4]);
    assert_eq!(nulls("wire_length"), [true; 4]);
    assert_eq!(nulls("ingress_ns"), [true, false, true, true]);
    assert_eq!(nulls("queue_occupancy"), [true, false, true, true]);
    assert_eq!(nulls("drop_reason"), [false, false, false, true]);
    assert_eq!(nulls("src"), [false, true, true, true]);
    assert_eq!(nulls("received_ns"), [false; 4]);
    let accounting = folder.accounting();
    assert_eq!(
        (&accounting["received"], &accounting["rows"]),
        (&json!(3), &json!(4))
    );
}

#[test]
fn a_burst_beyond_one_batch_and_one_row_group_is_stored_in_order() {
    let folder = Folder::new();
    let collector = Running::start(folder.command(any_port()).args(["--row-group", "100"]));
    let inner = inner("red-tcp-1514-cut-to-128");
    let sent = 1000;
    for sequence in 0..sent {
        collector.send_report(&drop_report(sequence, &inner));
    }
    assert_eq!(collector.stop().code, Some(0));
    // A small kernel buffer may drop some; then both counts must show it.
    let count = folder.counts(sent);
    let (rows, _) = read_parquet(&folder.output());
    assert_eq!(rows.num_rows() as u64, count("received"));
    let sequences = rows.column("sequence");
    let sequences: Vec<_> = sequences
        .iter()
        .map(|field| match field {
            Field::UInt(sequence) => *sequence,
            other => panic!("{other} is no sequence number"),
        })
        .collect();
    assert!(sequences.is_sorted());
}

#[test]
fn a_count_ends_the_collection_and_interrupt_does_as_well() {
    let folder = Folder::new();
    let collector = Running::start(folder.command(any_port()).args(["--count", "2"]));
    collector.send_report(&drop_report(0, &[]));
    collector.send_report(&drop_report(1, &[]));
    assert_eq!(collector.wait().code, Some(0));
    assert_eq!(folder.accounting()["received"], 2);

    let folder = Folder::new();
    let collector = Running::start(&mut folder.command(any_port()));
    collector.signal(Signal::SIGINT);
    assert_eq!(collector.wait().code, Some(0));
    let (rows, _) = read_parquet(&folder.output());
    assert_eq!((rows.num_rows(), rows.names.len()), (0, 23));
}

#[test]
fn reports_over_ipv6_are_received() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        weir_skipped::skip("kernel: no IPv6 loopback");
        return;
    }
    let folder = Folder::new();
    let collector = Running::start(&mut folder.command("[::1]:0".parse().expect("an address")));
    let destination = collector.address.to_string();
    collector.send_report(&drop_report(0, &[]));
    assert_eq!(collector.stop().code, Some(0));
    assert_eq!(
        folder.accounting()["streams"][0]["destination"],
        destination
    );
}

#[test]
fn the_ready_file_has_the_ready_line() {
    let folder = Folder::new();
    let ready_file = folder.path("ready");
    let collector = Running::start(
        folder
            .command(any_port())
            .arg("--ready-file")
            .arg(&ready_file),
    );
    // Once a report was received, the ready file has been written.
    let address = collector.address;
    assert_eq!(collector.stop().code, Some(0));
    let ready = std::fs::read_to_string(&ready_file).expect("written");
    assert_eq!(ready, format!("weir-collector: listening on {address}\n"));
}
