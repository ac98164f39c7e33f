// SPDX-License-Identifier: Apache-2.0
//! Meters in exact integer arithmetic.
//!
//! Tokens are counted in billionths of a unit (byte or packet), so that a rate of `r` units per second adds exactly
//! `r` tokens per nanosecond: nothing is rounded and nothing drifts. If rates are in millionths of a unit per second, a
//! unit has a million times as many tokens. A bucket starts full; time never goes back.

use crate::control::{ColourCounters, MeterConfig};
use crate::error::ControlError;

/// Tokens per unit.
const UNIT: u64 = 1_000_000_000;
/// The same where rates are in millionths. The largest burst, 2^64 units, is still below 2^114 tokens.
const UNIT_OF_MICRO_RATES: u64 = 1_000_000 * UNIT;

/// v1model's `MeterColor_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Green = 0,
    Yellow = 1,
    Red = 2,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unset,
    TwoRateThreeColour,
    SingleRateThreeColour,
    SingleRateTwoColour,
}

/// One meter cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meter {
    committed: u128,
    /// Peak (RFC 2698) or excess (RFC 2697) bucket.
    second: u128,
    cir: u64,
    cbs: u64,
    /// Peak rate; 0 if the overflow of the committed bucket fills the other.
    pir: u64,
    /// Peak or excess burst; 0 for two colours.
    second_burst: u64,
    last_ns: u64,
    kind: Kind,
    micro_rates: bool,
}

impl Meter {
    #[inline]
    fn tokens(&self, units: u64) -> u128 {
        let unit = if self.micro_rates {
            UNIT_OF_MICRO_RATES
        } else {
            UNIT
        };
        u128::from(units) * u128::from(unit)
    }

    pub(crate) fn config(&self) -> Option<MeterConfig> {
        let Self { cir, cbs, pir, .. } = *self;
        match self.kind {
            Kind::Unset => None,
            Kind::TwoRateThreeColour if self.micro_rates => {
                Some(MeterConfig::TwoMicroRatesThreeColour {
                    cir,
                    cbs,
                    pir,
                    pbs: self.second_burst,
                })
            }
            Kind::TwoRateThreeColour => Some(MeterConfig::TwoRateThreeColour {
                cir,
                cbs,
                pir,
                pbs: self.second_burst,
            }),
            Kind::SingleRateThreeColour => Some(MeterConfig::SingleRateThreeColour {
                cir,
                cbs,
                ebs: self.second_burst,
            }),
            Kind::SingleRateTwoColour => Some(MeterConfig::SingleRateTwoColour { cir, cbs }),
        }
    }

    /// Configures the cell; buckets start full. None: unset, always green.
    pub(crate) fn set(&mut self, config: Option<MeterConfig>) {
        let (kind, cir, cbs, pir, second_burst) = match config {
            None => (Kind::Unset, 0, 0, 0, 0),
            Some(
                MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs }
                | MeterConfig::TwoMicroRatesThreeColour { cir, cbs, pir, pbs },
            ) => (Kind::TwoRateThreeColour, cir, cbs, pir, pbs),
            Some(MeterConfig::SingleRateThreeColour { cir, cbs, ebs }) => {
                (Kind::SingleRateThreeColour, cir, cbs, 0, ebs)
            }
            Some(MeterConfig::SingleRateTwoColour { cir, cbs }) => {
                (Kind::SingleRateTwoColour, cir, cbs, 0, 0)
            }
        };
        *self = Self {
            committed: 0,
            second: 0,
            cir,
            cbs,
            pir,
            second_burst,
            last_ns: self.last_ns,
            kind,
            micro_rates: matches!(config, Some(MeterConfig::TwoMicroRatesThreeColour { .. })),
        };
        self.committed = self.tokens(cbs);
        self.second = self.tokens(second_burst);
    }

    /// Colours a packet of `units` and takes its tokens. A time before the last one counts as the last one.
    ///
    /// RFC 2698 section 3 and RFC 2697 section 3, colour-blind, in one: both fill the committed bucket alike. The other
    /// bucket fills at the peak rate, or with the overflow of the committed one; a green packet takes tokens from it
    /// only if it is the peak bucket. Two colours are RFC 2697 with an excess burst of 0. One code for all kinds,
    /// because a branch on each cell's kind would be unpredictable.
    #[inline]
    pub(crate) fn execute(&mut self, units: u64, now_ns: u64) -> Colour {
        if self.kind == Kind::Unset {
            return Colour::Green;
        }
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.last_ns));
        self.last_ns = self.last_ns.max(now_ns);
        let need = self.tokens(units);
        let two_rates = self.kind == Kind::TwoRateThreeColour;
        // All ones for two rates.
        let peak = u128::from(two_rates).wrapping_neg();
        // A product of two u64 fits u128. If the sum does not, the bucket is full, and so is the one that it overflows
        // to.
        let filled = self
            .committed
            .saturating_add(u128::from(self.cir) * elapsed_ns);
        let committed = filled.min(self.tokens(self.cbs));
        let added = ((u128::from(self.pir) * elapsed_ns) & peak) | ((filled - committed) & !peak);
        let second = self
            .second
            .saturating_add(added)
            .min(self.tokens(self.second_burst));
        let (conforms, second_conforms) = (committed >= need, second >= need);
        if conforms && (second_conforms || !two_rates) {
            self.committed = committed - need;
            self.second = second - (need & peak);
            Colour::Green
        } else {
            self.committed = committed;
            let yellow = second_conforms && !conforms;
            self.second = if yellow { second - need } else { second };
            if yellow { Colour::Yellow } else { Colour::Red }
        }
    }
}

/// A meter cell with counters of its colours: two whole cache lines.
#[derive(Debug, Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct CountedMeter {
    pub meter: Meter,
    pub colours: ColourCounters,
}

impl CountedMeter {
    /// As [`Meter::execute`], for a packet of `bytes`.
    #[inline]
    pub(crate) fn execute(&mut self, units: u64, bytes: u64, now_ns: u64) -> Colour {
        let colour = self.meter.execute(units, now_ns);
        match colour {
            Colour::Green => self.colours.green.count(bytes),
            Colour::Yellow => self.colours.yellow.count(bytes),
            Colour::Red => self.colours.red.count(bytes),
        }
        colour
    }
}

/// Refuses a configuration that no bucket can have.
pub(crate) fn check(config: &MeterConfig) -> Result<(), ControlError> {
    if let MeterConfig::TwoRateThreeColour { cir, pir, .. }
    | MeterConfig::TwoMicroRatesThreeColour { cir, pir, .. } = config
        && pir < cir
    {
        return Err(ControlError::InvalidValue {
            what: "meter".into(),
            reason: format!(
                "the peak rate {pir} is below the committed rate {cir}; RFC 2698 needs PIR >= CIR"
            ),
        });
    }
    Ok(())
}

#[cfg(test)]
#[path = "meter_tests.rs"]
mod tests;
