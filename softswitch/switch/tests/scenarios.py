# SPDX-License-Identifier: Apache-2.0
"""Scenarios with real frames: programs in separate namespaces that print their observations as JSON."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sandbox import refusal, run_sandboxed

# Only a broken switch takes this long.
PATIENCE_S = 60
TIME_LIMIT_S = 240


def run_scenario(name: str, *arguments: object, root: bool = False) -> dict[str, Any]:
    """Run the scenario in the file `name`; return its output, and as `log` its stderr with the switch's log.

    With `root` it has the privileges of the machine's root. Skips where that or a namespace is not allowed.
    """
    if reason := refusal(root=root):
        pytest.skip(reason)
    script = Path(__file__).with_name(name)
    ended = run_sandboxed(script, *arguments, time_limit_s=TIME_LIMIT_S, root=root)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return {"log": ended.stderr} | found


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; fail after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain until {what}"
        time.sleep(0.01)


def statistics(path: Path) -> dict[str, Any]:
    """The switch's statistics; empty when the file is missing or empty."""
    text = path.read_text() if path.exists() else ""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found
