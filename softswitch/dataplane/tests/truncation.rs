// SPDX-License-Identifier: Apache-2.0
//! `truncate` of v1model, as bmv2 has it: the smallest length counts, and copies are whole.

use crate::common;
use common::{both_ways, edited, primitives, send};
use weir_dataplane::Replica;

/// A frame of 40 bytes; its first byte says what `copies.p4` does with it.
fn frame(operation: u8) -> Vec<u8> {
    let mut frame = vec![operation, 0, 0, 0, 0, 0, 0];
    frame.resize(40, 0xe1);
    frame
}

#[test]
fn the_smallest_of_several_lengths_counts() {
    let json = edited("copies", |json| {
        for primitives in primitives(json) {
            if let Some(at) = primitives.iter().position(|p| p["op"] == "truncate") {
                let mut longer = primitives[at].clone();
                longer["parameters"][0]["value"] = "0x00000014".into();
                primitives.insert(at + 1, longer);
            }
        }
    });
    for mut switch in both_ways(&json, 3) {
        let sent = send(&mut switch, 1, &frame(6), 0);
        let lengths: Vec<usize> = sent.iter().map(|(_, frame, _)| frame.len()).collect();
        assert_eq!(lengths, [9]);
    }
}

#[test]
fn replicated_and_recirculated_packets_are_whole() {
    let json = edited("copies", |json| {
        let mut primitives = primitives(json);
        let all = primitives.iter().flat_map(|primitives| primitives.iter());
        let truncate = all.clone().find(|p| p["op"] == "truncate").cloned();
        let truncate = truncate.expect("a truncation");
        for primitives in &mut primitives {
            let copies = |p: &serde_json::Value| {
                p["op"] == "recirculate" || p["parameters"][1]["value"] == "0x0007"
            };
            if primitives.iter().any(copies) {
                primitives.push(truncate.clone());
            }
        }
    });
    for mut switch in both_ways(&json, 3) {
        let replicas = [1, 2].map(|port| Replica { port, instance: 1 });
        switch
            .insert_multicast_group(7, &replicas)
            .expect("a group");
        for (operation, lengths) in [(4, &[40, 40][..]), (3, &[40])] {
            let sent = send(&mut switch, 1, &frame(operation), 0);
            let found: Vec<usize> = sent.iter().map(|(_, frame, _)| frame.len()).collect();
            assert_eq!(found, lengths, "operation {operation}");
        }
    }
}
