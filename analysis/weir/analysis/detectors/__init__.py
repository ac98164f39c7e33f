# SPDX-License-Identifier: Apache-2.0
"""Detectors of a shared policer: pure functions from two flows' events to a verdict with reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from weir.analysis.detectors.buckets import one_bucket_or_two
from weir.analysis.detectors.correlation import RESAMPLED, TRENDS
from weir.analysis.detectors.correlogram import loss_correlogram
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.level import bucket_level
from weir.analysis.detectors.likelihood import bucket_likelihood
from weir.analysis.detectors.memory import frame_memory
from weir.analysis.detectors.rfc8382 import rfc8382
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.detectors.wehey import loss_trend_correlation
from weir.analysis.errors import UnknownDetectorError

Verdict = Literal["shared", "separate", "cannot_tell"]


class PairResult(Protocol):
    """The result of a detector of pairs: verdict, reason in words, statistics."""

    @property
    def verdict(self) -> Verdict: ...  # noqa: D102

    @property
    def reason(self) -> str: ...  # noqa: D102

    def detail(self) -> dict[str, object]:
        """The statistics that led to the verdict, ready for JSON."""
        ...


PairDetector = Callable[[FlowEvents, FlowEvents], PairResult]

PAIR_DETECTORS: dict[str, PairDetector] = {
    "shared": shared_policer,
    "frame-memory": frame_memory,
    "bucket-level": bucket_level,
    "bucket-likelihood": bucket_likelihood,
    "loss-correlogram": loss_correlogram,
    "buckets": one_bucket_or_two,
    "wehey_loss_trend": loss_trend_correlation,
    "rfc8382": rfc8382,
    **RESAMPLED,
    **TRENDS,
}
"""Detectors of two flows by the name that `weir detect`, `weir evaluate` and `result.json` use."""

NEED_EXACT_TIMES = (
    "shared",
    "frame-memory",
    "bucket-level",
    "bucket-likelihood",
    "loss-correlogram",
    "buckets",
)
"""They must know how exact the times are; the others assume bins that are coarse enough."""

RUN_DETECTORS = ("wehey_loss_trend", "shared")
"""The detectors that judge every run: the published one and ours."""


def pair_detector(name: str) -> PairDetector:
    """The detector of that name; raises UnknownDetectorError, which names the valid ones."""
    try:
        return PAIR_DETECTORS[name]
    except KeyError:
        raise UnknownDetectorError(
            f"no detector {name!r} of pairs; valid: {', '.join(PAIR_DETECTORS)}"
        ) from None


__all__ = [
    "NEED_EXACT_TIMES",
    "PAIR_DETECTORS",
    "RUN_DETECTORS",
    "FlowEvents",
    "PairDetector",
    "PairResult",
    "Verdict",
    "loss_trend_correlation",
    "pair_detector",
]
