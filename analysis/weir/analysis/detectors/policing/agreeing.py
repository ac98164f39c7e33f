# SPDX-License-Identifier: Apache-2.0
"""The buckets that agree with the fate of every packet, where times are exact.

In virtual time a capture has the times at which packets reach the policer, but for a constant. So the true
bucket contradicts no packet, and with flat priors for log(rate) and burst all buckets that contradict none
are equally likely. They are an area in the plane of both, narrow and oblique: more tokens from a higher rate
allow for a smaller burst. So the grid follows the line through it, and becomes finer in both directions.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.policing.bucket import Arrivals, best_threshold, contradiction, demand
from weir.analysis.detectors.policing.weighted import LIKELY, Estimate, estimate, weights_of
from weir.analysis.tables import Floats

POINTS, ROUNDS = 21, 9
ENOUGH = POINTS // 3
"""Likely points of each axis at which its grid is fine enough."""
TAIL = 3.0
"""Of the errors' density, as in `fit.py`; they are so small that it hardly counts."""
CONTRADICTED = 0.5
"""A cost of the best bucket above it is a contradiction: an error as large as the resolution costs log 2."""


def agreeing_buckets(
    packets: Arrivals,
    part: tuple[int, int],
    rates: tuple[float, float],
    reach_bytes: float,
    resolution_bytes: float,
    initial_backlog: float,
) -> tuple[Estimate, Estimate] | None:
    """Rate and burst of the buckets that contradict no packet of the `part` (first and end).

    The search begins with rates between the two and bursts within `reach_bytes` of the best threshold.
    None where a packet contradicts each of the last grid by more than about `resolution_bytes`.
    """
    first, end = part
    tested = packets.part(first, end)
    low, high = np.log(rates)
    near, far = -reach_bytes, reach_bytes
    line: Floats | None = None
    for _ in range(ROUNDS):
        logs, offsets = np.linspace(low, high, POINTS), np.linspace(near, far, POINTS)
        met = [demand(packets, float(np.exp(at)), initial_backlog) for at in logs]
        if line is None:
            middles = np.array([best_threshold(v, packets.lost).burst_bytes for v in met])
        else:
            middles = np.polyval(line, logs)
        bursts = np.maximum(middles[:, None] + offsets, packets.length.max())
        backlog = np.array([v[first] - packets.length[first] for v in met])
        starts = np.minimum(np.repeat(backlog, POINTS), bursts.ravel())
        each = np.repeat(np.exp(logs), POINTS)
        cost = contradiction(tested, each, bursts.ravel(), resolution_bytes, starts)
        weights = weights_of(cost, TAIL).reshape(bursts.shape)
        of_rates, of_offsets = weights.sum(axis=1), weights.sum(axis=0)
        likely = np.flatnonzero(of_rates > LIKELY)
        likely_offsets = np.flatnonzero(of_offsets > LIKELY)
        if min(len(likely), len(likely_offsets)) > ENOUGH:
            break
        step, offset = logs[1] - logs[0], offsets[1] - offsets[0]
        if len(likely) > ENOUGH // 2:
            line, above = _line(logs, bursts, weights)
            near, far = float(above.min() - offset), float(above.max() + offset)
        elif line is None:
            near, far = (
                float(offsets[likely_offsets[at]] + sign * offset) for at, sign in ((0, -1), (-1, 1))
            )
        low, high = (float(logs[likely[at]] + sign * step) for at, sign in ((0, -1), (-1, 1)))
    if cost.min() > CONTRADICTED:
        return None
    rate = estimate(logs, of_rates)
    return (
        Estimate(*(float(np.exp(at)) for at in (rate.mean, rate.low, rate.high))),
        estimate(bursts.ravel(), weights.ravel()),
    )


def _line(logs: Floats, bursts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The line of burst by log(rate) through the likely buckets, and how far above it each of them is."""
    middle = float(np.sum(weights.sum(axis=1) * logs))
    burst = float(np.sum(weights * bursts))
    apart = (logs - middle)[:, None]
    slope = float(np.sum(weights * apart * (bursts - burst)) / np.sum(weights * apart**2))
    line = np.array([slope, burst - slope * middle])
    above: Floats = (bursts - np.polyval(line, logs)[:, None])[weights > LIKELY / POINTS]
    return line, above
