# SPDX-License-Identifier: Apache-2.0
"""All tests of losses weighed together, on simulated paths whose seeds may set thresholds."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.correlogram import CorrelogramResult
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import LikelihoodResult
from weir.analysis.detectors.memory import MemoryResult
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.detectors.weigh import (
    CLIPS,
    USUAL_MEMORY_Z,
    USUAL_Z,
    WEIGHTS,
    WeighedResult,
    enough,
    weighed,
)
from weir.analysis.paths.pair import Simulated

LEVEL = LevelResult("cannot_tell", "level", z=0.5)
MEMORY = MemoryResult("cannot_tell", "memory", z=-1.5, expected_z=USUAL_MEMORY_Z * 2)
CORRELOGRAM = CorrelogramResult("cannot_tell", "correlogram", z=1.0, expected_z=USUAL_Z * np.sqrt(2))
LIKELIHOOD = LikelihoodResult("cannot_tell", "likelihood", evidence=2.0, z=1.5)
RATES_Z, QUEUE_Z = 2.5, 1.25


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss rates that have z of `RATES_Z`, and delays of a queue that have `QUEUE_Z`."""
    monkeypatch.setattr("weir.analysis.detectors.weigh.loss_rates_z", lambda *_: RATES_Z)
    monkeypatch.setattr("weir.analysis.detectors.weigh.queue_delays_z", lambda *_: QUEUE_Z)


def flow(jitter_ns: int = 100_000, every: int = 10) -> FlowEvents:
    at = np.arange(10_000) * 2_000_000
    lost = np.arange(len(at)) % every == 0
    return FlowEvents(at, np.full(len(at), 1448), lost, 20_000_000, jitter_ns=jitter_ns)


@pytest.mark.usefixtures("rates")
@pytest.mark.parametrize(
    ("jitter_ns", "weights"),
    [
        (25_000, WEIGHTS[0]),
        (25_001, WEIGHTS[1]),
        (1_400_000, WEIGHTS[1]),
        (1_400_001, WEIGHTS[2]),
    ],
)
def test_the_log_odds_are_a_weighted_sum(jitter_ns: int, weights: tuple[float, ...]) -> None:
    level = replace(LEVEL, evidence=-2.0, kappa=0.1)
    found = weighed(flow(0), flow(jitter_ns), MEMORY, level, CORRELOGRAM, LIKELIHOOD)
    assert found.log_odds == pytest.approx(
        np.dot(
            weights, [1, 1.0, 0.5, 0.5 * 1.0, 2.0, 1.5, -2.0, 0.5, -1.5, 1.0, 1.0 * -1.5, RATES_Z, QUEUE_Z]
        )
    )
    assert found.detail() == {
        "log_odds": found.log_odds,
        "loss_rates_z": RATES_Z,
        "queue_delays_z": QUEUE_Z,
    }


@pytest.mark.usefixtures("rates")
def test_what_z_of_the_level_adds_to_its_evidence_counts_once() -> None:
    level = replace(LEVEL, z=4.0 + 3.0, evidence=3.0 + 0.5, kappa=0.4)
    assert level.of_response == pytest.approx(0.5)
    found = weighed(flow(), flow(), MEMORY, level, CORRELOGRAM, LIKELIHOOD)
    assert found.log_odds == pytest.approx(
        np.dot(
            WEIGHTS[1], [1, 1.0, 0.5, 0.5 * 1.0, 2.0, 1.5, 0.5, 4.0, -1.5, 1.0, 1.0 * -1.5, RATES_Z, QUEUE_Z]
        )
    )
    assert replace(level, kappa=None).of_response == 0


@pytest.mark.usefixtures("rates")
def test_without_a_memory_its_size_counts_as_usual() -> None:
    memory = replace(MEMORY, z=None, expected_z=None)
    found = weighed(flow(), flow(), memory, LEVEL, CORRELOGRAM, LIKELIHOOD)
    assert found.log_odds == pytest.approx(
        np.dot(WEIGHTS[1], [1, 1.0, 0.5, 0.5 * 1.0, 2.0, 1.5, 0.0, 0.5, 0.0, 0.0, 0.0, RATES_Z, QUEUE_Z])
    )


@pytest.mark.parametrize(("value", "side"), [(90.0, 1), (-90.0, 0)])
def test_none_counts_beyond_its_limits(monkeypatch: pytest.MonkeyPatch, value: float, side: int) -> None:
    for name in ("loss_rates_z", "queue_delays_z"):
        monkeypatch.setattr(f"weir.analysis.detectors.weigh.{name}", lambda *_: value)
    expected_z = 900.0 if side else 0.1
    memory, level = replace(MEMORY, z=value, expected_z=expected_z), replace(LEVEL, z=value)
    correlogram = replace(CORRELOGRAM, z=value, expected_z=expected_z)
    likelihood = replace(LIKELIHOOD, evidence=10 * value, z=value)
    found = weighed(flow(), flow(), memory, level, correlogram, likelihood)
    z, size, evidence, of_shifts, _, of_level, of_memory, its_size, *of_pair = (
        limits[side] for limits in CLIPS
    )
    expected = [1, z, size, size * z, evidence, of_shifts, 0.0, of_level, of_memory, its_size]
    assert found.log_odds == pytest.approx(np.dot(WEIGHTS[1], [*expected, its_size * of_memory, *of_pair]))


def test_no_coupling_is_evidence_of_two_policers_only_where_one_would_show() -> None:
    """As many coincidences as by chance: thin flows would hardly have more behind one policer."""
    level, likelihood = replace(LEVEL, z=0.0), replace(LIKELIHOOD, evidence=0.0, z=0.0)
    memory = replace(MEMORY, z=0.0)
    odds = [
        weighed(
            flow(), flow(), memory, level, replace(CORRELOGRAM, z=0.0, expected_z=expected), likelihood
        ).log_odds
        for expected in (3.0, 12.0, 48.0)
    ]
    assert odds == sorted(set(odds), reverse=True)
    odds = [
        weighed(
            flow(0), flow(0), replace(memory, expected_z=expected), level, CORRELOGRAM, likelihood
        ).log_odds
        for expected in (2.0, 8.0, 32.0)
    ]
    assert odds == sorted(set(odds), reverse=True)


def test_of_flows_of_usual_size_no_test_counts_against_what_it_found() -> None:
    for _, z, size, _, *found, z_memory, size_memory, _, z_rates, z_queue in WEIGHTS:
        assert min(z, *found, z_memory, z_rates, z_queue) >= 0
        assert max(size, size_memory) <= 0


def test_nothing_is_weighed_with_few_losses_or_without_one_of_the_tests() -> None:
    cases = {
        "99 losses in one of the flows; 100 are needed": (flow(every=96), CORRELOGRAM, LIKELIHOOD),
        "correlogram": (flow(), replace(CORRELOGRAM, z=None), LIKELIHOOD),
        "likelihood": (flow(), CORRELOGRAM, replace(LIKELIHOOD, evidence=None)),
    }
    for reason, (other, correlogram, likelihood) in cases.items():
        found = weighed(flow(), other, MEMORY, LEVEL, correlogram, likelihood)
        assert (found.verdict, found.log_odds) == ("cannot_tell", None)
        assert reason in found.reason


def test_too_little_together_is_said() -> None:
    for z in np.arange(-1.0, 4.0, 0.1):
        found = weighed(flow(), flow(), MEMORY, LEVEL, replace(CORRELOGRAM, z=float(z)), LIKELIHOOD)
        if found.verdict == "cannot_tell":
            break
    assert abs(found.log_odds or 9.0) < enough(100_000)
    assert found.reason.endswith(f"; {np.exp(enough(100_000)):.1f} times is needed")


@pytest.mark.parametrize("seed", [12, 32, 125])
def test_what_no_test_decides_they_decide_together(seed: int) -> None:
    (pair,) = Simulated(seed, 20.0).pairs()
    flows = pair.at(1e-3)
    result = shared_policer(*flows)
    print(result.reason)
    assert result.weighed is result.decided_by
    assert result.verdict == pair.truth
    detail = result.detail()
    assert result.correlogram is not None
    assert (detail["decided_by"], detail["p"]) == ("weighed", result.correlogram.p)
    apart = replace(flows[1], clock_error_ns=1)
    assert shared_policer(flows[0], apart).decided_by is not result.weighed, "the best lag is no fair z"


@pytest.mark.parametrize(
    ("log_odds", "z", "verdict"),
    [
        (9.0, 4.0, "cannot_tell"),
        (-1.9, 4.0, "cannot_tell"),
        (-2.1, 4.0, "separate"),
        (-9.0, 7.0, "cannot_tell"),
    ],
)
def test_what_is_weighed_stands_against_no_other_test_but_a_correlogram_if_the_odds_are_clear(
    monkeypatch: pytest.MonkeyPatch, log_odds: float, z: float, verdict: str
) -> None:
    """Losses meet, so two policers need clear odds; two are more likely, so it is not one."""
    (pair,) = Simulated(32, 20.0).pairs()
    weighed_as: Literal["shared", "separate"] = "shared" if log_odds > 0 else "separate"
    for name, result in (
        ("bucket_level", LEVEL),
        ("loss_correlogram", replace(CORRELOGRAM, verdict="shared", z=z)),
        ("bucket_likelihood", LikelihoodResult("separate", "two", evidence=-30.0, z=0.0)),
        ("weighed", WeighedResult(weighed_as, "weighed", log_odds)),
    ):
        monkeypatch.setattr(f"weir.analysis.detectors.shared.{name}", lambda *_, result=result: result)
    found = shared_policer(*pair.at(0.5e-3))
    assert found.weighed is not None
    assert found.verdict == verdict, found.reason


@pytest.mark.parametrize(("log_odds", "verdict"), [(-1.9, "cannot_tell"), (-2.1, "separate")])
def test_where_the_model_of_the_likelihood_does_not_hold_the_odds_have_to_be_clear(
    monkeypatch: pytest.MonkeyPatch, log_odds: float, verdict: str
) -> None:
    (pair,) = Simulated(32, 20.0).pairs()
    for name, result in (
        ("bucket_level", LEVEL),
        ("loss_correlogram", CORRELOGRAM),
        ("bucket_likelihood", replace(LIKELIHOOD, evidence=-30.0, z=2.7)),
        ("weighed", WeighedResult("separate", "weighed", log_odds)),
    ):
        monkeypatch.setattr(f"weir.analysis.detectors.shared.{name}", lambda *_, result=result: result)
    assert shared_policer(*pair.at(0.5e-3)).verdict == verdict


@pytest.mark.parametrize(
    ("log_odds", "step", "verdict"),
    [(1.9, 0.3, "cannot_tell"), (2.1, 0.3, "shared"), (2.1, 0.6, "cannot_tell")],
)
def test_flows_partly_in_step_share_a_policer_if_the_odds_are_clear(
    monkeypatch: pytest.MonkeyPatch, log_odds: float, step: float, verdict: str
) -> None:
    (pair,) = Simulated(32, 20.0).pairs()
    for name, result in (
        ("in_step", step),
        ("alike", False),
        ("frame_memory", MEMORY),
        ("bucket_level", LEVEL),
        ("loss_correlogram", CORRELOGRAM),
        ("bucket_likelihood", LIKELIHOOD),
        ("weighed", WeighedResult("shared", "weighed", log_odds)),
    ):
        monkeypatch.setattr(f"weir.analysis.detectors.shared.{name}", lambda *_, result=result: result)
    assert shared_policer(*pair.at(0.5e-3)).verdict == verdict
