# SPDX-License-Identifier: Apache-2.0
"""Plain correlation of two flows' loss, throughput or delay over intervals, by three coefficients.

Intervals, their sizes and the majority rule are those of WeHeY (`wehey.py`); only the series and the
coefficient differ. Series: loss ratio, throughput (bytes not lost ÷ interval), delay (mean RTT above the
flow's smallest; M. Rimkevičius, "Localizing Traffic Differentiation with TCP BBR", EPFL 2024, sections 4.2
and 6). Coefficients: Spearman, Kendall (tau-b) and Pearson as in scipy.stats, one-sided (positive). Their
p-values assume independent intervals.

`resampled_loss_correlation` does not assume this. It uses loss over intervals of 8 RTTs without the RTTs in
which BBR probes (`probing.py`); p is the rank among a null distribution that keeps each series'
autocorrelation (`nulls.py`): circular shifts of one series, or permutations of its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import stats

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.nulls import block_length, block_permutations, circular_shifts, rank_p
from weir.analysis.detectors.probing import steady_loss
from weir.analysis.detectors.wehey import (
    ALPHA,
    MAJORITY,
    MIN_INTERVALS,
    MIN_PACKETS,
    MULTIPLES,
    informative,
    interval_edges,
    loss_ratios,
)
from weir.analysis.tables import Bools, Floats
from weir.rundir.plural import plural

Metric = Literal["loss", "throughput", "delay"]
Method = Literal["spearman", "kendall", "pearson"]
METRICS: tuple[Metric, ...] = ("loss", "throughput", "delay")
METHODS: tuple[Method, ...] = ("spearman", "kendall", "pearson")
_FUNCTIONS: dict[Method, Callable[..., Any]] = {
    "spearman": stats.spearmanr,
    "kendall": stats.kendalltau,
    "pearson": stats.pearsonr,
}
Null = Literal["shifts", "blocks"]
STEADY_RTTS = 8
"""One gain cycle of BBR, so that probing removes equally many RTTs from every interval."""
DRAWS, SEED = 999, 0
"""Permutations of blocks; the seed is fixed, so that the same flows give the same p."""


@dataclass(frozen=True)
class TrendSize:
    """One interval size: `intervals` fit, `n` are kept; coefficient and p are None without variation."""

    multiple: int
    intervals: int
    n: int
    coefficient: float | None
    p: float | None


@dataclass(frozen=True)
class TrendResult:
    """The verdict over all sizes with enough intervals."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    metric: Metric
    method: Method
    sizes: tuple[TrendSize, ...]

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return {"metric": self.metric, "method": self.method, "sizes": [asdict(size) for size in self.sizes]}


@dataclass(frozen=True)
class ResampledResult:
    """The verdict of a correlation with p by rank among resampled series; `block` is in intervals."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    n: int
    rho: float | None = None
    p: float | None = None
    block: int | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return {"n": self.n, "rho": self.rho, "p": self.p, "block": self.block}


def trend(a: FlowEvents, b: FlowEvents, metric: Metric, method: Method) -> TrendResult:
    """Are two flows' series correlated at most interval sizes?"""
    sizes = []
    for multiple in MULTIPLES:
        x, y, intervals = _pair(a, b, metric, multiple)
        coefficient = p = None
        if len(x) >= 3 and np.ptp(x) > 0 and np.ptp(y) > 0:
            found = _FUNCTIONS[method](x, y, alternative="greater")
            coefficient, p = float(found.statistic), float(found.pvalue)
        sizes.append(TrendSize(multiple, intervals, len(x), coefficient, p))
    used = [size for size in sizes if size.intervals >= MIN_INTERVALS]
    if not any(size.p is not None for size in used):
        reason = f"no interval size fits {MIN_INTERVALS} times with {metric} that varies in both flows"
        return TrendResult("cannot_tell", reason, metric, method, tuple(sizes))
    significant = sum(size.p is not None and size.p < ALPHA for size in used)
    reason = f"{significant} of {len(used)} interval sizes correlate in {metric} ({method}) with p < {ALPHA}"
    verdict: Literal["shared", "separate"] = "shared" if significant > MAJORITY * len(used) else "separate"
    return TrendResult(verdict, reason, metric, method, tuple(sizes))


def resampled_loss_correlation(a: FlowEvents, b: FlowEvents, null: Null) -> ResampledResult:
    """Spearman's correlation of loss outside BBR's probing, ranked among resampled series."""
    x = y = np.empty(0)
    if len(a.sent_ns) and len(b.sent_ns):
        x, y = steady_loss(a, b, max(a.min_rtt_ns, b.min_rtt_ns), STEADY_RTTS, MIN_PACKETS)
    both = int(np.count_nonzero((x > 0) | (y > 0)))
    if both < MIN_INTERVALS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return ResampledResult(
            "cannot_tell", f"{plural(both, 'interval')} with loss; {MIN_INTERVALS} are needed", both
        )
    ranks = [stats.rankdata(series) for series in (x, y)]
    one, other = ((r - r.mean()) / (r.std() * np.sqrt(len(r))) for r in ranks)
    rho, block = float(one @ other), None
    if null == "shifts":
        chance = np.array([shifted @ one for shifted in circular_shifts(other)])
    else:
        block = block_length(one, other)
        chance = block_permutations(other, block, DRAWS, np.random.default_rng(SEED)) @ one
    p = rank_p(rho, chance)
    how = "shifts" if block is None else f"permuted blocks of {block}"
    reason = (
        f"loss over {plural(len(x), 'interval')} of {STEADY_RTTS} RTTs: rho = {rho:.2f}, p = {p:.3f} by {how}"
    )
    return ResampledResult("shared" if p < ALPHA else "separate", reason, len(x), rho, p, block)


def _pair(a: FlowEvents, b: FlowEvents, metric: Metric, multiple: int) -> tuple[Floats, Floats, int]:
    """Both series over the usable intervals, and the number of all intervals that fit."""
    if not len(a.sent_ns) or not len(b.sent_ns):
        return np.empty(0), np.empty(0), 0
    interval = multiple * max(a.min_rtt_ns, b.min_rtt_ns)
    start = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    count = max(min(int(a.sent_ns.max()), int(b.sent_ns.max())) - start, 0) // interval
    x, enough_x = _series(a, metric, start, interval, count)
    y, enough_y = _series(b, metric, start, interval, count)
    keep = enough_x & enough_y
    if metric == "loss":
        return *informative(x[keep], y[keep]), count
    return x[keep], y[keep], count


def _series(flow: FlowEvents, metric: Metric, start: int, interval: int, count: int) -> tuple[Floats, Bools]:
    ratio, packets = loss_ratios(flow, start, interval, count)
    enough = packets >= MIN_PACKETS
    if metric == "loss":
        return ratio, enough
    edges = interval_edges(start, interval, count)
    if metric == "throughput":
        sent_ns, sent_bytes, lost_bytes = flow.totals
        at = np.searchsorted(sent_ns, edges)
        return np.diff(sent_bytes[at] - lost_bytes[at]) * 8e9 / interval, enough
    sampled_ns, delays_ns = flow.delays
    at = np.searchsorted(sampled_ns, edges)
    samples = np.diff(at)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.diff(delays_ns[at]) / samples / 1e9, enough & (samples > 0)


TRENDS = {
    f"{metric}-{method}": partial(trend, metric=metric, method=method)
    for metric in METRICS
    for method in METHODS
}
"""Every series with every coefficient, by name."""
RESAMPLED = {
    "loss-shifted": partial(resampled_loss_correlation, null="shifts"),
    "loss-blocks": partial(resampled_loss_correlation, null="blocks"),
}
"""Loss outside BBR's probing with either null distribution, by name."""
