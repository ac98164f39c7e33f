// SPDX-License-Identifier: Apache-2.0
//! The learning switch runs unchanged: it floods, learns through digests, and never reflects.

use crate::common;

use common::{ethernet, insert, ports, send, switch};
use weir_dataplane::{KeyMatch, Replica, Switch};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

fn flooding_switch() -> Switch {
    let mut switch = switch("l2_learning", 4);
    let replicas: Vec<Replica> = (1..=4).map(|port| Replica { port, instance: 0 }).collect();
    switch
        .insert_multicast_group(1, &replicas)
        .expect("a new group");
    switch
}

fn digests(switch: &mut Switch) -> Vec<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    switch.drain_digests(|digest| all.push(digest.fields().map(<[u8]>::to_vec).collect()));
    all
}

#[test]
fn unknown_destination_is_flooded_but_not_back_to_its_port() {
    let mut switch = flooding_switch();
    let frame = ethernet(B, A, 0x0806, &[7; 46]);
    let sent = send(&mut switch, 2, &frame, 1_000);
    assert_eq!(ports(&sent), [1, 3, 4]);
    assert!(
        sent.iter()
            .all(|(_, bytes, time)| *bytes == frame && *time == 1_000)
    );
    let stats = switch.stats();
    assert_eq!(
        (
            stats.received,
            stats.multicast_copies,
            stats.dropped_egress,
            stats.transmitted
        ),
        (1, 4, 1, 3)
    );
}

#[test]
fn new_source_is_announced_until_the_control_plane_learned_it() {
    let mut switch = flooding_switch();
    let frame = ethernet(B, A, 0x0800, &[0; 50]);
    send(&mut switch, 2, &frame, 0);
    assert_eq!(digests(&mut switch), [vec![A.to_vec(), vec![0, 2]]]);
    assert_eq!(switch.info().digests[0].name, "learn_t");
    let widths: Vec<u32> = switch.info().digests[0]
        .fields
        .iter()
        .map(|f| f.width_bits)
        .collect();
    assert_eq!(widths, [48, 9]);

    let key = vec![KeyMatch::Exact(A.to_vec()), KeyMatch::Exact(vec![2])];
    insert(
        &mut switch,
        "IngressImpl.source",
        key,
        0,
        "IngressImpl.known",
        &[],
    );
    send(&mut switch, 2, &frame, 1);
    assert!(digests(&mut switch).is_empty());
    // The same station at another port has moved.
    send(&mut switch, 3, &frame, 2);
    assert_eq!(digests(&mut switch), [vec![A.to_vec(), vec![0, 3]]]);
}

#[test]
fn known_destination_gets_the_frame_alone() {
    let mut switch = flooding_switch();
    insert(
        &mut switch,
        "IngressImpl.destination",
        vec![KeyMatch::Exact(B.to_vec())],
        0,
        "IngressImpl.forward",
        &[&[4]],
    );
    let frame = ethernet(B, A, 0x0800, &[1; 64]);
    assert_eq!(ports(&send(&mut switch, 1, &frame, 0)), [4]);
    // Its own port: dropped, not reflected.
    assert!(send(&mut switch, 4, &frame, 1).is_empty());
}

#[test]
fn group_follows_its_replicas() {
    let mut switch = flooding_switch();
    let frame = ethernet(B, A, 0x0800, &[]);
    switch
        .modify_multicast_group(
            1,
            &[Replica {
                port: 3,
                instance: 1,
            }],
        )
        .expect("the group exists");
    assert_eq!(ports(&send(&mut switch, 1, &frame, 0)), [3]);
    switch.delete_multicast_group(1).expect("the group exists");
    assert!(send(&mut switch, 1, &frame, 1).is_empty());
    assert_eq!(switch.stats().dropped_no_replica, 1);
}

#[test]
fn runt_is_dropped_and_counted_as_parser_error() {
    let mut switch = flooding_switch();
    assert!(send(&mut switch, 1, &[1; 13], 0).is_empty());
    assert_eq!(
        (switch.stats().parser_errors, switch.stats().dropped_ingress),
        (1, 1)
    );
}

#[test]
fn digests_beyond_the_limit_are_counted_as_lost() {
    let config = weir_dataplane::SwitchConfig {
        max_digests: 2,
        ..Default::default()
    };
    let mut switch = Switch::new(common::program("l2_learning"), config);
    for port in 1..=5 {
        switch.receive(port, &ethernet(B, A, 0x0800, &[]), 0);
    }
    assert_eq!(digests(&mut switch).len(), 2);
    assert_eq!(
        (switch.stats().digests, switch.stats().digests_lost),
        (2, 3)
    );
}

/// As p4c compiles a control with a digest that is applied twice.
#[test]
fn two_lists_of_one_name_are_one_digest_to_the_control_plane() {
    let mut json: serde_json::Value =
        serde_json::from_slice(&common::program_json("l2_learning")).expect("JSON");
    let mut second = json["learn_lists"][0].clone();
    second["id"] = 2.into();
    json["learn_lists"]
        .as_array_mut()
        .expect("a list")
        .push(second);
    let text = json.to_string();
    let uses_second = text.replacen(
        r#""op":"generate_digest","parameters":[{"type":"hexstr","value":"0x00000001"},{"type":"hexstr","value":"0x1"}]"#,
        r#""op":"generate_digest","parameters":[{"type":"hexstr","value":"0x00000001"},{"type":"hexstr","value":"0x2"}]"#,
        1,
    );
    assert_ne!(text, uses_second);
    let program = weir_dataplane::Program::from_json(uses_second.as_bytes()).expect("a program");
    let mut switch = Switch::new(program, weir_dataplane::SwitchConfig::default());
    switch.receive(1, &ethernet(B, A, 0x0800, &[]), 0);
    assert_eq!(switch.info().digests.len(), 1);
    let announced = switch.info().digest("learn_t").expect("a digest");
    let mut ids = Vec::new();
    switch.drain_digests(|message| ids.push(message.digest));
    assert_eq!(ids, [announced]);
}
