// SPDX-License-Identifier: Apache-2.0
//! Entries that a program brings: they have idle timeouts and an order.

use crate::common;
use common::{ethernet, send};
use weir_dataplane::*;

const SECOND_NS: u64 = 1_000_000_000;
const START_NS: u64 = 100 * SECOND_NS;
const TABLE: &str = "IngressImpl.destination";
const DST: [u8; 6] = [2, 0, 0, 0, 0, 7];

/// A switch whose program forwards `DST` to port 2, by an entry that may be changed.
fn with_initial_entry() -> Switch {
    let json = common::edited("l2_learning", |json| {
        let table = common::table(json, TABLE);
        table["support_timeout"] = true.into();
        table["entries"] = serde_json::json!([{
            "match_key": [{"match_type": "exact", "key": "0x020000000007"}],
            "action_entry": {"action_id": 2, "action_data": ["0x2"]},
            "priority": 1,
        }]);
    });
    let mut program = Program::from_json(&json).expect("a valid program");
    let id = program.info().table(TABLE).expect("the table");
    program.allow_entry_changes(id, 1024);
    let config = SwitchConfig {
        start_ns: START_NS,
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program, config);
    for port in 1..=2 {
        switch
            .set_port(port, PortConfig::default(), START_NS)
            .expect("a port");
    }
    switch
}

#[test]
fn an_initial_entry_has_an_idle_timeout() {
    let mut switch = with_initial_entry();
    let table = switch.info().table(TABLE).expect("the table");
    let entry = switch.entries(table).expect("its entries")[0];
    assert_eq!(switch.idle_ns(table, entry), Ok(0));
    switch
        .set_idle_timeout(table, entry, SECOND_NS)
        .expect("a timeout");
    let frame = ethernet(DST, [2, 0, 0, 0, 0, 1], 0x0800, &[0; 46]);
    let sent = send(&mut switch, 1, &frame, START_NS + SECOND_NS);
    assert_eq!(common::ports(&sent), [2]);
    common::collect(&mut switch, START_NS + 5 * SECOND_NS);
    let mut expired = Vec::new();
    switch.drain_idle(START_NS + 5 * SECOND_NS, 100, |_, entry| {
        expired.push(entry);
    });
    assert_eq!(switch.idle_timeout(table, entry), Ok(SECOND_NS));
    assert_eq!(switch.idle_ns(table, entry), Ok(4 * SECOND_NS));
    assert_eq!(expired, [entry]);
}

#[test]
fn of_initial_entries_without_priorities_the_first_has_the_highest() {
    let json = common::edited("matches", |json| {
        let entries = &mut common::table(json, "IngressImpl.constants")["entries"];
        for entry in entries.as_array_mut().expect("entries") {
            entry.as_object_mut().expect("an entry").remove("priority");
        }
    });
    let program = Program::from_json(&json).expect("a valid program");
    let switch = Switch::new(program, SwitchConfig::default());
    let table = switch.info().table("IngressImpl.constants").expect("it");
    let priorities: Vec<i32> = switch
        .entries(table)
        .expect("its entries")
        .into_iter()
        .map(|entry| switch.entry(table, entry).expect("an entry").priority)
        .collect();
    assert_eq!(priorities, [3, 2, 1]);
}
