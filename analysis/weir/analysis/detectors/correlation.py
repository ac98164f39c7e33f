# SPDX-License-Identifier: Apache-2.0
"""Plain correlation of two flows' loss, throughput or delay over intervals, by three coefficients.

Intervals, sizes and the majority rule are those of WeHeY (`wehey.py`), so that only the series and the
coefficient differ: loss ratio (intervals in which either flow lost), throughput (bytes not lost ÷
interval), delay (mean RTT above the flow's smallest, M. Rimkevičius, "Localizing Traffic Differentiation
with TCP BBR", EPFL 2024, sections 4.2 and 6). Spearman, Kendall (tau-b) and Pearson as in scipy.stats,
one-sided (positive); their p-values take intervals for independent.

`shifted_loss_correlation` does not: one interval size of 16 RTTs, two whole gain cycles of BBR (eight RTTs
each), so that its probing does not show, and p by rank among all circular shifts of one series against the
other, which keep each series' autocorrelation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import stats

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.wehey import ALPHA, MAJORITY, MIN_INTERVALS, MIN_PACKETS, MULTIPLES, loss_ratios
from weir.analysis.tables import Bools, Floats

Metric = Literal["loss", "throughput", "delay"]
Method = Literal["spearman", "kendall", "pearson"]
METRICS: tuple[Metric, ...] = ("loss", "throughput", "delay")
METHODS: tuple[Method, ...] = ("spearman", "kendall", "pearson")
_FUNCTIONS: dict[Method, Callable[..., Any]] = {
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
    "pearson": stats.pearsonr,
}
SHIFT_MULTIPLE = 16
MIN_SHIFT = 0.05
"""Shifts nearer to none than this part of the series leave too much of it in place."""


@dataclass(frozen=True)
class TrendSize:
    """One interval size: `n` intervals, their coefficient and its p; None where a series does not vary."""

    multiple: int
    n: int
    coefficient: float | None
    p: float | None


@dataclass(frozen=True)
class TrendResult:
    """The verdict over all sizes with enough intervals."""

    verdict: Literal["shared", "separate", "insufficient_loss"]
    reason: str
    metric: Metric
    method: Method
    sizes: tuple[TrendSize, ...]

    def detail(self) -> dict[str, object]:
        """All numbers behind the verdict, ready for JSON."""
        return {"metric": self.metric, "method": self.method, "sizes": [asdict(size) for size in self.sizes]}


@dataclass(frozen=True)
class ShiftResult:
    """The verdict of the correlation whose p is a rank among circular shifts."""

    verdict: Literal["shared", "separate", "insufficient_loss"]
    reason: str
    n: int
    rho: float | None = None
    p: float | None = None

    def detail(self) -> dict[str, object]:
        """All numbers behind the verdict, ready for JSON."""
        return {"n": self.n, "rho": self.rho, "p": self.p}


def trend(a: FlowEvents, b: FlowEvents, metric: Metric, method: Method) -> TrendResult:
    """Are two flows' series correlated at most interval sizes?"""
    sizes = []
    for multiple in MULTIPLES:
        x, y = _pair(a, b, metric, multiple)
        coefficient = p = None
        if len(x) >= MIN_INTERVALS and np.ptp(x) > 0 and np.ptp(y) > 0:
            found = _FUNCTIONS[method](x, y, alternative="greater")
            coefficient, p = float(found.statistic), float(found.pvalue)
        sizes.append(TrendSize(multiple, len(x), coefficient, p))
    used = [size for size in sizes if size.n >= MIN_INTERVALS]
    if not used:
        most = max(size.n for size in sizes)
        reason = f"no interval size has {MIN_INTERVALS} intervals; the best has {most}"
        return TrendResult("insufficient_loss", reason, metric, method, tuple(sizes))
    significant = sum(size.p is not None and size.p < ALPHA for size in used)
    reason = f"{significant} of {len(used)} interval sizes correlate in {metric} ({method}) with p < {ALPHA}"
    verdict: Literal["shared", "separate"] = "shared" if significant > MAJORITY * len(used) else "separate"
    return TrendResult(verdict, reason, metric, method, tuple(sizes))


def shifted_loss_correlation(a: FlowEvents, b: FlowEvents) -> ShiftResult:
    """Spearman's correlation of loss over intervals of 16 RTTs, ranked among circular shifts."""
    x, y = _pair(a, b, "loss", SHIFT_MULTIPLE, every=True)
    both = np.count_nonzero((x > 0) | (y > 0))
    if both < MIN_INTERVALS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return ShiftResult(
            "insufficient_loss", f"{both} intervals with loss; {MIN_INTERVALS} are needed", int(both)
        )
    ranks = [stats.rankdata(series) for series in (x, y)]
    one, other = ((r - r.mean()) / (r.std() * np.sqrt(len(r))) for r in ranks)
    rho = float(one @ other)
    least = max(int(np.ceil(MIN_SHIFT * len(x))), 1)
    moved = [float(one @ np.roll(other, shift)) for shift in range(least, len(x) - least + 1)]
    p = (1 + sum(r >= rho for r in moved)) / (1 + len(moved))
    reason = f"loss over {len(x)} intervals of {SHIFT_MULTIPLE} RTTs: rho = {rho:.2f}, p = {p:.3f} by shifts"
    return ShiftResult("shared" if p < ALPHA else "separate", reason, len(x), rho, p)


def _pair(
    a: FlowEvents, b: FlowEvents, metric: Metric, multiple: int, *, every: bool = False
) -> tuple[Floats, Floats]:
    if not len(a.sent_ns) or not len(b.sent_ns):
        return np.empty(0), np.empty(0)
    interval = multiple * max(a.min_rtt_ns, b.min_rtt_ns)
    start = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    count = max(min(int(a.sent_ns.max()), int(b.sent_ns.max())) - start, 0) // interval
    x, enough_x = _series(a, metric, start, interval, count)
    y, enough_y = _series(b, metric, start, interval, count)
    keep = enough_x & enough_y
    if metric == "loss" and not every:
        keep &= (x > 0) | (y > 0)
    return x[keep], y[keep]


def _series(flow: FlowEvents, metric: Metric, start: int, interval: int, count: int) -> tuple[Floats, Bools]:
    ratio, packets = loss_ratios(flow, start, interval, count)
    enough = packets >= MIN_PACKETS
    if metric == "loss":
        return ratio, enough
    at, values = flow.sent_ns, flow.size_bytes * ~flow.lost
    if metric == "delay":
        at, values = flow.rtt_sent_ns, flow.rtt_ns - flow.min_rtt_ns
    place = (at - start) // interval
    inside = (place >= 0) & (place < count)
    total = np.bincount(place[inside], values[inside].astype(np.float64), minlength=count)
    if metric == "throughput":
        return total * 8e9 / interval, enough
    samples = np.bincount(place[inside], minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return total / samples / 1e9, enough & (samples > 0)


TRENDS = {
    f"{metric}-{method}": partial(trend, metric=metric, method=method)
    for metric in METRICS
    for method in METHODS
}
"""Every series with every coefficient, by name."""
