// SPDX-License-Identifier: Apache-2.0
//! Which error a parser reports when several apply.

use crate::common;
use common::{both_ways, edited, primitives, send};
use weir_dataplane::Switch;

const PACKET_TOO_SHORT: u8 = 1;
const HEADER_TOO_SHORT: u8 = 4;

/// Switches whose egress writes `parser_error` into the first byte.
fn switches() -> [Switch; 2] {
    let json = edited("varbits", |json| {
        for primitive in primitives(json).into_iter().flatten() {
            let text = primitive["parameters"][1].to_string();
            let text = text.replace("packet_length", "parser_error");
            primitive["parameters"][1] = serde_json::from_str(&text).expect("JSON");
        }
    });
    both_ways(&json, 1)
}

/// A varbit field that is longer than the header allows and than the packet is: P4-16, 13.8.2, looks at the packet first.
#[test]
fn a_field_of_variable_length_beyond_the_packet_is_too_short_a_packet() {
    for mut switch in switches() {
        // 200 bytes are wanted, at most 8 allowed.
        for (rest, error) in [(2, PACKET_TOO_SHORT), (201, HEADER_TOO_SHORT)] {
            let mut frame = vec![2, 0, 0, 0, 200];
            frame.resize(5 + rest, 1);
            let sent = send(&mut switch, 1, &frame, 0);
            assert_eq!(sent[0].1[0], error, "{rest} bytes follow the length");
        }
    }
}
