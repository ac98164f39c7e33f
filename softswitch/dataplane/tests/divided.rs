// SPDX-License-Identifier: Apache-2.0
//! Programs whose packets share no state: several switches that divide the packets by port treat each as one switch does.

use crate::common::collect;
use crate::native::{COMPILED, FRAMES, Random, populate};
use proptest::prelude::*;
use weir_dataplane::{CounterValue, PortConfig, Program, Switch, SwitchConfig};

const PORTS: u32 = 4;
const SWITCHES: usize = 3;

/// A switch with random entries, the same for the same seed, and ports without queues.
fn switch(program: &Program, seed: u64) -> Switch {
    let mut switch = Switch::new(program.clone(), SwitchConfig::default());
    populate(&mut switch, &mut Random(seed));
    for port in 0..PORTS {
        switch
            .set_port(port, PortConfig::default(), 0)
            .expect("a valid port");
    }
    switch
}

/// The counters of the program, of whole arrays and of entries, in one order.
fn counters(switch: &Switch) -> Vec<CounterValue> {
    let info = switch.info();
    let mut found = Vec::new();
    for counter in info
        .counters
        .iter()
        .filter(|counter| counter.table.is_none())
    {
        let id = info.counter(&counter.name).expect("its own name");
        let values = (0..counter.size).map(|index| switch.counter(id, index).expect("a cell"));
        found.extend(values);
    }
    for table in info
        .tables
        .iter()
        .filter(|table| table.direct_counter.is_some())
    {
        let id = info.table(&table.name).expect("its own name");
        for handle in switch.entries(id).expect("entries") {
            found.push(switch.direct_counter(id, Some(handle)).expect("an entry"));
        }
    }
    found
}

fn divided_as_whole(program: &Program, name: &str, seed: u64) {
    let mut whole = switch(program, seed);
    let mut parts: Vec<Switch> = (0..SWITCHES).map(|_| switch(program, seed)).collect();
    let mut random = Random(!seed);
    for number in 0..FRAMES {
        let port = u32::try_from(random.below(u64::from(PORTS))).expect("a port");
        let (frame, now_ns) = (random.frame(), number as u64 * 1_000);
        let part = &mut parts[port as usize % SWITCHES];
        whole.receive(port, &frame, now_ns);
        part.receive(port, &frame, now_ns);
        let (expected, sent) = (collect(&mut whole, now_ns), collect(part, now_ns));
        assert_eq!(sent, expected, "{name}: frame {number}");
    }
    let mut sums = vec![CounterValue::default(); counters(&whole).len()];
    for part in &parts {
        for (sum, value) in sums.iter_mut().zip(counters(part)) {
            sum.packets += value.packets;
            sum.bytes += value.bytes;
        }
    }
    assert_eq!(sums, counters(&whole), "{name}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_that_share_no_state_may_be_divided(seed in any::<u64>()) {
        for (name, program) in COMPILED.iter().filter(|(_, program)| program.shared_state().is_none()) {
            divided_as_whole(program, name, seed);
        }
    }
}

#[test]
fn shared_state_is_named() {
    let named: Vec<(&str, String)> = COMPILED
        .iter()
        .filter_map(|(name, program)| Some((*name, program.shared_state()?)))
        .collect();
    let named: Vec<(&str, &str)> = named
        .iter()
        .map(|(n, state)| (*n, state.as_str()))
        .collect();
    assert_eq!(
        named,
        [
            ("hashes", "the sequence of random numbers"),
            ("l2_learning", "digest learn_t"),
            ("mixture", "register IngressImpl.seen"),
            ("weir", "register WeirIngress.police.packet_number"),
        ]
    );
}
