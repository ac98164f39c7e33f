# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario with weir-switch in the sandbox, and returns its result."""

import json
from pathlib import Path
from typing import Any

import pytest

from weir.topo.sandbox import run_in_sandbox, sandbox_problem
from weir.topo.tools import ToolMissingError, find_own_program


def result_of(module: str, folder: Path) -> dict[str, Any]:
    """Run `python -m module folder` in the sandbox; returns its `result.json`. Skips where it cannot run."""
    try:
        find_own_program("weir-switch")
    except ToolMissingError as error:
        pytest.skip(str(error))
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(f"kernel: {problem}")
    assert run_in_sandbox(module, [str(folder)]) == 0
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result
