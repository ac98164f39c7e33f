# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and whose errors name them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole; what was there stays when that fails.

    Raises:
        OSError: names the file also where the system does not, as for a full disk.
    """
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


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
