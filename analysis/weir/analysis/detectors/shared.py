# SPDX-License-Identifier: Apache-2.0
"""The detector `shared`: each test where it can tell, that of the finest scale first.

The memory test (`memory.py`) needs exact times and few assumptions. The bucket's level (`level.py`) couples
flows over milliseconds, which jitter does not hide; it needs many packets and losses. Fitted buckets
(`buckets.py`) need the two flows to be nearly all traffic of the policer, but then use every packet. Slow
trends that both flows have are evidence in none. Where none of these decides, two policers may still show in
how likely all fates together are behind one and behind two (`likelihood.py`).

No verdict stands against another test. Each test has flows that deceive it: a packet of a smoothly paced flow
that is alone with the other one meets the bucket just after it was filled, so the memory is negative behind
one policer; random loss has no memory; bursts of flows in step meet behind two policers, and where all
packets do (`step.py`), neither memory nor level can find one. Where memory and level contradict each other,
or the memory is unsure, the buckets decide, or nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from weir.analysis.detectors.buckets import BucketsResult, one_bucket_or_two
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.level import LevelResult, bucket_level
from weir.analysis.detectors.likelihood import EVIDENCE, LikelihoodResult, bucket_likelihood
from weir.analysis.detectors.memory import ALPHA, MAX_JITTER_NS, MemoryResult, frame_memory
from weir.analysis.detectors.step import IN_STEP, in_step

SURE_KAPPA, ENOUGH_PAIRS = 0.6, 15_000
"""A smaller κ must be confirmed by the level, if so many packets met. CUBIC flows in step behind two policers
had κ of 0.25 to 0.5 and z below 4; of pairs with so many packets behind one, κ or z was larger."""
SIGNIFICANT_Z, CONFIRMED = 3.0, 1.0
"""Of the memory, and the evidence of the level that confirms it or not. Without these, eight of 82 pairs
behind one policer were found separate (paths drawn with seeds below 200)."""
AVOID_Z = 2.0
"""Of the level, for the likelihood to count. The 42 pairs that this found rightly in 120 runs and 160
simulated paths, at exact times and with jitter of 1 ms, had z of −1.8 and more; two pairs of one policer
had −2.7 and −6.6."""
OWN_Z = 4.0
"""Behind two policers of runs each flow's own drops had z of 5 and more. Where a flow never meets the bucket
soon after its drops, or loses packets elsewhere, nothing follows from the lack of an excess."""
SCANNED_KAPPA = 0.9
"""Where clocks may differ, κ is that of the best lag. Of 20 pairs of CUBIC flows of 10 s behind two policers
four had 0.23 to 0.7 at some lag, significant, and of 20 behind one two had 0.2."""
TOGETHER = "the flows send in step, so they lose in step behind two policers, too: "
CONTRADICTION = "two tests contradict each other: "
Verdict = Literal["shared", "separate", "cannot_tell"]


@dataclass(frozen=True)
class SharedResult:
    """The verdict of the first test that decided.

    `jitter_ns` is what the times were taken to be wrong by, `in_step` how much the flows are in step.
    """

    decided_by: MemoryResult | LevelResult | BucketsResult | LikelihoodResult
    memory: MemoryResult
    jitter_ns: int
    level: LevelResult | None = None
    buckets: BucketsResult | None = None
    likelihood: LikelihoodResult | None = None
    in_step: float | None = None

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
        tests = {
            "memory": self.memory,
            "level": self.level,
            "buckets": self.buckets,
            "likelihood": self.likelihood,
        }
        return {
            "decided_by": next(name for name, test in tests.items() if test is self.decided_by),
            "jitter_ns": self.jitter_ns,
            "p": None if isinstance(self.decided_by, BucketsResult) else self.decided_by.p,
            "in_step": self.in_step,
            **{
                name: None if test is None else {"verdict": test.verdict, **test.detail()}
                for name, test in tests.items()
            },
        }


def shared_policer(a: FlowEvents, b: FlowEvents) -> SharedResult:
    """Do two flows share a policer? See the module's text."""
    memory, level, step = frame_memory(a, b), bucket_level(a, b), in_step(a, b)
    result = SharedResult(memory, memory, max(a.jitter_ns, b.jitter_ns), level, in_step=step)
    behind_policer = a.behind_policer or b.behind_policer
    clocks_differ = max(a.clock_error_ns, b.clock_error_ns) > 0
    together = step is not None and step >= IN_STEP
    doubt = (
        (TOGETHER if together and "shared" in (memory.verdict, level.verdict) else "")
        or (_doubt_of_lags(memory, level) if clocks_differ else "")
        or _doubt(memory, level, behind_policer)
    )
    if memory.verdict != "cannot_tell" and not doubt:
        return result
    memory = _withdrawn(memory, doubt, level)
    exact = result.jitter_ns <= MAX_JITTER_NS
    by_level = level.verdict != "cannot_tell" and doubt not in (CONTRADICTION, TOGETHER)
    if by_level and not (exact and level.verdict == "separate"):
        return replace(result, decided_by=level, memory=memory)
    buckets = one_bucket_or_two(a, b)
    result = replace(result, decided_by=memory, memory=memory, buckets=buckets)
    one_fits = buckets.verdict == "shared" and not (together and buckets.two_fit_as_well)
    if one_fits or (buckets.verdict == "separate" and not by_level):
        return replace(result, decided_by=buckets)
    likelihood = bucket_likelihood(a, b)
    result = replace(result, likelihood=likelihood)
    if by_level:
        if (likelihood.evidence or 0.0) < EVIDENCE:
            return replace(result, decided_by=level)
        memory = _withdrawn(memory, CONTRADICTION, level)
        return replace(result, decided_by=memory, memory=memory)
    # Flows whose losses avoid each other, as those of paced flows in one bucket or behind one queue do.
    apart = (memory.z or 0.0) < -SIGNIFICANT_Z or (level.z or 0.0) < -AVOID_Z
    if likelihood.verdict == "separate" and not (together or apart or (level.evidence or 0.0) >= CONFIRMED):
        return replace(result, decided_by=likelihood)
    return result


def _doubt(memory: MemoryResult, level: LevelResult, behind_policer: bool) -> str:
    """Why the verdict of the memory is not believed; empty if it is."""
    evidence, z = level.evidence or 0.0, memory.z or 0.0
    if memory.verdict == "shared":
        if (memory.kappa or 0.0) >= SURE_KAPPA:
            return CONTRADICTION if level.verdict == "separate" else ""
        if level.verdict == "separate" or (level.verdict == "cannot_tell" and level.pairs >= ENOUGH_PAIRS):
            return "bursts of flows in step may meet behind two policers, too: "
    if memory.verdict == "separate":
        if behind_policer:
            return "behind the policer losses are not seen where they were: "
        little = z > SIGNIFICANT_Z and memory.p is not None and memory.p < ALPHA
        if level.verdict == "shared" and not little:
            return CONTRADICTION
        if evidence <= -CONFIRMED:
            return ""
        if little:
            return "little excess, but no chance: other losses may hide one policer: "
        if z < -SIGNIFICANT_Z:
            return "packets are spaced so that they do not meet, by two policers or by one: "
        if evidence >= CONFIRMED:
            return "the level speaks for one policer, though not enough: "
        if (memory.own_z or 0.0) < OWN_Z:
            return "a flow's losses do not even depend on its own drops as those of a bucket would: "
    return ""


def _doubt_of_lags(memory: MemoryResult, level: LevelResult) -> str:
    """Why the verdict of the memory is not believed if it was the best of many lags; empty if it is."""
    evidence = level.evidence or 0.0
    if memory.verdict == "shared" and (memory.kappa or 0.0) < SCANNED_KAPPA and evidence < CONFIRMED:
        return "one of the lags that the clocks leave open fits by chance: "
    if memory.verdict == "separate" and evidence > -CONFIRMED:
        return "of the lags that the clocks leave open another one may be right: "
    return ""


def _withdrawn(memory: MemoryResult, doubt: str, level: LevelResult) -> MemoryResult:
    """The memory's result with what the level found; no verdict any more if there is doubt."""
    return replace(memory, verdict="cannot_tell", reason=f"{doubt}{memory.reason}; {level.reason}")
