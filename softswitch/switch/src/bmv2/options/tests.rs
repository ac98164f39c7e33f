// SPDX-License-Identifier: Apache-2.0

use super::*;

fn parsed(flavour: Flavour, line: &str) -> Result<Parsed, String> {
    let words = std::iter::once(flavour.name()).chain(line.split_whitespace());
    parse(flavour, &words.map(OsString::from).collect::<Vec<_>>())
}

fn options(line: &str) -> Options {
    match parsed(Flavour::Grpc, line) {
        Ok(Parsed::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> String {
    parsed(Flavour::Grpc, line).expect_err(line)
}

fn numbers(options: &Options) -> Vec<Port> {
    options.port_configs().unwrap().into_keys().collect()
}

#[test]
fn a_line_of_the_p4_tutorials_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!(
        "-i 1@s1-eth1 -i 2@s1-eth2 --pcap {} --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 build/basic.json \
         --debugger --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 510 --priority-queues 4",
        dir.path().display()
    );
    let options = options(&line);
    assert_eq!(options.program, Some(PathBuf::from("build/basic.json")));
    assert_eq!(numbers(&options), [1, 2]);
    assert_eq!(options.device_id, 0);
    assert_eq!(options.log.to, LogTo::Console);
    assert_eq!(options.log.level, Level::Trace);
    assert_eq!(options.thrift_port, Some(9090));
    assert_eq!((options.cpu_port, options.drop_port), (Some(510), 511));
    let grpc = options.grpc.unwrap();
    assert_eq!(grpc.address, "0.0.0.0:50051".parse().unwrap());
    assert_eq!(grpc.tls, None);
    let Ports::Interfaces { pcap, .. } = options.ports else {
        panic!()
    };
    assert_eq!(pcap.as_deref(), Some(dir.path()));
    let said = options.differs.join("\n");
    for name in ["--nanolog", "--debugger"] {
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(options.queues, 4);
    assert!(!said.contains("--priority-queues"), "{said}");
}

#[test]
fn a_line_of_p4c_is_understood() {
    let words = "--log-file switch.log --log-flush --use-files 0 --thrift-port 9100 --device-id 3";
    let mut words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    words.insert(0, "simple_switch".into());
    words.extend(["-i 0@pcap0", "-i 7@pcap7", "x.json"].map(OsString::from));
    let Ok(Parsed::Run(options)) = parse(Flavour::Plain, &words) else {
        panic!()
    };
    assert_eq!(numbers(&options), [0, 7]);
    assert!(matches!(options.ports, Ports::Files { wait_s: 0, .. }));
    assert!(options.grpc.is_none());
    assert_eq!(
        options.log.to,
        LogTo::File {
            path: "switch.log".into(),
            max_bytes: 5_242_880,
            max_files: 3,
        }
    );
}

/// p4c's runner of PTF starts the program without a shell, with a shell's `&` at the end.
#[test]
fn words_after_the_targets_options_have_no_effect_and_are_named() {
    let options = options("--no-p4 -- --grpc-server-addr 127.0.0.1:1 &");
    assert!(
        options
            .differs
            .iter()
            .any(|line| line == "\"&\" after --: no effect here"),
        "{:?}",
        options.differs
    );
}

#[test]
fn without_options_the_defaults_are_those_of_bmv2_except_the_address() {
    let options = options("--no-p4");
    assert_eq!(options.program, None);
    assert_eq!(
        (options.device_id, options.thrift_port, options.cpu_port),
        (0, None, None)
    );
    assert_eq!(
        options.grpc.unwrap().address,
        "127.0.0.1:9559".parse().unwrap()
    );
    assert_eq!(options.log.to, LogTo::Nowhere);
    assert_eq!(options.differs, Vec::<String>::new());
}

#[test]
fn names_of_options_may_be_shortened_as_in_bmv2() {
    let options = options("--no-p4 --log-c --dev 7 -L info -- --grpc-server-a 127.0.0.1:1");
    assert_eq!((options.device_id, options.log.level), (7, Level::Info));
}

#[test]
fn packet_in_makes_every_number_a_port() {
    let options = options("--no-p4 --packet-in ipc:///tmp/x -i 1@ignored -- --cpu-port 255");
    let numbers = numbers(&options);
    assert_eq!(numbers.len(), 510);
    assert!(!numbers.contains(&255) && !numbers.contains(&511));
    assert!(options.differs.join("").contains("-i has no effect"));
}

#[test]
fn port_511_is_a_port_when_another_is_the_drop_port() {
    let options = options("--no-p4 -i 511@a -- --drop-port 500");
    assert_eq!(numbers(&options), [511]);
}

#[test]
fn versions_and_help_are_printed() {
    for (line, expected) in [
        ("--version", "1.15.5 (weir-switch"),
        ("-v", "1.15.5 (weir-switch"),
        ("--json-version", "2.24"),
        ("--help", "--interface <PORT@IFACE>"),
        ("--no-p4 -- --help", "--grpc-server-addr <ADDRESS:PORT>"),
    ] {
        let Ok(Parsed::Print(text)) = parsed(Flavour::Grpc, line) else {
            panic!("{line}")
        };
        assert!(text.contains(expected), "{line}: {text}");
    }
}

#[test]
fn mistakes_are_named_with_what_is_valid() {
    for (line, expected) in [
        ("", "no program was given"),
        ("--no-such-option x.json", "--no-such-option"),
        ("x.json -i 1", "there is no `@`"),
        ("x.json -i 512@a", "0 to 511"),
        ("x.json -i 1@", "the interface is missing"),
        ("x.json -i 1@a -i 1@b", "port 1 is given twice"),
        ("x.json -i 1@a -i 2@a", "a is another port already"),
        ("x.json -i 511@a", "the drop port"),
        ("x.json -i 3@a -- --cpu-port 3", "the CPU port"),
        (
            "x.json -- --cpu-port 511",
            "both --cpu-port and --drop-port",
        ),
        ("x.json -- --cpu-port 0", "--cpu-port"),
        ("x.json --pcap /no/such/folder", "is not a folder"),
        ("x.json --log-console --log-file a", "cannot be used with"),
        (
            "x.json --log-level loud",
            "trace, debug, info, warn, error, off",
        ),
        (
            "x.json --use-files 0 --packet-in ipc:///tmp/a",
            "exclude each other",
        ),
        ("x.json --restore-state f", "--restore-state f"),
        (
            "x.json -- --load-modules a.so",
            "--load-modules is not supported",
        ),
        (
            "x.json -- --dp-grpc-server-addr 0.0.0.0:1",
            "--dp-grpc-server-addr is not supported",
        ),
        (
            "x.json -- --grpc-server-addr nonsense",
            "--grpc-server-addr nonsense",
        ),
        (
            "x.json -- --grpc-server-addr unix:/a",
            "Unix sockets are not supported",
        ),
        (
            "x.json -- --grpc-server-cert a",
            "without --grpc-server-ssl",
        ),
        ("x.json -- --grpc-server-ssl", "needs --grpc-server-cert"),
        ("x.json -- --priority-queues 0", "at least one queue"),
        ("x.json -- --enable-swap", "--enable-swap"),
    ] {
        let reason = refused(line);
        assert!(reason.contains(expected), "{line}: {reason}");
    }
}

#[test]
fn the_programs_are_known_by_their_names() {
    use crate::bmv2::called_as;
    use std::ffi::OsStr;
    let flavour = |path: &str| called_as(OsStr::new(path));
    assert_eq!(flavour("/opt/bin/simple_switch_grpc"), Some(Flavour::Grpc));
    assert_eq!(flavour("simple_switch"), Some(Flavour::Plain));
    assert_eq!(flavour("weir-switch"), None);
    assert_eq!(flavour("simple_switch_CLI"), None);
}
