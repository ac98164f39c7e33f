# SPDX-License-Identifier: Apache-2.0
"""Finds when the difference of two clocks stepped, from the least bounds in equal parts of the time.

Between steps the difference is a constant, once the drift is taken out. The parts are divided so that the sum
of their distances to the constants is least, with a penalty for each division: optimal partitioning, by
dynamic programming (B. Jackson et al., "An algorithm for optimal partitioning of data on an interval", IEEE
Signal Processing Letters 2005). One direction of packets is enough to be close to a constant, as a queue may
delay the other one at length; but both bound it. With at most `MAX_PARTS` parts the effort is constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weir.analysis.tables import Floats, Ints
from weir.analysis.timing.bounds import noise, unrest

LEAST_STEP_NS = 50_000.0
"""Smaller steps are not told from changes of the path."""
LEAST_GAIN_NS = 200_000.0
MOST_STEPS, FEW = 8, 32
"""More steps than anyone makes; so few parts that only larger steps are told from chance."""
SHORT, SHORT_SHARE = 2, 24
"""A stretch of so few parts, or such a fraction of all, needs packets that contradict others."""
PENALTY, STEP_OF_NOISE, ALLOWED = 15.0, 4.0, 12.0
"""In units of the noise: a division must gain as much, a step must be as large, and bounds may contradict
each other by as much."""


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
        return max(LEAST_STEP_NS, ALLOWED * self.noise) if np.isfinite(self.noise) else LEAST_STEP_NS

    @property
    def least_step(self) -> float:
        """Smaller steps are not looked for, ns."""
        known = int(np.count_nonzero(np.isfinite(self.above) | np.isfinite(self.below)))
        return max(LEAST_STEP_NS, STEP_OF_NOISE * max(1.0, FEW / max(known, 1)) * self.noise)

    def level(self, least_above: float, least_below: float) -> float:
        """The difference by the least bounds of a stretch (inf: none).

        In the middle, unless packets of one direction were always delayed: then by the better direction.
        """
        together = least_above + least_below <= self.floor + self.least_step
        if together and np.isfinite(least_above) and np.isfinite(least_below):
            return (least_above - least_below) / 2
        by_above = np.isfinite(least_above) and (self.above_is_better or not np.isfinite(least_below))
        return least_above - self.half if by_above else self.half - least_below


def parts_of(above: Floats, below: Floats) -> Parts:
    """Parts without those in which a step happened: their bounds contradict each other."""
    better = unrest(above) <= unrest(below)
    both = np.isfinite(above) & np.isfinite(below)
    parts = Parts(above, below, noise(above), noise(below), float("inf"), better)
    if not np.any(both):
        return parts
    sums = np.where(both, above + below, np.inf)
    mixed = sums < _least_sum(np.sort(sums[both]), parts)
    if np.all(mixed):
        return parts  # None is better.
    return replace(
        parts,
        above=np.where(mixed, np.inf, above),
        below=np.where(mixed, np.inf, below),
        floor=float(np.min(sums[~mixed])),
    )


def _least_sum(ascending: Floats, parts: Parts) -> float:
    """Smaller sums are of parts in which a step happened.

    No delay is negative, and those of other parts are not all much longer.
    """
    usual = max(parts.allowed, ALLOWED * sum(filter(np.isfinite, (parts.noise_above, parts.noise_below))))
    few = ascending[: max(min(MOST_STEPS, len(ascending) // 8), 1)]
    jumps = np.flatnonzero(np.diff(ascending[: len(few) + 1]) > usual)
    after_jump = ascending[jumps[-1] + 1] if len(jumps) else ascending[0]
    impossible = few[few < -parts.allowed]
    return max(float(after_jump), float(impossible[-1]) + 1.0 if len(impossible) else -np.inf)


@dataclass(frozen=True)
class Stretch:
    """Parts `first` to `last` (inclusive) between two steps, and their constant."""

    first: int
    last: int
    level: float


def divide(parts: Parts) -> list[Stretch]:
    """The stretches between steps, in order; parts without packets belong to the stretch before them."""
    known = np.flatnonzero(np.isfinite(parts.above) | np.isfinite(parts.below))
    if not len(known):
        return []
    above, below = parts.above[known], parts.below[known]
    penalty = LEAST_GAIN_NS + PENALTY * (parts.noise if np.isfinite(parts.noise) else 0.0)
    ends = _partition(above, below, penalty, parts)
    stretches = [
        Stretch(int(known[first]), int(known[last]), _level(parts, int(known[first]), int(known[last])))
        for first, last in ends
    ]
    found = _without_excursions(_without_queues(_without_short(stretches, parts), parts), parts)
    for i in range(1, len(found)):
        found[i - 1 : i + 1] = _with_nearest(found[i - 1], found[i], parts)
    return found


def _partition(above: Floats, below: Floats, penalty: float, parts: Parts) -> list[tuple[int, int]]:
    """First and last part of each stretch."""
    count = len(above)
    best = np.zeros(count + 1)
    begins = np.zeros(count, dtype=np.int64)
    for last in range(count):
        costs = _costs(above[last::-1], below[last::-1], parts)[::-1]
        total = best[: last + 1] + costs + penalty
        begins[last] = int(np.argmin(total))
        best[last + 1] = total[begins[last]]
    found, last = [], count - 1
    while last >= 0:
        found.append((int(begins[last]), last))
        last = int(begins[last]) - 1
    return found[::-1]


def _costs(above: Floats, below: Floats, parts: Parts) -> Floats:
    """The cost of the stretches of the first 1, 2, … of these parts."""
    (of_above, n_above, least_above), (of_below, n_below, least_below) = map(_excess, (above, below))
    # Mean distances, so that a direction with few packets does not win by having few.
    enough_above, enough_below = n_above * 2 >= n_below, n_below * 2 >= n_above
    means = np.minimum(
        np.where(enough_above & (n_above > 0), of_above / np.maximum(n_above, 1), np.inf),
        np.where(enough_below & (n_below > 0), of_below / np.maximum(n_below, 1), np.inf),
    )
    costs = means * np.maximum(n_above, n_below)
    if np.isfinite(parts.floor):
        contradicts = least_above + least_below < parts.floor - parts.allowed
        contradicts[0] = False
        costs = np.where(contradicts, np.inf, costs)
    return np.asarray(costs, dtype=np.float64)


def _excess(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Sum of the distances to the least, number and least of the first 1, 2, … values that are finite."""
    known = np.isfinite(values)
    number = np.cumsum(known).astype(np.float64)
    least = np.minimum.accumulate(values)
    total = np.cumsum(np.where(known, values, 0.0))
    return np.where(number > 0, total - number * np.where(number > 0, least, 0.0), 0.0), number, least


def _level(parts: Parts, first: int, last: int) -> float:
    inside = slice(first, last + 1)
    return parts.level(float(np.min(parts.above[inside])), float(np.min(parts.below[inside])))


def _bounds(parts: Parts, stretch: Stretch) -> tuple[float, float]:
    """The lowest and the highest level of a stretch by its packets, infinite without those of a direction."""
    inside = slice(stretch.first, stretch.last + 1)
    return parts.half - float(np.min(parts.below[inside])), float(np.min(parts.above[inside])) - parts.half


def _bears(parts: Parts, stretch: Stretch, level: float, unknown: float = 0.0) -> bool:
    """Whether no packet of the stretch contradicts a level that is known to so much (`unknown`, ns)."""
    lowest, highest = _bounds(parts, stretch)
    allowed = parts.allowed + unknown
    return lowest - allowed <= level <= highest + allowed


def _without_short(stretches: list[Stretch], parts: Parts) -> list[Stretch]:
    """Without stretches of a moment, unless their packets contradict those before and after."""
    found = list(stretches)
    short = max(SHORT, (stretches[-1].last - stretches[0].first) // SHORT_SHARE)
    # The shortest first, so that a moment between two stretches does not keep one from the other.
    for length in sorted({stretch.last - stretch.first for stretch in stretches}):
        if length < short:
            found = _without_as_short(found, parts, length)
    return found


def _without_as_short(stretches: list[Stretch], parts: Parts, length: int) -> list[Stretch]:
    """Without those that are no longer than a length, and borne by one beside them or a step themselves."""
    found = list(stretches)
    at = 0
    while at < len(found) and len(found) > 1:
        stretch, beside = found[at], [near for near in (at - 1, at + 1) if 0 <= near < len(found)]
        if _is_blip(found[max(at - 1, 0) : at + 2], parts):
            found[at - 1 : at + 2] = [_joined(found[at - 1], found[at + 1])]
            continue
        if stretch.last - stretch.first <= length:
            bearing = [near for near in beside if _bears(parts, stretch, found[near].level)]
            levels = [found[near].level for near in beside]
            if bearing:
                nearest = min(bearing, key=lambda near: abs(found[near].level - found[at].level))
                other = found[nearest]
                found[nearest] = Stretch(
                    min(stretch.first, other.first), max(stretch.last, other.last), other.level
                )
            if bearing or (len(levels) == 2 and min(levels) <= stretch.level <= max(levels)):
                # Not borne by either, but between both: a step happened in it, and it belongs to neither.
                del found[at]
                continue
        at += 1
    return found


def _without_queues(stretches: list[Stretch], parts: Parts) -> list[Stretch]:
    """Joins stretches in which a queue delayed the packets of one direction to what is before or after them.

    A queue that fills at once and stays full delays them by a constant, as a step seems to.
    """
    found = list(stretches)
    at = 0
    while at < len(found):
        beside = [near for near in (at - 1, at + 1) if 0 <= near < len(found)]
        borne = [near for near in beside if _is_known_and_borne(parts, found[at], found[near])]
        nearest = min(borne, key=lambda near: abs(found[near].level - found[at].level), default=None)
        # A neighbour at the level of the stretch confirms it.
        if nearest is None or not _is_queue(parts, found[at], found[nearest]):
            at += 1
            continue
        first, last = sorted((at, nearest))
        found[first : last + 1] = [Stretch(found[first].first, found[last].last, found[nearest].level)]
        # The joined stretch may have the direction that the one before it is compared with.
        at = max(first - 1, 0)
    return found


def _is_known_and_borne(parts: Parts, stretch: Stretch, other: Stretch) -> bool:
    """Whether packets of both directions show another stretch's level, which those of the stretch bear."""
    return all(np.isfinite(_bounds(parts, other))) and _bears(parts, stretch, other.level)


def _is_queue(parts: Parts, stretch: Stretch, other: Stretch) -> bool:
    """Whether a queue and no step explains a stretch whose packets bear the level of another.

    A step changes the times of both directions. Here those of one are as before, or there are none.
    """
    bounds = _bounds(parts, stretch)
    if not all(np.isfinite(bounds)):
        return True
    least_change = min(abs(bound - other.level) for bound in bounds)
    return least_change <= parts.allowed < abs(stretch.level - other.level) / 2


def _is_blip(around: list[Stretch], parts: Parts) -> bool:
    """Whether the middle one of three stretches lasts a moment only, after which the clock would be set back.

    Its few packets may contradict the others' level by as much as that is unknown: half the least delays.
    """
    if len(around) < 3:
        return False
    before, stretch, after = around
    returned = abs(after.level - before.level) <= parts.least_step
    short = stretch.last - stretch.first < SHORT
    return short and returned and _bears(parts, stretch, before.level, parts.half)


def _without_excursions(stretches: list[Stretch], parts: Parts) -> list[Stretch]:
    """Joins stretches whose step is small, or that differ by a passing delay: no clock returns by itself."""
    found: list[Stretch] = []
    for stretch in stretches:
        found.append(stretch)
        while len(found) > 1:
            returned = len(found) > 2 and abs(found[-1].level - found[-3].level) <= parts.least_step
            if returned and _bears(parts, found[-2], found[-3].level):
                found[-3:] = [_joined(found[-3], found[-1])]
                continue
            if abs(found[-1].level - found[-2].level) < parts.least_step:
                found[-2:] = [_joined(found[-2], found[-1])]
                continue
            break
    return found


def _with_nearest(one: Stretch, other: Stretch, parts: Parts) -> tuple[Stretch, Stretch]:
    """Two neighbours, the parts between them each in the one whose level its packets are nearer to.

    `_costs` judges by the better direction, so parts without its packets cost nothing on the wrong side.
    """
    inside = np.r_[one.first : one.last + 1, other.first : other.last + 1]
    inside = inside[np.isfinite(parts.above[inside]) | np.isfinite(parts.below[inside])]
    to_one, to_other = (_distances(parts, inside, stretch.level) for stretch in (one, other))
    # Each keeps a part, so there are one to n − 1 of them before the step.
    costs = np.cumsum(to_one)[:-1] + np.cumsum(to_other[::-1])[::-1][1:]
    before = int(np.argmin(costs))
    return replace(one, last=int(inside[before])), replace(other, first=int(inside[before + 1]))


def _distances(parts: Parts, which: Ints, level: float) -> Floats:
    """How far each part's packets are from a level, or by how much they contradict it, ns."""
    above, below = parts.above[which] - parts.half - level, parts.below[which] - parts.half + level
    return np.asarray(np.abs(np.minimum(above, below)), dtype=np.float64)


def _joined(one: Stretch, other: Stretch) -> Stretch:
    longer = max(one, other, key=lambda stretch: stretch.last - stretch.first)
    return Stretch(one.first, other.last, longer.level)
