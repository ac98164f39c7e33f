# SPDX-License-Identifier: Apache-2.0
"""The detector `shared`: each test where it can tell, that of the finest scale first.

The memory test (`memory.py`) needs exact times and few assumptions. The bucket's level (`level.py`) couples
flows over milliseconds, which jitter does not hide; it needs many packets and losses. Fitted buckets
(`buckets.py`) need the two flows to be nearly all traffic of the policer, but then use every packet. Slow
trends that both flows have are evidence in none. Where none of these decides, one policer may still show in
losses that come together at the same moment rather than at another one (`correlogram.py`), and one or two in
how likely all fates together are behind one and behind two (`likelihood.py`). What still is undecided is
decided by all of these but the buckets together (`weigh.py`).

No verdict stands against another test, but for clear odds of all together. Each test has flows that deceive
it: a packet of a smoothly paced flow that is alone with the other one meets the bucket just after it was
filled, so the memory is negative behind one policer; random loss has no memory; bursts of flows in step meet
behind two policers, and where all packets do (`step.py`), neither memory, level nor correlogram can find one.
Where memory and level contradict each other, or the memory is unsure, another test decides, or nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from weir.analysis.detectors.buckets import BucketsResult, one_bucket_or_two
from weir.analysis.detectors.correlogram import SURE_Z, CorrelogramResult, loss_correlogram
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.level import LOADS_IN_STEP, LevelResult, bucket_level
from weir.analysis.detectors.likelihood import EVIDENCE, LikelihoodResult, bucket_likelihood
from weir.analysis.detectors.memory import ALPHA, MAX_JITTER_NS, MemoryResult, frame_memory
from weir.analysis.detectors.step import IN_STEP, alike, in_step
from weir.analysis.detectors.weigh import FINE_NS, WeighedResult, weighed

SURE_KAPPA, ENOUGH_PAIRS = 0.6, 15_000
"""A smaller κ must be confirmed by the level, if so many packets met. CUBIC flows in step behind two policers
had κ of 0.25 to 0.5 and z below 4; of pairs with so many packets behind one, κ or z was larger."""
CLEAR_KAPPA = 0.9
"""A smaller κ does not stand against the likelihood: CUBIC flows that started together behind two policers
had κ of 0.54 and 0.65 with z of 13 and 17, but an S of −160 and −47."""
MOSTLY_IN_STEP = 0.25
"""Flows that are in step by less share a policer if κ is `CLEAR_KAPPA` and no fitted bucket says otherwise.
Of 18 pairs of equal flows behind two policers those in step by 0.1 and more had a κ of 0.43 at most; two
pairs of CUBIC flows behind one, in step by 0.12 and 0.17, had 1.02 and 1.04."""
PARTLY_IN_STEP = 0.5
"""Flows that are in step by less share a policer if the odds of all tests together are `CLEAR_ODDS`."""
SIGNIFICANT_Z, CONFIRMED = 3.0, 1.0
"""Of the memory, and the evidence of the level that confirms it or not. Without these, eight of 82 pairs
behind one policer were found separate (paths drawn with seeds below 200)."""
CLEAR_ODDS = 2.0
"""A logarithm of the odds, 7.4 to 1, that decides with jitter of up to `FINE_NS` in spite of loads partly in
step, of a correlogram of one policer, or of a likelihood whose model does not hold. Of 43 pairs of flows
partly in step behind two policers none had more than 1.5, of 92 behind one 82 had as much (runs, equal flows
alone and simulated paths, jitter of 0 to 5 ms)."""
SUPPORT_Z = 2.0
"""Of level or correlogram, for a small κ of the memory to count. The likelihood's S supports it, and the
correlogram, from its own threshold on: with 14, two equal BBR flows of 14 s behind two policers were found
in one."""
AVOID_Z = 2.0
"""Of the level, for the likelihood to count. The 42 pairs that this found rightly in 120 runs and 160
simulated paths, at exact times and with jitter of 1 ms, had z of −1.8 and more; two pairs of one policer
had −2.7 and −6.6."""
APART_Z, CHANCE_Z = 3.5, 1.5
"""Where z of the correlogram is below minus the first, the likelihood's two policers do not count, and below
minus the second, two policers are not found by weighing: flows that compete in one bucket lose at different
moments."""
SPACED_Z = 6.0
"""Nor do they count where z of the memory is below minus this: two paced flows alone in a bucket, whose
packets never met, had −38 and −40, with an S of −750 and less. Of runs behind two none had less than −5."""
COMPETE = -0.1
"""Flows whose loads correlate by less are not in step, but take turns in one bucket. Five pairs behind one
policer that were alike otherwise had −0.6 to −0.3 with jitter up to 5 ms; all that were alike behind two had
−0.03 and more."""
CLEAR_Z, CLEAR_RESPONSE = 6.0, 0.4
"""Of the correlogram, and κ of the level. With a likelihood of one policer they count in spite of loads in
step: 7 pairs of BBR behind one policer, whose loads correlated by 0.5 to 0.85, had 9.8 and 0.49 and more.
Pairs behind two with such loads had no response or one below 0. Weighing finds no two policers with such a z:
one pair of CUBIC behind one policer, whose loads correlated by 0.6, had a z of 24, and an S of −31."""
OWN_Z = 4.0
"""Behind two policers of runs each flow's own drops had z of 5 and more. Where a flow never meets the bucket
soon after its drops, or loses packets elsewhere, nothing follows from the lack of an excess."""
SCANNED_KAPPA = 0.9
"""Where clocks may differ, κ is that of the best lag. Of 20 pairs of CUBIC flows of 10 s behind two policers
four had 0.23 to 0.7 at some lag, significant, and of 20 behind one two had 0.2."""
TOGETHER = "the flows send in step, so they lose in step behind two policers, too: "
CONTRADICTION = "two tests contradict each other: "
WEAK = "the excess is small, and no other test finds one policer: "
MADE_LATER = "buckets", "likelihood", "weighed"
Verdict = Literal["shared", "separate", "cannot_tell"]
Test = MemoryResult | LevelResult | BucketsResult | LikelihoodResult | CorrelogramResult | WeighedResult


@dataclass(frozen=True)
class SharedResult:
    """The verdict of the first test that decided, and all tests that were made.

    `jitter_ns` is what the times were taken to be wrong by, `in_step` how much the flows are in step.
    """

    decided_by: Test
    memory: MemoryResult
    jitter_ns: int
    level: LevelResult | None = None
    buckets: BucketsResult | None = None
    likelihood: LikelihoodResult | None = None
    correlogram: CorrelogramResult | None = None
    weighed: WeighedResult | None = None
    in_step: float | None = None

    @property
    def verdict(self) -> Verdict:
        """`shared`, `separate` or `cannot_tell`."""
        return self.decided_by.verdict

    @property
    def reason(self) -> str:
        """The reason in words."""
        return self.decided_by.reason

    @property
    def p(self) -> float | None:
        """How probable losses that come together as these do would be behind two policers.

        That is the correlogram's p, whichever test decided: those of the others are small for flows behind
        two policers as well, if these started together. Where it has none, p is of the test that decided.
        """
        if self.correlogram is not None and self.correlogram.p is not None:
            return self.correlogram.p
        return None if isinstance(self.decided_by, BucketsResult | WeighedResult) else self.decided_by.p

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        tests: dict[str, Test | None] = {
            "memory": self.memory,
            "level": self.level,
            "buckets": self.buckets,
            "likelihood": self.likelihood,
            "correlogram": self.correlogram,
            "weighed": self.weighed,
        }
        return {
            "decided_by": next(name for name, test in tests.items() if test is self.decided_by),
            "jitter_ns": self.jitter_ns,
            "p": self.p,
            "in_step": self.in_step,
            **{
                name: None if test is None else {"verdict": test.verdict, **test.detail()}
                for name, test in tests.items()
            },
        }


class _Tests:
    """The tests of two flows, each made when it is first asked for."""

    def __init__(self, a: FlowEvents, b: FlowEvents) -> None:
        self._flows = a, b
        self.jitter_ns = max(a.jitter_ns, b.jitter_ns)
        self.clocks_differ = max(a.clock_error_ns, b.clock_error_ns) > 0
        self.behind_policer = a.behind_policer or b.behind_policer
        self.level, self.in_step = bucket_level(a, b), in_step(a, b)
        self.memory = self.found = frame_memory(a, b)

    @cached_property
    def buckets(self) -> BucketsResult:
        return one_bucket_or_two(*self._flows)

    @cached_property
    def likelihood(self) -> LikelihoodResult:
        return bucket_likelihood(*self._flows)

    @cached_property
    def correlogram(self) -> CorrelogramResult:
        return loss_correlogram(*self._flows)

    @cached_property
    def weighed(self) -> WeighedResult:
        return weighed(*self._flows, self.found, self.level, self.correlogram, self.likelihood)

    @cached_property
    def alike(self) -> bool:
        """Whether the flows are alike, and do not compete."""
        return alike(*self._flows) and not (self.level.load_correlation or 0.0) < COMPETE

    @property
    def together(self) -> bool:
        return self.in_step is not None and self.in_step >= IN_STEP

    @property
    def clear_in_step(self) -> bool:
        """Whether the memory finds one policer by more than flows in step behind two show."""
        clear = (self.found.kappa or 0.0) >= CLEAR_KAPPA and (self.in_step or 0.0) < MOSTLY_IN_STEP
        return clear and self.found.verdict == "shared"

    @property
    def one_by_losses(self) -> bool:
        """Whether the correlogram finds one policer, and the likelihood does not find two."""
        return self.correlogram.verdict == "shared" and (self.likelihood.evidence or 0.0) > -EVIDENCE

    @property
    def two_by_losses(self) -> bool:
        """Whether the likelihood finds two policers, and losses meet as by chance."""
        evidence = self.likelihood.evidence or 0.0
        return evidence <= -EVIDENCE and (self.correlogram.z or 0.0) < SURE_Z

    @property
    def level_evidence(self) -> float:
        return self.level.evidence or 0.0

    def decided_by(self, test: Test) -> SharedResult:
        """The verdict of one test."""
        made = {name: self.__dict__.get(name) for name in MADE_LATER}
        memory = test if isinstance(test, MemoryResult) else self.memory
        made["correlogram"] = self.correlogram  # for its p
        return SharedResult(test, memory, self.jitter_ns, self.level, in_step=self.in_step, **made)

    def withdraw_memory(self, doubt: str) -> None:
        """Take the memory's verdict away, and say why and what the level found."""
        reason = f"{doubt}{self.found.reason}; {self.level.reason}"
        self.memory = replace(self.found, verdict="cannot_tell", reason=reason)


def shared_policer(a: FlowEvents, b: FlowEvents) -> SharedResult:
    """Do two flows share a policer? See the module's text."""
    tests = _Tests(a, b)
    doubt = _doubt(tests)
    if tests.memory.verdict != "cannot_tell" and not doubt:
        return tests.decided_by(tests.memory)
    tests.withdraw_memory(doubt)
    by_level = tests.level.verdict if doubt not in (CONTRADICTION, TOGETHER) else "cannot_tell"
    exact = tests.jitter_ns <= MAX_JITTER_NS
    if by_level == "shared" and not (_common_start(tests) or tests.two_by_losses):
        return tests.decided_by(tests.level)
    if by_level == "separate" and not exact and not tests.one_by_losses:
        return tests.decided_by(tests.level)
    if _one_by_correlogram(tests):
        return tests.decided_by(tests.correlogram)
    if _one_by_likelihood(tests):
        return tests.decided_by(tests.likelihood)
    buckets = tests.buckets
    one_fits = buckets.verdict == "shared" and not (tests.together and buckets.two_fit_as_well)
    if one_fits or (buckets.verdict == "separate" and by_level == "cannot_tell"):
        return tests.decided_by(buckets)
    if by_level == "separate":
        if (tests.likelihood.evidence or 0.0) < EVIDENCE and not tests.one_by_losses:
            return tests.decided_by(tests.level)
        tests.withdraw_memory(CONTRADICTION)
    elif by_level == "shared":
        tests.withdraw_memory(CONTRADICTION)
    elif _two_by_likelihood(tests):
        return tests.decided_by(tests.likelihood)
    if tests.together and tests.clear_in_step:
        return tests.decided_by(tests.found)
    return tests.decided_by(tests.weighed if _by_weight(tests) else tests.memory)


def _common_start(tests: _Tests) -> bool:
    """Whether the level's one policer is only a common start.

    Without a response its z decides, which is large behind two policers, too, if flows start together. One
    such pair, of flows alike, had a z of 8.8. Else losses meet at the same moment more often than by chance.
    """
    chance = tests.correlogram.z is not None and tests.correlogram.z < SURE_Z
    return tests.level.kappa is None and (tests.alike or chance)


def _one_by_correlogram(tests: _Tests) -> bool:
    """Whether the losses at the same moment count as one policer's.

    Loads and losses of flows in step meet behind two policers, too. So do those of flows after a common
    start, but then one bucket is less likely than two.
    """
    if _may_meet(tests):
        return False
    return tests.one_by_losses and tests.level.verdict != "separate"


def _one_by_likelihood(tests: _Tests) -> bool:
    """Whether the likelihood is greatest at the same moment."""
    return tests.likelihood.verdict == "shared" and not _may_meet(tests)


def _may_meet(tests: _Tests) -> bool:
    """Whether loads and losses may be at the same moment behind two policers, too."""
    loads = (tests.level.load_correlation or 0.0) >= LOADS_IN_STEP and not _responds(tests)
    return loads or tests.together or tests.alike


def _responds(tests: _Tests) -> bool:
    """Whether all of level, correlogram and likelihood find one policer, in spite of loads in step."""
    return (
        (tests.level.kappa or 0.0) >= CLEAR_RESPONSE
        and (tests.correlogram.z or 0.0) >= CLEAR_Z
        and (tests.likelihood.evidence or 0.0) >= EVIDENCE
    )


def _two_by_likelihood(tests: _Tests) -> bool:
    """Whether the likelihood's two policers count."""
    by_response = tests.level.kappa is not None and tests.level_evidence >= CONFIRMED
    one = by_response or (tests.correlogram.z or 0.0) >= SURE_Z
    return tests.likelihood.verdict == "separate" and not (one or _apart(tests, APART_Z))


def _apart(tests: _Tests, most_z: float) -> bool:
    """Whether losses avoid each other, as those of paced flows in one bucket or behind one queue do."""
    return (
        (tests.memory.z or 0.0) < -SPACED_Z
        or (tests.level.z or 0.0) < -AVOID_Z
        or (tests.correlogram.z or 0.0) < -most_z
    )


def _by_weight(tests: _Tests) -> bool:
    """Whether memory, level, correlogram and likelihood together decide."""
    if tests.clocks_differ:
        return False
    likelihood, correlogram = tests.likelihood, tests.correlogram
    clear = abs(tests.weighed.log_odds or 0.0) >= CLEAR_ODDS and tests.jitter_ns <= FINE_NS
    no_model = likelihood.verdict == "cannot_tell" and (likelihood.evidence or 0.0) <= -EVIDENCE
    if no_model and not clear:
        return False
    if tests.weighed.verdict == "shared":
        if "separate" in (tests.level.verdict, likelihood.verdict):
            return False
        partly = not tests.alike and (tests.in_step or 0.0) < PARTLY_IN_STEP
        return (clear and partly) or not _may_meet(tests)
    met = correlogram.verdict == "shared" and not (clear or _may_meet(tests))
    met = met or (correlogram.z or 0.0) >= CLEAR_Z
    contradicted = tests.level.verdict == "shared" or met or _apart(tests, CHANCE_Z)
    return tests.weighed.verdict == "separate" and not contradicted


def _doubt(tests: _Tests) -> str:
    """Why the verdict of the memory, or that of the level, is not believed; empty if it is."""
    if tests.together and "shared" in (tests.memory.verdict, tests.level.verdict):
        return TOGETHER
    if tests.clocks_differ and (doubt := _doubt_of_lags(tests)):
        return doubt
    if tests.memory.verdict == "shared":
        return _doubt_of_one(tests)
    return _doubt_of_two(tests) if tests.memory.verdict == "separate" else ""


def _doubt_of_one(tests: _Tests) -> str:
    """Why the memory's one policer is not believed; empty if it is."""
    level, kappa = tests.level, tests.memory.kappa or 0.0
    if kappa < CLEAR_KAPPA and (tests.likelihood.evidence or 0.0) <= -EVIDENCE:
        return CONTRADICTION
    if kappa >= SURE_KAPPA:
        return CONTRADICTION if level.verdict == "separate" else ""
    if level.verdict == "separate" or (level.verdict == "cannot_tell" and level.pairs >= ENOUGH_PAIRS):
        return "bursts of flows in step may meet behind two policers, too: "
    supported = (
        (level.z or 0.0) >= SUPPORT_Z
        or (tests.correlogram.z or 0.0) >= SUPPORT_Z
        or (tests.likelihood.evidence or 0.0) >= EVIDENCE
    )
    return "" if supported else WEAK


def _doubt_of_two(tests: _Tests) -> str:
    """Why the memory's two policers are not believed; empty if they are."""
    memory, z = tests.memory, tests.memory.z or 0.0
    if tests.behind_policer:
        return "behind the policer losses are not seen where they were: "
    little = z > SIGNIFICANT_Z and memory.p is not None and memory.p < ALPHA
    if tests.level.verdict == "shared" and not little:
        return CONTRADICTION
    if tests.level_evidence <= -CONFIRMED:
        return ""
    if little:
        return "little excess, but no chance: other losses may hide one policer: "
    if tests.correlogram.verdict == "shared":
        return CONTRADICTION
    if z < -SIGNIFICANT_Z:
        return "packets are spaced so that they do not meet, by two policers or by one: "
    if tests.level_evidence >= CONFIRMED:
        return "the level speaks for one policer, though not enough: "
    if (memory.own_z or 0.0) < OWN_Z:
        return "a flow's losses do not even depend on its own drops as those of a bucket would: "
    return ""


def _doubt_of_lags(tests: _Tests) -> str:
    """Why the verdict of the memory is not believed if it was the best of many lags; empty if it is."""
    memory = tests.memory
    if (
        memory.verdict == "shared"
        and (memory.kappa or 0.0) < SCANNED_KAPPA
        and tests.level_evidence < CONFIRMED
    ):
        return "one of the lags that the clocks leave open fits by chance: "
    if memory.verdict == "separate" and tests.level_evidence > -CONFIRMED:
        return "of the lags that the clocks leave open another one may be right: "
    return ""
