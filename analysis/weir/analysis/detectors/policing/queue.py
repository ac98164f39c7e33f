# SPDX-License-Identifier: Apache-2.0
"""Policer or queue? Both drop what exceeds a bucket; only a queue makes packets wait.

A drop-tail queue of Q bytes on a link of rate r drops the same packets as a policer of burst Q and rate r:
its backlog is the bucket's. But a packet that finds the backlog D waits D ÷ r. A shaper with a token bucket
of b bytes in front of its queue lets the first b bytes through at once: the wait is max(0, D − b) ÷ r.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Floats

MIN_SAMPLES = 20
STEPS = 24
EXPLAINED = 0.4
"""A queue is believed when it explains this part of the RTT's absolute deviations."""
SHARE = 0.1
"""Samples at the highest backlog that are compared with the rest."""


@dataclass(frozen=True)
class Wait:
    """How the RTT follows the backlog: the best queue and what it explains.

    `explained` is the part of the mean absolute deviation of the RTT that the queue takes away.
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
    """Compare RTTs with the backlog (bytes) that their packets met; None with too few samples."""
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
