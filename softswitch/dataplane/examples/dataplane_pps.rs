// SPDX-License-Identifier: Apache-2.0
//! Packets per second of weir's own pipeline, and of a learning switch, on one core and without I/O, as one line of JSON.
//!
//! `cargo run --release -p weir-dataplane --example dataplane_pps [ROUNDS]`

#[path = "../tests/workload/mod.rs"]
mod workload;

use std::time::Instant;
use weir_dataplane::Switch;
use workload::{Fallible, Frame};

const FLOWS: u32 = 10_000;
const STATIONS: u16 = 1_000;
/// A round is one pass over the flows; the result is the median round.
const ROUNDS: usize = 600;

/// Packets per second of rounds, ascending.
struct Rates(Vec<f64>);

impl Rates {
    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }
}

fn main() -> Fallible<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |n| n.parse())?;
    let mut switch = workload::weir()?;
    let weir = measure_weir(&mut switch, &workload::flows(FLOWS), rounds);
    let stats = switch.stats();
    assert_eq!(stats.cloned * 100, stats.received, "1 % is reported");
    let (mut learning, frames) = workload::l2(STATIONS)?;
    let l2 = measure(&mut learning, &frames, rounds);
    println!(
        "{{\"dataplane_pps\": {:.0}, \"p10\": {:.0}, \"best\": {:.0}, \"packets\": {}, \"reported\": {}, \
         \"l2_pps\": {:.0}, \"l2_best\": {:.0}}}",
        weir.at(0.5),
        weir.at(0.1),
        weir.at(1.0),
        stats.received,
        stats.cloned,
        l2.at(0.5),
        l2.at(1.0)
    );
    Ok(())
}

/// A function of its own, so that callgrind can count its instructions alone.
#[inline(never)]
fn measure_weir(switch: &mut Switch, frames: &[Frame], rounds: usize) -> Rates {
    measure(switch, frames, rounds)
}

fn measure(switch: &mut Switch, frames: &[Frame], rounds: usize) -> Rates {
    let (mut now_ns, mut sent) = (0, 0);
    let mut rates = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        let (end_ns, packets, _) = workload::pass(switch, frames, now_ns);
        rates.push(frames.len() as f64 / start.elapsed().as_secs_f64());
        (now_ns, sent) = (end_ns, sent + packets);
    }
    rates.sort_by(f64::total_cmp);
    let expected = (rounds * frames.len()) as u64;
    assert_eq!(sent, expected, "every packet or its report comes out");
    Rates(rates)
}
