# SPDX-License-Identifier: Apache-2.0
"""The result of a policing detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from weir.analysis.traces import FlowTrace

PolicingVerdict = Literal["policed", "not_policed", "insufficient_loss", "cannot_tell"]

MIN_LOSSES = 15
"""Fewer losses do not show their cause (the detector of Flach et al. needs 15 too)."""


@dataclass(frozen=True)
class FlowVerdict:
    """The verdict on one flow; rate and burst are those of a policer, None where none was found.

    Both count Ethernet frames without FCS, the rate in bit/s. `detail` holds the statistics of the verdict.
    """

    flow: str
    verdict: PolicingVerdict
    reason: str
    rate_bps: float | None = None
    burst_bytes: float | None = None
    detail: dict[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "flow": self.flow,
            "verdict": self.verdict,
            "rate_bps": self.rate_bps,
            "burst_bytes": self.burst_bytes,
            "reason": self.reason,
            "detail": self.detail,
        }


PolicingDetector = Callable[[Sequence[FlowTrace]], list[FlowVerdict]]
"""Takes all flows of a capture; returns one verdict per flow, in their order."""
