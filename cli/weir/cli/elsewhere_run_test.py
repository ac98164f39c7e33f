# SPDX-License-Identifier: Apache-2.0
"""`weir run` on switches that others have started, known by address; see `elsewhere_scenario.py`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from weir.topo.bmv2proc import bmv2_problem
from weir_tests.controlplane.other_program import COOKIE
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="user: only root may hand over network cards")


@pytest.fixture(scope="module", name="every")
def _every(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return result_of("weir_tests.cli.elsewhere_scenario", tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(name="seen", params=["softswitch", "bmv2"])
def _seen(every: Seen, request: pytest.FixtureRequest) -> Seen:
    if request.param not in every:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    seen: Seen = every[request.param]
    return seen | {"target": request.param}


def ports(run: Seen) -> dict[int, Seen]:
    return {port["port"]: port for port in run["manifest"]["switch"]["stats"]["ports"]}


def test_every_packet_is_explained_on_a_switch_known_by_its_address(seen: Seen) -> None:
    run = seen["first"]
    assert run["code"] == 0, run["stderr"]
    result = run["output"]
    print(result["law"])
    assert result["valid"], result["invalid_reasons"]
    assert result["explained"], result["headline"]
    law = result["law"]
    assert (law["unexplained"], law["contradictions"]) == (0, 0)
    assert law["reported_drops"] == law["missing"] > 20
    assert [pair["truth"] for pair in result["pairs"]] == ["shared", "shared"]


def test_ports_have_the_numbers_of_the_switch_and_lost_nothing(seen: Seen) -> None:
    found = ports(seen["first"])
    assert sorted(found) == [101, 102, 103, 104]
    for port in found.values():
        assert (port["rx_overruns"], port["tx_errors"]) == (0, 0)
    assert found[101]["tx_packets"] > 1_000
    assert found[101]["interface"] == "card1"


def test_a_second_run_finds_the_program_and_counts_anew(seen: Seen) -> None:
    run = seen["second"]
    assert run["code"] == 0, run["stderr"]
    law, client = run["output"]["law"], ports(run)[101]
    print(law, client)
    assert run["output"]["valid"], run["output"]["invalid_reasons"]
    assert law["unexplained"] == 0
    assert client["queue_drops"] > 10
    if seen["target"] == "bmv2":
        # For the captures, a packet dropped in the last moments may as well be in flight.
        assert law["emulated_losses"] + law["in_flight"] == client["queue_drops"]
        assert law["in_flight"] <= 5
    else:
        assert run["manifest"]["switch"]["stats"]["dataplane"]["deflected"] == client["queue_drops"]
        assert law["emulated_losses"] == 0
    policer = run["output"]["policers"][0]
    assert policer["disagreements"] == []


def test_the_cards_are_given_back_as_they_were(seen: Seen) -> None:
    assert seen["before"] == seen["after"]
    assert seen["before"]["up"] == ["card1", "card2", "card3", "card4"]
    assert seen["before"]["offloads"] is True


def test_the_switch_runs_on_with_the_entries_of_the_last_phase(seen: Seen) -> None:
    # `weir status` takes address, device and ports from the file too.
    assert seen["status"]["code"] == 0, seen["status"]["stderr"]
    assert seen["status"]["output"]["as_planned"] is True


def test_the_manifest_says_that_others_started_the_switch(seen: Seen) -> None:
    (note, *_) = seen["first"]["manifest"]["notes"]
    assert note.startswith("the switch at 127.0.0.1:9600 was started by others and runs on; hosts are ")
    assert "port 101 (card1)" in note


def test_a_card_that_the_machine_uses_is_refused_before_anything_starts(every: Seen) -> None:
    assert every["in_use"]["code"] == 2
    (line,) = every["in_use"]["stderr"].splitlines()
    assert ":9: switch.ports.server1.interface: card2 has addresses (192.0.2.9), which a run would " in line
    assert line.endswith("valid: an interface without, such as after `ip address flush dev card2`")
    assert "manifest" not in every["in_use"]


def test_a_switch_that_does_not_answer_is_one_line_and_the_cards_are_back(every: Seen) -> None:
    absent = every["absent"]
    assert absent["code"] == 3
    (line,) = [line for line in absent["stderr"].splitlines() if "no switch answers" in line]
    assert line == "weir: switch.address: no switch answers at 127.0.0.1:9600: Connection refused"
    assert absent["manifest"]["state"] == "failed"
    assert every["cards"]["up"] == ["card1", "card2", "card3", "card4"]


@pytest.mark.parametrize("has_cookie", [True, False])
def test_a_switch_that_runs_another_program_is_refused_and_keeps_it(every: Seen, has_cookie: bool) -> None:
    foreign = every["foreign"][0 if has_cookie else 1]
    assert foreign["code"] == 6
    (line,) = [line for line in foreign["stderr"].splitlines() if "another program" in line]
    assert line == (
        "weir: the switch at 127.0.0.1:9600 runs another program, which a run does not replace; valid: a "
        "switch without a program or with weir's, such as after `weir apply --load-pipeline`"
    )
    assert foreign["manifest"]["state"] == "failed"
    assert foreign["cookie"] == (COOKIE if has_cookie else 0)
    assert foreign["cards"]["up"] == ["card1", "card2", "card3", "card4"]
