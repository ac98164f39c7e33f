# SPDX-License-Identifier: Apache-2.0
"""The clocks of all hosts of a run, each beside one of them, from the packets between hosts.

Two hosts that exchange packets in both directions bound the difference of their clocks from both sides, so
no report of the switch is needed. Hosts form a tree of such exchanges. A step shows in the difference of two
clocks, and not which of them was set: a capture whose times go back tells it, or that all other hosts saw the
step, or else it is the clock that was set forward, as one that was set back shows it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from weir.analysis.tables import Floats, Ints
from weir.analysis.timing.bounds import NOTHING, Side
from weir.analysis.timing.moved import Piece, Step, apply
from weir.analysis.timing.parts import LEAST_STEP_NS
from weir.analysis.timing.records import Records, records_of
from weir.analysis.timing.track import Track, fit_track

TOGETHER_NS = 500_000_000
"""Steps that two hosts see at most so far apart are one, if their sizes agree …"""
ALIKE_NS, ALIKE = 1_000_000, 0.1
"""… within the larger of these, the second as a part of the size."""
NEAR_NS = 2_000_000_000
"""A host whose packets are so near to a step, before and after it, would have seen it."""
SURE = 2.0
"""A packet that is earlier than a line by so many times the line's error contradicts it."""


@dataclass(frozen=True)
class Stamps:
    """Packets from one host to another that both captured: times and numbers of their records.

    `delay_ns`: the least delay of the path that is known, by the configuration of its links.
    """

    sent_ns: Ints
    sent_record: Ints
    received_ns: Ints
    received_record: Ints
    delay_ns: int = 0

    def __len__(self) -> int:
        """The number of packets."""
        return len(self.sent_ns)


Exchanges = Mapping[tuple[str, str], Stamps]


@dataclass(frozen=True)
class Solved:
    """A host's clock beside the root's, whose steps are taken out; no track for the root itself.

    The host's clock is ahead of `pieces` by a difference within `bounds_ns`, infinite where packets of one
    direction only leave the delay open.
    """

    pieces: tuple[Piece, ...]
    track: Track | None = None
    bounds_ns: tuple[float, float] = (0.0, 0.0)


@dataclass
class Solution:
    """The clocks of connected hosts beside that of one of them, the root; tracks count from `origin_ns`."""

    root: str
    origin_ns: int
    hosts: dict[str, Solved] = field(default_factory=dict)


def records_of_hosts(exchanges: Exchanges) -> dict[str, Records]:
    """The known records of each host's capture."""
    numbers: dict[str, list[Ints]] = {}
    stamps: dict[str, list[Ints]] = {}
    for (source, target), packets in exchanges.items():
        numbers.setdefault(source, []).append(packets.sent_record)
        stamps.setdefault(source, []).append(packets.sent_ns)
        numbers.setdefault(target, []).append(packets.received_record)
        stamps.setdefault(target, []).append(packets.received_ns)
    return {host: records_of(np.concatenate(numbers[host]), np.concatenate(stamps[host])) for host in numbers}


def solve(exchanges: Exchanges, records: Mapping[str, Records]) -> list[Solution]:
    """The clocks of all hosts, one solution for each set of connected hosts, the largest first."""
    left = dict.fromkeys(records)
    found = []
    while left:
        root = max(left, key=lambda host: _packets(exchanges, host))
        solution = _from_root(root, exchanges, records)
        found.append(solution)
        for host in solution.hosts:
            left.pop(host, None)
    return found


def _packets(exchanges: Exchanges, host: str) -> int:
    return sum(len(packets) for pair, packets in exchanges.items() if host in pair)


def _from_root(root: str, exchanges: Exchanges, records: Mapping[str, Records]) -> Solution:
    origin = int(records[root].stamp_ns[0])
    solution = Solution(root, origin, {root: Solved(_unfolding(records[root]))})
    neighbours = _neighbours(root, exchanges, solution)
    tracks = {host: _track(root, host, exchanges, records, solution) for host in neighbours}
    own = _steps_of_root(root, tracks, records, origin)
    if own:
        solution.hosts[root] = Solved(_stepping(own, records[root]))
        tracks = {}
    waiting = [root]
    while waiting:
        parent = waiting.pop(0)
        for host in _neighbours(parent, exchanges, solution):
            known = tracks.get(host) if parent == root else None
            fitted = known or _track(parent, host, exchanges, records, solution)
            bounds = (fitted.bounds_ns, solution.hosts[parent].bounds_ns)
            before = solution.hosts[parent].track
            if before is not None:
                errors = (before.error, fitted.track.error)
                error = None if None in errors else sum(one or 0.0 for one in errors)
                fitted = replace(fitted, track=replace(fitted.track, error=error))
            solved = _solved(fitted, records[host], origin)
            lowest, highest = (sum(its) for its in zip(*bounds, strict=True))
            solution.hosts[host] = replace(solved, bounds_ns=(lowest, highest))
            waiting.append(host)
    return solution


def _neighbours(parent: str, exchanges: Exchanges, solution: Solution) -> list[str]:
    """Hosts without a clock yet that exchanged packets with a host, those with most packets back first."""
    counts: dict[str, tuple[int, int]] = {}
    for source, target in exchanges:
        other = target if source == parent else source
        if parent in (source, target) and other != parent and other not in solution.hosts:
            pairs = ((parent, other), (other, parent))
            there, back = (len(exchanges[pair]) if pair in exchanges else 0 for pair in pairs)
            counts[other] = (min(there, back), there + back)
    return sorted((host for host in counts if counts[host][1]), key=lambda host: counts[host], reverse=True)


@dataclass(frozen=True)
class _Way:
    """Packets in one direction: bounds on the difference, negated if `sign` is −1, and both records."""

    side: Side
    sign: int
    own_record: Ints
    parent_record: Ints

    def records(self, *, of_parent: bool) -> Ints:
        return self.parent_record if of_parent else self.own_record


@dataclass(frozen=True)
class _Fitted:
    """A host's clock beside the root's, less `base_ns`; times are on the root's clock."""

    track: Track
    base_ns: int
    ways: tuple[_Way, ...]

    @property
    def bounds_ns(self) -> tuple[float, float]:
        """How much lower and higher than the track the difference may be."""
        if self.track.error is not None:
            return -self.track.error, self.track.error
        # The track includes the delay: by packets to the host it is too high, by those from it too low.
        signs = {way.sign for way in self.ways}
        return (-np.inf if 1 in signs else 0.0), (np.inf if -1 in signs else 0.0)

    def around(self, step: int, *, of_parent: bool) -> tuple[int | None, int | None]:
        """The last record known to be before a step, and the first after it, of one of the hosts."""
        old, new = self.track.lines[step - 1 : step + 1]
        size = float(new.at(new.start) - old.at(new.start))
        middle = 0.5 * abs(size)
        window = TOGETHER_NS + (_gap_ns(-size) if of_parent else 0)
        # Packets beyond the steps next to this one belong to other lines.
        end = self.track.lines[step + 1].start if step + 1 < len(self.track.lines) else np.inf
        since, until = max(old.start, new.start - window), min(end, new.start + window)
        last: int | None = None
        first: int | None = None
        # A packet that is less too early may be mismatched, so it only counts between those two.
        for too_early in (middle, min(middle, SURE * (self.track.error or np.inf))):
            before: list[int] = []
            after: list[int] = []
            for way in self.ways:
                near = (way.side.x >= since) & (way.side.x <= until)
                record = way.records(of_parent=of_parent)
                if last is not None:
                    near &= record >= last
                if first is not None:
                    near &= record <= first
                x, y, record = way.side.x[near], way.side.y[near] - self.track.half, record[near]
                # A packet too early for one of the two lines belongs to the other one.
                early_for_new = y - way.sign * new.at(x) < -too_early
                early_for_old = y - way.sign * old.at(x) < -too_early
                before.extend(record[early_for_new & ~early_for_old].tolist())
                after.extend(record[early_for_old & ~early_for_new].tolist())
            last, first = max(before, default=last), min(after, default=first)
        return last, first


def _gap_ns(step_ns: float) -> int:
    """The length of the gap in the times of a clock that was set forward by so much; 0 if it was set back."""
    return max(round(step_ns), 0)


def _track(
    parent: str, host: str, exchanges: Exchanges, records: Mapping[str, Records], solution: Solution
) -> _Fitted:
    """The host's unfolded clock beside the root's, by its packets from and to a host whose clock is known."""
    pieces, origin = solution.hosts[parent].pieces, solution.origin_ns
    ways: list[tuple[Ints, Ints, int, Ints, Ints]] = []
    if (out := exchanges.get((parent, host))) is not None and len(out):
        here = apply(pieces, out.sent_record, out.sent_ns)
        there = records[host].unfolded(out.received_record, out.received_ns) - out.delay_ns
        ways.append((here, there, 1, out.received_record, out.sent_record))
    if (back := exchanges.get((host, parent))) is not None and len(back):
        here = apply(pieces, back.received_record, back.received_ns)
        there = records[host].unfolded(back.sent_record, back.sent_ns) + back.delay_ns
        ways.append((here, there, -1, back.sent_record, back.received_record))
    # Differences of two epochs exceed 2^53 ns; relative to one of them they fit a float64 exactly.
    base = int(ways[0][1][0] - ways[0][0][0])
    found = tuple(
        _Way(
            Side((here - origin).astype(np.float64), sign * (there - here - base).astype(np.float64)),
            sign,
            own_record,
            parent_record,
        )
        for here, there, sign, own_record, parent_record in ways
    )
    sides = {way.sign: way.side for way in found}
    track = fit_track(sides.get(1, NOTHING), sides.get(-1, NOTHING))
    return _Fitted(track, base, found)


def _unfolding(records: Records) -> tuple[Piece, ...]:
    """The pieces of a clock that is taken as it is, but for being set back."""
    firsts = [0, *records.set_back.tolist()]
    shifts = [0, *records.by_ns.tolist()]
    start = int(records.stamp_ns[0])
    return tuple(Piece(first, start - by, start, 0.0) for first, by in zip(firsts, shifts, strict=True))


def _steps_of_root(
    root: str, tracks: Mapping[str, _Fitted], records: Mapping[str, Records], origin: int
) -> list[tuple[int, int]]:
    """First records after the steps of the root's own clock, and their sizes."""
    set_back = {root: _set_back_ns(records[root], lambda x: np.zeros(len(x)), 0, origin)}
    for host, its in tracks.items():
        set_back[host] = _set_back_ns(records[host], its.track.at, its.base_ns, origin)
    seen = [
        (origin + round(at), round(size), host, number)
        for host, its in tracks.items()
        for number, (at, size) in enumerate(its.track.steps, start=1)
    ]
    found: list[tuple[int, int]] = []
    while seen:
        at, size = seen[0][:2]
        alike = max(ALIKE_NS, abs(size) * ALIKE)
        # If the root was set forward, no packet tells where in the gap of its times the step is.
        gap_ns = _gap_ns(-size)
        group = [
            one for one in seen if abs(one[0] - at) <= TOGETHER_NS + gap_ns and abs(one[1] - size) <= alike
        ]
        seen = [one for one in seen if one not in group]
        hosts = {host for _, _, host, _ in group}
        watching = {host for host, its in tracks.items() if _watches(its, at - origin, NEAR_NS + gap_ns)}
        most = len(hosts) > 1 and len(hosts) * 2 > len(watching)
        of_root = most if len(watching) > 1 else size < 0
        # After a step back, the time between its two records is what remains.
        if len(hosts) == 1:
            of_root = (of_root and not _near(at, set_back[min(hosts)])) or _near(at, set_back[root])
        if of_root:
            when, by = (round(np.median([one[part] for one in group])) for part in (0, 1))
            sides = [tracks[host].around(number, of_parent=True) for _, _, host, number in group]
            before = max((one for one, _ in sides if one is not None), default=None)
            after = min((one for _, one in sides if one is not None), default=None)
            found.append((_first_after(records[root], before, after, when, -by), -by))
    return sorted(found)


def _set_back_ns(records: Records, ahead: Callable[[Floats], Floats], base_ns: int, origin: int) -> list[int]:
    """When a host's clock was set back, on the root's clock."""
    at = np.searchsorted(records.number, records.set_back)
    shown = records.unfolded(records.number[at], records.stamp_ns[at]) - base_ns
    moved = shown - np.rint(ahead((shown - origin).astype(np.float64))).astype(np.int64)
    return [int(time_ns) for time_ns in moved]


def _near(at_ns: int, times: Sequence[int]) -> bool:
    return any(abs(at_ns - time_ns) <= TOGETHER_NS for time_ns in times)


def _watches(fitted: _Fitted, at_ns: int, near_ns: int) -> bool:
    times = np.concatenate([way.side.x for way in fitted.ways]) - at_ns
    return bool(np.any((times < 0) & (times > -near_ns)) and np.any((times > 0) & (times < near_ns)))


def _first_after(records: Records, before: int | None, after: int | None, at_ns: int, size_ns: int) -> int:
    """The first record after a step, which lies between two records, or about a host's unfolded time.

    That after which the clock was set back, else that after the longest time without any if it was set
    forward; if back, the one at which times go back, for a moment only, or the last that may be.
    """
    stamps = records.unfolded(records.number, records.stamp_ns)
    window = TOGETHER_NS + _gap_ns(size_ns)
    low, high = np.searchsorted(stamps, [at_ns - window, at_ns + window]).tolist()
    low = low if before is None else int(np.searchsorted(records.number, before))
    high = high if after is None else int(np.searchsorted(records.number, after))
    high = min(high, len(stamps) - 1)
    if high <= low:
        return int(records.number[high])
    back = records.set_back[
        (records.set_back > records.number[low]) & (records.set_back <= records.number[high])
    ]
    if len(back):
        return int(back[0])
    gaps = np.diff(stamps[low : high + 1])
    if size_ns < 0 and gaps.min() >= 0:
        return int(records.number[high])
    return int(records.number[low + 1 + int(np.argmax(gaps) if size_ns >= 0 else np.argmin(gaps))])


def _stepping(own: Sequence[tuple[int, int]], records: Records) -> tuple[Piece, ...]:
    """The root's pieces without its steps, given as the first records after them, and their sizes."""
    pieces = list(_unfolding(records))
    for first, size_ns in own:
        at = max(i for i, piece in enumerate(pieces) if piece.first_record <= first)
        later = [replace(piece, target_ns=piece.target_ns - size_ns) for piece in pieces[at:]]
        pieces[at + 1 :] = [replace(later[0], first_record=first), *later[1:]]
    return tuple(pieces)


def _solved(fitted: _Fitted, records: Records, origin: int) -> Solved:
    """The host's pieces: one from each of its steps and from each record after which it was set back."""
    track, base = fitted.track, fitted.base_ns
    starts: list[tuple[int, int]] = [(0, 0)]
    for number, (at, size) in enumerate(track.steps, start=1):
        # The host's own time in the middle of the step.
        middle = origin + round(at) + base + round(float(track.lines[number].at(at)) - size / 2)
        before, after = fitted.around(number, of_parent=False)
        starts.append((_first_after(records, before, after, middle, round(size)), number))
    firsts = sorted({first for first, _ in starts} | set(records.set_back.tolist()))
    sums = [0, *records.by_ns.tolist()]
    pieces = []
    for first in firsts:
        line = track.lines[max(number for begin, number in starts if begin <= first)]
        by = sums[int(np.searchsorted(records.set_back, first, side="right"))]
        drift = 1 / (1 + line.slope) - 1
        pieces.append(Piece(first, origin + base + round(line.level) - by, origin, drift))
    return Solved(tuple(pieces), track)


def steps_of(pieces: Sequence[Piece], records: Records) -> tuple[Step, ...]:
    """The steps of a host's clock beside the other one, without those that are too small to be told."""
    found: list[Step] = []
    for old, new in itertools.pairwise(pieces):
        at = min(int(np.searchsorted(records.number, new.first_record)), len(records.number) - 1)
        when = int(apply([new], records.number[at : at + 1], records.stamp_ns[at : at + 1])[0])
        size = new.source_at(when) - old.source_at(when)
        if found and when - found[-1].at_ns <= TOGETHER_NS:
            # Set back and the time between the two records of it, which only the packets show.
            found[-1] = Step(found[-1].at_ns, found[-1].size_ns + size)
        else:
            found.append(Step(when, size))
    return tuple(step for step in found if abs(step.size_ns) >= LEAST_STEP_NS)
