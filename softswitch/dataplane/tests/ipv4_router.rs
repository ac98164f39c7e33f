// SPDX-License-Identifier: Apache-2.0
//! The router runs unchanged: the longest prefix wins, TTL and checksum are correct, bad packets are dropped.

use crate::common;

use common::{checksum, ethernet, insert, ipv4, ports, send, switch};
use proptest::prelude::*;
use weir_dataplane::{CounterValue, KeyMatch, Switch};

const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn prefix(address: [u8; 4], prefix_len: u32) -> Vec<KeyMatch> {
    match prefix_len {
        0 => vec![KeyMatch::Any],
        _ => vec![KeyMatch::Lpm {
            value: address.to_vec(),
            prefix_len,
        }],
    }
}

fn route(switch: &mut Switch, address: [u8; 4], prefix_len: u32, next_hop: u16) {
    let key = prefix(address, prefix_len);
    insert(
        switch,
        "IngressImpl.route",
        key,
        0,
        "IngressImpl.set_next_hop",
        &[&next_hop.to_be_bytes()],
    );
}

/// Next hop n is port n.
fn router() -> Switch {
    let mut switch = switch("ipv4_router", 4);
    for port in 1..=4_u8 {
        let src = [2, 0, 0, 0, 1, port];
        let dst = [2, 0, 0, 0, 2, port];
        let key = vec![KeyMatch::Exact(vec![port])];
        insert(
            &mut switch,
            "IngressImpl.next_hop",
            key,
            0,
            "IngressImpl.rewrite",
            &[&[port], &src, &dst],
        );
    }
    switch
}

fn frame(dst: [u8; 4], ttl: u8) -> Vec<u8> {
    ethernet(
        ROUTER,
        HOST,
        0x0800,
        &ipv4([10, 0, 0, 9], dst, ttl, b"payload"),
    )
}

#[test]
fn longest_prefix_wins_in_any_order_of_insertion() {
    let routes = [
        ([0, 0, 0, 0], 0, 1),
        ([10, 1, 0, 0], 16, 2),
        ([10, 0, 0, 0], 8, 3),
        ([10, 1, 2, 3], 32, 4),
    ];
    for rotation in 0..4 {
        let mut switch = router();
        for i in 0..4 {
            let (address, length, hop) = routes[(i + rotation) % 4];
            route(&mut switch, address, length, hop);
        }
        assert_eq!(
            ports(&send(&mut switch, 1, &frame([10, 1, 2, 3], 64), 0)),
            [4]
        );
        assert_eq!(
            ports(&send(&mut switch, 1, &frame([10, 1, 2, 4], 64), 0)),
            [2]
        );
        assert_eq!(
            ports(&send(&mut switch, 1, &frame([10, 2, 0, 0], 64), 0)),
            [3]
        );
        assert_eq!(
            ports(&send(&mut switch, 1, &frame([192, 168, 0, 1], 64), 0)),
            [1]
        );
    }
}

#[test]
fn forwarded_packet_has_new_addresses_a_lower_ttl_and_a_right_checksum() {
    let mut switch = router();
    route(&mut switch, [10, 0, 0, 0], 8, 3);
    let sent = send(&mut switch, 1, &frame([10, 2, 3, 4], 64), 5_000);
    let expected = ethernet(
        [2, 0, 0, 0, 2, 3],
        [2, 0, 0, 0, 1, 3],
        0x0800,
        &ipv4([10, 0, 0, 9], [10, 2, 3, 4], 63, b"payload"),
    );
    assert_eq!(sent, [(3, expected.clone(), 5_000)]);
    // With a correct checksum the whole header sums to zero.
    assert_eq!(checksum(&expected[14..34]), 0);
}

#[test]
fn expired_ttl_is_dropped() {
    let mut switch = router();
    route(&mut switch, [0, 0, 0, 0], 0, 2);
    assert_eq!(send(&mut switch, 1, &frame([1, 1, 1, 1], 2), 0).len(), 1);
    assert!(send(&mut switch, 1, &frame([1, 1, 1, 1], 1), 0).is_empty());
    assert!(send(&mut switch, 1, &frame([1, 1, 1, 1], 0), 0).is_empty());
    assert_eq!(switch.stats().dropped_ingress, 2);
}

#[test]
fn any_single_bit_error_in_the_header_is_caught() {
    let mut switch = router();
    route(&mut switch, [0, 0, 0, 0], 0, 2);
    let good = frame([1, 2, 3, 4], 64);
    for bit in 0..160 {
        let mut bad = good.clone();
        bad[14 + bit / 8] ^= 0x80 >> (bit % 8);
        assert!(
            send(&mut switch, 1, &bad, 0).is_empty(),
            "bit {bit} went unnoticed"
        );
    }
    assert_eq!(send(&mut switch, 1, &good, 0).len(), 1);
}

#[test]
fn truncated_header_is_a_parser_error() {
    let mut switch = router();
    route(&mut switch, [0, 0, 0, 0], 0, 2);
    let whole = frame([1, 2, 3, 4], 64);
    assert!(send(&mut switch, 1, &whole[..33], 0).is_empty());
    assert_eq!(switch.stats().parser_errors, 1);
}

#[test]
fn direct_counter_counts_hits_in_packets_and_bytes() {
    let mut switch = router();
    route(&mut switch, [10, 0, 0, 0], 8, 2);
    let table = switch.info().table("IngressImpl.route").expect("the table");
    let handle = switch
        .find_entry(table, &prefix([10, 0, 0, 0], 8), 0)
        .expect("the entry");
    let bytes = frame([10, 0, 0, 1], 64).len() as u64;
    for _ in 0..3 {
        send(&mut switch, 1, &frame([10, 0, 0, 1], 64), 0);
    }
    send(&mut switch, 1, &frame([11, 0, 0, 1], 64), 0);
    assert_eq!(
        switch.direct_counter(table, handle),
        Ok(CounterValue {
            packets: 3,
            bytes: 3 * bytes
        })
    );
    switch
        .set_direct_counter(table, handle, CounterValue::default())
        .expect("it has a counter");
    assert_eq!(
        switch.direct_counter(table, handle),
        Ok(CounterValue::default())
    );
}

/// The route that the longest-prefix rule picks, by trying all.
fn longest(routes: &[(u32, u32, u16)], address: u32) -> Option<u16> {
    let matches = |(value, length, _): &&(u32, u32, u16)| {
        *length == 0 || (value ^ address) >> (32 - length) == 0
    };
    routes
        .iter()
        .filter(matches)
        .max_by_key(|(_, length, _)| *length)
        .map(|(_, _, hop)| *hop)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn lpm_equals_a_linear_search_also_after_deletions(
        routes in prop::collection::vec((0_u32..16, any::<u32>(), 0_u32..=32, 1_u16..5), 1..60),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        probes in prop::collection::vec((0_u32..16, any::<u32>()), 1..40),
    ) {
        let mut switch = router();
        let table = switch.info().table("IngressImpl.route").expect("the table");
        let mut kept: Vec<(u32, u32, u16)> = Vec::new();
        for (top, low, length, hop) in routes {
            let mask = if length == 0 { 0 } else { u32::MAX << (32 - length) };
            let value = (top << 28 | low >> 4) & mask;
            if !kept.iter().any(|(v, l, _)| *v == value && *l == length) {
                route(&mut switch, value.to_be_bytes(), length, hop);
                kept.push((value, length, hop));
            }
        }
        for index in removed {
            if !kept.is_empty() {
                let (value, length, _) = kept.remove(index.index(kept.len()));
                let handle = switch.find_entry(table, &prefix(value.to_be_bytes(), length), 0).expect("inserted");
                switch.delete_entry(table, handle).expect("inserted");
            }
        }
        for (top, low) in probes {
            let address = top << 28 | low >> 4;
            let sent = ports(&send(&mut switch, 1, &frame(address.to_be_bytes(), 64), 0));
            let expected: Vec<u32> = longest(&kept, address).map(u32::from).into_iter().collect();
            prop_assert_eq!(sent, expected);
        }
        prop_assert_eq!(switch.entries(table).expect("the table").len(), kept.len());
    }
}
