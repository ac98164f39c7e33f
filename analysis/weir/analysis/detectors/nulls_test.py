# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from scipy import signal

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.nulls import block_length, block_permutations, circular_shifts, rank_p
from weir.analysis.detectors.probing import probing, steady_loss
from weir.analysis.statistics import share


def test_circular_shifts_leave_out_the_smallest() -> None:
    rows = np.array(list(circular_shifts(np.arange(40.0))))
    assert len(rows) == 37
    assert rows[0].tolist() == [38.0, 39.0, *range(38)]
    assert all(sorted(row) == list(range(40)) for row in rows.tolist())


def test_permuted_blocks_keep_values_and_most_neighbours() -> None:
    rows = block_permutations(np.arange(60.0), 10, 50, np.random.default_rng(1))
    steps = (np.diff(rows, axis=1) == 1).sum(axis=1)
    assert all(sorted(row) == list(range(60)) for row in rows.tolist())
    assert steps.min() >= 53 - 1  # 59 less 5 cuts and the seam of the shifted series
    assert len({tuple(row) for row in rows.tolist()}) > 40


def ar1(rng: np.random.Generator, n: int, keep: float) -> np.ndarray:  # type: ignore[type-arg]
    return signal.lfilter([1.0], [1.0, -keep], rng.normal(size=n + 200))[200:]  # type: ignore[no-any-return]


def test_blocks_are_longer_than_the_memory_of_the_series() -> None:
    rng = np.random.default_rng(2)
    white = [block_length(rng.normal(size=300), rng.normal(size=300)) for _ in range(30)]
    slow = [block_length(ar1(rng, 300, 0.8), rng.normal(size=300)) for _ in range(30)]
    print(f"blocks of {np.mean(white):.1f} without memory, {np.mean(slow):.1f} with one of 4.5")
    assert np.median(white) <= 3
    assert np.median(slow) >= 10
    assert max(slow) <= 60


@pytest.mark.parametrize("null", ["shifts", "blocks"])
def test_independent_slow_series_keep_the_significance_level(null: str) -> None:
    rng = np.random.default_rng(3)
    below = naive = 0
    draws = 120
    for _ in range(draws):
        x, y = (
            s / np.linalg.norm(s) for s in (v - v.mean() for v in (ar1(rng, 200, 0.8), ar1(rng, 200, 0.8)))
        )
        shifted = np.array(list(circular_shifts(y)))
        rows = shifted if null == "shifts" else block_permutations(y, block_length(x, y), 199, rng)
        below += rank_p(float(x @ y), rows @ x) < 0.05
        naive += rank_p(float(x @ y), rng.permuted(np.tile(y, (99, 1)), axis=1) @ x) < 0.05
    ours, independent = share(below, draws), share(naive, draws)
    print(f"{null}: {ours.rate} ({ours.low:.3f} to {ours.high:.3f}); as if independent: {independent.rate}")
    assert ours.low <= 0.05 <= ours.high
    assert independent.low > 0.05


def test_a_rank_is_never_zero_and_counts_ties() -> None:
    assert rank_p(2.0, np.array([1.0, 1.0, 1.0])) == 0.25
    assert rank_p(1.0, np.array([1.0, 0.0, 2.0])) == 0.75


def test_the_rtts_in_which_bbr_probes_and_drains_are_found() -> None:
    rng = np.random.default_rng(4)
    gains = np.tile([1.25, 0.75, 1, 1, 1, 1, 1, 1], 40)
    found = probing(np.round(60 * gains + rng.normal(0, 2, len(gains))))
    assert found[gains != 1].mean() > 0.97
    assert found[gains == 1].mean() < 0.03
    assert not probing(np.full(100, 40.0)).any()
    assert not probing(np.arange(3.0)).any()


def test_losses_in_probing_rtts_are_removed() -> None:
    rng = np.random.default_rng(5)
    rtt_ns, flows = 20_000_000, []
    for _ in range(2):
        times, lost = [], []
        for cycle in range(100):
            # Both probe at the same time, with losses that vary from cycle to cycle alike for both.
            for phase in range(8):
                packets = {0: 50, 1: 30}.get(phase, 40)
                start = (cycle * 8 + phase) * rtt_ns
                times += (start + np.sort(rng.integers(0, rtt_ns, packets))).tolist()
                p = 0.4 * (cycle % 7) / 7 if phase == 0 else 0.02
                lost += (rng.random(packets) < p).tolist()
        flows.append(FlowEvents(np.array(times), np.full(len(times), 1448), np.array(lost), rtt_ns))
    x, y = steady_loss(*flows, rtt_ns, 8, 11)
    assert len(x) >= 99
    assert x.mean() == pytest.approx(0.02, abs=0.004)
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.25
