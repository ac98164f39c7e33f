# SPDX-License-Identifier: Apache-2.0
"""One bucket or two? Token buckets fitted to each flow alone and to both together.

Works where the measured flows are nearly all traffic of their buckets. Where other flows drain a bucket too,
the measured ones alone do not explain their losses, and the verdict is `cannot_tell`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.policing.bucket import MIN_SKILL, Arrivals, skill
from weir.analysis.detectors.policing.fit import BucketFit, fit_bucket
from weir.rundir.plural import plural

MIN_SCORE = 0.6
BETTER = 0.05
MIN_LOSSES = 15
HEADERS_BYTES = 66


@dataclass(frozen=True)
class BucketsResult:
    """The verdict; scores are losses explained ÷ (losses + packets that should have been lost)."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    together: float | None = None
    alone: tuple[float, float] | None = None
    rate_bps: float | None = None
    burst_bytes: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return {
            "score_together": self.together,
            "scores_alone": self.alone,
            "rate_bps": self.rate_bps,
            "burst_bytes": self.burst_bytes,
        }


def one_bucket_or_two(a: FlowEvents, b: FlowEvents) -> BucketsResult:
    """Do the flows' packets together fit one bucket better than two?"""
    losses = min(int(np.count_nonzero(a.lost)), int(np.count_nonzero(b.lost)))
    if losses < MIN_LOSSES:
        return BucketsResult(
            "cannot_tell", f"{plural(losses, 'loss', 'losses')} in one of the flows; {MIN_LOSSES} are needed"
        )
    passed = min(int(np.count_nonzero(~a.lost)), int(np.count_nonzero(~b.lost)))
    if passed < MIN_LOSSES:
        reason = f"{plural(passed, 'packet')} of one of the flows passed; {MIN_LOSSES} are needed"
        return BucketsResult("cannot_tell", reason)
    together = _fit(a, b)
    one, other = _fit(a), _fit(b)
    if together is None or one is None or other is None:
        return BucketsResult("cannot_tell", "losses at one instant only")
    alone = (one.score, other.score)
    numbers = (together.score, alone, together.rate * 8, together.burst_bytes)
    scores = f"{together.score:.2f} of the losses explained together, {alone[0]:.2f} and {alone[1]:.2f} alone"
    of_both = skill(together.score, np.concatenate([a.lost, b.lost]))
    of_each = min(skill(score, flow.lost) for score, flow in zip(alone, (a, b), strict=True))
    if together.score >= MIN_SCORE and of_both >= MIN_SKILL and together.score > max(alone) - BETTER:
        return BucketsResult("shared", f"one bucket fits better: {scores}", *numbers)
    if min(alone) >= MIN_SCORE and of_each >= MIN_SKILL and min(alone) > together.score + BETTER:
        return BucketsResult("separate", f"two buckets fit better: {scores}", *numbers)
    why = "neither one bucket nor two explain the losses"
    if together.score >= MIN_SCORE and of_both < MIN_SKILL:
        why = "so much was lost that any low rate explains most losses"
    return BucketsResult("cannot_tell", f"{why}: {scores}", *numbers)


def _fit(*flows: FlowEvents) -> BucketFit | None:
    at = np.concatenate([flow.sent_ns for flow in flows])
    order = np.argsort(at, kind="stable")
    sizes = np.concatenate([flow.size_bytes for flow in flows])[order]
    lost = np.concatenate([flow.lost for flow in flows])[order]
    return fit_bucket(
        Arrivals((at[order] - at[order[0]]) / 1e9, sizes.astype(np.float64) + HEADERS_BYTES, lost)
    )
