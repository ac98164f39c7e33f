# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files, with errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def part_of(path: Path) -> Path:
    """The temporary name of a file while it is written."""
    return path.with_name(path.name + ".part")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to ``path`` after the block.

    On an error or Ctrl-C ``path`` is unchanged, and the temporary file is removed.

    Raises:
        OSError: always with ``path`` as its file name, even if the system call gives none, as on a full disk.
    """
    part = part_of(path)
    try:
        yield part
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically. Raises as :func:`replacing`."""
    with replacing(path) as part:
        part.write_bytes(data)
