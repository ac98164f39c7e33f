// SPDX-License-Identifier: Apache-2.0
//! Frames, random and plausible, through every program, with the program's initial entries and random ones.

use std::ops::Range;

use weir_dataplane::{
    ActionCall, CloneSession, GroupMember, KeyMatch, LOSS_ALL_PPB, MatchKind, MemberGroup,
    MeterConfig, PortConfig, ProfileId, ProfileTarget, Program, ProgramInfo, Replica, Shaper,
    Switch, SwitchConfig, TableEntry, TableId, TableInfo, ValueSetId,
};

use crate::bytes;
use crate::choices::Choices;
use crate::corpus::Corpus;
use crate::differential::{self, Outcome, Way};

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

/// Runs one program on many frames in every way. True: it forwarded some.
pub fn run(corpus: &Corpus, random: &mut Choices<'_>) -> Result<bool, String> {
    let at = random.usize(..corpus.programs.len());
    let program = corpus.programs[at].program()?;
    differential::agree(program, random, FRAMES)
}

/// A rate of any magnitude.
fn rate_bps(random: &mut Choices<'_>) -> u64 {
    let most_bps = 1 << random.u32(1..40);
    random.u64(1..=most_bps)
}

fn shaper(random: &mut Choices<'_>) -> Option<Shaper> {
    random.bool().then(|| Shaper {
        rate_bps: rate_bps(random),
        burst_bytes: random.u64(1..100_000),
    })
}

/// A link with a random selection of its settings.
fn link(random: &mut Choices<'_>) -> PortConfig {
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
fn ready(program: Program, way: Way, random: &mut Choices<'_>) -> Switch {
    let config = SwitchConfig {
        seed: random.u64(..),
        native: way != Way::Interpreter,
        path_log: way.path_log(),
        // Programs that copy and repeat every packet make thousands of one all the same.
        max_passes: random.u32(1..3),
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program, config);
    for port in PORTS {
        // A port may be refused; the switch then runs without it. Most frames pass a link without settings.
        let link = if random.u8(..4) == 0 {
            link(random)
        } else {
            PortConfig::default()
        };
        let _ = switch.set_port(port, link, 0);
    }
    populate(&mut switch, random);
    switch
}

/// Runs a program with entries, groups and frames, which are the same for the same choices.
///
/// # Errors
/// When a packet is missing from the counters.
pub fn scenario(
    program: &Program,
    way: Way,
    mut choices: Choices<'_>,
    frames: usize,
) -> Result<Outcome, String> {
    let random = &mut choices;
    let mut switch = ready(program.clone(), way, random);
    let (mut now_ns, mut left) = (0_u64, frames);
    let mut outcome = Outcome::default();
    while left > 0 {
        let burst: Vec<(u32, Vec<u8>, u64)> = (0..random.usize(1..=left.min(9)))
            .map(|_| {
                now_ns = match random.u8(..20) {
                    0 => now_ns.saturating_add(random.u64(..)),
                    1 => now_ns.saturating_sub(random.u64(..1_000)),
                    _ => now_ns.saturating_add(random.u64(..1_000_000)),
                };
                (random.u32(..6), frame(random), now_ns)
            })
            .collect();
        left -= burst.len();
        if way == Way::Bursts {
            let mut together = switch.burst();
            for (port, frame, at_ns) in &burst {
                together.receive(*port, frame, *at_ns);
            }
        } else {
            for (port, frame, at_ns) in &burst {
                switch.receive(*port, frame, *at_ns);
            }
        }
        if random.u8(..4) == 0 {
            collect(&mut switch, now_ns, &mut outcome);
            change(&mut switch, random);
        }
    }
    collect(&mut switch, u64::MAX, &mut outcome);
    outcome.state = differential::state(&switch);
    outcome.messages_lost = switch.stats().log_lost;
    adds_up(&switch)?;
    Ok(outcome)
}

/// Advances time and takes everything that the switch has to tell.
fn collect(switch: &mut Switch, now_ns: u64, outcome: &mut Outcome) {
    let frames = &mut outcome.frames;
    let mut sink = |port: u32, frame: &[u8], at_ns: u64| frames.push((port, at_ns, frame.to_vec()));
    switch.advance(now_ns, &mut sink);
    switch.drain_digests(|digest| outcome.digests.push(format!("{digest:?}")));
    switch.drain_log(|event| outcome.messages.push(format!("{event:?}")));
    switch.drain_path_log(|_, _| {});
}

/// Every packet is counted where it ended or is.
fn adds_up(switch: &Switch) -> Result<(), String> {
    let ports = PORTS.map(|port| switch.port_stats(port));
    let elsewhere = ports.map(|port| port.queued_packets + port.in_flight + port.link_lost);
    let (stats, elsewhere) = (switch.stats(), elsewhere.sum::<u64>());
    if stats.begun() == stats.ended() + elsewhere {
        Ok(())
    } else {
        Err(format!(
            "packets are missing from the counters, {elsewhere} on links and in queues: {stats:?}"
        ))
    }
}

/// A frame: random bytes, or headers that a parser might accept.
pub fn frame(random: &mut Choices<'_>) -> Vec<u8> {
    // Some are too short for a program's headers.
    let most = random.choice([40, 300, 300, 300]).unwrap_or(300);
    let mut frame = bytes::random(random, most);
    if random.bool() {
        // Small numbers are what programs compare with.
        frame.iter_mut().for_each(|byte| *byte &= 3);
    }
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

fn populate(switch: &mut Switch, random: &mut Choices<'_>) {
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
    let info = switch.info().clone();
    for (number, profile) in (0..).zip(&info.profiles) {
        let actions = profile
            .tables
            .first()
            .and_then(|table| info.tables.get(table.0 as usize));
        for member in 0..random.u64(..4) {
            if let Some(call) = actions.and_then(|table| call(&info, table, random)) {
                let _ = switch.insert_member(ProfileId(number), member, &call);
            }
        }
        for group in 0..random.u64(..3) {
            let members = (0..random.u64(..4)).map(|member| GroupMember {
                member,
                weight: random.u32(1..4),
            });
            let members = members.collect();
            let group_config = MemberGroup {
                members,
                ..MemberGroup::default()
            };
            let _ = switch.insert_group(ProfileId(number), group, &group_config);
        }
    }
    for index in 0..info.tables.len() {
        for _ in 0..random.usize(..6) {
            insert(switch, random, index);
        }
    }
    for (number, set) in (0..).zip(&info.value_sets) {
        let member = |random: &mut Choices<'_>| -> Vec<KeyMatch> {
            let widths = set.widths_bits.iter();
            widths
                .map(|width| key_match(random, MatchKind::Ternary, *width))
                .collect()
        };
        let members: Vec<Vec<KeyMatch>> = (0..random.usize(..3)).map(|_| member(random)).collect();
        let _ = switch.set_value_set(ValueSetId(number), &members);
    }
    for name in info.meters.iter().map(|meter| &meter.name) {
        if let Some(meter) = info.meter(name) {
            let config = meter_config(random);
            let _ = switch.set_meter(meter, random.u64(..4), Some(config));
        }
    }
}

fn meter_config(random: &mut Choices<'_>) -> MeterConfig {
    // Rates and bursts of which some frames exceed one and some exceed none.
    let most = if random.bool() { 1 << 10 } else { 1 << 34 };
    let (cir, cbs) = (random.u64(..most), random.u64(..most.min(1 << 20)));
    match random.u8(..4) {
        3 => MeterConfig::TwoMicroRatesThreeColour {
            cir,
            cbs,
            pir: cir.saturating_mul(2),
            pbs: random.u64(..),
        },
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
    }
}

/// Changes an entry or a default entry, as a controller does between packets.
fn change(switch: &mut Switch, random: &mut Choices<'_>) {
    let tables = switch.info().tables.len();
    if tables == 0 {
        return;
    }
    let index = random.usize(..tables);
    let Some(table) = switch.info().tables.get(index) else {
        return;
    };
    let Some(id) = switch.info().table(&table.name) else {
        return;
    };
    match random.u8(..4) {
        0 => {
            let handles = switch.entries(id).unwrap_or_default();
            if let Some(handle) = random.choice(&handles) {
                let _ = switch.delete_entry(id, *handle);
            }
        }
        1 => {
            let call = call(switch.info(), table, random);
            let _ = switch.set_default_entry(id, call.as_ref());
        }
        _ => insert(switch, random, index),
    }
}

fn insert(switch: &mut Switch, random: &mut Choices<'_>, index: usize) {
    let Some((table, entry)) = entry(switch, random, index) else {
        return;
    };
    // The switch may refuse: a duplicate, a full table, entries that are const.
    if switch.info().tables[index].profile.is_some() {
        let id = random.u64(..4);
        let target = if random.bool() {
            ProfileTarget::Member(id)
        } else {
            ProfileTarget::Group(id)
        };
        let _ = switch.insert_indirect_entry(table, &entry.key, entry.priority, target);
    } else {
        let _ = switch.insert_entry(table, &entry);
    }
}

/// A value that fits in most cases.
fn value(random: &mut Choices<'_>, width_bits: u32) -> Vec<u8> {
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

fn key_match(random: &mut Choices<'_>, kind: MatchKind, width_bits: u32) -> KeyMatch {
    match (kind, random.u8(..3)) {
        (MatchKind::Exact, _) => KeyMatch::Exact(value(random, width_bits)),
        (_, 0) => KeyMatch::Any,
        (MatchKind::Lpm, _) => {
            let mut value = value(random, width_bits);
            let prefix_len = random.u32(1..=width_bits);
            clear_low(&mut value, width_bits - prefix_len);
            KeyMatch::Lpm { value, prefix_len }
        }
        (MatchKind::Range, _) => KeyMatch::Range {
            low: vec![random.u8(..2)],
            high: value(random, width_bits),
        },
        (MatchKind::Optional, _) => KeyMatch::Exact(value(random, width_bits)),
        (MatchKind::Ternary, _) => {
            let (mut found, mask) = (value(random, width_bits), value(random, width_bits));
            found
                .iter_mut()
                .zip(&mask)
                .for_each(|(byte, mask)| *byte &= mask);
            KeyMatch::Ternary { value: found, mask }
        }
    }
}

/// Clears bits at the end of a big-endian number.
fn clear_low(value: &mut [u8], bits: u32) {
    let bits = bits as usize;
    for (at, byte) in value.iter_mut().rev().enumerate() {
        let clear = bits.saturating_sub(at * 8).min(8);
        *byte = byte
            .checked_shr(clear as u32)
            .unwrap_or(0)
            .checked_shl(clear as u32)
            .unwrap_or(0);
    }
}

fn call(info: &ProgramInfo, table: &TableInfo, random: &mut Choices<'_>) -> Option<ActionCall> {
    let action = *random.choice(&table.actions)?;
    let params = &info.actions.get(action.0 as usize)?.params;
    let args = params.iter().map(|p| value(random, p.width_bits)).collect();
    Some(ActionCall { action, args })
}

fn entry(switch: &Switch, random: &mut Choices<'_>, index: usize) -> Option<(TableId, TableEntry)> {
    let info = switch.info();
    let table = info.tables.get(index)?;
    let id = info.table(&table.name)?;
    let key = table
        .key
        .iter()
        .map(|field| key_match(random, field.kind, field.width_bits));
    let key = key.collect();
    let action = call(info, table, random)?;
    let priority = if table.needs_priority {
        random.i32(1..4)
    } else {
        0
    };
    Some((
        id,
        TableEntry {
            key,
            priority,
            action,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each program with entries, and frames of each kind, as `with` changes them.
    fn hostile(with: impl Fn(&mut Switch, &[u8], &mut Choices<'_>)) {
        let corpus = Corpus::load().expect("the repository's programs");
        let mut random = Choices::seeded(1);
        for compiled in &corpus.programs {
            let program = Program::from_json(&compiled.json).expect("a program of the repository");
            for ether_type in ETHER_TYPES {
                let mut switch = ready(program.clone(), Way::Code, &mut random);
                let mut frame: Vec<u8> =
                    std::iter::repeat_with(|| random.u8(..)).take(150).collect();
                frame[12..14].copy_from_slice(&ether_type);
                frame[14] = 0x46;
                with(&mut switch, &frame, &mut random);
                collect(&mut switch, u64::MAX, &mut Outcome::default());
                if let Err(missing) = adds_up(&switch) {
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
