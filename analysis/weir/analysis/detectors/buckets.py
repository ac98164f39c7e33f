# SPDX-License-Identifier: Apache-2.0
"""One bucket or two? Token buckets fitted to each flow alone and to both together.

Works where the measured flows are nearly all traffic of their buckets. Where other flows drain a bucket too,
the measured ones alone do not explain their losses, and the verdict is `cannot_tell`. Scores are of the time
in which both flows ran: what one does alone fits one bucket as well as two of the same rate and burst.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents, few_losses
from weir.analysis.detectors.policing.bucket import MIN_SKILL, Arrivals, demand, skill
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

    @property
    def two_fit_as_well(self) -> bool:
        """Whether a bucket of its own explains each flow's losses about as well as one explains both flows'.

        That is so of flows in step: behind two buckets alike they fit one of twice the size, too.
        """
        return self.together is None or self.alone is None or min(self.alone) >= self.together - BETTER

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
    if few := few_losses(a.lost, b.lost, MIN_LOSSES):
        return BucketsResult("cannot_tell", few)
    passed = min(int(np.count_nonzero(~a.lost)), int(np.count_nonzero(~b.lost)))
    if passed < MIN_LOSSES:
        reason = f"{plural(passed, 'packet')} of one of the flows passed; {MIN_LOSSES} are needed"
        return BucketsResult("cannot_tell", reason)
    start_ns = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    end_ns = min(int(a.sent_ns.max()), int(b.sent_ns.max()))
    lost = [flow.lost[(flow.sent_ns >= start_ns) & (flow.sent_ns <= end_ns)] for flow in (a, b)]
    losses = min(int(np.count_nonzero(its)) for its in lost)
    if losses < MIN_LOSSES:
        reason = f"{losses} losses in one of the flows while both ran; {MIN_LOSSES} are needed"
        return BucketsResult("cannot_tell", reason)
    fits = [_fit(start_ns, end_ns, *flows) for flows in ((a, b), (a,), (b,))]
    if None in fits:
        return BucketsResult("cannot_tell", "losses at one instant only")
    (bucket, together), *each = [fit for fit in fits if fit is not None]
    alone = (each[0][1], each[1][1])
    numbers = (together, alone, bucket.rate * 8, bucket.burst_bytes)
    scores = f"{together:.2f} of the losses explained together, {alone[0]:.2f} and {alone[1]:.2f} alone"
    of_both = skill(together, np.concatenate(lost))
    of_each = min(skill(score, its) for score, its in zip(alone, lost, strict=True))
    if together >= MIN_SCORE and of_both >= MIN_SKILL and together > max(alone) - BETTER:
        return BucketsResult("shared", f"one bucket fits better: {scores}", *numbers)
    if min(alone) >= MIN_SCORE and of_each >= MIN_SKILL and min(alone) > together + BETTER:
        return BucketsResult("separate", f"two buckets fit better: {scores}", *numbers)
    why = "neither one bucket nor two explain the losses"
    if together >= MIN_SCORE and of_both < MIN_SKILL:
        why = "so much was lost that any low rate explains most losses"
    return BucketsResult("cannot_tell", f"{why}: {scores}", *numbers)


def _fit(start_ns: int, end_ns: int, *flows: FlowEvents) -> tuple[BucketFit, float] | None:
    """The bucket of all packets, and its score over those of a part of the time."""
    at = np.concatenate([flow.sent_ns for flow in flows])
    order = np.argsort(at, kind="stable")
    at = at[order]
    sizes = np.concatenate([flow.size_bytes for flow in flows])[order]
    lost = np.concatenate([flow.lost for flow in flows])[order]
    packets = Arrivals((at - at[0]) / 1e9, sizes.astype(np.float64) + HEADERS_BYTES, lost)
    fit = fit_bucket(packets)
    if fit is None:
        return None
    its = (at >= start_ns) & (at <= end_ns)
    over = demand(packets, fit.rate, fit.initial_backlog) > fit.threshold.low
    return fit, int(np.count_nonzero(its & lost & over)) / int(np.count_nonzero(its & (lost | over)))
