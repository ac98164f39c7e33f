# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.detectors.policing import FlowVerdict, detect_policing
from weir.analysis.evaluate_policing import (
    PolicingTrial,
    evaluate_policing,
    policing_trial,
    policing_trials,
)
from weir.analysis.statistics import share
from weir.analysis.synthetic import SINGLE_KINDS, draw_single


@pytest.mark.parametrize("kind", SINGLE_KINDS)
def test_a_seed_gives_the_same_flows_again(kind: str) -> None:
    first, again, other = (draw_single(kind, seed, 3.0) for seed in (1, 1, 2))  # type: ignore[arg-type]
    assert len(first.flows) == (2 if kind == "policed-two" else 1)
    for one, same in zip(first.flows, again.flows, strict=True):
        assert np.array_equal(one.time_ns, same.time_ns)
        assert np.array_equal(one.lost, same.lost)
    assert not np.array_equal(first.flows[0].time_ns, other.flows[0].time_ns)
    assert (first.rate_bps is None) == (not kind.startswith("policed"))


def test_bytes_that_passed_a_drawn_policer_are_within_its_rate_and_burst() -> None:
    truth = draw_single("policed-two", 3, 8.0)
    assert truth.rate_bps is not None
    assert truth.burst_bytes is not None
    passed = sum(int(flow.frame_bytes[~flow.lost].sum()) for flow in truth.flows)
    seconds = (max(f.time_ns[-1] for f in truth.flows) - min(f.time_ns[0] for f in truth.flows)) / 1e9
    assert passed <= truth.burst_bytes + truth.rate_bps / 8 * (seconds + 0.01)


def test_no_drawn_flow_is_judged_wrongly_and_rates_and_bursts_are_those_of_the_policer() -> None:
    # The first of the draws in docs/detectors.md.
    trials = list(policing_trials("policing", 8, 20.0, seed=1000))
    found = {each.kind: each for each in evaluate_policing(trials)}
    for kind, its in found.items():
        print(kind, its.undecided, its.wrong, its.rate_near, its.burst_near)
        # Of these, 29 of 170 have losses that look random (docs/detectors.md).
        assert its.wrong.count <= (2 if kind == "policed-limited-cross" else 0), kind
    one, two = found["policed"], found["policed-two"]
    assert (one.undecided, two.undecided) == (0, 0)
    # One flow alone may always find the bucket full again; then many rates explain its losses.
    assert (one.rate_near.count, one.burst_near.count) >= (7, 8)
    assert (two.rate_near.count, two.burst_near.count) == (16, 16)


def test_intervals_of_single_flows_hold_rate_and_burst_under_jitter_of_5_ms() -> None:
    # The burst often rests on the delay of one packet.
    trials = []
    for seed in range(1100, 1140):
        truth = draw_single("policed", seed, 20.0, 5e-3)
        (verdict,) = detect_policing(truth.flows)
        assert truth.rate_bps is not None
        assert truth.burst_bytes is not None
        bucket = (truth.rate_bps, truth.burst_bytes)
        trials.append(policing_trial("policing", "policed", verdict.flow, verdict, bucket, 0.0))
    for held in ([each.rate_held for each in trials], [each.burst_held for each in trials]):
        known = [each for each in held if each is not None]
        found = share(sum(known), len(known))
        print(found)
        assert found.of >= 20
        assert found.high >= 0.95


def test_two_flows_of_one_policer_are_not_found_unpoliced_under_jitter_of_5_ms() -> None:
    # Alone neither has a bucket: the best one has a rate far below the policer's, at which 5 ms are little.
    for seed in (1, 2, 21):
        verdicts = detect_policing(draw_single("policed-two", seed, 20.0, 5e-3).flows)
        assert all(found.verdict in ("policed", "cannot_tell") for found in verdicts), seed


@pytest.mark.parametrize("jitter_s", [0.0, 1e-3])
def test_intervals_hold_rate_and_burst_in_95_percent(jitter_s: float) -> None:
    trials = [each for each in policing_trials("policing", 15, 20.0, 1100, jitter_s) if each.policed]
    for held in ([each.rate_held for each in trials], [each.burst_held for each in trials]):
        known = [each for each in held if each is not None]
        found = share(sum(known), len(known))
        print(jitter_s, found)
        assert found.of >= 30
        assert found.high >= 0.95


def test_coarse_times_are_no_evidence_against_a_policer() -> None:
    # 5 ms of jitter are the time of several frames at these rates.
    trials = [t for t in policing_trials("policing", 10, 20.0, 1100, 5e-3) if t.kind == "policed"]
    assert all(t.verdict in ("policed", "cannot_tell") for t in trials)
    assert any(t.verdict == "cannot_tell" for t in trials)


def test_errors_are_relative_to_the_truth_and_a_frame_is_near() -> None:
    found = FlowVerdict(
        "f", "policed", "", 30e6, 4_500, {"rate_bps_95": [29e6, 31e6], "burst_bytes_95": [4_000, None]}
    )
    off = policing_trial("d", "k", "f", found, (40e6, 9_000), 0.0)
    assert (off.policed, off.rate_error, off.burst_error) == (True, pytest.approx(0.25), 0.5)
    assert (off.burst_near, off.rate_held, off.burst_held) == (False, False, True)
    near = policing_trial("d", "k", "f", found, (30e6, 3_000), 0.0)
    assert (near.rate_error, near.burst_error, near.burst_near, near.rate_held) == (0.0, 0.5, True, True)
    assert near.burst_held is False
    free = policing_trial("d", "k", "f", found, None, 0.0)
    assert (free.policed, free.rate_error, free.burst_near) == (False, None, None)


def test_shares_are_of_the_verdicts_that_decide() -> None:
    def trial(verdict: str, rate: float | None = None, near: bool | None = None) -> PolicingTrial:
        return PolicingTrial("d", "policed", "f", True, verdict, rate, rate, near, near, near, 0.5)

    [found] = evaluate_policing(
        [
            trial("policed", 0.01, True),
            trial("policed", 0.2, False),
            trial("not_policed"),
            trial("insufficient_loss"),
        ]
    )
    assert (found.trials, found.undecided) == (4, 1)
    assert (found.wrong.count, found.wrong.of) == (1, 3)
    assert (found.rate_near.count, found.rate_near.of) == (1, 2)
    assert (found.burst_near.count, found.burst_near.of) == (1, 2)
    assert (found.rate_held.count, found.rate_held.of) == (1, 2)
    assert (found.burst_held.count, found.burst_held.of) == (1, 2)
    assert found.cpu_s == 0.5
