# SPDX-License-Identifier: Apache-2.0
"""Real frames through the binary: two hosts with the switch between them, in separate namespaces."""

from collections.abc import Callable
from typing import Any

import pytest

# A round trip leaves through both ports, each with 10 ms of delay.
MIN_RTT_S = 0.020


@pytest.fixture(scope="module")
def measured(run_receiving: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The scenario's measurements and the statistics of the switch."""
    return run_receiving("wire", "l2_learning")


def test_datagrams_and_arp_pass_by_flooding_with_the_delay_of_both_ports(measured: dict[str, Any]) -> None:
    print("round trips in s:", measured["flooded"]["rtts"])
    assert len(measured["flooded"]["rtts"]) == measured["flooded"]["sent"] == 5
    assert min(measured["flooded"]["rtts"]) >= MIN_RTT_S


def test_stations_are_learned_by_digests_and_datagrams_pass_by_forwarding(measured: dict[str, Any]) -> None:
    assert measured["learned"] is True
    print("round trips in s:", measured["forwarded"]["rtts"])
    assert len(measured["forwarded"]["rtts"]) == measured["forwarded"]["sent"] == 5
    assert min(measured["forwarded"]["rtts"]) >= MIN_RTT_S


def test_an_interface_that_went_down_is_used_again_when_it_is_back(measured: dict[str, Any]) -> None:
    assert len(measured["after_loss"]["rtts"]) == 5
    assert measured["log"].count("interface s2 is gone") == 1
    assert measured["log"].count("interface s2 is back") == 1


def test_every_frame_is_accounted_for(measured: dict[str, Any]) -> None:
    ports, dataplane = measured["stats"]["ports"], measured["stats"]["dataplane"]
    # A host may send before there is a program.
    assert dataplane["received"] + dataplane["no_program"] == sum(port["rx_packets"] for port in ports)
    assert dataplane["transmitted"] == sum(port["tx_packets"] + port["tx_errors"] for port in ports)
    assert sum(port["rx_overruns"] + port["rx_oversize"] for port in ports) == 0
    # 15 datagrams and their answers crossed the switch.
    assert all(port["tx_packets"] >= 15 for port in ports)
