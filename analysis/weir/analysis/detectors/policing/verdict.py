# SPDX-License-Identifier: Apache-2.0
"""What a policing detector says of a flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from weir.analysis.traces import FlowTrace

PolicingVerdict = Literal["policed", "not_policed", "insufficient_loss"]

MIN_LOSSES = 15
"""Fewer losses say too little of what dropped them (as Flach et al., whose detector asks for 15 too)."""


@dataclass(frozen=True)
class FlowVerdict:
    """The verdict on one flow; rate and burst are those of a policer, None where none was found.

    Both count Ethernet frames without FCS, the rate in bit/s. `detail` holds the numbers behind the reason.
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
"""All flows of a capture in, one verdict per flow out, in their order."""
