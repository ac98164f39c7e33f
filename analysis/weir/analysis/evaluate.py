# SPDX-License-Identifier: Apache-2.0
"""Evaluates detectors of pairs where the truth is known: in simulations, or in runs of the switch.

Error rates have exact intervals (C. Clopper, E. Pearson, Biometrika 26, 1934), scores the area under the ROC
curve; p-values of separate flows have the part below 0.05 and a Kolmogorov–Smirnov test against the uniform
distribution. The verdict `cannot_tell` is counted as undecided, neither right nor wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from weir.analysis.detectors import PAIR_DETECTORS, FlowEvents, PairDetector, pair_detector
from weir.analysis.detectors.buckets import BETTER
from weir.analysis.detectors.correlogram import SURE_Z
from weir.analysis.detectors.level import EVIDENCE
from weir.analysis.detectors.likelihood import EVIDENCE as LIKELIHOOD_EVIDENCE
from weir.analysis.detectors.memory import MIN_KAPPA
from weir.analysis.detectors.weigh import enough
from weir.analysis.errors import UnknownScenarioError
from weir.analysis.statistics.proportions import LEVEL, Share, share
from weir.analysis.synthetic import SCENARIOS, generate, with_jitter
from weir.rundir.result_data import result_data, result_error

JITTER_SEED = 1
"""Beside the seed of a trial, so that its jitter is not drawn like its flows."""


@dataclass(frozen=True)
class Trial:
    """One verdict and its truth; a higher `score` is more evidence for one bucket, `cpu_s` is the cost."""

    detector: str
    scenario: str
    truth: str
    verdict: str
    score: float | None
    p: float | None
    cpu_s: float


@dataclass(frozen=True)
class Evaluation:
    """A detector's results over some trials. ROC points are rates (false positives, true positives).

    `null_ps` are the p-values of separate flows, ascending; `cpu_s` is the mean processor time per pair,
    `cpu_max_s` the longest.
    """

    detector: str
    scenario: str
    trials: int
    undecided: int
    false_negatives: Share
    false_positives: Share
    auc: float | None
    roc: tuple[tuple[float, float], ...]
    p_below_level: Share
    p_uniform: float | None
    null_ps: tuple[float, ...]
    cpu_s: float
    cpu_max_s: float

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def synthetic_trials(
    detectors: Sequence[str],
    scenarios: Sequence[str],
    runs: int,
    seconds: float,
    seed: int = 0,
    jitter_s: float = 0.0,
) -> Iterator[Trial]:
    """Judge `runs` draws of each scenario, with jitter of this mean before the policer.

    Raises UnknownDetectorError, UnknownScenarioError.
    """
    judges = {name: pair_detector(name) for name in detectors}
    for name in scenarios:
        if name not in SCENARIOS:
            raise UnknownScenarioError(f"no scenario {name!r}; valid: {', '.join(SCENARIOS)}")
    for name in scenarios:
        for run in range(runs):
            rng = np.random.default_rng([seed + run, JITTER_SEED])
            a, b = (
                with_jitter(flow, jitter_s, rng) for flow in generate(SCENARIOS[name], seed + run, seconds)
            )
            for detector, judge in judges.items():
                yield judged(detector, judge, name, SCENARIOS[name].truth, a, b)


def judged(
    detector: str, judge: PairDetector, scenario: str, truth: str, one: FlowEvents, other: FlowEvents
) -> Trial:
    """The detector's verdict on two flows, with the processor time that it took."""
    begun = time.process_time()
    found = judge(one, other)
    cost = time.process_time() - begun
    score, p = score_of(found.detail())
    return Trial(detector, scenario, truth, found.verdict, score, p, cost)


def run_trials(directories: Iterable[Path]) -> Iterator[Trial]:
    """The verdicts in the results of finished runs; raises RunFileError where one is missing or invalid."""
    for directory in directories:
        result = result_data(directory)
        try:
            for pair in result["pairs"]:
                score, p = score_of(pair["detail"])
                name = str(result.get("name", directory.name))
                yield Trial(pair["detector"], name, pair["truth"], pair["verdict"], score, p, 0.0)
        except (AttributeError, KeyError, TypeError) as error:
            raise result_error(directory, "pairs: not as an analysis writes them") from error


def score_of(detail: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The score for one bucket, and its p, from the `detail()` of any detector of pairs."""
    if isinstance(detail.get("memory"), dict):
        return _score_of_shared(detail)
    if "bin_ms" in detail:
        return detail.get("evidence"), detail["p"]
    if "kappa" in detail:
        return detail["kappa"], detail["p"]
    if "tau_us" in detail:
        return detail["evidence"], detail["p"]
    if "z" in detail:
        return detail["z"], detail["p"]
    if "rho" in detail:
        return detail["rho"], detail["p"]
    if detail.get("score_together") is not None:
        return detail["score_together"] - max(detail["scores_alone"]), None
    if detail.get("bottleneck"):
        return detail["grouped"] / detail["bottleneck"], None
    if detail.get("sizes_used"):
        return detail["significant"] / detail["sizes_used"], None
    ps = [size["p"] for size in detail.get("sizes", ()) if size.get("p") is not None]
    return (float(np.mean(np.array(ps) < LEVEL)) if ps else None), None


def _score_of_shared(detail: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The distance of the deciding test to its own threshold, so that scores of the tests are comparable."""
    memory, level, buckets = detail["memory"], detail.get("level") or {}, detail["buckets"]
    by, p = detail["decided_by"], detail["p"]
    if by == "buckets" and buckets is not None:
        return buckets["score_together"] - max(buckets["scores_alone"]) + BETTER, p
    if by == "likelihood":
        return detail["likelihood"]["evidence"] / LIKELIHOOD_EVIDENCE * MIN_KAPPA, p
    if by == "correlogram":
        return detail["correlogram"]["z"] / SURE_Z * MIN_KAPPA, p
    if by == "weighed":
        return detail["weighed"]["log_odds"] / enough(detail["jitter_ns"]) * MIN_KAPPA, p
    evidence = level.get("evidence")
    if evidence is not None and (memory["kappa"] is None or by == "level"):
        return evidence / EVIDENCE * MIN_KAPPA, p  # as memory's: κ of 0 is −MIN_KAPPA
    return (None if memory["kappa"] is None else memory["kappa"] - MIN_KAPPA), p


def evaluate(trials: Sequence[Trial]) -> list[Evaluation]:
    """Evaluate each detector over all scenarios (scenario `all`) and over each one."""
    detectors = list(dict.fromkeys(trial.detector for trial in trials))
    scenarios = list(dict.fromkeys(trial.scenario for trial in trials))
    result = []
    for detector in detectors:
        its = [trial for trial in trials if trial.detector == detector]
        result.append(evaluation_of(detector, "all", its))
        for scenario in scenarios:
            some = [trial for trial in its if trial.scenario == scenario]
            if some:
                result.append(evaluation_of(detector, scenario, some))
    return result


def evaluation_of(detector: str, scenario: str, trials: Sequence[Trial]) -> Evaluation:
    """Errors, scores and p-values of one detector over some trials; `scenario` names them."""
    decided = [trial for trial in trials if trial.verdict in ("shared", "separate")]
    shared = [trial for trial in decided if trial.truth == "shared"]
    separate = [trial for trial in decided if trial.truth == "separate"]
    points, auc = roc(trials)
    null = [trial.p for trial in trials if trial.truth == "separate" and trial.p is not None]
    return Evaluation(
        detector=detector,
        scenario=scenario,
        trials=len(trials),
        undecided=len(trials) - len(decided),
        false_negatives=share(sum(trial.verdict == "separate" for trial in shared), len(shared)),
        false_positives=share(sum(trial.verdict == "shared" for trial in separate), len(separate)),
        auc=auc,
        roc=points,
        p_below_level=share(sum(p < LEVEL for p in null), len(null)),
        p_uniform=float(stats.kstest(null, "uniform").pvalue) if len(null) >= 8 else None,
        null_ps=tuple(sorted(null)),
        cpu_s=float(np.mean([trial.cpu_s for trial in trials])) if trials else 0.0,
        cpu_max_s=max((trial.cpu_s for trial in trials), default=0.0),
    )


def roc(trials: Sequence[Trial]) -> tuple[tuple[tuple[float, float], ...], float | None]:
    """The ROC curve over all thresholds of the score, and its area; None where one truth has no scores."""
    scores = {
        truth: np.sort([t.score for t in trials if t.truth == truth and t.score is not None])
        for truth in ("shared", "separate")
    }
    yes, no = scores["shared"], scores["separate"]
    if not len(yes) or not len(no):
        return (), None
    levels = np.unique(np.concatenate([yes, no]))[::-1]
    points = [(0.0, 0.0)]
    points += [(float(np.mean(no >= level)), float(np.mean(yes >= level))) for level in levels]
    area = float(stats.mannwhitneyu(yes, no).statistic) / (len(yes) * len(no))
    return tuple(points), area


DEFAULT_DETECTORS = tuple(PAIR_DETECTORS)
