# SPDX-License-Identifier: Apache-2.0
"""The labs of this folder: each starts, takes its commands, and forwards pings between its hosts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from weir.cli.bmv2 import link_names, write_cli
from weir.topo.sandbox import run_in_sandbox, sandbox_problem
from weir.topo.tools import ToolMissingError, find_own_program, search_path

LABS = Path(__file__).parent
# Mininet is a package of the system's Python.
PYTHON = "/usr/bin/python3"
# p4-utils is in no registry of packages, so a Python that has both may be named.
P4_UTILS_PYTHON = os.environ.get("WEIR_P4UTILS_PYTHON", PYTHON)


def result_of(scenario: str, folder: Path, *arguments: str) -> dict[str, Any]:
    """What a scenario found in the sandbox, with bmv2's names in `folder/bin`."""
    try:
        switch = find_own_program("weir-switch").resolve()
    except ToolMissingError as error:
        pytest.skip(str(error))
    if problem := sandbox_problem():
        pytest.skip(f"kernel: {problem}")
    link_names(folder / "bin", switch)
    write_cli(folder / "bin")
    assert run_in_sandbox(f"weir_tests.softswitch.{scenario}", [str(folder), *arguments]) == 0
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.parametrize("lab", ["kathara", "containerlab"])
def test_nodes_that_run_a_labs_commands_reach_each_other(lab: str, tmp_path: Path) -> None:
    found = result_of("labs_scenario", tmp_path, lab)
    assert found["pings"].count("3 packets transmitted, 3 received") == 2, found
    assert found["said"]["s1"].count("Entry has been added with handle") == 4, found
    assert "Error" not in found["said"]["s1"], found


def skip_without_mininet() -> None:
    if os.geteuid() != 0:
        pytest.skip("user: Mininet needs root")
    if shutil.which("mn", path=search_path()) is None:
        pytest.skip("not installed: mn; sudo apt-get install mininet")


def test_the_hosts_of_a_network_of_mininet_reach_each_other(tmp_path: Path) -> None:
    skip_without_mininet()
    found = result_of(
        "mininet_scenario", tmp_path, PYTHON, str(LABS / "mininet" / "weir_switch.py"), "pingall"
    )
    assert found["code"] == 0, found
    assert "0% dropped (2/2 received)" in found["stdout"] + found["stderr"], found
    assert found["stdout"].count("Entry has been added with handle") == 4, found


def test_the_hosts_of_a_network_of_p4_utils_reach_each_other(tmp_path: Path) -> None:
    skip_without_mininet()
    tried = subprocess.run([P4_UTILS_PYTHON, "-c", "import p4utils"], capture_output=True, check=False)
    if tried.returncode != 0:
        pytest.skip("p4-utils: not in the Python of WEIR_P4UTILS_PYTHON, and in no package registry")
    program = str(LABS / "p4-utils" / "network.py")
    found = result_of("mininet_scenario", tmp_path, P4_UTILS_PYTHON, program, "pingall")
    assert found["code"] == 0, found
    assert "0% dropped (2/2 received)" in found["stdout"] + found["stderr"], found
