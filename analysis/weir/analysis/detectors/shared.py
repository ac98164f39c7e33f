# SPDX-License-Identifier: Apache-2.0
"""The detector `shared`: each test where it can tell, that of the finest scale first.

The memory test (`memory.py`) needs exact times and few assumptions. The bucket's level (`level.py`) couples
flows over milliseconds, which jitter does not hide; it needs many packets and losses. Fitted buckets
(`buckets.py`) need the two flows to be nearly all traffic of the policer, but then use every packet. Slow
trends are evidence in none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from weir.analysis.detectors.buckets import BucketsResult, one_bucket_or_two
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.level import LevelResult, bucket_level
from weir.analysis.detectors.memory import MemoryResult, frame_memory

SURE_KAPPA, ENOUGH_PAIRS = 0.6, 15_000
"""A smaller κ must be confirmed by the level, if so many packets met. CUBIC flows in step behind two policers
had κ of 0.25 to 0.5 and z below 4; of pairs with so many packets behind one, κ or z was larger."""
Verdict = Literal["shared", "separate", "cannot_tell"]


@dataclass(frozen=True)
class SharedResult:
    """The verdict of the first test that decided; `jitter_ns` is what the times were taken to be wrong by."""

    decided_by: MemoryResult | LevelResult | BucketsResult
    memory: MemoryResult
    jitter_ns: int
    level: LevelResult | None = None
    buckets: BucketsResult | None = None

    @property
    def verdict(self) -> Verdict:
        """`shared`, `separate` or `cannot_tell`."""
        return self.decided_by.verdict

    @property
    def reason(self) -> str:
        """The reason in words."""
        return self.decided_by.reason

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        tests = {"memory": self.memory, "level": self.level, "buckets": self.buckets}
        return {
            "decided_by": next(name for name, test in tests.items() if test is self.decided_by),
            "jitter_ns": self.jitter_ns,
            "p": None if isinstance(self.decided_by, BucketsResult) else self.decided_by.p,
            **{
                name: None if test is None else {"verdict": test.verdict, **test.detail()}
                for name, test in tests.items()
            },
        }


def shared_policer(a: FlowEvents, b: FlowEvents) -> SharedResult:
    """Do two flows share a policer? See the module's text."""
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    memory = frame_memory(a, b)
    unsure = memory.verdict == "shared" and (memory.kappa or 0.0) < SURE_KAPPA
    if memory.verdict != "cannot_tell" and not unsure:
        return SharedResult(memory, memory, jitter_ns)
    level = bucket_level(a, b)
    if unsure:
        if level.verdict == "shared" or level.pairs < ENOUGH_PAIRS:
            return SharedResult(memory, memory, jitter_ns, level)
        why = f"bursts of flows in step may meet behind two policers, too: {memory.reason}; {level.reason}"
        memory = replace(memory, verdict="cannot_tell", reason=why)
    if level.verdict != "cannot_tell":
        return SharedResult(level, memory, jitter_ns, level)
    buckets = one_bucket_or_two(a, b)
    if buckets.verdict != "cannot_tell":
        return SharedResult(buckets, memory, jitter_ns, level, buckets)
    if not unsure:
        memory = replace(memory, reason=f"{memory.reason}; {level.reason}")
    return SharedResult(memory, memory, jitter_ns, level, buckets)
