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
from weir.analysis.timing.parts import Parts, allowed

LEAST_GAIN_NS = 200_000.0
SHORT, SHORT_SHARE = 2, 24
"""A stretch of so few parts, or such a fraction of all, needs packets that contradict others."""
EDGE, BESIDE = 2, 4
"""Parts at an end of a stretch that may belong to the next one; parts beside a step that show its size."""
PENALTY = 15.0
"""In units of the noise: a division must gain as much."""


@dataclass(frozen=True)
class Stretch:
    """Parts `first` to `last` (inclusive) between two steps, and their constant."""

    first: int
    last: int
    level: float
    by_above: bool | None = None
    """Which direction shows the level, if packets of the other one were always delayed; None: the better."""


def divide(parts: Parts) -> list[Stretch]:
    """The stretches between steps, in order; parts without packets belong to the stretch before them."""
    known = np.flatnonzero(np.isfinite(parts.above) | np.isfinite(parts.below))
    if not len(known):
        return []
    above, below = parts.above[known], parts.below[known]
    penalty = LEAST_GAIN_NS + PENALTY * (parts.noise if np.isfinite(parts.noise) else 0.0)
    ends = _partition(above, below, penalty, parts)
    bare = [Stretch(int(known[first]), int(known[last]), 0.0) for first, last in ends]
    stretches = [replace(stretch, level=parts.level(*least_of(parts, stretch))) for stretch in bare]
    found = _without_excursions(_without_short(stretches, parts), parts)
    # Two stretches of one level would confirm each other as no queue.
    found = _without_excursions(_without_queues(found, parts), parts)
    found = _by_neighbours(found, parts)
    for i in range(1, len(found)):
        found[i - 1 : i + 1] = _with_nearest(found[i - 1], found[i], parts)
    return found


def jumps(parts: Parts, one: Stretch, other: Stretch) -> tuple[float, float]:
    """By how much the difference steps between two stretches, by the parts next to the step: above, below.

    Each direction's packets show it; not a number without them.
    """
    # Not by the very last part and the very first one: the step may have happened in it.
    last = max(one.last - 1, one.first)
    first = min(other.first + 1, other.last)
    before = slice(max(one.first, last - BESIDE + 1), last + 1)
    after = slice(first, min(other.last, first + BESIDE - 1) + 1)
    found = []
    for least, sign in ((parts.above, 1.0), (parts.below, -1.0)):
        old, new = (float(np.min(least[which])) for which in (before, after))
        found.append(sign * (new - old) if np.isfinite(old) and np.isfinite(new) else float("nan"))
    return found[0], found[1]


def _by_neighbours(stretches: list[Stretch], parts: Parts) -> list[Stretch]:
    """Stretches in which packets of one direction were always delayed, with levels from those beside them.

    A queue that stays full over a step hides from its direction what the level is, but not how it changes.
    """
    found = list(stretches)
    least = [least_of(parts, stretch) for stretch in found]
    smallest = min(map(sum, least), default=0.0)
    # The others are beside the one with the least delays, also if a part with less belongs to none.
    known = [parts.is_known(*its) or sum(its) == smallest < np.inf for its in least]
    pairs = [(i, i + 1) for i in range(len(found) - 1)]
    for near, at in pairs + [(at, near) for near, at in reversed(pairs)]:
        bounds = _bounds(parts, found[at])
        if known[at] or not known[near] or not all(np.isfinite(bounds)):
            continue
        before, after = (found[near], found[at]) if near < at else (found[at], found[near])
        steps = jumps(parts, before, after)
        is_above = _is_above(parts, found[near].level, steps if near < at else (-steps[0], -steps[1]), bounds)
        if is_above is not None:
            found[at] = replace(found[at], level=bounds[1] if is_above else bounds[0], by_above=is_above)
            known[at] = True
    return found


def _is_above(
    parts: Parts, level: float, steps: tuple[float, float], bounds: tuple[float, float]
) -> bool | None:
    """Whether a level is by the bounds from above, by the steps that both directions show from one beside it.

    None if they show different ones: a queue changed as the clock stepped, or there was no step.
    """
    by_above, by_below = (abs(bounds[1] - level - step) < abs(bounds[0] - level - step) for step in steps)
    agree = abs(steps[0] - steps[1]) <= allowed(parts.noise_above) + allowed(parts.noise_below)
    if not np.all(np.isfinite(steps)) or not (agree or by_above == by_below):
        return None
    return bool(by_above if parts.noise_above < parts.noise_below else by_below)


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


def least_of(parts: Parts, stretch: Stretch) -> tuple[float, float]:
    """The least bounds of a stretch from above and below, without its ends, in which a step may have been."""
    end = EDGE if stretch.last - stretch.first >= 8 * EDGE else 0
    last = stretch.last if stretch.last == len(parts.above) - 1 else stretch.last - end
    inside = slice(stretch.first + end if stretch.first else 0, last + 1)
    return float(np.min(parts.above[inside])), float(np.min(parts.below[inside]))


def _bounds(parts: Parts, stretch: Stretch) -> tuple[float, float]:
    """The lowest and the highest level of a stretch by its packets, infinite without those of a direction."""
    above, below = least_of(parts, stretch)
    return parts.half - below, above - parts.half


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
        explains = [near for near in beside if _is_queue(parts, found[at], found[near])]
        nearest = min(explains, key=lambda near: abs(found[near].level - found[at].level), default=None)
        if nearest is None:
            at += 1
            continue
        first, last = sorted((at, nearest))
        found[first : last + 1] = [Stretch(found[first].first, found[last].last, found[nearest].level)]
        # The joined stretch may have the direction that the one before it is compared with.
        at = max(first - 1, 0)
    return found


def _is_queue(parts: Parts, stretch: Stretch, other: Stretch) -> bool:
    """Whether a queue and no step explains a stretch whose packets bear the level of another one.

    A step changes the times of both directions. Here those of one are as before, or there are none.
    """
    bounds = _bounds(parts, stretch)
    if not all(np.isfinite(_bounds(parts, other))) or not _bears(parts, stretch, other.level):
        return False
    if not all(np.isfinite(bounds)):
        return True
    step = abs(stretch.level - other.level)
    noises = (parts.noise_below, parts.noise_above)
    return any(
        abs(bound - other.level) <= allowed(its_noise) < step / 2
        for bound, its_noise in zip(bounds, noises, strict=True)
    )


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
    """How far each part's packets are from a level, or by how much they contradict it, ns.

    A queue may delay packets by more than a step, so lateness beyond `allowed` counts a hundredth; but none
    arrives too early.
    """
    above, below = parts.above[which] - parts.half - level, parts.below[which] - parts.half + level
    nearer = np.minimum(above, below)
    late = np.minimum(nearer, parts.allowed + nearer / 100)
    return np.asarray(np.where(nearer < 0, -nearer, late), dtype=np.float64)


def _joined(one: Stretch, other: Stretch) -> Stretch:
    longer = max(one, other, key=lambda stretch: stretch.last - stretch.first)
    return Stretch(one.first, other.last, longer.level)
