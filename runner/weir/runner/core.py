# SPDX-License-Identifier: Apache-2.0
"""A core for each guest: its kernel and its programs take turns, and wake each other sooner on one core."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

NAME = "\0weir-guest-on-core-{}"
"""Of the abstract socket (unix(7)) that holds a core. All users see it, and it ends with its process."""
_LAST_CORE = 36
"""Of the fields after the program's name in /proc/PID/stat: the core on which it ran last (proc(5))."""


@contextlib.contextmanager
def own_core() -> Iterator[int | None]:
    """A core that no other guest has as long as the context lasts; None if there are more guests than cores.

    The core on which this process runs comes first, as the scheduler prefers idle ones.
    """
    here = _running_on()
    for core in sorted(os.sched_getaffinity(0), key=lambda core: core != here):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as name:
            try:
                name.bind(NAME.format(core))
            except OSError:
                continue
            yield core
            return
    yield None


def _running_on() -> int:
    after_name = Path("/proc/self/stat").read_text().rpartition(")")[2]
    return int(after_name.split()[_LAST_CORE])
