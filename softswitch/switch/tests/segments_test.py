# SPDX-License-Identifier: Apache-2.0
"""Frames that a host left to its network card to cut, beside the segments that Linux makes of them."""

from pathlib import Path

from scenarios import run_scenario


def test_the_segments_are_those_of_linux_byte_for_byte(weir_switch: Path, tmp_path: Path) -> None:
    seen = run_scenario("segments_scenario.py", weir_switch, tmp_path)
    print({name: len(frames) for name, frames in seen["linux"].items()})
    assert len(seen["linux"]["tcp"]) == 42
    assert all(len(frames) > 1 for frames in seen["linux"].values())
    for name, frames in seen["linux"].items():
        assert seen["switch"][name] == frames, name
    (port,) = (port for port in seen["stats"]["ports"] if port["port"] == 1)
    assert port["rx_packets"] == sum(map(len, seen["linux"].values()))
    assert (port["rx_oversize"], port["rx_overruns"]) == (0, 0)
