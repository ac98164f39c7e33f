# SPDX-License-Identifier: Apache-2.0
"""The cross-correlogram of losses, on simulated paths whose seeds may set thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.correlogram import (
    SURE_Z,
    _added_by_load,
    _added_by_loss,
    _by_load,
    _by_loss,
    _Counted,
    _less_elsewhere,
    loss_correlogram,
)
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.paths.pair import Simulated

Pair = tuple[FlowEvents, FlowEvents]
SECONDS = 20.0


def path(seed: int, jitter_s: float) -> Pair:
    (pair,) = Simulated(seed, SECONDS).pairs()
    return pair.at(jitter_s)


def behind_two() -> list[Pair]:
    return [path(seed, 1e-3) for seed in range(1, 60, 2)]


@pytest.mark.parametrize("seed", [0, 58, 112, 118, 156])
@pytest.mark.parametrize("jitter_s", [1e-3, 5e-3])
def test_one_policer_is_found_through_jitter(seed: int, jitter_s: float) -> None:
    result = shared_policer(*path(seed, jitter_s))
    print(result)
    assert result.level is not None
    assert result.level.verdict == "cannot_tell"
    assert (result.verdict, result.decided_by) == ("shared", result.correlogram)
    assert result.correlogram is not None
    detail = result.detail()
    assert (detail["decided_by"], detail["p"]) == ("correlogram", result.correlogram.p)


@pytest.mark.parametrize(("seed", "jitter_s"), [(30, 1e-3), (52, 1e-3), (2, 5e-3)])
def test_one_policer_is_found_through_jitter_by_correlogram_or_likelihood(seed: int, jitter_s: float) -> None:
    result = shared_policer(*path(seed, jitter_s))
    assert result.level is not None
    assert result.level.verdict == "cannot_tell"
    assert result.verdict == "shared", result.reason
    assert result.decided_by in (result.correlogram, result.likelihood)


def test_of_two_policers_losses_meet_by_chance_only() -> None:
    z = []
    for pair in behind_two():
        found = loss_correlogram(*pair)
        if found.z is not None:
            z.append(found.z)
            assert found.verdict == "cannot_tell", found.reason
    print(np.mean(z), np.std(z))
    assert len(z) > 20
    assert abs(np.mean(z)) < 1
    assert 0.6 < np.std(z) < 1.8


def test_the_order_of_the_flows_does_not_matter() -> None:
    a, b = path(58, 1e-3)
    one, other = loss_correlogram(a, b), loss_correlogram(b, a)
    assert one.z == pytest.approx(other.z)
    assert one.p == pytest.approx(other.p)


def test_what_happens_40_ms_apart_is_no_evidence() -> None:
    a, b = path(58, 0.0)
    late = replace(b, sent_ns=b.sent_ns + 40_000_000)
    together, apart = loss_correlogram(a, b), loss_correlogram(a, late)
    print(together.z, apart.z)
    assert together.verdict == "shared"
    assert apart.z is not None
    assert apart.z < SURE_Z


def test_clocks_that_differ_are_scanned() -> None:
    a, b = path(116, 0.0)
    late = replace(b, sent_ns=b.sent_ns + 7_000_000, clock_error_ns=12_000_000)
    found = loss_correlogram(a, late)
    print(found)
    assert found.verdict == "shared", found.reason
    for a, b in behind_two()[:15]:
        result = shared_policer(a, replace(b, clock_error_ns=a.min_rtt_ns // 2 + 2_000_000))
        assert result.decided_by is not result.correlogram, result.reason


def test_common_slow_trends_are_no_evidence() -> None:
    """Losses of both flows come and go together over seconds, but each packet's fate is its own."""
    rng = np.random.default_rng(3)
    z, ps = [], []
    for seed in range(40):
        sent_ns = [np.sort(rng.integers(0, 30 * 10**9, 12_000)) for _ in range(2)]
        phase = rng.uniform(0, 2 * np.pi)
        flows = [
            FlowEvents(
                at,
                np.full(len(at), 1448),
                rng.uniform(size=len(at)) < 0.1 * (1 + 0.9 * np.sin(at / 1e9 * 2 + phase)),
                20_000_000,
            )
            for at in sent_ns
        ]
        found = loss_correlogram(flows[0], flows[1])
        assert found.verdict == "cannot_tell", (seed, found.reason)
        z.append(found.z)
        ps.append(found.p)
    uniform = stats.kstest(ps, "uniform").pvalue
    print(f"z {np.mean(z):.2f} ± {np.std(z):.2f}; p of the Kolmogorov–Smirnov test {uniform:.3f}")
    assert abs(np.mean(z)) < 0.5
    assert uniform > 0.001


def test_nothing_follows_without_the_times_at_the_policer_or_with_few_losses() -> None:
    a, b = path(58, 0.0)
    cases = {
        "behind the policer": (replace(a, behind_policer=True), b),
        "clocks may differ by 50 ms": (a, replace(b, clock_error_ns=50_000_000)),
        "ran together for less than 4 s": (a, replace(b, sent_ns=b.sent_ns + 100 * 10**9)),
        "15 are needed": (a, replace(b, lost=np.zeros_like(b.lost))),
    }
    for reason, pair in cases.items():
        found = loss_correlogram(*pair)
        assert found.verdict == "cannot_tell"
        assert reason in found.reason
        assert (found.z, found.p) == (None, None)


def in_moments(rng: np.random.Generator, busy: bool, seconds: int = 40) -> FlowEvents:
    """One packet per ms of which 2 % are lost, and nearly all in three common moments of 15 ms."""
    at = np.arange(seconds * 1000)
    moment = busy & np.isin(at // 15, np.array([600, 1411, 2222]))
    lost = rng.uniform(size=len(at)) < np.where(moment, 0.9, 0.02)
    sent_ns = at * 1_000_000 + rng.integers(0, 900_000, len(at))
    return FlowEvents(sent_ns, np.full(len(at), 1448), lost, 20_000_000, jitter_ns=100_000)


def test_a_few_common_moments_do_not_make_p_small() -> None:
    """As of flows behind two policers that probe at the same time, whose z would be of one in thousands."""
    z, p = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        found = loss_correlogram(in_moments(rng, True), in_moments(rng, True))
        assert found.z is not None
        assert found.p is not None
        z.append(found.z)
        p.append(found.p)
    print(np.percentile(z, [0, 50, 100]), np.percentile(p, [0, 50, 100]))
    assert np.median(stats.norm.sf(z)) < 0.003
    assert np.median(p) > 0.03


def test_p_is_uniform_for_flows_that_lose_independently() -> None:
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found.append(loss_correlogram(in_moments(rng, False, 20), in_moments(rng, False, 20)).p or 0.0)
    print(stats.kstest(found, "uniform").pvalue, np.mean(np.array(found) < 0.05))
    assert stats.kstest(found, "uniform").pvalue > 0.01


def test_what_the_moments_add_is_what_the_same_moment_has_above_the_others() -> None:
    """The sum over time is that of the curve at lag 0, less its mean at the other lags."""
    rng = np.random.default_rng(0)
    count, lags, reach = 4_000, 40, 10
    one, other = (
        _Counted(*(rng.normal(size=count) for _ in range(3)), rng.uniform(0.1, 0.2, count)) for _ in range(2)
    )
    elsewhere = np.abs(np.arange(-lags, lags + 1)) >= 15
    kernel = rng.uniform(size=2 * reach + 1)
    for its, summed, added in (
        (kernel + kernel[::-1], _by_loss, _added_by_loss),
        (kernel, _by_load, _added_by_load),
    ):
        for flow in (one, other):  # what comes together at the ends is at other lags, too
            for values in (flow.load, flow.excess):
                values[:60] = values[-60:] = 0
        curve, _ = summed(one, other, lags, its)
        expected = curve[lags] - curve[elsewhere].mean()
        assert np.sum(added(one, other, _less_elsewhere(its, elsewhere))) == pytest.approx(expected)
