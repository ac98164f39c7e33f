// SPDX-License-Identifier: Apache-2.0
//! Log events of a program reach the switch's owner, and a packet with a false `assert` is dropped.

use crate::common;

use common::{program_json, send, switch};
use weir_dataplane::{LogKind, PortConfig, Program, Switch, SwitchConfig};

fn probe(operation: u8) -> Vec<u8> {
    let mut frame = vec![operation, 0xff];
    frame.extend((1..=16).map(|byte| if byte == 16 { 0xab } else { 0 }));
    frame
}

fn said(switch: &mut Switch) -> Vec<(LogKind, u64, String)> {
    let mut all = Vec::new();
    switch.drain_log(|event| all.push((event.kind, event.time_ns, event.text.to_owned())));
    all
}

fn texts(switch: &mut Switch) -> Vec<String> {
    said(switch).into_iter().map(|(_, _, text)| text).collect()
}

#[test]
fn messages_carry_their_values_and_the_time_of_the_packet() {
    let mut switch = switch("logs", 1);
    assert_eq!(send(&mut switch, 1, &probe(1), 55).len(), 1);
    let message = |text: &str| (LogKind::Message, 55, text.to_owned());
    assert_eq!(
        said(&mut switch),
        [
            message("operation 1"),
            message("plain"),
            message("wide 171 narrow 255 true 1")
        ]
    );
    assert!(said(&mut switch).is_empty());
}

#[test]
fn value_beyond_64_bits_is_logged_in_hexadecimal() {
    let mut switch = switch("logs", 1);
    let mut frame = probe(1);
    frame[2] = 0x01;
    send(&mut switch, 1, &frame, 0);
    assert_eq!(
        texts(&mut switch)[2],
        "wide 0x10000000000000000000000000000ab narrow 255 true 1"
    );
}

#[test]
fn false_statement_drops_the_packet_and_logs_file_and_line() {
    let mut switch = switch("logs", 1);
    for (operation, statement, kind) in [
        (2, "assert is false", LogKind::Assert),
        (3, "assume is false", LogKind::Assume),
        (4, "assert is false", LogKind::Assert),
    ] {
        assert!(send(&mut switch, 1, &probe(operation), 9).is_empty());
        let all = said(&mut switch);
        let (said_kind, time_ns, text) = all.last().expect("something was said");
        assert_eq!((*said_kind, *time_ns), (kind, 9));
        assert!(
            text.contains("logs.p4:") && text.ends_with(statement),
            "{text}"
        );
    }
    let stats = switch.stats();
    assert_eq!(stats.assertions_failed, 3);
    assert_eq!((stats.dropped_ingress, stats.dropped_egress), (1, 2));
    // The clone that was requested before the false statement is not made either: 2 of 3 were attempted.
    assert_eq!(stats.clone_no_session, 2);
}

#[test]
fn false_statement_of_the_parser_drops_the_packet_before_ingress() {
    let mut json: serde_json::Value =
        serde_json::from_slice(&program_json("logs")).expect("a program of the tests");
    let state = &mut json["parsers"][0]["parse_states"][0];
    let ops = state["parser_ops"].as_array_mut().expect("a list");
    ops.push(serde_json::json!({"op": "primitive", "parameters": [{
        "op": "assert", "parameters": [{"type": "expression", "value": {
            "op": "!=",
            "left": {"type": "field", "value": ["probe", "operation"]},
            "right": {"type": "hexstr", "value": "0x07"}
        }}]
    }]}));
    let json = serde_json::to_vec(&json).expect("JSON");
    let program = Program::from_json(&json).expect("a valid program");
    for (native, in_burst) in [(false, false), (true, false), (true, true)] {
        let config = SwitchConfig {
            native,
            ..SwitchConfig::default()
        };
        let mut switch = Switch::new(program.clone(), config);
        switch
            .set_port(1, PortConfig::default(), 0)
            .expect("a valid port");
        assert_eq!(send(&mut switch, 1, &probe(1), 0).len(), 1);
        texts(&mut switch);
        if in_burst {
            switch.burst().receive(1, &probe(7), 0);
        } else {
            switch.receive(1, &probe(7), 0);
        }
        assert!(common::collect(&mut switch, 0).is_empty());
        let said = texts(&mut switch);
        assert!(
            said.len() == 2 && said[0] == "operation 7" && said[1].ends_with("assert is false"),
            "only the parser, which logs the operation, shall run: {said:?}"
        );
        let stats = switch.stats();
        assert_eq!((stats.assertions_failed, stats.dropped_ingress), (1, 1));
    }
}

#[test]
fn undrained_events_are_counted_as_lost() {
    let mut switch = switch("logs", 1);
    for _ in 0..5_000 {
        switch.receive(1, &probe(0), 0);
    }
    assert_eq!(texts(&mut switch).len(), 4_096);
    assert_eq!(switch.stats().log_lost, 5_000 - 4_096);
}
