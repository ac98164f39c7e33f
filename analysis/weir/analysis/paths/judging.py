# SPDX-License-Identifier: Apache-2.0
"""Judges pairs at every jitter with every detector; counts errors by jitter and by property of the path.

Both are counted as in `weir.analysis.evaluate`: errors of the pairs on which a detector decided, with exact
intervals, and the undecided ones beside.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from weir.analysis.detectors import pair_detector
from weir.analysis.evaluate import Evaluation, Trial, evaluation_of, judged
from weir.analysis.paths.pair import Factor, PathPair, Source
from weir.analysis.paths.workers import in_processes

JITTERS_S = (0.0, 10e-6, 30e-6, 100e-6, 1e-3, 5e-3, 10e-3)
"""Mean delays before the policer."""
ALL = "all"
LIMITS: Mapping[str, tuple[float, ...]] = {
    "rate_mbps": (10, 30),
    "burst_ms": (5, 25),
    "rtt_ms": (15, 40),
    "rtt_ratio": (1.03, 2),
    "start_apart_s": (0.05,),
    "other_flows": (1, 3, 6),
    "cross_traffic": (0.05, 0.7),
    "front": (1, 1.5),
    "loss_percent": (0.01, 0.1),
    "sent_mbps": (1, 3, 10),
    "lost_packets": (30, 100, 300),
}
"""Bounds between the levels of each continuous property."""


def in_ms(jitter_s: float) -> float:
    """Milliseconds to the nanosecond: 0.03 and not 0.030000000000000002."""
    return round(jitter_s * 1e3, 6)


@dataclass(frozen=True)
class PathTrial:
    """A verdict on one pair at one jitter."""

    pair: str
    part: str
    jitter_s: float
    factors: Mapping[str, Factor]
    trial: Trial


@dataclass(frozen=True)
class PathEvaluation:
    """A detector's errors over the pairs with this jitter; if `factor` is not `all`, of this level."""

    factor: str
    level: str
    jitter_s: float
    evaluation: Evaluation

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON; without the points of the ROC curve."""
        found = {**self.evaluation.to_json(), "jitter_ms": in_ms(self.jitter_s)}
        for name in ("roc", "null_ps", "scenario"):
            del found[name]
        return {"factor": self.factor, "level": self.level, **found}


def judge_pair(
    pair: PathPair, detectors: Sequence[str], jitters_s: Sequence[float] = JITTERS_S
) -> list[PathTrial]:
    """The verdicts on a pair, by jitter and detector. Raises UnknownDetectorError."""
    judges = {name: pair_detector(name) for name in detectors}
    trials = []
    for jitter_s in jitters_s:
        one, other = pair.at(jitter_s)
        for name, judge in judges.items():
            trial = judged(name, judge, pair.source, pair.truth, one, other)
            trials.append(PathTrial(pair.name, pair.part, jitter_s, pair.factors, trial))
    return trials


def judge_all(
    sources: Sequence[Source],
    detectors: Sequence[str],
    jitters_s: Sequence[float] = JITTERS_S,
    processes: int | None = None,
) -> Generator[list[PathTrial], None, None]:
    """The trials of each source, as they are ready; on all processors, unless `processes` are given.

    Raises what the sources raise, and UnknownDetectorError.
    """
    work = partial(_judge, detectors=tuple(detectors), jitters_s=tuple(jitters_s))
    yield from in_processes(work, sources, processes)


def _judge(source: Source, *, detectors: Sequence[str], jitters_s: Sequence[float]) -> list[PathTrial]:
    return [trial for pair in source.pairs() for trial in judge_pair(pair, detectors, jitters_s)]


def evaluate_paths(trials: Sequence[PathTrial]) -> list[PathEvaluation]:
    """Evaluate each detector at each jitter: over all pairs, then by each level of each property."""
    groups: dict[tuple[str, str, str, float], list[Trial]] = {}
    for one in trials:
        keys = [(ALL, ALL)]
        keys += [(factor, level_of(factor, value)) for factor, value in one.factors.items() if known(factor)]
        for key in keys:
            groups.setdefault((one.trial.detector, *key, one.jitter_s), []).append(
                replace(one.trial, scenario=ALL)
            )
    detectors = list(dict.fromkeys(one.trial.detector for one in trials))
    order = sorted(groups, key=lambda key: (detectors.index(key[0]), *_order(key)))
    return [
        PathEvaluation(
            factor, level, jitter_s, evaluation_of(detector, ALL, groups[detector, factor, level, jitter_s])
        )
        for detector, factor, level, jitter_s in order
    ]


def known(factor: str) -> bool:
    """Whether pairs are grouped by this property."""
    return factor in LIMITS or factor in ("control", "load", "queue")


def level_of(factor: str, value: Factor) -> str:
    """The name of the level of a property, such as `10 to 30`."""
    if isinstance(value, str):
        return value
    limits = LIMITS[factor]
    below = sum(value >= limit for limit in limits)
    if below == 0:
        return f"below {limits[0]:g}"
    if below == len(limits):
        return f"{limits[-1]:g} or more"
    return f"{limits[below - 1]:g} to {limits[below]:g}"


def _order(key: tuple[str, str, str, float]) -> tuple[Any, ...]:
    """All pairs first, then by property; levels from the lowest, jitters too."""
    _, factor, level, jitter_s = key
    numbers = [float(word) for word in level.split() if word.replace(".", "").isdigit()]
    lowest = -1.0 if level.startswith("below") else (numbers[0] if numbers else 0.0)
    return (factor != ALL, factor, lowest, level, jitter_s)
