# SPDX-License-Identifier: Apache-2.0
"""Token buckets and the packets that they drop: how well do a rate and a burst explain the losses?

A policer with rate r and burst B drops a packet of length l when its tokens are below l, and takes l tokens
otherwise (RFC 2697, two colours). Equivalently, the *backlog* D = B − tokens is the level of a leaky bucket:
it drains at r, never below 0, and each packet that passed adds its length. With a packet's *demand* v = D +
l,

    dropped  ⟺  v > B.

D follows from r and the packets that passed, without B. So the best burst for a rate is the best threshold on
v, found in one pass over the packets (Lindley's recursion as a running minimum).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weir.analysis.tables import Bools, Floats

MIN_SKILL = 0.5
"""Smallest skill score of a bucket that counts as the cause of the losses."""


@dataclass(frozen=True)
class Arrivals:
    """Packets in order of arrival at the policer, arrays of one length; times in seconds, lengths in bytes.

    `length` is the metered length (here: the Ethernet frame without FCS).
    """

    time_s: Floats
    length: Floats
    lost: Bools

    def __post_init__(self) -> None:
        """Refuse input that would give a wrong answer silently."""
        if not len(self.time_s) == len(self.length) == len(self.lost):
            raise ValueError(
                f"{len(self.time_s)} times, {len(self.length)} lengths and {len(self.lost)} loss flags; "
                "each packet needs one of each"
            )

    def part(self, first: int, end: int) -> Arrivals:
        """The packets from `first` up to, not including, `end`."""
        return Arrivals(self.time_s[first:end], self.length[first:end], self.lost[first:end])

    @cached_property
    def passed_before(self) -> Floats:
        """Bytes that passed before each packet."""
        passed = np.where(self.lost, 0.0, self.length)
        return np.cumsum(passed) - passed


@dataclass(frozen=True)
class Threshold:
    """The burst that best separates lost packets from passed ones at one rate.

    Of the losses, `hits` have a demand above the burst and `misses` below; `false_drops` packets passed with
    a demand above it. `score` = hits ÷ (hits + misses + false_drops), the critical success index: 1 is
    perfect, and the many packets that rightly pass do not raise it. Any burst from `low` (the demand of a
    packet that passed) up to `high` (the demand of a lost one) separates equally well.
    """

    score: float
    low: float
    high: float
    hits: int
    misses: int
    false_drops: int

    @property
    def burst_bytes(self) -> float:
        """The middle of the bursts that separate equally well."""
        return (self.low + self.high) / 2


def demand(packets: Arrivals, rate: float, initial_backlog: float = 0.0) -> Floats:
    """Each packet's backlog + length in bytes, at `rate` bytes/s; initial backlog 0 is a full bucket."""
    level = packets.passed_before - rate * (packets.time_s - packets.time_s[0])
    floor = np.minimum(np.minimum.accumulate(level), -initial_backlog)
    result: Floats = level - floor + packets.length
    return result


def best_threshold(v: Floats, lost: Bools) -> Threshold:
    """The threshold on demand with the highest score; needs a loss. O(n log(losses))."""
    of_lost = np.sort(v[lost])
    of_passed = v[~lost]
    losses = len(of_lost)
    # reached[k]: packets that passed with at least the demand of the k-th smallest loss. Near the right rate
    # few of them have the demand of any loss, and numpy sorts faster than it searches for unsorted values.
    above = np.sort(of_passed[of_passed >= of_lost[0]])
    reached = len(above) - np.searchsorted(above, of_lost, side="left")
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


def skill(score: float, lost: Bools) -> float:
    """The skill score of a bucket, with a bucket that drops every packet as the reference.

    The reference scores the share of lost packets, so any low rate scores high where nearly all are lost. At
    most 1; 0 where no packet passed.
    """
    share = float(np.mean(lost))
    return (score - share) / (1 - share) if share < 1 else 0.0


def contradiction(
    packets: Arrivals, rates: Floats, bursts: Floats, scale_bytes: float, initial_backlog: Floats
) -> Floats:
    """How much the packets contradict each bucket (rates and bursts of one length): Σ log(1 + x ÷ scale).

    x are the `contradictions`; the logarithm limits the weight of wrongly inferred losses.
    """
    total = np.zeros(len(rates))
    for wrong in contradictions(packets, rates, bursts, initial_backlog):
        if wrong.max() > 0:
            total += np.log1p(np.maximum(wrong, 0.0) / scale_bytes)
    return total


def contradictions(
    packets: Arrivals, rates: Floats, bursts: Floats, initial_backlog: Floats
) -> Iterator[Floats]:
    """By how many bytes each packet contradicts each bucket; at most 0 where it does not.

    The demand of a passed packet may exceed the burst, or that of a lost one fall short of it. Unlike in
    `demand`, each packet corrects the backlog: after one that passed it is at most the burst, and a lost one
    had at least that demand. So an error in time counts once, not again with every later packet. Each step
    treats one packet for all buckets.
    """
    backlog = initial_backlog.copy()
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
        yield wrong
