# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from weir.analysis.detectors.policing import POLICING_DETECTORS, own
from weir.analysis.detectors.policing.bucket import Arrivals, best_threshold, demand
from weir.analysis.detectors.policing.fit import fit_bucket
from weir.analysis.detectors.policing.independence import ALPHA, independence_p
from weir.analysis.detectors.policing.load import own_dependence
from weir.analysis.detectors.policing.own import detect_policing
from weir.analysis.jitter import delay_spread_of
from weir.analysis.synthetic import draw_single
from weir.analysis.tables import Bools, Floats, Ints
from weir.analysis.traces import FlowTrace, as_received
from weir_tests.analysis.traces import RTT_NS, make_trace

FRAME = 1514
RATE, BURST = 250_000.0, 30_000.0
"""2 Mbit/s and 20 frames."""


def bursts(rng: np.random.Generator, seconds: float, mean_rate: float) -> Floats:
    """Times of frames in back-to-back trains of random length, like TCP's; `mean_rate` on average."""
    times: list[float] = []
    at = 0.0
    while at < seconds:
        train = int(rng.integers(2, 40))
        times.extend(at + 12e-6 * np.arange(train))
        at += float(rng.exponential(train * FRAME / mean_rate)) + 12e-6 * train
    return np.array(times)


def policed(
    time_s: Floats, rate: float = RATE, burst: float = BURST, frame_bytes: Ints | None = None
) -> tuple[Bools, Floats]:
    """A token bucket that starts full: which frames it drops, and the backlog at each frame."""
    length = np.full(len(time_s), FRAME) if frame_bytes is None else frame_bytes
    tokens, now = burst, float(time_s[0])
    lost, backlog = np.zeros(len(time_s), dtype=bool), np.zeros(len(time_s))
    for i, at in enumerate(time_s):
        tokens, now = min(burst, tokens + rate * (at - now)), float(at)
        backlog[i] = burst - tokens
        if tokens < length[i]:
            lost[i] = True
        else:
            tokens -= length[i]
    return lost, backlog


def trace(time_s: Floats, lost: Bools, port: int = 40000, wait_s: Floats | None = None) -> FlowTrace:
    wait_ns = np.zeros(len(time_s)) if wait_s is None else wait_s * 1e9
    return make_trace(
        (time_s * 1e9).astype(np.int64), lost=np.flatnonzero(lost), port=port, rtt_ns=RTT_NS + wait_ns
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_demand_follows_the_bucket_step_by_step(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 5, 1.3 * RATE)
    lost, backlog = policed(time_s)
    packets = Arrivals(time_s, np.full(len(time_s), float(FRAME)), lost)
    assert demand(packets, RATE) - FRAME == pytest.approx(backlog, abs=1e-6)
    found = best_threshold(demand(packets, RATE), lost)
    assert (found.score, found.misses, found.false_drops) == (1.0, 0, 0)
    assert found.low <= BURST < found.high


def test_the_best_threshold_scores_as_the_best_of_all_thresholds(rng: np.random.Generator) -> None:
    for losses in range(1, 30):
        # Few values, so that many are equal.
        v = rng.integers(0, 12, 30).astype(float)
        lost = rng.permutation(np.arange(30) < losses)
        found = best_threshold(v, lost)
        above = [v > burst for burst in np.arange(-1, 12)]
        scores = [np.sum(lost & drops) / np.sum(lost | drops) for drops in above]
        assert found.score == max(scores)
        drops = v >= found.high
        assert (found.hits, found.misses, found.false_drops) == (
            np.sum(lost & drops),
            np.sum(lost & ~drops),
            np.sum(~lost & drops),
        )


@pytest.mark.parametrize("load", [0.7, 1.2, 3.0])
def test_rate_and_burst_are_recovered_from_the_losses(load: float, rng: np.random.Generator) -> None:
    time_s = bursts(rng, 30, load * RATE)
    lost, _ = policed(time_s)
    found = fit_bucket(Arrivals(time_s, np.full(len(time_s), float(FRAME)), lost))
    assert found is not None
    print(f"load {load}: rate ×{found.rate / RATE:.4f}, burst ×{found.burst_bytes / BURST:.4f}")
    assert found.score > 0.99
    assert found.rate_low <= RATE * 1.0001
    assert found.rate_high >= RATE * 0.9999
    assert found.rate == pytest.approx(RATE, rel=0.02)
    assert found.burst_bytes == pytest.approx(BURST, abs=FRAME)


def test_one_flow_in_a_bucket_is_policed(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, 1.3 * RATE)
    [found] = detect_policing([trace(time_s, policed(time_s)[0])])
    assert found.verdict == "policed", found.reason
    assert found.rate_bps == pytest.approx(RATE * 8, rel=0.02)


def test_the_delays_of_each_flow_are_read_once_for_all_groups(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_s = bursts(rng, 20, 2.0 * RATE)
    lost, _ = policed(time_s)
    owner = rng.integers(0, 3, len(time_s))
    flows = [trace(time_s[owner == i], lost[owner == i], port=40000 + i) for i in range(3)]
    read: list[int] = []

    def counted(sent_ns: Ints, rtt_ns: Ints) -> int:
        read.append(next(i for i, flow in enumerate(flows) if flow.rtt_ns is rtt_ns))
        return delay_spread_of(sent_ns, rtt_ns)

    monkeypatch.setattr(own, "delay_spread_of", counted)
    assert {found.verdict for found in detect_policing(flows)} == {"policed"}
    assert sorted(read) == [0, 1, 2]


def test_two_flows_in_one_bucket_are_found_together(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 30, 1.5 * RATE)
    lost, _ = policed(time_s)
    train = np.cumsum(np.diff(time_s, prepend=time_s[0]) > 20e-6)
    mine = rng.random(train[-1] + 1)[train] < 0.5
    flows = [trace(time_s[mine], lost[mine]), trace(time_s[~mine], lost[~mine], port=40001)]
    for flow in flows:
        [found] = detect_policing([flow])
        assert found.verdict == "cannot_tell"
        assert "perhaps with other traffic that is not in the capture" in found.reason
    for found in detect_policing(flows):
        assert found.verdict == "policed", found.reason
        assert found.rate_bps == pytest.approx(RATE * 8, rel=0.02)
        assert "together with" in found.reason


ACK = 66


@pytest.mark.parametrize("same_policer", [True, False])
def test_the_packets_of_a_control_connection_count_where_they_use_tokens(
    same_policer: bool, rng: np.random.Generator
) -> None:
    data_s, control_s = bursts(rng, 30, 3 * RATE), np.sort(rng.uniform(0, 30, 300))
    time_s = np.concatenate([data_s, control_s])
    order = np.argsort(time_s)
    sizes = np.concatenate([np.full(len(data_s), FRAME), np.full(len(control_s), ACK)])[order]
    lost, is_data = np.zeros(len(time_s), dtype=bool), sizes == FRAME
    some = np.full(len(time_s), same_policer) | is_data
    lost[some] = policed(time_s[order][some], frame_bytes=sizes[some])[0]
    control = make_trace(
        (control_s * 1e9).astype(np.int64),
        lost=np.flatnonzero(lost[~is_data]),
        payload=np.zeros(len(control_s), dtype=np.int64),
        port=40001,
    )
    data = trace(data_s, lost[is_data])
    [found, _] = detect_policing([data, control])
    assert found.detail["together_with"] == ([control.name] if same_policer else [])
    low, high = found.detail["burst_bytes_95"]  # type: ignore[misc]
    assert low <= BURST <= high
    if same_policer:
        alone_low, alone_high = detect_policing([data])[0].detail["burst_bytes_95"]  # type: ignore[misc]
        assert high - low < (alone_high - alone_low) / 2


def test_delays_behind_the_policer_do_not_widen_the_intervals(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 30, 3 * RATE)
    packets = Arrivals(time_s, np.full(len(time_s), float(FRAME)), policed(time_s)[0])
    sharp, behind = (fit_bucket(packets, delay_spread_s=spread) for spread in (0.0, 0.01))
    assert sharp is not None
    assert behind is not None
    assert behind.burst_high - behind.burst_low < 1.5 * (sharp.burst_high - sharp.burst_low)


def test_delays_before_the_policer_widen_the_intervals(rng: np.random.Generator) -> None:
    met_s = bursts(rng, 30, 3 * RATE)
    window = (met_s / 0.01).astype(int)
    delay_s = rng.exponential(0.003, window[-1] + 1)[window]
    seen_s = met_s - delay_s
    order = np.argsort(seen_s)
    packets = Arrivals(seen_s[order], np.full(len(met_s), float(FRAME)), policed(met_s)[0][order])
    sharp, wide = (fit_bucket(packets, delay_spread_s=spread) for spread in (0.0, 0.01))
    assert sharp is not None
    assert wide is not None
    assert wide.burst_high - wide.burst_low > 0.01 * RATE
    assert wide.burst_low <= BURST <= wide.burst_high


def test_a_few_flows_are_named_the_others_counted() -> None:
    assert own._named(["a", "b"]) == "a, b"
    assert own._named(list("abcdef")) == "a, b, c, d and 2 more"


@pytest.mark.parametrize("jitter_s", [0.0, 5e-3])
def test_a_policer_with_traffic_that_was_not_captured_is_not_excluded(jitter_s: float) -> None:
    for seed in range(100, 110):
        [found] = detect_policing(draw_single("policed-cross", seed, 20.0, jitter_s).flows)
        assert found.verdict != "not_policed", found.reason


def test_losses_that_follow_each_other_do_not_exclude_a_policer_with_other_traffic() -> None:
    found = [detect_policing(draw_single("policed-limited-cross", seed).flows)[0] for seed in range(100, 120)]
    print(*(f"{each.verdict}: {each.reason}" for each in found), sep="\n")
    dependent = [each for each in found if "losses follow each other" in each.reason]
    assert len(dependent) >= 10
    assert {each.verdict for each in dependent} == {"cannot_tell"}
    # 12 of these 20 before evenness and dependence counted.
    assert sum(each.verdict == "not_policed" for each in found) <= 1


def test_a_flow_that_sends_evenly_does_not_exclude_a_policer_with_other_traffic(
    rng: np.random.Generator,
) -> None:
    time_s = np.arange(0, 20, FRAME / RATE)
    [found] = detect_policing([trace(time_s, rng.random(len(time_s)) < 0.02)])
    assert found.verdict == "cannot_tell"
    assert "the flow sends so evenly" in found.reason


@pytest.mark.parametrize("loss", [0.005, 0.1, 0.5, 0.9])
def test_independent_losses_have_uniform_p_values(loss: float) -> None:
    p = [independence_p(np.random.default_rng([7, seed]).random(3000) < loss) for seed in range(100)]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    assert np.mean(np.array(p) <= ALPHA) <= 0.05


@pytest.mark.parametrize("gap", [20, 21])
def test_losses_at_even_gaps_or_together_are_not_independent(gap: int, rng: np.random.Generator) -> None:
    evenly = np.zeros(3000, dtype=bool)
    evenly[np.arange(40, 3000, gap) + rng.integers(-5, 6, len(range(40, 3000, gap)))] = True
    together = np.repeat(rng.random(1500) < 1 / gap, 2)
    for lost in (evenly, together):
        p = independence_p(lost)
        assert p is not None
        assert p <= ALPHA


def test_a_loss_rate_that_changes_slowly_is_no_dependence() -> None:
    rate = 0.02 + 0.015 * np.sin(np.linspace(0, 2 * np.pi, 20_000))
    p = [independence_p(np.random.default_rng([9, seed]).random(20_000) < rate) for seed in range(40)]
    assert np.mean(np.array(p) <= ALPHA) <= 0.1


def test_too_few_losses_show_no_independence() -> None:
    assert independence_p(np.zeros(100, dtype=bool)) is None
    assert independence_p(np.arange(100) < 3) is None
    assert independence_p(np.ones(3, dtype=bool)) is None


@pytest.mark.parametrize("together", [1, 2])
def test_losses_of_a_long_flow_are_all_looked_at(together: int, rng: np.random.Generator) -> None:
    lost = np.zeros(1_000_000, dtype=bool)
    for each in rng.choice(999_999, 60 // together, replace=False):
        lost[each : each + together] = True
    p = independence_p(lost)
    assert p is not None
    assert (p <= ALPHA) == (together == 2)


def test_a_queue_with_traffic_that_was_not_captured_is_no_policer() -> None:
    found = [detect_policing(draw_single("shaped-cross", seed).flows)[0] for seed in range(100, 110)]
    met = [each for each in found if each.reason.startswith("losses met a queue")]
    print(*(f"{each.verdict}: {each.reason}" for each in found), sep="\n")
    assert not any(each.verdict == "policed" for each in found)
    assert len(met) >= 3
    assert {each.verdict for each in met} == {"not_policed"}


def test_a_queue_that_is_always_full_is_no_policer(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, 0.7 * RATE)
    lost, _ = policed(time_s)
    wait_s = np.where(time_s < 0.5, 0.0, 0.05)
    [found] = detect_policing([trace(time_s, lost, wait_s=wait_s)])
    assert (found.verdict, found.rate_bps) == ("cannot_tell", None), found.reason
    assert "a queue that is always full may have dropped the packets: nine of ten RTTs are" in found.reason
    [steady] = detect_policing([trace(time_s, lost, wait_s=np.full(len(time_s), 0.05))])
    assert steady.verdict == "policed", steady.reason


def test_losses_of_random_loss_do_not_follow_what_was_sent() -> None:
    for seed in range(100, 110):
        [random], [policed, *_] = (draw_single(k, seed).flows for k in ("random-loss", "policed-two"))
        assert not own_dependence(random).found
        assert own_dependence(policed).found


def test_rtts_of_no_time_are_no_error(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, RATE)
    lost = rng.random(len(time_s)) < 0.02
    flow = replace(trace(time_s, lost), rtt_ns=np.zeros(len(time_s), dtype=np.int64))
    assert detect_policing([flow])[0].verdict == "not_policed"


def test_flows_in_separate_buckets_keep_their_rates(rng: np.random.Generator) -> None:
    flows = []
    for n, rate in enumerate((RATE, 3 * RATE)):
        time_s = bursts(rng, 20, 1.4 * rate)
        flows.append(trace(time_s, policed(time_s, rate)[0], port=40000 + n))
    rates = [found.rate_bps for found in detect_policing(flows)]
    assert rates == pytest.approx([RATE * 8, 3 * RATE * 8], rel=0.02)


def test_a_queue_with_the_drops_of_a_bucket_is_recognised_by_its_delay(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, 1.3 * RATE)
    lost, backlog = policed(time_s)
    [found] = detect_policing([trace(time_s, lost, wait_s=backlog / RATE)])
    assert found.verdict == "not_policed"
    assert "packets waited" in found.reason


def test_random_loss_is_explained_by_no_bucket(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 30, RATE)
    [found] = detect_policing([trace(time_s, rng.random(len(time_s)) < 0.02)])
    assert found.verdict == "not_policed"
    assert "no bucket explains the losses" in found.reason


def received(time_s: Floats, lost: Bools) -> FlowTrace:
    """The frames that passed, as the receiver captures them; lost ones are sent again 50 ms later."""
    waiting: deque[tuple[float, int]] = deque()
    seq, following = np.zeros(len(time_s), dtype=np.int64), 0
    for i, at in enumerate(time_s):
        if waiting and at - waiting[0][0] > 0.05:
            seq[i] = waiting.popleft()[1]
        else:
            seq[i], following = following, following + 1
        if lost[i]:
            waiting.append((float(at), int(seq[i])))
    passed = trace(time_s[~lost], np.zeros(np.count_nonzero(~lost), dtype=bool))
    size = int(passed.payload_bytes[0])
    return as_received(replace(passed, seq=size * seq[~lost], handshake_ns=RTT_NS))


@pytest.mark.parametrize("loss", [0.7, 0.9])
def test_random_loss_of_most_packets_is_explained_by_no_bucket(loss: float, rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, RATE)
    [found] = detect_policing([trace(time_s, rng.random(len(time_s)) < loss)])
    assert found.verdict == "not_policed", found.reason
    assert "no bucket explains the losses" in found.reason


@pytest.mark.parametrize("load", [3.0, 10.0])
def test_a_policer_that_drops_most_packets_is_found(load: float, rng: np.random.Generator) -> None:
    time_s = bursts(rng, 20, load * RATE)
    [found] = detect_policing([trace(time_s, policed(time_s)[0])])
    assert found.verdict == "policed", found.reason
    assert found.rate_bps == pytest.approx(8 * RATE, rel=0.02)


def test_a_receivers_capture_shows_the_policer() -> None:
    time_s = bursts(np.random.default_rng(8), 60, 0.7 * RATE)
    lost, _ = policed(time_s)
    seen = received(time_s, lost)
    assert 500 < seen.losses < np.count_nonzero(lost)  # a lost retransmission leaves no hole
    [verdict] = detect_policing([seen])
    print(verdict.reason)
    assert verdict.verdict == "policed", verdict.reason
    assert verdict.rate_bps == pytest.approx(8 * RATE, rel=0.001)
    assert verdict.burst_bytes == pytest.approx(BURST, rel=0.01)


def test_a_receivers_capture_does_not_show_that_there_is_no_policer() -> None:
    rng = np.random.default_rng(8)
    time_s = bursts(rng, 60, RATE)
    lost = rng.random(len(time_s)) < 0.02
    assert detect_policing([trace(time_s, lost)])[0].verdict == "not_policed"
    [verdict] = detect_policing([received(time_s, lost)])
    assert verdict.verdict == "cannot_tell"
    assert "does not show when lost packets passed the policer" in verdict.reason


@pytest.mark.parametrize("name", list(POLICING_DETECTORS))
def test_few_losses_are_insufficient(name: str, rng: np.random.Generator) -> None:
    time_s = bursts(rng, 5, RATE)
    lost = np.zeros(len(time_s), dtype=bool)
    for losses in (0, 3):
        lost[50 : 50 + losses] = True
        assert POLICING_DETECTORS[name]([trace(time_s, lost)])[0].verdict == "insufficient_loss"


def test_a_flow_of_which_nothing_passed_shows_no_rate(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 2, RATE)
    [found] = detect_policing([trace(time_s, np.ones(len(time_s), dtype=bool))])
    assert found.verdict == "cannot_tell"
    assert found.reason == f"{len(time_s)} of {len(time_s)} packets lost, so no rate shows"


@pytest.mark.parametrize("again_s", [None, 5.0])
def test_a_path_that_fails_is_no_policer(again_s: float | None) -> None:
    """Packets in flight are lost, and their retransmissions, until the path works again or for ever."""
    sent_s = np.arange(300) * 0.01
    failed_s = np.concatenate([3 + 0.001 * np.arange(25), 3.2 + 0.2 * 1.5 ** np.arange(10)])
    failed_s = failed_s if again_s is None else failed_s[failed_s < again_s]
    after_s = np.empty(0) if again_s is None else again_s + 0.1 * np.arange(20)
    time_s = np.concatenate([sent_s, failed_s, after_s])
    lost = (time_s >= 3) & (time_s < (again_s or np.inf))
    [found] = detect_policing([trace(time_s, lost)])
    assert (found.verdict, found.rate_bps) == ("cannot_tell", None)
    assert found.detail["loss_runs"] == 1
    assert "they came in 1 run in which no packet passed, as when a path fails" in found.reason


def test_few_losses_with_queueing_delay_are_not_a_policers(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 5, RATE)
    lost = np.zeros(len(time_s), dtype=bool)
    lost[400:403] = True
    wait_s = np.zeros(len(time_s))
    wait_s[380:410] = 0.05
    [found] = detect_policing([trace(time_s, lost, wait_s=wait_s)])
    assert found.verdict == "not_policed"
    assert "each behind a queue" in found.reason


@pytest.mark.parametrize(("losses", "percent"), [([100], 40), ([100, 101, 102], 40), ([100, 400], 60)])
def test_few_losses_in_a_queue_that_is_often_there_may_meet_it_by_chance(
    losses: list[int], percent: int, rng: np.random.Generator
) -> None:
    time_s = bursts(rng, 5, RATE)
    lost, wait_s = np.zeros(len(time_s), dtype=bool), np.zeros(len(time_s))
    lost[losses] = True
    wait_s[np.arange(len(time_s)) % 100 < percent] = 0.05
    [found] = detect_policing([trace(time_s, lost, wait_s=wait_s)])
    assert found.verdict == "insufficient_loss", found.reason


@pytest.mark.parametrize("rtts", [0, 1])
def test_without_rtts_no_capture_shows_that_there_is_no_policer(rtts: int, rng: np.random.Generator) -> None:
    time_s = bursts(rng, 30, RATE)
    flow = trace(time_s, rng.random(len(time_s)) < 0.02)
    flow = replace(flow, rtt_ns=flow.rtt_ns[:rtts], rtt_sent_ns=flow.rtt_sent_ns[:rtts])
    [found] = detect_policing([flow])
    assert found.verdict == "cannot_tell"
    assert ("1 RTT does not show" if rtts == 1 else "0 RTTs do not show") in found.reason


def test_flach_finds_a_policer_and_no_random_loss(rng: np.random.Generator) -> None:
    time_s = np.arange(6_000) * FRAME / (2 * RATE)  # one steady flow, for which that detector is made
    detector = POLICING_DETECTORS["policing-flach"]
    [found] = detector([trace(time_s, policed(time_s)[0])])
    assert found.verdict == "policed", found.reason
    assert found.rate_bps == pytest.approx(RATE * 8 * 1448 / FRAME, rel=0.05)
    time_s = bursts(rng, 20, RATE)
    assert detector([trace(time_s, rng.random(len(time_s)) < 0.02)])[0].verdict == "not_policed"


def test_a_capture_that_begins_with_an_empty_bucket_is_fitted(rng: np.random.Generator) -> None:
    time_s = bursts(rng, 40, 1.3 * RATE)
    lost, backlog = policed(time_s)
    start = 1000 + int(np.argmax(backlog[1000:1500]))
    packets = Arrivals(time_s[start:], np.full(len(time_s) - start, float(FRAME)), lost[start:])
    found = fit_bucket(packets, from_start=False)
    assert found is not None
    assert backlog[start] > BURST - 2 * FRAME
    assert found.score > 0.97
    assert found.rate == pytest.approx(RATE, rel=0.02)
    assert found.burst_bytes == pytest.approx(BURST, rel=0.1)
