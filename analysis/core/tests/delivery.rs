// SPDX-License-Identifier: Apache-2.0
//! Delivery rates against the rate of the bottleneck in simulated transfers.

use crate::support;

use std::io::Write;

use support::cut;
use support::simulator::{Config, MSS, Run, Simulator};
use tempfile::NamedTempFile;
use weir_core::infer::DeliveryRate;
use weir_core::losses::read_losses;

const LINK: u64 = 40_000_000;
/// Ethernet, IPv4, TCP with timestamps.
const FRAME: u64 = MSS + 66;
/// Time between two segments at the end of the link.
const SPACING_NS: i64 = (FRAME * 8_000_000_000 / LINK) as i64;
const PACE_NS: i64 = 100_000;

fn linked() -> Config {
    Config {
        segments: 8000,
        link: Some(LINK),
        pace_ns: PACE_NS,
        ..Config::default()
    }
}

fn rates(run: &Run) -> Vec<DeliveryRate> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(&run.sender.0).expect("room for it");
    let found = read_losses(file.path()).expect("a capture");
    let sender = found.delivery_rates.iter().filter(|(flow, _)| *flow == 0);
    sender.map(|(_, rate)| *rate).collect()
}

/// The link needs at least this long for `segments` new segments, less one that a delayed ACK held back.
fn no_more_than_the_link_carries(name: &str, rates: &[DeliveryRate]) {
    for rate in rates {
        let segments = rate.delivered_bytes.div_ceil(MSS) as i64;
        let least_ns = (segments - 1) * SPACING_NS;
        assert!(rate.interval_ns >= least_ns, "{name}: {rate:?}");
    }
}

/// Segments on the link during the interval of `rate`, plus one for an ACK that covers two, and two sends.
fn as_much_as_the_link_carries(rate: &DeliveryRate) -> bool {
    let segments = (rate.delivered_bytes / MSS) as i64;
    rate.interval_ns <= (segments + 1) * SPACING_NS + 2 * PACE_NS
}

fn median_bps(rates: &[DeliveryRate]) -> f64 {
    let mut all: Vec<f64> = rates.iter().map(DeliveryRate::bits_per_second).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

const GOODPUT_BPS: f64 = LINK as f64 * MSS as f64 / FRAME as f64;

#[test]
fn a_full_link_gives_its_rate_at_every_acknowledgment() {
    let found = rates(&Simulator::run(linked()));
    assert!(found.len() > 3500, "{} samples", found.len());
    no_more_than_the_link_carries("link", &found);
    // The link is full when the first window has come back, and until the last window is sent.
    let full = &found[120..found.len() - 120];
    let wrong: Vec<_> = full
        .iter()
        .filter(|rate| !as_much_as_the_link_carries(rate))
        .take(5)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(full.iter().all(|rate| !rate.retransmission));
    println!("median {} bit/s of {GOODPUT_BPS}", median_bps(full));
}

#[test]
fn losses_and_duplicates_never_raise_a_rate_above_the_link() {
    for (seed, loss, needless) in [(2, 0.005, 0.0), (3, 0.02, 0.01), (4, 0.05, 0.0)] {
        let found = rates(&Simulator::run(Config {
            seed,
            loss,
            needless,
            ..linked()
        }));
        let name = format!("loss {loss}");
        no_more_than_the_link_carries(&name, &found);
        let again = found.iter().filter(|rate| rate.retransmission).count();
        println!(
            "{name}: {} samples, {again} of retransmissions, median {} bit/s of {GOODPUT_BPS}",
            found.len(),
            median_bps(&found)
        );
        assert!(again > 10, "{name}: {again} samples of retransmissions");
    }
}

#[test]
fn a_policer_delivers_no_more_than_its_rate_and_one_burst() {
    let (rate_bps, burst) = (20_000_000_u64, 60_000);
    let run = Simulator::run(Config {
        seed: 5,
        policer: Some((rate_bps, burst)),
        ..Config::default()
    });
    let found = rates(&run);
    assert!(found.len() > 3000, "{} samples", found.len());
    for rate in &found {
        let frames = rate.delivered_bytes.div_ceil(MSS) * FRAME;
        let tokens = rate_bps * rate.interval_ns as u64 / 8_000_000_000 + burst;
        // One segment may have waited for a delayed ACK.
        assert!(frames <= tokens + FRAME, "{rate:?}");
    }
}

#[test]
fn cut_acknowledgments_never_raise_a_rate_above_the_link() {
    for snap_bytes in [64, 70, 80, 96] {
        let mut run = Simulator::run(Config {
            seed: 6,
            loss: 0.003,
            ..linked()
        });
        run.sender.0 = cut(&run.sender.0, snap_bytes);
        let found = rates(&run);
        println!("snap {snap_bytes}: {} samples", found.len());
        assert!(found.len() > 500, "snap {snap_bytes}: {}", found.len());
        no_more_than_the_link_carries(&format!("snap {snap_bytes}"), &found);
    }
}

#[test]
fn wrapping_sequence_numbers_change_no_rate() {
    let base = Config {
        seed: 7,
        loss: 0.01,
        ..linked()
    };
    let wrapped = Config {
        initial_seq: u32::MAX - 3_000_000,
        initial_ts: u32::MAX - 700,
        ..base.clone()
    };
    let found = rates(&Simulator::run(base));
    assert!(found.len() > 3000, "{} samples", found.len());
    assert_eq!(found, rates(&Simulator::run(wrapped)));
}
