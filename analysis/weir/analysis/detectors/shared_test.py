# SPDX-License-Identifier: Apache-2.0
"""Detectors of pairs on simulated truth; statistics are printed and asserted with tolerance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.detectors import PAIR_DETECTORS, FlowEvents
from weir.analysis.detectors.buckets import one_bucket_or_two
from weir.analysis.detectors.correlation import METHODS, METRICS, RESAMPLED, trend
from weir.analysis.detectors.level import LevelResult
from weir.analysis.detectors.likelihood import bucket_likelihood
from weir.analysis.detectors.memory import OWN, excess_of, frame_memory, own_z
from weir.analysis.detectors.shared import CONTRADICTION, SIGNIFICANT_Z, shared_policer
from weir.analysis.detectors.wehey import loss_trend_correlation
from weir.analysis.paths.pair import Simulated
from weir.analysis.statistics import share
from weir.analysis.synthetic import SCENARIOS, generate

SECONDS = 12.0
Pair = tuple[FlowEvents, FlowEvents]


@pytest.fixture(scope="module", params=["cubic", "bbr"])
def control(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def behind_one(control: str) -> Pair:
    return generate(SCENARIOS[f"{control}-shared"], 3, SECONDS)


@pytest.fixture(scope="module")
def behind_two(control: str) -> Pair:
    return generate(SCENARIOS[f"{control}-separate"], 3, SECONDS)


def test_one_bucket_remembers_the_other_flows_drops(behind_one: Pair, behind_two: Pair) -> None:
    one, two = frame_memory(*behind_one), frame_memory(*behind_two)
    print(
        f"κ {one.kappa:.2f} (p = {one.p:.3f}) behind one bucket, {two.kappa:.2f} (p = {two.p:.3f}) behind two"
    )
    assert (one.verdict, two.verdict) == ("shared", "separate"), (one.reason, two.reason)
    assert one.kappa is not None
    assert one.kappa == pytest.approx(0.75, abs=0.35)
    assert two.kappa == pytest.approx(0.0, abs=0.2)


def test_a_large_effect_that_is_not_significant_is_evidence_for_neither(
    behind_one: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stricter than any rank among 99 shifts can be.
    monkeypatch.setattr("weir.analysis.detectors.memory.ALPHA", 0.001)
    found = frame_memory(*behind_one)
    assert found.verdict == "cannot_tell"
    assert "too little to exclude chance" in found.reason


def test_the_same_flows_in_either_order_give_the_same_verdict(behind_one: Pair) -> None:
    assert frame_memory(behind_one[1], behind_one[0]).kappa == pytest.approx(frame_memory(*behind_one).kappa)


def test_clocks_that_differ_by_a_constant_are_scanned() -> None:
    a, b = generate(SCENARIOS["cubic-shared"], 3, SECONDS)
    off = replace(b, sent_ns=b.sent_ns + 1_300_000, clock_error_ns=2_000_000)
    found = frame_memory(replace(a, clock_error_ns=2_000_000), off)
    assert found.verdict == "shared", found.reason
    assert found.lag_us == pytest.approx(1_300, abs=600)  # frames of both are 0.5 ms apart


def test_times_too_coarse_for_a_frame_are_the_reason(behind_two: Pair) -> None:
    a, b = (replace(flow, jitter_ns=5_000_000) for flow in behind_two)
    found = frame_memory(a, b)
    assert found.verdict == "cannot_tell"
    assert "times are wrong by about 5000 µs: too coarse" in found.reason


def policed(measured_mbps: tuple[float, float], other_mbps: float, rate_mbps: float, buckets: int) -> Pair:
    """Two flows of a minute, packets at random times, among many others in one bucket or in one each."""
    rng = np.random.default_rng(5)
    frame, rate, seconds = 1514, rate_mbps / 8 * 1e6, 60.0
    events = []
    for bucket in range(buckets):
        inside = [n for n in range(2) if buckets == 1 or n == bucket]
        loads = [(n, measured_mbps[n]) for n in inside] + [(-1, other_mbps)]
        at = [rng.uniform(0, seconds, round(mbps / 8 * 1e6 / frame * seconds)) for _, mbps in loads]
        owner = np.concatenate([np.full(len(times), n) for (n, _), times in zip(loads, at, strict=True)])
        times = np.concatenate(at)
        order = np.argsort(times)
        owner, times = owner[order], times[order]
        level, now, lost = 0.0, 0.0, np.zeros(len(times), dtype=bool)
        for i, t in enumerate(times.tolist()):
            level, now = min(100_000.0, level + rate * (t - now)), t
            lost[i] = level < frame
            level -= 0 if lost[i] else frame
        for n in inside:
            mine = owner == n
            events.append(
                FlowEvents(
                    (times[mine] * 1e9).astype(np.int64),
                    np.full(int(mine.sum()), 1448),
                    lost[mine],
                    20_000_000,
                )
            )
    return events[0], events[1]


def test_one_bucket_is_distinguished_from_two_where_others_use_nearly_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = frame_memory(*policed((1.5, 1.5), 57, 40, buckets=1))
    two = frame_memory(*policed((1.5, 1.5), 57, 40, buckets=2))
    print(f"κ {one.kappa:.2f} (p = {one.p:.3f}) behind one, {two.kappa:.2f} (p = {two.p:.3f}) behind two")
    assert (one.verdict, two.verdict) == ("shared", "separate"), (one.reason, two.reason)
    smaller = policed((1.0, 1.0), 57, 40, buckets=1)
    found = frame_memory(*smaller)
    assert found.verdict == "shared", found.reason
    assert found.tau_us is not None
    assert found.tau_us < 2 * 1514 * 8 / 40, "near the memory of 40 Mbit/s, not of the flows' own rates"
    monkeypatch.setattr("weir.analysis.detectors.memory.SHORT", ())
    assert frame_memory(*smaller).verdict != "shared"


def test_few_packets_among_many_others_are_evidence_for_neither() -> None:
    found = frame_memory(*policed((0.5, 0.5), 57, 40, buckets=1))
    assert found.verdict == "cannot_tell", found.reason
    assert "too few packets at once" in found.reason


def test_random_losses_of_bursts_do_not_depend_on_a_flows_own_drops() -> None:
    rng = np.random.default_rng(3)
    # Bursts of 2 to 40 frames, 12 µs apart: few are within two RTTs of each other.
    burst_s = np.cumsum(rng.exponential(0.1, 1_000))
    time_ns = np.concatenate([int(at * 1e9) + 12_000 * np.arange(rng.integers(2, 40)) for at in burst_s])
    lost = rng.random(len(time_ns)) < 0.02
    flow = FlowEvents(np.sort(time_ns), np.full(len(time_ns), 1448), lost, min_rtt_ns=20_000_000)
    found = own_z(excess_of(flow, int(time_ns.min()), int(time_ns.max()), 20_000_000), 1e-3 * np.array(OWN))
    print(found)
    assert np.all(np.abs(found) < 2.5)


def test_an_excess_that_comes_late_is_not_a_buckets() -> None:
    rng = np.random.default_rng(2)
    times = [np.sort(rng.uniform(0, 60, 6000)) for _ in range(2)]
    lost: tuple[list[bool], list[bool]] = ([], [])
    drops: tuple[list[float], list[float]] = ([-1.0], [-1.0])
    # As when a machine stalls: a flow loses packets 1 to 6 ms after the other.
    for at, flow in sorted((each, owner) for owner in range(2) for each in times[owner].tolist()):
        late = any(0.001 < at - drop < 0.006 for drop in drops[1 - flow][-3:])
        lost[flow].append(bool(rng.random() < (0.9 if late else 0.05)))
        if lost[flow][-1]:
            drops[flow].append(at)
    a, b = (
        FlowEvents((at * 1e9).astype(np.int64), np.full(6000, 1448), np.array(its), 20_000_000)
        for at, its in zip(times, lost, strict=True)
    )
    found = frame_memory(a, b)
    assert found.verdict == "cannot_tell", found.reason
    assert "more excess later than at once" in found.reason


def test_fitted_buckets_may_decide_where_the_memory_does_not() -> None:
    rng = np.random.default_rng(1)
    events = []
    # Two flows that take turns: no packet of one comes within a frame's time of the other's drops.
    for side in range(2):
        at = np.concatenate([np.arange(300) * 1e-4 + turn for turn in np.arange(side, 20, 2)])
        events.append(at + rng.uniform(0, 1e-5, len(at)))
    merged = np.sort(np.concatenate(events))
    backlog, now, dropped = 0.0, 0.0, set()
    for at in merged.tolist():
        backlog, now = max(0.0, backlog - 50_000 * (at - now)), at
        if backlog + 1514 > 150_000:
            dropped.add(at)
        else:
            backlog += 1514
    a, b = (
        FlowEvents(
            (at * 1e9).astype(np.int64),
            np.full(len(at), 1448),
            np.array([t in dropped for t in at.tolist()]),
            20_000_000,
        )
        for at in (np.sort(events[0]), np.sort(events[1]))
    )
    assert frame_memory(a, b).verdict == "cannot_tell"
    found = one_bucket_or_two(a, b)
    assert found.verdict == "shared", found.reason
    assert found.rate_bps == pytest.approx(400_000, rel=0.02)
    assert shared_policer(a, b).reason == found.reason


def test_a_small_but_significant_excess_does_not_contradict_a_level_that_finds_one_policer() -> None:
    (pair,) = Simulated(68, 20.0).pairs()
    memory = frame_memory(*pair.flows)
    assert (pair.truth, memory.verdict) == ("shared", "separate")
    assert (memory.z or 0.0) > SIGNIFICANT_Z
    result = shared_policer(*pair.flows)
    assert (result.verdict, result.decided_by) == ("shared", result.level)
    assert "little excess, but no chance" in result.memory.reason


def test_a_common_start_does_not_stand_against_a_likelihood_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    (pair,) = Simulated(25, 20.0).pairs()
    flows = pair.at(1e-3)
    found = LevelResult("shared", "z of 7.4", 0.01, 7.4, evidence=3.4)
    assert bucket_likelihood(*flows).verdict == "separate"
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_level", lambda *_: found)
    result = shared_policer(*flows)
    assert result.verdict == "cannot_tell"
    assert result.reason.startswith(CONTRADICTION)
    response = replace(found, kappa=0.7, kappa_error=0.2)
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_level", lambda *_: response)
    assert shared_policer(*flows).verdict == "cannot_tell", "nor does a response, if losses meet by chance"


@pytest.mark.parametrize("after_s", [59, 100])
def test_flows_behind_each_other_do_not_show_that_two_buckets_alike_are_one(after_s: int) -> None:
    one, other = policed((10, 10), 0, 5, buckets=2)
    later = replace(other, sent_ns=other.sent_ns + after_s * 10**9)
    found = one_bucket_or_two(one, later)
    print(found.reason)
    assert found.verdict == "cannot_tell", found.reason
    assert shared_policer(one, later).verdict != "shared"


def test_two_policed_flows_fit_two_buckets_better() -> None:
    rng = np.random.default_rng(4)
    flows = []
    for rate in (200_000.0, 300_000.0):
        at = np.cumsum(rng.exponential(1514 / rate / 1.5, 5_000))
        backlog, now, lost = 0.0, 0.0, []
        for t in at.tolist():
            backlog, now = max(0.0, backlog - rate * (t - now)), t
            lost.append(backlog + 1514 > 30_000)
            backlog += 0 if lost[-1] else 1514
        flows.append(
            FlowEvents((at * 1e9).astype(np.int64), np.full(5_000, 1448), np.array(lost), 20_000_000)
        )
    found = one_bucket_or_two(*flows)
    assert found.verdict == "separate", found.reason


def test_under_strong_autocorrelation_ours_keeps_its_level_and_the_published_rule_is_shown() -> None:
    draws, shown = 200, 40
    wrong, published, below = 0, 0, 0
    for seed in range(draws):
        a, b = generate(SCENARIOS["modulated-separate"], seed, 12.0)
        found = shared_policer(a, b)
        wrong += found.verdict == "shared"
        below += found.memory.p is not None and found.memory.p < 0.05
        if seed < shown:
            published += loss_trend_correlation(a, b).verdict == "shared"
    ours, theirs, level = share(wrong, draws), share(published, shown), share(below, draws)
    for name, its in (("ours", ours), ("published rule", theirs), ("p < 0.05", level)):
        print(f"{name}: {its.count} of {its.of} ({its.low:.3f} to {its.high:.3f})")
    # Exact 95 % intervals: our errors are below the level, and p-values neither too small nor too large.
    assert ours.high <= 0.05
    assert level.low <= 0.05 <= level.high


def test_behind_one_policer_ours_is_at_least_as_powerful_as_the_published_rule() -> None:
    ours = published = 0
    for name in ("cubic-shared", "bbr-shared"):
        for seed in range(3):
            pair = generate(SCENARIOS[name], seed, SECONDS)
            ours += shared_policer(*pair).verdict == "shared"
            published += loss_trend_correlation(*pair).verdict == "shared"
    print(f"found behind one policer: ours {ours} of 6, published rule {published} of 6")
    assert ours >= published
    assert ours >= 5


@pytest.mark.parametrize("name", list(PAIR_DETECTORS))
def test_every_detector_reports_too_little_data(name: str) -> None:
    nothing = np.empty(0, dtype=np.int64)
    empty = FlowEvents(nothing, nothing, nothing.astype(bool), 20_000_000)
    quiet = FlowEvents(np.arange(50) * 10**6, np.full(50, 1448), np.zeros(50, dtype=bool), 20_000_000)
    for pair in ((empty, empty), (quiet, empty), (quiet, quiet)):
        found = PAIR_DETECTORS[name](*pair)
        assert found.verdict == "cannot_tell"
        assert found.reason
        assert isinstance(found.detail(), dict)


def correlated(strength: float) -> Pair:
    """Two flows whose loss, size and delay follow one pattern of 100 ms steps, with weight `strength`."""
    rng = np.random.default_rng(8)
    common = rng.uniform(0, 1, 400)
    flows = []
    for _ in range(2):
        level = np.repeat(strength * common + (1 - strength) * rng.uniform(0, 1, 400), 40)
        at = np.arange(16_000) * 2_500_000
        flows.append(
            FlowEvents(
                at,
                (1448 * (1.5 - level)).astype(np.int64),
                rng.random(16_000) < 0.3 * level,
                2_000_000,
                rtt_sent_ns=at,
                rtt_ns=(2_000_000 * (1 + level)).astype(np.int64),
            )
        )
    return flows[0], flows[1]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", METHODS)
def test_a_common_pattern_correlates_and_two_patterns_do_not(metric: str, method: str) -> None:
    verdicts = [trend(*correlated(strength), metric, method).verdict for strength in (1.0, 0.0)]  # type: ignore[arg-type]
    assert verdicts == ["shared", "separate"]


@pytest.mark.parametrize("name", list(RESAMPLED))
def test_ranks_among_resampled_series_keep_a_common_pattern_and_refuse_two(name: str) -> None:
    verdicts = []
    for strength in (1.0, 0.0):
        a, b = (replace(flow, min_rtt_ns=10_000_000) for flow in correlated(strength))
        verdicts.append(RESAMPLED[name](a, b).verdict)
    assert verdicts == ["shared", "separate"]


def test_the_loss_trend_with_spearmans_coefficient_is_the_published_rule() -> None:
    pair = correlated(0.5)
    ours, published = trend(*pair, "loss", "spearman"), loss_trend_correlation(*pair)
    assert [(s.n, s.coefficient, s.p) for s in ours.sizes] == [(s.n, s.rho, s.p) for s in published.sizes]
    assert ours.verdict == published.verdict


def nearly_all_lost(loss: float, seed: int, packets: int = 20) -> Pair:
    """Two independent flows with so many packets in 10 s, which lose this share."""
    rng = np.random.default_rng(seed)

    def flow() -> FlowEvents:
        at_ns = np.sort(rng.integers(0, 10**10, packets))
        return FlowEvents(at_ns, np.full(packets, 1448), rng.random(packets) < loss, 20_000_000)

    return flow(), flow()


@pytest.mark.parametrize("loss", [1.0, 0.97, 0.9])
def test_flows_of_which_nearly_nothing_passed_show_no_common_bucket(loss: float) -> None:
    pairs = [nearly_all_lost(loss, seed) for seed in range(40)]
    by_memory = [frame_memory(*pair).verdict for pair in pairs]
    by_buckets = [one_bucket_or_two(*pair).verdict for pair in pairs]
    print(f"shared of 40: {by_memory.count('shared')} by memory, {by_buckets.count('shared')} by buckets")
    assert by_memory.count("shared") <= 2
    assert by_buckets.count("shared") <= 2


@pytest.mark.parametrize(("packets", "loss"), [(300, 0.7), (300, 0.9), (800, 0.97)])
def test_random_loss_of_most_packets_is_no_common_bucket(packets: int, loss: float) -> None:
    pairs = [nearly_all_lost(loss, seed, packets) for seed in range(20)]
    assert {one_bucket_or_two(*pair).verdict for pair in pairs} == {"cannot_tell"}


def test_a_common_bucket_that_drops_most_packets_is_found() -> None:
    found = one_bucket_or_two(*policed((10, 10), 0, 2, buckets=1))
    assert found.verdict == "shared", found.reason
    assert found.rate_bps == pytest.approx(2e6, rel=0.02)


@pytest.mark.parametrize(("kappa", "test"), [(0.5, "correlogram"), (0.3, "weighed")])
def test_loads_in_step_are_believed_if_losses_follow_them(
    monkeypatch: pytest.MonkeyPatch, kappa: float, test: str
) -> None:
    """Where the response is small, only odds that are clear decide."""
    (pair,) = Simulated(156, 20.0).pairs()
    flows = pair.at(1e-3)
    level = LevelResult("cannot_tell", "in step", 0.01, 9.0, kappa=kappa, evidence=8.0, load_correlation=0.6)
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_level", lambda *_: level)
    result = shared_policer(*flows)
    print(result.correlogram, result.likelihood)
    assert (result.verdict, result.detail()["decided_by"]) == ("shared", test), result.reason


@pytest.mark.parametrize(("part", "verdict"), [(0.3, "shared"), (0.6, "cannot_tell")])
def test_flows_in_step_share_a_policer_if_all_losses_together_say_so(
    monkeypatch: pytest.MonkeyPatch, part: float, verdict: str
) -> None:
    (pair,) = Simulated(156, 20.0).pairs()
    monkeypatch.setattr("weir.analysis.detectors.shared.in_step", lambda *_: part)
    result = shared_policer(*pair.at(1e-3))
    print(result.correlogram, result.likelihood)
    assert result.verdict == verdict, result.reason
    assert verdict == "cannot_tell" or result.decided_by is result.weighed


@pytest.mark.parametrize(("correlation", "verdict"), [(-0.3, "shared"), (0.1, "cannot_tell")])
def test_flows_alike_share_a_policer_if_they_compete(
    monkeypatch: pytest.MonkeyPatch, correlation: float, verdict: str
) -> None:
    (pair,) = Simulated(156, 20.0).pairs()
    level = LevelResult("cannot_tell", "alike", 0.5, 0.0, load_correlation=correlation)
    monkeypatch.setattr("weir.analysis.detectors.shared.bucket_level", lambda *_: level)
    monkeypatch.setattr("weir.analysis.detectors.shared.alike", lambda *_: True)
    result = shared_policer(*pair.at(1e-3))
    assert result.verdict == verdict, result.reason


def test_p_is_that_of_the_correlogram_whichever_test_decides(behind_one: Pair) -> None:
    found = shared_policer(*behind_one)
    assert found.decided_by is found.memory
    assert found.correlogram is not None
    assert found.detail()["p"] == found.correlogram.p != found.memory.p
    short = [
        replace(flow, **{name: getattr(flow, name)[:kept] for name in ("sent_ns", "size_bytes", "lost")})
        for flow in behind_one
        for kept in [int(np.searchsorted(flow.sent_ns, flow.sent_ns[0] + 3 * 10**9))]
    ]
    found = shared_policer(*short)
    assert found.correlogram is not None
    assert found.correlogram.p is None, "the flows ran together for less than 4 s"
    assert found.decided_by is found.memory
    assert found.detail()["p"] == found.memory.p is not None
