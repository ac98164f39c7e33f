# SPDX-License-Identifier: Apache-2.0
"""Folders for work whose result is moved elsewhere, beside it so that a move is one step."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weir.rundir.directory import held, is_held


@contextmanager
def scratch_folder(parent: Path, prefix: str = "") -> Iterator[Path]:
    """An empty folder in `parent`, removed at the end of the block, whatever happens.

    Also removes the folders of the same prefix that killed processes have left, which nobody holds. Raises
    OSError.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.iterdir():
        # Another process may remove it at the same time.
        with contextlib.suppress(FileNotFoundError):
            if left.name.startswith(prefix) and left.is_dir() and not is_held(left):
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with held(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
