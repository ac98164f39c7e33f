# SPDX-License-Identifier: Apache-2.0
"""Aligns one clock with another by the packets that both have stamped.

The difference of the two stamps is offset + drift × time + a delay that is never negative, so the clocks'
line lies below all points. Of all lines below them this takes the one with the smallest sum of vertical
distances: the linear program of Moon, Skelly and Towsley, "Estimation and removal of clock skew from network
delay measurements", INFOCOM 1999. Its optimum is the edge of the points' lower convex hull that spans the
mean time, so a sort and one pass find it: O(n log n). The offset includes the smallest one-way delay between
the two stamps; one-way stamps cannot separate the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weir.analysis.errors import ClockError
from weir.analysis.tables import Bools, Floats, Ints

MAX_DRIFT_PPM = 500.0
"""Quartz is within 100 ppm and NTP slews by at most 500 ppm (RFC 5905 §11); more is a wrong fit."""

MIN_SPAN_NS = 1_000_000_000
"""Over a shorter time the noise of the stamps outweighs any real drift; only the offset is fitted."""

LEAST_POINTS = 6
"""Fewer points do not show the error of their line."""

_BINS = 64


@dataclass(frozen=True)
class ClockFit:
    """`target = source + offset_ns + drift × (source − origin_ns)`, with its quality."""

    origin_ns: int
    offset_ns: int
    drift_ppm: float
    points: int
    outliers: int
    """Points far below the envelope, left out as mismatched packets: none can arrive before it is sent."""
    residual_ns: int
    """Median over 64 equal parts of the time of the smallest distance to the line: the quality of the fit."""
    spread_ns: int
    """95th percentile of the distances: how much the delay between the two points of capture varies."""
    error_ns: int | None = None
    """Bound on the error of the line beside the line of the least delay; None with few points."""

    def to_target(self, source_ns: Ints) -> Ints:
        """Convert times of the source clock to the target clock (int64 ns, any shape)."""
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
    """The lowest point of each of `_BINS` equal parts of x (empty ones left out)."""
    span = max(float(x[-1] - x[0]), 1.0)
    bin_of = ((x - x[0]) / span * (_BINS - 1e-9)).astype(np.int64)
    order = np.lexsort((y, bin_of))
    first = np.flatnonzero(np.r_[True, np.diff(bin_of[order]) > 0])
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
    # 1.4826 × MAD estimates the standard deviation; 10 of them, and at least 100 µs, keep every real minimum.
    allowed = max(10 * 1.4826 * float(np.median(np.abs(level - centre))), 100_000.0)
    return np.asarray(y - slope * x >= centre - allowed)


def fit_clock(source_ns: Ints, target_ns: Ints) -> ClockFit:
    """Fit the source clock to the target clock by packets stamped by both (int64 ns, arrays of one length).

    With less than MIN_SPAN_NS between the first and the last packet, or a drift above MAX_DRIFT_PPM, the
    drift is taken as 0 and the offset as the smallest difference. Raises ClockError without any packet.
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
    error = _error(kept_x, kept_y, (slope, intercept), float(np.mean(distance)))
    return ClockFit(
        origin_ns=origin,
        offset_ns=base + round(intercept),
        drift_ppm=slope * 1e6,
        points=len(x),
        outliers=int(len(x) - keep.sum()),
        residual_ns=round(float(np.median(_bin_minima(kept_x, distance)[1]))),
        spread_ns=round(float(np.percentile(distance, 95))),
        error_ns=None if error is None else round(error),
    )


def _error(x: Floats, y: Floats, line: tuple[float, float], mean_distance: float) -> float | None:
    """By how much the line (slope, intercept) may be wrong anywhere between the first and the last point, ns.

    For delays above the least that are exponential, of mean θ, the envelope of n points is within 12 θ/n with
    probability 0.95 (simulated, n ≥ 6). Delays that are rarely close to the least would make this too small,
    so the lines of every other point are compared, too. Where the line is level although its points are
    above another one, so is what the drift that was not fitted makes of it, but no more than one that is
    plausible.
    """
    if len(x) < LEAST_POINTS:
        return None
    ends = x[[0, -1]]
    halves = []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        slope, intercept = lower_envelope_line(x[half], y[half])
        if x[-1] - x[0] < MIN_SPAN_NS or abs(slope) * 1e6 > MAX_DRIFT_PPM:
            slope, intercept = 0.0, float(y[half].min())
        halves.append(intercept + slope * ends)
    unfitted = 0.0
    if line[0] == 0:
        slope, intercept = lower_envelope_line(x, y)
        unfitted = float(np.max(np.abs(intercept + slope * ends - line[1])))
        unfitted = min(unfitted, MAX_DRIFT_PPM * 1e-6 * float(ends[1] - ends[0]))
    return max(12 * mean_distance / len(x), float(np.max(np.abs(halves[0] - halves[1])))) + unfitted


@dataclass(frozen=True, eq=False)
class AlignedClock:
    """Converts a sender's times to the switch's clock, with the delay between the two where it is known.

    The fit alone assumes the smallest delay for every packet. Packets that the switch stamped (anchors) show
    the delay at their time, and the path to the switch is first-in first-out, so packets between two anchors
    had a delay between theirs.
    """

    fit: ClockFit
    anchor_ns: Ints
    """Times of sending of the anchors, ascending; may be empty."""
    delay_ns: Floats
    """The anchors' delay above the smallest, which the fit includes."""
    error_ns: int = 0
    """By how much times may be wrong beside those of other hosts, where the fit is that of another host."""

    @property
    def jitter_ns(self) -> int:
        """The standard error of a converted time, by each anchor's distance from its neighbours' line.

        The line joins the two neighbours. Independent errors of σ give distances of √1.5 σ; 1.4826 × the
        median estimates these despite a few stalls. Not less than `error_ns`, and that with fewer than three
        anchors.
        """
        if len(self.anchor_ns) < 3:
            return self.error_ns
        at = (self.anchor_ns - self.fit.origin_ns).astype(np.float64)
        before, here, after = at[:-2], at[1:-1], at[2:]
        share = (here - before) / np.maximum(after - before, 1.0)
        line = self.delay_ns[:-2] * (1 - share) + self.delay_ns[2:] * share
        scatter = 1.4826 * float(np.median(np.abs(self.delay_ns[1:-1] - line))) / math.sqrt(1.5)
        return max(round(scatter), self.error_ns)

    @cached_property
    def _anchors(self) -> Floats:
        """Relative to the fit's origin, so that they fit a float64 to the nanosecond."""
        return (self.anchor_ns - self.fit.origin_ns).astype(np.float64)

    @cached_property
    def _usual_ns(self) -> float:
        return float(np.median(self.delay_ns))

    def to_target(self, source_ns: Ints) -> Ints:
        """Convert times of the sender's clock to the switch's (int64 ns)."""
        moved = self.fit.to_target(source_ns)
        if len(self.anchor_ns) == 0:
            return moved
        at = (source_ns - self.fit.origin_ns).astype(np.float64)
        usual = self._usual_ns
        between = np.interp(at, self._anchors, self.delay_ns, left=usual, right=usual)
        return np.asarray(moved + np.rint(between).astype(np.int64), dtype=np.int64)


def align(source_ns: Ints, target_ns: Ints) -> AlignedClock:
    """Fit the clocks and keep the packets stamped by both as anchors, without mismatched ones."""
    fit = fit_clock(source_ns, target_ns)
    order = np.argsort(source_ns, kind="stable")
    source, target = source_ns[order], target_ns[order]
    delay = (target - fit.to_target(source)).astype(np.float64)
    # The fit lies below all sound points except for rounding; mismatched packets lie far below it.
    sound = delay >= -max(100_000, 10 * fit.residual_ns)
    return AlignedClock(fit, source[sound], delay[sound])
