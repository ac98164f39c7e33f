# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from weir.analysis.errors import UnknownDetectorError, UnknownScenarioError
from weir.analysis.evaluate import Trial, evaluate, roc, run_trials, score_of, synthetic_trials
from weir.analysis.evaluate_runs import judged_trials
from weir.analysis.result import analyse
from weir.analysis.statistics import share
from weir.analysis.synthetic import SCENARIOS, generate
from weir.rundir.errors import RunFileError
from weir_tests.analysis.synthetic_run import write_run


def trial(truth: str, verdict: str, score: float, p: float | None = None) -> Trial:
    return Trial("d", "s", truth, verdict, score, p, 0.1)


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    # From tables of exact binomial intervals: 1 of 10 gives 0.25 to 44.5 %; 0 of 10 at most 30.8 %.
    one, none = share(1, 10), share(0, 10)
    assert (one.low, one.high) == pytest.approx((0.0025, 0.4450), abs=1e-4)
    assert (none.low, none.high) == pytest.approx((0.0, 0.3085), abs=1e-4)
    assert share(0, 0).rate is None


def test_an_undecided_trial_is_neither_right_nor_wrong() -> None:
    trials = [
        trial("shared", "shared", 0.9),
        trial("shared", "separate", 0.2),
        trial("shared", "cannot_tell", 0.1),
        trial("separate", "shared", 0.6, 0.01),
        trial("separate", "separate", 0.0, 0.7),
    ]
    overall = evaluate(trials)[0]
    assert (overall.trials, overall.undecided) == (5, 1)
    assert (overall.false_negatives.count, overall.false_negatives.of) == (1, 2)
    assert (overall.false_positives.count, overall.false_positives.of) == (1, 2)
    assert (overall.p_below_level.count, overall.p_below_level.of) == (1, 2)


def test_the_roc_curve_goes_through_every_threshold() -> None:
    trials = [trial("shared", "shared", s) for s in (0.9, 0.8, 0.4)]
    trials += [trial("separate", "separate", s) for s in (0.5, 0.1)]
    points, area = roc(trials)
    assert area == pytest.approx(5 / 6)
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (1.0, 1.0)
    assert (0.0, pytest.approx(2 / 3)) in [(x, y) for x, y in points]


def test_the_score_of_shared_is_that_of_the_test_that_decided() -> None:
    memory, p = {"kappa": 0.05, "p": 0.4}, 0.2
    buckets = {"score_together": 0.9, "scores_alone": [0.7, 0.5]}
    by_memory = {"decided_by": "memory", "p": p, "memory": {"kappa": 0.85, "p": 0.01}, "buckets": None}
    assert score_of(by_memory) == (pytest.approx(0.60), p)
    by_buckets = {"decided_by": "buckets", "p": None, "memory": memory, "buckets": buckets}
    assert score_of(by_buckets) == (pytest.approx(0.25), None)
    undecided = {"decided_by": "memory", "p": p, "memory": memory, "buckets": buckets}
    assert score_of(undecided) == (pytest.approx(-0.20), p)
    level = {"z": 9.0, "p": 0.001, "bin_ms": 2.0, "evidence": 6.0}
    by_level = {"decided_by": "level", "p": p, "memory": memory, "level": level, "buckets": None}
    assert score_of(by_level) == (pytest.approx(0.5), p)
    too_coarse = {"kappa": None, "p": None}
    weak = {
        "decided_by": "memory",
        "p": p,
        "memory": too_coarse,
        "level": {**level, "evidence": -3.0, "p": 0.6},
        "buckets": None,
    }
    assert score_of(weak) == (pytest.approx(-0.25), p)
    by_likelihood = {**weak, "decided_by": "likelihood", "likelihood": {"evidence": -20.0, "p": 0.3}}
    assert score_of(by_likelihood) == (pytest.approx(-0.5), p)
    by_correlogram = {**weak, "decided_by": "correlogram", "correlogram": {"z": 6.0, "p": p}}
    assert score_of(by_correlogram) == (pytest.approx(0.5), p)
    by_weight = {**weak, "decided_by": "weighed", "weighed": {"log_odds": -3.0}}
    assert score_of({**by_weight, "jitter_ns": 0}) == (pytest.approx(-0.75), p)
    assert score_of({**by_weight, "jitter_ns": 5_000_000}) == (pytest.approx(-0.5), p)
    assert score_of(level) == (6.0, 0.001)
    assert score_of({"z": 2.0, "p": 0.03}) == (2.0, 0.03)
    assert score_of({"evidence": -30.0, "z": 0.1, "p": 0.5, "tau_us": 300.0}) == (-30.0, 0.5)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_seed_gives_the_same_packets_again(name: str) -> None:
    first, again, other = (generate(SCENARIOS[name], seed, 2.0) for seed in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.sent_ns, b.sent_ns)
        assert np.array_equal(a.lost, b.lost)
    assert not np.array_equal(first[0].sent_ns, other[0].sent_ns)


def test_trials_carry_truth_score_and_cost() -> None:
    found = list(synthetic_trials(["frame-memory"], ["cubic-shared"], 1, 6.0))
    assert [(t.truth, t.scenario) for t in found] == [("shared", "cubic-shared")]
    assert found[0].score is not None
    with pytest.raises(UnknownScenarioError, match="no scenario 'x'; valid: cubic-shared, "):
        list(synthetic_trials(["frame-memory"], ["x"], 1, 6.0))


def test_results_of_runs_are_trials_too(tmp_path: Path) -> None:
    pair = {"detector": "wehey_loss_trend", "truth": "shared", "verdict": "separate"}
    result = {"pairs": [{**pair, "detail": {"significant": 3, "sizes_used": 12}}]}
    (tmp_path / "result.json").write_text(json.dumps(result))
    [found] = run_trials([tmp_path])
    assert (found.truth, found.verdict, found.score) == ("shared", "separate", 0.25)
    with pytest.raises(RunFileError, match="not found; valid: a run directory"):
        list(run_trials([tmp_path / "none"]))
    for data in ({}, {"pairs": [1]}, {"pairs": [{"detail": 1}]}):
        (tmp_path / "result.json").write_text(json.dumps(data))
        with pytest.raises(
            RunFileError, match=r"result\.json: pairs: not as an analysis writes them; valid: "
        ):
            list(run_trials([tmp_path]))


def test_any_detector_judges_the_captures_of_runs_as_their_analysis_would(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=8)
    result = analyse(tmp_path, joined)
    again = list(judged_trials([tmp_path], ["wehey_loss_trend", "loss-blocks"], joined))
    of_rule = [trial for trial in again if trial.detector == "wehey_loss_trend"]
    pairs = [pair for pair in result.pairs if pair.detector == "wehey_loss_trend"]
    assert [(t.truth, t.verdict, t.score) for t in of_rule] == [
        (pair.truth, pair.verdict, score_of(pair.detail)[0]) for pair in pairs
    ]
    assert len(again) == 2 * len(pairs) > 0
    with pytest.raises(UnknownDetectorError, match="no detector 'x'"):
        list(judged_trials([tmp_path / "none"], ["x"], joined))
    with pytest.raises(RunFileError, match=r"manifest\.json"):
        list(judged_trials([tmp_path / "none"], ["shared"], joined))
