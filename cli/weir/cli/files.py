# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and whose errors name them."""

from __future__ import annotations

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
