// SPDX-License-Identifier: Apache-2.0
//! Priorities, limits, deflection, line rate, jitter and loss; and that every packet is accounted for.

use super::{Admission, TrafficManager};
use crate::packet::{Packet, Pool};
use crate::ports::{LOSS_ALL_PPB, PortConfig, QueueConfig, Shaper};
use num_bigint::BigInt;
use num_rational::Ratio;
use proptest::prelude::*;

const PORT: u32 = 1;

fn packet(bytes: usize, priority: u8) -> Box<Packet> {
    let mut packet = Box::<Packet>::default();
    packet.fill(&vec![0; bytes]);
    packet.egress_port = PORT;
    packet.priority = priority;
    packet
}

fn manager(config: PortConfig) -> TrafficManager {
    let mut tm = TrafficManager::new(7);
    tm.set_port(PORT, config, 0);
    tm
}

fn shaper(rate_bps: u64, burst_bytes: u64) -> Option<Shaper> {
    Some(Shaper {
        rate_bps,
        burst_bytes,
    })
}

/// Priorities in the order in which they leave, with their times.
fn leave(tm: &mut TrafficManager) -> Vec<(u64, u8)> {
    std::iter::from_fn(|| tm.dequeue(u64::MAX))
        .map(|(at, packet)| (at, packet.priority))
        .collect()
}

/// Arrival times of `frames` put on the link at their times; None: lost.
fn arrivals(tm: &mut TrafficManager, frames: &[u64]) -> Vec<u64> {
    for now_ns in frames {
        let sent = tm.transmit(packet(60, 0), *now_ns, &mut Pool::default());
        sent.expect("the port exists");
    }
    std::iter::from_fn(|| tm.release(u64::MAX))
        .map(|(at, _)| at)
        .collect()
}

#[test]
fn higher_priority_leaves_first_and_equal_ones_in_order() {
    // 8 Mbit/s is 1 us per byte; the first frame empties the bucket.
    let mut tm = manager(PortConfig {
        shaper: shaper(8_000_000, 1_000),
        ..PortConfig::default()
    });
    for priority in [0, 0, 7, 3, 7] {
        let _ = tm.enqueue(packet(1_000, priority), 0);
    }
    assert_eq!(
        leave(&mut tm),
        [
            (1_000_000, 7),
            (2_000_000, 7),
            (3_000_000, 3),
            (4_000_000, 0)
        ]
    );
}

#[test]
fn queue_delayed_by_its_own_shaper_does_not_block_a_lower_priority() {
    let mut config = PortConfig {
        shaper: shaper(8_000_000, 1_000),
        ..PortConfig::default()
    };
    // 1 Mbit/s: 1000 B take 8 ms.
    config.queues[7].shaper = shaper(1_000_000, 1_000);
    let mut tm = manager(config);
    for priority in [7, 7, 0, 0] {
        let _ = tm.enqueue(packet(1_000, priority), 0);
    }
    assert_eq!(
        leave(&mut tm),
        [(1_000_000, 0), (2_000_000, 0), (8_000_000, 7)]
    );
}

#[test]
fn lower_priority_does_not_overtake_one_that_waits_for_tokens_only() {
    // The head of the high queue needs 1500 B, of which 500 are there; the low one would fit and must wait.
    let mut tm = manager(PortConfig {
        shaper: shaper(8_000_000, 2_000),
        ..PortConfig::default()
    });
    assert!(matches!(
        tm.enqueue(packet(1_500, 0), 0),
        Admission::Pass(_)
    ));
    let _ = tm.enqueue(packet(1_500, 7), 0);
    let _ = tm.enqueue(packet(100, 0), 0);
    assert_eq!(leave(&mut tm), [(1_000_000, 7), (1_100_000, 0)]);
}

#[test]
fn a_rate_in_frames_spaces_frames_of_any_length_and_one_leaves_at_once() {
    let mut config = PortConfig::default();
    config.queues[0].rate_pps = Some(1_000);
    let mut tm = manager(config);
    // A millisecond for each frame, whatever its length.
    for bytes in [1500, 60, 700] {
        assert!(!matches!(
            tm.enqueue(packet(bytes, 0), 0),
            Admission::TailDrop(..)
        ));
    }
    assert_eq!(tm.next_dequeue_ns(), Some(1_000_000));
    let queues = tm.port(PORT).expect("the port").queue_stats();
    assert_eq!(
        (queues[0].passed_packets, queues[0].waiting_packets),
        (1, 2)
    );
}

#[test]
fn limits_are_per_queue_and_a_queues_own_replace_the_ports() {
    let mut config = PortConfig {
        shaper: shaper(8, 1),
        queue_limit_packets: Some(2),
        deflect_to: Some(9),
        ..PortConfig::default()
    };
    config.queues[3] = QueueConfig {
        limit_packets: Some(1),
        limit_bytes: Some(130),
        deflect_to: Some(8),
        ..QueueConfig::default()
    };
    let mut tm = manager(config);
    let mut deflections = Vec::new();
    for (bytes, priority) in [(60, 0); 4].into_iter().chain([(60, 3), (60, 3), (101, 3)]) {
        if let Admission::TailDrop(_, to) = tm.enqueue(packet(bytes, priority), 0) {
            deflections.push(to);
        }
    }
    // The first frame goes at once, two wait, the fourth is one too many; of the others one waits.
    assert_eq!(deflections, [Some(9), Some(8), Some(8)]);
    let queues = tm.port(PORT).expect("the port").queue_stats();
    assert_eq!(
        (
            queues[0].passed_packets,
            queues[0].waiting_packets,
            queues[0].dropped_packets_limit
        ),
        (1, 2, 1)
    );
    assert_eq!(
        (
            queues[3].waiting_packets,
            queues[3].dropped_packets_limit,
            queues[3].dropped_bytes_limit,
            queues[3].dropped_bytes
        ),
        (1, 1, 1, 161)
    );
}

#[test]
fn line_spaces_frames_as_ethernet_does_and_delivers_their_last_bit() {
    // 10 Mbit/s: 60 B with 24 B of overhead take 67.2 us on the line; delivery is rounded up to a nanosecond.
    let mut tm = manager(PortConfig {
        line_rate_bps: Some(10_000_000),
        delay_ns: 1_000,
        ..PortConfig::default()
    });
    let mut pool = Pool::default();
    assert!(matches!(tm.enqueue(packet(60, 0), 0), Admission::Pass(_)));
    tm.transmit(packet(60, 0), 0, &mut pool).expect("a port");
    assert!(matches!(tm.enqueue(packet(60, 0), 0), Admission::Queued));
    assert_eq!(tm.next_dequeue_ns(), Some(67_200));
    let (at, second) = tm.dequeue(u64::MAX).expect("it waits");
    tm.transmit(second, at, &mut pool).expect("a port");
    let arrived: Vec<u64> = std::iter::from_fn(|| tm.release(u64::MAX).map(|(at, _)| at)).collect();
    assert_eq!(arrived, [68_200, 135_400]);
}

#[test]
fn loss_has_the_configured_share_and_is_the_same_for_the_same_seed() {
    let lossy = PortConfig {
        loss_ppb: LOSS_ALL_PPB / 10,
        ..PortConfig::default()
    };
    let frames: Vec<u64> = (0..20_000).collect();
    let (one, other) = (
        arrivals(&mut manager(lossy), &frames),
        arrivals(&mut manager(lossy), &frames),
    );
    assert_eq!(one, other);
    // Binomial: mean 2000, standard deviation 42; five of them.
    let lost = frames.len() - one.len();
    println!("lost {lost} of 20000 at 10 %");
    assert!((1_790..=2_210).contains(&lost), "{lost}");
    let all = PortConfig {
        loss_ppb: LOSS_ALL_PPB,
        ..PortConfig::default()
    };
    assert_eq!(arrivals(&mut manager(all), &frames), [0_u64; 0]);
}

#[test]
fn jitter_keeps_order_unless_it_may_reorder() {
    let jittery = |reorder| PortConfig {
        delay_ns: 1_000,
        jitter_ns: 10_000,
        reorder,
        ..PortConfig::default()
    };
    // Numbered by their lengths.
    let order = |config| {
        let mut tm = manager(config);
        for number in 0..200_u64 {
            let frame = packet(60 + number as usize, 0);
            let sent = tm.transmit(frame, number * 100, &mut Pool::default());
            sent.expect("the port exists");
        }
        let mut last_ns = 0;
        std::iter::from_fn(|| tm.release(u64::MAX))
            .map(|(at, packet)| {
                let number = u64::from(packet.length) - 60;
                assert!(at >= last_ns, "output is in order of time");
                last_ns = at;
                assert!((1_000..=11_000 + 20_000).contains(&(at - number * 100)));
                number
            })
            .collect::<Vec<_>>()
    };
    let in_order: Vec<u64> = (0..200).collect();
    assert_eq!(order(jittery(false)), in_order);
    let mut reordered = order(jittery(true));
    assert_ne!(reordered, in_order);
    reordered.sort_unstable();
    assert_eq!(reordered, in_order);
}

#[test]
fn removed_port_takes_its_ready_frames_along() {
    let mut tm = manager(PortConfig::default());
    let mut pool = Pool::default();
    tm.transmit(packet(60, 0), 0, &mut pool).expect("a port");
    assert_eq!(tm.remove_port(PORT, &mut pool), Some(1));
    assert!(tm.release(u64::MAX).is_none());
}

/// A random configuration that does not block everything.
fn configs() -> impl Strategy<Value = PortConfig> {
    let shapers = || prop::option::of((1_000_u64..1_000_000_000, 1_u64..100_000));
    let limits = || prop::option::of(0_u64..20_000);
    let queues = prop::collection::vec((shapers(), limits(), prop::option::of(0_u64..10)), 8);
    (
        shapers(),
        limits(),
        prop::option::of(0_u64..10),
        prop::option::of(1_000_u64..1_000_000_000),
        (0_u64..10_000, 0_u64..10_000, any::<bool>()),
        prop::option::of(0_u32..=LOSS_ALL_PPB),
        queues,
    )
        .prop_map(
            |(port, bytes, packets, line, (delay, jitter, reorder), loss, queues)| {
                let shape = |s: Option<(u64, u64)>| s.and_then(|(rate, burst)| shaper(rate, burst));
                let mut config = PortConfig {
                    shaper: shape(port),
                    queue_limit_bytes: bytes,
                    queue_limit_packets: packets,
                    line_rate_bps: line,
                    delay_ns: delay,
                    jitter_ns: jitter,
                    reorder,
                    loss_ppb: loss.unwrap_or(0),
                    ..PortConfig::default()
                };
                for (queue, (own, bytes, packets)) in config.queues.iter_mut().zip(queues) {
                    queue.shaper = shape(own);
                    (queue.limit_bytes, queue.limit_packets) = (bytes, packets);
                }
                config
            },
        )
}

proptest! {
    /// offered = passed + dropped + removed + waiting for every queue, offered = passed + lost + in flight for the
    /// link, at every moment, also when the configuration changes and queues are emptied meanwhile.
    #[test]
    fn every_packet_is_accounted_for(
        configs in prop::collection::vec(configs(), 1..4),
        events in prop::collection::vec((0_u64..100_000, 0_u8..8, 1_usize..2_000, 0_u8..40), 1..200),
    ) {
        let mut pool = Pool::default();
        let mut tm = manager(configs[0]);
        let (mut now_ns, mut offered, mut released, mut last_ns) = (0, 0_u64, 0_u64, 0);
        for (step, (gap, priority, bytes, kind)) in events.iter().enumerate() {
            now_ns += gap;
            while let Some((at, packet)) = tm.dequeue(now_ns) {
                prop_assert!(at <= now_ns && at >= last_ns, "packets leave in order of time");
                last_ns = at;
                tm.transmit(packet, at, &mut pool).expect("the port exists");
            }
            match kind {
                0 => tm.set_port(PORT, configs[step % configs.len()], now_ns),
                1 => {
                    tm.clear_queues(&mut pool);
                }
                _ => {
                    offered += 1;
                    if let Admission::Pass(packet) = tm.enqueue(packet(*bytes, *priority), now_ns) {
                        tm.transmit(packet, now_ns, &mut pool).expect("the port exists");
                    }
                }
            }
            while tm.release(now_ns).is_some() {
                released += 1;
            }
            let port = tm.port(PORT).expect("the port exists");
            let mut passed = 0;
            for queue in port.queue_stats() {
                prop_assert_eq!(
                    queue.offered_packets,
                    queue.passed_packets + queue.dropped_packets() + queue.removed_packets + queue.waiting_packets
                );
                passed += queue.passed_packets;
            }
            let total: u64 = port.queue_stats().iter().map(|queue| queue.offered_packets).sum();
            prop_assert_eq!(total, offered);
            let link = port.link_stats();
            prop_assert_eq!(link.offered_packets, passed);
            prop_assert_eq!(link.passed_packets, released);
            prop_assert_eq!(
                link.offered_packets,
                link.passed_packets + link.lost_packets + link.in_flight_packets
            );
        }
    }

    /// In exact arithmetic: a line serves frames back to back at its rate, each with 24 bytes of overhead.
    #[test]
    fn line_departures_equal_exact_arithmetic(
        rate_bps in 1_000_u64..400_000_000_000,
        frames in prop::collection::vec((0_u64..3_000_000, 60_usize..1_500), 1..60),
    ) {
        type Exact = Ratio<BigInt>;
        let exact = |v: u64| Exact::from_integer(BigInt::from(v));
        let ns_per_byte = exact(8_000_000_000) / exact(rate_bps);
        let mut tm = manager(PortConfig { line_rate_bps: Some(rate_bps), ..PortConfig::default() });
        let (mut now, mut free, mut expected, mut got) = (0, exact(0), Vec::new(), Vec::new());
        for (gap, bytes) in frames {
            now += gap;
            while let Some((at, _)) = tm.dequeue(now) {
                got.push(at);
            }
            if matches!(tm.enqueue(packet(bytes, 0), now), Admission::Pass(_)) {
                got.push(now);
            }
            // A frame starts at the first nanosecond at which the previous one has left.
            let start = free.ceil().max(exact(now));
            expected.push(u64::try_from(start.to_integer()).expect("a time"));
            free = start + exact(bytes as u64 + 24) * &ns_per_byte;
        }
        while let Some((at, _)) = tm.dequeue(u64::MAX) {
            got.push(at);
        }
        prop_assert_eq!(got, expected);
    }
}
