# SPDX-License-Identifier: Apache-2.0
"""Loss rates within tens of milliseconds, against sums over all pairs of bins and on simulated flows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.loss_rates import BIN_S, COUPLED_S, PRIOR_PACKETS, WINDOW_S, loss_rates_z
from weir.analysis.paths.pair import Simulated
from weir.analysis.synthetic import with_jitter
from weir.analysis.tables import Floats
from weir_tests.analysis.coupled_bins import z_of_all_pairs

SECONDS = 20


def flow(rng: np.random.Generator, loss_at: Floats, packets: int = 3_000) -> FlowEvents:
    """Packets at random, lost with the probability of the millisecond that they fall into."""
    sent_ns = np.sort(rng.integers(0, SECONDS * 10**9, packets))
    lost = rng.uniform(size=packets) < loss_at[sent_ns // 10**6]
    return FlowEvents(sent_ns, np.full(packets, 1448), lost, 20_000_000)


def busy(rng: np.random.Generator) -> Floats:
    """Loss by millisecond of a policer that is busy a fifth of the time, for 40 ms on average."""
    changes = rng.uniform(size=SECONDS * 1000) < 1 / 40
    states = rng.uniform(size=int(changes.sum()) + 1) < 0.2
    result: Floats = np.where(states[np.cumsum(changes)], 0.4, 0.02)
    return result


def test_z_is_that_of_all_pairs_of_bins() -> None:
    """With bins counted in a loop, and weights and local loss rates as the module's text has them."""
    rng = np.random.default_rng(1)
    loss = busy(rng)
    a, b = flow(rng, loss, 1_200), flow(rng, loss, 1_500)
    start_ns = int(max(a.sent_ns[0], b.sent_ns[0])) + 10**9
    end_ns = int(min(a.sent_ns[-1], b.sent_ns[-1]))
    count = int((end_ns - start_ns) / 1e9 / BIN_S)
    excess = [excess_of(each, start_ns, count) for each in (a, b)]
    expected = z_of_all_pairs(excess[0], excess[1], COUPLED_S)
    print(expected)
    assert loss_rates_z(a, b) == pytest.approx(expected, rel=0.02)


def excess_of(each: FlowEvents, start_ns: int, count: int) -> Floats:
    packets, lost = np.zeros(count), np.zeros(count)
    for at, gone in zip(each.sent_ns.tolist(), each.lost.tolist(), strict=True):
        which = (at - start_ns) // round(BIN_S * 1e9)
        if 0 <= which < count:
            packets[which] += 1
            lost[which] += gone
    usual, half = lost.sum() / packets.sum(), round(WINDOW_S / 2 / BIN_S)
    p = np.zeros(count)
    for k in range(count):
        inside = slice(max(k - half, 0), k + half + 1)
        p[k] = (lost[inside].sum() + PRIOR_PACKETS * usual) / (packets[inside].sum() + PRIOR_PACKETS)
    result: Floats = lost - p * packets
    return result


@pytest.mark.parametrize("jitter_s", [0.0, 1e-3, 10e-3])
def test_of_flows_in_one_policer_z_is_large_and_jitter_leaves_it_so(jitter_s: float) -> None:
    one, two = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        here, there = busy(rng), busy(rng)
        a, b, c = (flow(rng, loss) for loss in (here, here, there))
        a, b, c = (with_jitter(each, jitter_s, rng) for each in (a, b, c))
        one.append(loss_rates_z(a, b))
        two.append(loss_rates_z(a, c))
    print(np.percentile(one, [0, 50, 100]), np.percentile(two, [0, 50, 100]))
    assert np.median(one) > 6
    assert abs(np.mean(two)) < 1
    assert np.std(two) < 1.8
    assert min(one) > max(two)


def test_slow_trends_and_losses_half_a_second_apart_are_no_evidence() -> None:
    z = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        at = np.arange(SECONDS * 1000) / 1e3
        trend = 0.1 * (1 + 0.9 * np.sin(at + rng.uniform(0, 6)))
        z.append(loss_rates_z(flow(rng, trend), flow(rng, trend)))
    print(np.mean(z), np.std(z))
    assert abs(np.mean(z)) < 0.7
    assert np.std(z) < 1.5
    rng = np.random.default_rng(1)
    loss = busy(rng)
    a, b = flow(rng, loss), flow(rng, loss)
    late = loss_rates_z(a, replace(b, sent_ns=b.sent_ns + 500_000_000))
    assert (loss_rates_z(a, b) or 0) > 6
    assert late is not None
    assert late < 2


def test_the_order_of_the_flows_does_not_matter_and_a_few_seconds_tell_nothing() -> None:
    (pair,) = Simulated(58, float(SECONDS)).pairs()
    a, b = pair.at(1e-3)
    assert loss_rates_z(a, b) == pytest.approx(loss_rates_z(b, a))
    assert loss_rates_z(a, replace(b, sent_ns=b.sent_ns + 16 * 10**9)) is None
