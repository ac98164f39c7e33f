// SPDX-License-Identifier: Apache-2.0
//! Random numbers of a program: all values within the bounds occur, no others, and the same for the same seed.

use crate::common;

use common::{send, switch};
use std::collections::BTreeSet;

/// The results of 400 packets.
fn results(operation: u8) -> Vec<u64> {
    let mut switch = switch("hashes", 1);
    let mut frame = vec![operation];
    frame.extend([0; 8 + 9]);
    let one = |_| {
        let sent = send(&mut switch, 1, &frame, 0);
        let result: [u8; 8] = sent[0].1[1..9].try_into().expect("8 bytes");
        u64::from_be_bytes(result)
    };
    (0..400).map(one).collect()
}

#[test]
fn random_takes_every_value_between_its_bounds() {
    let values: BTreeSet<u64> = results(11).into_iter().collect();
    assert_eq!(values, (1_000..=1_015).collect());
}

#[test]
fn random_hash_takes_every_value_from_base_on() {
    let values: BTreeSet<u64> = results(10).into_iter().collect();
    assert_eq!(values, (100..116).collect());
}

#[test]
fn same_seed_gives_the_same_numbers() {
    assert_eq!(results(10), results(10));
}
