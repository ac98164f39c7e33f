# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all, and whose errors name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def part_of(path: Path) -> Path:
    """The name that a file has until it is whole."""
    return path.with_name(path.name + ".part")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path that becomes ``path`` after the block; if the block fails, ``path`` is unchanged.

    Raises:
        OSError: names ``path`` even where the system names no file, as for a full disk.
    """
    part = part_of(path)
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
