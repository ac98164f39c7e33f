# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By level, correlogram and likelihood together, where none of them is sure.

Each says something, but too little: losses met somewhat more often than by chance, or one bucket is a little
less likely than two. The logarithm of the odds of one policer is

    w · (1, z, S, z_S, e, z_L),

with z of the correlogram, S and z_S of the likelihood, evidence e of the level's response (0 without one) and
z_L of the level, each clipped to `CLIPS`, so that none outweighs all others. The weights were found by
logistic regression (ridge of 1) from 240 runs of `wehey-bbr` and `wehey-bbr-queue` (seeds 16 to 18) and 400
simulated paths (seeds 0 to 199 and 11000 to 11199), with jitter of 0, 0.1 and 1 ms, and of 5 and 10 ms. S
counts only near 0: what is common to both flows over seconds makes it large behind two policers as well.

Flows with few losses are not weighed: their z near 0 is no sign of two policers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.correlogram import CorrelogramResult
from weir.analysis.detectors.events import FlowEvents, after_start, few_losses, statistics_of
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import LikelihoodResult

FINE_NS = 1_000_000
"""Weights are the first ones up to this jitter, else the second ones."""
WEIGHTS = (-2.67, 0.93, 0.153, 0.79, 1.20, 0.29), (-2.23, 0.56, 0.153, 0.66, 0.93, 0.30)
CLIPS = (-1.0, 4.0), (-8.0, 8.0), (-1.0, 4.0), (-5.0, 5.0), (-1.0, 4.0)
"""Of z, S, z_S, e and z_L."""
ENOUGH = 1.25
"""Odds of 3.5 to 1. With weights from six sevenths of the runs and paths, of the other runs 0.8 % behind one
policer and 1.1 % behind two were wrong with jitter up to 1 ms, and 2.1 and 0.8 % with 5 and 10 ms, whatever
decided; 7.5 and 20 % were undecided. Of the paths that were decided so, 91 and 83 % were right."""
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


def weighed(
    a: FlowEvents,
    b: FlowEvents,
    level: LevelResult,
    correlogram: CorrelogramResult,
    likelihood: LikelihoodResult,
) -> WeighedResult:
    """Do two flows share a policer? See the module's text; the tests are those of these flows."""
    if correlogram.z is None or likelihood.evidence is None:
        return WeighedResult("cannot_tell", (likelihood if correlogram.z is not None else correlogram).reason)
    start_ns, end_ns = after_start(a, b)
    lost = [flow.lost[(flow.sent_ns >= start_ns) & (flow.sent_ns <= end_ns)] for flow in (a, b)]
    if few := few_losses(lost[0], lost[1], MIN_LOSSES):
        return WeighedResult("cannot_tell", f"while both flows ran, {few}")
    values = (correlogram.z, likelihood.evidence, likelihood.z or 0.0, level.of_response, level.z or 0.0)
    weights = WEIGHTS[max(a.jitter_ns, b.jitter_ns) > FINE_NS]
    clipped = (float(np.clip(value, *limits)) for value, limits in zip(values, CLIPS, strict=True))
    log_odds = weights[0] + sum(weight * value for weight, value in zip(weights[1:], clipped, strict=True))
    found, other = ("one policer", "two") if log_odds > 0 else ("two policers", "one")
    said = (
        f"level, correlogram (z = {correlogram.z:.1f}) and likelihood (z = {likelihood.z or 0.0:.1f}) "
        f"together make {found} {np.exp(abs(log_odds)):.1f} times as likely as {other}"
    )
    if abs(log_odds) < ENOUGH:
        return WeighedResult("cannot_tell", f"{said}; {np.exp(ENOUGH):.1f} times is needed", log_odds)
    return WeighedResult("shared" if log_odds > 0 else "separate", said, log_odds)
