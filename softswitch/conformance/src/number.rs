// SPDX-License-Identifier: Apache-2.0
//! Numbers of STF: `0x…`, `0b…`, `0o…` or decimal, of any width, with `*` for a digit that is not compared (wildcard).

/// A number, most significant bit first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    value: Vec<bool>,
    mask: Vec<bool>,
}

impl Number {
    /// Reads a number.
    ///
    /// # Errors
    /// The mistake in the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let (digits, bits) = match lower.get(..2) {
            Some("0x") => (&lower[2..], 4),
            Some("0o") => (&lower[2..], 3),
            Some("0b") => (&lower[2..], 1),
            _ => return Self::decimal(text),
        };
        if digits.is_empty() {
            return Err(format!("{text:?} has no digits"));
        }
        let (mut value, mut mask) = (Vec::new(), Vec::new());
        for digit in digits.chars() {
            let wildcard = digit == '*';
            let digit = if wildcard {
                0
            } else {
                digit
                    .to_digit(1 << bits)
                    .ok_or_else(|| format!("{text:?}: {digit:?} is not a digit of its base"))?
            };
            value.extend((0..bits).rev().map(|bit| digit >> bit & 1 == 1));
            mask.extend((0..bits).map(|_| !wildcard));
        }
        Ok(Self { value, mask })
    }

    fn decimal(text: &str) -> Result<Self, String> {
        let number: u128 = text
            .parse()
            .map_err(|_| format!("{text:?} is not a number such as 17, 0x11 or 0b10001"))?;
        let bits = 128 - number.leading_zeros().min(127);
        Ok(Self {
            value: (0..bits).rev().map(|bit| number >> bit & 1 == 1).collect(),
            mask: vec![true; bits as usize],
        })
    }

    /// Width of the digits in bits, wildcards included.
    pub fn bits(&self) -> u32 {
        u32::try_from(self.mask.len()).unwrap_or(u32::MAX)
    }

    /// Width of the digits in bits, without wildcards.
    pub fn known_bits(&self) -> u32 {
        u32::try_from(self.mask.iter().filter(|known| **known).count()).unwrap_or(u32::MAX)
    }

    /// The value, wildcards as zeros, big-endian.
    pub fn value(&self) -> Vec<u8> {
        bytes(&self.value)
    }

    /// The low `width` bits of value and mask; the mask has zeros for wildcards.
    pub fn masked(&self, width: u32) -> (Vec<u8>, Vec<u8>) {
        let skip = self.mask.len().saturating_sub(width as usize);
        (bytes(&self.value[skip..]), bytes(&self.mask[skip..]))
    }

    /// The value as a number of at most 64 bits.
    ///
    /// # Errors
    /// The value needs more.
    pub fn to_u64(&self) -> Result<u64, String> {
        let first = self.value.iter().position(|bit| *bit);
        let significant = first.map_or(&[][..], |at| &self.value[at..]);
        if significant.len() > 64 {
            return Err(format!("a number of {} bits", significant.len()));
        }
        Ok(significant
            .iter()
            .fold(0, |n, bit| n << 1 | u64::from(*bit)))
    }
}

/// Bits as bytes, right-aligned; at least one.
fn bytes(bits: &[bool]) -> Vec<u8> {
    if bits.is_empty() {
        return vec![0];
    }
    bits.rchunks(8)
        .rev()
        .map(|chunk| chunk.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_base_gives_the_same_value() {
        for text in ["0x1f", "0b11111", "0o37", "31", "0x001F"] {
            let number = Number::parse(text).expect("a number");
            assert_eq!(number.to_u64(), Ok(31), "{text}");
        }
        assert_eq!(Number::parse("0x123").expect("a number").value(), [1, 0x23]);
        assert_eq!(Number::parse("0").expect("a number").value(), [0]);
    }

    #[test]
    fn stars_are_not_compared() {
        let number = Number::parse("0x1*3").expect("a number");
        assert_eq!(number.masked(12), (vec![1, 0x03], vec![0x0f, 0x0f]));
        assert_eq!((number.bits(), number.known_bits()), (12, 8));
        // Of more digits than the field has bits, the low ones count.
        assert_eq!(number.masked(9), (vec![1, 0x03], vec![1, 0x0f]));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0x", "0b2", "12a", "0x1g"] {
            assert!(Number::parse(text).is_err(), "{text}");
        }
    }
}
