// SPDX-License-Identifier: Apache-2.0
//! The meters against the RFCs' rules in exact rational arithmetic: seconds and units as fractions.

use super::{Colour, Meter};
use crate::control::MeterConfig;
use num_bigint::BigInt;
use num_rational::Ratio;
use proptest::prelude::*;

type Exact = Ratio<BigInt>;

fn exact(value: u64) -> Exact {
    Exact::from_integer(BigInt::from(value))
}

/// The reference keeps time in seconds and tokens in units, as the RFCs write them.
struct Reference {
    config: MeterConfig,
    first: Exact,
    second: Exact,
    last_s: Exact,
}

impl Reference {
    fn new(config: MeterConfig) -> Self {
        let (first, second) = match config {
            MeterConfig::TwoRateThreeColour { cbs, pbs, .. }
            | MeterConfig::TwoMicroRatesThreeColour { cbs, pbs, .. } => (cbs, pbs),
            MeterConfig::SingleRateThreeColour { cbs, ebs, .. } => (cbs, ebs),
            MeterConfig::SingleRateTwoColour { cbs, .. } => (cbs, 0),
        };
        Self {
            config,
            first: exact(first),
            second: exact(second),
            last_s: exact(0),
        }
    }

    fn execute(&mut self, units: u64, now_ns: u64) -> Colour {
        let now_s = exact(now_ns) / exact(1_000_000_000);
        let dt = if now_s > self.last_s {
            now_s.clone() - &self.last_s
        } else {
            exact(0)
        };
        if now_s > self.last_s {
            self.last_s = now_s;
        }
        let b = exact(units);
        match self.config {
            MeterConfig::TwoRateThreeColour { cir, cbs, pir, pbs }
            | MeterConfig::TwoMicroRatesThreeColour { cir, cbs, pir, pbs } => {
                let micro = matches!(self.config, MeterConfig::TwoMicroRatesThreeColour { .. });
                let rate = |rate| exact(rate) / exact(if micro { 1_000_000 } else { 1 });
                self.first = (&self.first + rate(cir) * &dt).min(exact(cbs));
                self.second = (&self.second + rate(pir) * &dt).min(exact(pbs));
                if &self.second - &b < exact(0) {
                    Colour::Red
                } else if &self.first - &b < exact(0) {
                    self.second -= b;
                    Colour::Yellow
                } else {
                    self.first -= b.clone();
                    self.second -= b;
                    Colour::Green
                }
            }
            MeterConfig::SingleRateThreeColour { cir, cbs, ebs } => {
                let mut new = exact(cir) * dt;
                let room = exact(cbs) - &self.first;
                let taken = new.clone().min(room);
                self.first += taken.clone();
                new -= taken;
                self.second = (&self.second + new).min(exact(ebs));
                if &self.first - &b >= exact(0) {
                    self.first -= b;
                    Colour::Green
                } else if &self.second - &b >= exact(0) {
                    self.second -= b;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            MeterConfig::SingleRateTwoColour { cir, cbs } => {
                self.first = (&self.first + exact(cir) * dt).min(exact(cbs));
                if self.first >= b {
                    self.first -= b;
                    Colour::Green
                } else {
                    Colour::Red
                }
            }
        }
    }
}

/// 1 kB/s to 50 GB/s, evenly over the orders of magnitude.
fn rate() -> impl Strategy<Value = u64> {
    (3_u32..11, 1_u64..=5_000)
        .prop_map(|(e, m)| (m * 10_u64.pow(e) / 1_000).clamp(1_000, 50_000_000_000))
}

/// The same in millionths, no multiples of a million.
fn micro_rate() -> impl Strategy<Value = u64> {
    (rate(), 1_u64..1_000_000).prop_map(|(rate, part)| rate * 1_000_000 + part)
}

fn burst() -> impl Strategy<Value = u64> {
    prop_oneof![64_u64..10_000, 10_000_u64..100_000_000]
}

fn config() -> impl Strategy<Value = MeterConfig> {
    prop_oneof![
        (rate(), rate(), burst(), burst()).prop_map(|(a, b, cbs, pbs)| {
            MeterConfig::TwoRateThreeColour {
                cir: a.min(b),
                cbs,
                pir: a.max(b),
                pbs,
            }
        }),
        (micro_rate(), micro_rate(), burst(), burst()).prop_map(|(a, b, cbs, pbs)| {
            MeterConfig::TwoMicroRatesThreeColour {
                cir: a.min(b),
                cbs,
                pir: a.max(b),
                pbs,
            }
        }),
        (rate(), burst(), burst()).prop_map(|(cir, cbs, ebs)| MeterConfig::SingleRateThreeColour {
            cir,
            cbs,
            ebs
        }),
        (rate(), burst()).prop_map(|(cir, cbs)| MeterConfig::SingleRateTwoColour { cir, cbs }),
    ]
}

/// Back to back, sub-microsecond, milliseconds, a year, and backwards.
fn gap_ns() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 0_i64..2_000,
        4 => 0_i64..5_000_000,
        1 => 0_i64..2_000_000_000,
        1 => Just(31_536_000_000_000_000),
        1 => -1_000_000_i64..0,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_verdict_equals_exact_arithmetic(
        config in config(),
        arrivals in prop::collection::vec((gap_ns(), 60_u64..9_000), 1..200),
    ) {
        let mut meter = Meter::default();
        meter.set(Some(config));
        let mut reference = Reference::new(config);
        let mut now_ns = 0_u64;
        for (gap, bytes) in arrivals {
            now_ns = now_ns.saturating_add_signed(gap);
            prop_assert_eq!(meter.execute(bytes, now_ns), reference.execute(bytes, now_ns));
        }
    }
}

#[test]
fn unset_meter_is_green() {
    let mut meter = Meter::default();
    assert_eq!(meter.execute(u64::MAX, 0), Colour::Green);
    meter.set(Some(MeterConfig::SingleRateTwoColour { cir: 0, cbs: 0 }));
    assert_eq!(meter.execute(1, u64::MAX), Colour::Red);
    meter.set(None);
    assert_eq!(meter.execute(1, u64::MAX), Colour::Green);
}

#[test]
fn bucket_refills_to_the_nanosecond() {
    // 1 MB/s is one byte per microsecond: after 1000 bytes, the bucket has 100 bytes at 100,000 ns and not at 99,999
    // ns.
    let mut meter = Meter::default();
    meter.set(Some(MeterConfig::SingleRateTwoColour {
        cir: 1_000_000,
        cbs: 1_000,
    }));
    assert_eq!(meter.execute(1_000, 0), Colour::Green);
    assert_eq!(meter.execute(100, 99_999), Colour::Red);
    assert_eq!(meter.execute(100, 100_000), Colour::Green);
}

#[test]
fn half_a_packet_a_second_passes_every_second_packet() {
    let mut meter = Meter::default();
    let config = MeterConfig::TwoMicroRatesThreeColour {
        cir: 500_000,
        cbs: 1,
        pir: 10_000_000,
        pbs: 1,
    };
    meter.set(Some(config));
    assert_eq!(meter.config(), Some(config));
    let colours: Vec<_> = (0..4)
        .map(|s| meter.execute(1, s * 1_000_000_000))
        .collect();
    use Colour::{Green, Yellow};
    assert_eq!(colours, [Green, Yellow, Green, Yellow]);
}

#[test]
fn time_that_goes_back_adds_no_tokens_twice() {
    let mut meter = Meter::default();
    meter.set(Some(MeterConfig::SingleRateTwoColour {
        cir: 1_000_000,
        cbs: 1_000,
    }));
    assert_eq!(meter.execute(1_000, 1_000_000), Colour::Green);
    assert_eq!(meter.execute(1, 0), Colour::Red);
    assert_eq!(meter.execute(1, 1_000_000), Colour::Red);
    assert_eq!(meter.execute(1, 1_001_000), Colour::Green);
}

#[test]
fn extreme_rates_and_gaps_do_not_overflow() {
    let mut meter = Meter::default();
    let max = u64::MAX;
    meter.set(Some(MeterConfig::TwoRateThreeColour {
        cir: max,
        cbs: max,
        pir: max,
        pbs: max,
    }));
    assert_eq!(meter.execute(max, max), Colour::Green);
    meter.set(Some(MeterConfig::SingleRateThreeColour {
        cir: max,
        cbs: max,
        ebs: max,
    }));
    assert_eq!(meter.execute(max, max), Colour::Green);
    assert_eq!(meter.execute(max, max), Colour::Yellow);
    assert_eq!(meter.execute(1, max), Colour::Red);
}
