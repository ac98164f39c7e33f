// SPDX-License-Identifier: Apache-2.0
//! Meters in exact integer arithmetic.
//!
//! Tokens are counted in billionths of a unit (byte or packet), so that a rate of `r` units per second adds exactly
//! `r` tokens per nanosecond: nothing is rounded and nothing drifts. A bucket starts full; time never goes back.

use crate::control::{ColourCounters, MeterConfig};
use crate::error::ControlError;

/// Tokens per unit.
const UNIT: u128 = 1_000_000_000;

/// v1model's `MeterColor_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Green = 0,
    Yellow = 1,
    Red = 2,
}

/// One meter cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meter {
    config: Option<MeterConfig>,
    committed: u128,
    /// Peak (RFC 2698) or excess (RFC 2697) bucket.
    second: u128,
    last_ns: u64,
}

fn full(units: u64) -> u128 {
    u128::from(units) * UNIT
}

fn refill(tokens: u128, rate: u64, elapsed_ns: u64, burst: u64) -> u128 {
    // The product of two u64 fits u128; where the sum does not, the bucket is full anyway.
    tokens
        .saturating_add(u128::from(rate) * u128::from(elapsed_ns))
        .min(full(burst))
}

impl Meter {
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.config
    }

    /// Configures the cell; buckets start full. None: unset, always green.
    pub(crate) fn set(&mut self, config: Option<MeterConfig>) {
        let (committed, second) = match config {
            None => (0, 0),
            Some(MeterConfig::TwoRateThreeColour { cbs, pbs, .. }) => (full(cbs), full(pbs)),
            Some(MeterConfig::SingleRateThreeColour { cbs, ebs, .. }) => (full(cbs), full(ebs)),
            Some(MeterConfig::SingleRateTwoColour { cbs, .. }) => (full(cbs), 0),
        };
        *self = Self {
            config,
            committed,
            second,
            last_ns: self.last_ns,
        };
    }

    /// Colours a packet of `units` and takes its tokens. A time before the last one counts as the last one.
    pub(crate) fn execute(&mut self, units: u64, now_ns: u64) -> Colour {
        let Some(config) = self.config else {
            return Colour::Green;
        };
        let elapsed_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        let need = full(units);
        match config {
            // RFC 2698 section 3, colour-blind.
            MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs } => {
                self.committed = refill(self.committed, cir, elapsed_ns, cbs);
                self.second = refill(self.second, pir, elapsed_ns, pbs);
                if self.second < need {
                    Colour::Red
                } else if self.committed < need {
                    self.second -= need;
                    Colour::Yellow
                } else {
                    self.second -= need;
                    self.committed -= need;
                    Colour::Green
                }
            }
            // RFC 2697 section 3, colour-blind: what overflows the committed bucket fills the excess bucket.
            MeterConfig::SingleRateThreeColour { cir, cbs, ebs } => {
                let added = u128::from(cir) * u128::from(elapsed_ns);
                let room = full(cbs) - self.committed;
                self.committed += added.min(room);
                self.second = self
                    .second
                    .saturating_add(added.saturating_sub(room))
                    .min(full(ebs));
                if self.committed >= need {
                    self.committed -= need;
                    Colour::Green
                } else if self.second >= need {
                    self.second -= need;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            MeterConfig::SingleRateTwoColour { cir, cbs } => {
                self.committed = refill(self.committed, cir, elapsed_ns, cbs);
                if self.committed >= need {
                    self.committed -= need;
                    Colour::Green
                } else {
                    Colour::Red
                }
            }
        }
    }
}

/// A meter cell that counts what it colours: two whole cache lines.
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

/// Refuses what no bucket can mean.
pub(crate) fn check(config: &MeterConfig) -> Result<(), ControlError> {
    if let MeterConfig::TwoRateThreeColour { cir, pir, .. } = config
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
