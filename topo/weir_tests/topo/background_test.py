# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scapy.layers.inet import IP, UDP
from scapy.utils import PcapReader
from scipy import stats

from weir.topo.background import (
    BackgroundSpec,
    arrivals,
    flow_seed,
    pareto,
    pareto_mean,
    pareto_minimum,
)
from weir.topo.background_process import datagram
from weir_tests.topo.runner import Runner

SPEC = BackgroundSpec(
    id="main/back",
    source="a",
    destination="b",
    port=5201,
    congestion_control="cubic",
    start_s=0.0,
    duration_s=60.0,
    rate_bps=55_000_000,
    mean_bytes=200_000,
    largest_bytes=20_000_000,
    shape=1.2,
    seed=1,
)


def test_the_same_seed_gives_the_same_schedule_and_another_one_another() -> None:
    assert arrivals(SPEC) == arrivals(replace(SPEC))
    assert arrivals(SPEC) != arrivals(replace(SPEC, seed=2))


def test_a_schedule_stays_what_it_was_when_it_was_published() -> None:
    flows = arrivals(replace(SPEC, duration_s=0.1))
    # The first moment is -ln(1 - u) / (rate / 8 / mean) with the u of Python's Mersenne Twister of seed 1.
    assert flows[0].at_s == round(-math.log(1 - 0.13436424411240122) / (55e6 / 8 / 200e3), 6)


def test_the_rate_is_offered_whatever_the_seed() -> None:
    for seed in range(20):
        offered = sum(flow.size_bytes for flow in arrivals(replace(SPEC, seed=seed))) * 8 / SPEC.duration_s
        assert offered == pytest.approx(SPEC.rate_bps, rel=1e-4)


def test_a_short_background_has_at_least_one_flow() -> None:
    (flow,) = arrivals(replace(SPEC, rate_bps=1000, duration_s=1.0))
    assert (0 <= flow.at_s < 1.0, flow.size_bytes) == (True, 125)


def test_flows_arrive_as_a_poisson_process() -> None:
    moments = [flow.at_s for flow in arrivals(replace(SPEC, duration_s=600.0))]
    assert moments == sorted(moments)
    gaps = [after - before for before, after in zip([0.0, *moments], moments, strict=False)]
    per_second = SPEC.rate_bps / 8 / SPEC.mean_bytes
    p = stats.kstest(gaps, "expon", args=(0, 1 / per_second)).pvalue
    print(f"{len(moments)} flows, Kolmogorov–Smirnov p = {p:.3f}")
    assert p > 0.01
    expected = per_second * 600
    assert abs(len(moments) - expected) < 4 * math.sqrt(expected)


def test_sizes_are_of_the_bounded_pareto_distribution() -> None:
    smallest = pareto_minimum(SPEC.mean_bytes, SPEC.largest_bytes, SPEC.shape)
    assert pareto_mean(smallest, SPEC.largest_bytes, SPEC.shape) == pytest.approx(SPEC.mean_bytes)
    assert pareto(0.0, smallest, SPEC.largest_bytes, SPEC.shape) == pytest.approx(smallest)
    assert pareto(1.0, smallest, SPEC.largest_bytes, SPEC.shape) == pytest.approx(SPEC.largest_bytes)
    # SciPy's truncated Pareto distribution is on 1 to c, scaled by the smallest value.
    peer = stats.truncpareto(SPEC.shape, SPEC.largest_bytes / smallest, scale=smallest)
    for u in (0.01, 0.5, 0.9, 0.999):
        assert pareto(u, smallest, SPEC.largest_bytes, SPEC.shape) == pytest.approx(peer.ppf(u), rel=1e-9)
    assert peer.mean() == pytest.approx(SPEC.mean_bytes, rel=1e-6)


def test_most_bytes_are_in_few_flows() -> None:
    sizes = sorted((flow.size_bytes for flow in arrivals(replace(SPEC, duration_s=600.0))), reverse=True)
    share = sum(sizes[: len(sizes) // 10]) / sum(sizes)
    print(f"the largest tenth of {len(sizes)} flows has {100 * share:.0f} % of the bytes")
    assert share > 0.5


def test_each_background_of_each_phase_has_a_different_seed() -> None:
    seeds = {flow_seed(seed, phase, name) for seed in (1, 2) for phase in "ab" for name in "xy"}
    assert len(seeds) == 8


def test_no_two_datagrams_of_a_flow_are_alike() -> None:
    flow = [datagram(start, min(1452, 10_000 - start)) for start in range(0, 10_000, 1452)]
    assert len(set(flow)) == len(flow)
    assert sum(map(len, flow)) == 10_000
    assert len(datagram(1452, 3)) == 3


def test_a_background_of_udp_sends_each_drawn_byte_once(runner: Runner) -> None:
    report = runner.result("drawn_datagrams")
    (record,) = report["records"]
    assert report["problems"] == []
    assert record["complete"] + record["cut"] == record["flows"]
    assert record["offered_bytes"] == pytest.approx(500_000, rel=1e-4)  # 4 Mbit/s for a second
    ports: set[int] = set()
    total = 0
    with PcapReader(str(runner.folder / "client.pcap")) as packets:
        for packet in packets:
            if IP in packet and UDP in packet:
                ports.add(packet[UDP].sport)
                total += packet[UDP].len - 8
    # Sources may have one port one after the other. What was cut off had not been sent.
    assert 0 < len(ports) <= record["flows"]
    assert total == record["offered_bytes"] or (record["cut"] and total < record["offered_bytes"])


def test_in_virtual_time_threads_receive_a_background_of_tcp(runner: Runner) -> None:
    report = runner.result("background_in_threads")
    (record,) = report["records"]
    assert report["problems"] == []
    # A flow is complete once the receiver has read its end and closed; the last ones may be cut by the time.
    assert record["complete"] >= 1
    assert record["complete"] + record["cut"] == record["flows"] > 5
