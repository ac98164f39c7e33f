// SPDX-License-Identifier: Apache-2.0
//! Machine code, by the packet and in bursts, against the interpreter: the same frames, times and state for random
//! entries and packets.

use crate::common;

use common::{Sent, collect, program, program_json};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use weir_dataplane::{
    ActionCall, CloneSession, KeyMatch, MatchKind, MeterConfig, PortConfig, Program, Replica,
    Shaper, Switch, SwitchConfig, TableEntry, TableId,
};

const PROGRAMS: [&str; 15] = [
    "arithmetic",
    "checksums",
    "copies",
    "deflection",
    "hashes",
    "logs",
    "matches",
    "parsers",
    "unions",
    "value_sets",
    "varbits",
    "l2_learning",
    "ipv4_router",
    "mixture",
    "weir",
];
pub const FRAMES: usize = 48;

/// SplitMix64, so that both switches get the same input.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("an index")]
    }

    /// A value of a field: mostly small, so that packets hit entries.
    fn value(&mut self, width_bits: u32) -> Vec<u8> {
        let mut value = vec![0; (width_bits as usize).div_ceil(8)];
        if self.one_in(3) {
            value.iter_mut().for_each(|byte| *byte = self.byte());
        } else if let Some(last) = value.last_mut() {
            *last = self.byte() % 4;
        }
        if let (Some(first), 1..) = (value.first_mut(), width_bits % 8) {
            *first &= (1 << (width_bits % 8)) - 1;
        }
        value
    }

    pub fn frame(&mut self) -> Vec<u8> {
        let bytes = if self.one_in(4) { 24 } else { 120 };
        let small = self.one_in(2);
        let mut frame: Vec<u8> = (0..self.below(bytes)).map(|_| self.byte()).collect();
        if small {
            frame.iter_mut().for_each(|byte| *byte &= 3);
        }
        if frame.len() >= 14 && !self.one_in(3) {
            let ether_type = self.pick(&[0x0800_u16, 0x0800, 0x8100, 0x86dd, 0x88b5, 0]);
            frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
            if frame.len() >= 34 {
                frame[14] = self.pick(&[0x45, 0x45, 0x45, 0x46, 0x60]);
                frame[20..22].copy_from_slice(&[0, 0]);
                frame[23] = self.pick(&[6, 17, 17, 1]);
                let sum = common::checksum(&[&frame[14..24], &frame[26..34]].concat());
                if !self.one_in(3) {
                    frame[24..26].copy_from_slice(&sum.to_be_bytes());
                }
            }
        }
        frame
    }

    fn entry(&mut self, switch: &Switch, index: usize) -> Option<(TableId, TableEntry)> {
        let info = switch.info();
        let table = info.tables.get(index)?;
        let id = info.table(&table.name)?;
        let mut part = |kind: MatchKind, width: u32| match kind {
            MatchKind::Exact => KeyMatch::Exact(self.value(width)),
            _ if self.one_in(3) => KeyMatch::Any,
            MatchKind::Lpm => KeyMatch::Lpm {
                value: self.value(width),
                prefix_len: width,
            },
            MatchKind::Range => KeyMatch::Range {
                low: vec![0],
                high: self.value(width),
            },
            MatchKind::Optional => KeyMatch::Exact(self.value(width)),
            MatchKind::Ternary => {
                let mask = self.value(width);
                KeyMatch::Ternary {
                    value: mask.clone(),
                    mask,
                }
            }
        };
        let key = table.key.iter().map(|f| part(f.kind, f.width_bits));
        let key = key.collect();
        let action = self.pick(&table.actions);
        let params = &info.actions.get(action.0 as usize)?.params;
        let args = params.iter().map(|p| self.value(p.width_bits)).collect();
        let priority = if table.needs_priority {
            1 + i32::try_from(self.below(3)).expect("a small number")
        } else {
            0
        };
        let entry = TableEntry {
            key,
            priority,
            action: ActionCall { action, args },
        };
        Some((id, entry))
    }

    fn meter(&mut self) -> MeterConfig {
        let (cir, cbs) = (self.below(1 << 24), self.below(1 << 9));
        match self.below(3) {
            0 => MeterConfig::TwoRateThreeColour {
                cir,
                cbs,
                pir: cir * 2,
                pbs: self.below(1 << 10),
            },
            1 => MeterConfig::SingleRateThreeColour {
                cir,
                cbs,
                ebs: self.below(1 << 10),
            },
            _ => MeterConfig::SingleRateTwoColour { cir, cbs },
        }
    }
}

/// Ports, groups, sessions, entries, meters, registers, value sets. Both switches must refuse the same.
pub fn populate(switch: &mut Switch, random: &mut Random) {
    for port in 0..4 {
        // Some frames are queued while others arrive.
        let shaper = random.one_in(3).then_some(Shaper {
            rate_bps: 1_000_000,
            burst_bytes: 200,
        });
        let config = PortConfig {
            shaper,
            ..PortConfig::default()
        };
        let _ = switch.set_port(port, config, 0);
    }
    let replicas: Vec<Replica> = (1..4).map(|port| Replica { port, instance: 1 }).collect();
    for number in 0..4 {
        let _ = switch.insert_multicast_group(number, &replicas);
        let session = CloneSession {
            replicas: replicas.clone(),
            ..CloneSession::default()
        };
        let _ = switch.insert_clone_session(number, &session);
    }
    for index in 0..switch.info().tables.len() {
        for _ in 0..random.below(8) {
            if let Some((table, entry)) = random.entry(switch, index) {
                let _ = switch.insert_entry(table, &entry);
            }
        }
        if random.one_in(3)
            && let Some((table, entry)) = random.entry(switch, index)
        {
            let _ = switch.set_default_entry(table, Some(&entry.action));
        }
    }
    let info = switch.info().clone();
    for meter in &info.meters {
        let Some(id) = info.meter(&meter.name) else {
            continue;
        };
        for index in 0..4 {
            let _ = switch.set_meter(id, index, Some(random.meter()));
        }
    }
}

/// All state that the control plane can read.
fn state(switch: &Switch) -> BTreeMap<String, String> {
    let info = switch.info();
    let mut state = BTreeMap::new();
    let some = |size: u64| (0..size).filter(|index| *index < 512 || index % 97 == 0);
    for counter in &info.counters {
        let id = info.counter(&counter.name).expect("its own name");
        for index in some(counter.size) {
            let value = switch.counter(id, index);
            state.insert(format!("{} {index}", counter.name), format!("{value:?}"));
        }
    }
    for register in &info.registers {
        let id = info.register(&register.name).expect("its own name");
        for index in some(register.size) {
            let value = switch.register(id, index);
            state.insert(format!("{} {index}", register.name), format!("{value:?}"));
        }
    }
    for meter in &info.meters {
        let id = info.meter(&meter.name).expect("its own name");
        for index in some(meter.size) {
            let value = switch.meter_counters(id, index);
            state.insert(format!("{} {index}", meter.name), format!("{value:?}"));
        }
    }
    for table in &info.tables {
        let id = info.table(&table.name).expect("its own name");
        for handle in switch.entries(id).unwrap_or_default() {
            let name = format!("{} {handle:?}", table.name);
            let counter = switch.direct_counter(id, Some(handle));
            let meter = switch.direct_meter_counters(id, Some(handle));
            state.insert(name, format!("{counter:?} {meter:?}"));
        }
    }
    state.insert("stats".into(), format!("{:?}", switch.stats()));
    state
}

/// All output: frames, digests, log events.
type Outcome = (
    Vec<Sent>,
    Vec<String>,
    Vec<String>,
    BTreeMap<String, String>,
);

/// The way in which a switch receives frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Interpreter,
    Code,
    Bursts,
}

fn run(program: &Program, way: Way, mut random: Random) -> Outcome {
    let config = SwitchConfig {
        native: way != Way::Interpreter,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program.clone(), config);
    populate(&mut switch, &mut random);
    let (mut sent, mut now_ns) = (Vec::new(), 0);
    let (mut digests, mut said) = (Vec::new(), Vec::new());
    let mut left = FRAMES;
    while left > 0 {
        let count = left.min(1 + usize::try_from(random.below(20)).expect("a number"));
        left -= count;
        let frames: Vec<_> = (0..count)
            .map(|_| {
                now_ns += random.below(1_000_000);
                let port = u32::try_from(random.below(4)).expect("a port");
                (port, random.frame(), now_ns)
            })
            .collect();
        if way == Way::Bursts {
            let mut burst = switch.burst();
            for (port, frame, at_ns) in &frames {
                burst.receive(*port, frame, *at_ns);
            }
        } else {
            for (port, frame, at_ns) in &frames {
                switch.receive(*port, frame, *at_ns);
            }
        }
        sent.extend(collect(&mut switch, now_ns));
        switch.drain_digests(|digest| digests.push(format!("{digest:?}")));
        switch.drain_log(|event| said.push(format!("{event:?}")));
    }
    (sent, digests, said, state(&switch))
}

fn agree(program: &Program, name: &str, seed: u64) {
    let reference = run(program, Way::Interpreter, Random(seed));
    for way in [Way::Code, Way::Bursts] {
        let outcome = run(program, way, Random(seed));
        assert_eq!(outcome.0, reference.0, "{name}, {way:?}: frames");
        assert_eq!(outcome.1, reference.1, "{name}, {way:?}: digests");
        assert_eq!(outcome.2, reference.2, "{name}, {way:?}: log");
        for (what, value) in &reference.3 {
            assert_eq!(outcome.3.get(what), Some(value), "{name}, {way:?}: {what}");
        }
    }
}

/// Compiled once.
pub static COMPILED: LazyLock<Vec<(&str, Program)>> =
    LazyLock::new(|| PROGRAMS.iter().map(|name| (*name, program(name))).collect());

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn code_and_interpreter_agree_on_every_program(seed in any::<u64>()) {
        for (name, program) in COMPILED.iter() {
            agree(program, name, seed);
        }
    }
}

#[test]
fn a_replaced_program_runs_its_own_code() {
    // Replacing the first program frees its code, because nothing else refers to it.
    let mut switch = Switch::new(program("weir"), SwitchConfig::default());
    let mut random = Random(7);
    for (_, program) in COMPILED.iter().cycle().take(3 * PROGRAMS.len()) {
        switch.replace_program(program.clone());
        populate(&mut switch, &mut random);
        for _ in 0..8 {
            let (frame, now_ns) = (random.frame(), 0);
            switch.receive(1, &frame, now_ns);
            collect(&mut switch, now_ns);
        }
    }
    assert_eq!(switch.stats().received, 24 * PROGRAMS.len() as u64);
}

#[test]
fn every_program_of_the_project_has_code() {
    for (name, program) in COMPILED.iter() {
        assert!(program.has_code(), "{name}");
    }
}

#[test]
fn a_program_that_would_take_long_to_compile_is_interpreted() {
    let mut json: serde_json::Value =
        serde_json::from_slice(&program_json("ipv4_router")).expect("JSON");
    for action in json["actions"].as_array_mut().expect("a list") {
        let primitives = action["primitives"].as_array_mut().expect("a list");
        let once = primitives.clone();
        for _ in 0..4_000 {
            primitives.extend(once.iter().cloned());
        }
    }
    let json = serde_json::to_vec(&json).expect("JSON");
    let large = Program::from_json(&json).expect("it is large, not wrong");
    assert!(!large.has_code());
    agree(&large, "a large router", 3);
}
