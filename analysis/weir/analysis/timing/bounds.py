# SPDX-License-Identifier: Apache-2.0
"""Bounds on the difference of two clocks, from packets that both have stamped.

A packet from A to B arrives later than it was sent: B's stamp less A's is at most as small as B's clock less
A's. A packet from B to A bounds the difference from below. So every packet is a bound, and those with the
least delay are the best (V. Paxson, "On calibrating measurements of packet transit times", SIGMETRICS 1998).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import minimum_filter1d

from weir.analysis.tables import Bools, Floats

MAX_PARTS, LEAST_PARTS = 512, 8
LEAST_PART_NS, LEAST_PACKETS = 20_000_000.0, 16
"""Shorter parts, or parts of fewer packets, do not show the least delay."""


@dataclass(frozen=True)
class Side:
    """Bounds from one direction: at times x (ns) the difference is at most y (ns), or at least −y."""

    x: Floats
    y: Floats

    def __len__(self) -> int:
        """The number of packets."""
        return len(self.x)

    def select(self, which: Bools) -> Side:
        """Some of the bounds."""
        return Side(self.x[which], self.y[which])

    def without(self, slope: float) -> Side:
        """The bounds on what remains of the difference without a drift."""
        return Side(self.x, self.y - slope * self.x)

    def at(self, x: Floats, drift: float) -> Floats:
        """The best bound at times, if the difference changes by at most `drift` per ns; inf if none."""
        if not len(self):
            return np.full(len(x), np.inf)
        order = np.argsort(self.x)
        at, y = self.x[order], self.y[order]
        # From the packets before each time and from those after it.
        since = np.append(np.inf, np.minimum.accumulate(y - drift * at))
        until = np.append(np.minimum.accumulate((y + drift * at)[::-1])[::-1], np.inf)
        number = np.searchsorted(at, x, side="right")
        return np.minimum(since[number] + drift * x, until[number] - drift * x)


NOTHING = Side(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Grid:
    """Equal parts of the time."""

    start: float
    width: float
    count: int

    def of(self, x: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The part of each time."""
        found = ((x - self.start) / self.width).astype(np.int64)
        return np.clip(found, 0, self.count - 1)

    @property
    def middles(self) -> Floats:
        """The middle of each part."""
        return np.asarray(self.start + self.width * (np.arange(self.count) + 0.5), dtype=np.float64)

    def least(self, side: Side) -> Floats:
        """The least y in each part, inf where there is none."""
        found = np.full(self.count, np.inf)
        np.minimum.at(found, self.of(side.x), side.y)
        return found


def grid_of(*sides: Side) -> Grid:
    """A grid over all bounds; at least one."""
    start = min(float(side.x.min()) for side in sides if len(side))
    end = max(float(side.x.max()) for side in sides if len(side))
    enough = max(max(len(side) for side in sides) // LEAST_PACKETS, LEAST_PARTS)
    count = int(np.clip((end - start) / LEAST_PART_NS, 1, min(enough, MAX_PARTS)))
    return Grid(start, max((end - start) / count, 1.0), count)


def noise(least: Floats) -> float:
    """How much the least delay of a part usually exceeds that of its neighbours, ns; inf if unknown.

    The mean of the lower four fifths: busy moments and steps do not count.
    """
    known = least[np.isfinite(least)]
    if len(known) < 4:
        return float("inf")
    padded = np.pad(known, 2, mode="edge")
    around = np.min([padded[i : i + len(known)] for i in range(5)], axis=0)
    excess = np.sort(known - around)
    return float(np.mean(excess[: max(1, len(excess) * 4 // 5)]))


def unrest(least: Floats) -> float:
    """The median of how much the least delay exceeds that of the eighth of the time around it, ns; else inf.

    The direction with less of it has the emptier queues. A step is in few such times.
    """
    known = least[np.isfinite(least)]
    if len(known) < 4:
        return float("inf")
    return float(np.median(known - minimum_filter1d(known, max(len(known) // 8, 3), mode="nearest")))


def usual_slope(least: Floats, at: Floats) -> tuple[float, float]:
    """The median slope over an eighth of the parts, and its standard error; inf if unknown.

    A few steps spoil a few of the slopes only, as each is over a small part of the time.
    """
    known = np.isfinite(least)
    values, times = least[known], at[known]
    lag = max(len(values) // 8, 1)
    if len(values) < 8:
        return 0.0, float("inf")
    slopes = (values[lag:] - values[:-lag]) / (times[lag:] - times[:-lag])
    middle = float(np.median(slopes))
    spread = 1.4826 * float(np.median(np.abs(slopes - middle)))
    # Neighbouring slopes have most of their span in common: about one in `lag` is independent.
    return middle, spread / float(np.sqrt(max(len(slopes) / lag, 1.0)))
