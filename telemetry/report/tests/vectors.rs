// SPDX-License-Identifier: Apache-2.0
//! The spec page's vectors, decoded and encoded: exactly the keys that a vector has.

mod common;

use std::collections::BTreeMap;

use common::{Vector, vector, vectors};
use weir_packet::{LinkType, Packet};
use weir_report::{
    Datagram, Domain, InnerType, Outer, Report, ReportError, WEIR_DOMAIN_ID, WeirReport,
};

/// All fields of a decoded datagram, under the keys of the spec page.
fn values(payload: &[u8]) -> Result<BTreeMap<String, String>, ReportError> {
    let datagram = Datagram::parse(payload)?;
    let reports = datagram.reports().collect::<Result<Vec<_>, _>>()?;
    let mut values = BTreeMap::new();
    let mut put = |key: &str, value: Option<u64>| {
        if let Some(value) = value {
            values.insert(key.to_owned(), value.to_string());
        }
    };
    let group = datagram.group();
    put("node_id", Some(group.node_id.into()));
    put("hw_id", Some(group.hw_id.into()));
    put("sequence", Some(group.sequence.into()));
    put(
        "reports",
        (reports.len() > 1).then_some(reports.len() as u64),
    );
    let report = reports
        .first()
        .expect("a datagram without a report is an error");
    put("inner_type", Some(in_type_code(report.inner_type).into()));
    put("dropped", Some(report.dropped.into()));
    put("congested", Some(report.congested.into()));
    put("tracked", Some(report.tracked.into()));
    put("intermediate", Some(report.intermediate.into()));
    let baseline = report.baseline;
    put(
        "ingress_interface",
        baseline.interfaces.map(|i| i.ingress.into()),
    );
    put(
        "egress_interface",
        baseline.interfaces.map(|i| i.egress.into()),
    );
    put("hop_latency", baseline.hop_latency.map(u64::from));
    put("queue_id", baseline.queue.map(|q| q.id.into()));
    put("queue_occupancy", baseline.queue.map(|q| q.level.into()));
    put("ingress_ns", baseline.ingress_ns);
    put("egress_ns", baseline.egress_ns);
    put(
        "logical_ingress_interface",
        baseline.logical_interfaces.map(|i| i.ingress.into()),
    );
    put(
        "logical_egress_interface",
        baseline.logical_interfaces.map(|i| i.egress.into()),
    );
    put("tx_utilization", baseline.tx_utilization.map(u64::from));
    put("buffer_id", baseline.buffer.map(|b| b.id.into()));
    put("buffer_occupancy", baseline.buffer.map(|b| b.level.into()));
    put("drop_queue_id", baseline.drop.map(|d| d.queue_id.into()));
    put("drop_reason", baseline.drop.map(|d| d.reason.into()));
    put("domain_status", Some(report.domain_status.into()));
    put("inner_bytes", Some(report.inner.len() as u64));
    match report.domain {
        Domain::Weir(weir) => {
            put("domain_id", Some(WEIR_DOMAIN_ID.into()));
            put("policer", weir.verdict.map(|v| v.policer.into()));
            put("colour", weir.verdict.map(|v| v.colour.into()));
            put("wire_length", weir.wire_length.map(u64::from));
            put("packet_number", weir.packet_number.map(u64::from));
            put("queue_lost", weir.queue_lost.map(u64::from));
        }
        Domain::Other { id, bits, bytes } => {
            put("domain_id", Some(id.into()));
            put("domain_bits", Some(bits.into()));
            let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            values.insert("domain_hex".to_owned(), hex);
        }
    }
    put_flow(&mut values, report);
    Ok(values)
}

fn in_type_code(inner_type: InnerType) -> u8 {
    match inner_type {
        InnerType::None => 0,
        InnerType::Tlv => 1,
        InnerType::DomainExtension => 2,
        InnerType::Ethernet => 3,
        InnerType::Ipv4 => 4,
        InnerType::Ipv6 => 5,
        InnerType::Reserved(code) => code,
    }
}

fn put_flow(values: &mut BTreeMap<String, String>, report: &Report<'_>) {
    let link_type = match report.inner_type {
        InnerType::Ethernet => LinkType::Ethernet,
        InnerType::Ipv4 | InnerType::Ipv6 => LinkType::RawIp,
        _ => return,
    };
    let packet = Packet::parse(link_type, report.inner, report.inner.len());
    let Some(flow) = packet.ok().and_then(|packet| packet.flow()) else {
        return;
    };
    for (key, value) in [
        ("src", flow.src.to_string()),
        ("dst", flow.dst.to_string()),
        ("src_port", flow.src_port.to_string()),
        ("dst_port", flow.dst_port.to_string()),
        ("protocol", flow.protocol.to_string()),
    ] {
        values.insert(key.to_owned(), value);
    }
}

fn weir_report(vector: &Vector) -> WeirReport<'_> {
    let inner_bytes: usize = vector.number("inner_bytes");
    WeirReport {
        node_id: vector.number("node_id"),
        hw_id: vector.number("hw_id"),
        sequence: vector.number("sequence"),
        dropped: vector.number::<u8>("dropped") == 1,
        congested: vector.number::<u8>("congested") == 1,
        tracked: vector.number::<u8>("tracked") == 1,
        queue_id: vector.number("queue_id"),
        queue_occupancy: vector.number("queue_occupancy"),
        ingress_ns: vector.number("ingress_ns"),
        egress_ns: vector.number("egress_ns"),
        drop_reason: vector.number("drop_reason"),
        policer: vector.number("policer"),
        colour: vector.number("colour"),
        wire_length: vector.number("wire_length"),
        packet_number: vector.number("packet_number"),
        inner: &vector.bytes[vector.bytes.len() - inner_bytes..],
    }
}

#[test]
fn the_page_has_vectors_of_every_kind() {
    let all = vectors("vector");
    let refused = all
        .iter()
        .filter(|vector| vector.values.contains_key("error"))
        .count();
    assert!(
        all.len() - refused >= 10,
        "{} valid vectors",
        all.len() - refused
    );
    for error in [
        "truncated",
        "version",
        "rep_type",
        "report_length",
        "metadata_length",
    ] {
        assert!(
            all.iter()
                .any(|vector| vector.values.get("error").is_some_and(|e| e == error)),
            "none for {error}"
        );
    }
}

#[test]
fn every_vector_decodes_to_exactly_its_values() {
    for vector in vectors("vector") {
        let decoded = values(&vector.bytes);
        match vector.values.get("error") {
            Some(error) => {
                let found = decoded.expect_err(&vector.name);
                assert_eq!(found.name(), error, "{}: {found}", vector.name);
            }
            None => assert_eq!(decoded.as_ref(), Ok(&vector.values), "{}", vector.name),
        }
    }
}

#[test]
fn what_weir_emits_encodes_to_exactly_its_bytes() {
    for name in [
        "red-tcp-1514-cut-to-128",
        "yellow-ack-66-rounded-up",
        "maximum-values",
        "enqueue-green-through-queue-2",
    ] {
        let vector = vector("vector", name);
        let report = weir_report(&vector);
        let mut bytes = Vec::new();
        report.encode(&mut bytes).expect(name);
        assert_eq!(bytes, vector.bytes, "{name}");
        assert_eq!(report.encoded_length(), bytes.len());
    }
}

#[test]
fn the_outer_headers_are_those_of_the_frame_vector() {
    let frame = vector("frame", "frame-of-the-ack");
    let mac = |key| {
        common::unhex(frame.text(key))
            .try_into()
            .expect("six bytes")
    };
    let outer = Outer {
        src_mac: mac("src_mac"),
        dst_mac: mac("dst_mac"),
        src: frame.number("src"),
        dst: frame.number("dst"),
        src_port: frame.number("src_port"),
        dst_port: frame.number("dst_port"),
    };
    let payload = vector("vector", frame.text("payload_of"));
    let mut bytes = Vec::new();
    outer
        .encode_frame(&weir_report(&payload), &mut bytes)
        .expect("valid");
    assert_eq!(bytes, frame.bytes);

    let packet =
        Packet::parse(LinkType::Ethernet, &frame.bytes, frame.bytes.len()).expect("a frame");
    assert_eq!(packet.udp().expect("UDP").payload(), payload.bytes);
}
