# SPDX-License-Identifier: Apache-2.0
"""`weir run --testbed` as on a Tofino, with packets but no runtime of one; see `bfruntime_scenario.py`."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from weir.topo.tools import search_path
from weir_tests.cli.explained import assert_every_packet_is_explained
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]


@pytest.fixture(scope="module", name="every")
def _every(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    if shutil.which("sshd", path=search_path()) is None:
        pytest.skip("not installed: sshd; sudo apt-get install openssh-server")
    return result_of("weir_tests.cli.bfruntime_scenario", tmp_path_factory.mktemp("bfruntime"))


@pytest.mark.parametrize("name", ["first", "second"])
def test_every_packet_is_explained_over_bfruntime(every: Seen, name: str) -> None:
    assert_every_packet_is_explained(every[name])


@pytest.mark.parametrize("name", ["first", "second"])
def test_counters_are_those_of_the_run_although_the_program_stays(every: Seen, name: str) -> None:
    manifest, law = every[name]["manifest"], every[name]["output"]["law"]
    (policer,) = manifest["phases"][0]["policers"]
    assert policer["counters"]["red"]["packets"] == law["reported_drops"]
    assert manifest["switch"]["reports_sent"] == law["reported_drops"]
    for port in manifest["switch"]["stats"]["ports"]:
        assert (port.get("rx_overruns", 0), port.get("tx_errors", 0)) == (0, 0)
    assert manifest["testbed"]["switch"] == "bfruntime://127.0.0.1:50052"
    assert any("the Tofino keeps its program" in note for note in manifest["notes"])


def test_a_tofino_over_p4runtime_keeps_its_program_too(every: Seen) -> None:
    assert_every_packet_is_explained(every["p4runtime"])
    manifest, law = every["p4runtime"]["manifest"], every["p4runtime"]["output"]["law"]
    (policer,) = manifest["phases"][0]["policers"]
    assert 0 < policer["counters"]["red"]["packets"] == law["reported_drops"]
    assert manifest["switch"]["reports_sent"] == law["reported_drops"]
    assert any("the Tofino keeps its program" in note for note in manifest["notes"])


def test_hosts_are_as_before(every: Seen) -> None:
    assert every["same"]
    assert every["same_after_refusals"]


def error_of(run: Seen) -> str:
    assert run["code"] != 0
    lines = [line for line in run["stderr"].splitlines() if line.startswith("weir: ")]
    return next(line for line in lines if "what it wrote is in" not in line and "press Ctrl-C" not in line)


def test_a_connection_that_is_lost_in_mid_run_ends_it_with_one_line(every: Seen) -> None:
    said = error_of(every["lost"])
    assert "127.0.0.1:50052" in said
    assert said.removeprefix("weir: ") in every["lost"]["manifest"]["error"]
    assert not every["lost"]["manifest"]["complete"]
    assert every["lost"]["left"] == []


def test_a_switch_that_does_not_answer_is_named(every: Seen) -> None:
    assert "no switch answers at 127.0.0.1:50052" in error_of(every["away"])


def test_a_switch_without_a_program_is_refused_with_the_command_that_loads_one(every: Seen) -> None:
    said = error_of(every["none"])
    assert "127.0.0.1:50052 runs no program" in said
    assert "weir apply --compiled DIR --load-pipeline" in said
