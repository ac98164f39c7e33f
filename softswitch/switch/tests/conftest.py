# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the binary: the binary itself and the compiled test programs."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

# With importlib's import mode pytest puts no test folder on the path.
sys.path.insert(0, str(Path(__file__).parent))

from scenarios import run_scenario
from switch_process import SwitchProcess

RunOnSwitch = Callable[[str, str], dict[str, Any]]
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def weir_switch() -> Path:
    """The binary: $WEIR_SWITCH, or the one that `make setup` installed."""
    installed = REPOSITORY / ".venv" / "bin" / "weir-switch"
    named = os.environ.get("WEIR_SWITCH") or shutil.which("weir-switch") or installed
    path = Path(named)
    if not path.exists():
        pytest.skip(f"{path} is missing; `make setup` builds it, or WEIR_SWITCH names one")
    return path


@pytest.fixture(scope="session")
def compiled() -> Callable[[str], tuple[Path, Path]]:
    """P4Info and BMv2 JSON of a test program, by its name."""
    softswitch = REPOSITORY / "softswitch"
    folders = [
        Path(__file__).parent / "programs",
        softswitch / "programs",
        softswitch / "dataplane" / "tests" / "programs",
    ]

    def find(program: str) -> tuple[Path, Path]:
        folder = next(folder for folder in folders if (folder / f"{program}.json").exists())
        return folder / f"{program}.p4info.txtpb", folder / f"{program}.json"

    return find


@pytest.fixture(
    scope="module",
    params=[(), ("--send-threads", "2")],
    ids=["sent by the forwarding thread", "sent by two threads"],
)
def send_options(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options for sending; tests that use this fixture run with each of them."""
    options: tuple[str, ...] = request.param
    return options


@pytest.fixture(scope="module", params=["ring", "xdp"], ids=["from packet rings", "through AF_XDP"])
def receive(request: pytest.FixtureRequest) -> str:
    """How ports receive; tests that use this fixture run with each way, AF_XDP as root only."""
    way: str = request.param
    return way


def run_program(
    tools: tuple[Path, Callable[[str], tuple[Path, Path]], pytest.TempPathFactory],
    arguments: tuple[str, ...],
    name: str,
    program: str,
    *,
    root: bool = False,
) -> dict[str, Any]:
    """Run a scenario with a program. `tools`: the fixtures `weir_switch`, `compiled`, `tmp_path_factory`."""
    weir_switch, compiled, folders = tools
    p4info, blob = compiled(program)
    fixed = (weir_switch, blob, p4info, folders.mktemp(name))
    return run_scenario(f"{name}_scenario.py", *fixed, *arguments, root=root)


@pytest.fixture(scope="module")
def run_on_switch(
    send_options: tuple[str, ...],
    weir_switch: Path,
    compiled: Callable[[str], tuple[Path, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunOnSwitch:
    """Run the scenario `NAME_scenario.py SWITCH JSON P4INFO FOLDER [OPTION…]` with a test program."""
    return partial(run_program, (weir_switch, compiled, tmp_path_factory), send_options)


@pytest.fixture(scope="module")
def run_receiving(
    receive: str,
    send_options: tuple[str, ...],
    weir_switch: Path,
    compiled: Callable[[str], tuple[Path, Path]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunOnSwitch:
    """Run the scenario `NAME_scenario.py SWITCH JSON P4INFO FOLDER RECEIVE [OPTION…]` with a test program."""
    arguments, root = (receive, *send_options), receive == "xdp"
    return partial(run_program, (weir_switch, compiled, tmp_path_factory), arguments, root=root)


@pytest.fixture
def switch(weir_switch: Path, tmp_path: Path) -> Iterator[SwitchProcess]:
    """A running switch without interfaces."""
    with SwitchProcess(weir_switch, "--stats", str(tmp_path / "stats.json")) as process:
        yield process
