# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By all tests of losses together, where none of them is sure.

Each says something, but too little: losses met somewhat more often than by chance, or one bucket is a little
less likely than two. The logarithm of the odds of one policer is

    w · (1, z, t, t z, S, z_S, e, z_L, z_M, t_M, t_M z_M),

with z of the correlogram, S and z_S of the likelihood, evidence e of the level's response (0 without one),
z_L of the level and z_M of the memory (0 without one). t and t_M are log₂ of the expected z of correlogram
and memory ÷ `USUAL_Z` and `USUAL_MEMORY_Z` (t_M is 0 without a memory): the more packets of both flows could
have met, the more a small z says of two policers; of thin flows it says nothing. Each is clipped to `CLIPS`,
so that none outweighs all others. S counts only near 0: what is common to both flows over seconds makes it
large behind two policers as well.

The weights were found by logistic regression (ridge of 1) from 320 runs of `wehey-bbr` and `wehey-bbr-queue`
(seeds 21 to 24) and 220 simulated paths (seeds 0 to 109 and 11000 to 11109), the first with jitter of 0, 0.1
and 1 ms, the second with 5 and 10 ms.

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
from weir.analysis.detectors.memory import MemoryResult

FINE_NS = 1_000_000
"""Weights are the first ones up to this jitter, else the second ones."""
WEIGHTS = (
    (-2.12, 0.33, -0.19, 0.14, 0.094, 1.09, 0.94, -0.07, 0.45, -0.37, -0.30),
    (-1.05, 0.34, -0.78, 0.22, 0.075, 0.52, 1.22, 0.27, 0.66, 0.0, 0.0),
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
)
"""Of z, t, S, z_S, e, z_L, z_M and t_M."""
USUAL_Z, USUAL_MEMORY_Z = 12.0, 8.0
ENOUGH = 1.0, 1.5
"""Odds of 2.7 and 4.5 to 1. With weights from six sevenths of the runs and paths, of the other runs 0.8 %
behind one policer and 1.7 % behind two were wrong with jitter up to 1 ms, 0.3 and 2.2 % with 5 and 10 ms,
whatever decided; 3.6 and 15 % were undecided."""
MIN_LOSSES = 100


@dataclass(frozen=True)
class WeighedResult:
    """The verdict; `log_odds` is the natural logarithm of the odds of one policer."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    log_odds: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


def enough(jitter_ns: int) -> float:
    """The logarithm of the odds that decide at this jitter."""
    return ENOUGH[jitter_ns > FINE_NS]


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
    values = (
        correlogram.z,
        _size(correlogram.expected_z, USUAL_Z),
        likelihood.evidence,
        likelihood.z or 0.0,
        level.of_response,
        level.z or 0.0,
        memory.z or 0.0,
        0.0 if memory.z is None else _size(memory.expected_z, USUAL_MEMORY_Z),
    )
    clipped = (float(np.clip(value, *limits)) for value, limits in zip(values, CLIPS, strict=True))
    z, size, *others, z_memory, size_memory = clipped
    terms = (1.0, z, size, size * z, *others, z_memory, size_memory, size_memory * z_memory)
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    weights = WEIGHTS[jitter_ns > FINE_NS]
    log_odds = float(np.dot(weights, terms))
    found, other = ("one policer", "two") if log_odds > 0 else ("two policers", "one")
    said = (
        f"memory, level, correlogram (z = {correlogram.z:.1f}) and likelihood "
        f"(z = {likelihood.z or 0.0:.1f}) together make {found} {np.exp(abs(log_odds)):.1f} times "
        f"as likely as {other}"
    )
    if abs(log_odds) < enough(jitter_ns):
        needed = f"{np.exp(enough(jitter_ns)):.1f} times is needed"
        return WeighedResult("cannot_tell", f"{said}; {needed}", log_odds)
    return WeighedResult("shared" if log_odds > 0 else "separate", said, log_odds)


def _size(expected_z: float | None, usual: float) -> float:
    """How many times as large as usual z of one bucket would be; log₂."""
    return float(np.log2(max(expected_z or 0.0, 1.0) / usual))
