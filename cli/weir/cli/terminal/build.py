# SPDX-License-Identifier: Apache-2.0
"""Progress of a kernel's build: on a terminal one line, elsewhere a line per step."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from weir.cli.terminal.progress import TerminalBar


class BuildLine(TerminalBar):
    """Shows step, compiled objects and the time since the start; a context manager."""

    def __init__(self, console: Console) -> None:
        """Show on `console`."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
        )
        super().__init__(console, Progress(*columns, console=console, transient=True))
        self._task = self._progress.add_task("", total=None, count="")

    def step(self, text: str) -> None:
        """Show the step that begins."""
        self._progress.update(self._task, description=text, total=None, count="")
        if not self._console.is_terminal:
            self._console.print(f"  {text}", highlight=False)

    def compiled(self, objects: int, of_about: int) -> None:
        """Show how many objects are compiled."""
        count = f"{objects:,} of about {of_about:,} objects"
        self._progress.update(self._task, completed=objects, total=of_about, count=count)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clear the line; after Ctrl-C say that there is no kernel."""
        super().__exit__(kind, error, traceback)
        if kind is KeyboardInterrupt:
            self._console.print("weir: stopped; no kernel was made", style="red", highlight=False)
