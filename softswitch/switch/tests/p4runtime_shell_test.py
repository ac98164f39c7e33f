# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell, the P4 project's own client, drives the binary unchanged."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from switch_process import SwitchProcess

REPOSITORY = Path(__file__).parents[3]
# Its protobuf (< 3.21) conflicts with the project's, so it has a separate venv (`make p4runtime-shell`).
DEFAULT_PYTHON = REPOSITORY / ".venv" / "p4runtime-shell" / "bin" / "python"


@pytest.fixture(scope="module")
def found(
    weir_switch: Path, compiled: Callable[[str], tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The results of the shell's scenarios."""
    python = Path(os.environ.get("P4RUNTIME_SHELL_PYTHON") or DEFAULT_PYTHON)
    if not python.exists():
        pytest.skip(
            f"{python} is missing; `make p4runtime-shell` makes it, or P4RUNTIME_SHELL_PYTHON names one"
        )
    # Without variables for the Python of the tests: the shell runs in another one.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    stats = tmp_path_factory.mktemp("shell") / "stats.json"
    result: dict[str, Any] = {}
    with SwitchProcess(weir_switch, "--stats", str(stats)) as switch:
        for program in ("entities", "features"):
            scenario = Path(__file__).with_name("p4runtime_shell_scenario.py")
            command = [python, scenario, switch.address, program, *compiled(program)]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
            assert ended.returncode == 0, ended.stderr
            result |= json.loads(ended.stdout.splitlines()[-1])
    return result


def test_entries_are_inserted_modified_read_and_deleted(found: dict[str, Any]) -> None:
    assert found["table"]["found"] == [[7, "04"]]
    assert found["table"]["left"] == 0


def test_a_modify_keeps_the_direct_meter_that_it_carries(found: dict[str, Any]) -> None:
    assert found["table"]["meters"] == [[100, 20]]
    assert found["table"]["counts"] == [0]


def test_a_refused_update_says_why_in_the_shell(found: dict[str, Any]) -> None:
    assert "ALREADY_EXISTS" in found["refusal"]
    assert "IngressImpl.forward" in found["refusal"]


def test_counters_and_meters_are_read_as_written(found: dict[str, Any]) -> None:
    assert found["counter"] == [11, 1100]
    assert found["meter"] == [1000, 100, 2000, 200]


def test_groups_and_clone_sessions_are_read_as_written(found: dict[str, Any]) -> None:
    assert found["replication"] == {"groups": [2], "sessions": [128]}


def test_packets_travel_both_ways_with_metadata(found: dict[str, Any]) -> None:
    assert found["packets"] == [{"1": "07", "2": "03"}, True]


def test_action_profiles_are_written_and_read(found: dict[str, Any]) -> None:
    expected = {"groups": [[[1, 1], [2, 2]]], "entries": 2, "left": 0, "weights": [2]}
    assert found["profiles"] == expected
