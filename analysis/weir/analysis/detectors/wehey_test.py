# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import special

from weir.analysis.detectors import FlowEvents, pair_detector
from weir.analysis.detectors.wehey import correlate, loss_ratios, loss_series, loss_trend_correlation
from weir.analysis.errors import UnknownDetectorError

RTT_NS = 20_000_000


def flow(
    seed: int, level: np.ndarray, step_ns: int, rtt_ns: int = RTT_NS, seconds: float = 60, pps: int = 1500
) -> FlowEvents:
    """A flow with Poisson sending; the probability of loss at time t is level[t // step]."""
    rng = np.random.default_rng(seed)
    sent = np.sort(rng.integers(0, int(seconds * 1e9), int(seconds * pps)))
    p = level[np.minimum(sent // step_ns, len(level) - 1)]
    return FlowEvents(sent, np.full(len(sent), 1448), rng.random(len(sent)) < p, rtt_ns)


def levels(seed: int, n: int = 300) -> np.ndarray:
    return np.random.default_rng(seed).gamma(1.0, 0.05, n).clip(0, 0.9)


def test_one_congestion_seen_by_both_is_shared() -> None:
    common = levels(1)
    found = loss_trend_correlation(flow(2, common, 200_000_000), flow(3, common, 200_000_000))
    assert found.verdict == "shared", found.reason
    assert found.sizes_used == 41


def test_two_independent_congestions_are_separate() -> None:
    verdicts = [
        loss_trend_correlation(
            flow(10 + i, levels(100 + i), 200_000_000), flow(40 + i, levels(200 + i), 200_000_000)
        ).verdict
        for i in range(10)
    ]
    # Sizes are far from independent, so one chance verdict in ten is possible; more would be a bug.
    assert verdicts.count("separate") >= 9, verdicts


def test_opposite_trends_are_not_shared() -> None:
    wave = 0.1 + 0.09 * np.sin(np.arange(300) / 5)
    found = loss_trend_correlation(flow(5, wave, 200_000_000), flow(6, 0.2 - wave, 200_000_000))
    assert found.verdict == "separate"
    assert all(size.rho is not None and size.rho < 0 for size in found.sizes)


@pytest.mark.parametrize("rarely", [1.0, 0.02])
def test_statistics_equal_an_independent_computation(rarely: float) -> None:
    common = rarely * levels(1)
    a, b = flow(2, common, 200_000_000), flow(3, common, 200_000_000, rtt_ns=25_000_000)
    found = loss_trend_correlation(a, b)
    start, end = max(a.sent_ns[0], b.sent_ns[0]), min(a.sent_ns[-1], b.sent_ns[-1])
    for size in found.sizes[::8]:
        interval = size.multiple * 25_000_000
        x, y = series_the_slow_way(a, b, int(start), int(end), interval)
        rho = pearson(ranks(x), ranks(y))
        t = rho * np.sqrt((len(x) - 2) / ((1 - rho) * (1 + rho)))
        p = 1 - special.stdtr(len(x) - 2, t)
        assert size.n == len(x)
        assert size.rho == pytest.approx(rho, abs=1e-9)
        assert size.p == pytest.approx(p, abs=1e-9)


def series_the_slow_way(
    a: FlowEvents, b: FlowEvents, start: int, end: int, interval: int
) -> tuple[list[float], list[float]]:
    x: list[float] = []
    y: list[float] = []
    lossless_before = False
    t = start
    while t + interval <= end:
        ratios = []
        for events in (a, b):
            at = np.flatnonzero((events.sent_ns >= t) & (events.sent_ns < t + interval))
            sent = sum(int(events.size_bytes[i]) for i in at)
            lost = sum(int(events.size_bytes[i]) for i in at if events.lost[i])
            ratios += [lost / sent] if len(at) > 10 else []
        if len(ratios) == 2:
            lossless = not any(ratio > 0 for ratio in ratios)
            if not (lossless and lossless_before):
                x.append(ratios[0])
                y.append(ratios[1])
            lossless_before = lossless
        t += interval
    return x, y


def ranks(values: Sequence[float]) -> list[float]:
    return [(sum(w < v for w in values) + sum(w <= v for w in values) + 1) / 2 for v in values]


def pearson(x: Sequence[float], y: Sequence[float]) -> float:
    mx, my = sum(x) / len(x), sum(y) / len(y)
    xy = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True))
    return float(xy / np.sqrt(sum((a - mx) ** 2 for a in x) * sum((b - my) ** 2 for b in y)))


def test_p_agrees_with_a_permutation_test() -> None:
    rng = np.random.default_rng(11)
    x = rng.random(40)
    y = 0.3 * x + rng.random(40)
    found = correlate(x, y)
    rx, ry = ranks(x.tolist()), ranks(y.tolist())
    draws = np.array([pearson(rx, rng.permutation(ry).tolist()) for _ in range(4000)])
    estimate = (1 + np.sum(draws >= found.rho)) / 4001
    # 4000 draws estimate p with a standard error of sqrt(p(1−p)/4000); allow five, plus the error of t.
    assert found.p == pytest.approx(estimate, abs=5 * np.sqrt(estimate / 4000) + 0.002)


def test_ties_get_average_ranks() -> None:
    found = correlate(np.array([0.0, 0.0, 0.1, 0.2, 0.2]), np.array([0.0, 0.1, 0.1, 0.3, 0.2]))
    assert found.rho == pytest.approx(
        pearson(ranks([0, 0, 0.1, 0.2, 0.2]), ranks([0, 0.1, 0.1, 0.3, 0.2])), abs=1e-12
    )


def test_a_constant_series_has_no_correlation() -> None:
    found = correlate(np.ones(40), np.arange(40.0))
    assert (found.n, found.rho, found.p) == (40, None, None)


def test_a_flow_without_loss_is_insufficient() -> None:
    lossy, clean = flow(1, levels(1), 200_000_000), flow(2, np.zeros(300), 200_000_000)
    found = loss_trend_correlation(lossy, clean)
    assert found.verdict == "cannot_tell"
    assert " and 0 losses in the " in found.reason


def test_a_run_too_short_for_thirty_intervals_is_insufficient() -> None:
    found = loss_trend_correlation(*(flow(seed, levels(1), 200_000_000, seconds=5) for seed in (1, 2)))
    assert found.verdict == "cannot_tell"
    assert "no interval size fits 30 times; the smallest fits 24 times" in found.reason


def test_flows_that_never_ran_together_are_insufficient() -> None:
    a = flow(1, levels(1), 200_000_000)
    b = FlowEvents(a.sent_ns + 100_000_000_000, a.size_bytes, a.lost, RTT_NS)
    assert loss_trend_correlation(a, b).verdict == "cannot_tell"


def test_a_flow_without_packets_is_insufficient() -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = FlowEvents(nothing, nothing, nothing.astype(bool), RTT_NS)
    assert loss_trend_correlation(empty, flow(1, levels(1), 200_000_000)).verdict == "cannot_tell"


def test_interval_sizes_follow_the_larger_min_rtt() -> None:
    common = levels(1)
    found = loss_trend_correlation(
        flow(2, common, 200_000_000, rtt_ns=10_000_000), flow(3, common, 200_000_000, rtt_ns=30_000_000)
    )
    assert [found.sizes[0].interval_s, found.sizes[-1].interval_s] == [0.3, 1.5]


def test_of_a_run_without_loss_the_first_interval_is_kept_and_ten_packets_are_too_few() -> None:
    # Loss in a, none, none, loss in b, loss in a but ten packets only, none, none.
    counts = [11, 11, 11, 11, 10, 11, 11]
    at = np.concatenate([np.full(count, t * 1_000) for t, count in enumerate(counts)])
    lost_a, lost_b = np.zeros(76, dtype=bool), np.zeros(76, dtype=bool)
    lost_a[0], lost_b[33], lost_a[44] = True, True, True
    size = np.full(76, 100)
    x, y = loss_series(FlowEvents(at, size, lost_a, 1), FlowEvents(at, size, lost_b, 1), 0, 1_000, 7)
    assert x.tolist() == pytest.approx([1 / 11, 0, 0, 0])
    assert y.tolist() == pytest.approx([0, 0, 1 / 11, 0])


def test_unknown_detector_names_the_valid_ones() -> None:
    with pytest.raises(UnknownDetectorError, match="wehey_loss_trend"):
        pair_detector("wehy")


def test_loss_ratios_count_the_packets_of_each_interval_in_whatever_order() -> None:
    rng = np.random.default_rng(7)
    sent_ns, size_bytes = rng.integers(0, 1000, 300), rng.integers(1, 1448, 300)
    lost = rng.random(300) < 0.2
    flow = FlowEvents(sent_ns, size_bytes, lost, min_rtt_ns=1)
    ratios, packets = loss_ratios(flow, start_ns=100, interval_ns=70, intervals=10)
    for number in range(10):
        inside = (sent_ns >= 100 + 70 * number) & (sent_ns < 170 + 70 * number)
        assert packets[number] == np.count_nonzero(inside)
        assert ratios[number] == size_bytes[inside & lost].sum() / size_bytes[inside].sum()
