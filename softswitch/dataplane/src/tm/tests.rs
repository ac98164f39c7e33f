// SPDX-License-Identifier: Apache-2.0
use super::{Admission, TrafficManager};
use crate::packet::{Packet, Pool};
use crate::ports::{PortConfig, Shaper};
use num_bigint::BigInt;
use num_rational::Ratio;
use proptest::prelude::*;

fn packet(bytes: usize) -> Box<Packet> {
    let mut packet = Box::<Packet>::default();
    packet.fill(&vec![0; bytes]);
    packet.egress_port = 1;
    packet
}

fn manager(config: PortConfig) -> TrafficManager {
    let mut tm = TrafficManager::default();
    tm.set_port(1, config, 0);
    tm
}

fn shaped(rate_bps: u64, burst_bytes: u64) -> PortConfig {
    PortConfig {
        shaper: Some(Shaper {
            rate_bps,
            burst_bytes,
        }),
        ..PortConfig::default()
    }
}

/// Departure times of frames that all arrive at 0.
fn departures(tm: &mut TrafficManager, sizes: &[usize]) -> Vec<u64> {
    let mut times = Vec::new();
    for size in sizes {
        match tm.enqueue(packet(*size), 0) {
            Admission::Pass(_) => times.push(0),
            Admission::Queued => {}
            _ => panic!("dropped"),
        }
    }
    while let Some((at, _)) = tm.dequeue(u64::MAX) {
        times.push(at);
    }
    times
}

#[test]
fn burst_passes_at_once_and_the_rest_at_the_rate() {
    // 8 Mbit/s is 1 byte per us; two frames of 1000 B fill the burst of 2000 B, then one every 1000 us.
    let mut tm = manager(shaped(8_000_000, 2_000));
    assert_eq!(
        departures(&mut tm, &[1_000; 5]),
        [0, 0, 1_000_000, 2_000_000, 3_000_000]
    );
}

#[test]
fn frame_longer_than_the_bucket_waits_for_a_full_one_and_leaves_debt() {
    // 500 B bucket: 1000 B leave at 0 with 500 B debt; the next needs 500 B debt + 500 B bucket = 1000 us.
    let mut tm = manager(shaped(8_000_000, 500));
    assert_eq!(
        departures(&mut tm, &[1_000, 1_000, 100]),
        [0, 1_000_000, 1_600_000]
    );
}

#[test]
fn tail_drop_counts_packets_that_would_exceed_the_limit() {
    let mut tm = manager(PortConfig {
        queue_limit_bytes: Some(2_500),
        ..shaped(8_000_000, 1_000)
    });
    let outcome = |tm: &mut TrafficManager, bytes| match tm.enqueue(packet(bytes), 0) {
        Admission::Pass(_) => "pass",
        Admission::Queued => "queued",
        Admission::TailDrop(..) => "drop",
        Admission::NoPort(_) => "no port",
    };
    assert_eq!(outcome(&mut tm, 1_000), "pass");
    assert_eq!(outcome(&mut tm, 1_000), "queued");
    assert_eq!(outcome(&mut tm, 1_501), "drop");
    assert_eq!(outcome(&mut tm, 1_500), "queued");
    assert_eq!(outcome(&mut tm, 1), "drop");
    let stats = tm.port(1).expect("the port").snapshot();
    assert_eq!((stats.queue_drops, stats.queue_drop_bytes), (2, 1_502));
    assert_eq!((stats.queued_packets, stats.queued_bytes), (2, 2_500));
    let mut other = packet(60);
    other.egress_port = 2;
    assert!(matches!(tm.enqueue(other, 0), Admission::NoPort(_)));
}

#[test]
fn delay_line_keeps_order_when_the_delay_shrinks() {
    let mut tm = manager(PortConfig {
        delay_ns: 1_000,
        ..PortConfig::default()
    });
    tm.transmit(packet(60), 0, &mut Pool::default())
        .expect("the port exists");
    tm.set_port(1, PortConfig::default(), 10);
    tm.transmit(packet(61), 10, &mut Pool::default())
        .expect("the port exists");
    assert_eq!(tm.next_release_ns(), Some(1_000));
    assert!(tm.release(999).is_none());
    let lengths: Vec<(u64, u32)> =
        std::iter::from_fn(|| tm.release(1_000).map(|(at, packet)| (at, packet.length))).collect();
    assert_eq!(lengths, [(1_000, 60), (1_000, 61)]);
}

#[test]
fn new_rate_applies_to_queued_packets() {
    let mut tm = manager(shaped(8_000, 1_000));
    assert!(matches!(tm.enqueue(packet(1_000), 0), Admission::Pass(_)));
    assert!(matches!(tm.enqueue(packet(1_000), 0), Admission::Queued));
    assert_eq!(tm.next_dequeue_ns(), Some(1_000_000_000));
    // Half a second brings half a frame; the other half takes 500 us at 8 Mbit/s.
    tm.set_port(1, shaped(8_000_000, 1_000), 500_000_000);
    assert_eq!(tm.dequeue(u64::MAX).map(|(at, _)| at), Some(500_500_000));
    assert!(tm.dequeue(u64::MAX).is_none());
}

#[test]
fn queued_packets_leave_a_port_that_becomes_unshaped() {
    let mut tm = manager(shaped(8, 1));
    assert!(matches!(tm.enqueue(packet(10), 0), Admission::Pass(_)));
    assert!(matches!(tm.enqueue(packet(10), 0), Admission::Queued));
    tm.set_port(1, PortConfig::default(), 7);
    assert_eq!(tm.dequeue(7).map(|(at, _)| at), Some(7));
    assert!(matches!(tm.enqueue(packet(10), 7), Admission::Pass(_)));
}

#[test]
fn packets_of_a_held_port_wait_and_leave_one_at_a_time() {
    let mut tm = manager(PortConfig {
        queue_limit_packets: Some(2),
        ..PortConfig::default()
    });
    tm.hold(1, true, 0);
    assert!(!tm.try_bypass(&packet(60)));
    let offered: Vec<_> = (60..63).map(|bytes| tm.enqueue(packet(bytes), 0)).collect();
    assert!(matches!(
        offered[..],
        [
            Admission::Queued,
            Admission::Queued,
            Admission::TailDrop(..)
        ]
    ));
    assert_eq!((tm.next_dequeue_ns(), tm.depth(1, 0)), (None, 2));
    let length = |packet: Option<Box<Packet>>| packet.map(|packet| packet.length);
    assert_eq!(length(tm.dequeue_held(1, 5)), Some(60));
    assert!(tm.dequeue(u64::MAX).is_none());
    // The next one keeps its place when the port is no longer held.
    tm.hold(1, false, 7);
    assert_eq!(
        tm.dequeue(7).map(|(at, packet)| (at, packet.length)),
        Some((7, 61))
    );
    assert_eq!(length(tm.dequeue_held(1, 7)), None);
    assert!(tm.try_bypass(&packet(60)));
}

#[test]
fn a_held_port_keeps_to_its_rate() {
    let mut tm = manager(shaped(8_000, 1_000));
    tm.hold(1, true, 0);
    assert!(matches!(tm.enqueue(packet(1_000), 0), Admission::Queued));
    assert!(matches!(tm.enqueue(packet(1_000), 0), Admission::Queued));
    assert!(tm.dequeue_held(1, 0).is_some());
    assert!(tm.dequeue_held(1, 999_999_999).is_none());
    tm.hold(1, false, 999_999_999);
    assert_eq!(tm.next_dequeue_ns(), Some(1_000_000_000));
}

#[test]
fn removed_port_returns_its_packets() {
    let mut tm = manager(PortConfig {
        delay_ns: 5,
        ..shaped(8, 1)
    });
    tm.transmit(packet(60), 0, &mut Pool::default())
        .expect("the port exists");
    let _ = tm.enqueue(packet(10), 0);
    let _ = tm.enqueue(packet(10), 0);
    assert_eq!(tm.remove_port(1, &mut Pool::default()), Some(2));
    assert_eq!(tm.remove_port(1, &mut Pool::default()), None);
    assert!(tm.dequeue(u64::MAX).is_none() && tm.release(u64::MAX).is_none());
}

proptest! {
    /// In exact arithmetic: a frame leaves at the first nanosecond at which the bucket holds it, after its forerunners.
    #[test]
    fn departures_equal_exact_arithmetic(
        rate_bps in 1_000_u64..400_000_000_000,
        burst_bytes in 1_500_u64..1_000_000,
        frames in prop::collection::vec((0_u64..3_000_000, 60_usize..1_500), 1..60),
    ) {
        type Exact = Ratio<BigInt>;
        let exact = |v: u64| Exact::from_integer(BigInt::from(v));
        let per_ns = exact(rate_bps) / exact(8_000_000_000);
        let mut tm = manager(shaped(rate_bps, burst_bytes));
        let (mut tokens, mut at, mut now) = (exact(burst_bytes), 0_u64, 0_u64);
        let mut expected = Vec::new();
        let mut got = Vec::new();
        for (gap, bytes) in frames {
            now += gap;
            while let Some((time, _)) = tm.dequeue(now) {
                got.push(time);
            }
            if matches!(tm.enqueue(packet(bytes), now), Admission::Pass(_)) {
                got.push(now);
            }
            // Reference: start when the frame is at the head.
            let head = now.max(at);
            tokens = (tokens + &per_ns * exact(head - at)).min(exact(burst_bytes));
            let missing = exact(bytes as u64) - &tokens;
            let wait = if missing > exact(0) { (missing / &per_ns).ceil() } else { exact(0) };
            let wait = u64::try_from(wait.to_integer()).expect("a short wait");
            tokens = (tokens + &per_ns * exact(wait)).min(exact(burst_bytes)) - exact(bytes as u64);
            at = head + wait;
            expected.push(at);
        }
        while let Some((time, _)) = tm.dequeue(u64::MAX) {
            got.push(time);
        }
        prop_assert_eq!(got, expected);
    }
}
