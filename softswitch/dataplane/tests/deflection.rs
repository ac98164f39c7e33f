// SPDX-License-Identifier: Apache-2.0
//! Deflect-on-drop: a tail-dropped packet runs egress for another port, so that the program can report it.

use crate::common;

use common::{collect, switch};
use weir_dataplane::{PortConfig, Shaper, Switch};

/// A port of nearly no rate: the first frame passes, `limit` are queued.
fn slow(limit: u64, deflect_to: Option<u32>) -> PortConfig {
    PortConfig {
        shaper: Some(Shaper {
            rate_bps: 8,
            burst_bytes: 1,
        }),
        queue_limit_packets: Some(limit),
        deflect_to,
        ..PortConfig::default()
    }
}

fn deflecting() -> Switch {
    switch("deflection", 4)
}

fn frame(port: u8, priority: u8) -> [u8; 4] {
    [port, priority, 0xab, 0xcd]
}

#[test]
fn dropped_packet_is_seen_by_the_program_with_the_fields_of_its_drop() {
    let mut switch = deflecting();
    switch.set_port(2, slow(2, Some(3)), 0).expect("a port");
    for _ in 0..4 {
        switch.receive(1, &frame(2, 5), 10);
    }
    let sent = collect(&mut switch, 10);
    // One passed, two are queued; the fourth leaves port 3 and reports port 2 with a depth of two packets.
    assert_eq!(
        sent,
        [
            (2, frame(2, 5).to_vec(), 10),
            (3, vec![3, 2, 0, 0, 0, 2, 0, 0, 0, 2, 2, 5, 0xab, 0xcd], 10)
        ]
    );
    let stats = switch.stats();
    assert_eq!((stats.deflected, stats.dropped_queue), (1, 0));
    let queue = switch.queue_stats(2).expect("the port")[5];
    assert_eq!(
        (queue.dropped_packets_limit, queue.deflected_packets),
        (1, 1)
    );
}

#[test]
fn deflected_packet_is_not_deflected_again() {
    let mut switch = deflecting();
    switch.set_port(2, slow(0, Some(3)), 0).expect("a port");
    switch.set_port(3, slow(0, Some(2)), 0).expect("a port");
    for _ in 0..5 {
        switch.receive(1, &frame(2, 0), 0);
    }
    // One passes port 2, one passes port 3, the others are dropped twice.
    assert_eq!(collect(&mut switch, 0).len(), 2);
    let stats = switch.stats();
    assert_eq!((stats.deflected, stats.dropped_queue), (4, 3));
    assert_eq!(
        stats.received,
        stats.transmitted + stats.dropped_queue,
        "every packet is in the books"
    );
}

#[test]
fn deflection_to_a_removed_port_is_counted() {
    let mut switch = deflecting();
    switch.set_port(2, slow(0, Some(9)), 0).expect("a port");
    for _ in 0..3 {
        switch.receive(1, &frame(2, 0), 0);
    }
    assert_eq!(collect(&mut switch, 0).len(), 1);
    assert_eq!(switch.stats().dropped_no_port, 2);
}

#[test]
fn priority_decides_who_leaves_first() {
    let mut switch = deflecting();
    let shaper = Some(Shaper {
        rate_bps: 32_000,
        burst_bytes: 4,
    });
    let config = PortConfig {
        shaper,
        ..PortConfig::default()
    };
    switch.set_port(2, config, 0).expect("a port");
    // 4 bytes at 32 kbit/s take 1 ms.
    for priority in [0, 1, 7, 4] {
        switch.receive(1, &frame(2, priority), 0);
    }
    let sent = collect(&mut switch, 10_000_000);
    let order: Vec<(u8, u64)> = sent.iter().map(|(_, bytes, at)| (bytes[1], *at)).collect();
    assert_eq!(
        order,
        [(0, 0), (7, 1_000_000), (4, 2_000_000), (1, 3_000_000)]
    );
}
