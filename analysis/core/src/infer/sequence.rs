// SPDX-License-Identifier: Apache-2.0
//! Sequence numbers that do not wrap.

/// The 64-bit number nearest to `near` whose lower 32 bits are `wire`.
pub(crate) const fn unwrap(wire: u32, near: u64) -> u64 {
    let distance = wire.wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(distance as i64)
}

/// The first number as 64 bits: far enough from zero that numbers before it do not wrap.
pub(crate) const fn origin(wire: u32) -> u64 {
    (1 << 40) | wire as u64
}
