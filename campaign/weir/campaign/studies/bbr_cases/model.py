# SPDX-License-Identifier: Apache-2.0
"""A test case and its criteria; the judges' helpers: stays in states, rounds, growth of the bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weir.analysis.bbr_track import PROBE_RTT, BbrTrack, Stay
from weir.campaign.studies.runs import SEGMENT_BYTES

GROWTH = 1.25
"""Growth of the bandwidth in a round with which BBR's pipe is not full."""


@dataclass(frozen=True)
class Criterion:
    """One thing that a test case verifies."""

    says: str
    holds: bool | None
    """None if the run could not show it: its condition did not occur, or the kernel does not tell it."""
    seen: str


@dataclass(frozen=True)
class Conditions:
    """The path of a run; rates are those of payload in full frames."""

    rate_bps: float
    """Of the bottleneck, at first."""
    policed_bps: float | None
    changes: tuple[tuple[float, float], ...]
    """Times of changes (s) and the bottleneck's rate from then on."""
    dropped: int
    """Packets that switch and links lost."""


Judge = Callable[[BbrTrack, Conditions], Sequence[Criterion]]


@dataclass(frozen=True)
class Case:
    """A test case: its heading in the text, the part of the campaign that is its run, and its judge."""

    name: str
    part: str
    judge: Judge


def verdict(criteria: Sequence[Criterion]) -> bool | None:
    """Whether a case holds: all that could be judged does; None if nothing could."""
    known = [one.holds for one in criteria if one.holds is not None]
    return all(known) if known else None


def unseen(says: str, why: str) -> Criterion:
    """A criterion that the run could not show, and why."""
    return Criterion(says, None, why)


def followed(track: BbrTrack, state: str, after_s: float = 0.0) -> Iterator[tuple[Stay, Stay | None]]:
    """Each stay in a state that begins after a time, with the next one; None after the last."""
    stays = track.stays
    for number, stay in enumerate(stays):
        if stay.state == state and track.time_s[stay.begin] >= after_s:
            yield stay, stays[number + 1] if number + 1 < len(stays) else None


def left(track: BbrTrack, state: str, after_s: float = 0.0) -> list[tuple[Stay, Stay]]:
    """The stays in a state that ended before the flow did, with the next ones."""
    return [(stay, after) for stay, after in followed(track, state, after_s) if after is not None]


def first_end(track: BbrTrack, state: str) -> tuple[Stay, Stay] | None:
    """The first stay in a state that PROBE_RTT did not interrupt, and the next one; None if it has no end."""
    found = ((stay, after) for stay, after in left(track, state) if after.state != PROBE_RTT)
    return next(found, None)


def seconds(track: BbrTrack, stay: Stay) -> float:
    """How long a stay lasted."""
    end = min(stay.end, len(track.time_s) - 1)
    return float(track.time_s[end] - track.time_s[stay.begin])


def rounds_without_growth(track: BbrTrack, stay: Stay) -> int:
    """Round trips at the end of a stay in which the bandwidth grew by less than 25 % (BBR.full_bw_count)."""
    # The state changes at the end of a round, and is seen with the next sample.
    ends = [stay.begin, *track.rounds(stay.begin, min(stay.end + 2, len(track.time_s)))]
    baseline, count = 0.0, 0
    for at in ends:
        bandwidth = float(track.max_bw_bps[at])
        if bandwidth >= GROWTH * baseline:
            baseline, count = bandwidth, 0
        else:
            count += 1
    return count


def retransmitted(track: BbrTrack, stay: Stay) -> float:
    """Segments retransmitted during a stay."""
    return float(track.retransmitted[min(stay.end, len(track.time_s) - 1)] - track.retransmitted[stay.begin])


def slack(track: BbrTrack, at: int) -> float:
    """Segments by which inflight may exceed its bound: three bursts (bbr_quantization_budget), one sample."""
    per_s = track.bandwidth_bps[at] / 8 / SEGMENT_BYTES
    burst = min(max(2.0, per_s / 1024), 65_536 / SEGMENT_BYTES)
    return float(3 * burst + 2 + per_s * np.median(np.diff(track.time_s)))
