// SPDX-License-Identifier: Apache-2.0
//! The log of a packet's path is in the words of bmv2's, and a switch with a log does what one without does.

use crate::common;

use common::{ethernet, ipv4, program};
use weir_dataplane::{
    KeyMatch, LogLevel, PathLogConfig, PortConfig, Replica, Switch, SwitchConfig, TableEntry,
};

fn logged(name: &str, level: LogLevel, dump_bytes: usize) -> Switch {
    let config = SwitchConfig {
        path_log: Some(PathLogConfig { level, dump_bytes }),
        ..SwitchConfig::default()
    };
    let mut switch = Switch::new(program(name), config);
    for port in 1..=3 {
        switch.set_port(port, PortConfig::default(), 0).unwrap();
    }
    switch
}

fn lines(switch: &mut Switch) -> Vec<(LogLevel, String)> {
    let mut lines = Vec::new();
    switch.drain_path_log(|level, text| lines.push((level, text.to_owned())));
    lines
}

/// Texts without the number of the packet.
fn texts(switch: &mut Switch) -> Vec<String> {
    let text = |(_, line): (LogLevel, String)| match line.split_once("[cxt 0] ") {
        Some((_, text)) => text.to_owned(),
        None => line,
    };
    lines(switch).into_iter().map(text).collect()
}

fn router(level: LogLevel, dump_bytes: usize) -> Switch {
    let mut switch = logged("ipv4_router", level, dump_bytes);
    common::insert(
        &mut switch,
        "IngressImpl.route",
        vec![KeyMatch::Lpm {
            value: vec![10, 0, 0, 0],
            prefix_len: 8,
        }],
        0,
        "IngressImpl.set_next_hop",
        &[&[0, 5]],
    );
    common::insert(
        &mut switch,
        "IngressImpl.next_hop",
        vec![KeyMatch::Exact(vec![5])],
        0,
        "IngressImpl.rewrite",
        &[&[2], &[2, 0, 0, 0, 1, 2], &[2, 0, 0, 0, 2, 2]],
    );
    switch
}

fn frame(ttl: u8) -> Vec<u8> {
    let packet = ipv4([10, 0, 0, 9], [10, 0, 0, 1], ttl, b"");
    ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 0x0800, &packet)
}

#[test]
fn a_routed_packet_is_followed_from_its_port_to_its_port() {
    let mut switch = router(LogLevel::Trace, 0);
    let sent = common::send(&mut switch, 1, &frame(64), 10);
    assert_eq!(common::ports(&sent), [2]);
    let lines = lines(&mut switch);
    assert!(
        lines
            .iter()
            .all(|(_, line)| line.starts_with("[0.0] [cxt 0] "))
    );
    let expected = [
        (LogLevel::Debug, "Processing packet received on port 1"),
        (LogLevel::Debug, "Parser 'parser': start"),
        (LogLevel::Debug, "Parser 'parser' entering state 'start'"),
        (LogLevel::Debug, "Extracting header 'ethernet'"),
        (LogLevel::Debug, "Parser state 'start': key is 0800"),
        (LogLevel::Trace, "Bytes parsed: 14"),
        (LogLevel::Debug, "Extracting header 'ipv4'"),
        (
            LogLevel::Debug,
            "Parser set: setting field 'scalars.tmp' from expression, new value is 1",
        ),
        (LogLevel::Trace, "Bytes parsed: 34"),
        (LogLevel::Debug, "Parser 'parser': end"),
        (
            LogLevel::Debug,
            "Checksum 'cksum_0': computed 0x149c - actual 0x149c",
        ),
        (LogLevel::Debug, "Verified checksum 'cksum_0': passed"),
        (LogLevel::Debug, "Pipeline 'ingress': start"),
        (
            LogLevel::Trace,
            "ipv4_router.p4(108) Condition \"hdr.ipv4.isValid() && standard_metadata.checksum_error == 0 ...\" \
             (node_2) is true",
        ),
        (LogLevel::Trace, "Applying table 'IngressImpl.route'"),
        (
            LogLevel::Debug,
            "Looking up key:\n* hdr.ipv4.dst        : 0a000001\n",
        ),
        (
            LogLevel::Debug,
            "Table 'IngressImpl.route': hit with handle 0",
        ),
        (
            LogLevel::Debug,
            "Dumping entry 0\nMatch key:\n* hdr.ipv4.dst        : LPM       0a000000/8\n",
        ),
        (
            LogLevel::Debug,
            "Action entry is IngressImpl.set_next_hop - 5,",
        ),
        (LogLevel::Trace, "Action IngressImpl.set_next_hop"),
        (
            LogLevel::Trace,
            "ipv4_router.p4(78) Primitive meta.next_hop = next_hop",
        ),
        (
            LogLevel::Debug,
            "Table 'IngressImpl.next_hop': hit with handle 0",
        ),
        (
            LogLevel::Debug,
            "Action entry is IngressImpl.rewrite - 2,20000000102,20000000202,",
        ),
        (
            LogLevel::Trace,
            "ipv4_router.p4(92) Primitive standard_metadata.egress_spec = port",
        ),
        (LogLevel::Debug, "Pipeline 'ingress': end"),
        (LogLevel::Debug, "Egress port is 2"),
        (LogLevel::Debug, "Pipeline 'egress': start"),
        (LogLevel::Debug, "Pipeline 'egress': end"),
        (LogLevel::Debug, "Deparser 'deparser': start"),
        (LogLevel::Debug, "Updating checksum 'cksum'"),
        (LogLevel::Debug, "Deparsing header 'ethernet'"),
        (LogLevel::Debug, "Deparsing header 'ipv4'"),
        (LogLevel::Debug, "Deparser 'deparser': end"),
        (
            LogLevel::Debug,
            "Transmitting packet of size 34 out of port 2",
        ),
    ];
    let mut rest = lines.iter();
    for (level, text) in expected {
        let found = rest.any(|(at, line)| *at == level && line.contains(text));
        assert!(found, "{text:?} is missing or out of order in {lines:#?}");
    }
}

#[test]
fn drops_misses_and_parser_errors_are_named() {
    let mut switch = router(LogLevel::Debug, 0);
    common::send(&mut switch, 1, &frame(64)[..20], 10);
    let short = texts(&mut switch);
    assert!(
        short.contains(&"Exception while parsing: PacketTooShort".to_owned()),
        "{short:?}"
    );
    assert!(
        !short.iter().any(|line| line.starts_with("Bytes parsed")),
        "{short:?}"
    );

    let packet = ipv4([10, 0, 0, 9], [11, 0, 0, 1], 64, b"");
    let miss = ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 0x0800, &packet);
    assert_eq!(common::send(&mut switch, 1, &miss, 20), []);
    let missed = texts(&mut switch);
    for expected in [
        "Table 'IngressImpl.route': miss",
        "Action entry is IngressImpl.drop - ",
        "Egress port is 511",
        "Dropping packet at the end of ingress",
    ] {
        assert!(
            missed.contains(&expected.to_owned()),
            "{expected}: {missed:#?}"
        );
    }
}

/// The condition is `a && b && c`; each operand is a condition of its own in the flat program.
#[test]
fn a_conjunction_is_one_condition_and_a_table_without_a_key_a_table() {
    let condition = |switch: &mut Switch| {
        let mut texts = texts(switch);
        texts.retain(|line| line.contains(" Condition "));
        texts
    };
    let mut switch = router(LogLevel::Trace, 0);
    let arp = ethernet([0xff; 6], [2, 0, 0, 0, 0, 2], 0x0806, &[0; 46]);
    for (frame, value) in [(arp.clone(), false), (frame(1), false), (frame(2), true)] {
        common::send(&mut switch, 1, &frame, 10);
        let conditions = condition(&mut switch);
        let [one] = conditions.as_slice() else {
            panic!("{conditions:#?}");
        };
        assert!(one.ends_with(&format!("(node_2) is {value}")), "{one}");
    }

    common::send(&mut switch, 1, &arp, 10);
    let lines = texts(&mut switch);
    let expected = [
        "Applying table 'tbl_drop'",
        "Looking up key:\n",
        "Table 'tbl_drop': miss",
        "Action entry is IngressImpl.drop - ",
        "Action IngressImpl.drop",
        "softswitch/programs/ipv4_router.p4(74) Primitive mark_to_drop(standard_metadata)",
        "Pipeline 'ingress': end",
    ];
    let start = lines.iter().position(|line| line == expected[0]);
    let found = start.and_then(|start| lines.get(start..start + expected.len()));
    assert_eq!(found.unwrap_or_default(), expected, "{lines:#?}");
}

#[test]
fn frames_are_dumped_at_level_info_only_if_asked() {
    let mut switch = router(LogLevel::Info, 3);
    common::send(&mut switch, 1, &frame(64), 10);
    let expected = [
        "Received packet of length 34 on port 1: 020000",
        "Sending packet of length 34 on port 2: 020000",
    ];
    assert_eq!(texts(&mut switch), expected);
}

#[test]
fn a_reset_of_the_state_does_not_end_the_log() {
    let mut switch = router(LogLevel::Debug, 0);
    switch.receive(1, &frame(64), 0);
    assert!(!lines(&mut switch).is_empty());
    switch.reset_state();
    switch.receive(1, &frame(64), 0);
    assert!(!lines(&mut switch).is_empty());
}

#[test]
fn copies_have_numbers_of_their_own() {
    let mut switch = logged("l2_learning", LogLevel::Debug, 0);
    let members = [2, 3].map(|port| Replica { port, instance: 1 });
    switch.insert_multicast_group(1, &members).unwrap();
    let frame = ethernet([0xff; 6], [2, 0, 0, 0, 0, 2], 0x0800, &[0; 46]);
    let sent = common::send(&mut switch, 1, &frame, 10);
    assert_eq!(common::ports(&sent), [2, 3]);
    let lines: Vec<String> = lines(&mut switch)
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    for expected in [
        "[0.0] [cxt 0] Multicast requested for packet",
        "[0.0] [cxt 0] Replicating packet on port 2",
        "[0.1] [cxt 0] Transmitting packet of size 60 out of port 2",
        "[0.2] [cxt 0] Transmitting packet of size 60 out of port 3",
    ] {
        assert!(
            lines.contains(&expected.to_owned()),
            "{expected}: {lines:#?}"
        );
    }
}

#[test]
fn a_log_changes_nothing_but_the_speed() {
    let mut with = router(LogLevel::Trace, 20);
    let config = SwitchConfig::default();
    let mut without = Switch::new(program("ipv4_router"), config);
    for port in 1..=3 {
        without.set_port(port, PortConfig::default(), 0).unwrap();
    }
    for table in ["IngressImpl.route", "IngressImpl.next_hop"] {
        let id = with.info().table(table).unwrap();
        for handle in with.entries(id).unwrap() {
            let entry: TableEntry = with.entry(id, handle).unwrap();
            without.insert_entry(id, &entry).unwrap();
        }
    }
    for (at, ttl) in [64, 1, 0, 2].into_iter().enumerate() {
        let now_ns = at as u64 * 1_000;
        let sent = common::send(&mut with, 1, &frame(ttl), now_ns);
        assert_eq!(sent, common::send(&mut without, 1, &frame(ttl), now_ns));
    }
    assert_eq!(with.stats(), without.stats());
}

/// Sends a frame through a test program and returns the log's lines of the parser and of checksums.
fn parsed(name: &str, frame: &[u8]) -> Vec<String> {
    let mut switch = logged(name, LogLevel::Trace, 0);
    common::send(&mut switch, 1, frame, 10);
    let lines = texts(&mut switch).into_iter();
    let parser = [
        "Parser set",
        "Advanc",
        "advance",
        "Executing",
        "logs.p4(",
        "Exception",
    ];
    let checksums = ["Checksum ", "Verified ", "Skipping ", "Updating "];
    let wanted = |line: &String| {
        let mut starts = parser.iter().chain(&checksums);
        starts.any(|start| line.starts_with(start))
    };
    lines.filter(wanted).collect()
}

#[test]
fn steps_of_parser_states_have_the_values_that_they_set() {
    let look = parsed("parsers", &[2, 0, 0, 0xaa, 0xbb]);
    assert!(
        look[0].ends_with("from lookahead (0, 16), new value is 43707"),
        "{look:#?}"
    );
    assert!(look[1].ends_with("new value is 187"), "{look:#?}");
    let skip = parsed("parsers", &[3, 0, 0, 2, 0xee, 0x11, 0x22, 0x33]);
    assert_eq!(skip.last().unwrap(), "Advancing by 2 bytes", "{skip:#?}");
    let odd = parsed("parsers", &[0x31, 7, 0, 0x77]);
    assert!(
        odd.contains(&"advance bits amount 7 must be a multiple of 8".to_owned()),
        "{odd:#?}"
    );
}

#[test]
fn primitives_of_parser_states_are_called_by_name() {
    let lines = parsed("logs", &[0; 20]);
    assert!(
        lines.contains(&"Executing method log_msg".to_owned()),
        "{lines:#?}"
    );
}

#[test]
fn a_wrong_checksum_and_one_that_does_not_apply_are_told() {
    let mut wrong = frame(64);
    wrong[24] ^= 1;
    let lines = parsed("ipv4_router", &wrong);
    let expected = [
        "Parser set: setting field 'scalars.tmp' from expression, new value is 1",
        "Parser set: setting field 'scalars.tmp_0' from expression, new value is 1",
        "Checksum 'cksum_0': computed 0x149c - actual 0x159c",
        "Verified checksum 'cksum_0': failed",
        "Checksum 'cksum_0' is not correct",
    ];
    assert_eq!(lines, expected);
    let other = ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 0x88b5, &[0; 20]);
    let skipped = "Skipping checksum 'cksum_0' verification because target field invalid";
    assert_eq!(parsed("ipv4_router", &other), [skipped]);
}
