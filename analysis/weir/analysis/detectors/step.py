# SPDX-License-Identifier: Apache-2.0
"""Do two flows send in step, so that they lose in step behind two policers as well?

Flows with the same RTT that start at the same moment behind two policers alike have the same windows, and the
same packets are dropped. Without the noise of machines, as in virtual time, they stay in step to the
microsecond: of CUBIC's packets 11 to 99 % were within 30 µs of one of the other flow, 1 % by chance.
Behind one policer such flows take tokens from each other and part: 3 % at most. With `c` the part of packets
that meet by chance, and `f` of those that do meet, the measure is

    (f − c) ÷ (1 − c)

of the flow that has less of it; `c` is that of the same flows shifted by some RTTs.

Jitter hides that. But such flows also send as much, and lose in the same bursts in their slow start. Later
they part, or never. Flows of one bucket go on to lose together, though not always, or they compete and send
different amounts.
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
ALIKE, BURST_NS, START_NS, TOGETHER, ALWAYS = 0.03, 50_000_000, 10**9, 0.45, 0.9
"""Numbers of packets of flows alike differ by less than the first, as a part of the larger one. Their losses
in bins of the second correlate by more than `TOGETHER`, but after the third no longer, or by `ALWAYS`. With
jitter of 1 ms that was so for 29 of 36 pairs of equal flows that started together behind two policers alike,
and for one of 36 behind one; of other flows for one of 80 behind one (`wehey-bbr`), whose later losses
correlated by 0.88 at most."""
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


def alike(a: FlowEvents, b: FlowEvents) -> bool:
    """Whether both flows send as much, and lose at the same times in their start only, or nearly always."""
    if min(len(a.sent_ns), len(b.sent_ns)) < MIN_PACKETS:
        return False
    start_ns = int(max(a.sent_ns.min(), b.sent_ns.min()))
    end_ns = int(min(a.sent_ns.max(), b.sent_ns.max()))
    sent = [np.count_nonzero((flow.sent_ns >= start_ns) & (flow.sent_ns <= end_ns)) for flow in (a, b)]
    if min(sent) <= (1 - ALIKE) * max(sent):
        return False
    later_ns = start_ns + min(START_NS, (end_ns - start_ns) // 2)
    later = _losses_together(a, b, later_ns, end_ns)
    return _losses_together(a, b, start_ns, end_ns) > TOGETHER and not TOGETHER < later < ALWAYS


def _losses_together(a: FlowEvents, b: FlowEvents, start_ns: int, end_ns: int) -> float:
    """The correlation of both flows' losses in bins; 0 without losses."""
    bins = max((end_ns - start_ns) // BURST_NS, 2)
    counts = [np.histogram(flow.sent_ns[flow.lost], bins, (start_ns, end_ns))[0] for flow in (a, b)]
    one, other = (each - each.mean() for each in counts)
    scale = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / scale if scale > 0 else 0.0


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
