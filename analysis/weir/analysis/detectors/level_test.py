# SPDX-License-Identifier: Apache-2.0
"""The bucket's level on simulated truth, with jitter between the senders and the policer."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.binned import smoothness
from weir.analysis.detectors.correlogram import loss_correlogram
from weir.analysis.detectors.level import (
    EVIDENCE,
    MIN_SMOOTHNESS,
    SURE_Z,
    LevelResult,
    _Response,
    bucket_level,
)
from weir.analysis.detectors.likelihood import LikelihoodResult
from weir.analysis.detectors.memory import MemoryResult, frame_memory
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.synthetic import SCENARIOS, draw_factors, generate, simulate_path, with_jitter

SECONDS = 20.0
RTT_NS = 20_000_000


def jittered(scenario: str, seed: int, jitter_s: float) -> tuple[FlowEvents, FlowEvents]:
    rng = np.random.default_rng(seed)
    a, b = generate(SCENARIOS[scenario], seed, SECONDS)
    return with_jitter(a, jitter_s, rng), with_jitter(b, jitter_s, rng)


@pytest.mark.parametrize("jitter_s", [0.0, 1e-4, 1e-3, 5e-3])
def test_one_bucket_is_seen_through_jitter(jitter_s: float) -> None:
    found = bucket_level(*jittered("cubic-shared", 3, jitter_s))
    print(f"{jitter_s * 1e3:g} ms: z {found.z:.1f}, p {found.p:.4f} over {found.bin_ms:g} ms")
    assert found.verdict == "shared", found.reason


@pytest.mark.parametrize("scenario", ["cubic-separate", "bbr-separate", "modulated-separate", "random-loss"])
@pytest.mark.parametrize("jitter_s", [0.0, 1e-3])
def test_two_buckets_are_not_one(scenario: str, jitter_s: float) -> None:
    found = bucket_level(*jittered(scenario, 3, jitter_s))
    print(f"z {found.z:.1f}, p {found.p:.4f}, κ {found.kappa}")
    assert found.verdict != "shared"
    assert found.z is not None
    assert found.z < SURE_Z


@pytest.mark.parametrize("scenario", ["cubic-separate", "bbr-separate", "bbr-separate-rtts", "random-loss"])
@pytest.mark.parametrize("jitter_s", [1e-4, 1e-3])
def test_two_buckets_are_seen_through_jitter(scenario: str, jitter_s: float) -> None:
    found = bucket_level(*jittered(scenario, 3, jitter_s))
    print(f"κ {found.kappa} ± {found.kappa_error}, evidence {found.evidence}")
    assert found.verdict == "separate", found.reason
    assert found.kappa is not None
    assert found.kappa < 0.25
    assert f"per byte, the other flow's load causes {found.kappa:.2f} ± " in found.reason
    assert "(about 0.5 to 0.7 behind one policer, 0 behind two)" in found.reason


def in_windows(flow: FlowEvents) -> FlowEvents:
    """The flow with the packets of each 20 ms sent in 2 ms."""
    since_ns = flow.sent_ns % RTT_NS
    return replace(flow, sent_ns=flow.sent_ns - since_ns + since_ns // 10)


def test_flows_that_send_a_window_at_a_time_are_not_judged_by_their_response() -> None:
    a, b = jittered("cubic-separate", 3, 1e-3)
    assert smoothness(a) > MIN_SMOOTHNESS > smoothness(in_windows(a))
    assert bucket_level(a, b).kappa is not None
    assert bucket_level(in_windows(a), b).kappa is None


def test_p_is_uniform_for_flows_that_share_only_a_slow_trend() -> None:
    trend = np.random.default_rng(0).uniform(0.02, 0.2, 10)  # a value per second

    def flow(rng: np.random.Generator) -> FlowEvents:
        sent_ns = np.sort(rng.integers(0, 10_000_000_000, 6_000))
        own = np.repeat(rng.gamma(2.0, 0.5, 2_000), 5)  # its own policer's loss, over 5 ms
        p = np.clip(trend[sent_ns // 1_000_000_000] * own[sent_ns // 1_000_000], 0, 0.9)
        return FlowEvents(sent_ns, np.full(6_000, 1448), rng.random(6_000) < p, RTT_NS)

    ps = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 5])
        found = bucket_level(flow(rng), flow(rng))
        assert found.p is not None
        ps.append(found.p)
    uniform = stats.kstest(ps, "uniform").pvalue
    print(f"p of the Kolmogorov–Smirnov test {uniform:.3f}; {np.mean(np.array(ps) < 0.05):.2f} below 0.05")
    assert uniform > 0.001


def test_flows_in_either_order_give_the_same_statistics() -> None:
    a, b = jittered("cubic-shared", 4, 1e-3)
    one, other = bucket_level(a, b).detail(), bucket_level(b, a).detail()
    assert one == pytest.approx(other, rel=1e-6)
    assert one["kappa"] is not None


@pytest.mark.parametrize(("truth", "verdict"), [("shared", "shared"), ("separate", "separate")])
def test_clocks_that_differ_by_a_constant_are_scanned(truth: str, verdict: str) -> None:
    a, b = (replace(flow, clock_error_ns=8_000_000) for flow in jittered(f"cubic-{truth}", 3, 1e-4))
    found = bucket_level(a, replace(b, sent_ns=b.sent_ns + 7_000_000))
    print(f"z {found.z:.1f}, κ {found.kappa} ± {found.kappa_error}, evidence {found.evidence}")
    assert found.verdict == verdict, found.reason


def test_the_best_of_many_lags_is_weaker_evidence_than_the_right_one() -> None:
    a, b = jittered("bbr-shared", 3, 1e-4)
    exact = bucket_level(a, b)
    scanned = bucket_level(a, replace(b, clock_error_ns=8_000_000))
    assert scanned.kappa == pytest.approx(exact.kappa)
    print(exact.of_response, scanned.of_response)
    # Bins of 2 ms or more: 8 ms are up to 4 lags to either side, of which one is right.
    assert 0 < scanned.of_response < exact.of_response <= scanned.of_response + np.log(9)


def test_losses_that_coincide_decide_nothing_against_the_response(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (replace(flow, behind_policer=True) for flow in jittered("cubic-shared", 3, 1e-3))
    assert bucket_level(a, b).verdict == "shared"
    no_response = _Response(kappa=0.0, error=0.08, evidence=-3.5)
    monkeypatch.setattr("weir.analysis.detectors.level._response", lambda *_: no_response)
    found = bucket_level(a, b)
    assert bucket_level(*jittered("cubic-shared", 3, 1e-3)).verdict == "shared"
    assert found.evidence is not None
    assert found.evidence > EVIDENCE
    assert found.verdict == "cannot_tell"
    assert "does not follow the other's load" in found.reason


@pytest.mark.parametrize("scenario", ["cubic-separate", "bbr-separate"])
def test_a_weak_response_behind_the_policer_is_no_evidence_of_two(scenario: str) -> None:
    a, b = jittered(scenario, 3, 1e-3)
    assert bucket_level(a, b).verdict == "separate"
    found = bucket_level(*(replace(flow, behind_policer=True) for flow in (a, b)))
    assert found.verdict == "cannot_tell"
    assert "which weakens the response" in found.reason


def test_jitter_longer_than_a_quarter_of_the_rtt_leaves_no_bin() -> None:
    a, b = (replace(flow, jitter_ns=6_000_000) for flow in generate(SCENARIOS["cubic-shared"], 3, SECONDS))
    found = bucket_level(a, b)
    assert found.verdict == "cannot_tell"
    assert "wrong by about 6.0 ms, and a quarter of an RTT is" in found.reason


def test_flows_that_met_for_a_moment_or_lost_little_say_so() -> None:
    a, b = generate(SCENARIOS["cubic-shared"], 3, SECONDS)
    first = b.sent_ns < 5_000_000_000
    moment = replace(b, sent_ns=b.sent_ns[first], size_bytes=b.size_bytes[first], lost=b.lost[first])
    assert "less than 8 s" in bucket_level(a, moment).reason
    lucky = replace(b, lost=b.lost & (np.cumsum(b.lost) < 10))
    assert "9 losses in one of the flows" in bucket_level(a, lucky).reason


def test_shared_says_what_jitter_leaves_to_say() -> None:
    behind_one, behind_two = (jittered(f"cubic-{truth}", 3, 1e-3) for truth in ("shared", "separate"))
    assert frame_memory(*behind_one).verdict == "cannot_tell"
    one, two = shared_policer(*behind_one), shared_policer(*behind_two)
    assert (one.verdict, one.detail()["decided_by"]) == ("shared", "level")
    assert one.detail()["p"] == loss_correlogram(*behind_one).p
    assert one.detail()["jitter_ns"] == max(flow.jitter_ns for flow in behind_one) > 0
    assert frame_memory(*behind_two).verdict == "cannot_tell"
    assert two.verdict == "separate", two.reason


@pytest.mark.parametrize(
    ("kappa", "level", "z", "pairs", "verdict", "reason"),
    [
        (0.4, "cannot_tell", 3.0, 20_000, "cannot_tell", "in step"),
        (0.4, "shared", 9.0, 20_000, "shared", ""),
        (0.4, "cannot_tell", 3.0, 1_000, "shared", ""),
        (0.4, "cannot_tell", 1.0, 1_000, "cannot_tell", "no other test finds one policer"),
        (0.4, "separate", 0.0, 20_000, "separate", ""),
        (0.9, "cannot_tell", 0.0, 20_000, "shared", ""),
    ],
)
def test_a_small_kappa_is_believed_if_another_test_confirms_it(
    monkeypatch: pytest.MonkeyPatch,
    kappa: float,
    level: Literal["shared", "separate", "cannot_tell"],
    z: float,
    pairs: int,
    verdict: str,
    reason: str,
) -> None:
    a, b = generate(SCENARIOS["random-loss"], 3, 3.0)
    shared = "weir.analysis.detectors.shared"
    monkeypatch.setattr(f"{shared}.in_step", lambda *_: 0.0)  # they are in slow start, in step
    monkeypatch.setattr(f"{shared}.frame_memory", lambda *_: MemoryResult("shared", "close", 0.01, kappa))
    monkeypatch.setattr(f"{shared}.bucket_level", lambda *_: LevelResult(level, "by level", z=z, pairs=pairs))
    found = shared_policer(a, b)
    assert found.verdict == verdict
    assert reason in found.reason


@pytest.mark.parametrize(
    ("memory", "kappa", "z", "p", "level", "evidence", "reason"),
    [
        ("separate", -0.1, -1.0, 0.5, "cannot_tell", 0.0, ""),
        ("separate", 0.2, 4.0, 0.01, "cannot_tell", 0.0, "other losses may hide"),
        ("separate", 0.2, 4.0, 0.01, "cannot_tell", -2.0, ""),
        ("separate", -0.4, -9.0, 1.0, "cannot_tell", 0.0, "spaced so that they do not meet"),
        ("separate", -0.1, -1.0, 0.5, "cannot_tell", 1.5, "speaks for one policer"),
        ("separate", -0.1, -1.0, 0.5, "shared", 5.0, "contradict"),
        ("shared", 0.9, 9.0, 0.01, "separate", -5.0, "contradict"),
    ],
)
def test_no_verdict_of_the_memory_stands_against_the_level(
    monkeypatch: pytest.MonkeyPatch,
    memory: Literal["shared", "separate"],
    kappa: float,
    z: float,
    p: float,
    level: Literal["shared", "separate", "cannot_tell"],
    evidence: float,
    reason: str,
) -> None:
    # Random loss on two links: no bucket explains it, so nothing decides where memory and level do not.
    a, b = generate(SCENARIOS["random-loss"], 3, 3.0)
    shared = "weir.analysis.detectors.shared"
    monkeypatch.setattr(f"{shared}.in_step", lambda *_: 0.0)  # they are in slow start, in step
    monkeypatch.setattr(
        f"{shared}.frame_memory", lambda *_: MemoryResult(memory, "close", p, kappa, z, own_z=8.0)
    )
    monkeypatch.setattr(
        f"{shared}.bucket_level", lambda *_: LevelResult(level, "by level", evidence=evidence)
    )
    found = shared_policer(a, b)
    assert found.verdict == ("cannot_tell" if reason else memory)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("kappa", "evidence", "verdict"),
    [(0.65, -40.0, "cannot_tell"), (0.65, -5.0, "shared"), (0.95, -40.0, "shared")],
)
def test_a_memory_does_not_stand_against_the_likelihood(
    monkeypatch: pytest.MonkeyPatch, kappa: float, evidence: float, verdict: str
) -> None:
    a, b = generate(SCENARIOS["random-loss"], 3, 3.0)
    shared = "weir.analysis.detectors.shared"
    monkeypatch.setattr(f"{shared}.in_step", lambda *_: 0.0)  # they are in slow start, in step
    monkeypatch.setattr(
        f"{shared}.frame_memory", lambda *_: MemoryResult("shared", "close", 0.01, kappa, 13.0)
    )
    level = LevelResult("shared", "by level", z=7.6, evidence=3.6)
    monkeypatch.setattr(f"{shared}.bucket_level", lambda *_: level)
    likelihood = LikelihoodResult("cannot_tell", "by all fates", evidence=evidence)
    monkeypatch.setattr(f"{shared}.bucket_likelihood", lambda *_: likelihood)
    found = shared_policer(a, b)
    assert found.verdict == verdict
    assert ("contradict" in found.reason) == (verdict == "cannot_tell")


@pytest.mark.parametrize(
    ("memory", "kappa", "evidence", "reason"),
    [
        ("shared", 0.65, 0.0, "fits by chance"),
        ("shared", 0.65, 1.5, ""),
        ("shared", 1.1, 0.0, ""),
        ("separate", 0.1, 0.0, "another one may be right"),
        ("separate", 0.1, -1.5, ""),
    ],
)
def test_the_best_of_many_lags_needs_more_evidence(
    monkeypatch: pytest.MonkeyPatch,
    memory: Literal["shared", "separate"],
    kappa: float,
    evidence: float,
    reason: str,
) -> None:
    a, b = (replace(flow, clock_error_ns=1_000_000) for flow in generate(SCENARIOS["random-loss"], 3, 3.0))
    shared = "weir.analysis.detectors.shared"
    monkeypatch.setattr(f"{shared}.in_step", lambda *_: 0.0)  # they are in slow start, in step
    result = MemoryResult(memory, "close", 0.3 if memory == "separate" else 0.01, kappa, 1.0, own_z=8.0)
    level = LevelResult("cannot_tell", "by level", evidence=evidence)
    monkeypatch.setattr(f"{shared}.frame_memory", lambda *_: result)
    monkeypatch.setattr(f"{shared}.bucket_level", lambda *_: level)
    found = shared_policer(a, b)
    assert found.verdict == ("cannot_tell" if reason else memory)
    assert reason in found.reason


def test_random_losses_on_both_paths_are_no_evidence_of_two_policers() -> None:
    # The second flow loses 16 packets, at random; one policer drops those of the first.
    a, b = simulate_path(draw_factors(1064), "shared", 1064, 20.0)
    memory, found = frame_memory(a, b), shared_policer(a, b)
    assert memory.verdict == "separate"
    assert memory.own_z is not None
    assert memory.own_z < 4
    assert found.verdict == "cannot_tell"
    assert "its own drops" in found.reason


def test_two_paced_flows_alone_behind_one_policer_are_not_found_separate() -> None:
    # Each packet meets the bucket just after it was filled, so the memory is far below 0.
    factors = draw_factors(38)
    a, b = simulate_path(factors, "shared", 38, 20.0)
    memory, found = frame_memory(a, b), shared_policer(a, b)
    assert (factors.other_flows, memory.verdict) == (0, "separate")
    assert (found.verdict, found.detail()["decided_by"]) == ("shared", "correlogram")
