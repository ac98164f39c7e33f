// SPDX-License-Identifier: Apache-2.0
//! The cost of a packet by number of table entries and of flows, as CSV: `series,size,ns_per_packet,insert_ns,
//! bytes_per_entry`. The last column is empty if the table is too small to measure it. `tools/switch_cost.py` draws it.
//!
//! `cargo run --release -p weir-dataplane --example cost_growth [SERIES]`; SERIES is the beginning of a series' name

#[path = "../tests/workload/mod.rs"]
mod workload;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use weir_dataplane::{KeyMatch, PortConfig, Program, Switch, SwitchConfig};
use workload::Fallible;

/// Distinct packets of the series that vary the entries.
const FLOWS: u32 = 10_000;
/// As above, but so few that all their data is in the cache: this measures the algorithm without the memory.
const FEW_FLOWS: u32 = 100;
/// Packets per round, and rounds; the fastest round counts, because the others only add disturbances.
const ROUND: usize = 20_000;
const ROUNDS: usize = 15;
/// With fewer entries the fixed size of a table would dominate the bytes per entry.
const LEAST_FOR_MEMORY: u32 = 10_000;

/// The program with room for any number of entries in its tables.
fn roomy(program: &str) -> Fallible<Switch> {
    let mut json: serde_json::Value = serde_json::from_slice(&workload::program_json(program)?)?;
    let pipelines = json["pipelines"].as_array_mut().ok_or("no pipelines")?;
    for pipeline in pipelines {
        for table in pipeline["tables"].as_array_mut().ok_or("no tables")? {
            table["max_size"] = 4_000_000.into();
        }
    }
    let program = Program::from_json(&serde_json::to_vec(&json)?)?;
    let mut switch = Switch::new(program, SwitchConfig::default());
    for port in 1..=3 {
        switch.set_port(port, PortConfig::default(), 0)?;
    }
    Ok(switch)
}

/// Bytes allocated now.
static LIVE: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn fastest_ns(switch: &mut Switch, frames: &[workload::Frame]) -> f64 {
    let mut now_ns = 0;
    let mut best = f64::INFINITY;
    let passes = ROUND.div_ceil(frames.len());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..passes {
            now_ns = workload::pass(switch, frames, now_ns).0;
        }
        let packets = (passes * frames.len()) as f64;
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / packets);
    }
    best
}

/// Whether a series was selected on the command line.
fn wanted(series: &str) -> bool {
    std::env::args()
        .nth(1)
        .is_none_or(|start| series.starts_with(&start))
}

/// One point of a series: `insert` adds entry number n, `frame` is a packet that hits it. With `few_too` also a point
/// of the series with few flows.
fn point(
    (series, few_too): (&str, bool),
    program: &str,
    entries: u32,
    insert: impl Fn(&mut Switch, u32) -> Fallible<()>,
    frame: impl Fn(u32) -> workload::Frame,
) -> Fallible<()> {
    if !wanted(series) {
        return Ok(());
    }
    let mut switch = roomy(program)?;
    let before = LIVE.load(Relaxed);
    let start = Instant::now();
    for entry in 0..entries {
        insert(&mut switch, entry)?;
    }
    let insert_ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(entries);
    let bytes = (entries >= LEAST_FOR_MEMORY)
        .then_some(LIVE.load(Relaxed).saturating_sub(before) / u64::from(entries));
    // Spread over all entries; a fixed number of packets, so that only the number of entries changes.
    let mut ns = |flows: u32| {
        let stride = (entries / flows).max(1);
        let mut frames: Vec<workload::Frame> =
            (0..flows).map(|i| frame(i * stride % entries)).collect();
        workload::scatter(&mut frames);
        fastest_ns(&mut switch, &frames)
    };
    let bytes = bytes.map_or(String::new(), |bytes| bytes.to_string());
    println!("{series},{entries},{:.1},{insert_ns:.0},{bytes}", ns(FLOWS));
    if few_too {
        println!(
            "{series} ({FEW_FLOWS} flows),{entries},{:.1},,",
            ns(FEW_FLOWS)
        );
    }
    Ok(())
}

fn mac(entry: u32) -> [u8; 6] {
    let [a, b, c, d] = entry.to_be_bytes();
    [2, 0, a, b, c, d]
}

fn exact(entries: u32) -> Fallible<()> {
    let add = |switch: &mut Switch, entry: u32| {
        let key = vec![KeyMatch::Exact(mac(entry).to_vec())];
        let (table, action) = (
            "WeirIngress.forward.forward",
            "WeirIngress.forward.set_egress",
        );
        workload::insert(switch, table, key, 0, action, vec![vec![2]])
    };
    let frame = |entry| workload::udp_frame(mac(entry), [10, 0, 0, 1], 1_024);
    point(("exact", true), "weir", entries, add, frame)
}

/// Prefixes of 17 to 32 bits (`mixed`) or of 24.
fn lpm(entries: u32, mixed: bool) -> Fallible<()> {
    let length = |entry: u32| if mixed { 32 - entry % 16 } else { 24 };
    // Entries differ in the first 16 bits, which every prefix has.
    let value = |entry: u32| entry << 16;
    let add = |switch: &mut Switch, entry: u32| {
        let key = KeyMatch::Lpm {
            value: value(entry).to_be_bytes().to_vec(),
            prefix_len: length(entry),
        };
        let (table, action) = ("IngressImpl.route", "IngressImpl.set_next_hop");
        workload::insert(switch, table, vec![key], 0, action, vec![vec![1]])
    };
    let frame = |entry| workload::udp_frame(mac(1), (value(entry)).to_be_bytes(), 1_024);
    let series = if mixed {
        "LPM with 16 lengths"
    } else {
        "LPM with one length"
    };
    point((series, !mixed), "ipv4_router", entries, add, frame)
}

/// Entries with unique destinations, spread over `masks` combinations of masks.
fn ternary(entries: u32, masks: u32) -> Fallible<()> {
    let add = |switch: &mut Switch, entry: u32| {
        let shape = entry % masks;
        let mut key = vec![KeyMatch::Any; 8];
        let source = u32::MAX << (shape % 32);
        key[1] = KeyMatch::Ternary {
            value: (0xac10_0304 & source).to_be_bytes().to_vec(),
            mask: source.to_be_bytes().to_vec(),
        };
        key[2] = KeyMatch::Exact(entry.to_be_bytes().to_vec());
        if shape >= 32 {
            key[3] = KeyMatch::Exact(vec![17]);
        }
        let (table, action) = (
            "WeirIngress.classify.classify",
            "WeirIngress.classify.police_shared",
        );
        workload::insert(
            switch,
            table,
            key,
            1 + i32::try_from(entry)?,
            action,
            vec![vec![7], vec![0]],
        )
    };
    let frame = |entry: u32| workload::udp_frame(mac(1), entry.to_be_bytes(), 1_024);
    let series = format!("ternary with {masks} masks");
    point((&series, false), "weir", entries, add, frame)
}

fn main() -> Fallible<()> {
    println!("series,size,ns_per_packet,insert_ns,bytes_per_entry");
    for entries in [1, 1_000, 10_000, 100_000, 1_000_000] {
        exact(entries)?;
    }
    for entries in [1, 1_000, 10_000, 65_536] {
        lpm(entries, false)?;
        lpm(entries, true)?;
    }
    for entries in [1, 100, 1_000, 10_000] {
        ternary(entries, 8)?;
        ternary(entries, 64)?;
    }
    for flows in [1, 100, 1_000, 10_000, 100_000, 1_000_000] {
        if !wanted("flows") {
            break;
        }
        let mut switch = workload::weir()?;
        let frames = workload::flows(flows);
        let ns = fastest_ns(&mut switch, &frames);
        println!("flows,{flows},{ns:.1},,");
    }
    Ok(())
}
