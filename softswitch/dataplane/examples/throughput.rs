// SPDX-License-Identifier: Apache-2.0
//! Packets per second of the router program on one core: 10,000 routes, 64-byte frames, no I/O.
//!
//! `cargo run --release -p weir-dataplane --example throughput [PACKETS]`

use std::error::Error;
use std::time::Instant;
use weir_dataplane::{ActionCall, KeyMatch, PortConfig, Program, Switch, SwitchConfig, TableEntry};

const ROUTES: u32 = 10_000;
const FLOWS: u32 = 10_000;
const PACKETS: u32 = 5_000_000;

fn insert(
    switch: &mut Switch,
    table: &str,
    key: KeyMatch,
    action: &str,
    args: Vec<Vec<u8>>,
) -> Result<(), Box<dyn Error>> {
    let id = switch.info().table(table).ok_or("no such table")?;
    let action = switch
        .info()
        .table_action(id, action)
        .ok_or("no such action")?;
    switch.insert_entry(
        id,
        &TableEntry {
            key: vec![key],
            priority: 0,
            action: ActionCall { action, args },
        },
    )?;
    Ok(())
}

fn frame(dst: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let mut header = [
        0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 9, 0, 0, 0, 0,
    ];
    header[16..20].copy_from_slice(&dst.to_be_bytes());
    let mut sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    header[10..12].copy_from_slice(&(!sum).to_be_bytes()[2..4]);
    frame.extend(header);
    frame.resize(64, 0);
    frame
}

fn main() -> Result<(), Box<dyn Error>> {
    let packets = std::env::args().nth(1).map_or(Ok(PACKETS), |n| n.parse())?;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../programs/ipv4_router.json");
    let mut switch = Switch::new(
        Program::from_json(&std::fs::read(path)?)?,
        SwitchConfig::default(),
    );
    for port in 1..=2 {
        switch.set_port(port, PortConfig::default(), 0)?;
    }
    let rewrite = vec![vec![2], vec![2, 0, 0, 0, 1, 1], vec![2, 0, 0, 0, 2, 2]];
    insert(
        &mut switch,
        "IngressImpl.next_hop",
        KeyMatch::Exact(vec![1]),
        "IngressImpl.rewrite",
        rewrite,
    )?;
    for route in 0..ROUTES {
        let key = KeyMatch::Lpm {
            value: (route << 8).to_be_bytes().to_vec(),
            prefix_len: 24,
        };
        insert(
            &mut switch,
            "IngressImpl.route",
            key,
            "IngressImpl.set_next_hop",
            vec![vec![1]],
        )?;
    }
    let frames: Vec<Vec<u8>> = (0..FLOWS)
        .map(|flow| frame(((flow % ROUTES) << 8) | 7))
        .collect();
    let mut bytes = 0_u64;
    let start = Instant::now();
    for (now_ns, frame) in (0_u64..u64::from(packets)).zip(frames.iter().cycle()) {
        switch.receive(1, frame, now_ns);
        switch.advance(now_ns, &mut |_: u32, frame: &[u8], _: u64| {
            bytes += frame.len() as u64
        });
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = switch.stats();
    assert_eq!(
        stats.transmitted,
        u64::from(packets),
        "every packet is routed"
    );
    println!(
        "{bytes} bytes out, {:.2} Mpackets/s, {:.0} ns per packet",
        f64::from(packets) / seconds / 1e6,
        seconds * 1e9 / f64::from(packets)
    );
    Ok(())
}
