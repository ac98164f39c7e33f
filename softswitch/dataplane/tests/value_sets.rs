// SPDX-License-Identifier: Apache-2.0
//! Parser value sets: empty at first, replaced as a whole, matched with every kind, in the order of the `select`.

use crate::common;

use common::{send, switch};
use weir_dataplane::{ControlError, KeyMatch, Switch, ValueSetId};

/// The state that the parser ended in.
fn state(switch: &mut Switch, tag: u16, kind: u8) -> u8 {
    let [high, low] = tag.to_be_bytes();
    let sent = send(switch, 1, &[high, low, kind << 4, 0xff], 0);
    assert_eq!(sent.len(), 1);
    sent[0].1[3]
}

fn set(switch: &Switch, name: &str) -> ValueSetId {
    switch.info().value_set(name).expect("the set exists")
}

fn exact(value: u8) -> KeyMatch {
    KeyMatch::Exact(vec![value])
}

#[test]
fn set_is_empty_before_members_are_written_and_after_they_are_removed() {
    let mut switch = switch("value_sets", 1);
    let tags = set(&switch, "ParserImpl.tags");
    assert_eq!(state(&mut switch, 7, 0), 0);
    switch
        .set_value_set(tags, &[vec![exact(7)], vec![exact(9)]])
        .expect("valid members");
    assert_eq!(state(&mut switch, 7, 0), 2);
    assert_eq!(state(&mut switch, 9, 0), 2);
    assert_eq!(state(&mut switch, 8, 0), 0);
    assert_eq!(
        switch.value_set(tags).expect("the set exists"),
        [vec![exact(7)], vec![exact(9)]]
    );
    switch.set_value_set(tags, &[]).expect("no members");
    assert_eq!(state(&mut switch, 7, 0), 0);
}

#[test]
fn constants_and_sets_match_in_the_order_of_the_select() {
    let mut switch = switch("value_sets", 1);
    let tags = set(&switch, "ParserImpl.tags");
    assert_eq!(state(&mut switch, 2, 0), 3);
    switch
        .set_value_set(tags, &[vec![exact(1)], vec![exact(2)]])
        .expect("valid members");
    assert_eq!(state(&mut switch, 1, 0), 1);
    assert_eq!(state(&mut switch, 2, 0), 2);
}

#[test]
fn member_matches_by_mask_prefix_range_or_not_at_all() {
    let mut switch = switch("value_sets", 1);
    let pairs = set(&switch, "ParserImpl.pairs");
    let ternary = KeyMatch::Ternary {
        value: vec![0x12, 0x00],
        mask: vec![0xff, 0x0f],
    };
    let range = KeyMatch::Range {
        low: vec![3],
        high: vec![5],
    };
    let lpm = KeyMatch::Lpm {
        value: vec![0xab, 0x00],
        prefix_len: 8,
    };
    let members = [vec![ternary, range], vec![lpm, KeyMatch::Any]];
    switch
        .set_value_set(pairs, &members)
        .expect("valid members");
    for (tag, kind, expected) in [
        (0x12f0, 3, 4),
        (0x12f0, 5, 4),
        (0x12f0, 2, 0),
        (0x12f0, 6, 0),
        (0x12f1, 4, 0),
        (0xab99, 0, 4),
        (0xac99, 0, 0),
    ] {
        assert_eq!(state(&mut switch, tag, kind), expected, "{tag:#06x} {kind}");
    }
}

#[test]
fn wrong_members_are_refused_and_change_nothing() {
    let mut switch = switch("value_sets", 1);
    let tags = set(&switch, "ParserImpl.tags");
    let pairs = set(&switch, "ParserImpl.pairs");
    let before = [vec![exact(7)]];
    switch.set_value_set(tags, &before).expect("valid members");
    let wide = [vec![exact(8)], vec![KeyMatch::Exact(vec![1, 0, 0])]];
    let error = switch.set_value_set(tags, &wide).expect_err("too wide");
    assert!(
        error.to_string().contains("member 1: match field 0"),
        "{error}"
    );
    let many: Vec<Vec<KeyMatch>> = (0..5).map(|i| vec![exact(i)]).collect();
    let error = switch.set_value_set(tags, &many).expect_err("too many");
    assert!(
        matches!(
            error,
            ControlError::ValueSetFull {
                size: 4,
                given: 5,
                ..
            }
        ),
        "{error}"
    );
    let error = switch.set_value_set(pairs, &before).expect_err("one field");
    assert!(error.to_string().contains("the set has 2"), "{error}");
    assert!(switch.set_value_set(ValueSetId(9), &[]).is_err());
    assert_eq!(switch.value_set(tags).expect("the set exists"), before);
}
