# SPDX-License-Identifier: Apache-2.0
"""Delays of a common queue, against sums over all pairs of bins and on flows of simulated queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.loss_rates import BIN_S, common_bins, excess_losses
from weir.analysis.detectors.queue_delays import COUPLED_S, WINDOW_S, queue_delays_z
from weir.analysis.synthetic import with_jitter
from weir.analysis.tables import Floats
from weir_tests.analysis.coupled_bins import z_of_all_pairs

SECONDS = 20
RATE_PER_MS, LIMIT = 4, 80
"""Packets that the queue sends in a millisecond, and how many it holds: 20 ms."""


def queue(rng: np.random.Generator) -> Floats:
    """How full a queue is by millisecond; other traffic comes in bursts of tens of milliseconds."""
    changes = rng.uniform(size=SECONDS * 1000) < 1 / 40
    steps = rng.integers(0, 9, int(changes.sum()) + 1)[np.cumsum(changes)]
    level, levels = 0, []
    for arrived in rng.poisson(steps).tolist():
        level = min(max(level + arrived - RATE_PER_MS, 0), LIMIT)
        levels.append(level)
    return np.array(levels) / LIMIT


def flow(rng: np.random.Generator, full: Floats, packets: int = 3_000, base_ms: float = 20.0) -> FlowEvents:
    """Packets at random: lost in half of all cases where the queue is full, else delayed by it."""
    sent_ns = np.sort(rng.integers(0, SECONDS * 10**9, packets))
    level = full[sent_ns // 10**6]
    lost = (level >= 1) & (rng.uniform(size=packets) < 0.5)
    rtt_ns = ((base_ms + level * LIMIT / RATE_PER_MS) * 1e6).astype(np.int64)
    return FlowEvents(
        sent_ns,
        np.full(packets, 1448),
        lost,
        int(base_ms * 1e6),
        rtt_sent_ns=sent_ns[~lost],
        rtt_ns=rtt_ns[~lost],
    )


def test_z_is_that_of_all_pairs_of_bins() -> None:
    rng = np.random.default_rng(1)
    full = queue(rng)
    a, b = flow(rng, full, 1_200), flow(rng, full, 1_500, base_ms=35.0)
    bins = common_bins(a, b)
    assert bins is not None
    series = [(excess_delays_of(each, *bins), excess_losses(each, *bins)) for each in (a, b)]
    (delays, losses), (other_delays, other_losses) = series
    expected = sum(
        z_of_all_pairs(one, other, COUPLED_S)
        for one, other in ((delays, other_delays), (delays, other_losses), (losses, other_delays))
    )
    print(expected / 3**0.5)
    assert queue_delays_z(a, b) == pytest.approx(expected / 3**0.5, rel=0.02)


def excess_delays_of(each: FlowEvents, start_ns: int, count: int) -> Floats:
    longest = np.percentile(each.rtt_ns, 99)
    found: list[list[float]] = [[] for _ in range(count)]
    for at, rtt in zip(each.rtt_sent_ns.tolist(), each.rtt_ns.tolist(), strict=True):
        which = (at - start_ns) // round(BIN_S * 1e9)
        if 0 <= which < count:
            found[which].append(min(rtt, longest) / 1e6)
    half = round(WINDOW_S / 2 / BIN_S)
    result = np.zeros(count)
    for k in range(count):
        around = [rtt for its in found[max(k - half, 0) : k + half + 1] for rtt in its]
        result[k] = sum(found[k]) - len(found[k]) * (np.mean(around) if around else 0.0)
    return result


@pytest.mark.parametrize("jitter_s", [0.0, 1e-3, 10e-3])
def test_of_flows_in_one_queue_z_is_large_and_jitter_leaves_it_so(jitter_s: float) -> None:
    one, two = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        here, there = queue(rng), queue(rng)
        a, b, c = (with_jitter(flow(rng, full), jitter_s, rng) for full in (here, here, there))
        one.append(queue_delays_z(a, b) or 0.0)
        two.append(queue_delays_z(a, c) or 0.0)
    print(np.percentile(one, [0, 50, 100]), np.percentile(two, [0, 50, 100]))
    assert np.median(one) > 6
    assert abs(np.mean(two)) < 1
    assert np.std(two) < 1.8
    assert min(one) > max(two)


def test_without_a_queue_z_is_that_of_chance() -> None:
    """RTTs vary by jitter only, of either flow's own."""
    z = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        full = queue(rng)
        flows = [flow(rng, full) for _ in range(2)]
        flows = [replace(each, rtt_ns=np.full_like(each.rtt_ns, each.min_rtt_ns)) for each in flows]
        a, b = (with_jitter(each, 2e-3, rng) for each in flows)
        z.append(queue_delays_z(a, b) or 0.0)
    print(np.mean(z), np.std(z))
    assert abs(np.mean(z)) < 0.6
    assert 0.5 < np.std(z) < 1.5


def test_the_order_of_the_flows_does_not_matter_and_without_rtts_nothing_is_told() -> None:
    rng = np.random.default_rng(3)
    full = queue(rng)
    a, b = flow(rng, full), flow(rng, full)
    assert queue_delays_z(a, b) == pytest.approx(queue_delays_z(b, a))
    none = np.empty(0, dtype=np.int64)
    assert queue_delays_z(a, replace(b, rtt_sent_ns=none, rtt_ns=none)) is None
    late = replace(b, sent_ns=b.sent_ns + 17 * 10**9, rtt_sent_ns=b.rtt_sent_ns + 17 * 10**9)
    assert queue_delays_z(a, late) is None
