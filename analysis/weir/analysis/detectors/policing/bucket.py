# SPDX-License-Identifier: Apache-2.0
"""A token bucket seen from its packets: what rate and burst explain which were dropped.

A policer with rate r and burst B drops a packet of length l when its tokens are below l, and takes l tokens
otherwise (RFC 2697, two colours). Turned round, the *backlog* D = B − tokens is what a leaky bucket holds: it
drains at r, never below 0, and each packet that passed adds its length. A packet meets *demand* v = D + l,
and

    dropped  ⟺  v > B.

D follows from r and the packets that passed, without B. So for each rate the best burst is the best threshold
on v, and one pass over the packets (Lindley's recursion as a running minimum) answers a rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Bools, Floats


@dataclass(frozen=True)
class Arrivals:
    """Packets in order of arrival at the policer, arrays of one length; times in seconds, lengths in bytes.

    `length` is what the policer counts of a packet (here: the Ethernet frame without FCS).
    """

    time_s: Floats
    length: Floats
    lost: Bools

    def __post_init__(self) -> None:
        """Refuse what would give a silent wrong answer."""
        if not len(self.time_s) == len(self.length) == len(self.lost):
            raise ValueError(
                f"{len(self.time_s)} times, {len(self.length)} lengths and {len(self.lost)} fates; "
                "each packet needs one of each"
            )

    def part(self, first: int, behind: int) -> Arrivals:
        """Packets `first` to before `behind`."""
        return Arrivals(self.time_s[first:behind], self.length[first:behind], self.lost[first:behind])

    @property
    def passed_before(self) -> Floats:
        """Bytes that passed before each packet."""
        passed = np.where(self.lost, 0.0, self.length)
        return np.cumsum(passed) - passed


@dataclass(frozen=True)
class Threshold:
    """The burst that separates best at one rate.

    `hits` losses meet more demand than the burst, `misses` losses less; `false_drops` packets passed
    although they met more. `score` = hits ÷ (hits + misses + false_drops), the critical success index: 1 is
    perfect, and packets that rightly pass, which are most, cannot flatter it. Any burst from `low` (met by
    a packet that passed) up to `high` (met by one that was lost) separates alike.
    """

    score: float
    low: float
    high: float
    hits: int
    misses: int
    false_drops: int

    @property
    def burst_bytes(self) -> float:
        """The middle of the bursts that separate alike."""
        return (self.low + self.high) / 2


def demand(packets: Arrivals, rate: float, initial_backlog: float = 0.0) -> Floats:
    """Backlog + own length in bytes that each packet meets at `rate` bytes/s; 0 at first is a full bucket."""
    level = packets.passed_before - rate * (packets.time_s - packets.time_s[0])
    floor = np.minimum(np.minimum.accumulate(level), -initial_backlog)
    result: Floats = level - floor + packets.length
    return result


def best_threshold(v: Floats, lost: Bools) -> Threshold:
    """The threshold on demand with the highest score; needs a loss. O(n log(losses))."""
    of_lost = np.sort(v[lost])
    of_passed = v[~lost]
    losses = len(of_lost)
    # reached[k]: packets that passed and met at least what the k-th smallest loss met.
    place = np.searchsorted(of_lost, of_passed, side="right")
    reached = np.cumsum(np.bincount(place, minlength=losses + 1)[::-1])[::-1][1:]
    hits = losses - np.arange(losses)
    scores = hits / (losses + reached)
    best = int(np.argmax(scores))
    below = of_passed[of_passed < of_lost[best]]
    low = float(below.max()) if len(below) else 0.0
    if best:
        low = max(low, float(of_lost[best - 1]))
    return Threshold(
        score=float(scores[best]),
        low=low,
        high=float(of_lost[best]),
        hits=int(hits[best]),
        misses=best,
        false_drops=int(reached[best]),
    )


def contradiction(
    packets: Arrivals, rates: Floats, bursts: Floats, scale_bytes: float, initial_backlog: Floats
) -> Floats:
    """How much fates contradict each bucket (rates and bursts of one length): Σ log(1 + x ÷ scale).

    x is by how many bytes a packet that passed met more than the burst, or one that was lost met less; the
    logarithm keeps a few fates that were inferred wrong from outweighing the rest. Unlike `demand`, what a
    fate says of the bucket is believed: after a packet that passed the backlog is at most the burst, and
    one that was lost met at least the burst. So an error in time costs once, not again with each packet
    behind it. One step per packet for all buckets together.
    """
    backlog = initial_backlog.copy()
    total = np.zeros(len(rates))
    now = float(packets.time_s[0])
    steps = zip(packets.time_s.tolist(), packets.length.tolist(), packets.lost.tolist(), strict=True)
    for time_s, length, lost in steps:
        backlog -= rates * (time_s - now)
        now = time_s
        np.maximum(backlog, 0.0, out=backlog)
        if lost:
            wrong = bursts - length - backlog
            np.maximum(backlog, bursts - length, out=backlog)
        else:
            backlog += length
            wrong = backlog - bursts
            np.minimum(backlog, bursts, out=backlog)
        if wrong.max() > 0:
            total += np.log1p(np.maximum(wrong, 0.0) / scale_bytes)
    return total
