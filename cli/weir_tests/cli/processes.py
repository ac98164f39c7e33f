# SPDX-License-Identifier: Apache-2.0
"""For tests of commands that start processes: which of them are left, and waiting for a condition."""

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
            continue  # ended meanwhile, or somebody else's


def wait_until(condition: Callable[[], bool], timeout_s: float, explain: Callable[[], str]) -> None:
    """Look again and again until the condition holds; else AssertionError with the explanation."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, explain()
        time.sleep(0.05)
