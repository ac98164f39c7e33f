# SPDX-License-Identifier: Apache-2.0
"""Several forwarding threads: each sends through all ports, and what they count adds up."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forward_threads_scenario import DELAY_MS, NUMBERED, PORTS
from scenarios import run_scenario


@pytest.fixture(scope="module", params=["2", "3"])
def seen(
    request: pytest.FixtureRequest,
    receive: str,
    weir_switch: Path,
    compiled: Callable[[str], tuple[Path, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """The scenario's observations."""
    p4info, blob = compiled("ipv4_router")
    learning = compiled("l2_learning")[1]
    folder = tmp_path_factory.mktemp("forward_threads")
    arguments = (weir_switch, blob, p4info, folder, receive, request.param, learning)
    found = run_scenario("forward_threads_scenario.py", *arguments, root=receive == "xdp")
    found["param"] = int(request.param)
    return found


def test_packets_from_one_port_to_another_keep_their_order(seen: dict[str, Any]) -> None:
    lost = sum(port["rx_overruns"] for port in seen["stats"]["ports"])
    arrived = 0
    for port, numbers in zip(PORTS, seen["numbers"], strict=True):
        assert set(numbers) == {str(other) for other in PORTS if other != port}
        for of_one in numbers.values():
            assert of_one == sorted(set(of_one))
            arrived += len(of_one)
    assert arrived == 6 * NUMBERED - lost


def test_the_counters_of_the_threads_add_up(seen: dict[str, Any]) -> None:
    arrived = {str(port): sum(map(len, n.values())) for port, n in zip(PORTS, seen["numbers"], strict=True)}
    assert seen["counts"] == arrived
    ports, dataplane = seen["stats"]["ports"], seen["stats"]["dataplane"]
    assert {str(port["port"]): port["tx_packets"] for port in ports} == arrived
    assert dataplane["received"] == dataplane["transmitted"] == sum(arrived.values())
    links = {str(port["port"]): port["link"] for port in json.loads(seen["links"])}
    assert {port: int(counters["offered_packets"]) for port, counters in links.items()} == arrived


def test_there_are_as_many_threads_as_were_asked_for(seen: dict[str, Any]) -> None:
    assert sum(name.startswith("dataplane") for name in seen["threads"]) == seen["param"]


def test_a_delay_that_is_set_is_that_of_all_threads(seen: dict[str, Any]) -> None:
    assert len(seen["delays_ms"]) == 2
    assert all(delay_ms >= DELAY_MS for delay_ms in seen["delays_ms"])


def test_an_interface_that_returns_is_used_again_by_all_threads(seen: dict[str, Any]) -> None:
    assert seen["exit_code"] == 0
    last = seen["last"]["ports"][2]
    assert last["up"] is True
    assert last["tx_errors"] > 0
    ports, dataplane = seen["last"]["ports"], seen["last"]["dataplane"]
    left = sum(port["tx_packets"] + port["tx_errors"] for port in ports)
    assert dataplane["transmitted"] == left
    assert dataplane["received"] == sum(port["rx_packets"] for port in ports)


def test_each_thread_notices_that_an_interface_went_and_returned_while_it_sent_nothing_there(
    seen: dict[str, Any],
) -> None:
    assert seen["lost_after_return"] == 0


def test_no_thread_waits_for_a_queue_that_another_one_sends_through(seen: dict[str, Any]) -> None:
    assert "AF_XDP is not available: Device or resource busy" not in seen["log"]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("program", "packets share digest learn_t, and this switch has several forwarding threads; valid: "),
        ("rate", "port 1: with --forward-threads several forwarding threads send through a port, "),
        ("idle", " for 1 ports; each thread receives from at least one, so at most 1 "),
        ("set", "port 1: several forwarding threads send through a port, so it has no queue, "),
        ("remove", "a switch with several forwarding threads has the ports that it was started with"),
    ],
)
def test_what_needs_one_thread_is_refused_with_the_reason(
    seen: dict[str, Any], case: str, words: str
) -> None:
    assert words in seen[case]
