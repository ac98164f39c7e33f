// SPDX-License-Identifier: Apache-2.0
//! Random and mutated byte strings.

use crate::choices::Choices;

/// Up to `longest` random bytes, short ones more often.
pub fn random(random: &mut Choices<'_>, longest: usize) -> Vec<u8> {
    let longest = random.usize(0..=longest);
    let length = random.usize(0..=longest);
    let mut bytes = vec![0; length];
    match random.u8(..4) {
        0 => {}
        1 => bytes.fill(0xff),
        _ => random.fill(&mut bytes),
    }
    bytes
}

/// Flips, overwrites, inserts, removes and repeats bytes at random positions.
pub fn mutate(random: &mut Choices<'_>, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..8) {
        if bytes.is_empty() {
            bytes.push(random.u8(..));
        }
        let at = random.usize(..bytes.len());
        match random.u8(..7) {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at] = random.choice([0, 1, 0x7f, 0x80, 0xff]).unwrap_or(0),
            2 => bytes.insert(at, random.u8(..)),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            5 => {
                let end = (at + random.usize(1..32)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = random.usize(..bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => bytes[at] = random.u8(..),
        }
    }
}
