# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of commands that start processes: finds leftover processes, waits for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from weir.topo.inherited import command_lines_with

MARKER = "WEIR_TEST_MARKER"
"""Environment variable whose value all processes of one test inherit."""


def marked_processes(marker: str) -> Iterator[str]:
    """Command lines of all processes that inherited the marker."""
    return command_lines_with(MARKER, marker)


def wait_until(condition: Callable[[], bool], timeout_s: float, explain: Callable[[], str]) -> None:
    """Poll until the condition holds; AssertionError with the explanation after `timeout_s`."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, explain()
        time.sleep(0.05)
