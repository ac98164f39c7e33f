# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from weir.analysis.clocks import align, fit_clock, lower_envelope_line
from weir.analysis.errors import ClockError

EPOCH_NS = 1_760_000_000_000_000_000


def stamps(
    drift_ppm: float, offset_ns: int, seconds: float = 60, n: int = 3000, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true_ns = np.sort(rng.integers(0, int(seconds * 1e9), n))
    delay_ns = 20_000 + rng.exponential(300_000, n).astype(np.int64)
    target = true_ns + np.rint(true_ns * drift_ppm * 1e-6).astype(np.int64) + offset_ns + delay_ns
    return EPOCH_NS + true_ns, target


def test_offset_and_drift_are_found_through_queueing_delay() -> None:
    source, target = stamps(drift_ppm=40.0, offset_ns=5_000_000)
    fit = fit_clock(source, target)
    assert fit.drift_ppm == pytest.approx(40.0, abs=0.1)
    # The smallest delay, 20 µs, belongs to the offset; the envelope is within a few µs of it.
    shift = fit.to_target(source) - (EPOCH_NS * 0 + target)
    assert -25_000 < int(np.max(shift)) <= 2_000
    assert fit.residual_ns < 30_000
    assert fit.spread_ns > 300_000


def test_line_is_the_optimum_of_the_linear_program_of_moon_et_al() -> None:
    rng = np.random.default_rng(7)
    x = np.sort(rng.uniform(0, 100, 300))
    y = 3 - 0.25 * x + rng.exponential(2.0, 300)
    slope, intercept = lower_envelope_line(x, y)
    # Minimise Σ(y − a·x − b) subject to a·x + b ≤ y, with scipy's solver.
    best = linprog([-x.sum(), -300.0], A_ub=np.c_[x, np.ones(300)], b_ub=y, bounds=[(None, None)] * 2)
    assert np.all(slope * x + intercept <= y + 1e-9)
    assert -(slope * x.sum() + 300 * intercept) == pytest.approx(best.fun, rel=1e-9)


def test_one_early_packet_with_a_wrong_match_does_not_move_the_line() -> None:
    source, target = stamps(drift_ppm=10.0, offset_ns=0)
    target = target.copy()
    target[0] -= 50_000_000
    target[1500] -= 80_000_000
    fit = fit_clock(source, target)
    assert fit.outliers == 2
    assert fit.drift_ppm == pytest.approx(10.0, abs=0.2)


def test_a_late_first_packet_does_not_move_the_offset() -> None:
    source, target = stamps(drift_ppm=0.0, offset_ns=123_456_789)
    late = target.copy()
    late[0] += 400_000_000
    assert abs(fit_clock(source, late).offset_ns - fit_clock(source, target).offset_ns) < 1_000


def test_short_overlap_gives_the_smallest_difference_and_no_drift() -> None:
    source = EPOCH_NS + np.array([0, 1_000, 2_000], dtype=np.int64)
    fit = fit_clock(source, np.array([700, 1_500, 2_900], dtype=np.int64))
    assert fit.drift_ppm == 0.0
    assert fit.offset_ns == 500 - EPOCH_NS
    assert fit.to_target(source).tolist() == [500, 1_500, 2_500]


def test_a_drift_that_no_oscillator_has_is_taken_as_zero() -> None:
    source, target = stamps(drift_ppm=5_000.0, offset_ns=0, n=4)
    assert fit_clock(source, target).drift_ppm == 0.0


def test_no_shared_packet_is_an_error() -> None:
    nothing = np.empty(0, dtype=np.int64)
    with pytest.raises(ClockError, match="no packet was stamped by both"):
        fit_clock(nothing, nothing)


def test_a_stall_of_the_switch_is_followed_between_stamped_packets() -> None:
    # One packet per ms; the switch stalls from 5.0 s to 5.03 s; every eighth packet is stamped.
    sent = EPOCH_NS + np.arange(0, 10_000_000_000, 1_000_000)
    ingress = sent - EPOCH_NS + 20_000
    stalled = (ingress >= 5_000_000_000) & (ingress < 5_030_000_000)
    ingress = np.where(stalled, 5_030_000_000, ingress)
    stamped = np.arange(len(sent)) % 8 == 0
    clock = align(sent[stamped], ingress[stamped])
    error = np.abs(clock.to_target(sent) - ingress)
    assert int(np.median(error)) <= 1
    # The delay is unknown only between the last stamped packet before the stall and the first one in it.
    assert int((error > 1_000).sum()) <= 16
    assert int(np.abs(clock.fit.to_target(sent) - ingress).max()) > 29_000_000
    assert np.all(np.diff(clock.to_target(sent)) >= 0)


def test_the_error_of_converted_times_is_estimated_from_the_anchors() -> None:
    rng = np.random.default_rng(12)
    sent = np.sort(rng.integers(0, 20 * 10**9, 4_000))
    # A slow queue of up to 3 ms, independent errors of 40 µs, and a stall of 80 ms.
    noise = rng.normal(0, 40_000, 4_000)
    delay = 10**6 + 3e6 * np.sin(np.arange(4_000) / 300) ** 2 + noise
    delay[2_000:2_040] += 80_000_000
    clock = align(sent, sent + delay.astype(np.int64))
    print(f"estimated {clock.jitter_ns / 1e3:.1f} µs of {noise.std() / 1e3:.1f} µs")
    assert clock.jitter_ns == pytest.approx(noise.std(), rel=0.15)
    assert align(sent, sent + 10**9).jitter_ns == 0
    assert align(sent[:2], sent[:2] + 5).jitter_ns == 0


@pytest.mark.parametrize("seconds", [0.3, 0.95, 5])
@pytest.mark.parametrize("drift_ppm", [0.0, -20.0, 100.0])
def test_the_line_is_as_wrong_as_it_says_also_where_no_drift_is_fitted(
    drift_ppm: float, seconds: float
) -> None:
    source, target = stamps(drift_ppm, 0, seconds)
    fit = fit_clock(source, target)
    since = source - EPOCH_NS
    least = since * (1 + drift_ppm * 1e-6) + 20_000
    error_ns = float(np.abs(fit.to_target(source) - least).max())
    print(f"wrong by {error_ns:,.0f} ns, stated {fit.error_ns:,} ns")
    assert fit.error_ns is not None
    assert error_ns <= fit.error_ns + 1
    assert fit.error_ns < 10_000 + 2 * error_ns
