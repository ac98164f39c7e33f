# SPDX-License-Identifier: Apache-2.0
"""Links that change while real frames cross them: a wire between two hosts, and the ports of a switch."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scenarios import run_scenario


@pytest.fixture(scope="module")
def measured(run_on_switch: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The scenario's measurements, the statistics of the wire, and the log of both."""
    return run_on_switch("links", "l2_learning")


def test_a_wire_carries_everything_with_the_delay_of_both_directions(measured: dict[str, Any]) -> None:
    print("round trips in s:", measured["wire"]["delayed"]["rtts"])
    assert len(measured["wire"]["delayed"]["rtts"]) == measured["wire"]["delayed"]["sent"] == 5
    assert min(measured["wire"]["delayed"]["rtts"]) >= 0.020


def test_a_delay_set_while_running_holds_for_that_direction(measured: dict[str, Any]) -> None:
    print("round trips in s:", measured["wire"]["slower"]["rtts"])
    assert measured["wire"]["set"] == [0, ""]
    assert min(measured["wire"]["slower"]["rtts"]) >= 0.040


def test_an_interface_deleted_and_made_anew_is_used_again(measured: dict[str, Any]) -> None:
    assert len(measured["wire"]["recreated"]["rtts"]) == 5
    assert measured["log"].count("interface s2 is gone") == 1
    assert measured["log"].count("interface s2 is back") == 1


def test_the_log_is_what_the_switch_says_and_not_its_libraries(measured: dict[str, Any]) -> None:
    colourless = re.sub(r"\x1b\[\d+m", "", measured["log"])
    assert colourless
    assert [line for line in colourless.splitlines() if not re.match(r" (INFO|WARN) ", line)] == []


def test_links_are_shown_with_options_that_can_be_set(measured: dict[str, Any]) -> None:
    code, printed = measured["wire"]["get"]
    assert code == 0
    ports = {port["port"]: port for port in json.loads(printed)}
    assert ports[1]["options"] == "delay=10000000ns"
    assert ports[2]["options"] == "packets=100,delay=30000000ns"
    assert ports[1]["interface"] == "s1"
    assert ports[2]["up"] is True


def test_every_frame_on_a_wire_is_accounted_for(measured: dict[str, Any]) -> None:
    ports, totals = measured["stats"]["ports"], measured["stats"]["dataplane"]
    assert totals["received"] == sum(port["rx_packets"] for port in ports)
    assert totals["transmitted"] == sum(port["tx_packets"] + port["tx_errors"] for port in ports)
    assert totals["received"] == totals["transmitted"] + sum(port["in_flight"] for port in ports)
    for port in ports:
        for queue in port["queues"]:
            kept = queue["passed_packets"] + queue["removed_packets"] + queue["waiting_packets"]
            dropped = queue["dropped_bytes_limit"] + queue["dropped_packets_limit"]
            assert queue["offered_packets"] == kept + dropped


def test_a_tcp_stream_crosses_a_wire_whole_while_its_links_change(measured: dict[str, Any]) -> None:
    stream = measured["wire"]["stream"]
    print(f"changed {stream['changes']} times while {stream['sent_bytes']} bytes crossed")
    assert stream["changes"] > 0
    assert stream["received_bytes"] == stream["sent_bytes"]
    assert stream["received_digest"] == stream["sent_digest"]
    assert [port["rx_oversize"] for port in measured["stats"]["ports"]] == [0, 0]


def test_what_a_wire_cannot_do_is_refused_with_a_reason(measured: dict[str, Any]) -> None:
    assert measured["wire"]["refused"] == [
        1,
        "weir-switch: there is no port 7; `weir-switch links get` shows the ports\n",
    ]
    code, said = measured["wire"]["add"]
    assert code == 1
    assert "a wire has two ends" in said


SENDING = pytest.mark.parametrize("sending", ["switch", "ahead"])


@SENDING
def test_a_port_is_added_to_a_running_switch_and_removed(measured: dict[str, Any], sending: str) -> None:
    switch = measured[sending]
    assert switch["add"] == [0, ""]
    assert "port 3 is there, with interface s3" in switch["again"][1]
    assert "interface `nothing` does not exist" in switch["missing"][1]
    ports = {port["port"]: port for port in json.loads(switch["get"][1])}
    assert ports[3]["options"] == "rate=1000000bit/s,burst=3000B,limit=256000B"
    assert switch["remove"] == [0, ""]
    assert [port["port"] for port in json.loads(switch["after"][1])] == [1, 4]


@SENDING
def test_frames_pass_between_ports_that_were_added(measured: dict[str, Any], sending: str) -> None:
    switch = measured[sending]
    assert switch["crossed"] is True
    ports = {port["port"]: port for port in json.loads(switch["get"][1])}
    assert ports[4]["link"]["passed_packets"] == 1


@SENDING
def test_frames_that_an_interface_does_not_take_are_counted_as_errors(
    measured: dict[str, Any], sending: str
) -> None:
    switch = measured[sending]
    last = {port["port"]: port for port in switch["stats"]["ports"]}[4]
    undelivered = switch["too_long"] + switch["without_carrier"]
    # A queueing discipline, which `ahead` needs, may take and drop frames for an interface without a carrier.
    least = undelivered if sending == "switch" else switch["too_long"]
    assert least <= last["tx_errors"] <= undelivered
    assert last["tx_packets"] == 1 + undelivered - last["tx_errors"]


def test_clients_that_stall_neither_busy_a_wire_nor_keep_it_from_ending(
    weir_switch: Path, tmp_path: Path
) -> None:
    seen = run_scenario("stalled_wire_scenario.py", weir_switch, tmp_path)
    print(f"{seen['busy']:.0%} of a processor while out of descriptors")
    assert seen["busy"] < 0.5
    assert seen["complaints"] == 1
    assert seen["get"][0] == 0, seen["get"]
    assert seen["get_beside_stalled"][0] == 0, seen["get_beside_stalled"]
    assert seen["exit_code"] == 0
