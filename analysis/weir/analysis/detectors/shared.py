# SPDX-License-Identifier: Apache-2.0
"""The detector `shared`: the bucket's memory of one frame first, fitted buckets where that is undecided.

The memory test (`memory.py`) needs few assumptions and gives a p-value. Fitted buckets (`buckets.py`) need
the two flows to be nearly all traffic of the policer, but then use every packet. Slow trends are evidence in
neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weir.analysis.detectors.buckets import BucketsResult, one_bucket_or_two
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.memory import MemoryResult, frame_memory

Verdict = Literal["shared", "separate", "insufficient_loss"]


@dataclass(frozen=True)
class SharedResult:
    """The verdict of the first of both tests that decided."""

    decided_by: MemoryResult | BucketsResult
    memory: MemoryResult
    buckets: BucketsResult | None

    @property
    def verdict(self) -> Verdict:
        """`shared`, `separate` or `insufficient_loss`."""
        return self.decided_by.verdict

    @property
    def reason(self) -> str:
        """The reason in words."""
        return self.decided_by.reason

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return {
            "decided_by": "memory" if self.decided_by is self.memory else "buckets",
            "memory": {"verdict": self.memory.verdict, **self.memory.detail()},
            "buckets": None
            if self.buckets is None
            else {"verdict": self.buckets.verdict, **self.buckets.detail()},
        }


def shared_policer(a: FlowEvents, b: FlowEvents) -> SharedResult:
    """Do two flows share a policer? See the module's text."""
    memory = frame_memory(a, b)
    if memory.verdict != "insufficient_loss":
        return SharedResult(memory, memory, None)
    buckets = one_bucket_or_two(a, b)
    decided = buckets if buckets.verdict != "insufficient_loss" else memory
    return SharedResult(decided, memory, buckets)
