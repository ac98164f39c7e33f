# SPDX-License-Identifier: Apache-2.0
"""The likelihood of one bucket and of two, on simulated paths whose seeds may set thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.correlogram import loss_correlogram
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import (
    EVIDENCE,
    MAX_PACKETS,
    SURE_Z,
    LikelihoodResult,
    _fates,
    _Packets,
    _thinned,
    bucket_likelihood,
)
from weir.analysis.detectors.shared import SPACED_Z, shared_policer
from weir.analysis.detectors.step import alike
from weir.analysis.paths.pair import Simulated
from weir.analysis.synthetic import with_jitter

Pair = tuple[FlowEvents, FlowEvents]
TWO, ONE, TOGETHER = (25, 31, 33, 97), (2, 4, 12, 22, 34, 46), (7, 17, 11021)


def path(seed: int, jitter_s: float = 0.0) -> Pair:
    (pair,) = Simulated(seed, 20.0).pairs()
    assert pair.truth == ("separate" if seed in TWO + TOGETHER else "shared")
    return pair.at(jitter_s)


@pytest.mark.parametrize(("seed", "jitter_s"), [(25, 0.0), (97, 0.0), (25, 1e-3), (33, 1e-3)])
def test_two_policers_are_found_where_no_packets_meet(seed: int, jitter_s: float) -> None:
    found = bucket_likelihood(*path(seed, jitter_s))
    print(found)
    assert found.verdict == "separate", found.reason
    assert "times less likely than two" in found.reason


def test_two_policers_are_found_though_clocks_differ() -> None:
    a, b = path(25)
    behind = replace(b, sent_ns=b.sent_ns + 1_500_000, clock_error_ns=2_000_000)
    found = bucket_likelihood(a, behind)
    print(found)
    assert found.verdict == "separate", found.reason


@pytest.mark.parametrize("jitter_s", [0.0, 1e-4, 1e-3])
def test_one_policer_is_not_taken_for_two(jitter_s: float) -> None:
    for seed in ONE:
        found = bucket_likelihood(*path(seed, jitter_s))
        print(seed, found.evidence, found.z)
        assert found.verdict != "separate", found.reason


@pytest.mark.parametrize("seed", [192, 11004])
def test_one_policer_is_found_though_the_flows_lose_at_different_moments(seed: int) -> None:
    flows = path(seed, 1e-3)
    assert (loss_correlogram(*flows).z or 0.0) < -2
    result = shared_policer(*flows)
    print(result.likelihood)
    assert (result.verdict, result.decided_by) == ("shared", result.likelihood), result.reason


def test_one_policer_is_found_though_losses_hardly_meet() -> None:
    result = shared_policer(*path(18, 1e-3))
    assert (result.verdict, result.decided_by) == ("shared", result.likelihood), result.reason


def test_losses_that_come_and_go_together_are_no_common_policer() -> None:
    for seed in TOGETHER:
        found = bucket_likelihood(*path(seed, 1e-3))
        print(seed, found.evidence, found.z)
        assert (found.evidence or 0.0) > 5 * EVIDENCE, "one bucket is likely"
        assert found.verdict == "cannot_tell", "but as likely for other moments"


def test_flows_alike_are_no_evidence_of_one_policer() -> None:
    rng = np.random.default_rng(4)
    flow, _ = path(31)
    flows = with_jitter(flow, 1e-3, rng), with_jitter(flow, 1e-3, rng)
    found = bucket_likelihood(*flows)
    print(found)
    assert (found.evidence or 0.0) > EVIDENCE
    assert (found.z or 0.0) > SURE_Z
    assert alike(*flows)
    assert found.verdict == "cannot_tell"


def test_of_a_much_larger_flow_a_random_part_counts() -> None:
    rng = np.random.default_rng(3)
    small, large = (_Packets(np.sort(rng.uniform(0, 20, n)), rng.random(n) < 0.1) for n in (1_000, 80_000))
    thinned = _thinned(small, large)
    assert len(thinned[0].time_s) == 1_000
    assert len(thinned[1].time_s) == pytest.approx(MAX_PACKETS - 1_000, rel=0.03)
    assert thinned[1].lost.mean() == pytest.approx(0.1, abs=0.01)
    assert np.array_equal(thinned[1].time_s, _thinned(small, large)[1].time_s), "each time the same"
    assert [len(flow.time_s) for flow in _thinned(large, large)] == [80_000, 80_000]


def test_it_decides_where_the_other_tests_do_not() -> None:
    result = shared_policer(*path(25))
    assert result.memory.verdict == "cannot_tell"
    assert (result.verdict, result.decided_by) == ("separate", result.likelihood)
    detail = result.detail()
    assert detail["decided_by"] == "likelihood"
    assert result.likelihood is not None
    assert result.correlogram is not None
    assert detail["p"] == result.correlogram.p


def test_flows_that_are_spaced_so_that_they_never_meet_are_not_found_separate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (pair,) = Simulated(80, 20.0).pairs()
    assert pair.truth == "shared"
    level = LevelResult("cannot_tell", "level", z=0.0)
    two = LikelihoodResult("separate", "two", evidence=-750.0, z=0.0)
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_level", lambda *_: level)
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_likelihood", lambda *_: two)
    found = shared_policer(*pair.at(1e-3))
    assert (found.memory.z or 0.0) < -SPACED_Z
    assert found.verdict == "cannot_tell", found.reason


def test_the_order_of_the_flows_does_not_matter() -> None:
    a, b = path(31)
    one, other = bucket_likelihood(a, b), bucket_likelihood(b, a)
    assert one.verdict == other.verdict
    assert one.evidence == pytest.approx(other.evidence)
    assert one.evidence is not None
    assert one.evidence < -EVIDENCE


def test_two_halves_of_one_flow_are_in_one_bucket() -> None:
    flow, _ = path(25)
    halves = [
        replace(flow, sent_ns=flow.sent_ns[which], size_bytes=flow.size_bytes[which], lost=flow.lost[which])
        for which in (slice(0, None, 2), slice(1, None, 2))
    ]
    found = bucket_likelihood(halves[0], halves[1])
    print(found)
    assert found.evidence is not None
    assert found.evidence > EVIDENCE


def test_nothing_follows_without_the_times_at_the_policer_or_with_few_losses() -> None:
    a, b = path(25)
    cases = {
        "behind the policer": (replace(a, behind_policer=True), b),
        "clocks may differ by 50 ms": (a, replace(b, clock_error_ns=50_000_000)),
        "while both flows ran, 0 losses in one of the flows": (
            a,
            replace(b, sent_ns=b.sent_ns + 100 * 10**9),
        ),
        "times are wrong by about 70 ms: too coarse": (a, replace(b, jitter_ns=70_000_000)),
        "15 are needed": (a, replace(b, lost=np.zeros_like(b.lost))),
    }
    for reason, pair in cases.items():
        found = bucket_likelihood(*pair)
        assert found.verdict == "cannot_tell"
        assert reason in found.reason


def test_losses_that_do_not_depend_on_a_flows_own_drops_show_no_policers() -> None:
    rng = np.random.default_rng(5)
    a, b = path(25)
    # Alternating seconds: what one of them says about a common bucket is wrong for the other.
    flows = [
        replace(
            flow,
            lost=rng.uniform(size=len(flow.lost)) < np.where(flow.sent_ns // 10**9 % 2 == side, 0.3, 0.01),
        )
        for side, flow in enumerate((a, b))
    ]
    found = bucket_likelihood(flows[0], flows[1])
    print(found)
    assert found.verdict == "cannot_tell"
    assert found.evidence is not None
    assert found.evidence < -EVIDENCE


def test_each_flow_is_expected_to_lose_as_much_as_it_did() -> None:
    rng = np.random.default_rng(1)
    odds = rng.normal(-3, 2, 5000)
    for rate in (0.003, 0.4, 0.97):
        lost = rng.uniform(size=len(odds)) < rate
        fates = _fates(odds, lost)
        dropped = np.where(lost, np.exp(fates), 1 - np.exp(fates))
        assert dropped.sum() == pytest.approx(lost.sum(), rel=1e-6)
        more = np.log(dropped) - np.log1p(-dropped) - odds
        assert np.ptp(more) < 1e-6, "all odds are multiplied by the same"
        assert np.allclose(expit(odds + more), dropped)
