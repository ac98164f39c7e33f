// SPDX-License-Identifier: Apache-2.0
//! The load for which the dataplane's speed is stated: weir's own pipeline with 1,000 classify entries of eight
//! shapes, 1,000 MAC addresses, hashed policers with meters on, flows in scattered order, 64-byte frames, and 1 % of
//! the packets dropped by their policer and reported.
#![allow(dead_code, reason = "each program uses a part")]

use std::error::Error;
use weir_dataplane::{
    ActionCall, CloneSession, KeyMatch, MeterConfig, PortConfig, Program, Replica, Switch,
    SwitchConfig, TableEntry,
};

pub type Fallible<T> = Result<T, Box<dyn Error>>;

/// Ternary entries, each with its own policer cells.
pub const CLASSIFY_ENTRIES: u16 = 1_000;
/// Cells per classify entry, over which the flow hash spreads.
const CELLS: u16 = 64;
/// One classify entry in this many has cells that colour every packet red.
const RED_EVERY: u16 = 100;
/// Frames received before the output is drained, as from a packet ring.
pub const BURST: usize = 32;
/// Time between frames: 3 million packets/s.
pub const GAP_NS: u64 = 333;

/// Adds an entry by names.
pub fn insert(
    switch: &mut Switch,
    table: &str,
    key: Vec<KeyMatch>,
    priority: i32,
    action: &str,
    args: Vec<Vec<u8>>,
) -> Fallible<()> {
    let id = switch.info().table(table).ok_or("no such table")?;
    let action = switch
        .info()
        .table_action(id, action)
        .ok_or("no such action")?;
    let action = ActionCall { action, args };
    let entry = TableEntry {
        key,
        priority,
        action,
    };
    switch.insert_entry(id, &entry)?;
    Ok(())
}

/// The JSON of `weir` or of one of `softswitch/programs`.
pub fn program_json(program: &str) -> Fallible<Vec<u8>> {
    let folder = if program == "weir" {
        "../../p4src/build"
    } else {
        "../programs"
    };
    let path = format!("{}/{folder}/{program}.json", env!("CARGO_MANIFEST_DIR"));
    Ok(std::fs::read(path)?)
}

/// A switch that runs a program with ports 1 to 3.
pub fn switch(program: &str) -> Fallible<Switch> {
    let program = Program::from_json(&program_json(program)?)?;
    let mut switch = Switch::new(program, SwitchConfig::default());
    for port in 1..=3 {
        switch.set_port(port, PortConfig::default(), 0)?;
    }
    Ok(switch)
}

fn exact(bytes: &[u8]) -> KeyMatch {
    KeyMatch::Exact(bytes.to_vec())
}

fn masked(value: &[u8], mask: &[u8]) -> KeyMatch {
    KeyMatch::Ternary {
        value: value.to_vec(),
        mask: mask.to_vec(),
    }
}

fn mac(entry: u16) -> [u8; 6] {
    let [high, low] = entry.to_be_bytes();
    [2, 0, 0, 1, high, low]
}

fn address(entry: u16, host: u8) -> [u8; 4] {
    let [high, low] = entry.to_be_bytes();
    [10, high, low, host]
}

const SRC: [u8; 4] = [172, 16, 3, 4];
const DST_PORT: u16 = 5_201;

/// The match of a classify entry. All entries of one shape form one tuple; every flow has to search all eight.
fn classify_key(entry: u16) -> Vec<KeyMatch> {
    let mut key = vec![KeyMatch::Any; 8];
    key[2] = masked(&address(entry, 0), &[255, 255, 255, 0]);
    match entry % 8 {
        0 => {}
        1 => key[3] = exact(&[17]),
        2 => key[2] = exact(&address(entry, 1)),
        3 => key[1] = masked(&[172, 16, 0, 0], &[255, 240, 0, 0]),
        4 => (key[5], key[7]) = (exact(&DST_PORT.to_be_bytes()), exact(&[1])),
        5 => key[0] = exact(&[1]),
        6 => (key[1], key[2]) = (exact(&SRC), exact(&address(entry, 1))),
        _ => key[6] = exact(&[0]),
    }
    key
}

/// The switch with its entries, meters and report session.
pub fn weir() -> Fallible<Switch> {
    let mut switch = switch("weir")?;
    let meter = switch.info().meter("WeirIngress.police.policer");
    let meter = meter.ok_or("no such meter")?;
    for entry in 0..CLASSIFY_ENTRIES {
        insert(
            &mut switch,
            "WeirIngress.forward.forward",
            vec![exact(&mac(entry))],
            0,
            "WeirIngress.forward.set_egress",
            vec![vec![2]],
        )?;
        let base = (entry + 1) * CELLS;
        insert(
            &mut switch,
            "WeirIngress.classify.classify",
            classify_key(entry),
            1 + i32::from(entry * 7 % CLASSIFY_ENTRIES),
            "WeirIngress.classify.police_hashed",
            vec![base.to_be_bytes().to_vec(), vec![0, 63], vec![0]],
        )?;
        let (rate, burst) = if entry % RED_EVERY == 7 {
            (1, 1)
        } else {
            (1_000_000_000, 100_000)
        };
        let config = match entry % 3 {
            0 => MeterConfig::TwoRateThreeColour {
                cir: rate,
                cbs: burst,
                pir: rate,
                pbs: burst,
            },
            1 => MeterConfig::SingleRateThreeColour {
                cir: rate,
                cbs: burst,
                ebs: burst,
            },
            _ => MeterConfig::SingleRateTwoColour {
                cir: rate,
                cbs: burst,
            },
        };
        for cell in base..base + CELLS {
            switch.set_meter(meter, u64::from(cell), Some(config))?;
        }
    }
    report(&mut switch)?;
    Ok(switch)
}

/// Red is dropped, every drop is mirrored to session 5 and leaves port 3 as a report.
fn report(switch: &mut Switch) -> Fallible<()> {
    insert(
        switch,
        "WeirIngress.verdict.verdict",
        vec![KeyMatch::Any, exact(&[2])],
        1,
        "WeirIngress.verdict.drop_packet",
        vec![],
    )?;
    insert(
        switch,
        "WeirIngress.mirror_drops.report",
        vec![KeyMatch::Any],
        1,
        "WeirIngress.mirror_drops.report_drops",
        vec![vec![5], vec![1]],
    )?;
    let replicas = vec![Replica {
        port: 3,
        instance: 0,
    }];
    let session = CloneSession {
        replicas,
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch.insert_clone_session(5, &session)?;
    let collector = vec![
        mac(1).to_vec(),
        mac(2).to_vec(),
        vec![10, 0, 0, 8],
        vec![10, 0, 0, 9],
        vec![0x12, 0x34],
        vec![0x7f, 0xfe],
        vec![1],
        vec![128],
    ];
    insert(
        switch,
        "WeirEgress.make_report.collector",
        vec![exact(&[1])],
        0,
        "WeirEgress.make_report.set_collector",
        collector,
    )
}

/// Frames are contiguous in memory, as in a packet ring.
pub type Frame = [u8; 64];

/// A UDP frame of 64 bytes, FCS not counted, with a correct IPv4 checksum.
pub fn udp_frame(dst_mac: [u8; 6], dst: [u8; 4], src_port: u16) -> Frame {
    let mut frame = dst_mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 2, 8, 0]);
    let mut header = [
        0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    header[12..16].copy_from_slice(&SRC);
    header[16..20].copy_from_slice(&dst);
    let mut sum: u32 = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    header[10..12].copy_from_slice(&(!sum).to_be_bytes()[2..4]);
    frame.extend(header);
    frame.extend(src_port.to_be_bytes());
    frame.extend(DST_PORT.to_be_bytes());
    let mut padded = [0; 64];
    padded[..frame.len()].copy_from_slice(&frame);
    padded
}

/// Fisher-Yates with a fixed linear congruential generator (Knuth, MMIX).
pub fn scatter<T>(items: &mut [T]) {
    let mut state = 1_u64;
    for i in (1..items.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        items.swap(i, usize::try_from(state >> 33).unwrap_or(0) % (i + 1));
    }
}

/// One frame per flow, in scattered order; each classify entry has equally many flows (within one).
pub fn flows(count: u32) -> Vec<Frame> {
    let mut frames: Vec<Frame> = (0..count)
        .map(|flow| {
            let entry = u16::try_from(flow % u32::from(CLASSIFY_ENTRIES)).unwrap_or(0);
            let [.., high, low] = (flow / u32::from(CLASSIFY_ENTRIES) + 1_024).to_be_bytes();
            let src_port = u16::from_be_bytes([high, low]);
            udp_frame(mac(entry), address(entry, 1), src_port)
        })
        .collect();
    scatter(&mut frames);
    frames
}

/// Sends `frames` once, a burst at a time, from `now_ns` on; returns the time after the last, and the frames and bytes
/// that came out.
#[inline(never)]
pub fn pass(switch: &mut Switch, frames: &[Frame], mut now_ns: u64) -> (u64, u64, u64) {
    let (mut packets, mut bytes) = (0, 0);
    for burst in frames.chunks(BURST) {
        let mut taken = switch.burst();
        for frame in burst {
            taken.receive(1, frame, now_ns);
            now_ns += GAP_NS;
        }
        drop(taken);
        switch.advance(now_ns, &mut |_: u32, frame: &[u8], _: u64| {
            packets += 1;
            bytes += frame.len() as u64;
        });
    }
    (now_ns, packets, bytes)
}

/// The learning switch with `stations` known at port 1 and reached through port 2, and one frame from each to the next in scattered
/// order.
pub fn l2(stations: u16) -> Fallible<(Switch, Vec<Frame>)> {
    let mut switch = switch("l2_learning")?;
    for station in 0..stations {
        let key = exact(&mac(station));
        insert(
            &mut switch,
            "IngressImpl.source",
            vec![key.clone(), exact(&[1])],
            0,
            "IngressImpl.known",
            vec![],
        )?;
        insert(
            &mut switch,
            "IngressImpl.destination",
            vec![key],
            0,
            "IngressImpl.forward",
            vec![vec![2]],
        )?;
    }
    let frame = |station: u16| {
        let mut frame = udp_frame(mac((station + 1) % stations), [10, 0, 0, 1], 1_024);
        frame[6..12].copy_from_slice(&mac(station));
        frame
    };
    let mut frames: Vec<Frame> = (0..stations).map(frame).collect();
    scatter(&mut frames);
    Ok((switch, frames))
}

/// The router program with `routes` routes of 24 bits, and one frame per route in scattered order.
pub fn router(routes: u32) -> Fallible<(Switch, Vec<Frame>)> {
    let mut switch = switch("ipv4_router")?;
    insert(
        &mut switch,
        "IngressImpl.next_hop",
        vec![exact(&[1])],
        0,
        "IngressImpl.rewrite",
        vec![vec![2], mac(1).to_vec(), mac(2).to_vec()],
    )?;
    for route in 0..routes {
        let value = (route << 8).to_be_bytes().to_vec();
        let key = KeyMatch::Lpm {
            value,
            prefix_len: 24,
        };
        insert(
            &mut switch,
            "IngressImpl.route",
            vec![key],
            0,
            "IngressImpl.set_next_hop",
            vec![vec![1]],
        )?;
    }
    let frame = |route: u32| udp_frame(mac(1), (route << 8 | 7).to_be_bytes(), 1_024);
    let mut frames: Vec<Frame> = (0..routes).map(frame).collect();
    scatter(&mut frames);
    Ok((switch, frames))
}
