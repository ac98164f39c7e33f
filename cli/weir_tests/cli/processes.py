# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of commands that start processes: finds leftover processes, waits for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARKER = "WEIR_TEST_MARKER"
"""Environment variable whose value all processes of one test inherit."""


def marked_processes(marker: str) -> Iterator[str]:
    """Command lines of all processes that inherited the marker."""
    wanted = f"{MARKER}={marker}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (path / "environ").read_bytes().split(b"\0"):
                yield (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, PermissionError, ProcessLookupError):
            continue  # exited in the meantime, or owned by another user


def wait_until(condition: Callable[[], bool], timeout_s: float, explain: Callable[[], str]) -> None:
    """Poll until the condition holds; AssertionError with the explanation after `timeout_s`."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, explain()
        time.sleep(0.05)
