# SPDX-License-Identifier: Apache-2.0
"""One clock pinned to another by the packets that both have stamped.

The differences of the two stamps are offset + drift × time + a delay that is never negative, so the line that
matters lies under all of them. Of all lines under the points this takes the one with the smallest sum of
distances: Moon, Skelly and Towsley, "Estimation and removal of clock skew from network delay measurements",
INFOCOM 1999, their linear program. Its optimum is the edge of the points' lower convex hull that spans the
mean time, so it needs a sort and one pass: O(n log n). The offset found this way includes the smallest
one-way delay between the two stamps; no two one-way stamps can tell these apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weir.analysis.errors import ClockError
from weir.analysis.tables import Bools, Floats, Ints

MAX_DRIFT_PPM = 500.0
"""Quartz is within 100 ppm and NTP slews by at most 500 ppm (RFC 5905 §11); more is a wrong fit."""

MIN_SPAN_NS = 1_000_000_000
"""Over less than a second the noise of the stamps outweighs any real drift; the offset alone is fitted."""

_BINS = 64


@dataclass(frozen=True)
class ClockFit:
    """`target = source + offset_ns + drift × (source − origin_ns)`, with its quality."""

    origin_ns: int
    offset_ns: int
    drift_ppm: float
    points: int
    outliers: int
    """Points far below the envelope, left out: a stamp that precedes its cause is a mismatched packet."""
    residual_ns: int
    """Median over 64 equal stretches of time of the smallest distance to the line: how well it is pinned."""
    spread_ns: int
    """95th percentile of the distances: how much delay varies between the two places."""

    def to_target(self, source_ns: Ints) -> Ints:
        """Times of the source clock, moved to the target clock (int64 ns, any shape)."""
        # The drift term is small, so float64 keeps it exact to less than 1 ns; the large terms stay integers.
        drift = np.rint((source_ns - self.origin_ns) * (self.drift_ppm * 1e-6)).astype(np.int64)
        return np.asarray(source_ns + self.offset_ns + drift, dtype=np.int64)


def lower_envelope_line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept of the line under all points with the smallest sum of vertical distances.

    `x` ascending, both of one length ≥ 1. Moon et al. (1999): with every point above the line, the sum of
    distances is n·(mean(y) − line at mean(x)), so the line that is highest at mean(x) wins.
    """
    hull: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for i in range(len(xs)):
        if hull and xs[hull[-1]] == xs[i]:
            if ys[i] >= ys[hull[-1]]:
                continue
            hull.pop()
        # Andrew's monotone chain, lower half: drop vertices on or above the new edge.
        while len(hull) >= 2:
            a, b = hull[-2], hull[-1]
            if (xs[b] - xs[a]) * (ys[i] - ys[a]) - (ys[b] - ys[a]) * (xs[i] - xs[a]) > 0:
                break
            hull.pop()
        hull.append(i)
    if len(hull) == 1:
        return 0.0, ys[hull[0]]
    mean = float(np.mean(x))
    at = int(np.clip(np.searchsorted(x[hull], mean, side="right"), 1, len(hull) - 1))
    a, b = hull[at - 1], hull[at]
    slope = (ys[b] - ys[a]) / (xs[b] - xs[a])
    return slope, ys[a] - slope * xs[a]


def _bin_minima(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """The lowest point of each of `_BINS` equal stretches of x (empty ones left out)."""
    span = max(float(x[-1] - x[0]), 1.0)
    place = ((x - x[0]) / span * (_BINS - 1e-9)).astype(np.int64)
    order = np.lexsort((y, place))
    first = np.flatnonzero(np.r_[True, np.diff(place[order]) > 0])
    return x[order][first], y[order][first]


def _plausible(x: Floats, y: Floats) -> Bools:
    """False for points so far below their neighbours' minima that a delay cannot explain them."""
    low_x, low_y = _bin_minima(x, y)
    if len(low_x) < 8:
        return np.ones(len(x), dtype=bool)
    # Theil–Sen through the minima: half of them may be wrong before the line moves.
    i, j = np.triu_indices(len(low_x), 1)
    slope = float(np.median((low_y[j] - low_y[i]) / (low_x[j] - low_x[i])))
    level = low_y - slope * low_x
    centre = float(np.median(level))
    # 1.4826 × MAD estimates a standard deviation; 10 of them, and at least 100 µs, spare every real minimum.
    allowed = max(10 * 1.4826 * float(np.median(np.abs(level - centre))), 100_000.0)
    return np.asarray(y - slope * x >= centre - allowed)


def fit_clock(source_ns: Ints, target_ns: Ints) -> ClockFit:
    """Pin the source clock to the target clock by packets stamped by both (int64 ns, one length).

    Raises ClockError without any packet. With less than a second between the first and the last, or a slope
    that no oscillator has (MAX_DRIFT_PPM), the drift is taken as 0 and the offset as the smallest difference.
    """
    if len(source_ns) != len(target_ns):
        raise ValueError(f"{len(source_ns)} source stamps but {len(target_ns)} target stamps; give pairs")
    if len(source_ns) == 0:
        raise ClockError("no packet was stamped by both clocks, so they cannot be aligned")
    order = np.argsort(source_ns, kind="stable")
    origin = int(source_ns[order[0]])
    x = (source_ns[order] - origin).astype(np.float64)
    difference = target_ns[order] - source_ns[order]
    # Differences of two epochs exceed 2^53 ns; relative to the first of them they fit a float64 exactly.
    base = int(difference[0])
    y = (difference - base).astype(np.float64)

    keep = _plausible(x, y)
    kept_x, kept_y = x[keep], y[keep]
    slope, intercept = 0.0, float(kept_y.min())
    if kept_x[-1] - kept_x[0] >= MIN_SPAN_NS:
        fitted = lower_envelope_line(kept_x, kept_y)
        if abs(fitted[0]) * 1e6 <= MAX_DRIFT_PPM:
            slope, intercept = fitted
    distance = kept_y - (slope * kept_x + intercept)
    return ClockFit(
        origin_ns=origin,
        offset_ns=base + round(intercept),
        drift_ppm=slope * 1e6,
        points=len(x),
        outliers=int(len(x) - keep.sum()),
        residual_ns=round(float(np.median(_bin_minima(kept_x, distance)[1]))),
        spread_ns=round(float(np.percentile(distance, 95))),
    )


@dataclass(frozen=True, eq=False)
class Pinned:
    """A sender's clock moved to the switch's, following the delay between the two where it is known.

    The fit alone places every packet at the smallest delay. Packets that the switch stamped show the delay of
    their moment, and the way to the switch is first-in first-out, so the packets between two of them had a
    delay between theirs: after a stall of the switch it falls by as much as the sender's time passes.
    """

    fit: ClockFit
    anchor_ns: Ints
    """When the stamped packets were sent, ascending; may be empty."""
    delay_ns: Floats
    """How much later than the fit says the switch stamped them."""

    @property
    def jitter_ns(self) -> int:
        """About how wrong one moved time is (one σ): each anchor against the line between its two neighbours.

        Independent errors make that difference √1.5 times as wide as one of them; 1.4826 × the median of its
        size estimates its σ, whatever a few stalls do. 0 with fewer than three anchors: nothing is known.
        """
        if len(self.anchor_ns) < 3:
            return 0
        at = (self.anchor_ns - self.fit.origin_ns).astype(np.float64)
        before, here, behind = at[:-2], at[1:-1], at[2:]
        share = (here - before) / np.maximum(behind - before, 1.0)
        line = self.delay_ns[:-2] * (1 - share) + self.delay_ns[2:] * share
        return round(1.4826 * float(np.median(np.abs(self.delay_ns[1:-1] - line))) / math.sqrt(1.5))

    def to_target(self, source_ns: Ints) -> Ints:
        """Times of the sender's clock, moved to the switch's (int64 ns)."""
        moved = self.fit.to_target(source_ns)
        if len(self.anchor_ns) == 0:
            return moved
        # Relative to the fit's origin the times fit a float64 to the nanosecond.
        origin = self.fit.origin_ns
        at = (source_ns - origin).astype(np.float64)
        usual = float(np.median(self.delay_ns))
        between = np.interp(
            at, (self.anchor_ns - origin).astype(np.float64), self.delay_ns, left=usual, right=usual
        )
        return np.asarray(moved + np.rint(between).astype(np.int64), dtype=np.int64)


def pin(source_ns: Ints, target_ns: Ints) -> Pinned:
    """Fit the clocks and keep the stamped packets as anchors; mismatched ones are left out."""
    fit = fit_clock(source_ns, target_ns)
    order = np.argsort(source_ns, kind="stable")
    source, target = source_ns[order], target_ns[order]
    delay = (target - fit.to_target(source)).astype(np.float64)
    # The envelope lies below all sound points but for rounding; what is far below was left out of the fit.
    sound = delay >= -max(100_000, 10 * fit.residual_ns)
    return Pinned(fit, source[sound], delay[sound])
