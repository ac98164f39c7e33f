# SPDX-License-Identifier: Apache-2.0
"""Policer or queue? Both can drop the same packets; only a queue delays the others.

A drop-tail queue of Q bytes on a link of rate r drops the same packets as a policer of burst Q and rate r,
with the same backlog D. But in the queue a packet waits D ÷ r. A shaper with a token bucket of b bytes before
its queue passes the first b bytes without delay: the wait is max(0, D − b) ÷ r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Floats

MIN_SAMPLES = 20
STEPS = 24
EXPLAINED = 0.4
"""A queue must explain this part of the RTT's mean absolute deviation."""
SHARE = 0.1
"""The part of the samples with the lowest and with the highest backlog whose RTTs are reported."""


@dataclass(frozen=True)
class Wait:
    """The queue that best explains the RTTs by the backlog.

    `explained` is the part of the RTT's mean absolute deviation that vanishes without the queue's delay.
    """

    explained: float
    queue_bytes: float
    rtt_low_s: float
    rtt_high_s: float

    @property
    def is_queue(self) -> bool:
        """Whether packets waited as in a queue."""
        return self.explained >= EXPLAINED


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
    )


def _deviation(values: Floats) -> float:
    return float(np.mean(np.abs(values - np.median(values))))
