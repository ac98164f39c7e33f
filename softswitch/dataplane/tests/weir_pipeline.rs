// SPDX-License-Identifier: Apache-2.0
//! weir's own pipeline: it polices, counts, and reports each drop in the format of docs/spec/telemetry-report.md.

use crate::common;

use common::{checksum, collect, ethernet, insert, ipv4, ports, send, switch};
use weir_dataplane::{
    CloneSession, CounterValue, KeyMatch, MeterConfig, MeterId, PortConfig, Replica, Shaper, Switch,
};

const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];
const CELL: u16 = 7;

fn meter(switch: &Switch) -> MeterId {
    switch
        .info()
        .meter("WeirIngress.police.policer")
        .expect("the meter")
}

fn count(switch: &Switch, counter: &str, index: u64) -> CounterValue {
    let id = switch
        .info()
        .counter(counter)
        .unwrap_or_else(|| panic!("counter {counter}"));
    switch.counter(id, index).expect("a cell")
}

/// All IPv4 to the client is policed in one cell; red is dropped and reported through port 3.
fn policing_switch(config: MeterConfig) -> Switch {
    let mut switch = switch("weir", 4);
    let exact = |bytes: &[u8]| KeyMatch::Exact(bytes.to_vec());
    let forward = "WeirIngress.forward.forward";
    insert(
        &mut switch,
        forward,
        vec![exact(&CLIENT)],
        0,
        "WeirIngress.forward.set_egress",
        &[&[2]],
    );
    let mut key = vec![KeyMatch::Any; 8];
    key[3] = exact(&[17]);
    let police = "WeirIngress.classify.police_shared";
    insert(
        &mut switch,
        "WeirIngress.classify.classify",
        key,
        1,
        police,
        &[&CELL.to_be_bytes(), &[0]],
    );
    let red = vec![KeyMatch::Any, exact(&[2])];
    insert(
        &mut switch,
        "WeirIngress.verdict.verdict",
        red,
        1,
        "WeirIngress.verdict.drop_packet",
        &[],
    );
    let report = "WeirIngress.mirror_drops.report";
    insert(
        &mut switch,
        report,
        vec![KeyMatch::Any],
        1,
        "WeirIngress.mirror_drops.report_drops",
        &[&[5], &[1]],
    );
    let session = CloneSession {
        replicas: vec![Replica {
            port: 3,
            instance: 0,
        }],
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch
        .insert_clone_session(5, &session)
        .expect("a new session");
    let collector: &[&[u8]] = &[
        &[2, 0, 0, 0, 9, 1],
        &[2, 0, 0, 0, 9, 2],
        &[10, 0, 0, 8],
        &[10, 0, 0, 9],
        &[0x12, 0x34],
        &[0x7f, 0xfe],
        &[0xa, 0xb, 0xc, 0xd],
        &[128],
    ];
    let set = "WeirEgress.make_report.set_collector";
    insert(
        &mut switch,
        "WeirEgress.make_report.collector",
        vec![exact(&[1])],
        0,
        set,
        collector,
    );
    switch
        .set_meter(meter(&switch), u64::from(CELL), Some(config))
        .expect("a cell");
    switch
}

fn frame(bytes: usize) -> Vec<u8> {
    ethernet(
        CLIENT,
        SERVER,
        0x0800,
        &ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64, &vec![0xab; bytes - 34]),
    )
}

#[test]
fn dropped_packet_is_reported_byte_by_byte() {
    // A burst of 1000 bytes and nearly no rate: the first frame passes, the second does not.
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour { cir: 1, cbs: 1_000 });
    let dropped = frame(601);
    assert_eq!(
        send(&mut switch, 1, &frame(600), 1_000_000),
        [(2, frame(600), 1_000_000)]
    );
    let sent = send(&mut switch, 1, &dropped, 2_345_678);
    assert_eq!(ports(&sent), [3]);

    // Ethernet, IPv4, UDP, then the report of 56 bytes and 128 bytes of the packet.
    let mut udp = vec![0x12, 0x34, 0x7f, 0xfe, 0, 192, 0, 0];
    udp.extend([0x20, 0, 0, 0, 0xa, 0xb, 0xc, 0xd]); // version 2, hw_id 0, sequence 0; node
    udp.extend([0x13, 43, 9, 0x80]); // INT/Ethernet, 2 + 9 + 32 words, 9 words, D
    udp.extend([0x1c, 0x01, 0x57, 0x45, 0xe0, 0, 0, 0]);
    udp.extend([0, 0, 0, 0]);
    udp.extend(2_345_000_u64.to_be_bytes()); // microseconds since start x 1000
    udp.extend(0_u64.to_be_bytes());
    udp.extend([0, 70, 0, 0]);
    udp.extend([0, 7, 2, 0]); // cell 7, red
    udp.extend(601_u32.to_be_bytes());
    udp.extend(2_u32.to_be_bytes()); // the second packet that met the policer
    udp.extend(&dropped[..128]);
    let mut ip = vec![
        0x45, 0, 0, 212, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 8, 10, 0, 0, 9,
    ];
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(udp);
    assert_eq!(
        sent[0].1,
        ethernet([2, 0, 0, 0, 9, 2], [2, 0, 0, 0, 9, 1], 0x0800, &ip)
    );

    let colour = |colour: u64| {
        count(
            &switch,
            "WeirIngress.police.policer_counter",
            u64::from(CELL) * 4 + colour,
        )
    };
    assert_eq!(
        colour(0),
        CounterValue {
            packets: 1,
            bytes: 600
        }
    );
    assert_eq!(
        colour(2),
        CounterValue {
            packets: 1,
            bytes: 601
        }
    );
    assert_eq!(
        count(&switch, "WeirIngress.police.met_counter", u64::from(CELL)).packets,
        2
    );
    assert_eq!(count(&switch, "WeirIngress.drop_counter", 70).packets, 1);
    assert_eq!(
        count(&switch, "WeirEgress.send_report.report_counter", 1).packets,
        1
    );
    let stats = switch.stats();
    assert_eq!(
        (stats.cloned, stats.dropped_ingress, stats.transmitted),
        (1, 1, 2)
    );
}

#[test]
fn short_packet_is_reported_whole_and_reports_are_numbered() {
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour { cir: 1, cbs: 1 });
    for sequence in 0_u8..3 {
        let sent = send(&mut switch, 1, &frame(63), 0);
        let report = &sent[0].1;
        assert_eq!(report.len(), 14 + 20 + 8 + 56 + 63);
        assert_eq!(report[42..46], [0x20, 0, 0, sequence]);
        assert_eq!(report[51], 2 + 9 + 16, "63 bytes are 16 words, rounded up");
        assert_eq!(report[98..], frame(63));
    }
}

#[test]
fn saturated_policer_passes_rate_times_time_plus_burst() {
    // 5 MB/s, 100 kB of burst; 10 MB/s offered for 5 s.
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour {
        cir: 5_000_000,
        cbs: 100_000,
    });
    let frame = frame(1_000);
    let mut passed = 0;
    for packet in 0..50_000_u64 {
        let sent = send(&mut switch, 1, &frame, packet * 100_000);
        passed += sent.iter().filter(|(port, _, _)| *port == 2).count();
    }
    // The last packet arrives at 4.9999 s: 24,999,500 bytes of rate and 100,000 of burst hold 25,099 packets.
    assert_eq!(passed, 25_099);
    let colour = |c: u64| {
        count(
            &switch,
            "WeirIngress.police.policer_counter",
            u64::from(CELL) * 4 + c,
        )
        .packets
    };
    assert_eq!((colour(0), colour(1), colour(2)), (25_099, 0, 24_901));
    assert_eq!(
        count(&switch, "WeirIngress.police.met_counter", u64::from(CELL)).packets,
        50_000
    );
}

#[test]
fn unknown_destination_is_flooded_to_all_but_its_own_port() {
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour { cir: 1, cbs: 1 });
    let replicas: Vec<Replica> = (1..=4).map(|port| Replica { port, instance: 0 }).collect();
    switch
        .insert_multicast_group(1, &replicas)
        .expect("a new group");
    let arp = ethernet([0xff; 6], SERVER, 0x0806, &[0; 46]);
    let sent = send(&mut switch, 2, &arp, 0);
    assert_eq!(ports(&sent), [1, 3, 4]);
    assert!(sent.iter().all(|(_, bytes, _)| *bytes == arp));
}

#[test]
fn vlan_tag_and_other_protocols_pass_untouched() {
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour {
        cir: 1,
        cbs: 1_000_000,
    });
    let mut tagged = ethernet(CLIENT, SERVER, 0x8100, &[0x60, 42, 0x08, 0]);
    tagged.extend(ipv4([1, 2, 3, 4], [5, 6, 7, 8], 9, &[1; 40]));
    let other = ethernet(CLIENT, SERVER, 0x88b5, &[0x60; 80]);
    for frame in [tagged, other] {
        assert_eq!(send(&mut switch, 1, &frame, 0), [(2, frame, 0)]);
    }
}

#[test]
fn shaped_and_delayed_port_gives_times_to_the_nanosecond() {
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour {
        cir: 0,
        cbs: 1_000_000,
    });
    let shaper = Some(Shaper {
        rate_bps: 8_000_000,
        burst_bytes: 1_000,
    });
    let config = PortConfig {
        shaper,
        queue_limit_bytes: Some(2_000),
        delay_ns: 10_000_000,
        ..PortConfig::default()
    };
    switch.set_port(2, config, 0).expect("a valid port");
    for _ in 0..4 {
        switch.receive(1, &frame(1_000), 5);
    }
    // One leaves at once, two wait 1 and 2 ms, the fourth exceeds the limit; 10 ms of link each.
    assert_eq!(switch.port_stats(2).queue_drops, 1);
    assert_eq!(switch.next_event_ns(), Some(1_000_005));
    let times: Vec<u64> = collect(&mut switch, 20_000_000)
        .iter()
        .map(|(_, _, time)| *time)
        .collect();
    assert_eq!(times, [10_000_005, 11_000_005, 12_000_005]);
    assert_eq!(switch.next_event_ns(), None);
    let stats = switch.stats();
    assert_eq!(
        (stats.received, stats.transmitted, stats.dropped_queue),
        (4, 3, 1)
    );
}

#[test]
fn replaced_program_starts_afresh_and_keeps_its_ports() {
    let mut switch = policing_switch(MeterConfig::SingleRateTwoColour { cir: 1, cbs: 1 });
    let shaper = Some(Shaper {
        rate_bps: 8,
        burst_bytes: 1,
    });
    switch
        .set_port(
            2,
            PortConfig {
                shaper,
                ..PortConfig::default()
            },
            0,
        )
        .expect("a valid port");
    let other = ethernet(CLIENT, SERVER, 0x88b5, &[0; 50]);
    for _ in 0..3 {
        switch.receive(1, &other, 0);
    }
    switch.replace_program(common::program("l2_learning"));
    assert_eq!(switch.stats().dropped_reconfigured, 2);
    assert_eq!(switch.ports().count(), 4);
    assert_eq!(
        switch.multicast_groups().count() + switch.clone_sessions().count(),
        0
    );
    // The frame that was already on the link is still delivered.
    assert_eq!(ports(&collect(&mut switch, 0)), [2]);
}
