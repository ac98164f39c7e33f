# SPDX-License-Identifier: Apache-2.0
"""Atomic writing of files, with errors that name the file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_numbers = itertools.count()


def part_of(path: Path) -> Path:
    """The temporary name of a file that only one process writes."""
    return path.with_name(path.name + ".part")


def _own_part_of(path: Path) -> Path:
    """A temporary name that no other writer of this file uses, in this process or another one."""
    return part_of(path.with_name(f"{path.name}.{os.getpid()}-{next(_numbers)}"))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to ``path`` after the block.

    On an error or Ctrl-C ``path`` is unchanged, and the temporary file is removed. Of several writers at the
    same time, each has a temporary file, and the last one to end is the one that stays.

    Raises:
        OSError: always with ``path`` as its file name, even if the system call gives none, as on a full disk.
    """
    part = _own_part_of(path)
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
