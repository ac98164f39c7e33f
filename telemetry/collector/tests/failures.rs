// SPDX-License-Identifier: Apache-2.0
//! Failures: one clear line, an exit code, and whole files are kept.

use crate::common;

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use common::{Ended, Folder, Running, any_port, frame, pcap, read_parquet, run_to_end};
use nix::sys::signal::Signal;
use weir_report::{UDP_PORT, WeirReport};

/// Runs a collector on a free port with these files until it exits.
fn listen(output: &Path, accounting: &Path) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-collector"));
    command.arg("--listen").arg(any_port().to_string());
    command.arg("--output").arg(output);
    command.arg("--accounting").arg(accounting);
    run_to_end(&mut command)
}

/// The one line of a collector that failed.
fn failure(ended: &Ended) -> &str {
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    ended.stderr.trim_end()
}

/// Bytes that do not compress, from a linear congruential generator (Knuth's MMIX constants).
fn noise() -> impl FnMut() -> u8 {
    let mut state = 1_u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    }
}

/// A capture with reports of packets of 100 bytes that do not compress.
fn incompressible_capture(reports: u32) -> Vec<u8> {
    let mut noise = noise();
    let mut inner = [0; 100];
    let frames: Vec<_> = (0..reports)
        .map(|sequence| {
            inner.fill_with(&mut noise);
            let report = WeirReport {
                sequence,
                inner: &inner,
                ..WeirReport::default()
            };
            frame(&report, UDP_PORT)
        })
        .collect();
    pcap(&frames, 65_535)
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
    // TEST-NET-1 (RFC 5737) is no host's address.
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
    let ended = listen(&output, &folder.path("collector.json"));
    assert!(
        failure(&ended).contains(&format!("cannot create {}.partial", output.display())),
        "{ended:?}"
    );
    // The accounting file is not created either when the collection never began.
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn a_folder_that_takes_no_files_is_named() {
    let folder = Folder::new();
    // Not even root can create files there.
    let output = Path::new("/sys/telemetry.parquet");
    let ended = listen(output, &folder.path("collector.json"));
    assert!(
        failure(&ended).contains("cannot create /sys/telemetry.parquet.partial: "),
        "{ended:?}"
    );
}

#[test]
fn an_accounting_that_cannot_be_written_is_known_at_the_start() {
    let folder = Folder::new();
    let accounting = folder.path("missing").join("collector.json");
    let ended = listen(&folder.output(), &accounting);
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
    assert_eq!(folder.names(), [""; 0]);
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
    // A limit on the file's size makes the write fail as a full disk does, without a disk. 1024 blocks of 512 bytes.
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_weir-collector"),
    ]);
    folder.add_arguments(&mut command, any_port());
    // A row group ends with the batch that fills it: at most 200 + 127 reports of 0.9 kB, so the first one fits.
    let mut collector = Running::start(command.args(["--row-group", "200"]));

    let mut inner = [0; 900];
    let mut noise = noise();
    for sequence in 0..1_000_000 {
        // Until the limit is reached; a small kernel buffer may drop any number of them.
        if collector.has_ended() {
            break;
        }
        inner.fill_with(&mut noise);
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

/// Runs a script in separate namespaces with all privileges; `None`, and a skipped test, where they are not allowed.
#[track_caller]
fn in_namespaces(script: &str, folder: &Folder) -> Option<Ended> {
    let unshare = |arguments: &[&str]| {
        // A collector that does not exit fails its own test and stops no other.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "30"]);
        command.args(["unshare", "--user", "--map-root-user", "--net", "--mount"]);
        command.args(arguments);
        // An ordinary user has no sbin on PATH, where ip and mount may be.
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        command.env("PATH", path);
        command.env("COLLECTOR", env!("CARGO_BIN_EXE_weir-collector"));
        command.env("FOLDER", folder.path(""));
        command.output()
    };
    let can = "mkdir \"$FOLDER/disk\" && mount -t tmpfs -o size=1m none \"$FOLDER/disk\" && \
               ip link add weir0 type veth peer name weir1";
    let tried = unshare(&["sh", "-c", can]).expect("timeout is installed");
    if !tried.status.success() {
        let said = String::from_utf8_lossy(&tried.stderr);
        // The exit code of a shell, and of timeout(1), for a program that is not installed.
        let lacks = match tried.status.code() {
            Some(127) => "util-linux, iproute2",
            _ => "kernel",
        };
        weir_skipped::skip(&format!(
            "{lacks}: no namespaces with separate file systems and interfaces: {}",
            said.trim()
        ));
        return None;
    }
    let output = unshare(&["sh", "-c", script]).expect("started");
    Some(Ended::of(output))
}

/// A veth pair; its end weir0 receives every report that the function `send` sends. No host has the address 10.9.0.2.
const CABLE: &str = r#"
    ip link add weir0 type veth peer name weir1 && ip link set weir0 up && ip link set weir1 up || exit 3
    ip address add 10.9.0.1/24 dev weir1
    ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev weir1
    send() { bash -c 'cat "$FOLDER/report" > /dev/udp/10.9.0.2/32766'; }
    "#;

/// Runs a collector on weir0 until it exits, and `script` once it is ready; returns its later output and its exit code.
#[track_caller]
fn at_a_cable(options: &str, script: &str, folder: &Folder) -> Option<Ended> {
    let mut payload = Vec::new();
    let report = WeirReport {
        sequence: 5,
        ..WeirReport::default()
    };
    report.encode(&mut payload).expect("valid");
    fs::write(folder.path("report"), payload).expect("written");
    let files = r#"--output "$FOLDER/telemetry.parquet" --accounting "$FOLDER/collector.json""#;
    let script = format!(
        r#"{CABLE}
        {{ "$COLLECTOR" --interface weir0 {options} {files}; echo "code $?"; }} | {{ read -r ready; {script}; cat; }}"#
    );
    in_namespaces(&script, folder)
}

#[test]
fn an_interface_that_goes_away_ends_the_collection_and_what_came_before_is_stored() {
    // Deleted at once, and after it was down for a while: the kernel reports whichever comes first.
    for delete in [
        "ip link delete weir0",
        "ip link set weir0 down; sleep 0.2; ip link delete weir0",
    ] {
        let folder = Folder::new();
        // It is deleted as soon as the report is in the ring.
        let Some(ended) = at_a_cable("", &format!("send; {delete}"), &folder) else {
            return;
        };
        assert_eq!(ended.stdout.trim_end(), "code 1", "{delete}: {ended:?}");
        assert_eq!(
            ended.stderr.trim_end(),
            "weir-collector: cannot receive on interface weir0: Network is down (os error 100); it is gone, what \
             came before is stored"
        );
        let accounting = folder.accounting();
        assert_eq!(
            (&accounting["received"], &accounting["rows"]),
            (&1.into(), &1.into())
        );
        assert_eq!(accounting["streams"][0]["first_sequence"], 5);
        assert_eq!(read_parquet(&folder.output()).0.num_rows(), 1);
    }
}

#[test]
fn an_interface_that_is_down_for_a_while_is_waited_for_even_under_another_name() {
    let folder = Folder::new();
    // Longer than the interval at which the collector checks that the interface exists. Then many times, because the
    // kernel sends nothing before it has noticed the carrier, and does not tell when.
    let script =
        "ip link set weir0 down; ip link set weir0 name weir2; sleep 1.5; ip link set weir2 up
        for i in 1 2 3 4 5 6 7 8 9 10; do send; sleep 0.2; done";
    let Some(ended) = at_a_cable("--count 1", script, &folder) else {
        return;
    };
    assert!(ended.stdout.trim_end().ends_with("code 0"), "{ended:?}");
    assert!(
        read_parquet(&folder.output()).0.num_rows() >= 1,
        "{ended:?}"
    );
}

#[test]
fn an_interface_that_is_renamed_whenever_it_is_down_is_not_taken_for_gone() {
    let folder = Folder::new();
    // Often enough that one name is gone again while the collector looks it up.
    let script = "for i in $(seq 75); do for names in 'weir0 weir2' 'weir2 weir0'; do set -- $names
            echo link set $1 down; echo link set $1 name $2; echo link set $2 up
        done; done | ip -batch -
        for i in 1 2 3 4 5 6 7 8 9 10; do send; sleep 0.2; done";
    let Some(ended) = at_a_cable("--count 1", script, &folder) else {
        return;
    };
    assert!(ended.stdout.trim_end().ends_with("code 0"), "{ended:?}");
}

#[test]
fn a_disk_without_room_keeps_whole_rows_and_the_accounts() {
    let folder = Folder::new();
    fs::write(folder.path("capture"), incompressible_capture(12_000)).expect("written");
    // 12,000 reports of 0.1 kB, 4096 at a time, on a disk of 1 MB; then the files are copied to where the test can read them.
    let script = r#"
        mount -t tmpfs -o size=1m none "$FOLDER/disk" || exit 3
        "$COLLECTOR" --read "$FOLDER/capture" --row-group 4096 --output "$FOLDER/disk/telemetry.parquet" \
            --accounting "$FOLDER/disk/collector.json"
        code=$?
        ls -A "$FOLDER/disk" > "$FOLDER/names"
        cp "$FOLDER"/disk/* "$FOLDER" && exit $code"#;
    let Some(ended) = in_namespaces(script, &folder) else {
        return;
    };
    let line = failure(&ended);
    let (rows, _) = read_parquet(&folder.output());
    let whole = format!(
        "No space left on device (os error 28); the {} rows before that are whole in it",
        rows.num_rows()
    );
    assert!(line.ends_with(&whole), "{line}");
    assert!((4096..12_000).contains(&rows.num_rows()), "{line}");
    let accounting = folder.accounting();
    assert_eq!(
        (&accounting["complete"], &accounting["rows"]),
        (&false.into(), &rows.num_rows().into())
    );
    let names = fs::read_to_string(folder.path("names")).expect("there");
    assert_eq!(names, "collector.json\ntelemetry.parquet\n");
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
