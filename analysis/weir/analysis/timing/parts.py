# SPDX-License-Identifier: Apache-2.0
"""The least bounds on the difference of two clocks in equal parts of the time, and what they can tell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weir.analysis.tables import Floats
from weir.analysis.timing.bounds import noise, unrest

LEAST_STEP_NS = 50_000.0
"""Smaller steps are not told from changes of the path."""
MOST_STEPS, FEW = 8, 32
"""More steps than anyone makes; so few parts that only larger steps are told from chance."""
STEP_OF_NOISE, ALLOWED = 4.0, 12.0
"""In units of the noise: a step must be as large, and bounds may contradict each other by as much."""


@dataclass(frozen=True)
class Parts:
    """The least bounds of each part: from above, and the negative of those from below; inf where none."""

    above: Floats
    below: Floats
    noise_above: float
    noise_below: float
    floor: float
    """The least sum of both, which is that of the least delays of both directions; inf if unknown."""
    above_is_better: bool
    """Whether the delays of the packets that bound from above vary less."""

    @property
    def noise(self) -> float:
        """Of the better direction."""
        return min(self.noise_above, self.noise_below)

    @property
    def half(self) -> float:
        """Half the floor: the delay of each direction if both are equal; 0 if unknown."""
        return self.floor / 2 if np.isfinite(self.floor) else 0.0

    @property
    def allowed(self) -> float:
        """By how much bounds may contradict each other, ns."""
        # Not by the noisier direction: a queue delays packets, but lets none arrive too early.
        return allowed(self.noise)

    @property
    def least_step(self) -> float:
        """Smaller steps are not looked for, ns."""
        known = int(np.count_nonzero(np.isfinite(self.above) | np.isfinite(self.below)))
        return max(LEAST_STEP_NS, STEP_OF_NOISE * max(1.0, FEW / max(known, 1)) * self.noise)

    def is_known(self, least_above: float, least_below: float) -> bool:
        """Whether some packet of each direction had the least delay, by the least bounds of a stretch."""
        together = least_above + least_below <= self.floor + self.least_step
        return bool(together and np.isfinite(least_above) and np.isfinite(least_below))

    def level(self, least_above: float, least_below: float) -> float:
        """The difference by the least bounds of a stretch (inf: none).

        In the middle, unless packets of one direction were always delayed: then by the better direction.
        """
        if self.is_known(least_above, least_below):
            return (least_above - least_below) / 2
        by_above = np.isfinite(least_above) and (self.above_is_better or not np.isfinite(least_below))
        return least_above - self.half if by_above else self.half - least_below


def allowed(its_noise: float) -> float:
    """By how much bounds of a direction with this noise may contradict others, ns."""
    return max(LEAST_STEP_NS, ALLOWED * its_noise) if np.isfinite(its_noise) else LEAST_STEP_NS


def parts_of(above: Floats, below: Floats, *, steps: bool = True) -> Parts:
    """Parts without those in which a step happened: their bounds contradict each other.

    Without `steps`, only those whose bounds are impossible; shorter delays are no contradiction then.
    """
    better = unrest(above) <= unrest(below)
    both = np.isfinite(above) & np.isfinite(below)
    parts = Parts(above, below, noise(above), noise(below), float("inf"), better)
    if not np.any(both):
        return parts
    sums = np.where(both, above + below, np.inf)
    ascending = np.sort(sums[both])
    mixed = sums < (_least_sum(ascending, parts) if steps else _least_possible(ascending, parts))
    if np.all(mixed):
        return parts  # None is better.
    return replace(
        parts,
        above=np.where(mixed, np.inf, above),
        below=np.where(mixed, np.inf, below),
        floor=float(np.min(sums[~mixed])),
    )


def _least_sum(ascending: Floats, parts: Parts) -> float:
    """Smaller sums are of parts in which a step happened: those of the others are not all much larger."""
    usual = max(parts.allowed, ALLOWED * sum(filter(np.isfinite, (parts.noise_above, parts.noise_below))))
    few = _few(ascending)
    jumps = np.flatnonzero(np.diff(ascending[: len(few) + 1]) > usual)
    after_jump = ascending[jumps[-1] + 1] if len(jumps) else ascending[0]
    return max(float(after_jump), _least_possible(ascending, parts))


def _least_possible(ascending: Floats, parts: Parts) -> float:
    """Smaller sums contradict themselves: no delay is negative."""
    impossible = _few(ascending)
    impossible = impossible[impossible < -parts.allowed]
    return float(impossible[-1]) + 1.0 if len(impossible) else -np.inf


def _few(ascending: Floats) -> Floats:
    """So many parts at most may have a step in them."""
    return ascending[: max(min(MOST_STEPS, len(ascending) // 8), 1)]
