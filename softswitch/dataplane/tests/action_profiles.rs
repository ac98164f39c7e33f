// SPDX-License-Identifier: Apache-2.0
//! Tables that an action profile or selector implements, their idle timeouts, and direct resources of default entries.

use crate::common;

use common::{collect, ethernet, send};
use weir_dataplane::{
    ActionCall, ControlError, CounterValue, GroupMember, KeyMatch, MemberGroup, PortConfig,
    ProfileId, ProfileTarget, Program, Switch, SwitchConfig, TableId,
};

const SECOND_NS: u64 = 1_000_000_000;

fn switch() -> Switch {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../switch/tests/programs/features.json");
    let program = Program::from_json(&std::fs::read(path).unwrap()).unwrap();
    let mut switch = Switch::new(program, SwitchConfig::default());
    for port in 1..=8 {
        switch.set_port(port, PortConfig::default(), 0).unwrap();
    }
    switch
}

fn ids(switch: &Switch, table: &str, profile: &str) -> (TableId, ProfileId) {
    let info = switch.info();
    (info.table(table).unwrap(), info.profile(profile).unwrap())
}

fn call(switch: &Switch, table: TableId, action: &str, args: &[u8]) -> ActionCall {
    ActionCall {
        action: switch.info().table_action(table, action).unwrap(),
        args: args.iter().map(|a| vec![*a]).collect(),
    }
}

fn frame(source: u8) -> Vec<u8> {
    ethernet([2; 6], [4, 0, 0, 0, 0, source], 0x88B5, &[0; 46])
}

fn route() -> Vec<KeyMatch> {
    vec![KeyMatch::Lpm {
        value: vec![2, 0, 0, 0, 0, 0],
        prefix_len: 8,
    }]
}

/// Members 1, 2 and 3 go to ports 1, 2 and 3.
fn with_members(switch: &mut Switch) -> (TableId, ProfileId) {
    let (table, profile) = ids(switch, "IngressImpl.route", "IngressImpl.paths");
    for member in 1..=3 {
        let call = call(switch, table, "IngressImpl.set_port", &[member]);
        switch
            .insert_member(profile, u64::from(member), &call)
            .unwrap();
    }
    (table, profile)
}

fn group(members: &[(u64, u32)]) -> MemberGroup {
    MemberGroup {
        members: members
            .iter()
            .map(|(member, weight)| GroupMember {
                member: *member,
                weight: *weight,
            })
            .collect(),
        ..MemberGroup::default()
    }
}

#[test]
fn an_entry_runs_the_member_that_it_points_to_as_it_is_now() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Member(2))
        .unwrap();
    assert_eq!(send(&mut switch, 8, &frame(0), 0)[0].0, 2);
    let other = call(&switch, table, "IngressImpl.set_path", &[5, 0x77]);
    switch.modify_member(profile, 2, &other).unwrap();
    let sent = send(&mut switch, 8, &frame(0), 0);
    assert_eq!((sent[0].0, sent[0].1[10]), (5, 0x77));
}

#[test]
fn a_member_serves_all_tables_of_its_profile() {
    let mut switch = switch();
    let (table, profile) = ids(&switch, "IngressImpl.next_hop", "IngressImpl.hops");
    let hop = call(&switch, table, "IngressImpl.set_hop", &[0x42]);
    switch.insert_member(profile, 1, &hop).unwrap();
    let too = switch.info().table("IngressImpl.next_hop_too").unwrap();
    let key = [KeyMatch::Exact(vec![0x88, 0xB5])];
    switch
        .insert_indirect_entry(too, &key, 0, ProfileTarget::Member(1))
        .unwrap();
    let (routes, _) = with_members(&mut switch);
    switch
        .insert_indirect_entry(routes, &route(), 0, ProfileTarget::Member(1))
        .unwrap();
    let sent = send(&mut switch, 8, &frame(0), 0);
    assert_eq!(sent[0].1[11], 0x42, "the member ran");
    assert_eq!(sent[0].1[6], 0xAA, "and the table was hit");
}

#[test]
fn a_group_keeps_flows_together_and_spreads_them_by_weight() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    switch
        .insert_group(profile, 1, &group(&[(1, 1), (2, 3)]))
        .unwrap();
    switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Group(1))
        .unwrap();
    let (mut flows, mut to_second) = (0_u32, 0_u32);
    for source in (0..=u32::MAX).step_by(0x00FE_DCB9) {
        let mut frame = frame(0);
        frame[8..12].copy_from_slice(&source.to_be_bytes());
        let port = send(&mut switch, 8, &frame, 0)[0].0;
        assert_eq!(send(&mut switch, 8, &frame, 0)[0].0, port);
        assert!(port == 1 || port == 2);
        flows += 1;
        to_second += u32::from(port == 2);
    }
    // Three quarters; the standard deviation of a fair choice is 7 of these 258 flows.
    println!("{to_second} of {flows} flows to the member of weight 3");
    assert!(
        to_second.abs_diff(flows * 3 / 4) <= 28,
        "{to_second} of {flows}"
    );
}

#[test]
fn the_selectors_hash_picks_the_member_as_simple_switch_does() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    switch
        .insert_group(profile, 1, &group(&[(3, 1), (1, 1), (2, 1)]))
        .unwrap();
    switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Group(1))
        .unwrap();
    // CRC-16/ARC of source address and EtherType, modulo the number of members, counted by member id.
    let crc = |bytes: &[u8]| {
        bytes.iter().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte), |crc, _| {
                (crc >> 1) ^ if crc & 1 == 1 { 0xA001 } else { 0 }
            })
        })
    };
    for source in 0..32 {
        let frame = frame(source);
        let expected = u32::from(crc(&frame[6..14]) % 3) + 1;
        assert_eq!(send(&mut switch, 8, &frame, 0)[0].0, expected);
    }
}

#[test]
fn an_empty_group_does_nothing() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    switch.insert_group(profile, 1, &group(&[])).unwrap();
    switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Group(1))
        .unwrap();
    // Metadata starts as zero, so the egress port is 0, which does not exist.
    assert_eq!(send(&mut switch, 8, &frame(0), 0), []);
    assert_eq!(switch.stats().dropped_no_port, 1);
}

#[test]
fn the_action_of_a_group_runs_before_the_member_and_random_groups_use_every_member() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    let mut spread = group(&[(1, 1), (2, 1), (3, 1)]);
    spread.first = Some(call(&switch, table, "IngressImpl.set_path", &[7, 0x55]));
    spread.random = true;
    switch.insert_group(profile, 1, &spread).unwrap();
    switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Group(1))
        .unwrap();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..64 {
        let sent = send(&mut switch, 8, &frame(0), 0);
        assert_eq!(sent[0].1[10], 0x55);
        ports.insert(sent[0].0);
    }
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn members_and_groups_in_use_cannot_be_removed() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    switch.insert_group(profile, 1, &group(&[(1, 1)])).unwrap();
    let entry = switch
        .insert_indirect_entry(table, &route(), 0, ProfileTarget::Group(1))
        .unwrap();
    assert!(matches!(
        switch.delete_member(profile, 1),
        Err(ControlError::InUse { references: 1, .. })
    ));
    assert!(matches!(
        switch.delete_group(profile, 1),
        Err(ControlError::InUse { references: 1, .. })
    ));
    switch
        .modify_indirect_entry(table, entry, ProfileTarget::Member(2))
        .unwrap();
    assert_eq!(
        switch.entry_target(table, entry),
        Ok(Some(ProfileTarget::Member(2)))
    );
    switch.delete_group(profile, 1).unwrap();
    switch.delete_member(profile, 1).unwrap();
    assert!(switch.delete_member(profile, 2).is_err());
    switch.clear_table(table).unwrap();
    switch.delete_member(profile, 2).unwrap();
}

#[test]
fn indirect_and_direct_entries_are_not_mixed_up() {
    let mut switch = switch();
    let (table, profile) = with_members(&mut switch);
    let entry = weir_dataplane::TableEntry {
        key: route(),
        priority: 0,
        action: call(&switch, table, "IngressImpl.set_port", &[1]),
    };
    let refused = switch.insert_entry(table, &entry).unwrap_err().to_string();
    assert!(refused.contains("action profile"), "{refused}");
    let learned = switch.info().table("IngressImpl.learned").unwrap();
    let key = [KeyMatch::Exact(vec![1])];
    let refused = switch.insert_indirect_entry(learned, &key, 0, ProfileTarget::Member(1));
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("no action profile")
    );
    let missing = switch.insert_indirect_entry(table, &route(), 0, ProfileTarget::Member(9));
    assert!(matches!(missing, Err(ControlError::NotFound { .. })));
    assert!(matches!(
        switch.insert_group(profile, 1, &group(&[(9, 1)])),
        Err(ControlError::NotFound { .. })
    ));
}

#[test]
fn idle_entries_are_reported_with_the_time_of_their_last_hit() {
    let mut switch = switch();
    let table = switch.info().table("IngressImpl.learned").unwrap();
    let entry = weir_dataplane::TableEntry {
        key: vec![KeyMatch::Exact(vec![4, 0, 0, 0, 0, 7])],
        priority: 0,
        action: call(&switch, table, "NoAction", &[]),
    };
    let handle = switch.insert_entry(table, &entry).unwrap();
    switch.set_idle_timeout(table, handle, SECOND_NS).unwrap();
    send(&mut switch, 8, &frame(7), SECOND_NS / 2);
    let reported = |switch: &mut Switch, now_ns| {
        collect(switch, now_ns);
        let mut found = Vec::new();
        switch.drain_idle(now_ns, 100, |_, entry| found.push(entry));
        found
    };
    assert_eq!(reported(&mut switch, SECOND_NS), []);
    assert_eq!(switch.last_hit_ns(table, handle), Ok(SECOND_NS / 2));
    assert_eq!(reported(&mut switch, SECOND_NS * 3 / 2), [handle]);
    switch.delete_entry(table, handle).unwrap();
    assert_eq!(reported(&mut switch, SECOND_NS * 9), []);
}

#[test]
fn the_default_entry_counts_misses() {
    let mut switch = switch();
    let table = switch.info().table("IngressImpl.learned").unwrap();
    let bytes = frame(0).len() as u64;
    send(&mut switch, 8, &frame(0), 0);
    let expected = CounterValue { packets: 1, bytes };
    assert_eq!(switch.direct_counter(table, None), Ok(expected));
    switch
        .set_direct_counter(table, None, CounterValue::default())
        .unwrap();
    assert_eq!(
        switch.direct_counter(table, None),
        Ok(CounterValue::default())
    );
}
