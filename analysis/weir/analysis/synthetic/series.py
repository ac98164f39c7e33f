# SPDX-License-Identifier: Apache-2.0
"""Two independent flows, each with a slowly changing loss rate: an autocorrelated null."""

from __future__ import annotations

import numpy as np
from scipy import signal

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Floats

PACKETS_PER_S = 1_000
PAYLOAD = 1448
RTT_NS = 20_000_000
STEP_S = 0.05
MEAN_LOSS = 0.04
CORRELATION_S = 4.0
"""Time in which the loss rate's autocorrelation falls to 1/e: tens of intervals of WeHeY's rule."""
SPREAD = 1.0
"""Standard deviation of log(loss rate)."""
RUN_S = 0.5e-3
"""Losses come in runs of about this length, as from an empty bucket."""


def modulated_pair(rng: np.random.Generator, seconds: float) -> tuple[FlowEvents, FlowEvents]:
    """Two independent flows; the log of each one's loss rate is an AR(1) process."""
    return _flow(rng, seconds), _flow(rng, seconds)


def _flow(rng: np.random.Generator, seconds: float) -> FlowEvents:
    count = int(PACKETS_PER_S * seconds)
    at_s = np.sort(rng.uniform(0, seconds, count))
    rate = _log_rate(rng, int(seconds / STEP_S) + 1)
    wanted = MEAN_LOSS * np.exp(rate[(at_s / STEP_S).astype(np.int64)] - SPREAD**2 / 2)
    begins = rng.random(count) < wanted / 2
    # Half of the packets within RUN_S after the start of a run are lost too.
    last = np.maximum.accumulate(np.where(begins, at_s, -1.0))
    lost = begins | ((at_s - last < RUN_S) & (rng.random(count) < 0.5))
    return FlowEvents((at_s * 1e9).astype(np.int64), np.full(count, PAYLOAD, dtype=np.int64), lost, RTT_NS)


def _log_rate(rng: np.random.Generator, steps: int) -> Floats:
    keep = float(np.exp(-STEP_S / CORRELATION_S))
    shocks = rng.normal(0, SPREAD * np.sqrt(1 - keep**2), steps)
    shocks[0] = rng.normal(0, SPREAD)
    result: Floats = signal.lfilter([1.0], [1.0, -keep], shocks)
    return result
