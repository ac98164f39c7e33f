# SPDX-License-Identifier: Apache-2.0
"""Fits a token bucket to a flow's losses: search for the rate, then estimate rate and burst.

The score of a rate (`bucket.Threshold`) has a narrow peak: while the bucket is not full, a rate that is off
by ε bytes/s is off by ε·T bytes after T seconds. So candidates come from the losses themselves: the bucket is
empty, within a packet, at two losses, so passed bytes ÷ time between them is the rate, unless the bucket was
full in between. Pairs of losses at doubling distances give ever more exact candidates. A coarse grid covers
buckets that fill up between all bursts of losses, whose peak is broad.

The result is a range of buckets that explain the packets almost equally well. They are weighted by
exp(−tail·C) with the cost C of `bucket.contradiction`: errors with heavy tails, like those of inferred
losses. Their scale is that of the contradictions to the best bucket, so that errors of times widen the
intervals. With flat priors for log(rate) and burst, the estimates are the posterior means; each interval
holds 95 %.

Times of whose errors nothing is known have at least those of a clock's resolution (`SCALE`), and intervals
allow for them. Where RTTs show that there are none, as in virtual time, only the buckets that agree with
every packet are left (`agreeing.py`).

Delays that neighbouring packets share are no such errors: the burst may rest on the delay of the one packet
that met the full bucket first, and the same delays lengthen all times from a full bucket to its losses. Their
spread widens both intervals further, as an independent error. RTTs show an upper bound of it, as the way back
and the receiver add to them. Delays before the policer also contradict the bucket, those behind it do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weir.analysis.detectors.policing.agreeing import agreeing_buckets
from weir.analysis.detectors.policing.bucket import (
    Arrivals,
    Threshold,
    best_threshold,
    contradiction,
    contradictions,
    demand,
)
from weir.analysis.detectors.policing.weighted import LIKELY, Estimate, estimate, weights_of
from weir.analysis.jitter import NEAR_NS
from weir.analysis.tables import Floats

SEARCH_PACKETS, SEARCH_LOSSES = 100_000, 4_000
"""Longest run of packets for the search, and about how many losses it needs; only the last zoom uses all."""
GRID_POINTS = 72
GRID_FROM, GRID_TO = 0.3, 100.0
"""Grid of rates, in multiples of the mean rate of passed bytes."""
ZOOM_POINTS, ZOOM_ROUNDS = 15, 6
CANDIDATES = 6
SAME_SCORE = 0.03
"""Rates around the peak belong to it while their score is not lower by more."""
WEIGHED_RATES, WEIGHED_BURSTS, WEIGHED_ROUNDS = 21, 21, 3
WEIGHED_PACKETS = 8_000
MIN_USEFUL_SCORE = 0.5
"""A bucket with a lower score explains nothing, so its range of rates is not computed."""
BURST_REACH = 1.5
"""Range of the bursts weighted, in frames on either side of the best threshold."""
SCALE = 1 / 64
"""Contradictions below this part of a frame cost little: they come from the resolution of clocks."""
EXACT_BYTES = 1.0
"""Errors of times that are worth less at the rate are none: lengths are whole bytes."""
MIN_CONTRADICTIONS = 5
"""Fewer do not show a larger scale."""
RATE_TAILS, BURST_TAIL = (3.0, 8.0), 1.5
"""Assumed density of errors ∝ (1 + x ÷ scale)^−TAIL: large ones are rare, not impossible. The rate's second
one is for several flows: with 3, the intervals of all 169 pairs of flows held the rate at exact times (seeds
below 170), with 8 those of 95 %. The burst rests on the packets near the threshold, whose errors are alike:
with 3, its intervals would hold 84 to 92 %."""
MEDIAN_OF_SCALE = 0.414
"""The median of errors with the density ∝ (1 + x)^−3."""
REACH_OF_SCALE = 4.0
BURST_SPREADS, RATE_SPREADS = 1.25, (0.4, 0.2)
"""Half the intervals' widths due to shared delays, in spreads of the delays: × rate for the burst; ÷ the time
for which the bucket had not been full for the rate, of one flow and of several. With these 94 and 96 % of 266
intervals of one flow under jitter held the burst and the rate (seeds below 170)."""
MOST_SPREAD, TICK_S = 3.0, 1e-9
"""Of the rate's logarithm; the resolution of times."""
SPREADS_SHOWN = 4.0
"""The spread of delays before the policer is at most this many times the largest contradiction to the bucket:
with jitter before it, contradictions were at least a quarter of the spread (seeds below 170, 1 and 5 ms)."""
MIN_TESTS, TEST_AFTER_S = 10, 0.01
"""Moments at which such delays would show: packets that passed or were lost by less than half of the spread,
long enough after a full bucket that its packet's delay is another one."""


@dataclass(frozen=True)
class BucketFit:
    """One bucket fitted to packets: rates in bytes/s, lengths in bytes; low and high ends hold 95 %.

    `refilled`: the bucket was full again after the first loss, so that the burst does not rest only on the
    assumption that the bucket was full at the first packet. `burst_high` is infinite if it does and the flow
    had sent before the capture began.
    """

    rate: float
    rate_low: float
    rate_high: float
    burst_bytes: float
    burst_low: float
    burst_high: float
    threshold: Threshold
    initial_backlog: float
    refilled: bool

    @property
    def score(self) -> float:
        """Losses explained ÷ (losses + packets that should have been lost)."""
        return self.threshold.score


def fit_bucket(
    packets: Arrivals,
    *,
    from_start: bool = True,
    delay_spread_s: float = 0.0,
    time_error_s: float = float("inf"),
    several: bool = False,
) -> BucketFit | None:
    """The bucket that best explains which packets were lost.

    None for fewer than two losses, if no packet passed, or for zero duration.

    `from_start`: the flow's first packet was captured, so the bucket is full at it; otherwise an empty bucket
    is tried too. `delay_spread_s`: how much delays vary between the capture and the policer, at most
    (`jitter.py`). `time_error_s`: by how much single times are usually wrong, at most; infinite if
    not known. `several`: the packets are those of several flows, each with many losses.
    """
    losses = int(np.count_nonzero(packets.lost))
    if losses < 2 or losses == len(packets.lost) or packets.time_s[-1] <= packets.time_s[0]:
        return None
    enough = len(packets.lost) * SEARCH_LOSSES // losses
    _, part = _densest(packets, min(max(enough, WEIGHED_PACKETS), SEARCH_PACKETS))
    if np.all(part.lost):  # it says nothing of a rate
        part = packets
    ranked = sorted(((_score(part, rate), rate, width) for rate, width in _candidates(part)), reverse=True)
    peaks = [_zoom(part, rate, width) for _, rate, width in _apart(ranked)[:CANDIDATES]]
    _, rate, width = max(peaks)
    if part is not packets:
        duration = packets.time_s[-1] - packets.time_s[0]
        _, rate, width = _zoom(packets, rate, max(width, 4 * _frame(packets) / duration / rate))
    best = _finish(packets, rate, 0.0, time_error_s, RATE_TAILS[several])
    if not from_start:
        empty = _finish(packets, rate, best.burst_bytes, time_error_s, RATE_TAILS[several])
        if empty.score > best.score:
            best = empty
        if not best.refilled:
            best = replace(best, burst_high=float("inf"))
    return _widened(best, packets, delay_spread_s, RATE_SPREADS[several])


def _frame(packets: Arrivals) -> float:
    return float(packets.length.max())


def _densest(packets: Arrivals, limit: int) -> tuple[int, Arrivals]:
    """The index of the first packet and the packets of the run of at most `limit` with the most losses."""
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
    """Rates to try, each with the relative half-width of its peak."""
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
        usable = (between > 2 * frame) & (between_s > 0)
        if np.any(usable):
            low = (between[usable] - frame) / between_s[usable]
            high = (between[usable] + frame) / between_s[usable]
            for rate in _most_covered(low, high, between_s[usable]):
                found.append((rate, float(np.median(frame / between[usable]))))
        distance *= 2
    first, last = 0, len(time_s) - 1
    if time_s[last] > time_s[first]:
        rate = float((passed[last] - passed[first]) / (time_s[last] - time_s[first]))
        if rate > 0:
            found.append((rate, 2 * frame / max(passed[last] - passed[first], frame)))
    return found


def _most_covered(low: Floats, high: Floats, weight: Floats) -> list[float]:
    """The rates that lie in most intervals [low, high]: by count, and weighted by time."""
    edges = np.concatenate([low, high])
    order = np.argsort(edges, kind="stable")
    result = []
    for unit in (np.ones_like(weight), weight):
        steps = np.cumsum(np.concatenate([unit, -unit])[order])
        top = int(np.argmax(steps[:-1]))
        result.append(float((edges[order[top]] + edges[order[top + 1]]) / 2))
    return result


def _apart(ranked: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """The best candidate of each peak: those within a better one's width are left out."""
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
    """The lowest and the highest rate around the peak with a score within SAME_SCORE of it."""
    enough = _score(packets, rate, initial_backlog) - SAME_SCORE
    ends = []
    for sign in (-1.0, 1.0):
        end, step = 0.0, 1e-6
        while step < 1.5 and _score(packets, rate * float(np.exp(sign * step)), initial_backlog) >= enough:
            end, step = step, step * 1.6
        ends.append(rate * float(np.exp(sign * max(end, 1e-6))))
    return ends[0], ends[1]


def _weigh(
    packets: Arrivals, rate: float, initial_backlog: float, time_error_s: float, rate_tail: float
) -> tuple[Estimate, Estimate]:
    """Weight the buckets around a peak: the rate, and the burst."""
    frame = _frame(packets)
    low, high = _reach(packets, rate, initial_backlog)
    first, part = _densest(packets, WEIGHED_PACKETS)
    if time_error_s * rate <= EXACT_BYTES:
        ends = first, first + len(part.lost)
        resolution = max(time_error_s, TICK_S) * rate
        agreeing = agreeing_buckets(
            packets, ends, (low, high), BURST_REACH * frame, resolution, initial_backlog
        )
        if agreeing is not None:
            return agreeing
    scale = _scale(packets, rate, initial_backlog, first, part)
    reach = max(BURST_REACH * frame, REACH_OF_SCALE * scale)
    offsets = np.linspace(-reach, reach, WEIGHED_BURSTS)
    for _ in range(WEIGHED_ROUNDS):
        logs = np.linspace(np.log(low), np.log(high), WEIGHED_RATES)
        met = [demand(packets, float(np.exp(at)), initial_backlog) for at in logs]
        middles = np.array([best_threshold(v, packets.lost).burst_bytes for v in met])
        backlog = np.array([v[first] - packets.length[first] for v in met])
        bursts = np.maximum(middles[:, None] + offsets, frame)
        rates = np.repeat(np.exp(logs), WEIGHED_BURSTS)
        starts = np.minimum(np.repeat(backlog, WEIGHED_BURSTS), bursts.ravel())
        cost = contradiction(part, rates, bursts.ravel(), scale, starts).reshape(bursts.shape)
        weights = weights_of(cost, BURST_TAIL)
        of_rates = weights.sum(axis=1)
        likely = np.flatnonzero(of_rates > LIKELY)
        if len(likely) > WEIGHED_RATES // 3:
            break
        step = logs[1] - logs[0]
        low, high = (float(np.exp(logs[likely[end]] + sign * step)) for end, sign in ((0, -1), (-1, 1)))
    of_log = estimate(logs, weights_of(cost, rate_tail).sum(axis=1))
    nearest = int(np.argmin(np.abs(logs - of_log.mean)))
    burst = estimate(bursts.ravel(), weights.ravel())
    mean = float(np.sum(weights[nearest] * bursts[nearest]) / max(float(of_rates[nearest]), 1e-300))
    return (
        Estimate(*(float(np.exp(at)) for at in (of_log.mean, of_log.low, of_log.high))),
        Estimate(mean, min(burst.low, mean), max(burst.high, mean)),
    )


def _scale(packets: Arrivals, rate: float, initial_backlog: float, first: int, part: Arrivals) -> float:
    """How large contradictions to the best bucket are, in bytes; `part` begins at packet `first`."""
    v = demand(packets, rate, initial_backlog)
    burst = best_threshold(v, packets.lost).burst_bytes
    backlog = min(float(v[first] - packets.length[first]), burst)
    wrong = [
        float(each[0])
        for each in contradictions(part, np.array([rate]), np.array([burst]), np.array([backlog]))
        if each[0] > 0
    ]
    least = SCALE * _frame(packets)
    return (
        max(least, float(np.median(wrong)) / MEDIAN_OF_SCALE) if len(wrong) >= MIN_CONTRADICTIONS else least
    )


def _finish(
    packets: Arrivals, rate: float, initial_backlog: float, time_error_s: float, rate_tail: float
) -> BucketFit:
    """The fit at a peak of the score."""
    of_rate = of_burst = None
    if _score(packets, rate, initial_backlog) >= MIN_USEFUL_SCORE:
        of_rate, of_burst = _weigh(packets, rate, initial_backlog, time_error_s, rate_tail)
        rate = of_rate.mean
    v = demand(packets, rate, initial_backlog)
    found = best_threshold(v, packets.lost)
    of_rate = of_rate or Estimate(rate, rate, rate)
    of_burst = of_burst or Estimate(found.burst_bytes, found.low, found.high)
    first_loss = int(np.argmax(packets.lost))
    return BucketFit(
        rate=rate,
        rate_low=of_rate.low,
        rate_high=of_rate.high,
        burst_bytes=of_burst.mean,
        burst_low=of_burst.low,
        burst_high=of_burst.high,
        threshold=found,
        initial_backlog=initial_backlog,
        refilled=bool(np.any(v[first_loss:] <= packets.length[first_loss:])),
    )


def _widened(fit: BucketFit, packets: Arrivals, delay_spread_s: float, rate_spreads: float) -> BucketFit:
    """The fit with the intervals that delays shared by neighbouring packets leave."""
    time_s = packets.time_s
    v = demand(packets, fit.rate, fit.initial_backlog)
    full_s = np.maximum.accumulate(np.where(v <= packets.length, time_s, time_s[0]))
    spread_s = _spread_before_policer(fit, packets, v - fit.burst_bytes, time_s - full_s, delay_spread_s)
    since_s = float(np.median((time_s - full_s)[packets.lost]))
    of_rate = min(rate_spreads * spread_s / max(since_s, TICK_S), MOST_SPREAD)
    of_burst = BURST_SPREADS * spread_s * fit.rate
    return replace(
        fit,
        rate_low=fit.rate * float(np.exp(-np.hypot(np.log(fit.rate / fit.rate_low), of_rate))),
        rate_high=fit.rate * float(np.exp(np.hypot(np.log(fit.rate_high / fit.rate), of_rate))),
        burst_low=max(fit.burst_bytes - float(np.hypot(fit.burst_bytes - fit.burst_low, of_burst)), 0.0),
        burst_high=fit.burst_bytes + float(np.hypot(fit.burst_high - fit.burst_bytes, of_burst)),
    )


def _spread_before_policer(
    fit: BucketFit, packets: Arrivals, excess: Floats, since_full_s: Floats, of_rtts_s: float
) -> float:
    """The part of the RTTs' spread that the packets' fates allow before the policer, seconds.

    `excess` is each packet's demand above the burst, in bytes, `since_full_s` how long the bucket had not
    been full.
    """
    near = (np.abs(excess) <= of_rtts_s * fit.rate / 2) & (since_full_s > TEST_AFTER_S)
    at_s = packets.time_s[near]
    tests = np.count_nonzero(np.diff(at_s, prepend=-np.inf) > NEAR_NS / 1e9)
    if tests < MIN_TESTS:
        return of_rtts_s
    wrong = (excess > 0) != packets.lost
    largest = float(np.abs(excess[wrong]).max(initial=0.0))
    return min(of_rtts_s, SPREADS_SHOWN * largest / fit.rate)
