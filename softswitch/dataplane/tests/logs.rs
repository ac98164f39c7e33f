// SPDX-License-Identifier: Apache-2.0
//! Log events of a program reach the switch's owner, and a packet with a false `assert` is dropped.

use crate::common;

use common::{send, switch};
use weir_dataplane::{LogKind, Switch};

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
fn undrained_events_are_counted_as_lost() {
    let mut switch = switch("logs", 1);
    for _ in 0..5_000 {
        switch.receive(1, &probe(0), 0);
    }
    assert_eq!(texts(&mut switch).len(), 4_096);
    assert_eq!(switch.stats().log_lost, 5_000 - 4_096);
}
