# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By all tests of losses together, where none of them is sure.

Each says something, but too little: losses met somewhat more often than by chance, or one bucket is a little
less likely than two. The logarithm of the odds of one policer is

    w · (1, z, t, t z, S, z_S, e, z_L, z_M, t_M, t_M z_M, z_R, z_Q),

with z of the correlogram, S and z_S of the likelihood, evidence e of the level's response (0 without one),
z_L of the level, z_M of the memory (0 without one), z_R of the loss rates (`loss_rates.py`) and z_Q of the
delays of a queue (`queue_delays.py`; 0 without RTTs). t and t_M are log₂ of the expected z of correlogram and
memory ÷ `USUAL_Z` and `USUAL_MEMORY_Z` (t_M is 0 without a memory): the more packets of both flows could have
met, the more a small z says of two policers; of thin flows it says nothing. Each is clipped to `CLIPS`, so
that none outweighs all others. S counts only near 0: what is common to both flows over seconds makes it large
behind two policers as well.

The weights were found by logistic regression (ridge of 1) from 720 runs of `wehey-bbr` and `wehey-bbr-queue`
(seeds 21 to 29, jitter of 0, 0.1, 1, 5 and 10 ms) and 220 simulated paths (seeds 0 to 109 and 11000 to
11109; 0, 1, 5 and 10 ms), for each of three classes of estimated jitter. For flows of usual size (t and t_M
of 0) no test counts against what it found: the weights of z, S, z_S, e, z_L, z_M, z_R and z_Q are not below
0. Those of t and t_M are not above 0; those of the products are free.

Flows with few losses are not weighed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.correlogram import CorrelogramResult
from weir.analysis.detectors.events import FlowEvents, few_after_start, statistics_of
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import LikelihoodResult
from weir.analysis.detectors.loss_rates import loss_rates_z
from weir.analysis.detectors.memory import MAX_JITTER_NS, MemoryResult
from weir.analysis.detectors.queue_delays import queue_delays_z

FINE_NS = 1_400_000
"""Weights are the first ones up to `MAX_JITTER_NS`, the second ones up to this jitter, else the third ones.
In runs jitter of 1 ms is estimated as 0.2 to 1.6 ms, 5 ms as 1.2 to 2.9 ms."""
WEIGHTS = (
    (-2.53, 0.21, 0.00, 0.11, 0.093, 1.06, 0.90, 0.00, 0.39, -1.06, -0.20, 0.06, 0.15),
    (-2.18, 0.25, -0.54, 0.05, 0.119, 0.71, 1.00, 0.15, 0.61, -0.28, -0.42, 0.36, 0.36),
    (-1.58, 0.31, -1.03, 0.18, 0.111, 0.34, 0.69, 0.01, 0.39, -0.60, -0.16, 0.55, 0.20),
)
CLIPS = (
    (-1.0, 4.0),
    (-2.0, 2.0),
    (-16.0, 16.0),
    (-1.0, 4.0),
    (-5.0, 5.0),
    (-1.0, 4.0),
    (-2.0, 4.0),
    (-2.0, 2.0),
    (-1.0, 6.0),
    (-1.0, 6.0),
)
"""Of z, t, S, z_S, e, z_L, z_M, t_M, z_R and z_Q."""
USUAL_Z, USUAL_MEMORY_Z = 12.0, 8.0
ENOUGH = 1.0, 1.1, 1.5
"""Odds of 2.7, 3.0 and 4.5 to 1, for each class of jitter."""
MIN_LOSSES = 100


@dataclass(frozen=True)
class WeighedResult:
    """The verdict; `log_odds` is the natural logarithm of the odds of one policer."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    log_odds: float | None = None
    loss_rates_z: float | None = None
    queue_delays_z: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


def enough(jitter_ns: int) -> float:
    """The logarithm of the odds that decide at this jitter."""
    return ENOUGH[_class(jitter_ns)]


def _class(jitter_ns: int) -> int:
    return int(jitter_ns > MAX_JITTER_NS) + int(jitter_ns > FINE_NS)


def weighed(
    a: FlowEvents,
    b: FlowEvents,
    memory: MemoryResult,
    level: LevelResult,
    correlogram: CorrelogramResult,
    likelihood: LikelihoodResult,
) -> WeighedResult:
    """Do two flows share a policer? See the module's text; the tests are those of these flows."""
    if correlogram.z is None or likelihood.evidence is None:
        return WeighedResult("cannot_tell", (likelihood if correlogram.z is not None else correlogram).reason)
    if few := few_after_start(a, b, MIN_LOSSES):
        return WeighedResult("cannot_tell", few)
    rates_z, queue_z = loss_rates_z(a, b), queue_delays_z(a, b)
    values = (
        correlogram.z,
        _size(correlogram.expected_z, USUAL_Z),
        likelihood.evidence,
        likelihood.z or 0.0,
        level.of_response,
        level.z or 0.0,
        memory.z or 0.0,
        0.0 if memory.z is None else _size(memory.expected_z, USUAL_MEMORY_Z),
        rates_z or 0.0,
        queue_z or 0.0,
    )
    clipped = (float(np.clip(value, *limits)) for value, limits in zip(values, CLIPS, strict=True))
    z, size, *others, z_memory, size_memory, z_rates, z_queue = clipped
    of_memory = (z_memory, size_memory, size_memory * z_memory)
    terms = (1.0, z, size, size * z, *others, *of_memory, z_rates, z_queue)
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    weights = WEIGHTS[_class(jitter_ns)]
    log_odds = float(np.dot(weights, terms))
    found, other = ("one policer", "two") if log_odds > 0 else ("two policers", "one")
    said = (
        f"memory, level, correlogram (z = {correlogram.z:.1f}), likelihood (z = {likelihood.z or 0.0:.1f}), "
        f"loss rates (z = {rates_z or 0.0:.1f}) and delays of a queue (z = {queue_z or 0.0:.1f}) together "
        f"make {found} {np.exp(abs(log_odds)):.1f} times as likely as {other}"
    )
    if abs(log_odds) < enough(jitter_ns):
        needed = f"{np.exp(enough(jitter_ns)):.1f} times is needed"
        return WeighedResult("cannot_tell", f"{said}; {needed}", log_odds, rates_z, queue_z)
    return WeighedResult("shared" if log_odds > 0 else "separate", said, log_odds, rates_z, queue_z)


def _size(expected_z: float | None, usual: float) -> float:
    """How many times as large as usual z of one bucket would be; log₂."""
    return float(np.log2(max(expected_z or 0.0, 1.0) / usual))
