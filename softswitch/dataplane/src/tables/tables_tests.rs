// SPDX-License-Identifier: Apache-2.0
//! Lookups against a linear search over the same entries.

use super::TableState;
use super::key::{decode, encode};
use crate::control::KeyMatch;
use crate::error::ControlError;
use crate::info::{KeyFieldInfo, MatchKind, TableInfo};
use crate::ir::{AnyField, Field, KeyPart, Node, Table, WideField};
use proptest::prelude::*;

/// Fields: a (8 bits, byte 0), b (16 bits, bytes 1-2), c (128 bits, bytes 3-18).
const WIDTHS: [u32; 3] = [8, 16, 128];

fn table(kinds: [MatchKind; 3]) -> (TableInfo, Table) {
    let narrow = |offset, width: u8| {
        AnyField::Narrow(Field {
            offset,
            shift: 64 - width,
            width,
            signed: false,
        })
    };
    let fields = [
        narrow(0, 8),
        narrow(1, 16),
        AnyField::Wide(WideField {
            bit_offset: 24,
            width: 128,
            signed: false,
        }),
    ];
    let places = [(0, 0), (0, 8), (1, 0)];
    let key = fields
        .into_iter()
        .zip(places)
        .map(|(field, (word, shift))| KeyPart {
            field,
            word,
            shift,
            mask: None,
            valid: None,
        });
    let needs_priority = kinds
        .iter()
        .any(|k| !matches!(k, MatchKind::Exact | MatchKind::Lpm));
    let info = TableInfo {
        name: "t".into(),
        json_id: 0,
        key: (kinds.into_iter().zip(WIDTHS))
            .map(|(kind, width_bits)| KeyFieldInfo {
                name: "f".into(),
                kind,
                width_bits,
            })
            .collect(),
        actions: Vec::new(),
        size: 1_000,
        needs_priority,
        const_entries: false,
        const_default: false,
        direct_counter: None,
        direct_meter: None,
        support_timeout: false,
        profile: None,
    };
    let spec = Table {
        key: key.collect(),
        key_words: 3,
        actions: Vec::new(),
        next: Vec::new(),
        hit: None,
        miss: None,
        base_next: Node::End,
        default: None,
        entries: Vec::new(),
        direct_counter: false,
        direct_meter: None,
        meter_bytes: false,
        support_timeout: false,
        profile: None,
    };
    (info, spec)
}

fn phv(a: u8, b: u16, c: u128) -> Vec<u8> {
    let mut phv = vec![a];
    phv.extend(b.to_be_bytes());
    phv.extend(c.to_be_bytes());
    phv.resize(64, 0);
    phv
}

fn matches(key: &KeyMatch, width: u32, value: u128) -> bool {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u128, |n, b| n << 8 | u128::from(*b));
    match key {
        KeyMatch::Any => true,
        KeyMatch::Exact(v) => number(v) == value,
        KeyMatch::Lpm {
            value: v,
            prefix_len,
        } => (number(v) ^ value) >> (width - prefix_len) == 0,
        KeyMatch::Ternary { value: v, mask } => (number(v) ^ value) & number(mask) == 0,
        KeyMatch::Range { low, high } => (number(low)..=number(high)).contains(&value),
    }
}

/// Few distinct values, so that packets hit entries.
fn small() -> impl Strategy<Value = u8> {
    0_u8..4
}

fn entry() -> impl Strategy<Value = (Vec<KeyMatch>, i32)> {
    let a = prop_oneof![
        Just(KeyMatch::Any),
        (small(), 0_u8..4).prop_map(|(v, m)| {
            if m == 0 {
                KeyMatch::Any
            } else {
                KeyMatch::Ternary {
                    value: vec![v & m],
                    mask: vec![m],
                }
            }
        })
    ];
    let b = (small(), small()).prop_map(|(x, y)| KeyMatch::Range {
        low: vec![x.min(y)],
        high: vec![0, x.max(y)],
    });
    let c = prop_oneof![
        Just(KeyMatch::Any),
        (small(), 0_u8..3).prop_map(|(v, zeros)| KeyMatch::Lpm {
            value: (u128::from(v) >> zeros << zeros).to_be_bytes().to_vec(),
            prefix_len: 128 - u32::from(zeros),
        })
    ];
    ((a, b, c), 1_i32..6).prop_map(|((a, b, c), priority)| (vec![a, b, c], priority))
}

proptest! {
    #[test]
    fn best_priority_wins_among_ternary_range_and_prefix(
        entries in prop::collection::vec(entry(), 1..60),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        probes in prop::collection::vec((small(), small(), small()), 1..60),
    ) {
        let (info, spec) = table([MatchKind::Ternary, MatchKind::Range, MatchKind::Lpm]);
        let mut state = TableState::new(&spec, &[], 7);
        let mut kept = Vec::new();
        for (key, priority) in entries {
            let (packed, rank) = encode(&info, &spec, &key, priority).expect("a valid key");
            prop_assert_eq!(rank, priority);
            if state.find(&packed, rank).is_none() {
                let slot = state.insert(packed, rank, priority, (0, Box::default()));
                kept.push((slot, key, priority));
            }
        }
        for index in removed {
            if !kept.is_empty() {
                let (slot, _, _) = kept.swap_remove(index.index(kept.len()));
                state.remove(slot);
            }
        }
        prop_assert_eq!(state.len(), kept.len());
        for (a, b, c) in probes {
            let values = [u128::from(a), u128::from(b), u128::from(c)];
            let fits = |key: &Vec<KeyMatch>| {
                key.iter().zip(WIDTHS).zip(values).all(|((key, width), value)| matches(key, width, value))
            };
            let best = kept.iter().filter(|(_, key, _)| fits(key)).map(|(_, _, priority)| *priority).max();
            let found = state.lookup(&spec, &phv(a, u16::from(b), u128::from(c)));
            prop_assert_eq!(found.and_then(|slot| state.entry(slot)).map(|e| e.priority), best);
        }
    }

    /// Repeats a few packets, so that cached results are used, with writes between them.
    #[test]
    fn no_cached_result_outlives_a_write(
        steps in prop::collection::vec(
            (entry(), any::<prop::sample::Index>(), 0_u8..8),
            1..150,
        ),
    ) {
        let (info, spec) = table([MatchKind::Ternary, MatchKind::Range, MatchKind::Lpm]);
        let mut state = TableState::new(&spec, &[], 7);
        let mut kept: Vec<(u32, Vec<KeyMatch>, i32)> = Vec::new();
        for ((key, priority), index, write) in steps {
            match write {
                0 if !kept.is_empty() => {
                    let (slot, _, _) = kept.swap_remove(index.index(kept.len()));
                    state.remove(slot);
                }
                1 if index.index(10) == 0 => {
                    state.clear();
                    kept.clear();
                }
                _ => {
                    let (packed, rank) = encode(&info, &spec, &key, priority).expect("a valid key");
                    if state.find(&packed, rank).is_none() {
                        let slot = state.insert(packed, rank, priority, (0, Box::default()));
                        kept.push((slot, key, priority));
                    }
                }
            }
            for values in [[0, 0, 0], [1, 2, 3], [1, 2, 3], [3, 1, 2], [2, 3, 1]] {
                let fits = |key: &Vec<KeyMatch>| {
                    key.iter().zip(WIDTHS).zip(values).all(|((key, width), value)| matches(key, width, value))
                };
                let best = kept.iter().filter(|(_, key, _)| fits(key)).map(|(_, _, priority)| *priority).max();
                let [a, b, c] = values.map(|v| u8::try_from(v).expect("small"));
                let found = state.lookup(&spec, &phv(a, u16::from(b), u128::from(c)));
                prop_assert_eq!(found.and_then(|slot| state.entry(slot)).map(|e| e.priority), best);
            }
        }
    }

    #[test]
    fn keys_survive_packing(entry in entry()) {
        let (info, spec) = table([MatchKind::Ternary, MatchKind::Range, MatchKind::Lpm]);
        let (packed, rank) = encode(&info, &spec, &entry.0, entry.1).expect("a valid key");
        let decoded = decode(&info, &spec, &packed);
        let again = encode(&info, &spec, &decoded, entry.1).expect("what is read can be written");
        prop_assert_eq!(again, (packed, rank));
    }
}

#[test]
fn exact_table_finds_wide_keys() {
    let (info, spec) = table([MatchKind::Exact; 3]);
    let mut state = TableState::new(&spec, &[], 7);
    for i in 0_u16..1_000 {
        let key = vec![
            KeyMatch::Exact(vec![9]),
            KeyMatch::Exact(i.to_be_bytes().to_vec()),
            KeyMatch::Exact((u128::from(i) << 100).to_be_bytes().to_vec()),
        ];
        let (key, rank) = encode(&info, &spec, &key, 0).expect("a valid key");
        assert!(state.find(&key, rank).is_none());
        let slot = state.insert(key.clone(), rank, 0, (i, Box::default()));
        assert_eq!(state.find(&key, rank), Some(slot));
    }
    for i in 0_u16..1_000 {
        let slot = state.lookup(&spec, &phv(9, i, u128::from(i) << 100));
        assert_eq!(
            slot.and_then(|s| state.entry(s)).map(|e| e.action.local()),
            Some(i)
        );
        assert!(
            state
                .lookup(&spec, &phv(9, i, (u128::from(i) << 100) + 1))
                .is_none()
        );
    }
}

#[test]
fn bad_keys_are_refused_with_the_reason() {
    use KeyMatch::{Any, Exact, Lpm, Range, Ternary};
    let kinds = [MatchKind::Ternary, MatchKind::Range, MatchKind::Lpm];
    let reason = |kinds, key: Vec<KeyMatch>, priority| {
        let (info, spec) = table(kinds);
        match encode(&info, &spec, &key, priority) {
            Err(ControlError::InvalidKey { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(reason(kinds, vec![Any, Any], 1).contains("2 match fields given, the key has 3"));
    assert!(reason(kinds, vec![Any, Any, Any], 0).contains("priority of at least 1"));
    assert!(
        reason([MatchKind::Exact; 3], vec![Exact(vec![1]); 3], 4).contains("takes no priority")
    );
    assert!(reason([MatchKind::Exact; 3], vec![Any, Any, Any], 0).contains("must be given"));
    assert!(
        reason(kinds, vec![Exact(vec![1, 0]), Any, Any], 1)
            .contains("needs 9 bits, the field has 8")
    );
    assert!(reason(kinds, vec![Exact(vec![]), Any, Any], 1).contains("empty byte string"));
    assert!(
        reason(
            kinds,
            vec![
                Ternary {
                    value: vec![3],
                    mask: vec![1]
                },
                Any,
                Any
            ],
            1
        )
        .contains("outside its mask")
    );
    assert!(
        reason(
            kinds,
            vec![
                Any,
                Range {
                    low: vec![5],
                    high: vec![4]
                },
                Any
            ],
            1
        )
        .contains("range is empty")
    );
    let long = Lpm {
        value: vec![1],
        prefix_len: 129,
    };
    assert!(reason(kinds, vec![Any, Any, long], 1).contains("prefix length 129"));
    let loose = Lpm {
        value: vec![1],
        prefix_len: 127,
    };
    assert!(reason(kinds, vec![Any, Any, loose], 1).contains("beyond its prefix"));
}
