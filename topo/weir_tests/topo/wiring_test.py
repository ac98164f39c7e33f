# SPDX-License-Identifier: Apache-2.0
"""Wires between hosts and a switch; `wiring_scenario.py` has a bridge of the kernel as the switch."""

from typing import Any

import pytest

from weir.topo.wiring import WireSpec
from weir_tests.topo.sandboxed import result_of

DELAY_S, LOSS = 0.005, 0.25


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return result_of("weir_tests.topo.wiring_scenario", tmp_path_factory.mktemp("wiring"))


def test_a_wire_is_given_in_exact_integers_and_acts_on_frames_to_the_host() -> None:
    wire = WireSpec(2, "weir2", delay_ns=10_000_000, jitter_ns=1_000, loss_ppb=500_000, line_rate_bps=10**9)
    assert wire.argument() == (
        "a=weir2,b=wire2,a.delay=10000000ns,a.jitter=1000ns,a.loss=500000ppb,a.line=1000000000bit/s"
    )
    assert (wire.is_plain, wire.switch_interface) == (False, "port2")


def test_a_link_that_does_nothing_needs_no_wire() -> None:
    wire = WireSpec(3, "weir3")
    assert (wire.is_plain, wire.switch_interface) == (True, "weir3")


def test_each_wire_delays_the_frames_to_its_host(seen: dict[str, Any]) -> None:
    print("round trips in s:", seen["round_trips_s"])
    # One way has the delay of server1's wire, the other that of the client's.
    assert min(seen["round_trips_s"]) >= 2 * DELAY_S


def test_a_wire_counts_what_it_loses(seen: dict[str, Any]) -> None:
    sent, lost = seen["sent_to_lossy"], seen["wires"]["3"]["lost"]
    print(f"lost {lost} of {sent}")
    assert sent - seen["arrived_at_lossy"] == lost
    # Five standard deviations of the binomial distribution.
    assert abs(lost - sent * LOSS) < 5 * (sent * LOSS * (1 - LOSS)) ** 0.5


def test_nothing_else_is_lost(seen: dict[str, Any]) -> None:
    assert seen["kernel_drops"] == {}
    for wire in seen["wires"].values():
        assert (wire["overruns"], wire["errors"], wire["in_flight"]) == (0, 0, 0)


def test_the_counters_of_the_kernel_are_those_of_the_switch_ports(seen: dict[str, Any]) -> None:
    # 1000 datagrams left the switch for server2, and at least 20 for the client.
    assert seen["interfaces"]["port3"]["tx_packets"] >= seen["sent_to_lossy"]
    assert seen["interfaces"]["port1"]["tx_packets"] >= len(seen["round_trips_s"])
