// SPDX-License-Identifier: Apache-2.0
//! Two's complement integers of a fixed number of 64-bit words, for values of more than 64 bits.
//!
//! The loader chooses N so that every intermediate value fits, or is masked to bits that stay exact when it wraps.

use std::cmp::Ordering;

/// Least significant word first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wide<const N: usize>(pub [u64; N]);

impl<const N: usize> Wide<N> {
    /// 0.
    pub const ZERO: Self = Self([0; N]);

    /// From an unsigned word.
    pub fn from_u64(value: u64) -> Self {
        let mut out = Self::ZERO;
        out.0[0] = value;
        out
    }

    /// From words, least significant first, sign-extended from the last.
    pub fn from_words(words: &[u64], negative: bool) -> Self {
        let mut out = Self([if negative { u64::MAX } else { 0 }; N]);
        for (to, from) in out.0.iter_mut().zip(words) {
            *to = *from;
        }
        out
    }

    /// The same value in another number of words (wrapping).
    pub fn resize<const M: usize>(&self) -> Wide<M> {
        Wide::from_words(&self.0, self.is_negative())
    }

    /// The low 64 bits.
    pub fn low(&self) -> u64 {
        self.0[0]
    }

    /// The value, clamped to a u64.
    pub fn to_u64_saturating(self) -> u64 {
        if self.is_negative() {
            0
        } else if self.0[1..].iter().any(|w| *w != 0) {
            u64::MAX
        } else {
            self.0[0]
        }
    }

    /// Whether it is below 0.
    pub fn is_negative(&self) -> bool {
        self.0[N - 1] >> 63 == 1
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|w| *w == 0)
    }

    /// 64 bits from `bit` on (zero beyond the end).
    pub fn word_at(&self, bit: u32) -> u64 {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        let low = self.0.get(word).copied().unwrap_or(0) >> shift;
        if shift == 0 {
            low
        } else {
            low | (self.0.get(word + 1).copied().unwrap_or(0) << (64 - shift))
        }
    }

    /// ORs a word into the value at bit `bit`.
    pub fn or_shifted(&mut self, value: u64, bit: u32) {
        let (word, shift) = ((bit / 64) as usize, bit % 64);
        if let Some(w) = self.0.get_mut(word) {
            *w |= value << shift;
        }
        if shift != 0
            && let Some(w) = self.0.get_mut(word + 1)
        {
            *w |= value >> (64 - shift);
        }
    }

    /// Sum (wrapping).
    pub fn add(&self, other: &Self) -> Self {
        let mut out = Self::ZERO;
        let mut carry = false;
        for i in 0..N {
            let (sum, c1) = self.0[i].overflowing_add(other.0[i]);
            let (sum, c2) = sum.overflowing_add(u64::from(carry));
            out.0[i] = sum;
            carry = c1 | c2;
        }
        out
    }

    /// All bits inverted.
    pub fn not(&self) -> Self {
        Self(self.0.map(|w| !w))
    }

    /// The number with the other sign (wrapping).
    pub fn neg(&self) -> Self {
        self.not().add(&Self::from_u64(1))
    }

    /// Difference (wrapping).
    pub fn sub(&self, other: &Self) -> Self {
        self.add(&other.neg())
    }

    /// Product (wrapping).
    pub fn mul(&self, other: &Self) -> Self {
        let mut out = Self::ZERO;
        for i in 0..N {
            if self.0[i] == 0 {
                continue;
            }
            let mut carry = 0_u128;
            for j in 0..N - i {
                let sum = u128::from(self.0[i]) * u128::from(other.0[j])
                    + u128::from(out.0[i + j])
                    + carry;
                #[expect(clippy::cast_possible_truncation, reason = "the low word is meant")]
                let low = sum as u64;
                out.0[i + j] = low;
                carry = sum >> 64;
            }
        }
        out
    }

    /// Quotient and remainder of magnitudes, by long division; division by zero gives zero and zero.
    pub fn div_rem(&self, other: &Self) -> (Self, Self) {
        if other.is_zero() {
            return (Self::ZERO, Self::ZERO);
        }
        let (a, b) = (self.abs(), other.abs());
        let mut quotient = Self::ZERO;
        let mut rest = Self::ZERO;
        for bit in (0..N * 64).rev() {
            rest = rest.shl(1);
            rest.0[0] |= (a.0[bit / 64] >> (bit % 64)) & 1;
            if rest.compare(&b) != Ordering::Less {
                rest = rest.sub(&b);
                quotient.0[bit / 64] |= 1 << (bit % 64);
            }
        }
        let quotient = if self.is_negative() == other.is_negative() {
            quotient
        } else {
            quotient.neg()
        };
        (quotient, if self.is_negative() { rest.neg() } else { rest })
    }

    fn abs(&self) -> Self {
        if self.is_negative() {
            self.neg()
        } else {
            *self
        }
    }

    /// The words of both, combined by `f`.
    pub fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let mut out = Self::ZERO;
        for i in 0..N {
            out.0[i] = f(self.0[i], other.0[i]);
        }
        out
    }

    /// Shift left; bits beyond the end are lost.
    pub fn shl(&self, bits: u64) -> Self {
        let Ok(bits) = usize::try_from(bits) else {
            return Self::ZERO;
        };
        if bits >= N * 64 {
            return Self::ZERO;
        }
        let (words, shift) = (bits / 64, bits % 64);
        let mut out = Self::ZERO;
        for i in words..N {
            let mut word = self.0[i - words] << shift;
            if shift != 0 && i > words {
                word |= self.0[i - words - 1] >> (64 - shift);
            }
            out.0[i] = word;
        }
        out
    }

    /// Arithmetic shift right.
    pub fn shr(&self, bits: u64) -> Self {
        let fill = if self.is_negative() { u64::MAX } else { 0 };
        let bits = usize::try_from(bits).unwrap_or(usize::MAX).min(N * 64);
        let (words, shift) = (bits / 64, bits % 64);
        let mut out = Self([fill; N]);
        for i in 0..N.saturating_sub(words) {
            let low = self.0[i + words] >> shift;
            let high = if shift == 0 {
                0
            } else {
                self.0.get(i + words + 1).copied().unwrap_or(fill) << (64 - shift)
            };
            out.0[i] = low | high;
        }
        out
    }

    /// Order as signed numbers.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => self.0.iter().rev().cmp(other.0.iter().rev()),
        }
    }

    /// 2^bits - 1.
    fn ones(bits: u32) -> Self {
        Self::from_u64(1)
            .shl(u64::from(bits))
            .sub(&Self::from_u64(1))
    }

    /// The low `width` bits read as a two's complement number.
    pub fn two_comp_mod(&self, width: u32) -> Self {
        let up = (N * 64) as u64 - u64::from(width).min((N * 64) as u64);
        self.shl(up).shr(up)
    }

    /// Clamped to an unsigned number of `width` bits.
    pub fn usat_cast(&self, width: u32) -> Self {
        let max = Self::ones(width);
        if self.is_negative() {
            Self::ZERO
        } else if self.compare(&max) == Ordering::Greater {
            max
        } else {
            *self
        }
    }

    /// Clamped to a signed number of `width` bits.
    pub fn sat_cast(&self, width: u32) -> Self {
        let max = Self::ones(width.saturating_sub(1));
        let min = max.not();
        if self.compare(&max) == Ordering::Greater {
            max
        } else if self.compare(&min) == Ordering::Less {
            min
        } else {
            *self
        }
    }
}

#[cfg(test)]
#[path = "wide_tests.rs"]
mod tests;
