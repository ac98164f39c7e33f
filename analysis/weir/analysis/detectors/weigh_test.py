# SPDX-License-Identifier: Apache-2.0
"""Level, correlogram and likelihood weighed together, on simulated paths whose seeds may set thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.correlogram import CorrelogramResult
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import LikelihoodResult
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.detectors.weigh import CLIPS, ENOUGH, WEIGHTS, weighed
from weir.analysis.paths.pair import Simulated

LEVEL = LevelResult("cannot_tell", "level", z=0.5)
CORRELOGRAM = CorrelogramResult("cannot_tell", "correlogram", z=1.0)
LIKELIHOOD = LikelihoodResult("cannot_tell", "likelihood", evidence=2.0, z=1.5)


def flow(jitter_ns: int = 100_000, every: int = 10) -> FlowEvents:
    at = np.arange(10_000) * 2_000_000
    lost = np.arange(len(at)) % every == 0
    return FlowEvents(at, np.full(len(at), 1448), lost, 20_000_000, jitter_ns=jitter_ns)


@pytest.mark.parametrize(("jitter_ns", "weights"), [(1_000_000, WEIGHTS[0]), (1_000_001, WEIGHTS[1])])
def test_the_log_odds_are_a_weighted_sum(jitter_ns: int, weights: tuple[float, ...]) -> None:
    level = replace(LEVEL, evidence=-2.0, kappa=0.1)
    found = weighed(flow(), flow(jitter_ns), level, CORRELOGRAM, LIKELIHOOD)
    assert found.log_odds == pytest.approx(np.dot(weights, [1, 1.0, 2.0, 1.5, -2.0, 0.5]))
    assert found.verdict == "separate"
    assert found.detail() == {"log_odds": found.log_odds}


def test_what_z_of_the_level_adds_to_its_evidence_counts_once() -> None:
    level = replace(LEVEL, z=4.0 + 3.0, evidence=3.0 + 0.5, kappa=0.4)
    assert level.of_response == pytest.approx(0.5)
    found = weighed(flow(), flow(), level, CORRELOGRAM, LIKELIHOOD)
    assert found.log_odds == pytest.approx(np.dot(WEIGHTS[0], [1, 1.0, 2.0, 1.5, 0.5, 4.0]))
    assert replace(level, kappa=None).of_response == 0


def test_none_counts_beyond_its_limits() -> None:
    most = replace(LEVEL, z=90.0), replace(CORRELOGRAM, z=90.0), replace(LIKELIHOOD, evidence=900.0, z=90.0)
    found = weighed(flow(), flow(), *most)
    limits = [CLIPS[0][1], CLIPS[1][1], CLIPS[2][1], 0.0, CLIPS[4][1]]
    assert found.log_odds == pytest.approx(np.dot(WEIGHTS[0], [1, *limits]))
    assert found.verdict == "shared"


def test_too_little_together_is_said() -> None:
    found = weighed(flow(), flow(), LEVEL, replace(CORRELOGRAM, z=1.4), LIKELIHOOD)
    assert found.verdict == "cannot_tell"
    assert abs(found.log_odds or 9.0) < ENOUGH
    assert found.reason.endswith("; 3.5 times is needed")


def test_nothing_is_weighed_with_few_losses_or_without_one_of_the_tests() -> None:
    cases = {
        "99 losses in one of the flows; 100 are needed": (flow(every=96), CORRELOGRAM, LIKELIHOOD),
        "correlogram": (flow(), replace(CORRELOGRAM, z=None), LIKELIHOOD),
        "likelihood": (flow(), CORRELOGRAM, replace(LIKELIHOOD, evidence=None)),
    }
    for reason, (other, correlogram, likelihood) in cases.items():
        found = weighed(flow(), other, LEVEL, correlogram, likelihood)
        assert (found.verdict, found.log_odds) == ("cannot_tell", None)
        assert reason in found.reason


@pytest.mark.parametrize("seed", [32, 41, 49])
def test_what_no_test_decides_they_decide_together(seed: int) -> None:
    (pair,) = Simulated(seed, 20.0).pairs()
    flows = pair.at(1e-3)
    result = shared_policer(*flows)
    print(result.reason)
    assert result.weighed is result.decided_by
    assert result.verdict == pair.truth
    detail = result.detail()
    assert (detail["decided_by"], detail["p"]) == ("weighed", None)
    apart = replace(flows[1], clock_error_ns=1)
    assert shared_policer(flows[0], apart).decided_by is not result.weighed, "the best lag is no fair z"
