// SPDX-License-Identifier: Apache-2.0
//! One scenario in every way that the switch can run a program: the interpreter, machine code by the packet and in
//! bursts, and with the log of paths. Frames, times, digests, messages and state must be the same.

use std::collections::BTreeMap;
use std::fmt::Debug;

use weir_dataplane::{LogLevel, PathLogConfig, Program, Stats, Switch};

use crate::choices::Choices;
use crate::packets;

/// The way in which a switch receives and processes frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Interpreter,
    Code,
    Bursts,
    /// The interpreter, with the log of each packet's path.
    Logged,
}

impl Way {
    /// The setting of the log.
    pub fn path_log(self) -> Option<PathLogConfig> {
        (self == Self::Logged).then_some(PathLogConfig {
            level: LogLevel::Trace,
            dump_bytes: 40,
        })
    }
}

/// All that a scenario shows of a switch.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Port, time, bytes.
    pub frames: Vec<(u32, u64, Vec<u8>)>,
    pub digests: Vec<String>,
    pub messages: Vec<String>,
    pub messages_lost: u64,
    /// What the control plane can read, by name.
    pub state: BTreeMap<String, String>,
}

/// Runs a scenario of so many frames in every way. True: frames left the switch.
///
/// # Errors
/// The first difference, or packets that the counters miss.
pub fn agree(program: &Program, choices: &Choices<'_>, frames: usize) -> Result<bool, String> {
    let run = |way| packets::scenario(program, way, choices.clone(), frames);
    let reference = run(Way::Interpreter)?;
    let logged = choices.clone().u8(..4) == 0;
    for way in [Way::Code, Way::Bursts, Way::Logged] {
        let skipped = match way {
            Way::Logged => !logged,
            _ => !program.has_code(),
        };
        if skipped {
            continue;
        }
        let mut outcome = run(way)?;
        if way == Way::Logged {
            // The program's messages are lines of the log then.
            outcome.messages.clone_from(&reference.messages);
            outcome.messages_lost = reference.messages_lost;
        }
        if let Some(difference) = difference(&reference, &outcome) {
            return Err(format!("Interpreter and {way:?} differ: {difference}"));
        }
    }
    Ok(!reference.frames.is_empty())
}

fn difference(reference: &Outcome, other: &Outcome) -> Option<String> {
    first("frame", &reference.frames, &other.frames)
        .or_else(|| first("digest", &reference.digests, &other.digests))
        .or_else(|| first("message", &reference.messages, &other.messages))
        .or_else(|| {
            first(
                "loss of messages",
                &[reference.messages_lost],
                &[other.messages_lost],
            )
        })
        .or_else(|| {
            let differs =
                |(name, value): &(&String, &String)| other.state.get(*name) != Some(value);
            let (name, value) = reference.state.iter().find(differs)?;
            Some(format!("{name}: {value} and {:?}", other.state.get(name)))
        })
}

/// The first item in which two lists differ.
fn first<T: Debug + PartialEq>(what: &str, one: &[T], other: &[T]) -> Option<String> {
    let most = one.len().max(other.len());
    let at = (0..most).find(|at| one.get(*at) != other.get(*at))?;
    Some(format!(
        "{what} {at}: {:02x?} and {:02x?}",
        one.get(at),
        other.get(at)
    ))
}

/// All state that the control plane can read, except the number of messages that were lost.
pub fn state(switch: &Switch) -> BTreeMap<String, String> {
    let info = switch.info();
    let mut state = BTreeMap::new();
    let mut add =
        |name: &str, index: u64, value: String| state.insert(format!("{name} {index}"), value);
    let some = |size: u64| (0..size).filter(|index| *index < 64 || index % 997 == 0);
    for counter in &info.counters {
        let Some(id) = info.counter(&counter.name) else {
            continue;
        };
        for index in some(counter.size) {
            add(
                &counter.name,
                index,
                format!("{:?}", switch.counter(id, index)),
            );
        }
    }
    for register in &info.registers {
        let Some(id) = info.register(&register.name) else {
            continue;
        };
        for index in some(register.size) {
            add(
                &register.name,
                index,
                format!("{:?}", switch.register(id, index)),
            );
        }
    }
    for meter in &info.meters {
        let Some(id) = info.meter(&meter.name) else {
            continue;
        };
        for index in some(meter.size) {
            add(
                &meter.name,
                index,
                format!("{:?}", switch.meter_counters(id, index)),
            );
        }
    }
    for table in &info.tables {
        let Some(id) = info.table(&table.name) else {
            continue;
        };
        let entries = switch.entries(id).unwrap_or_default();
        for (number, handle) in (0..).zip(entries) {
            let counter = switch.direct_counter(id, Some(handle));
            let meter = switch.direct_meter_counters(id, Some(handle));
            add(&table.name, number, format!("{counter:?} {meter:?}"));
        }
    }
    for port in switch.ports().map(|(port, _)| port) {
        add(
            "port",
            u64::from(port),
            format!("{:?}", switch.port_stats(port)),
        );
    }
    let stats = Stats {
        log_lost: 0,
        ..switch.stats()
    };
    state.insert("stats".to_owned(), format!("{stats:?}"));
    state
}
