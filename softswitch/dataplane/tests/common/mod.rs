// SPDX-License-Identifier: Apache-2.0
//! Shared by the integration tests: loading, frames, and a switch with a sink that records.

use std::path::PathBuf;
use weir_dataplane::{ActionCall, KeyMatch, PortConfig, Program, Switch, SwitchConfig, TableEntry};

/// A transmitted frame: port, bytes, time.
pub type Sent = (u32, Vec<u8>, u64);

pub fn program_json(name: &str) -> Vec<u8> {
    let folder = match name {
        "weir" => "../../p4src/build",
        "l2_learning" | "ipv4_router" | "mixture" => "../programs",
        _ => "tests/programs",
    };
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(format!("{name}.json"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn program(name: &str) -> Program {
    Program::from_json(&program_json(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The JSON of a program after `edit`.
pub fn edited(name: &str, edit: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut json = serde_json::from_slice(&program_json(name)).expect("JSON");
    edit(&mut json);
    serde_json::to_vec(&json).expect("JSON")
}

/// A table of the ingress pipeline in a program's JSON.
pub fn table<'a>(json: &'a mut serde_json::Value, name: &str) -> &'a mut serde_json::Value {
    let tables = json["pipelines"][0]["tables"].as_array_mut();
    let mut tables = tables.expect("tables").iter_mut();
    tables.find(|table| table["name"] == name).expect("a table")
}

/// The primitives of each action in a program's JSON.
pub fn primitives(json: &mut serde_json::Value) -> Vec<&mut Vec<serde_json::Value>> {
    let actions = json["actions"].as_array_mut().expect("actions");
    actions
        .iter_mut()
        .filter_map(|action| action["primitives"].as_array_mut())
        .collect()
}

/// Switches with unshaped ports 1 to `ports` that run a program, interpreted and as machine code.
pub fn both_ways(json: &[u8], ports: u32) -> [Switch; 2] {
    [false, true].map(|native| {
        let config = SwitchConfig {
            native,
            ..SwitchConfig::default()
        };
        let mut switch = Switch::new(Program::from_json(json).expect("a program"), config);
        for port in 1..=ports {
            switch
                .set_port(port, PortConfig::default(), 0)
                .expect("a valid port");
        }
        switch
    })
}

/// A switch with unshaped ports 1 to `ports`.
pub fn switch(name: &str, ports: u32) -> Switch {
    let mut switch = Switch::new(program(name), SwitchConfig::default());
    for port in 1..=ports {
        switch
            .set_port(port, PortConfig::default(), 0)
            .expect("a valid port");
    }
    switch
}

/// Sends one frame and returns all that has left by then.
pub fn send(switch: &mut Switch, port: u32, frame: &[u8], now_ns: u64) -> Vec<Sent> {
    switch.receive(port, frame, now_ns);
    collect(switch, now_ns)
}

pub fn collect(switch: &mut Switch, now_ns: u64) -> Vec<Sent> {
    let mut sent = Vec::new();
    switch.advance(now_ns, &mut |port: u32, frame: &[u8], time_ns: u64| {
        sent.push((port, frame.to_vec(), time_ns))
    });
    sent
}

pub fn ports(sent: &[Sent]) -> Vec<u32> {
    let mut ports: Vec<u32> = sent.iter().map(|(port, _, _)| *port).collect();
    ports.sort_unstable();
    ports
}

/// Adds an entry by names.
pub fn insert(
    switch: &mut Switch,
    table: &str,
    key: Vec<KeyMatch>,
    priority: i32,
    action: &str,
    args: &[&[u8]],
) {
    let entry = entry(switch, table, key, priority, action, args);
    let table = switch.info().table(table).expect("the table exists");
    switch
        .insert_entry(table, &entry)
        .unwrap_or_else(|e| panic!("{e}"));
}

pub fn entry(
    switch: &Switch,
    table: &str,
    key: Vec<KeyMatch>,
    priority: i32,
    action: &str,
    args: &[&[u8]],
) -> TableEntry {
    let id = switch
        .info()
        .table(table)
        .unwrap_or_else(|| panic!("table {table}"));
    let action = switch
        .info()
        .table_action(id, action)
        .unwrap_or_else(|| panic!("action {action} of {table}"));
    let args = args.iter().map(|a| a.to_vec()).collect();
    TableEntry {
        key,
        priority,
        action: ActionCall { action, args },
    }
}

pub fn ethernet(dst: [u8; 6], src: [u8; 6], ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(dst);
    frame.extend(src);
    frame.extend(ether_type.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The Internet checksum as RFC 1071 says it in words: one 16-bit word at a time, end-around carry after each.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) * 256 + u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 65_535 {
            sum = sum - 65_536 + 1;
        }
    }
    65_535 - u16::try_from(sum).expect("16 bits")
}

/// An IPv4 packet without options, with a correct checksum.
pub fn ipv4(src: [u8; 4], dst: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).expect("a short payload");
    let mut packet = vec![0x45, 0, 0, 0, 0x12, 0x34, 0x40, 0, ttl, 17, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(src);
    packet.extend(dst);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}
