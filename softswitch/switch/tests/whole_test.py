# SPDX-License-Identifier: Apache-2.0
"""A wire whose frames stay whole, beside one that cuts them: ports count as many segments as TCP does."""

from pathlib import Path
from typing import Any

import pytest
from scenarios import run_scenario

STREAM_BYTES = 64 << 20
HEADER_BYTES = 14 + 20 + 32  # Ethernet, IPv4, TCP with time stamps
SYN_OPTIONS_BYTES = 8  # of a SYN besides its time stamps: segment size, SACK, window scale
TCP = ("tcp", "tcp of two", "tcp in one slot", "tcp over ipv6")


@pytest.fixture(scope="module", params=["yes", "no"], ids=["whole", "cut"])
def gso(request: pytest.FixtureRequest) -> str:
    """Whether frames stay whole."""
    value: str = request.param
    return value


@pytest.fixture(scope="module")
def seen(weir_switch: Path, tmp_path_factory: pytest.TempPathFactory, gso: str) -> dict[str, Any]:
    """What the scenario printed."""
    return run_scenario("whole_scenario.py", weir_switch, tmp_path_factory.mktemp("whole"), gso)


def test_a_stream_arrives_and_each_of_its_segments_is_counted(seen: dict[str, Any]) -> None:
    sent, received = seen["stream"]["sent"], seen["stream"]["received"]
    assert received == {"bytes": STREAM_BYTES, "digest": sent["digest"]}
    print(f"{8 * STREAM_BYTES / sent['seconds'] / 1e9:.2f} Gbit/s, hashed at both ends")
    a, b = seen["stats"]["ports"]
    assert a["rx_packets"] == b["tx_packets"] == sent["segments_out"]
    assert a["tx_packets"] == b["rx_packets"] == sent["segments_in"]
    headers_bytes = sent["segments_out"] * HEADER_BYTES + SYN_OPTIONS_BYTES
    assert a["rx_bytes"] == b["tx_bytes"] == sent["payload_bytes"] + headers_bytes
    assert all(port["rx_overruns"] + port["rx_oversize"] + port["tx_errors"] == 0 for port in (a, b))


def test_what_a_host_left_to_its_card_is_left_to_the_receiver(seen: dict[str, Any], gso: str) -> None:
    for name in TCP:
        frame = seen["frames"][name]
        flags, kind, _, size, start, offset = frame["virtio"]
        if gso == "yes":
            (arrived,) = frame["arrived"]
            assert arrived["virtio"] == [flags, kind, size, start, offset]
            assert arrived["as_sent"]
        else:
            assert len(frame["arrived"]) > 1
            assert all(arrived["virtio"] == [0, 0, 0, 0, 0] for arrived in frame["arrived"])


def test_other_frames_of_segments_are_cut(seen: dict[str, Any]) -> None:
    for name in set(seen["frames"]) - set(TCP):
        arrived = seen["frames"][name]["arrived"]
        assert len(arrived) > 1
        assert max(frame["bytes"] for frame in arrived) <= 1514


def test_frames_are_counted_as_those_of_a_wire(seen: dict[str, Any]) -> None:
    a, b = seen["frame_stats"]["ports"]
    # As segments_test.py sees them: 42 + 2 + 4 + 43 of TCP, 14 with a tag, 22 + 22 of UDP.
    assert a["rx_packets"] == b["tx_packets"] == 149
    assert a["rx_bytes"] == b["tx_bytes"]
    totals = seen["frame_stats"]["dataplane"]
    assert totals["received"] == totals["transmitted"] == 149
