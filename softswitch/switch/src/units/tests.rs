// SPDX-License-Identifier: Apache-2.0
use super::*;

#[test]
fn decimal_quantities_are_exact() {
    assert_eq!(rate_bps("1Gbit/s"), Ok(1_000_000_000));
    assert_eq!(rate_bps("2.5 Mbit/s"), Ok(2_500_000));
    assert_eq!(size_bytes("15kB"), Ok(15_000));
    assert_eq!(size_bytes("4MiB"), Ok(4 * 1024 * 1024));
    assert_eq!(time_ns("0.1us"), Ok(100));
    assert_eq!(time_ns("1.50ms"), Ok(1_500_000));
}

#[test]
fn a_missing_unit_is_refused_with_the_valid_ones() {
    let message = rate_bps("1000").unwrap_err().to_string();
    assert!(message.contains("the unit is missing"), "{message}");
    assert!(
        message.contains("bit/s, kbit/s, Mbit/s, Gbit/s"),
        "{message}"
    );
}

#[test]
fn a_foreign_unit_is_named() {
    let message = rate_bps("5MB/s").unwrap_err().to_string();
    assert!(message.contains("`MB/s` is not a unit of it"), "{message}");
    let message = time_ns("10m").unwrap_err().to_string();
    assert!(message.contains("`m` is not a unit"), "{message}");
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["ms", ".5ms", "5.ms", "1.2.3ms", "-1ms", "1e3ms"] {
        assert!(time_ns(text).is_err(), "{text}");
    }
}

#[test]
fn fractions_of_the_base_unit_and_overflow_are_refused() {
    assert!(matches!(time_ns("0.5ns"), Err(UnitError::Inexact { .. })));
    assert!(matches!(
        time_ns("18446744073710s"),
        Err(UnitError::Inexact { .. })
    ));
    assert!(matches!(
        rate_bps("99999999999999999999999999999999999999999Gbit/s"),
        Err(UnitError::Inexact { .. })
    ));
}
