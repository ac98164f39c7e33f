# SPDX-License-Identifier: Apache-2.0
"""Flows in step: a simulated flow and its copy, behind policers alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors import FlowEvents
from weir.analysis.detectors.level import LOADS_IN_STEP, bucket_level
from weir.analysis.detectors.memory import frame_memory
from weir.analysis.detectors.shared import shared_policer
from weir.analysis.detectors.step import IN_STEP, alike, in_step
from weir.analysis.paths.pair import Simulated
from weir.analysis.synthetic import SCENARIOS, generate, with_jitter
from weir.analysis.tables import Floats

SECONDS = 12.0


@pytest.fixture(scope="module")
def flow() -> FlowEvents:
    return generate(SCENARIOS["cubic-separate"], 3, SECONDS)[0]


def later(flow: FlowEvents, by_ns: int, after: float = 0.0) -> FlowEvents:
    """The flow `by_ns` later, from this part of its packets on."""
    late = np.arange(len(flow.sent_ns)) >= after * len(flow.sent_ns)
    return replace(flow, sent_ns=flow.sent_ns + by_ns * late, rtt_sent_ns=flow.rtt_sent_ns + by_ns)


def test_no_policer_in_common_is_found_if_the_flows_are_in_step(flow: FlowEvents) -> None:
    other = later(flow, 1_000)
    memory = frame_memory(flow, other)
    assert memory.verdict == "shared", "a bucket's memory cannot tell"
    found = shared_policer(flow, other)
    assert found.verdict == "cannot_tell", found.reason
    assert found.reason.startswith("the flows send in step")
    assert found.in_step == pytest.approx(1.0, abs=0.01)
    assert found.detail()["in_step"] == found.in_step


def test_fitted_buckets_find_two_policers_of_flows_that_are_in_step_for_a_part_of_the_time() -> None:
    rng = np.random.default_rng(1)
    together, *apart = (np.sort(rng.uniform(0, 20, 10_000)) for _ in range(3))
    a, b = (alone_in_bucket(np.concatenate([together, 20 + its])) for its in apart)
    found = shared_policer(a, b)
    assert found.in_step == pytest.approx(0.5, abs=0.1)
    assert found.verdict == "separate", found.reason
    assert found.decided_by is found.buckets


@pytest.mark.parametrize("other_packets", [1_000, 16_000])
def test_one_policer_is_not_found_where_a_part_of_the_packets_is_in_step(other_packets: int) -> None:
    """Each flow has its own policer with other traffic; a third of the windows leave at the same moment."""
    rng = np.random.default_rng(other_packets)
    common = rng.uniform(0, 40, 330)
    rate_bps = (4_000 + other_packets) * 1514 * 8 / 40 / 1.2
    flows = []
    for _ in range(2):
        starts = np.concatenate([common, rng.uniform(0, 40, 670)])
        at_s = np.sort((starts[:, None] + np.arange(4) * 2e-4).ravel())
        flows.append(alone_in_bucket(at_s, np.sort(rng.uniform(0, 40, other_packets)), rate_bps))
    found = shared_policer(*flows)
    print(found.correlogram, found.likelihood, found.reason)
    assert found.in_step == pytest.approx(0.33, abs=0.05)
    assert found.correlogram is not None
    assert found.correlogram.verdict == "shared", "a correlogram cannot tell"
    assert found.verdict != "shared", found.reason


def alone_in_bucket(at_s: Floats, others_s: Floats | tuple[()] = (), rate_bps: float = 5e6) -> FlowEvents:
    """Frames at these times, policed with a bucket of 20 kB together with others that were not captured."""
    times = np.concatenate([at_s, others_s])
    order = np.argsort(times, kind="stable")
    level, now, lost = 20_000.0, 0.0, np.zeros(len(times), dtype=bool)
    for packet, at in zip(order.tolist(), times[order].tolist(), strict=True):
        level, now = min(20_000.0, level + rate_bps / 8 * (at - now)), at
        lost[packet] = level < 1514
        level -= 0 if lost[packet] else 1514
    sent_ns = (at_s * 1e9).astype(np.int64)
    return FlowEvents(sent_ns, np.full(len(at_s), 1448), lost[: len(at_s)], 20_000_000)


def test_flows_are_in_step_whatever_their_clocks_say(flow: FlowEvents) -> None:
    a, b = (replace(one, clock_error_ns=2_000_000) for one in (flow, later(flow, 1_300_000)))
    measured = in_step(a, b)
    assert measured == pytest.approx(1.0, abs=0.05)
    assert shared_policer(a, b).verdict == "cannot_tell"
    apart = in_step(flow, later(flow, 1_300_000))
    assert apart is not None
    assert apart < IN_STEP


@pytest.mark.parametrize(("jitter_s", "told"), [(2e-5, True), (1e-4, True), (5e-3, False)])
def test_jitter_hides_step_only_where_it_is_coarser_than_a_buckets_memory(
    flow: FlowEvents, jitter_s: float, told: bool
) -> None:
    rng = np.random.default_rng(5)
    measured = in_step(*(with_jitter(one, jitter_s, rng) for one in (flow, later(flow, 1_000))))
    print(f"{jitter_s * 1e3:g} ms: {measured}")
    assert (measured is not None) == told
    assert measured is None or measured >= IN_STEP


def test_the_level_sees_step_through_jitter(flow: FlowEvents) -> None:
    rng = np.random.default_rng(5)
    found = bucket_level(*(with_jitter(one, 1e-3, rng) for one in (flow, later(flow, 1_000))))
    assert found.load_correlation is not None
    assert found.load_correlation >= LOADS_IN_STEP
    assert found.verdict == "cannot_tell", found.reason
    assert "in step" in found.reason


@pytest.mark.parametrize("scenario", ["cubic-shared", "bbr-shared", "cubic-separate", "bbr-separate"])
def test_flows_that_differ_a_little_are_not_in_step(scenario: str) -> None:
    a, b = generate(SCENARIOS[scenario], 3, SECONDS)
    measured, correlation = in_step(a, b), bucket_level(a, b).load_correlation
    print(f"{scenario}: {measured}, correlation {correlation}")
    assert measured is not None
    assert measured < IN_STEP
    assert correlation is not None
    assert correlation < LOADS_IN_STEP


def test_without_common_time_or_packets_nothing_is_said(flow: FlowEvents) -> None:
    few = FlowEvents(flow.sent_ns[:20], flow.size_bytes[:20], flow.lost[:20], flow.min_rtt_ns)
    assert in_step(flow, few) is None
    assert in_step(flow, later(flow, int(100e9))) is None


def test_flows_alike_are_known_through_jitter(flow: FlowEvents) -> None:
    rng = np.random.default_rng(6)
    for jitter_s in (1e-4, 1e-3):
        assert alike(with_jitter(flow, jitter_s, rng), with_jitter(flow, jitter_s, rng))
    assert not alike(flow, later(flow, 2 * 10**9)), "the losses are at other times"
    every = np.arange(len(flow.sent_ns)) % 10 > 0
    fewer = replace(
        flow, sent_ns=flow.sent_ns[every], size_bytes=flow.size_bytes[every], lost=flow.lost[every]
    )
    assert not alike(flow, fewer), "one of them sends less"
    assert not alike(flow, replace(flow, lost=np.zeros_like(flow.lost))), "one of them loses nothing"


@pytest.mark.parametrize(("step", "verdict"), [(0.2, "shared"), (0.4, "shared"), (0.6, "cannot_tell")])
def test_flows_little_in_step_share_a_policer_if_all_losses_say_so(
    monkeypatch: pytest.MonkeyPatch, step: float, verdict: str
) -> None:
    (pair,) = Simulated(134, 20.0).pairs()
    memory = frame_memory(*pair.flows)
    assert (memory.verdict, memory.kappa) == ("shared", pytest.approx(0.94, abs=0.04))
    monkeypatch.setattr("weir.analysis.detectors.shared.in_step", lambda *_: step)
    found = shared_policer(*pair.flows)
    assert found.verdict == verdict, found.reason
