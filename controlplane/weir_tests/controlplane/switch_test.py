# SPDX-License-Identifier: Apache-2.0
"""Plans on the real weir-switch, with frames sent through it; `scenario.py` runs in the sandbox."""

from collections import Counter
from typing import Any

import pytest

from weir_tests.controlplane.scenario import FRAME_BYTES, SHARED_FRAMES, expected_cells
from weir_tests.topo.sandboxed import result_of


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return result_of("weir_tests.controlplane.scenario", tmp_path_factory.mktemp("switch"))


def test_a_full_bucket_passes_its_burst_and_no_more(seen: dict[str, Any]) -> None:
    # A burst of 20,000 B is 20 frames; at 1,000 B/s one more takes a second, which a slow machine may need.
    green = seen["shared"]["one"]["green"]
    assert 20 <= green["packets"] <= 22, green
    assert green["bytes"] == green["packets"] * FRAME_BYTES


def test_every_packet_that_met_a_policer_has_a_colour(seen: dict[str, Any]) -> None:
    one = seen["shared"]["one"]
    assert one["packets_met"] == SHARED_FRAMES
    assert one["green"]["packets"] + one["yellow"]["packets"] + one["red"]["packets"] == SHARED_FRAMES
    assert one["yellow"]["packets"] == 0


def test_green_frames_arrive_and_red_frames_are_reported(seen: dict[str, Any]) -> None:
    one = seen["shared"]["one"]
    assert seen["passed"] == one["green"]["packets"]
    assert len(seen["reports"]) == one["red"]["packets"]


def test_reports_are_datagrams_to_the_collector_from_the_switch(seen: dict[str, Any]) -> None:
    report = bytes.fromhex(seen["reports"][0])
    assert report[0:6] == bytes.fromhex("020000000009")
    assert report[26:30] == bytes([10, 0, 0, 254])
    assert report[30:34] == bytes([10, 0, 0, 9])
    assert int.from_bytes(report[36:38], "big") == 32766
    # Ethernet 14, IPv4 20, UDP 8, report headers 56, and 128 bytes of the packet
    assert len(report) == 14 + 20 + 8 + 56 + 128


def test_flows_hash_to_the_cells_that_the_plan_computes(seen: dict[str, Any]) -> None:
    found = {int(cell): packets for cell, packets in seen["cells"].items() if packets}
    assert found == dict(Counter(expected_cells()))


def test_an_earlier_phase_keeps_its_counters(seen: dict[str, Any]) -> None:
    assert seen["shared_later"] == seen["shared"]


def test_the_second_apply_of_a_phase_changes_nothing(seen: dict[str, Any]) -> None:
    assert seen["again"] == 0


def test_the_switch_counts_its_reports(seen: dict[str, Any]) -> None:
    drops = seen["shared"]["one"]["red"]["packets"] + seen["hashed"]["each"]["red"]["packets"]
    assert seen["reports_sent"] == drops
