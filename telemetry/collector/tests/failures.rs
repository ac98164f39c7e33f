// SPDX-License-Identifier: Apache-2.0
//! What goes wrong: one clear line, an exit code, and nothing lost that was whole.

mod common;

use std::fs;
use std::net::UdpSocket;
use std::process::Command;

use common::{Ended, Folder, Running, any_port, read_parquet, run_to_end};
use nix::sys::signal::Signal;
use weir_report::WeirReport;

/// The one line of a collector that failed.
fn failure(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    ended.stderr.trim_end()
}

#[test]
fn a_port_in_use_is_named_and_no_file_is_left() {
    let holder = UdpSocket::bind(any_port()).expect("bound");
    let address = holder.local_addr().expect("bound");
    let folder = Folder::new();
    let ended = run_to_end(&mut folder.command(address));
    let line = failure(&ended);
    assert!(
        line.contains(&format!("cannot listen on {address}")) && line.contains("another program"),
        "{line}"
    );
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_foreign_address_is_named() {
    let folder = Folder::new();
    // TEST-NET-1 (RFC 5737) is nobody's address.
    let ended = run_to_end(&mut folder.command("192.0.2.1:0".parse().expect("an address")));
    assert!(
        failure(&ended).contains("cannot listen on 192.0.2.1:0"),
        "{ended:?}"
    );
}

#[test]
fn an_output_folder_that_is_not_there_is_named() {
    let folder = Folder::new();
    let output = folder.path("missing").join("telemetry.parquet");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command
        .args(["--listen", "127.0.0.1:0", "--output"])
        .arg(&output);
    command
        .arg("--accounting")
        .arg(folder.path("collector.json"));
    let ended = run_to_end(&mut command);
    assert!(
        failure(&ended).contains(&format!("cannot create {}.partial", output.display())),
        "{ended:?}"
    );
}

#[test]
fn a_folder_that_takes_no_files_is_named() {
    let folder = Folder::new();
    // Also for root: nobody creates files there.
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--output",
        "/sys/telemetry.parquet",
    ]);
    command
        .arg("--accounting")
        .arg(folder.path("collector.json"));
    let ended = run_to_end(&mut command);
    assert!(
        failure(&ended).contains("cannot create /sys/telemetry.parquet.partial: "),
        "{ended:?}"
    );
}

#[test]
fn an_accounting_that_cannot_be_written_is_known_at_the_start() {
    let folder = Folder::new();
    let accounting = folder.path("missing").join("collector.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command
        .args(["--listen", "127.0.0.1:0", "--output"])
        .arg(folder.output());
    command.arg("--accounting").arg(&accounting);
    let ended = run_to_end(&mut command);
    assert!(
        failure(&ended).contains(&format!("cannot write {}.partial", accounting.display())),
        "{ended:?}"
    );
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_ready_file_that_cannot_be_written_leaves_the_output_name_free() {
    let folder = Folder::new();
    let ready_file = folder.path("missing").join("ready");
    let ended = run_to_end(
        folder
            .command(any_port())
            .arg("--ready-file")
            .arg(&ready_file),
    );
    assert!(failure(&ended).contains("ready.partial"), "{ended:?}");
    assert!(
        !folder
            .names()
            .iter()
            .any(|name| name.starts_with("telemetry")),
        "{:?}",
        folder.names()
    );
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    for name in ["telemetry.parquet", "telemetry.parquet.partial"] {
        let folder = Folder::new();
        fs::write(folder.path(name), "of an earlier run").expect("written");
        let ended = run_to_end(&mut folder.command(any_port()));
        assert!(
            failure(&ended).contains(&format!("{} exists", folder.path(name).display())),
            "{ended:?}"
        );
        assert_eq!(
            fs::read_to_string(folder.path(name)).expect("there"),
            "of an earlier run"
        );
    }
}

#[test]
fn a_killed_collector_leaves_a_file_whose_name_says_so() {
    let folder = Folder::new();
    let collector = Running::start(&mut folder.command(any_port()));
    collector.send_report(&WeirReport::default());
    collector.signal(Signal::SIGKILL);
    assert_eq!(collector.wait().code, None);
    assert_eq!(
        folder.names(),
        [
            "collector.json.partial",
            "telemetry.parquet.journal",
            "telemetry.parquet.partial",
            "telemetry.parquet.rows"
        ]
    );
}

#[test]
fn a_full_disk_ends_the_collection_and_keeps_what_was_whole() {
    let folder = Folder::new();
    // A limit on the file's size fails the write as a full disk does, and needs no disk. 1024 blocks of 512 bytes.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_weir-collector"),
    ]);
    folder.add_arguments(&mut command, any_port());
    // A row group ends with the batch that fills it: at most 200 + 127 reports of 0.9 kB, so the first one fits.
    let mut collector = Running::start(command.args(["--row-group", "200"]));

    // Bytes that do not compress, from a linear congruential generator (Knuth's MMIX constants).
    let mut state = 1_u64;
    let mut inner = [0; 900];
    for sequence in 0..1_000_000 {
        // Until the limit is met; a small kernel buffer may drop any number on the way.
        if collector.has_ended() {
            break;
        }
        for byte in &mut inner {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
        collector.send_report(&WeirReport {
            sequence,
            inner: &inner,
            ..WeirReport::default()
        });
    }
    let ended = collector.wait();
    let line = failure(&ended);
    assert!(
        line.contains(&format!("cannot write {}", folder.output().display())),
        "{line}"
    );

    let (rows, _) = read_parquet(&folder.output());
    assert!(
        line.ends_with(&format!(
            "the {} rows before that are whole in it",
            rows.num_rows()
        )),
        "{line}"
    );
    let accounting = folder.accounting();
    let received = accounting["received"].as_u64().expect("a number");
    assert!(
        rows.num_rows() >= 200 && (rows.num_rows() as u64) < received,
        "{} rows",
        rows.num_rows()
    );
    assert_eq!(
        (&accounting["complete"], &accounting["rows"]),
        (&false.into(), &rows.num_rows().into())
    );
    assert_eq!(folder.names(), ["collector.json", "telemetry.parquet"]);
}

#[test]
fn help_teaches_and_a_wrong_option_is_refused() {
    let help = run_to_end(Command::new(env!("CARGO_BIN_EXE_weir-collector")).arg("--help"));
    assert_eq!(help.code, Some(0));
    assert!(
        help.stdout.contains("--listen <ADDRESS:PORT>") && help.stdout.contains("Examples:"),
        "{}",
        help.stdout
    );
    let wrong = run_to_end(
        Command::new(env!("CARGO_BIN_EXE_weir-collector")).args(["--listen", "localhost"]),
    );
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("--listen <ADDRESS:PORT>"),
        "{}",
        wrong.stderr
    );
}
