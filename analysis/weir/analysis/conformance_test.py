# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.conformance import bucket_deficit, conformance
from weir.analysis.policers import agreement_of

RATE_BPS = 40_000_000
BURST_BYTES = 100_000
FRAME = 1514


def policed(
    seconds: float,
    offered_bps: float,
    rate_bps: float = RATE_BPS,
    burst_bytes: float = BURST_BYTES,
    seed: int = 3,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Poisson arrivals through a token bucket, packet by packet."""
    rng = np.random.default_rng(seed)
    n = int(seconds * offered_bps / 8 / FRAME)
    times = np.cumsum(rng.exponential(FRAME * 8e9 / offered_bps, n)).astype(np.int64)
    level, last, passed = float(burst_bytes), int(times[0]), []
    for t in times.tolist():
        level = min(burst_bytes, level + rate_bps / 8e9 * (t - last))
        last = t
        passed.append(level >= FRAME)
        level -= FRAME if passed[-1] else 0
    return times, np.full(n, FRAME, dtype=np.int64), np.array(passed)


def test_an_exact_bucket_conforms_in_every_window() -> None:
    found = conformance(*policed(20, 60e6), RATE_BPS, BURST_BYTES)
    print(found)
    assert found.saturated_windows > 0
    assert found.excess_percent is not None
    assert found.excess_percent <= 0
    assert found.deviation_percent is not None
    assert found.deviation_percent < 0.5
    assert found.rate_error_percent is not None
    assert found.rate_error_percent < 0.02  # two frames in 25 MB are 0.012 %


def test_a_policer_one_percent_too_fast_is_caught() -> None:
    found = conformance(*policed(20, 60e6, rate_bps=RATE_BPS * 1.01), RATE_BPS, BURST_BYTES)
    assert found.deviation_percent is not None
    assert found.deviation_percent > 0.9
    assert found.excess_percent is not None
    assert found.excess_percent > 0.5


def test_a_policer_one_percent_too_slow_is_caught() -> None:
    found = conformance(*policed(20, 60e6, rate_bps=RATE_BPS * 0.99), RATE_BPS, BURST_BYTES)
    assert found.rate_error_percent == pytest.approx(1.0, abs=0.05)
    assert found.deviation_percent is not None
    assert found.deviation_percent > 0.9


def test_the_first_burst_is_the_bucket_plus_the_tokens_added_meanwhile() -> None:
    found = conformance(*policed(6, 200e6), RATE_BPS, BURST_BYTES).first_burst
    assert found is not None
    assert found.expected_bytes - FRAME < found.passed_bytes <= found.expected_bytes


def test_a_bucket_too_small_shows_in_the_first_burst() -> None:
    times, sizes, passed = policed(6, 200e6, burst_bytes=BURST_BYTES / 2)
    found = conformance(times, sizes, passed, RATE_BPS, BURST_BYTES).first_burst
    assert found is not None
    assert found.passed_bytes < found.expected_bytes - 30_000


def test_an_unsaturated_policer_has_no_deviation_and_no_burst() -> None:
    found = conformance(*policed(20, 10e6), RATE_BPS, BURST_BYTES)
    assert found.saturated_windows == 0
    assert found.saturated_deviation_percent is None
    assert found.first_burst is None
    assert found.excess_percent is not None
    assert found.excess_percent < -70


def test_a_capture_shorter_than_the_window_has_no_figure() -> None:
    found = conformance(*policed(2, 60e6), RATE_BPS, BURST_BYTES)
    assert (found.windows, found.deviation_percent) == (0, None)
    assert found.first_burst is not None


def test_the_deficit_follows_the_bucket_and_is_corrected_at_drops() -> None:
    # 8 Mbit/s is one byte per µs; the bucket holds 3,000 bytes.
    times = np.array([0, 100_000, 5_000_000, 5_000_000, 5_000_000], dtype=np.int64)
    sizes = np.array([1000, 1500, 2000, 1500, 500], dtype=np.int64)
    passed = np.array([True, True, True, False, True])
    # Full; 1000 − 100; full again; 2000 missing. The drop shows at least 1500 missing, which is known
    # already.
    assert bucket_deficit(times, sizes, passed, 8e6, 3000).tolist() == [0, 900, 0, 2000, 2000]
    # With only 1000 taken before, the drop of 1500 bytes proves that 1500 are missing.
    sizes[2] = 1000
    assert bucket_deficit(times, sizes, passed, 8e6, 3000).tolist() == [0, 900, 0, 1000, 1500]


def test_order_of_the_input_does_not_matter() -> None:
    times, sizes, passed = policed(8, 60e6)
    shuffled = np.random.default_rng(1).permutation(len(times))
    assert conformance(times, sizes, passed, RATE_BPS, BURST_BYTES) == conformance(
        times[shuffled], sizes[shuffled], passed[shuffled], RATE_BPS, BURST_BYTES
    )


def test_the_long_run_is_the_rate_whatever_the_burst() -> None:
    for burst_bytes in (20_000, 100_000, 2_000_000):
        found = conformance(*policed(20, 60e6, burst_bytes=burst_bytes), RATE_BPS, burst_bytes)
        assert found.long_run is not None
        assert found.long_run.span_s > 15
        assert found.long_run.error_percent == pytest.approx(0.0, abs=0.01)
        assert found.long_run.throughput_bps == pytest.approx(RATE_BPS, rel=1e-4)
    agrees, said = agreement_of((), 0, found, None, RATE_BPS)
    assert agrees
    assert said.endswith("from the rate, counters equal to captures")


def test_a_rate_half_a_percent_off_does_not_agree() -> None:
    found = conformance(*policed(20, 60e6, rate_bps=RATE_BPS * 1.006), RATE_BPS, BURST_BYTES)
    assert found.long_run is not None
    print(found.long_run)
    assert found.long_run.error_percent == pytest.approx(0.6, abs=0.02)
    assert agreement_of((), 0, found, None, RATE_BPS)[0] is False


def test_why_a_policer_under_load_had_no_long_run() -> None:
    slow = conformance(*policed(8, 3e6, rate_bps=1e6, burst_bytes=20_000), 1e6, 20_000)
    assert slow.saturated_windows > 0
    assert agreement_of((), 0, slow, None, 1e6)[1].endswith(
        "1.5 MB on end: it was not full for 5 s and more, but less than that passed"
    )
    clumps = (
        np.arange(8 * 20)[:, None] * 50_000_000 + np.arange(200) * 1000
    )  # 200 frames at once, 20 a second
    times = clumps.ravel()
    sizes = np.full(len(times), FRAME, dtype=np.int64)
    passed = np.tile(np.arange(200) < 2, 8 * 20)
    found = conformance(times, sizes, passed, 40e6, 2 * FRAME)
    assert found.offered_bps == pytest.approx(200 * 20 * FRAME * 8, rel=0.01)
    assert agreement_of((), 0, found, None, 40e6)[1].endswith(
        "1.5 MB on end: more was offered than its rate, but with gaps in which the bucket filled up"
    )


def test_the_reasons_why_it_is_unknown_whether_a_rate_was_kept() -> None:
    idle = conformance(*policed(20, 20e6), RATE_BPS, BURST_BYTES)
    short = conformance(*policed(2, 60e6), RATE_BPS, BURST_BYTES)
    assert idle.long_run is short.long_run is None
    assert agreement_of((), 0, idle, None, RATE_BPS) == (
        None,
        "its bucket was never without being full for 1 s and 1.5 MB on end: less was offered than its rate",
    )
    assert agreement_of((), 0, short, None, RATE_BPS) == (None, "its packets span less than 5 s")
    assert agreement_of((), 0, None, "no packet met it", RATE_BPS) == (None, "no packet met it")
    assert agreement_of((), 3, idle, None, RATE_BPS)[1].startswith("3 drop reports are lost")
    assert agreement_of(("red is 4, reported 3",), 0, idle, None, RATE_BPS) == (False, "red is 4, reported 3")
