# SPDX-License-Identifier: Apache-2.0
"""Policer or queue? Both can drop the same packets; only a queue delays the others.

A drop-tail queue of Q bytes on a link of rate r drops the same packets as a policer of burst Q and rate r,
with the same backlog D. But in the queue a packet waits D ÷ r. A shaper with a token bucket of b bytes before
its queue passes the first b bytes without delay: the wait is max(0, D − b) ÷ r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from weir.analysis.tables import Floats

MIN_SAMPLES = 20
STEPS = 24
EXPLAINED = 0.4
"""A queue must explain this part of the RTT's mean absolute deviation."""
FOLLOWS, RISES = 0.6, 0.1
"""Or the RTT must follow the backlog with this rank correlation, and rise by this part of burst ÷ rate: few
losses leave the rate uncertain. Behind simulated queues both were at least 0.61 and 0.16. Behind policers
jitter made the first up to 0.67, but the second at most 0.05."""
SHARE = 0.1
"""The part of the samples with the lowest and with the highest backlog whose RTTs are reported."""


@dataclass(frozen=True)
class Wait:
    """The queue that best explains the RTTs by the backlog.

    `explained` is the part of the RTT's mean absolute deviation that vanishes without the queue's delay,
    `correlation` the rank correlation of RTT and backlog, `full_s` the wait in a full queue.
    """

    explained: float
    queue_bytes: float
    rtt_low_s: float
    rtt_high_s: float
    correlation: float
    full_s: float

    @property
    def is_queue(self) -> bool:
        """Whether packets waited as in a queue."""
        rises = self.rtt_high_s - self.rtt_low_s >= RISES * self.full_s
        return self.explained >= EXPLAINED or (self.correlation >= FOLLOWS and rises)

    def would_show(self, jitter_s: float) -> bool:
        """Whether the RTTs are steady enough to show a queue."""
        return jitter_s < RISES * self.full_s


def wait_in_queue(backlog: Floats, rtt_s: Floats, rate: float, burst_bytes: float) -> Wait | None:
    """Compare RTTs with the backlog (bytes) at their packets; None with too few samples."""
    if len(rtt_s) < MIN_SAMPLES or rate <= 0:
        return None
    alone = _deviation(rtt_s)
    best, queue = alone, 0.0
    for free in np.linspace(0.0, burst_bytes, STEPS, endpoint=False):
        waits = np.clip(backlog - free, 0.0, burst_bytes - free) / rate
        left = _deviation(rtt_s - waits)
        if left < best:
            best, queue = left, burst_bytes - float(free)
    order = np.argsort(backlog)
    share = max(int(len(order) * SHARE), 5)
    return Wait(
        explained=1 - best / alone if alone > 0 else 0.0,
        queue_bytes=queue,
        rtt_low_s=float(np.median(rtt_s[order[:share]])),
        rtt_high_s=float(np.median(rtt_s[order[-share:]])),
        correlation=_rank_correlation(backlog, rtt_s),
        full_s=burst_bytes / rate,
    )


def _deviation(values: Floats) -> float:
    return float(np.mean(np.abs(values - np.median(values))))


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's; 0 where one of them is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(stats.spearmanr(one, other).statistic)
