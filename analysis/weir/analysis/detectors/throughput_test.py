# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import numpy as np
import pytest

from weir.analysis.detectors.throughput import added, differences, throughput_comparison


def test_statistics_equal_an_independent_computation() -> None:
    data = np.random.default_rng(4)
    single = data.normal(10e6, 2e6, 60).clip(0)
    pair = (data.normal(5e6, 1e6, 55).clip(0), data.normal(5e6, 1e6, 70).clip(0))
    history = np.round(np.abs(data.normal(0, 0.08, 80)), 3)  # rounded, so that there are ties
    found = throughput_comparison(single, pair, history, np.random.default_rng(9))

    rng = np.random.default_rng(9)
    total = [pair[0][i] + pair[1][i] for i in range(55)]
    ours: list[float] = []
    for _ in history:
        means = [math.fsum(rng.choice(s, 27, replace=False)) / 27 for s in (single, np.array(total))]
        ours.append(abs(means[0] - means[1]) / max(means))
    # U counts pairs in which ours is larger; p by the normal approximation with ties and continuity
    # correction.
    u = sum((x > y) + 0.5 * (x == y) for x in ours for y in history.tolist())
    n = m = len(history)
    pool = sorted([*ours, *history.tolist()])
    ties = sum(count**3 - count for count in (pool.count(value) for value in set(pool)))
    spread = math.sqrt(n * m / 12 * ((n + m + 1) - ties / ((n + m) * (n + m - 1))))
    p = 0.5 * math.erfc(-(u - n * m / 2 + 0.5) / spread / math.sqrt(2))
    assert found.u == pytest.approx(u, abs=1e-9)
    assert found.p == pytest.approx(p, abs=1e-9)
    assert found.difference == pytest.approx(sorted(ours)[39] / 2 + sorted(ours)[40] / 2, abs=1e-9)


def test_a_single_replay_and_two_together_agree_behind_a_clients_bucket() -> None:
    rng = np.random.default_rng(6)
    history = np.abs(rng.normal(0, 0.1, 200))
    alone, half = rng.normal(10e6, 3e5, 100), rng.normal(5e6, 2e5, 100)
    same = throughput_comparison(alone, (half, rng.normal(5e6, 2e5, 90)), history, rng)
    double = throughput_comparison(alone, (alone, alone), history, rng)
    assert (same.common, double.common) == (True, False)
    assert double.difference == pytest.approx(0.5, abs=0.02)


def test_samples_are_added_up_to_the_shorter_ones_end() -> None:
    assert added(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])).tolist() == [11.0, 22.0]


def test_replays_that_got_nothing_do_not_differ() -> None:
    assert differences(np.zeros(6), np.zeros(4), 3, np.random.default_rng(1)).tolist() == [0, 0, 0]


def test_too_few_samples_and_negative_ones_are_refused() -> None:
    rng, some = np.random.default_rng(1), np.ones(10)
    with pytest.raises(ValueError, match="3 and 10 samples"):
        throughput_comparison(some[:3], (some, some), some, rng)
    with pytest.raises(ValueError, match="0 earlier differences"):
        throughput_comparison(some, (some, some), np.empty(0), rng)
    with pytest.raises(ValueError, match="a negative throughput or difference"):
        throughput_comparison(some, (some, some), -some, rng)
