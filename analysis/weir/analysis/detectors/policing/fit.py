# SPDX-License-Identifier: Apache-2.0
"""Search for the rate of a token bucket that explains a flow's losses.

The score of a rate (`bucket.Threshold`) has a narrow peak: where the bucket is never full again, a rate
that is off by ε is off by ε·T bytes after T seconds. So rates to try come from the losses themselves:
between two losses the bucket is empty both times, within a packet, so passed bytes ÷ time between them is
the rate, unless it was full in between. Pairs of losses at doubling distances give sharper and sharper
candidates; a coarse grid serves where the bucket fills up between any two bursts of losses and every rate
nearby does.

What is left is a range of buckets that explain the packets about as well. They are weighed by exp(−TAIL·C),
C the sum over packets of log(1 + x ÷ s) where x is by how many bytes a fate contradicts the bucket
(`bucket.contradiction`): errors with heavy tails, as those of inferred losses are. With flat priors for
log(rate) and burst, the estimates are the posterior means and the interval of the rate holds 95 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.detectors.policing.bucket import Arrivals, Threshold, best_threshold, contradiction, demand
from weir.analysis.tables import Floats

SEARCH_PACKETS = 100_000
"""Longest stretch that the whole search looks at; only the last zoom sees more."""
GRID_POINTS = 72
GRID_FROM, GRID_TO = 0.3, 100.0
"""Grid of rates, in multiples of the mean rate of passed bytes."""
ZOOM_POINTS, ZOOM_ROUNDS = 15, 6
CANDIDATES = 6
SAME_SCORE = 0.03
"""Rates round the peak belong to it as long as their score is not lower by more."""
WEIGHED_RATES, WEIGHED_BURSTS, WEIGHED_ROUNDS = 21, 21, 3
WEIGHED_PACKETS = 8_000
HOPELESS = 0.5
"""A bucket with a lower score explains nothing, and its range of rates is of no interest."""
BURST_REACH = 1.5
"""Bursts weighed, in frames on either side of the best threshold."""
SCALE = 1 / 64
"""Contradictions below this part of a frame cost little: clocks tick, frames lie some bytes apart."""
TAIL = 3.0
"""Errors are taken to have a density ∝ (1 + x ÷ SCALE)^−TAIL: a large one is rare, not impossible."""


@dataclass(frozen=True)
class BucketFit:
    """One bucket fitted to packets. Rates in bytes/s, lengths in bytes; `low` and `high` hold 95 %.

    `refilled`: the bucket was full again after the first loss, so that the burst is pinned by more than the
    assumption that it was full at the first packet.
    """

    rate: float
    rate_low: float
    rate_high: float
    burst_bytes: float
    threshold: Threshold
    initial_backlog: float
    refilled: bool

    @property
    def score(self) -> float:
        """Losses explained ÷ (losses + packets that should have been lost)."""
        return self.threshold.score


def fit_bucket(packets: Arrivals, *, from_start: bool = True) -> BucketFit | None:
    """The bucket that explains best which packets were lost; None without two losses or without time.

    `from_start`: the bucket is full at the first packet, as for a flow whose first packet is seen; else a
    bucket that was empty is tried too.
    """
    if np.count_nonzero(packets.lost) < 2 or packets.time_s[-1] <= packets.time_s[0]:
        return None
    _, part = _densest(packets, SEARCH_PACKETS)
    ranked = sorted(((_score(part, rate), rate, width) for rate, width in _candidates(part)), reverse=True)
    peaks = [_zoom(part, rate, width) for _, rate, width in _apart(ranked)[:CANDIDATES]]
    _, rate, width = max(peaks)
    if part is not packets:
        duration = packets.time_s[-1] - packets.time_s[0]
        _, rate, width = _zoom(packets, rate, max(width, 4 * _frame(packets) / duration / rate))
    best = _finish(packets, rate, 0.0)
    if not from_start:
        empty = _finish(packets, rate, best.burst_bytes)
        if empty.score > best.score:
            return empty
    return best


def _frame(packets: Arrivals) -> float:
    return float(packets.length.max())


def _densest(packets: Arrivals, limit: int) -> tuple[int, Arrivals]:
    """The stretch of at most `limit` packets with the most losses, behind the number of its first packet."""
    count = len(packets.lost)
    if count <= limit:
        return 0, packets
    losses = np.concatenate([[0], np.cumsum(packets.lost)])
    starts = np.arange(0, count - limit + 1, limit // 4)
    first = int(starts[np.argmax(losses[starts + limit] - losses[starts])])
    return first, packets.part(first, first + limit)


def _score(packets: Arrivals, rate: float, initial_backlog: float = 0.0) -> float:
    return best_threshold(demand(packets, rate, initial_backlog), packets.lost).score


def _candidates(packets: Arrivals) -> list[tuple[float, float]]:
    """Rates to try, each with the relative half-width within which it is one peak."""
    time_s = packets.time_s[packets.lost]
    passed = packets.passed_before[packets.lost]
    frame = _frame(packets)
    mean = float(np.sum(packets.length[~packets.lost]) / (packets.time_s[-1] - packets.time_s[0]))
    grid = np.geomspace(mean * GRID_FROM, mean * GRID_TO, GRID_POINTS)
    found = [(float(rate), float(grid[1] / grid[0] - 1)) for rate in grid] if mean > 0 else []
    distance = 1
    while distance < len(time_s):
        between_s = time_s[distance:] - time_s[:-distance]
        between = passed[distance:] - passed[:-distance]
        told = (between > 2 * frame) & (between_s > 0)
        if np.any(told):
            low = (between[told] - frame) / between_s[told]
            high = (between[told] + frame) / between_s[told]
            for rate in _most_covered(low, high, between_s[told]):
                found.append((rate, float(np.median(frame / between[told]))))
        distance *= 2
    first, last = 0, len(time_s) - 1
    if time_s[last] > time_s[first]:
        rate = float((passed[last] - passed[first]) / (time_s[last] - time_s[first]))
        if rate > 0:
            found.append((rate, 2 * frame / max(passed[last] - passed[first], frame)))
    return found


def _most_covered(low: Floats, high: Floats, weight: Floats) -> list[float]:
    """The middle of the rates that most intervals hold, counted and weighted by time."""
    edges = np.concatenate([low, high])
    order = np.argsort(edges, kind="stable")
    result = []
    for unit in (np.ones_like(weight), weight):
        steps = np.cumsum(np.concatenate([unit, -unit])[order])
        top = int(np.argmax(steps[:-1]))
        result.append(float((edges[order[top]] + edges[order[top + 1]]) / 2))
    return result


def _apart(ranked: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The best of each peak: candidates within a better one's width say nothing new."""
    kept: list[tuple[float, float, float]] = []
    for candidate in ranked:
        if all(abs(candidate[1] / rate - 1) > min(width, candidate[2]) for _, rate, width in kept):
            kept.append(candidate)
    return kept


def _zoom(packets: Arrivals, rate: float, width: float) -> tuple[float, float, float]:
    """Score, rate and half-width of the best plateau within `width` of `rate`."""
    low, high = rate * max(1 - 2 * width, 0.1), rate * (1 + 2 * width)
    score = 0.0
    for _ in range(ZOOM_ROUNDS):
        rates = np.linspace(low, high, ZOOM_POINTS)
        scores = np.array([_score(packets, float(r)) for r in rates])
        score = float(scores.max())
        best = np.flatnonzero(scores >= score - 1e-12)
        step = rates[1] - rates[0]
        low, high = float(rates[best[0]] - step), float(rates[best[-1]] + step)
        rate = float((rates[best[0]] + rates[best[-1]]) / 2)
        if len(best) > ZOOM_POINTS // 2:
            break
    low = max(low, rate * 0.05)
    return score, rate, (high - low) / 2 / rate


def _reach(packets: Arrivals, rate: float, initial_backlog: float) -> tuple[float, float]:
    """The rates round the peak whose score is about as good."""
    enough = _score(packets, rate, initial_backlog) - SAME_SCORE
    ends = []
    for sign in (-1.0, 1.0):
        end, step = 0.0, 1e-6
        while step < 1.5 and _score(packets, rate * float(np.exp(sign * step)), initial_backlog) >= enough:
            end, step = step, step * 1.6
        ends.append(rate * float(np.exp(sign * max(end, 1e-6))))
    return ends[0], ends[1]


def _weigh(packets: Arrivals, rate: float, initial_backlog: float) -> tuple[float, float, float, float]:
    """Weigh the buckets round a peak: mean rate, the ends of its interval, mean burst at that rate."""
    frame = _frame(packets)
    low, high = _reach(packets, rate, initial_backlog)
    first, part = _densest(packets, WEIGHED_PACKETS)
    offsets = np.linspace(-BURST_REACH, BURST_REACH, WEIGHED_BURSTS) * frame
    for _ in range(WEIGHED_ROUNDS):
        logs = np.linspace(np.log(low), np.log(high), WEIGHED_RATES)
        met = [demand(packets, float(np.exp(at)), initial_backlog) for at in logs]
        middles = np.array([best_threshold(v, packets.lost).burst_bytes for v in met])
        backlog = np.array([v[first] - packets.length[first] for v in met])
        bursts = np.maximum(middles[:, None] + offsets, frame)
        rates = np.repeat(np.exp(logs), WEIGHED_BURSTS)
        starts = np.minimum(np.repeat(backlog, WEIGHED_BURSTS), bursts.ravel())
        cost = contradiction(part, rates, bursts.ravel(), SCALE * frame, starts).reshape(bursts.shape)
        weights = np.exp(TAIL * (cost.min() - cost))
        weights /= weights.sum()
        of_rates = weights.sum(axis=1)
        held = np.flatnonzero(of_rates > 1e-4)
        if len(held) > WEIGHED_RATES // 3:
            break
        step = logs[1] - logs[0]
        low, high = (float(np.exp(logs[held[end]] + way * step)) for end, way in ((0, -1), (-1, 1)))
    estimate = float(np.sum(of_rates * logs))
    nearest = int(np.argmin(np.abs(logs - estimate)))
    burst = float(np.sum(weights[nearest] * bursts[nearest]) / max(float(of_rates[nearest]), 1e-300))
    ends = np.interp((0.025, 0.975), np.cumsum(of_rates), logs)
    mean = float(np.exp(estimate))
    return mean, min(float(np.exp(ends[0])), mean), max(float(np.exp(ends[1])), mean), burst


def _finish(packets: Arrivals, rate: float, initial_backlog: float) -> BucketFit:
    """The fit at a peak of the score."""
    low = high = rate
    burst: float | None = None
    if _score(packets, rate, initial_backlog) >= HOPELESS:
        rate, low, high, burst = _weigh(packets, rate, initial_backlog)
    v = demand(packets, rate, initial_backlog)
    found = best_threshold(v, packets.lost)
    first_loss = int(np.argmax(packets.lost))
    return BucketFit(
        rate=rate,
        rate_low=low,
        rate_high=high,
        burst_bytes=found.burst_bytes if burst is None else burst,
        threshold=found,
        initial_backlog=initial_backlog,
        refilled=bool(np.any(v[first_loss:] <= packets.length[first_loss:])),
    )
