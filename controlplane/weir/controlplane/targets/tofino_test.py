# SPDX-License-Identifier: Apache-2.0
"""The published granularity: a rate is 9 bits per cycle over a power of two, a burst 8 bits times one."""

import math
import random

import pytest

from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets.tofino import TOFINO, TOFINO2, Encoded

PAIRS = 10_000


def random_pairs(seed: int = 1) -> list[tuple[int, int]]:
    """(bytes/s, bytes): 1 Mbit/s to 100 Gbit/s and 1.5 kB to 16 MB, both log-uniform."""
    draw = random.Random(seed)
    return [
        (int(10 ** draw.uniform(6, 11)) // 8, int(10 ** draw.uniform(math.log10(1514), 7.2)))
        for _ in range(PAIRS)
    ]


@pytest.mark.parametrize("target", [TOFINO, TOFINO2])
def test_effective_buckets_can_be_encoded_by_the_hardware(target):
    worst_rate = worst_burst = 0.0
    for rate, burst in random_pairs():
        word = target.encode(rate, burst)
        assert 1 <= word.rate_mantissa <= 511
        assert 1 <= word.burst_mantissa <= 255
        assert 0 <= word.burst_exponent <= 31
        assert 0 <= word.rate_exponent <= 27 - max(0, word.burst_exponent - 14)
        assert word.rate_mantissa <= word.burst_bytes
        # Never rounded up, and never down by a whole step of the mantissa (or of kbit).
        kbit = rate // 125 * 125
        got = word.rate_bytes_per_s(target.clock_hz)
        assert got <= kbit * (1 + 1e-6)
        assert kbit - got < target.clock_hz / 2**word.rate_exponent * (1 + 1e-6)
        assert 0 <= burst - word.burst_bytes < 2**word.burst_exponent + 125
        worst_rate = max(worst_rate, 1 - got / rate)
        worst_burst = max(worst_burst, 1 - word.burst_bytes / burst)
    print(f"{target.name}: at most {worst_rate:.3%} of the rate and {worst_burst:.3%} of the burst are lost")


def test_a_bucket_that_the_hardware_can_encode_is_exact():
    exact = Encoded(rate_mantissa=500, rate_exponent=12, burst_mantissa=200, burst_exponent=9)
    rate = exact.rate_bytes_per_s(TOFINO2.clock_hz)
    assert rate == 122_070_312.5
    # The rate is truncated to kbit/s first; 122,070,375 B/s is the next whole one.
    assert TOFINO2.encode(122_070_375, exact.burst_bytes + 100) == exact


def test_a_large_burst_costs_precision_of_slow_rates():
    small, large = TOFINO.encode(125_000, 20_000), TOFINO.encode(125_000, 500_000_000)
    assert large.rate_exponent < small.rate_exponent
    assert large.burst_exponent - 14 + large.rate_exponent <= 27


@pytest.mark.parametrize(
    ("rate", "burst", "message"),
    [
        (100, 2000, "tofino has no bucket of 800 bit/s and 2 kB; valid: at least 1 kbit/s and 125 B"),
        (125, 2**40, "tofino has no burst of 1099511627.776 kB; valid: at most 547608330.24 kB"),
        (125, 300_000_000, "tofino has no rate of 1 kbit/s with a burst of 300 MB; valid: at least "),
        (10**12, 10**6, "tofino has no rate of 8 Tbit/s; valid: at most 4987.36 Gbit/s"),
    ],
)
def test_a_bucket_that_the_driver_would_refuse_is_refused_with_the_limit(rate, burst, message):
    with pytest.raises(UnsupportedByTargetError) as error:
        TOFINO.encode(rate, burst)
    assert str(error.value).startswith(message)


def test_the_effective_bucket_reads_back_in_whole_kbit():
    rate, burst = TOFINO.read_back(5_000_000, 100_000)
    effective = TOFINO.effective(5_000_000, 100_000)
    assert rate % 125 == burst % 125 == 0
    assert 0 <= rate - effective.rate_bps / 8 < 126
    assert 0 <= burst - effective.burst_bytes < 125
