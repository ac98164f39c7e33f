# SPDX-License-Identifier: Apache-2.0
"""Writes files atomically, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to ``path`` on success; on failure ``path`` is unchanged.

    Raises:
        OSError: names the file also where the system does not, as for a full disk.
    """
    part = path.with_name(path.name + ".part")
    try:
        yield part
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole. Raises as :func:`replacing`."""
    with replacing(path) as part:
        part.write_bytes(data)
