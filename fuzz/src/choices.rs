// SPDX-License-Identifier: Apache-2.0
//! Choices that an input of the fuzzer makes: generators ask for numbers, and the input's bytes answer.
//!
//! The first eight bytes seed a generator of random numbers, which answers when the others are used up. So a short input
//! is a whole scenario too, and what the fuzzer appends to it replaces random choices by its own.

use std::ops::{Bound, RangeBounds};

/// Bytes of the seed.
const SEED_BYTES: usize = 8;

/// The source of the choices.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

/// The methods for one type of integer: the name is the type's.
macro_rules! integers {
    ($($name:ident)*) => {$(
        /// A number of the range; the range's first number if it has none.
        pub fn $name(&mut self, range: impl RangeBounds<$name>) -> $name {
            let low = match range.start_bound() {
                Bound::Included(low) => *low,
                Bound::Excluded(low) => low.saturating_add(1),
                Bound::Unbounded => $name::MIN,
            };
            let high = match range.end_bound() {
                Bound::Included(high) => *high,
                Bound::Excluded(high) => high.saturating_sub(1),
                Bound::Unbounded => $name::MAX,
            };
            let span = high.abs_diff(low) as u64;
            if high < low {
                return low;
            }
            // Truncation gives the number that the wrapping sum has in this type.
            low.wrapping_add(self.up_to(span) as $name)
        }
    )*};
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_lossless,
    reason = "one body for all types of integers"
)]
impl<'a> Choices<'a> {
    /// The choices that these bytes make.
    pub fn new(bytes: &'a [u8]) -> Self {
        let (seed, bytes) = bytes.split_at(bytes.len().min(SEED_BYTES));
        let state = seed
            .iter()
            .fold(0, |seed, byte| seed << 8 | u64::from(*byte));
        Self { bytes, state }
    }

    /// Random choices that depend on a seed alone.
    pub fn seeded(seed: u64) -> Choices<'static> {
        Choices {
            bytes: &[],
            state: seed,
        }
    }

    integers! { u8 u16 u32 u64 i16 i32 i64 usize }

    /// True or false.
    pub fn bool(&mut self) -> bool {
        self.up_to(1) == 1
    }

    /// One of the items; None if there are none.
    pub fn choice<I>(&mut self, items: I) -> Option<I::Item>
    where
        I: IntoIterator<IntoIter: ExactSizeIterator>,
    {
        let mut items = items.into_iter();
        let at = self.usize(..items.len().max(1));
        items.nth(at)
    }

    /// Fills with chosen bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.byte());
    }

    /// Changes the order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let with = self.usize(..=at);
            items.swap(at, with);
        }
    }

    /// A number from 0 to `most`, from as few bytes as it needs.
    fn up_to(&mut self, most: u64) -> u64 {
        let bytes = (64 - most.leading_zeros()).div_ceil(8);
        let number = (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()));
        most.checked_add(1).map_or(number, |count| number % count)
    }

    fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => (self.random() >> 56) as u8,
        }
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_in_their_range() {
        let mut choices = Choices::seeded(3);
        for _ in 0..1_000 {
            assert!(choices.u8(3..=5) - 3 < 3);
            assert!((-7..2).contains(&choices.i32(-7..2)));
            assert!(choices.usize(..70_000) < 70_000);
            assert_eq!(choices.u64(9..9), 9);
        }
    }

    #[test]
    fn bytes_answer_first_and_the_seed_afterwards() {
        let mut choices = Choices::new(&[0, 0, 0, 0, 0, 0, 0, 3, 7, 1, 2]);
        assert_eq!(choices.u8(..), 7);
        assert_eq!(choices.u16(..), 0x0102);
        assert_eq!(choices.u64(..), Choices::seeded(3).u64(..));
    }

    #[test]
    fn every_item_is_chosen_sometimes() {
        let mut choices = Choices::seeded(3);
        let mut seen = [0; 3];
        for _ in 0..300 {
            seen[choices.choice([0, 1, 2]).expect("there are items")] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
        assert_eq!(choices.choice([0_u8; 0]), None);
    }
}
