# SPDX-License-Identifier: Apache-2.0
"""What the tests of the binary share: the binary itself and the compiled test programs."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from switch_process import SwitchProcess

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
def programs() -> Path:
    """Folder of the test programs with p4c's output."""
    return REPOSITORY / "softswitch" / "programs"


@pytest.fixture
def switch(weir_switch: Path, tmp_path: Path) -> Iterator[SwitchProcess]:
    """A running switch without interfaces."""
    with SwitchProcess(weir_switch, "--stats", str(tmp_path / "stats.json")) as process:
        yield process
