// SPDX-License-Identifier: Apache-2.0
//! A table's key has 0 in place of a field whose header is not valid, as in bmv2.

use crate::common;
use common::{edited, ethernet, insert, send};
use serde_json::json;
use weir_dataplane::KeyMatch;

/// `set_next_hop` ends with `then`; the next table's key is a field of the IPv4 header. Ports of a routed packet whose
/// field is `value`: 2 by the entry of 0, 3 by that of `value`.
fn ports(field: &str, value: &[u8], then: serde_json::Value) -> [Vec<u32>; 2] {
    let json = edited("ipv4_router", |json| {
        for action in json["actions"].as_array_mut().expect("actions") {
            if action["name"] == "IngressImpl.set_next_hop" {
                let primitives = action["primitives"].as_array_mut().expect("primitives");
                primitives.extend(then.as_array().expect("primitives").iter().cloned());
            }
        }
        let table = common::table(json, "IngressImpl.next_hop");
        table["key"][0]["target"] = json!(["ipv4", field]);
    });
    common::both_ways(&json, 3).map(|mut switch| {
        let route = "IngressImpl.route";
        let hop = "IngressImpl.set_next_hop";
        insert(&mut switch, route, vec![KeyMatch::Any], 0, hop, &[&[5]]);
        for (key, port) in [(vec![0; value.len()], 2), (value.to_vec(), 3)] {
            let (table, action) = ("IngressImpl.next_hop", "IngressImpl.rewrite");
            let key = vec![KeyMatch::Exact(key)];
            insert(&mut switch, table, key, 0, action, &[&[port], &[1], &[2]]);
        }
        let packet = common::ipv4([10, 0, 0, 9], [10, 0, 0, 1], 64, b"");
        let frame = ethernet([2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 1], 0x0800, &packet);
        common::ports(&send(&mut switch, 1, &frame, 0))
    })
}

const IDENTIFICATION: [u8; 2] = [0x12, 0x34];

#[test]
fn the_field_of_a_valid_header_is_matched() {
    let found = ports("identification", &IDENTIFICATION, json!([]));
    assert_eq!(found, [[3], [3]]);
}

#[test]
fn the_field_of_a_removed_header_is_0() {
    let remove =
        json!({"op": "remove_header", "parameters": [{"type": "header", "value": "ipv4"}]});
    let found = ports("identification", &IDENTIFICATION, json!([remove]));
    assert_eq!(found, [[2], [2]]);
}

#[test]
fn a_field_that_is_written_after_the_removal_is_0() {
    let remove =
        json!({"op": "remove_header", "parameters": [{"type": "header", "value": "ipv4"}]});
    let write = json!({"op": "assign", "parameters": [
        {"type": "field", "value": ["ipv4", "identification"]}, {"type": "hexstr", "value": "0x1234"}]});
    let found = ports("identification", &IDENTIFICATION, json!([remove, write]));
    assert_eq!(found, [[2], [2]]);
}
