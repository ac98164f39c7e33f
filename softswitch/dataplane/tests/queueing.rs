// SPDX-License-Identifier: Apache-2.0
//! Queueing metadata, exact in virtual time: enqueue and dequeue times, and the depths at both.
//!
//! Frames are 4 bytes long and the shaper passes 4 bytes per millisecond, with a burst of 4.

use crate::common;

use common::{Sent, collect, program, switch};
use weir_dataplane::{PortConfig, Replica, Shaper, Switch, SwitchConfig};

const MS: u64 = 1_000_000;
const HEADER_BYTES: usize = 28;

/// The queueing metadata in a transmitted frame.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    enq_timestamp_us: u64,
    enq_qdepth: u64,
    deq_timedelta_us: u64,
    deq_qdepth: u64,
}

fn seen(enq_timestamp_us: u64, enq_qdepth: u64, deq_timedelta_us: u64, deq_qdepth: u64) -> Seen {
    Seen {
        enq_timestamp_us,
        enq_qdepth,
        deq_timedelta_us,
        deq_qdepth,
    }
}

/// Port, last byte and queueing metadata of each frame; `start_ns` is the switch's.
fn read((port, bytes, left_ns): &Sent, start_ns: u64) -> (u32, u8, Seen) {
    let number = |from: usize, to: usize| {
        let bytes = bytes[from..to].iter();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    let queue = seen(
        number(6, 10),
        number(10, 14),
        number(14, 18),
        number(18, 22),
    );
    assert_eq!(bytes.len(), HEADER_BYTES + 4);
    // Egress runs when the packet leaves its queue, and an idle link delays nothing.
    assert_eq!(
        number(22, 28),
        (left_ns - start_ns) / 1_000,
        "egress_global_timestamp"
    );
    assert_eq!(
        number(0, 6),
        queue.enq_timestamp_us,
        "ingress takes no time"
    );
    (*port, bytes[HEADER_BYTES + 3], queue)
}

fn all(sent: &[Sent], start_ns: u64) -> Vec<(u32, u8, Seen)> {
    sent.iter().map(|sent| read(sent, start_ns)).collect()
}

/// A frame to a port; `mark` identifies it.
fn frame(port: u8, priority: u8, mark: u8) -> [u8; 4] {
    [port, priority, 0, mark]
}

/// Passes 4 bytes at once and then 4 per millisecond.
fn shaped() -> PortConfig {
    PortConfig {
        shaper: Some(Shaper {
            rate_bps: 32_000,
            burst_bytes: 4,
        }),
        ..PortConfig::default()
    }
}

fn shaping_port_2() -> Switch {
    let mut switch = switch("queueing", 3);
    switch.set_port(2, shaped(), 0).expect("a port");
    switch
}

#[test]
fn packets_carry_enqueue_time_queueing_time_and_depths() {
    let mut switch = shaping_port_2();
    for (at_us, mark) in [(1_000, b'a'), (1_000, b'b'), (1_300, b'c'), (1_500, b'd')] {
        switch.receive(1, &frame(2, 0, mark), at_us * 1_000);
    }
    let sent = collect(&mut switch, 10 * MS);
    // `a` takes the burst; the others leave 1 ms after one another. A packet that leaves no longer counts for the
    // depth.
    assert_eq!(
        all(&sent, 0),
        [
            (2, b'a', seen(1_000, 0, 0, 0)),
            (2, b'b', seen(1_000, 0, 1_000, 2)),
            (2, b'c', seen(1_300, 1, 1_700, 1)),
            (2, b'd', seen(1_500, 2, 2_500, 0)),
        ]
    );
    assert_eq!(sent.last().map(|(_, _, left_ns)| *left_ns), Some(4 * MS));
}

#[test]
fn a_packet_whose_priority_names_no_queue_is_dropped_and_counted() {
    let config = SwitchConfig {
        queues: 2,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program("queueing"), config);
    for port in 1..=3 {
        switch
            .set_port(port, PortConfig::default(), 0)
            .expect("a port");
    }
    for priority in [0, 1, 2, 7] {
        switch.receive(1, &frame(2, priority, priority), 0);
    }
    let left = all(&collect(&mut switch, MS), 0);
    let marks: Vec<u8> = left.iter().map(|(_, mark, _)| *mark).collect();
    assert_eq!(marks, [0, 1]);
    assert_eq!(switch.stats().dropped_queue, 2);
}

#[test]
fn depth_is_that_of_the_queue_of_the_packets_priority() {
    let mut switch = shaping_port_2();
    switch.set_port(3, shaped(), 0).expect("a port");
    for (port, priority, mark) in [
        (2, 0, b'a'),
        (2, 0, b'b'),
        (2, 7, b'c'),
        (3, 0, b'x'),
        (3, 0, b'y'),
        (2, 3, b'd'),
    ] {
        switch.receive(1, &frame(port, priority, mark), 0);
    }
    let mut left = all(&collect(&mut switch, 10 * MS), 0);
    left.sort_by_key(|(port, ..)| *port);
    assert_eq!(
        left,
        [
            (2, b'a', seen(0, 0, 0, 0)),
            (2, b'c', seen(0, 0, 1_000, 0)),
            (2, b'd', seen(0, 0, 2_000, 0)),
            (2, b'b', seen(0, 0, 3_000, 0)),
            (3, b'x', seen(0, 0, 0, 0)),
            (3, b'y', seen(0, 0, 1_000, 0)),
        ]
    );
}

#[test]
fn times_are_whole_microseconds_since_the_switch_started() {
    let start_ns = 5_000_000_123;
    let config = SwitchConfig {
        start_ns,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program("queueing"), config);
    switch.set_port(2, shaped(), start_ns).expect("a port");
    switch.receive(1, &frame(2, 0, b'a'), start_ns + 999);
    switch.receive(1, &frame(2, 0, b'b'), start_ns + 1_999);
    let left = all(&collect(&mut switch, start_ns + 10 * MS), start_ns);
    // `b` leaves 1 ms after `a`, at 1,000,999 ns: 1,000 µs less the 1 µs at which it was queued.
    assert_eq!(
        left,
        [(2, b'a', seen(0, 0, 0, 0)), (2, b'b', seen(1, 0, 999, 0))]
    );
}

#[test]
fn each_multicast_copy_carries_the_metadata_of_its_own_queue() {
    let mut switch = shaping_port_2();
    let replicas = [2, 3].map(|port| Replica { port, instance: 1 });
    switch
        .insert_multicast_group(1, &replicas)
        .expect("a new group");
    for mark in [b'a', b'b', b'c'] {
        switch.receive(1, &frame(0xff, 0, mark), 2 * MS);
    }
    let mut left = all(&collect(&mut switch, 10 * MS), 0);
    left.sort_by_key(|(port, ..)| *port);
    assert_eq!(
        left,
        [
            (2, b'a', seen(2_000, 0, 0, 0)),
            (2, b'b', seen(2_000, 0, 1_000, 1)),
            (2, b'c', seen(2_000, 1, 2_000, 0)),
            (3, b'a', seen(2_000, 0, 0, 0)),
            (3, b'b', seen(2_000, 0, 0, 0)),
            (3, b'c', seen(2_000, 0, 0, 0)),
        ]
    );
}

#[test]
fn a_wait_of_more_than_32_bits_of_microseconds_keeps_the_low_bits() {
    let mut switch = switch("queueing", 3);
    let slow = PortConfig {
        shaper: Some(Shaper {
            rate_bps: 1,
            burst_bytes: 4,
        }),
        ..PortConfig::default()
    };
    switch.set_port(2, slow, 0).expect("a port");
    let longest = 135;
    for mark in 0..=longest {
        switch.receive(1, &frame(2, 0, mark), 0);
    }
    let sent = collect(&mut switch, u64::MAX);
    let (_, mark, last) = read(&sent[usize::from(longest)], 0);
    // 32 bits at 1 bit/s for each of the 135 before it: 4,320 s, just more than 2^32 µs.
    let waited_us = u64::from(longest) * 32 * 1_000_000;
    assert!(waited_us > 1 << 32);
    assert_eq!(mark, longest);
    assert_eq!(
        last,
        seen(0, u64::from(longest) - 1, waited_us & 0xffff_ffff, 0)
    );
}
