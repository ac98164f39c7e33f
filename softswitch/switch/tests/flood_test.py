# SPDX-License-Identifier: Apache-2.0
"""A flood that arrives faster than the switch can send: order and counts hold all the same."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from flood_scenario import COPIES, FLOODED, NUMBERED


@pytest.fixture(scope="module")
def seen(run_receiving: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The scenario's observations."""
    return run_receiving("flood", "l2_learning")


def check(stats: dict[str, Any]) -> dict[str, int]:
    """Check that the ports' counts cover every frame that left the dataplane; return the sums."""
    ports, dataplane = stats["ports"], stats["dataplane"]
    names = ("rx_packets", "rx_overruns", "tx_packets", "tx_errors", "tx_waiting")
    sums = {name: sum(port[name] for port in ports) for name in names}
    print(sums, {key: value for key, value in dataplane.items() if value})
    assert sums["tx_waiting"] == 0
    assert dataplane["transmitted"] == sums["tx_packets"] + sums["tx_errors"]
    assert dataplane["received"] + dataplane["no_program"] == sums["rx_packets"]
    return sums


def test_frames_of_a_flow_keep_their_order(seen: dict[str, Any]) -> None:
    assert check(seen["numbered"])["rx_packets"] + check(seen["numbered"])["rx_overruns"] == 2 * NUMBERED
    for port, numbers in zip(seen["numbered"]["ports"][1:], seen["numbers"], strict=True):
        print(f"port {port['port']}: {len(numbers)} of {port['tx_packets']} frames captured")
        assert all(earlier < later for earlier, later in pairwise(numbers))
        assert len(numbers) == port["tx_packets"]


def test_what_the_switch_counts_as_sent_has_arrived(seen: dict[str, Any]) -> None:
    for phase in ("numbered", "flooded"):
        sent = [port["tx_packets"] for port in seen[phase]["ports"][1:]]
        assert sent == seen[f"{phase}_arrived"]
    assert seen["last"]["ports"][1]["tx_packets"] == seen["last_arrived"]


def test_what_cannot_be_sent_in_time_is_not_taken_in_and_counted_there(seen: dict[str, Any]) -> None:
    before, after = check(seen["numbered"]), check(seen["flooded"])
    taken = after["rx_packets"] - before["rx_packets"]
    assert taken + after["rx_overruns"] - before["rx_overruns"] == FLOODED
    # Each flooded frame leaves COPIES times through both ports; none is lost for lack of room.
    left = after["tx_packets"] - before["tx_packets"] + after["tx_errors"] - before["tx_errors"]
    assert left == 2 * COPIES * taken
    assert after["tx_errors"] == 0


def test_an_interface_deleted_in_full_flood_is_used_again(seen: dict[str, Any]) -> None:
    assert seen["log"].count("interface s3 is gone") == 1
    assert seen["log"].count("interface s3 is back") == 1
    assert seen["last"]["ports"][2]["tx_errors"] > 0
    assert seen["last"]["ports"][2]["up"] is True


def test_a_switch_that_is_ended_in_full_flood_has_counted_every_frame(seen: dict[str, Any]) -> None:
    assert seen["exit_code"] == 0
    check(seen["last"])
