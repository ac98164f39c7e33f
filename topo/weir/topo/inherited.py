# SPDX-License-Identifier: Apache-2.0
"""Finds the processes that something started, however deep: by a variable that all of them inherit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def processes_with(variable: str, value: str) -> Iterator[Path]:
    """Folders in /proc of the processes that have a variable of this value.

    A process may end at any time, so what is read there may be gone. Processes of other users, and those that
    drop privileges, are seen by root only.
    """
    wanted = f"{variable}={value}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield folder
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue


def command_lines_with(variable: str, value: str) -> Iterator[str]:
    """Command lines of those processes."""
    for folder in processes_with(variable, value):
        try:
            yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
