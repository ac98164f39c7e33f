# SPDX-License-Identifier: Apache-2.0
"""RFC 8382: statistics compared with plain loops over the definitions, decisions tested with made queues."""

from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.rfc8382 import T_NS, M, N, _bottleneck, _same, _Statistics, _statistics, rfc8382


def delays(rng: np.random.Generator, queue_s: np.ndarray) -> FlowEvents:  # type: ignore[type-arg]
    at = np.arange(len(queue_s)) * 5_000_000 + 1
    rtt = 0.02 + queue_s + rng.exponential(2e-4, len(queue_s))
    lost = np.zeros(len(queue_s), dtype=bool)
    return FlowEvents(
        at, np.full(len(at), 1448), lost, 20_000_000, rtt_sent_ns=at, rtt_ns=(rtt * 1e9).astype(np.int64)
    )


def queue(rng: np.random.Generator, scale: float) -> np.ndarray:  # type: ignore[type-arg]
    """A bottleneck's queue: mostly long and sometimes short, so that delays are skewed downwards."""
    level = np.repeat(rng.pareto(1.5, 200), 60)
    return (20 - np.minimum(level, 20)) * scale


def test_rfc8382_groups_flows_of_one_queue_and_separates_those_of_two() -> None:
    rng = np.random.default_rng(2)
    one = queue(rng, 2e-3)
    together = rfc8382(delays(rng, one), delays(rng, one))
    apart = rfc8382(delays(rng, one), delays(rng, queue(rng, 6e-3)))
    print(together.reason, "|", apart.reason)
    assert (together.verdict, apart.verdict) == ("shared", "separate")


def test_statistics_are_those_of_the_definitions_interval_by_interval() -> None:
    rng = np.random.default_rng(5)
    flow = delays(rng, np.minimum(np.repeat(rng.pareto(1.5, 120), 80), 20) * 2e-3)
    # Without samples for two intervals, and one packet in twenty lost.
    quiet = (flow.rtt_sent_ns // T_NS == 70) | (flow.rtt_sent_ns // T_NS == 71)
    lost = rng.random(len(flow.sent_ns)) < 0.05
    flow = FlowEvents(
        flow.sent_ns,
        flow.size_bytes,
        lost,
        flow.min_rtt_ns,
        0,
        0,
        flow.rtt_sent_ns[~quiet],
        flow.rtt_ns[~quiet],
    )
    count = int(flow.sent_ns[-1] // T_NS)
    assert count > 2 * M + N
    found = _statistics(flow, 0, count)

    at = flow.rtt_sent_ns // T_NS
    owds = [[float(v) / 1e9 for v in flow.rtt_ns[at == t]] for t in range(count)]
    means: list[float] = []  # E_T(OWD) of every interval that has one, in order
    mean_delay = previous = float("nan")
    skews, variations, crossings = [], [], []
    side = ""
    for t in range(count):
        below = sum(owd < mean_delay for owd in owds[t]) if means else 0
        above = sum(owd > mean_delay for owd in owds[t]) if means else 0
        skews.append((below - above, len(owds[t]) if means else 0))
        variations.append((sum(abs(owd - previous) for owd in owds[t]) if means else 0.0, skews[-1][1]))
        crossed = 0
        # The latest M intervals, of which two have no mean.
        recent = [sum(o) / len(o) for o in owds[max(0, t - M + 1) : t + 1] if o]
        mean_delay = sum(recent) / len(recent)
        if owds[t]:
            previous = sum(owds[t]) / len(owds[t])
            means.append(previous)
            over = variations[-M:]
            var_est = sum(v for v, _ in over) / max(sum(n for _, n in over), 1)
            now = "up" if previous > mean_delay + 0.7 * var_est else ""
            now = "down" if previous < mean_delay - 0.7 * var_est else now
            if now and side and now != side and t:
                crossed = 1
            side = now or side
        crossings.append(crossed)
        if t < 2 * M:
            continue
        assert found.skew[t] == pytest.approx(
            sum(s for s, _ in skews[-M:]) / sum(n for _, n in skews[-M:]), abs=1e-9
        )
        assert found.mad[t] == pytest.approx(
            sum(v for v, _ in variations[-M:]) / sum(n for _, n in variations[-M:]), abs=1e-9
        )
        assert found.freq[t] == pytest.approx(sum(crossings[-N:]) / N, abs=1e-9)
        its = (flow.sent_ns // T_NS <= t) & (flow.sent_ns // T_NS > t - N)
        assert found.loss[t] == pytest.approx(lost[its].sum() / its.sum(), abs=1e-9)


def statistics(skew: float, mad: float, freq: float, loss: float) -> _Statistics:
    return _Statistics(*(np.array([value]) for value in (skew, mad, freq, loss)))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ((0.14, 1.09, 0.29, 0.0), True),
        ((0.16, 1.0, 0.2, 0.0), False),  # skew_est apart by p_s
        ((0.0, 1.12, 0.2, 0.0), False),  # var_est apart by p_mad of the larger
        ((0.0, 1.0, 0.31, 0.0), False),  # freq_est apart by p_f
        ((0.0, 1.0, 0.2, 0.06), False),  # losses compared where one is above p_l
    ],
)
def test_each_threshold_separates_flows(other: tuple[float, float, float, float], same: bool) -> None:
    assert _same(statistics(0.0, 1.0, 0.2, 0.0), statistics(*other)).tolist() == [same]


def test_high_losses_are_compared_instead_of_skewness() -> None:
    one = statistics(0.0, 1.0, 0.2, 0.2)
    assert _same(one, statistics(0.9, 1.0, 0.2, 0.19)).tolist() == [True]
    assert _same(one, statistics(0.0, 1.0, 0.2, 0.17)).tolist() == [False]


def test_a_bottleneck_once_found_is_left_at_a_higher_skewness() -> None:
    skew = np.array([0.2, 0.05, 0.2, 0.31, 0.2, 0.5])
    nothing = np.zeros(6)
    loss = np.array([0, 0, 0, 0, 0, 0.06])
    met = _bottleneck(_Statistics(skew, nothing, nothing, loss))
    assert met.tolist() == [False, True, True, False, False, True]


def test_the_first_intervals_are_not_judged() -> None:
    short = delays(np.random.default_rng(1), np.zeros(2 * M * 70))
    found = rfc8382(short, short)
    assert found.verdict == "cannot_tell"
    assert found.reason.endswith("more than 60 are needed")
