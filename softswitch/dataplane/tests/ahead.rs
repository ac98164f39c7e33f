// SPDX-License-Identifier: Apache-2.0
//! Departures ahead of time: the same frames at the same times as one by one.

use crate::common;

use common::{Sent, switch};
use proptest::prelude::*;
use weir_dataplane::{PortConfig, Shaper, Switch};

const PORTS: u32 = 3;

/// A link with at least this delay, with jitter and perhaps a shaper.
fn links(delay_ns: u64) -> impl Strategy<Value = PortConfig> {
    let shaped = prop::option::of(100_000_u64..10_000_000);
    (0..delay_ns, 0..delay_ns, any::<bool>(), shaped).prop_map(
        move |(more_ns, jitter_ns, reorder, rate_bps)| PortConfig {
            delay_ns: delay_ns + more_ns,
            jitter_ns,
            reorder,
            shaper: rate_bps.map(|rate_bps| Shaper {
                rate_bps,
                burst_bytes: 100,
            }),
            ..PortConfig::default()
        },
    )
}

fn linked(links: &[PortConfig]) -> Switch {
    let mut switch = switch("queueing", PORTS);
    for (port, link) in (1..).zip(links) {
        switch.set_port(port, *link, 0).expect("a valid port");
    }
    switch
}

/// Each port's frames in order.
fn by_port(sent: &[Sent]) -> Vec<Vec<&Sent>> {
    let of = |port| sent.iter().filter(move |(of, _, _)| *of == port).collect();
    (1..=PORTS).map(of).collect()
}

proptest! {
    #[test]
    fn frames_released_ahead_are_those_of_the_plain_order(
        (delay_ns, links) in (1_u64..1_000_000).prop_flat_map(|delay_ns| {
            (Just(delay_ns), prop::collection::vec(links(delay_ns), PORTS as usize))
        }),
        frames in prop::collection::vec((0_u64..500_000, 1_u8..=3, 0_u8..8), 1..100),
        batches in prop::collection::vec(1_usize..10, 100),
    ) {
        let mut at_ns = 0;
        let frames: Vec<_> = frames
            .into_iter()
            .enumerate()
            .map(|(mark, (gap_ns, port, priority))| {
                at_ns += gap_ns;
                (at_ns, [port, priority, 0, mark as u8])
            })
            .collect();
        let mut plain = Vec::new();
        let mut ahead = Vec::new();
        {
            let mut record = |port: u32, frame: &[u8], at_ns: u64| plain.push((port, frame.to_vec(), at_ns));
            let mut switch = linked(&links);
            for (at_ns, frame) in &frames {
                switch.advance(*at_ns, &mut record);
                switch.receive(1, frame, *at_ns);
            }
            switch.advance(u64::MAX / 2, &mut record);
        }
        {
            let mut switch = linked(&links);
            let mut left = frames.as_slice();
            for batch in batches {
                let Some((_, later)) = left.split_at_checked(batch) else { break };
                for (at_ns, frame) in &left[..batch] {
                    switch.receive(1, frame, *at_ns);
                }
                // The frames of the next batches have not arrived yet.
                let now_ns = left[batch - 1].0;
                let mut record = |port: u32, frame: &[u8], at_ns: u64| ahead.push((now_ns, (port, frame.to_vec(), at_ns)));
                switch.advance(now_ns, &mut record);
                switch.release(now_ns + delay_ns, &mut record);
                left = later;
            }
            for (at_ns, frame) in left {
                switch.receive(1, frame, *at_ns);
            }
            let mut record = |port: u32, frame: &[u8], at_ns: u64| ahead.push((at_ns, (port, frame.to_vec(), at_ns)));
            switch.advance(u64::MAX / 2, &mut record);
        }
        for (now_ns, (_, _, at_ns)) in &ahead {
            prop_assert!(*at_ns <= now_ns + delay_ns);
        }
        let ahead: Vec<Sent> = ahead.into_iter().map(|(_, sent)| sent).collect();
        prop_assert_eq!(by_port(&plain), by_port(&ahead));
    }
}
