// SPDX-License-Identifier: Apache-2.0
use std::collections::VecDeque;

use super::*;

struct Stamps(VecDeque<u64>);

impl Source for Stamps {
    fn oldest_ns(&self) -> Option<u64> {
        self.0.front().copied()
    }
}

fn merged(ports: &[&[u64]]) -> Vec<(usize, u64)> {
    let mut sources: Vec<Stamps> = ports
        .iter()
        .map(|p| Stamps(p.iter().copied().collect()))
        .collect();
    let mut order = Vec::new();
    while let Some(port) = earliest(&sources) {
        if let Some(stamp) = sources[port].0.pop_front() {
            order.push((port, stamp));
        }
    }
    order
}

#[test]
fn frames_of_all_ports_come_in_the_order_of_their_stamps() {
    assert_eq!(
        merged(&[&[10, 40], &[], &[20, 30, 50]]),
        [(0, 10), (2, 20), (2, 30), (0, 40), (2, 50)]
    );
}

#[test]
fn equal_stamps_go_to_the_lower_port_and_no_frame_is_lost() {
    assert_eq!(merged(&[&[7, 7], &[7]]), [(0, 7), (0, 7), (1, 7)]);
}

#[test]
fn a_step_of_stamps_inside_one_ring_keeps_the_rings_order() {
    assert_eq!(merged(&[&[30, 5], &[10]]), [(1, 10), (0, 30), (0, 5)]);
}

#[test]
fn arrivals_are_converted_and_kept_monotonic_and_out_of_the_future() {
    let mut clock = ArrivalClock::default();
    let offset = 1_000_000;
    assert_eq!(clock.arrival_ns(1_000_100, offset, 500), 100);
    assert_eq!(
        clock.arrival_ns(1_000_050, offset, 500),
        100,
        "not before an earlier frame"
    );
    assert_eq!(
        clock.arrival_ns(1_009_000, offset, 500),
        500,
        "not in the future"
    );
    assert_eq!(
        clock.arrival_ns(1_000_200, offset, 600),
        500,
        "the clamped time counts as the last one"
    );
}

#[test]
fn a_stamp_from_before_the_start_counts_as_the_start() {
    assert_eq!(ArrivalClock::default().arrival_ns(5, 1_000, 10), 0);
}
