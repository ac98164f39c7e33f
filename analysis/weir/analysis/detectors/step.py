# SPDX-License-Identifier: Apache-2.0
"""Do two flows send in step, so that they lose in step behind two policers as well?

Flows with the same RTT that start at the same moment behind two policers alike have the same windows, and the
same packets are dropped. Without the noise of machines, as in virtual time, they stay in step to the
microsecond: of CUBIC's packets 11 to 99 % were within 30 µs of one of the other flow, 1 % by chance.
Behind one policer such flows take tokens from each other and part: 3 % at most. With `c` the part of packets
that meet by chance, and `f` of those that do meet, the measure is

    (f − c) ÷ (1 − c)

of the flow that has less of it; `c` is that of the same flows shifted by some RTTs.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.memory import largest_tau
from weir.analysis.tables import Ints

IN_STEP = 0.1
"""At least this much counts. Of 50 simulated paths (seeds 0 to 24), with jitter of 0 and 0.1 ms, none had
more than 0.07; CUBIC flows in step had 0.1 to 1 without jitter, and 0.22 to 0.65 with 0.1 ms."""
PART_OF_TAU, TIMES_JITTER = 0.05, 2
"""Packets meet that are nearer than this part of the largest τ (`memory.py`) or so many times the jitter."""
MOST_OF_TAU = 0.5
"""Where the jitter makes that more, nothing is said."""
MIN_PACKETS = 30
MOST_DISTANCES = 1_000_000
SHIFTS_RTTS = tuple(2 + 0.37 * number for number in range(10))


def in_step(a: FlowEvents, b: FlowEvents) -> float | None:
    """How much two flows are in step: 0 or less is not at all, 1 entirely.

    None if the times are too coarse to tell, or the flows have too few packets while both run.
    """
    if min(len(a.sent_ns), len(b.sent_ns)) < MIN_PACKETS:
        return None
    start, end = max(a.sent_ns.min(), b.sent_ns.min()), min(a.sent_ns.max(), b.sent_ns.max())
    if start >= end:
        return None
    tau_ns = largest_tau(a, b, int(start), int(end)) * 1e9
    near_ns = max(PART_OF_TAU * tau_ns, TIMES_JITTER * max(a.jitter_ns, b.jitter_ns))
    if near_ns > MOST_OF_TAU * tau_ns:
        return None
    one, other = np.sort(a.sent_ns), np.sort(b.sent_ns)
    one = one + _usual_distance(one, other, max(a.clock_error_ns, b.clock_error_ns), near_ns)
    start, end = max(one[0], other[0]), min(one[-1], other[-1])
    one, other = (at[(at >= start) & (at <= end)] for at in (one, other))
    if min(len(one), len(other)) < MIN_PACKETS:
        return None
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    measures = []
    for mine, theirs in ((one, other), (other, one)):
        chance = []
        for shift_ns in (sign * int(rtts * rtt_ns) for rtts in SHIFTS_RTTS for sign in (1, -1)):
            shifted = mine + shift_ns
            inside = shifted[(shifted >= start) & (shifted <= end)]
            if len(inside):
                chance.append(_met(inside, theirs, near_ns))
        by_chance = float(np.mean(chance)) if chance else 1.0
        if by_chance >= 1:
            return None
        measures.append((_met(mine, theirs, near_ns) - by_chance) / (1 - by_chance))
    return min(measures)


def _met(mine: Ints, theirs: Ints, near_ns: float) -> float:
    """The part of packets that one of the others is near to; both in order of time."""
    after = np.searchsorted(theirs, mine)
    before = np.abs(mine - theirs[np.maximum(after - 1, 0)])
    until = np.abs(theirs[np.minimum(after, len(theirs) - 1)] - mine)
    return float(np.mean(np.minimum(before, until) <= near_ns))


def _usual_distance(one: Ints, other: Ints, error_ns: int, near_ns: float) -> int:
    """The most frequent distance from a packet to one of the other flow, of all within the clocks' error."""
    if error_ns <= 0:
        return 0
    first, until = (
        np.searchsorted(other, one - error_ns),
        np.searchsorted(other, one + error_ns, side="right"),
    )
    every = 1 + int((until - first).sum()) // MOST_DISTANCES
    one, first, count = one[::every], first[::every], (until - first)[::every]
    if not count.any():
        return 0
    since = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    distances = other[np.repeat(first, count) + since] - np.repeat(one, count)
    bins = ((distances + error_ns) // near_ns).astype(np.int64)
    return int(np.median(distances[bins == np.bincount(bins).argmax()]))
