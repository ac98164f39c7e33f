# SPDX-License-Identifier: Apache-2.0
"""Files and directories of runs: written whole, brought to the disk, and held while a process works there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from weir.analysis.whole_files import write_whole

__all__ = ["CONFIG_NAME", "hold", "sync_tree", "write_whole"]

CONFIG_NAME = "config.yaml"
"""The experiment, in the directory of its run."""


def hold(directory: Path) -> None:
    """Let others see, by a shared lock on it, that this process works in a directory until it ends."""
    # Kept open on purpose: the lock lives as long as the process.
    fcntl.flock(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)


def sync_tree(directory: Path) -> None:
    """Bring all files below a directory to the disk, so that a power cut takes none of them back."""
    for path in (*directory.rglob("*"), directory):
        if path.is_symlink():
            continue
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
