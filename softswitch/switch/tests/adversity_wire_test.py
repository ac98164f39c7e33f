# SPDX-License-Identifier: Apache-2.0
"""A program pushed under full load while the disk is full, with real frames between namespaces."""

from collections.abc import Callable
from typing import Any

import pytest

MAX_GROWTH_BYTES = 128 << 20


@pytest.fixture(scope="module")
def seen(run_on_switch: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The scenario's observations and the last statistics of the switch."""
    return run_on_switch("adversity", "l2_learning")


def test_a_push_under_load_loses_no_count(seen: dict[str, Any]) -> None:
    first = seen["stats"]["ports"][0]
    dataplane = seen["stats"]["dataplane"]
    counts = {key: value for key, value in {**first, **dataplane}.items() if value}
    print(f"sent {seen['sent']} and 1: {counts}")
    # Each frame that the link accepted was received, or counted as lost in the kernel.
    assert first["rx_packets"] + first["rx_overruns"] == seen["sent"] + 1
    assert dataplane["received"] == first["rx_packets"]
    # Frames between a push and the write of its entries are flooded to a group that does not exist yet.
    nowhere = (
        "dropped_ingress",
        "dropped_egress",
        "dropped_queue",
        "dropped_reconfigured",
        "dropped_no_replica",
    )
    dropped = sum(dataplane[key] for key in nowhere) + dataplane["no_program"]
    assert dataplane["transmitted"] + dropped == dataplane["received"]


def test_memory_stays_what_it_was(seen: dict[str, Any]) -> None:
    print(f"grown by {seen['grown_bytes'] >> 20} MiB")
    assert seen["grown_bytes"] < MAX_GROWTH_BYTES


def test_the_full_disk_is_said_once_and_written_when_there_is_room(seen: dict[str, Any]) -> None:
    assert seen["log"].count("cannot write") == 1
    assert "No space left" in seen["log"]
    assert seen["stats"]["schema"] >= 1


def test_frames_are_forwarded_afterwards(seen: dict[str, Any]) -> None:
    assert seen["forwards_afterwards"] is True
