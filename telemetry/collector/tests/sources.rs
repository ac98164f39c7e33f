// SPDX-License-Identifier: Apache-2.0
//! Reports from captures and interfaces are stored like those from a socket.

use crate::common;

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use common::{Folder, Running, pcap, read_parquet, run_to_end};
use parquet::record::Field;
use serde_json::json;
use weir_report::{UDP_PORT, WeirReport, drop_reason};

fn frame(sequence: u32, dst_port: u16) -> Vec<u8> {
    let report = WeirReport {
        node_id: 1,
        sequence,
        dropped: true,
        drop_reason: drop_reason::POLICER,
        inner: &[7; 60],
        ..WeirReport::default()
    };
    common::frame(&report, dst_port)
}

fn read(folder: &Folder, capture: &[u8]) -> common::Ended {
    fs::write(folder.path("capture"), capture).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command.arg("--read").arg(folder.path("capture"));
    folder.add_files(&mut command);
    run_to_end(&mut command)
}

#[test]
fn a_capture_is_taken_in_to_its_end_with_its_own_times() {
    let folder = Folder::new();
    let frames = [
        frame(5, UDP_PORT),
        frame(6, UDP_PORT + 1),
        frame(8, UDP_PORT),
        b"no frame at all".to_vec(),
    ];
    let mut capture = pcap(&frames, 65_535);
    capture.extend([0; 10]);
    let ended = read(&folder, &capture);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended
            .stdout
            .trim_end()
            .ends_with("the capture ends inside a frame"),
        "{}",
        ended.stdout
    );
    let accounting = folder.accounting();
    let stream = &accounting["streams"][0];
    assert_eq!(
        (&stream["destination"], &stream["lost"]),
        (&json!("10.0.0.9:32766"), &json!(2))
    );
    assert_eq!(
        (&accounting["received"], &accounting["ignored"]),
        (&json!(2), &json!(2))
    );
    let (rows, _) = read_parquet(&folder.output());
    let times = [1_000_000_000, 1_002_000_000].map(Field::Long);
    assert_eq!(rows.column("received_ns"), times);
}

#[test]
fn a_report_of_which_a_capture_kept_a_part_is_counted_and_not_stored() {
    let folder = Folder::new();
    let ended = read(&folder, &pcap(&[frame(0, UDP_PORT)], 100));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let accounting = folder.accounting();
    assert_eq!(accounting["malformed_reasons"], json!({"oversize": 1}));
}

#[test]
fn a_damaged_capture_is_named_with_its_byte_and_what_came_before_is_stored() {
    let folder = Folder::new();
    let mut capture = pcap(&[frame(0, UDP_PORT)], 65_535);
    let offset = capture.len();
    capture.extend([0xff; 64]);
    let ended = read(&folder, &capture);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.stderr.contains(&format!("byte {offset}")),
        "{ended:?}"
    );
    assert_eq!(read_parquet(&folder.output()).0.num_rows(), 1);

    let folder = Folder::new();
    let ended = read(&folder, b"GIF89a and so on and so on");
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1));
    assert!(ended.stderr.contains("no capture"), "{}", ended.stderr);
    assert_eq!(folder.names(), ["capture"]);
}

#[test]
fn an_interface_gives_the_reports_to_its_port_and_no_others() {
    let folder = Folder::new();
    // The kernel chooses a free port, which no other program sends to.
    let holder = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let address = holder.local_addr().expect("bound");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command.args(["--interface", "lo", "--port", &address.port().to_string()]);
    folder.add_files(command.args(["--count", "3", "--receive-buffer", "1048576"]));
    let Some(mut running) = Running::start_or_refused(&mut command, "CAP_NET_RAW") else {
        weir_skipped::skip("user: packet sockets need CAP_NET_RAW, which this test does not have");
        return;
    };
    let sender = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let send = |payload: &[u8], to| {
        sender.send_to(payload, to).expect("sent");
    };
    for sequence in [0, 1, 3] {
        let payload = &frame(sequence, UDP_PORT)[42..];
        send(payload, sender.local_addr().expect("bound"));
        send(payload, address);
    }
    while !running.has_ended() {
        std::thread::yield_now();
    }
    assert_eq!(running.wait().code, Some(0));
    let accounting = folder.accounting();
    assert_eq!(
        (&accounting["received"], &accounting["lost"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(
        accounting["streams"][0]["destination"],
        json!(address.to_string())
    );
    assert_eq!(accounting["ignored"], 0);
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let folder = Folder::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    folder.add_files(command.args(["--interface", "weir-none"]));
    let ended = run_to_end(&mut command);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1));
    assert!(
        ended.stderr.contains("interface weir-none") && ended.stderr.contains("ip link"),
        "{}",
        ended.stderr
    );
}
