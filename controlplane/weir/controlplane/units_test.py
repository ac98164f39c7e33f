# SPDX-License-Identifier: Apache-2.0
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controlplane.units import (
    DEPTH_PATTERN,
    RATE,
    SIZE,
    TIME,
    Dimension,
    UnitError,
    format_rate,
    format_share,
    format_size,
    format_time,
    parse_burst,
    parse_depth,
    parse_rate,
    parse_share,
    parse_size,
    parse_time,
)


@pytest.mark.parametrize(
    ("text", "rate_bps"),
    [
        ("40 Mbit/s", 40_000_000),
        ("40Mbit/s", 40_000_000),
        ("1 Gbit/s", 1_000_000_000),
        ("0.1 kbit/s", 100),
        ("64 bit/s", 64),
    ],
)
def test_rates_are_exact_bit_per_second(text: str, rate_bps: int) -> None:
    assert parse_rate(text) == rate_bps


@pytest.mark.parametrize(
    ("text", "size_bytes"), [("100 kB", 100_000), ("64 KiB", 65_536), ("1.5 MiB", 1_572_864), ("128 B", 128)]
)
def test_sizes_tell_powers_of_1000_from_powers_of_1024(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("20 ms", 20_000_000),
        ("40 s", 40_000_000_000),
        ("1 min", 60_000_000_000),
        ("0.25 us", 250),
        ("0 s", 0),
    ],
)
def test_times_are_exact_nanoseconds(text: str, time_ns: int) -> None:
    assert parse_time(text) == time_ns


def test_a_decimal_that_binary_floating_point_cannot_hold_stays_exact() -> None:
    assert parse_time("9007199254.740993001 s") == 9_007_199_254_740_993_001


@pytest.mark.parametrize(
    ("dimension", "text", "message"),
    [
        (RATE, "40", "40 has no unit; valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'"),
        (RATE, 40, "40 has no unit; valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'"),
        (
            RATE,
            "40 Mbps",
            "unknown unit 'Mbps' of a rate; "
            "valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'",
        ),
        (
            RATE,
            "40 mbit/s",
            "unknown unit 'mbit/s' of a rate (did you mean Mbit/s?); "
            "valid: bit/s, kbit/s, Mbit/s, Gbit/s, Tbit/s, such as '40 Mbit/s'",
        ),
        (SIZE, "-1 kB", "'-1 kB' is negative; valid: B, kB, MB, GB, KiB, MiB, GiB, such as '100 kB'"),
        (SIZE, "0.5 B", "'0.5 B' is not a whole number of B; valid: a multiple of 1 B"),
        (SIZE, True, "True is not a size; valid: B, kB, MB, GB, KiB, MiB, GiB, such as '100 kB'"),
        (TIME, "soon", "'soon' is not a time; valid: ns, us, ms, s, min, such as '20 ms'"),
        (TIME, None, "None is not a time; valid: ns, us, ms, s, min, such as '20 ms'"),
        (TIME, "10000000000 s", "'10000000000 s' is too large; valid: at most 9223372036854775807 ns"),
    ],
)
def test_a_bad_quantity_says_what_would_be_valid(dimension: Dimension, text: object, message: str) -> None:
    with pytest.raises(UnitError) as error:
        dimension.parse(text)
    assert str(error.value) == message


def test_a_burst_in_time_is_what_its_rate_brings_in_that_time() -> None:
    # 40 Mbit/s for 20 ms: 40e6 / 8 × 0.020 = 100,000 bytes
    assert parse_burst("20 ms").bytes_at(40_000_000) == 100_000


def test_a_burst_as_size_does_not_depend_on_the_rate() -> None:
    assert parse_burst("64 KiB").bytes_at(1) == 65_536


def test_a_burst_in_time_is_rounded_to_the_nearest_byte() -> None:
    # 1 bit/s for 4 s is half a byte, for 3.9 s less
    assert parse_burst("4 s").bytes_at(1) == 1
    assert parse_burst("3.9 s").bytes_at(1) == 0


def test_a_burst_without_unit_lists_the_units_of_both_kinds() -> None:
    with pytest.raises(UnitError) as error:
        parse_burst(20)
    assert str(error.value) == (
        "20 has no unit; valid: a time (ns, us, ms, s, min) at the rate, "
        "or a size (B, kB, MB, GB, KiB, MiB, GiB), such as '20 ms'"
    )


def test_quantities_are_written_with_the_unit_that_reads_best() -> None:
    assert format_rate(40_000_000) == "40 Mbit/s"
    assert format_rate(1_500) == "1.5 kbit/s"
    assert format_rate(7) == "7 bit/s"
    assert format_size(128) == "128 B"
    assert format_time(20_000_000) == "20 ms"
    assert format_time(0) == "0 ns"


@given(st.sampled_from([RATE, SIZE, TIME]), st.integers(min_value=0, max_value=2**63 - 1))
def test_what_is_written_is_read_back_exactly(dimension: Dimension, value: int) -> None:
    assert dimension.parse(dimension.format(value)) == value


@pytest.mark.parametrize(
    ("text", "share_ppb", "written"),
    [("0.1 %", 10**6, "0.1 %"), ("100%", 10**9, "100 %"), ("3 ppm", 3000, "0.0003 %"), ("0 %", 0, "0 %")],
)
def test_a_share_is_exact_and_written_in_per_cent(text: str, share_ppb: int, written: str) -> None:
    assert parse_share(text) == share_ppb
    assert format_share(share_ppb) == written
    assert parse_share(written) == share_ppb


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.1", "0.1 has no unit; valid: %, ppm, ppb, such as '0.1 %'"),
        ("101 %", "'101 %' is more than all; valid: 0 % to 100 %"),
        ("0.5 ppb", "'0.5 ppb' is not a whole number of ppb; valid: a multiple of 1 ppb"),
    ],
)
def test_a_share_that_is_none_says_what_is_valid(text: str, message: str) -> None:
    with pytest.raises(UnitError) as error:
        parse_share(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "expected_bytes"),
    [
        ("64 KiB", 65_536),
        ("20 ms", 250_000),  # 100 Mbit/s × 20 ms / 8
        ("1.5 burst", 37_500),
        ("2 BDP", 1_000_000),  # 2 × 100 Mbit/s × 40 ms / 8, as published for ten flows
        ("0.01 BDP", 5_000),
        ("0.000001 BDP", 1),  # half a byte
    ],
)
def test_a_depth_is_so_many_bytes_of_a_queue(text: str, expected_bytes: int) -> None:
    assert parse_depth(text).bytes_at(100_000_000, 25_000, 40_000_000) == expected_bytes


@pytest.mark.parametrize("text", ["64 kB", "20 ms", "1.5 burst", "0.01 BDP"])
def test_a_depth_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_depth(text)) == text
    assert re.match(DEPTH_PATTERN, text)


@pytest.mark.parametrize("text", ["2", 2, True, "2 bdp", "2 Mbit/s", "BDP", "0.0000001 BDP", "-1 BDP"])
def test_a_depth_of_no_such_unit_names_the_units(text: object) -> None:
    with pytest.raises(UnitError, match=r"valid: "):
        parse_depth(text)


def test_a_depth_in_bdps_of_an_unknown_round_trip_has_no_bytes() -> None:
    with pytest.raises(UnitError, match="2 BDP: the burst or the round-trip time is not known"):
        parse_depth("2 BDP").bytes_at(1_000_000, None, None)
