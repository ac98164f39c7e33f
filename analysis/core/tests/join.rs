// SPDX-License-Identifier: Apache-2.0
//! Captures and drop reports of simulated transfers, joined.

use crate::support;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_schema::ArrowError;
use support::frames::{ACK, CLIENT, Frame, Pcap, SERVER, SYN};
use support::simulator::{Config, Run, Simulator};
use tempfile::TempDir;
use weir_core::CaptureError;
use weir_core::join::{ClockPiece, HostCapture, Joined, Reports, join_run};
use weir_core::tables;

const MS: i64 = 1_000_000;
const SERVER6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 2];
const CLIENT6: [u16; 8] = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1];

/// One report: dropped or not, switch time, inner frame, wire length.
type Report = (bool, i64, Vec<u8>, u32);

fn telemetry(reports: &[Report]) -> RecordBatch {
    let count = reports.len();
    let inner: Vec<&[u8]> = reports
        .iter()
        .map(|report| report.2.get(..128).unwrap_or(&report.2))
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "received_ns",
            Arc::new(Int64Array::from_iter_values(
                reports.iter().map(|report| report.1 + MS),
            )),
        ),
        (
            "dropped",
            Arc::new(BooleanArray::from_iter(
                reports.iter().map(|report| Some(report.0)),
            )),
        ),
        (
            "ingress_ns",
            Arc::new(UInt64Array::from_iter_values(
                reports.iter().map(|report| report.1 as u64),
            )),
        ),
        ("policer", Arc::new(UInt16Array::from(vec![3; count]))),
        ("colour", Arc::new(UInt8Array::from(vec![2; count]))),
        (
            "wire_length",
            Arc::new(UInt32Array::from_iter_values(
                reports.iter().map(|report| report.3),
            )),
        ),
        (
            "packet_number",
            Arc::new(UInt32Array::from_iter_values(1..=count as u32)),
        ),
        ("inner", Arc::new(BinaryArray::from(inner))),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn join_rows(
    hosts: &[HostCapture],
    rows: Result<RecordBatch, ArrowError>,
) -> Result<Joined, CaptureError> {
    let reports = Reports {
        path: Path::new("telemetry.parquet"),
        batches: std::iter::once(rows),
    };
    join_run(hosts, Some(reports))
}

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn join(
        &self,
        server: &Pcap,
        client: &Pcap,
        reports: &[Report],
    ) -> Result<Joined, CaptureError> {
        std::fs::write(self.path("server.pcap"), &server.0).expect("room");
        std::fs::write(self.path("client.pcap"), &client.0).expect("room");
        join_rows(&self.hosts(), Ok(telemetry(reports)))
    }

    fn hosts(&self) -> Vec<HostCapture> {
        vec![
            HostCapture {
                path: self.path("server.pcap"),
                addresses: vec![IpAddr::from(SERVER), IpAddr::from(SERVER6)],
                clock: Vec::new(),
            },
            HostCapture {
                path: self.path("client.pcap"),
                addresses: vec![IpAddr::from(CLIENT), IpAddr::from(CLIENT6)],
                clock: Vec::new(),
            },
        ]
    }
}

fn reports(run: &Run) -> Vec<Report> {
    // The switch's clock starts when the switch does.
    let start = 1_699_999_990 * 1000 * MS;
    run.dropped
        .iter()
        .map(|(time, bytes, wire)| (true, time - start, bytes.clone(), *wire))
        .collect()
}

#[test]
fn every_packet_sent_was_received_or_dropped() {
    let policer = Some((40_000_000, 100_000));
    let run = Simulator::run(Config {
        seed: 3,
        policer,
        ..Config::default()
    });
    let joined = Files::new()
        .join(&run.sender, &run.receiver, &reports(&run))
        .expect("a run");
    assert_eq!(joined.unmatched, Default::default());
    let truth: Vec<_> = run
        .transmissions
        .iter()
        .map(|sent| (sent.sent_ns, sent.seq, sent.dropped))
        .collect();
    let rows: Vec<_> = joined
        .packets
        .iter()
        .filter(|row| row.flow == 0)
        .map(|row| (row.sent_ns, row.seq.expect("TCP"), row.drop.is_some()))
        .collect();
    assert_eq!(rows, truth);
    assert_eq!(joined.flows.len(), 2);
    for flow in &joined.flows {
        assert_eq!(
            flow.sent,
            flow.received + flow.reported_drops,
            "{}",
            flow.key
        );
        assert_eq!(flow.in_flight_candidates, 0);
    }
    let data = &joined.flows[0];
    let dropped = truth.iter().filter(|sent| sent.2).count();
    assert_eq!(data.reported_drops as usize, dropped);
    assert!(dropped > 1000, "{dropped}");
    assert_eq!(
        data.received_payload_bytes,
        (truth.len() - 1 - dropped) as u64 * 1448
    );
    for row in joined.packets.iter().filter(|row| row.flow == 0) {
        assert!(row.judged, "{row:?}");
        assert_eq!(row.inferred.is_some(), row.drop.is_some(), "{row:?}");
        assert_eq!(row.received_ns.is_none(), row.drop.is_some(), "{row:?}");
    }
    assert!(
        joined
            .packets
            .iter()
            .filter(|row| row.flow == 1)
            .any(|row| !row.judged),
        "pure ACKs"
    );
}

#[test]
fn a_switchs_clock_of_48_bits_may_begin_anew_within_the_run() {
    let run = Simulator::run(Config {
        seed: 5,
        loss: 0.05,
        segments: 5000,
        ..Config::default()
    });
    let mut continued = reports(&run);
    let middle = continued[continued.len() / 2].1;
    for report in &mut continued {
        report.1 += (1 << 48) - middle;
    }
    // The mirror session of one pipe may be behind that of another.
    let last_before = continued.iter().rposition(|report| report.1 < 1 << 48);
    let at = last_before.expect("reports of both periods");
    continued.swap(at, at + 1);
    let mut wrapped = continued.clone();
    for report in &mut wrapped {
        report.1 %= 1 << 48;
    }
    assert!(wrapped[0].1 > wrapped[wrapped.len() - 1].1);
    let join = |reports: &[Report]| {
        let rows = Files::new()
            .join(&run.sender, &run.receiver, reports)
            .expect("a run")
            .packets;
        rows.iter()
            .map(|row| row.drop.and_then(|drop| drop.ingress_ns))
            .collect::<Vec<_>>()
    };
    let expected = join(&continued);
    assert_eq!(expected.iter().flatten().count(), continued.len());
    assert_eq!(join(&wrapped), expected);
}

#[test]
fn what_is_missing_is_neither_received_nor_dropped() {
    let run = Simulator::run(Config {
        seed: 4,
        loss: 0.05,
        segments: 5000,
        ..Config::default()
    });
    let all = reports(&run);
    let (lost_reports, kept) = all.split_at(7);
    let joined = Files::new()
        .join(&run.sender, &run.receiver, kept)
        .expect("a run");
    let data = &joined.flows[0];
    assert_eq!(
        data.sent,
        data.received + data.reported_drops + lost_reports.len() as u64
    );
    assert_eq!(
        data.in_flight_candidates, 0,
        "they were sent long before the end"
    );
}

fn data(ip_id: u16, seq: u32) -> Frame {
    Frame {
        to_client: true,
        ip_id,
        seq,
        flags: ACK,
        payload: 1000,
        ..Frame::default()
    }
}

fn pcap(frames: &[(i64, Frame)]) -> Pcap {
    let mut pcap = Pcap::default();
    for (ms, frame) in frames {
        pcap.frame(ms * MS, frame);
    }
    pcap
}

fn report(ms: i64, frame: &Frame) -> Report {
    let (bytes, wire) = frame.bytes();
    (true, ms * MS, bytes, wire)
}

#[test]
fn packets_sent_shortly_before_the_receivers_capture_ends_may_be_in_flight() {
    let sent = pcap(&[
        (0, data(1, 0)),
        (100, data(2, 1000)),
        (200, data(3, 2000)),
        (205, data(4, 3000)),
    ]);
    // The path takes 10 ms; the receiver's last record is at 210.
    let received = pcap(&[(10, data(1, 0)), (210, data(3, 2000))]);
    let joined = Files::new().join(&sent, &received, &[]).expect("a run");
    let flow = &joined.flows[0];
    assert_eq!(
        (flow.sent, flow.received, flow.in_flight_candidates),
        (4, 2, 1),
        "2 is missing, 4 on its way"
    );
}

#[test]
fn contradictions_and_strangers_are_counted() {
    let sent = pcap(&[(0, data(1, 0)), (1, data(2, 1000))]);
    let received = pcap(&[(10, data(1, 0)), (11, data(2, 1000)), (12, data(9, 9000))]);
    // 2 was received and is reported dropped; 8 was never sent; 2 is reported once more.
    let reports = [
        report(5, &data(2, 1000)),
        report(6, &data(8, 8000)),
        report(7, &data(2, 1000)),
    ];
    let joined = Files::new()
        .join(&sent, &received, &reports)
        .expect("a run");
    assert_eq!(joined.unmatched.received, 1);
    assert_eq!(joined.unmatched.reports, 2);
    assert_eq!(joined.unmatched.received_and_dropped, 1);
    let flow = &joined.flows[0];
    assert_eq!((flow.sent, flow.received, flow.reported_drops), (2, 2, 1));
}

#[test]
fn only_drops_are_dropped() {
    let sent = pcap(&[(0, data(1, 0))]);
    let received = pcap(&[(10, data(1, 0))]);
    let (bytes, wire) = data(1, 0).bytes();
    let enqueued = (false, 5 * MS, bytes, wire);
    let joined = Files::new()
        .join(&sent, &received, &[enqueued])
        .expect("a run");
    assert_eq!(
        (joined.flows[0].reported_drops, joined.unmatched.reports),
        (0, 0)
    );
}

#[test]
fn packets_that_look_alike_are_told_apart_by_time() {
    // IP ids have wrapped: packet 1 at 0 ms and at 5000 ms have equal keys. The first was dropped.
    let sent = pcap(&[
        (0, data(1, 0)),
        (100, data(2, 1000)),
        (200, data(3, 2000)),
        (5000, data(1, 0)),
    ]);
    let received = pcap(&[(110, data(2, 1000)), (5010, data(1, 0))]);
    let reports = [report(5, &data(1, 0)), report(205, &data(3, 2000))];
    let joined = Files::new()
        .join(&sent, &received, &reports)
        .expect("a run");
    let fates: Vec<_> = joined
        .packets
        .iter()
        .map(|row| (row.received_ns, row.drop.is_some()))
        .collect();
    assert_eq!(
        fates,
        [
            (None, true),
            (Some(110 * MS), false),
            (None, true),
            (Some(5010 * MS), false)
        ]
    );
}

/// A datagram of 1,000 bytes over IPv6, of which the capture holds the headers.
fn datagram6(checksum: u16) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; 12];
    bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0x03, 0xf0, 17, 64]);
    bytes.extend(
        [SERVER6, CLIENT6]
            .concat()
            .iter()
            .flat_map(|word| word.to_be_bytes()),
    );
    bytes.extend([0x13, 0x89, 0x13, 0x8a, 0x03, 0xf0]);
    bytes.extend(checksum.to_be_bytes());
    (bytes, 14 + 40 + 1008)
}

#[test]
fn datagrams_of_ipv6_are_told_apart_by_their_checksums() {
    let at = |list: &[(i64, u16)]| {
        let mut pcap = Pcap::default();
        for &(ms, checksum) in list {
            let (bytes, wire) = datagram6(checksum);
            pcap.add(ms * MS, &bytes, wire);
        }
        pcap
    };
    // They have no id. The second of four is dropped, and the third arrives when the fourth is due.
    let sent = at(&[(0, 11), (10, 22), (20, 33), (30, 44)]);
    let received = at(&[(5, 11), (35, 33), (36, 44)]);
    let (bytes, wire) = datagram6(22);
    let joined = Files::new()
        .join(&sent, &received, &[(true, 40 * MS, bytes, wire)])
        .expect("a run");
    let fates: Vec<_> = joined
        .packets
        .iter()
        .map(|row| (row.received_ns, row.drop.is_some()))
        .collect();
    assert_eq!(
        fates,
        [
            (Some(5 * MS), false),
            (None, true),
            (Some(35 * MS), false),
            (Some(36 * MS), false)
        ]
    );
}

#[test]
fn other_frames_are_counted_and_left_out() {
    let mut sent = pcap(&[(0, data(1, 0))]);
    let mut arp = vec![0xff; 12];
    arp.extend([8, 6]);
    arp.extend([0; 28]);
    sent.add(1, &arp, 42);
    // A frame flooded to the client although it is addressed to another host.
    let (mut stranger, wire) = data(5, 0).bytes();
    stranger[33] = 77;
    let mut received = pcap(&[(10, data(1, 0))]);
    received.add(11, &stranger, wire);
    let joined = Files::new()
        .join(&sent, &received, &[(true, 0, arp, 42)])
        .expect("a run");
    assert_eq!((joined.packets.len(), joined.flows.len()), (1, 1));
    assert_eq!(joined.records, [2, 2]);
    let unmatched = joined.unmatched;
    assert_eq!(
        (
            unmatched.not_ip,
            unmatched.foreign,
            unmatched.reports_not_ip
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_capture_that_was_cut_is_named() {
    let sent = pcap(&[(0, data(1, 0)), (1, data(2, 1000))]);
    let cut = Pcap(sent.0[..sent.0.len() - 1].to_vec());
    let files = Files::new();
    let joined = files.join(&cut, &Pcap::default(), &[]).expect("a run");
    assert_eq!(joined.truncated, [files.path("server.pcap")]);
    assert_eq!(joined.packets.len(), 1);
}

#[test]
fn an_address_belongs_to_one_capture() {
    let files = Files::new();
    files
        .join(&Pcap::default(), &Pcap::default(), &[])
        .expect("an empty run");
    let mut hosts = files.hosts();
    hosts[1].addresses.push(IpAddr::from(SERVER));
    let error = join_rows(&hosts, Ok(telemetry(&[])))
        .expect_err("10.0.0.2 twice")
        .to_string();
    assert!(
        error.contains("client.pcap") && error.contains("10.0.0.2"),
        "{error}"
    );
}

#[test]
fn reports_that_are_no_telemetry_are_an_error() {
    let files = Files::new();
    files
        .join(&Pcap::default(), &Pcap::default(), &[])
        .expect("an empty run");
    let batch = telemetry(&[report(5, &data(1, 0))]);
    let cut = batch.project(&[0, 1, 2, 3, 4, 5, 6]);
    let error = join_rows(&files.hosts(), cut)
        .expect_err("no inner frames")
        .to_string();
    assert!(error.contains("column inner is missing"), "{error}");
    let failed = ArrowError::ParseError("page 3 is damaged".to_owned());
    let error = join_rows(&files.hosts(), Err(failed))
        .expect_err("a damaged file")
        .to_string();
    assert!(
        error.contains("telemetry.parquet: ") && error.contains("page 3 is damaged"),
        "{error}"
    );
    assert!(error.contains("weir-collector"), "{error}");
}

#[test]
fn tables_have_a_row_per_packet_and_flow() {
    let run = Simulator::run(Config {
        seed: 5,
        loss: 0.05,
        segments: 2000,
        ..Config::default()
    });
    let joined = Files::new()
        .join(&run.sender, &run.receiver, &reports(&run))
        .expect("a run");
    let packets = tables::joined_packets(&joined).expect("a table");
    assert_eq!(packets.num_rows(), joined.packets.len());
    let causes = packets.column_by_name("cause").expect("a column");
    let lost = joined
        .packets
        .iter()
        .filter(|row| row.inferred.is_some())
        .count();
    assert_eq!(causes.len() - causes.null_count(), lost);
    assert_eq!(
        tables::joined_flows(&joined).expect("a table").num_rows(),
        2
    );
    assert_eq!(
        tables::rtts(&joined.rtts).expect("a table").num_rows(),
        joined.rtts.len()
    );
}

#[test]
fn a_capture_whose_clock_was_set_back_is_moved_by_the_order_of_its_records() {
    // The server's clock is 1,500 ms ahead and is set back by 1 s before its third packet: 900 ms are shown twice.
    let sent = pcap(&[
        (1500, data(1, 0)),
        (1600, data(2, 1000)),
        (700, data(3, 2000)),
        (1600, data(4, 3000)),
    ]);
    let received = pcap(&[
        (10, data(1, 0)),
        (110, data(2, 1000)),
        (210, data(3, 2000)),
        (1110, data(4, 3000)),
    ]);
    let files = Files::new();
    files.join(&sent, &received, &[]).expect("a run");
    let piece = |first_record, offset_ms: i64| ClockPiece {
        first_record,
        source_ns: 1500 * MS,
        target_ns: (1500 + offset_ms) * MS,
        drift: 0.0,
    };
    let mut hosts = files.hosts();
    hosts[0].clock = vec![piece(0, -1500), piece(2, -500)];
    let joined = join_run(&hosts, None::<Reports<'_, std::iter::Empty<_>>>).expect("a run");
    let times: Vec<_> = joined
        .packets
        .iter()
        .map(|row| (row.sent_ns / MS, row.received_ns.map(|ns| ns / MS)))
        .collect();
    assert_eq!(
        times,
        [
            (0, Some(10)),
            (100, Some(110)),
            (200, Some(210)),
            (1100, Some(1110))
        ]
    );
    let records: Vec<_> = joined
        .packets
        .iter()
        .map(|row| (row.sent_record, row.received_record))
        .collect();
    assert_eq!(
        records,
        [(0, Some(0)), (1, Some(1)), (2, Some(2)), (3, Some(3))]
    );
}

#[test]
fn a_clock_that_drifts_is_moved_from_one_of_its_times_on() {
    let piece = ClockPiece {
        first_record: 0,
        source_ns: 1_000_000_000,
        target_ns: 5_000_000_000,
        drift: -50e-6,
    };
    assert_eq!(piece.target(1_000_000_000), 5_000_000_000);
    assert_eq!(piece.target(11_000_000_000), 14_999_500_000);
    assert!(
        piece.target(i64::MAX) > 9_000_000_000_000_000_000,
        "no overflow"
    );
}

#[test]
fn packets_that_begin_a_connection_are_marked() {
    let syn = Frame {
        flags: SYN,
        payload: 0,
        ..data(1, 41)
    };
    let sent = pcap(&[(0, syn), (1, data(2, 42)), (2, data(3, 1042))]);
    let joined = Files::new()
        .join(&sent, &Pcap::default(), &[])
        .expect("a run");
    let marked: Vec<_> = joined.packets.iter().map(|row| row.syn).collect();
    assert_eq!(marked, [true, false, false]);
}

#[test]
fn reports_of_packets_that_passed_say_when_the_switch_had_them() {
    let sent = pcap(&[(0, data(1, 0)), (1, data(2, 1000)), (2, data(3, 2000))]);
    let received = pcap(&[(10, data(1, 0)), (12, data(3, 2000))]);
    let mut reports = [
        report(7_000, &data(1, 0)),
        report(7_001, &data(2, 1000)),
        report(7_002, &data(3, 2000)),
        report(7_003, &data(9, 9000)),
    ];
    for at in [0, 2, 3] {
        reports[at].0 = false;
    }
    let joined = Files::new()
        .join(&sent, &received, &reports)
        .expect("a run");
    let passed: Vec<_> = joined.packets.iter().map(|row| row.passed_ns).collect();
    let ms = MS as u64;
    assert_eq!(passed, [Some(7_000 * ms), None, Some(7_002 * ms)]);
    assert_eq!(joined.flows[0].reported_drops, 1);
    assert_eq!(joined.unmatched.reports, 0, "only drops must have a packet");
}
