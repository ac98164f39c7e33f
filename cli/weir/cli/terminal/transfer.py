# SPDX-License-Identifier: Apache-2.0
"""A bar for work that is counted in bytes."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from weir.cli.terminal.progress import TerminalBar


class TransferBar(TerminalBar):
    """Counts the bytes that are done, on a console that is a terminal."""

    def __init__(self, what: str, console: Console, total: int | None = None) -> None:
        """Count up to `total` bytes of `what`."""
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        super().__init__(console, Progress(*columns, console=console, transient=True))
        self._task = self._progress.add_task(what, total=total)

    def done(self, count: int, total: int | None = None) -> None:
        """Show that `count` bytes are done, of `total` if that was not known before."""
        self._progress.update(self._task, completed=count, total=total)


def size_text(size_bytes: int) -> str:
    """A size for people."""
    for unit, bytes_each in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size_bytes >= bytes_each:
            return f"{size_bytes / bytes_each:.1f} {unit}"
    return f"{size_bytes} B"
