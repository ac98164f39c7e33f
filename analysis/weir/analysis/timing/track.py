# SPDX-License-Identifier: Apache-2.0
"""The difference of two clocks as lines between steps, from packets in one direction or in both.

Each line lies within the bounds and as close to them as it can: from one direction it is the lower envelope
(S. Moon, P. Skelly, D. Towsley, "Estimation and removal of clock skew from network delay measurements",
INFOCOM 1999), so it includes the least delay; from both, it is the middle of the two envelopes, which is
right if the least delays of both directions are equal, and wrong by at most half their sum.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from weir.analysis.clocks import MAX_DRIFT_PPM, lower_envelope_line
from weir.analysis.errors import ClockError
from weir.analysis.tables import Floats
from weir.analysis.timing.bounds import Grid, Side, grid_of, noise, usual_slope
from weir.analysis.timing.parts import Parts, parts_of
from weir.analysis.timing.steps import Stretch, divide, jumps, least_of

ROUNDS = 3
"""Steps and drift are found in turn, as each is needed to find the other; more rounds change nothing."""
LEAST_LINE_PARTS, LEAST_LINE_NS = 24, 5e9
"""Fewer parts, or a shorter time, do not show a drift of their own: it is that of the whole."""
MISMATCHED_NS, NEAR = 1_000_000.0, 8
"""A packet that is so much earlier than all others of so many parts around it is mismatched."""
FEW_PACKETS = 16
"""So few packets of one direction do not show by themselves how close to the least delay they are."""
SURE = 3.0
"""Standard errors within which the drift is."""


@dataclass(frozen=True)
class Line:
    """The difference is level + slope × x from x = `start` on, ns."""

    start: float
    level: float
    slope: float
    doubt: float = 0.0
    """By how much more it may be wrong: packets of one direction were delayed, and which one is not known."""

    def at(self, x: Floats | float) -> Floats:
        """The difference at times, ns."""
        return np.asarray(self.level + self.slope * np.asarray(x), dtype=np.float64)


@dataclass(frozen=True)
class Track:
    """The difference of two clocks over time; x and all else in ns.

    `residual` is the median, over equal parts of the time, of the distance from the nearer bound; `spread`
    is the 95th percentile of all bounds' distances in the better direction. `error`: the difference is wrong
    by at most this much: half the least delays of both directions, which need not be equal, and a step too
    small to be seen; at least what the packets leave open if no clock was set. From `FEW_PACKETS` or fewer of
    one direction it holds at their times, and for clocks that were not set in between. Where too few parts of
    the time have packets to see any step, it holds in those parts only. None from one direction; if too few
    parts have packets to see a step, and none has packets of both directions, which leaves open how much of
    the difference is delay, or those of one contradict each other: there is a step among them then; if few
    packets show a step, and one side of it has none of one direction.
    """

    lines: tuple[Line, ...]
    residual: float
    spread: float
    error: float | None
    packets: int
    both: bool = False
    """Whether there are packets of both directions."""
    half: float = 0.0
    """Half the least delays of both directions; 0 from one."""

    def at(self, x: Floats) -> Floats:
        """The difference at times."""
        which = self.piece_of(x)
        levels, slopes = (
            np.array([getattr(line, name) for line in self.lines]) for name in ("level", "slope")
        )
        return np.asarray(levels[which] + slopes[which] * x, dtype=np.float64)

    def piece_of(self, x: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The line that holds at each time."""
        starts = np.array([line.start for line in self.lines[1:]])
        return np.searchsorted(starts, x, side="right").astype(np.int64)

    @property
    def steps(self) -> tuple[tuple[float, float], ...]:
        """Time and size between lines; less than `LEAST_STEP_NS` is a drift that changed, no step."""
        pairs = zip(self.lines, self.lines[1:], strict=False)
        return tuple((new.start, float(new.at(new.start) - old.at(new.start))) for old, new in pairs)

    def moved(self, by: float) -> Track:
        """The same track, higher by a constant."""
        return replace(self, lines=tuple(replace(line, level=line.level + by) for line in self.lines))


def fit_track(above: Side, below: Side) -> Track:
    """The difference of two clocks that it is at most (`above`) and at least (`below`, negated).

    Raises ClockError without any packet.
    """
    if not len(above) + len(below):
        raise ClockError("no packet was stamped by both clocks, so they cannot be aligned")
    grid = grid_of(above, below)
    above, below = _without_lone(above, grid), _without_lone(below, grid)
    slope = _first_slope(above, below, grid)
    parts, stretches = _divided(above, below, grid, slope)
    unsure = float("inf")
    for _ in range(ROUNDS):
        change, unsure = _slope_left(parts, stretches, grid)
        if change == 0 or abs(slope + change) * 1e6 > MAX_DRIFT_PPM:
            break
        slope += change
        parts, stretches = _divided(above, below, grid, slope)
    lines = tuple(_line(parts, stretch, grid, slope) for stretch in stretches)
    lines = (replace(lines[0], start=-np.inf), *lines[1:])
    lines = _with_boundaries(lines, stretches, above, below, grid, parts.half)
    track = _judged(lines, above, below, parts.least_step, max(2 * parts.half, 0.0))
    return _widened(track, above, below, slope, min(SURE * unsure, MAX_DRIFT_PPM * 1e-6))


def _divided(above: Side, below: Side, grid: Grid, slope: float) -> tuple[Parts, list[Stretch]]:
    least_above = grid.least(above.without(slope))
    least_below = grid.least(below.without(-slope))
    parts = parts_of(least_above, least_below)
    stretches = divide(parts)
    if not _explained(parts, least_above, least_below, stretches):
        parts = parts_of(least_above, least_below, steps=False)
        stretches = divide(parts)
    # A drift that is not quite right looks like many small steps, without a jump between neighbours.
    kept = stretches[:1]
    for stretch in stretches[1:]:
        if abs(_jump(parts, kept[-1], stretch)) < parts.least_step:
            kept[-1] = replace(kept[-1], last=stretch.last)
        else:
            kept.append(stretch)
    return parts, kept


def _explained(parts: Parts, above: Floats, below: Floats, stretches: list[Stretch]) -> bool:
    """Whether a step was found beside each part that was left out because a step happened in it."""
    left_out = np.flatnonzero(np.isfinite(above) & ~np.isfinite(parts.above)).tolist()
    gaps = [(one.last - 1, other.first + 1) for one, other in itertools.pairwise(stretches)]
    return all(any(first <= part <= last for first, last in gaps) for part in left_out)


def _jump(parts: Parts, one: Stretch, other: Stretch) -> float:
    """By how much the difference steps between two stretches, by the parts next to the step."""
    by_direction = zip((parts.noise_above, parts.noise_below), jumps(parts, one, other), strict=True)
    found = [(its_noise, jump) for its_noise, jump in by_direction if np.isfinite(jump)]
    return min(found, key=lambda jump: jump[0])[1] if found else other.level - one.level


def _first_slope(above: Side, below: Side, grid: Grid) -> float:
    found = []
    for side, sign in ((above, 1.0), (below, -1.0)):
        slope, error = usual_slope(grid.least(side), grid.middles)
        found.append((error, sign * slope))
    error, slope = min(found)
    return slope if np.isfinite(error) and abs(slope) * 1e6 <= MAX_DRIFT_PPM else 0.0


def _slope_left(parts: Parts, stretches: list[Stretch], grid: Grid) -> tuple[float, float]:
    """The drift that is left once the steps are taken out, and its standard error: 0 and inf if unknown."""
    moved = np.zeros(grid.count)
    for one, other in itertools.pairwise(stretches):
        moved[other.first :] += _jump(parts, one, other)
    found = []
    for least, sign in ((parts.above - moved, 1.0), (parts.below + moved, -1.0)):
        slope, error = usual_slope(least, grid.middles)
        found.append((error, sign * slope))
    error, slope = min(found)
    return (slope if np.isfinite(error) else 0.0), error


def _line(parts: Parts, stretch: Stretch, grid: Grid, slope: float) -> Line:
    """The line of a stretch, its bounds without `slope`; its start is refined later."""
    inside = slice(stretch.first, stretch.last + 1)
    above, below = (_envelope(grid.middles[inside], least[inside]) for least in (parts.above, parts.below))
    start, middle = float(grid.start + grid.width * stretch.first), float(np.mean(grid.middles[inside]))
    ends = grid.middles[[stretch.first, stretch.last]] - middle
    heights = [level + own * middle for own, level in (above, below)]
    # The larger sum of the two ends decides whether both directions count, as for `Parts.level`.
    wider = float(np.max((above[0] + below[0]) * ends))
    finite, doubt = bool(np.all(np.isfinite(heights))), 0.0
    if finite and sum(heights) + wider <= parts.floor + parts.least_step:
        level, own = (heights[0] - heights[1]) / 2, (above[0] - below[0]) / 2
    else:
        by_above = _by_above(parts, stretch, grid.middles, above, below)
        if finite and by_above is None and not parts.is_known(*least_of(parts, stretch)):
            doubt = max(sum(heights) - parts.floor, 0.0)
        if by_above or (by_above is None and parts.above_is_better):
            level, own = heights[0] - parts.half, above[0]
        else:
            level, own = parts.half - heights[1], -below[0]
    if abs(slope + own) * 1e6 > MAX_DRIFT_PPM:
        own = 0.0
    return Line(start, level - own * middle, slope + own, doubt)


def _by_above(
    parts: Parts, stretch: Stretch, middles: Floats, above: tuple[float, float], below: tuple[float, float]
) -> bool | None:
    """Whether the line of a stretch is the envelope of the bounds from above, else of those from below.

    Not if bounds of the other direction contradict it: a queue that fills in mid-stretch tilts an envelope.
    None if nothing decides.
    """
    inside = slice(stretch.first, stretch.last + 1)
    borne = []
    for (own, level), others in ((above, parts.below[inside]), (below, parts.above[inside])):
        sums = level + own * middles[inside] + others
        lacks = float(np.max(2 * parts.half - sums, initial=-np.inf, where=np.isfinite(others)))
        borne.append((np.isfinite(level), lacks <= parts.allowed))
    return stretch.by_above if borne[0] == borne[1] else borne[0] > borne[1]


def _envelope(x: Floats, least: Floats) -> tuple[float, float]:
    """Slope and intercept of the line below the least bounds; inf without any."""
    known = np.isfinite(least)
    if not np.any(known):
        return 0.0, float("inf")
    x, y = x[known], least[known]
    if len(x) >= LEAST_LINE_PARTS and x[-1] - x[0] >= LEAST_LINE_NS:
        return lower_envelope_line(x, y)
    return 0.0, float(np.min(y))


def _with_boundaries(
    lines: tuple[Line, ...], stretches: list[Stretch], above: Side, below: Side, grid: Grid, half: float
) -> tuple[Line, ...]:
    """The lines, each from the moment on at which packets contradict the one before it."""
    found = [lines[0]]
    for i in range(1, len(lines)):
        old, new = lines[i - 1], lines[i]
        left = grid.start + grid.width * stretches[i - 1].last
        right = grid.start + grid.width * (stretches[i].first + 1)
        step = float(new.at(new.start) - old.at(new.start))
        middle = 0.5 * abs(step)
        before: list[float] = []
        after: list[float] = []
        for side, sign in ((above, 1.0), (below, -1.0)):
            near = side.select((side.x >= left) & (side.x <= right))
            # A packet too early for one of the two lines belongs to the other one.
            early_for_new = near.y - half - sign * new.at(near.x) < -middle
            early_for_old = near.y - half - sign * old.at(near.x) < -middle
            before.extend(near.x[early_for_new & ~early_for_old].tolist())
            after.extend(near.x[early_for_old & ~early_for_new].tolist())
        first = min(after, default=max(before, default=left))
        last = max(before, default=first)
        found.append(replace(new, start=float(np.nextafter((last + first) / 2, np.inf))))
    return tuple(found)


def _without_lone(side: Side, grid: Grid) -> Side:
    """Without packets that are far below all others near them: mismatched ones, as none arrives too early."""
    if len(side) < 16:
        return side
    for _ in range(3):
        least = grid.least(side)
        if not np.isfinite(noise(least)):
            break
        allowed = max(MISMATCHED_NS, 20 * noise(least))
        padded = np.pad(least, NEAR, constant_values=np.inf)
        shifts = [shift for shift in range(2 * NEAR + 1) if shift != NEAR]
        around = np.min([padded[shift : shift + grid.count] for shift in shifts], axis=0)
        part = grid.of(side.x)
        lone = side.y < around[part] - allowed
        lone &= np.bincount(part[lone], minlength=grid.count)[part] <= 2
        lone &= np.isfinite(around[part])
        if not np.any(lone):
            break
        side = side.select(~lone)
    return side


def _judged(lines: tuple[Line, ...], above: Side, below: Side, unseen: float, delays: float) -> Track:
    """The lines with their quality, moved to the middle of the bounds; smaller steps are `unseen`.

    `delays`: the sum of the least delays of both directions, 0 if unknown.
    """
    bare = Track(lines, 0.0, 0.0, None, len(above) + len(below))
    sides = [side for side in (above, below) if len(side)]
    grid = grid_of(*sides)
    distances = [side.y - sign * bare.at(side.x) for side, sign in ((above, 1.0), (below, -1.0)) if len(side)]
    parts = [grid.least(Side(side.x, distance)) for side, distance in zip(sides, distances, strict=True)]
    # Which side of a step a packet is on that arrived just then is not always known.
    for part in grid.of(np.array([line.start for line in lines[1:]], dtype=np.float64)).tolist():
        for least in parts:
            least[max(part - 1, 0) : part + 2] = np.inf
    floors = [float(np.min(least)) if np.any(np.isfinite(least)) else 0.0 for least in parts]
    excess = np.array([least - floor for least, floor in zip(parts, floors, strict=True)])
    error = None
    if len(sides) == 2:
        if not np.isfinite(unseen) and np.min(parts[0] + parts[1]) > -1.0:
            # The bounds themselves are left: the line is above one of them and below the other.
            both = np.max(excess, axis=0)
            unseen = float(np.max(both, initial=-np.inf, where=np.isfinite(both)))
        if np.isfinite(unseen):
            # Negative where packets contradict the lines, which then are wrong by as much beside the delays.
            half = sum(floors) / 2 if sum(floors) >= 0 else delays - sum(floors) / 2
            error = half + unseen + max(line.doubt for line in lines)
        bare = replace(bare.moved((floors[0] - floors[1]) / 2), half=sum(floors) / 2, both=True)
    else:
        bare = bare.moved(floors[0] if len(above) else -floors[0])
    nearest = np.min(excess, axis=0)
    known = nearest[np.isfinite(nearest)]
    spreads = [
        float(np.percentile(distance - floor, 95)) for distance, floor in zip(distances, floors, strict=True)
    ]
    residual = float(np.median(known)) if len(known) else 0.0
    return replace(bare, residual=residual, spread=min(spreads), error=error)


def _widened(track: Track, above: Side, below: Side, slope: float, drift: float) -> Track:
    """The track with an error that holds for every difference which its packets allow if no clock was set.

    `drift`: by how much more or less than `slope` the difference may drift. Few packets of one direction are
    no evidence of a step as long as they allow that there was none; if they do not, each line is judged
    alone.
    """
    few = min(len(above), len(below)) <= FEW_PACKETS
    if track.error is None or not (few or len(track.lines) == 1):
        return track
    above, below = above.without(slope), below.without(-slope)
    furthest = _furthest(track, above, below, slope, drift)
    if furthest is None and few:
        alone = [
            _furthest(track, its_above, its_below, slope, drift)
            for its_above, its_below in zip(_by_line(track, above), _by_line(track, below), strict=True)
        ]
        furthest = max((one for one in alone if one is not None), default=None)
        furthest = None if None in alone else furthest
    if furthest is None:
        return replace(track, error=None) if few else track
    return replace(track, error=max(track.error, furthest))


def _by_line(track: Track, side: Side) -> list[Side]:
    which = track.piece_of(side.x)
    return [side.select(which == number) for number in range(len(track.lines))]


def _furthest(track: Track, above: Side, below: Side, slope: float, drift: float) -> float | None:
    """How far the track may be from what bounds without `slope` allow; None if they contradict each other."""
    x = np.concatenate([above.x, below.x])
    highest, lowest = above.at(x, drift), -below.at(x, drift)
    level = track.at(x) - slope * x
    furthest = float(np.max(np.maximum(highest - level, level - lowest), initial=0.0))
    contradicted = bool(np.any(highest - lowest < -1.0))
    return None if contradicted or not np.isfinite(furthest) else furthest
