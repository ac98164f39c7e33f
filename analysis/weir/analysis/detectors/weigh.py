# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By all tests of losses together, where none of them is sure.

Each says something, but too little: losses met somewhat more often than by chance, or one bucket is a little
less likely than two. The logarithm of the odds of one policer is

    w · (1, z, t, t z, S, z_S, e, z_L, z_M),

with z of the correlogram, S and z_S of the likelihood, evidence e of the level's response (0 without one),
z_L of the level and z_M of the memory (0 without one). t is log₂ of the correlogram's expected z ÷ `USUAL_Z`:
the more packets of both flows could have met, the more a z near 0 says of two policers; of thin flows it says
nothing. Each is clipped to `CLIPS`, so that none outweighs all others. S counts only near 0: what is common
to both flows over seconds makes it large behind two policers as well.

The weights were found by logistic regression (ridge of 1) from 400 runs of `wehey-bbr` and `wehey-bbr-queue`
(seeds 16 to 20) and 400 simulated paths (seeds 0 to 199 and 11000 to 11199), the first with jitter of 0, 0.1
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
    (-3.03, 0.47, -1.25, 0.59, 0.263, 0.72, 1.16, 0.20, 0.48),
    (-2.12, 0.45, -1.14, 0.64, 0.152, 0.59, 0.64, 0.32, 0.68),
)
CLIPS = (-1.0, 4.0), (-2.0, 2.0), (-8.0, 8.0), (-1.0, 4.0), (-5.0, 5.0), (-1.0, 4.0), (-2.0, 4.0)
"""Of z, t, S, z_S, e, z_L and z_M."""
USUAL_Z = 12.0
ENOUGH = 1.0, 1.25
"""Odds of 2.7 and 3.5 to 1. With weights from six sevenths of the runs and paths, of the other runs 1.2 %
behind one policer and 1.2 % behind two were wrong with jitter up to 1 ms, 3.5 and 0.8 % with 5 and 10 ms,
whatever decided; 4.2 and 20 % were undecided. Of the paths that were decided so, 89 and 85 % were right."""
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
        float(np.log2(max(correlogram.expected_z or 0.0, 1.0) / USUAL_Z)),
        likelihood.evidence,
        likelihood.z or 0.0,
        level.of_response,
        level.z or 0.0,
        memory.z or 0.0,
    )
    z, size, *others = (float(np.clip(value, *limits)) for value, limits in zip(values, CLIPS, strict=True))
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    weights = WEIGHTS[jitter_ns > FINE_NS]
    log_odds = float(np.dot(weights, (1.0, z, size, size * z, *others)))
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
