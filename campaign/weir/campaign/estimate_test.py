# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from weir.campaign.estimate import (
    ASSUMED_PACKET_S,
    ASSUMED_VIRTUAL_OVERHEAD_S,
    UNLIMITED_BPS,
    Estimate,
    expected_packets,
)
from weir.campaign.load import parse_campaign
from weir.controlplane.config import parse_experiment

TEXT = """
name: x
hosts: {{client: {{{client}}}, one: {{}}, two: {{}}}}
flows:
  - {{name: one, from: one, to: client, duration: 100 s{one}}}
  - {{name: two, from: two, to: client, duration: 50 s, rate: 6 Mbit/s}}
policers: [{policer}]
"""
POLICER = "{name: p, rate: 3 Mbit/s, burst: 20 kB, match: [{to: client}]}"
_PACKET_BITS = 8 * 1514


@pytest.mark.parametrize(
    ("client", "one", "policer", "megabits"),
    [
        ("", "", "", UNLIMITED_BPS * 100 / 1e6),
        ("rate: 10 Mbit/s, burst: 20 kB, queue: 64 kB", "", "", 1000),
        ("", ", pacing: 2 Mbit/s", "", 200 + 300),
        ("", ", writes: {size: 125 kB, every: 1 s}", "", 100 + 300),
        ("", "", POLICER, 300),
        ("", ", rate: 1 kbit/s", POLICER, 300),
    ],
)
def test_packets_are_what_flows_offer_and_the_bottleneck_passes(
    client: str, one: str, policer: str, megabits: float
) -> None:
    experiment = parse_experiment(TEXT.format(client=client, one=one, policer=policer))
    assert expected_packets(experiment) == pytest.approx(megabits * 1e6 / _PACKET_BITS)


def test_wall_time_in_virtual_time_follows_the_packets_and_not_the_duration() -> None:
    text = TEXT.format(client="", one=", rate: 1 kbit/s", policer="") + "time: virtual\n"
    (run,) = parse_campaign(text).runs
    assumed = ASSUMED_VIRTUAL_OVERHEAD_S + ASSUMED_PACKET_S * expected_packets(run.experiment)
    estimate = Estimate()
    assert estimate.seconds([run], {}, 1) == pytest.approx(assumed)
    assert estimate.basis([run]) == (
        "8 s of wall time per run and 15 µs per packet that its rates let through, "
        "assumed, until a run has finished"
    )
    estimate.learn(run, 2 * assumed)
    assert estimate.seconds([run, run, run, run], {}, 2) == pytest.approx(4 * assumed)
    assert estimate.basis([run]).startswith("2 × (8 s of wall time")


def test_wall_time_in_real_time_is_that_of_the_traffic_and_an_overhead() -> None:
    (run,) = parse_campaign(TEXT.format(client="", one="", policer="")).runs
    estimate = Estimate()
    assert estimate.seconds([run], {}, 1) == 100 + 15
    estimate.learn(run, 130)
    assert estimate.seconds([run], {run.key: 20}, 1) == 130 - 20
    assert estimate.seconds([run], {run.key: 140}, 1) == 0  # it is late: about to end, as far as is known
    assert estimate.basis([run]) == "30 s per run in addition to its traffic, measured on finished runs"


def test_the_time_left_is_that_of_the_run_that_ends_last() -> None:
    text = TEXT.format(client="", one=", rate: $rate", policer="") + "matrix: {rate: [1 Mbit/s, 2 Mbit/s]}\n"
    one, other = parse_campaign(text).runs
    estimate = Estimate()
    assert estimate.seconds([one, other], {one.key: 100, other.key: 10}, 2) == 115 - 10
    assert estimate.seconds([one, other], {one.key: 100}, 1) == 15 + 115
    assert estimate.seconds([one, other], {one.key: 200}, 1) == 115
    assert estimate.seconds([], {}, 2) == 0
