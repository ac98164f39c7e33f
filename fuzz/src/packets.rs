// SPDX-License-Identifier: Apache-2.0
//! Frames, random and plausible, through every program, with the program's initial entries and random ones.

use std::ops::Range;

use fastrand::Rng;
use weir_dataplane::{
    ActionCall, CloneSession, KeyMatch, LOSS_ALL_PPB, LogLevel, MatchKind, MeterConfig,
    PathLogConfig, PortConfig, Program, Replica, Shaper, Switch, SwitchConfig, TableEntry, TableId,
};

use crate::bytes;
use crate::corpus::Corpus;

const FRAMES: usize = 64;
const PORTS: Range<u32> = 0..4;
const ETHER_TYPES: [[u8; 2]; 7] = [
    [8, 0],
    [0x86, 0xdd],
    [0x81, 0],
    [8, 6],
    [0x88, 0xb5],
    [0x88, 0xcc],
    [0, 0],
];

/// Runs one program on many frames. True: it forwarded some.
pub fn run(corpus: &Corpus, random: &mut Rng) -> Result<bool, String> {
    let at = random.usize(..corpus.programs.len());
    let program = Program::from_json(&corpus.programs[at].json).map_err(|e| e.to_string())?;
    exercise(program, random, FRAMES)
}

/// A rate of any magnitude.
fn rate_bps(random: &mut Rng) -> u64 {
    let most_bps = 1 << random.u32(1..40);
    random.u64(1..=most_bps)
}

fn shaper(random: &mut Rng) -> Option<Shaper> {
    random.bool().then(|| Shaper {
        rate_bps: rate_bps(random),
        burst_bytes: random.u64(1..100_000),
    })
}

/// A link with a random selection of its settings.
fn link(random: &mut Rng) -> PortConfig {
    let mut config = PortConfig {
        shaper: shaper(random),
        queue_limit_bytes: random.bool().then(|| random.u64(..100_000)),
        queue_limit_packets: random.bool().then(|| random.u64(..100)),
        deflect_to: random.bool().then(|| random.u32(..6)),
        line_rate_bps: random.bool().then(|| rate_bps(random)),
        delay_ns: random.u64(..1_000_000),
        jitter_ns: random.u64(..1_000_000),
        reorder: random.bool(),
        loss_ppb: random.u32(..=LOSS_ALL_PPB),
        ..PortConfig::default()
    };
    for queue in &mut config.queues {
        queue.shaper = shaper(random);
    }
    config
}

/// A switch with the program, random entries, groups and ports.
fn ready(program: Program, random: &mut Rng) -> Switch {
    let config = SwitchConfig {
        seed: random.u64(..),
        native: random.bool(),
        path_log: (random.u8(..4) == 0).then(|| PathLogConfig {
            level: LogLevel::Trace,
            dump_bytes: random.usize(..100),
        }),
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program, config);
    for port in PORTS {
        // A port may be refused; the switch then runs without it.
        let _ = switch.set_port(port, link(random), 0);
    }
    populate(&mut switch, random);
    switch
}

/// Runs a program with random entries, groups and frames. True: it sent some frames.
///
/// # Errors
/// When a packet is missing from the counters.
pub fn exercise(program: Program, random: &mut Rng, frames: usize) -> Result<bool, String> {
    let mut switch = ready(program, random);
    let mut now_ns = 0_u64;
    let mut left = 0_u64;
    for _ in 0..frames {
        let frame = frame(random);
        now_ns = match random.u8(..20) {
            0 => now_ns.saturating_add(random.u64(..)),
            1 => now_ns.saturating_sub(random.u64(..1_000)),
            _ => now_ns.saturating_add(random.u64(..1_000_000)),
        };
        switch.receive(random.u32(..6), &frame, now_ns);
        if random.u8(..4) == 0 {
            switch.advance(now_ns, &mut |_: u32, _: &[u8], _: u64| left += 1);
            switch.drain_digests(|_| {});
            switch.drain_path_log(|_, _| {});
        }
    }
    left += settle(&mut switch)?;
    Ok(left > 0)
}

/// Advances time to the end and checks the counters; returns the number of frames sent.
fn settle(switch: &mut Switch) -> Result<u64, String> {
    let mut left = 0;
    switch.advance(u64::MAX, &mut |_: u32, _: &[u8], _: u64| left += 1);
    switch.drain_digests(|_| {});
    let ports = PORTS.map(|port| switch.port_stats(port));
    let elsewhere = ports.map(|port| port.queued_packets + port.in_flight + port.link_lost);
    let (stats, elsewhere) = (switch.stats(), elsewhere.sum::<u64>());
    if stats.begun() == stats.ended() + elsewhere {
        Ok(left)
    } else {
        Err(format!(
            "packets are missing from the counters, {elsewhere} on links and in queues: {stats:?}"
        ))
    }
}

/// A frame: random bytes, or headers that a parser might accept.
pub fn frame(random: &mut Rng) -> Vec<u8> {
    let mut frame = bytes::random(random, 300);
    if frame.len() >= 14 && random.u8(..8) > 0 {
        frame[..6].fill(0);
        frame[5] = random.u8(..4);
        let ether_type = random.choice(ETHER_TYPES).unwrap_or_default();
        frame[12..14].copy_from_slice(&ether_type);
        if frame.len() >= 34 && random.u8(..8) > 0 {
            frame[14] = random
                .choice([0x45, 0x45, 0x45, 0x46, 0x4f, 0x60])
                .unwrap_or(0x45);
            frame[23] = random.choice([6, 17, 1, 4, 41]).unwrap_or(6);
        }
    }
    if random.u8(..200) == 0 {
        frame.resize(random.usize(..70_000), 0);
    }
    frame
}

fn populate(switch: &mut Switch, random: &mut Rng) {
    let replicas: Vec<Replica> = (0..random.u32(1..6))
        .map(|port| Replica { port, instance: 1 })
        .collect();
    let _ = switch.insert_multicast_group(random.u16(..3).into(), &replicas);
    for session in 0..random.u32(..9) {
        let session_config = CloneSession {
            replicas: replicas.clone(),
            truncate_bytes: random.bool().then(|| random.usize(1..200)),
            ..CloneSession::default()
        };
        let _ = switch.insert_clone_session(session, &session_config);
    }
    let tables = switch.info().tables.len();
    for index in 0..tables {
        for _ in 0..random.usize(..6) {
            if let Some((table, entry)) = entry(switch, random, index) {
                let _ = switch.insert_entry(table, &entry);
            }
        }
    }
    let names: Vec<String> = switch
        .info()
        .meters
        .iter()
        .map(|m| m.name.clone())
        .collect();
    for name in names {
        if let Some(meter) = switch.info().meter(&name) {
            let (cir, cbs) = (random.u64(..1 << 34), random.u64(..1 << 20));
            let config = match random.u8(..3) {
                0 => MeterConfig::TwoRateThreeColour {
                    cir,
                    cbs,
                    pir: cir.saturating_mul(2),
                    pbs: random.u64(..),
                },
                1 => MeterConfig::SingleRateThreeColour {
                    cir,
                    cbs,
                    ebs: random.u64(..),
                },
                _ => MeterConfig::SingleRateTwoColour { cir, cbs },
            };
            let _ = switch.set_meter(meter, random.u64(..4), Some(config));
        }
    }
}

/// A value that fits in most cases.
fn value(random: &mut Rng, width_bits: u32) -> Vec<u8> {
    let length = (width_bits as usize).div_ceil(8);
    let mut value = vec![0; length];
    if random.bool() {
        random.fill(&mut value);
        if let (Some(first), 1..) = (value.first_mut(), width_bits % 8) {
            *first &= (1 << (width_bits % 8)) - 1;
        }
    } else if let Some(last) = value.last_mut() {
        *last = random.u8(..2);
    }
    value
}

fn entry(switch: &Switch, random: &mut Rng, index: usize) -> Option<(TableId, TableEntry)> {
    let info = switch.info();
    let table = info.tables.get(index)?;
    let id = info.table(&table.name)?;
    let key = table
        .key
        .iter()
        .map(|field| match (field.kind, random.u8(..3)) {
            (MatchKind::Exact, _) => KeyMatch::Exact(value(random, field.width_bits)),
            (_, 0) => KeyMatch::Any,
            (MatchKind::Lpm, _) => KeyMatch::Lpm {
                value: value(random, field.width_bits),
                prefix_len: field.width_bits,
            },
            (MatchKind::Range, _) => KeyMatch::Range {
                low: vec![0],
                high: value(random, field.width_bits),
            },
            (MatchKind::Optional, _) => KeyMatch::Exact(value(random, field.width_bits)),
            _ => {
                let mask = value(random, field.width_bits);
                KeyMatch::Ternary {
                    value: mask.clone(),
                    mask,
                }
            }
        });
    let key = key.collect();
    let action = *random.choice(&table.actions)?;
    let params = &info.actions.get(action.0 as usize)?.params;
    let args = params.iter().map(|p| value(random, p.width_bits)).collect();
    let entry = TableEntry {
        key,
        priority: random.i32(0..3),
        action: ActionCall { action, args },
    };
    Some((id, entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each program with entries, and frames of each kind, as `with` changes them.
    fn hostile(with: impl Fn(&mut Switch, &[u8], &mut Rng)) {
        let corpus = Corpus::load().expect("the repository's programs");
        let mut random = Rng::with_seed(1);
        for compiled in &corpus.programs {
            let program = Program::from_json(&compiled.json).expect("a program of the repository");
            for ether_type in ETHER_TYPES {
                let mut switch = ready(program.clone(), &mut random);
                let mut frame: Vec<u8> =
                    std::iter::repeat_with(|| random.u8(..)).take(150).collect();
                frame[12..14].copy_from_slice(&ether_type);
                frame[14] = 0x46;
                with(&mut switch, &frame, &mut random);
                if let Err(missing) = settle(&mut switch) {
                    panic!("{missing}");
                }
            }
        }
    }

    #[test]
    fn every_program_counts_frames_cut_at_each_byte() {
        hostile(|switch, frame, random| {
            for length in 0..=frame.len() {
                switch.receive(random.u32(PORTS), &frame[..length], 0);
            }
            assert_eq!(switch.stats().received, frame.len() as u64 + 1);
        });
    }

    #[test]
    fn every_program_counts_frames_with_changed_bytes() {
        hostile(|switch, frame, random| {
            for _ in 0..300 {
                let mut frame = frame.to_vec();
                bytes::mutate(random, &mut frame);
                switch.receive(random.u32(PORTS), &frame, 0);
            }
            assert_eq!(switch.stats().received, 300);
        });
    }

    #[test]
    fn every_program_counts_frames_with_each_bit_of_a_header_flipped() {
        hostile(|switch, frame, random| {
            for bit in 0..8 * 60 {
                let mut frame = frame.to_vec();
                frame[bit / 8] ^= 1 << (bit % 8);
                switch.receive(random.u32(PORTS), &frame, 0);
            }
            assert_eq!(switch.stats().received, 480);
        });
    }
}
