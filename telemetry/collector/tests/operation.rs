// SPDX-License-Identifier: Apache-2.0
//! Operation: files after a kill, rotation, metrics and the dashboard that shows them.

use crate::common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{Folder, Running, any_port, read_parquet, run_to_end};
use nix::sys::signal::Signal;
use weir_report::{WeirReport, colour, drop_reason};

fn red(sequence: u32) -> WeirReport<'static> {
    WeirReport {
        node_id: 7,
        sequence,
        dropped: true,
        drop_reason: drop_reason::POLICER,
        policer: 3,
        colour: colour::RED,
        wire_length: 1514,
        packet_number: sequence + 1,
        inner: &[1; 60],
        ..WeirReport::default()
    }
}

fn get(address: &str, path: &str) -> String {
    ask(address, "GET", path)
}

fn ask(address: &str, method: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("connected");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    connection.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("answered");
    answer
}

/// The value of a sample; 0 if there is none.
fn value(page: &str, name: &str) -> f64 {
    let start = format!("{name} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&start));
    found.map_or(0.0, |value| value.parse().expect("a number"))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

/// A collector with metrics, and their address.
fn start(folder: &Folder, arguments: &[&str]) -> (Running, String) {
    let mut command = folder.command(any_port());
    let mut running = Running::start(command.args(["--metrics", "127.0.0.1:0"]).args(arguments));
    let line = running.line();
    let address = line
        .trim_end()
        .strip_prefix("weir-collector: metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap_or_else(|| panic!("{line:?}"));
    (running, address.to_owned())
}

fn rows_in(folder: &Folder, name: &str) -> u64 {
    read_parquet(&folder.path(name)).0.num_rows() as u64
}

#[test]
fn reports_gather_until_the_time_or_a_signal() {
    let folder = Folder::new();
    // Nobody waits for that minute: the signal ends it, and takes what has arrived.
    let (collector, metrics) = start(&folder, &["--gather", "60000"]);
    for sequence in 0..300 {
        collector.send_report(&red(sequence));
    }
    let name = "weir_policer_packets_total{node_id=\"7\",policer=\"3\"}";
    assert_eq!(value(&get(&metrics, "/metrics"), name), 0.0);
    let ended = collector.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(rows_in(&folder, "telemetry.parquet"), 300);
}

#[test]
fn all_that_has_gathered_is_taken_at_once() {
    let folder = Folder::new();
    let (collector, metrics) = start(&folder, &["--gather", "5000"]);
    // More than a system call takes, and few enough for an ordinary user's receive buffer.
    for sequence in 0..200 {
        collector.send_report(&red(sequence));
    }
    let name = "weir_policer_packets_total{node_id=\"7\",policer=\"3\"}";
    let received = || value(&get(&metrics, "/metrics"), name);
    wait_until("some received", || received() > 0.0);
    // The rest does not gather for another five seconds. Requests are counted in place of time, because a machine that
    // is busy answers them later too.
    assert!((0..100).any(|_| received() >= 200.0));
    assert_eq!(collector.stop().code, Some(0));
}

#[test]
fn after_a_kill_what_was_stored_is_whole_and_the_next_start_says_so() {
    let folder = Folder::new();
    // Both kinds of stored rows: row groups of ten, and rows that wait for one.
    let (collector, metrics) = start(&folder, &["--row-group", "10", "--run-id", "first"]);
    for sequence in 0..25 {
        collector.send_report(&red(sequence));
        // One at a time, so that each row group has ten.
        wait_until("received", || {
            value(
                &get(&metrics, "/metrics"),
                "weir_policer_packets_total{node_id=\"7\",policer=\"3\"}",
            ) >= f64::from(sequence + 1)
        });
    }
    wait_until("stored", || {
        value(&get(&metrics, "/metrics"), "weir_rows_stored_total") >= 25.0
    });
    collector.signal(Signal::SIGKILL);
    assert_eq!(collector.wait().code, None);

    let next = Running::start(&mut folder.command(any_port()));
    next.send_report(&red(100));
    let ended = next.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stderr.contains("25 rows are whole in")
            && ended.stderr.contains("last second is missing"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        folder.names(),
        [
            "collector.json",
            "telemetry.parquet",
            "telemetry.recovered-1.parquet",
            "telemetry.recovered-2.parquet"
        ]
    );
    let counts = [1, 2].map(|n| rows_in(&folder, &format!("telemetry.recovered-{n}.parquet")));
    assert_eq!(
        (counts, rows_in(&folder, "telemetry.parquet")),
        ([20, 5], 1)
    );
    for (number, received) in [(1, 20), (2, 25)] {
        let (_, key_values) =
            read_parquet(&folder.path(&format!("telemetry.recovered-{number}.parquet")));
        let value = |key: &str| {
            let pair = key_values.iter().find(|(name, _)| name == key);
            pair.unwrap_or_else(|| panic!("no {key}")).1.clone()
        };
        assert_eq!(value("weir.run_id"), "first");
        assert_eq!(value("weir.schema_version"), "1");
        let accounts: serde_json::Value =
            serde_json::from_str(&value("weir.accounting")).expect("JSON");
        assert_eq!(
            (&accounts["received"], &accounts["ended"]),
            (&received.into(), &false.into())
        );
    }
}

#[test]
fn what_a_running_collector_writes_is_not_recovered() {
    let folder = Folder::new();
    let first = Running::start(&mut folder.command(any_port()));
    first.send_report(&red(0));
    let second = run_to_end(&mut folder.command(any_port()));
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(
        second.stderr.contains("another collector is writing it"),
        "{second:?}"
    );
    assert_eq!(first.stop().code, Some(0));
    assert_eq!(rows_in(&folder, "telemetry.parquet"), 1);
}

#[test]
fn at_overload_each_report_is_stored_or_counted() {
    let folder = Folder::new();
    let sent = 20_000;
    let mut command = folder.command(any_port());
    // The smallest buffer has a few kilobytes, which a burst fills.
    let collector = Running::start(command.args(["--receive-buffer", "1"]));
    for sequence in 0..sent {
        collector.send_report(&red(sequence));
    }
    assert_eq!(collector.stop().code, Some(0));
    let count = folder.counts(sent);
    // There is no gap after the last report that arrived.
    let accounting = folder.accounting();
    assert!(count("lost") <= count("kernel_drops"), "{accounting}");
    assert_eq!(rows_in(&folder, "telemetry.parquet"), count("rows"));
    println!("{} of {sent} dropped by the kernel", count("kernel_drops"));
}

#[test]
fn files_rotate_by_size_and_the_next_collector_numbers_on() {
    let folder = Folder::new();
    let arguments = ["--rotate-bytes", "1", "--row-group", "10"];
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let (collector, metrics) = start(&folder, &arguments);
        for sequence in 0..30 {
            collector.send_report(&red(sequence));
        }
        wait_until("received", || {
            value(&get(&metrics, "/metrics"), "weir_rows_stored_total") >= 30.0
        });
        let ended = collector.stop();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let files = folder.accounting()["files"].as_u64().expect("a number");
        numbers.push(files);
    }
    let names: Vec<_> = folder
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".parquet"))
        .collect();
    let expected: Vec<_> = (1..=numbers.iter().sum())
        .map(|n| format!("telemetry-{n:06}.parquet"))
        .collect();
    assert_eq!(names, expected);
    assert_eq!(
        names.iter().map(|name| rows_in(&folder, name)).sum::<u64>(),
        60
    );
}

#[test]
fn a_file_that_is_old_enough_ends_also_when_nothing_comes() {
    let folder = Folder::new();
    let collector = Running::start(folder.command(any_port()).args(["--rotate-seconds", "1"]));
    collector.send_report(&red(0));
    let first = folder.path("telemetry-000001.parquet");
    wait_until("rotated", || first.exists());
    assert_eq!(collector.stop().code, Some(0));
    assert_eq!(rows_in(&folder, "telemetry-000001.parquet"), 1);
    assert_eq!(
        folder.names(),
        ["collector.json", "telemetry-000001.parquet"]
    );
}

#[test]
fn metrics_say_what_came_and_the_dashboard_shows_nothing_else() {
    let folder = Folder::new();
    let (collector, metrics) = start(&folder, &["--run-id", "a \"quoted\" run"]);
    collector.send(b"garbage");
    for report in [red(0), red(2), red(2)] {
        collector.send_report(&report);
    }
    let passed = WeirReport {
        dropped: false,
        colour: colour::GREEN,
        drop_reason: drop_reason::NONE,
        queue_occupancy: 12,
        ingress_ns: 1_000_000_000,
        egress_ns: 1_250_000_000,
        packet_number: 90,
        ..red(3)
    };
    collector.send_report(&passed);
    // The specification's report of a gap.
    collector.send(&gap_report());
    wait_until("stored", || {
        value(&get(&metrics, "/metrics"), "weir_rows_stored_total") >= 4.0
    });
    let page = get(&metrics, "/metrics");
    let stream = format!(
        "node_id=\"7\",hw_id=\"0\",destination=\"{}\"",
        collector.address
    );
    for line in [
        format!("weir_reports_received_total{{{stream}}} 3"),
        format!("weir_reports_lost{{{stream}}} 1"),
        format!("weir_reports_duplicate_total{{{stream}}} 1"),
        "weir_reports_malformed_total{reason=\"truncated\"} 1".to_owned(),
        "weir_kernel_drops_total 0".to_owned(),
        "weir_policer_packets_total{node_id=\"7\",policer=\"3\"} 90".to_owned(),
        "weir_policer_reports_total{node_id=\"7\",policer=\"3\",colour=\"red\",dropped=\"true\"} 2".to_owned(),
        "weir_policer_reported_bytes_total{node_id=\"7\",policer=\"3\",colour=\"green\",dropped=\"false\"} 1514".to_owned(),
        "weir_policer_queue_occupancy{node_id=\"7\",policer=\"3\"} 12".to_owned(),
        "weir_policer_queue_delay_seconds{node_id=\"7\",policer=\"3\"} 0.25".to_owned(),
        "weir_drops_total{node_id=\"7\",reason=\"70\"} 2".to_owned(),
        "weir_queue_lost_total{node_id=\"1\"} 5".to_owned(),
    ] {
        assert!(page.lines().any(|found| found == line), "no {line} in {page}");
    }
    assert!(
        page.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("run_id=\"a \\\"quoted\\\" run\"")
    );
    assert!(get(&metrics, "/").starts_with("HTTP/1.1 404"));
    assert!(ask(&metrics, "POST", "/metrics").starts_with("HTTP/1.1 405"));
    let head = ask(&metrics, "HEAD", "/metrics");
    assert!(head.ends_with("\r\n\r\n") && !head.contains("Content-Length: 0"));

    let exported: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let dashboard = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../grafana/weir-collector.json"
    );
    let dashboard: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dashboard).expect("there")).expect("JSON");
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let words = target["expr"].as_str().expect("an expression");
            let words = words.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            shown.extend(
                words.filter(|word| word.starts_with("weir_") || word.starts_with("process_")),
            );
        }
    }
    let missing: Vec<_> = shown.difference(&exported).collect();
    assert!(missing.is_empty() && shown.len() > 15, "{missing:?}");
    let hidden: Vec<_> = exported.difference(&shown).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    assert_eq!(collector.stop().code, Some(0));
}

#[test]
fn a_metrics_port_in_use_is_named() {
    let holder = TcpListener::bind(any_port()).expect("bound");
    let address = holder.local_addr().expect("bound").to_string();
    let folder = Folder::new();
    let ended = run_to_end(folder.command(any_port()).args(["--metrics", &address]));
    assert_eq!(
        (ended.code, ended.stderr.lines().count()),
        (Some(1), 1),
        "{ended:?}"
    );
    assert!(
        ended
            .stderr
            .contains(&format!("cannot serve metrics on {address}")),
        "{ended:?}"
    );
    assert_eq!(folder.names(), [""; 0]);
}

/// `gap-of-five-before-a-green-packet` of the specification, without its inner packet.
fn gap_report() -> Vec<u8> {
    let words: [u32; 15] = [
        0x2000_0009,
        0x0000_0001,
        0x130c_0a40,
        0x1c01_5745,
        0xf000_0000,
        0,
        1,
        0x2a9e_8880,
        1,
        0x2a9e_8880,
        0,
        0x0003_0000,
        0x42,
        0x0001_86a7,
        5,
    ];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}
