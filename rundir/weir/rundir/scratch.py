# SPDX-License-Identifier: Apache-2.0
"""Folders for work whose result is moved elsewhere, beside it so that a move is one step."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from weir.rundir.directory import held, remove_if_not_held


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """An empty folder in `parent`, removed at the end of the block, whatever happens.

    Also removes the folders of the same prefix that killed processes have left, which nobody holds: with the
    empty prefix, `parent` must be for such folders only. Raises OSError.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.iterdir():
        if left.name.startswith(prefix) and not left.is_symlink() and left.is_dir():
            remove_if_not_held(left)
    with ExitStack() as stack:
        folder = _held_folder(parent, prefix, stack)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _held_folder(parent: Path, prefix: str, stack: ExitStack) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            stack.enter_context(held(folder))
        except FileNotFoundError:
            continue
        # Before it was held, another process may have taken it for left behind.
        if folder.is_dir():
            return folder
