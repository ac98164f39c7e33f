// SPDX-License-Identifier: Apache-2.0
//! Packets per second of weir's own pipeline on one core, without I/O, as one line of JSON.
//!
//! `cargo run --release -p weir-dataplane --example dataplane_pps [ROUNDS]`

#[path = "../tests/workload/mod.rs"]
mod workload;

use std::time::Instant;
use workload::Fallible;

const FLOWS: u32 = 10_000;
/// A round is one pass over the flows; the result is the median round.
const ROUNDS: usize = 600;

fn main() -> Fallible<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |n| n.parse())?;
    let mut switch = workload::weir()?;
    let frames = workload::flows(FLOWS);
    let (mut now_ns, mut sent) = (0, 0);
    let mut per_round = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        let (end_ns, packets, _) = workload::pass(&mut switch, &frames, now_ns);
        per_round.push(frames.len() as f64 / start.elapsed().as_secs_f64());
        (now_ns, sent) = (end_ns, sent + packets);
    }
    per_round.sort_by(f64::total_cmp);
    let at = |share: f64| per_round[((rounds - 1) as f64 * share) as usize];
    let stats = switch.stats();
    let expected = (rounds * frames.len()) as u64;
    assert_eq!(sent, expected, "every packet or its report comes out");
    assert_eq!(stats.cloned * 100, stats.received, "1 % is reported");
    println!(
        "{{\"dataplane_pps\": {:.0}, \"p10\": {:.0}, \"best\": {:.0}, \"packets\": {expected}, \"reported\": {}}}",
        at(0.5),
        at(0.1),
        at(1.0),
        stats.cloned
    );
    Ok(())
}
