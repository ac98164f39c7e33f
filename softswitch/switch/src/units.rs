// SPDX-License-Identifier: Apache-2.0
//! Quantities with units on the command line: `1Gbit/s`, `15kB`, `10ms`.
//!
//! Decimal numbers are read exactly (no floating point): `1.5ms` is 1 500 000 ns. A number without a unit is refused,
//! because other tools read a bare `1000` as bits, bytes or kilobytes.

#[cfg(test)]
mod tests;

/// One kind of quantity: its units and how many base units each of them is.
struct Quantity {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
}

const RATE: Quantity = Quantity {
    name: "a rate",
    example: "40Mbit/s",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
    ],
};

const SIZE: Quantity = Quantity {
    name: "a size",
    example: "256kB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
    ],
};

const TIME: Quantity = Quantity {
    name: "a time",
    example: "10ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ],
};

const SHARE: Quantity = Quantity {
    name: "a share",
    example: "0.1%",
    units: &[("ppb", 1), ("ppm", 1_000), ("%", 10_000_000)],
};

/// The reason for refusing a quantity; the text names the valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// The number has no unit, or one that this kind of quantity does not have.
    #[error("`{given}` is not {name}: {problem}; valid units are {units}, for example `{example}`")]
    Unit {
        /// The given text.
        given: String,
        /// The kind of quantity, with its article.
        name: &'static str,
        /// The mistake in the unit.
        problem: String,
        /// The valid units.
        units: String,
        /// A valid value.
        example: &'static str,
    },
    /// The part before the unit is not a decimal number.
    #[error("`{given}` is not {name}: `{number}` is not a decimal number, for example `{example}`")]
    Number {
        /// The given text.
        given: String,
        /// The kind of quantity, with its article.
        name: &'static str,
        /// The part that should be a number.
        number: String,
        /// A valid value.
        example: &'static str,
    },
    /// The value is not a whole number of the base unit, or too large for 64 bits.
    #[error("`{given}` is not {name} that can be kept exactly: it must be a whole number of {base}, at most {max}", max = u64::MAX)]
    Inexact {
        /// The given text.
        given: String,
        /// The kind of quantity, with its article.
        name: &'static str,
        /// The base unit.
        base: &'static str,
    },
}

impl Quantity {
    fn parse(&self, given: &str) -> Result<u64, UnitError> {
        let text = given.trim();
        let split = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim_start());
        let factor = self
            .units
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(|| self.unit_error(given, unit))?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits_only = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || !digits_only(whole)
            || !digits_only(fraction)
            || number.ends_with('.')
        {
            return Err(UnitError::Number {
                given: given.to_owned(),
                name: self.name,
                number: number.to_owned(),
                example: self.example,
            });
        }
        scale(whole, fraction, factor).ok_or_else(|| UnitError::Inexact {
            given: given.to_owned(),
            name: self.name,
            base: self.units[0].0,
        })
    }

    fn unit_error(&self, given: &str, unit: &str) -> UnitError {
        let units: Vec<&str> = self.units.iter().map(|(name, _)| *name).collect();
        UnitError::Unit {
            given: given.to_owned(),
            name: self.name,
            problem: if unit.is_empty() {
                "the unit is missing".to_owned()
            } else {
                format!("`{unit}` is not a unit of it")
            },
            units: units.join(", "),
            example: self.example,
        }
    }
}

/// `whole.fraction × factor` if that is a whole number of at most 64 bits.
fn scale(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    let fraction = fraction.trim_end_matches('0');
    let divisor = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let mantissa: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = mantissa.checked_mul(u128::from(factor))?;
    (scaled % divisor == 0)
        .then(|| u64::try_from(scaled / divisor).ok())
        .flatten()
}

/// A rate in bit/s, from text such as `40Mbit/s`.
///
/// # Errors
/// [`UnitError`] when the text is not a decimal number with a unit of rates.
pub fn rate_bps(text: &str) -> Result<u64, UnitError> {
    RATE.parse(text)
}

/// A size in bytes, from text such as `256kB` (1000) or `256KiB` (1024).
///
/// # Errors
/// [`UnitError`] when the text is not a decimal number with a unit of sizes.
pub fn size_bytes(text: &str) -> Result<u64, UnitError> {
    SIZE.parse(text)
}

/// A time in nanoseconds, from text such as `10ms`.
///
/// # Errors
/// [`UnitError`] when the text is not a decimal number with a unit of times.
pub fn time_ns(text: &str) -> Result<u64, UnitError> {
    TIME.parse(text)
}

/// A share in billionths, from text such as `0.1%` or `100ppm`.
///
/// # Errors
/// [`UnitError`] when the text is not a decimal number with a unit of shares.
pub fn share_ppb(text: &str) -> Result<u64, UnitError> {
    SHARE.parse(text)
}
