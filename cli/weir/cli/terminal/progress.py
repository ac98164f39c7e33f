# SPDX-License-Identifier: Apache-2.0
"""Progress of a run on the terminal: a line per step, and a bar with the elapsed time of a phase."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_REFRESH_S = 0.25


class TerminalBar:
    """A context manager that shows a progress bar, if the console is a terminal."""

    def __init__(self, console: Console, progress: Progress) -> None:
        """Show `progress`, which was created for `console`."""
        self._console, self._progress = console, progress

    def __enter__(self) -> Self:
        """Start the bar."""
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clear the bar."""
        if self._console.is_terminal:
            self._progress.stop()


class RunProgress(TerminalBar):
    """Progress of one run; on a terminal a bar, elsewhere plain lines."""

    def __init__(self, console: Console) -> None:
        """Show progress on `console`."""
        columns = (
            TextColumn("  {task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
            TimeRemainingColumn(),
        )
        super().__init__(console, Progress(*columns, console=console, transient=True))

    def step(self, what: str) -> None:
        """Print the step that begins."""
        self._console.print(f"  {what}", highlight=False)

    @contextlib.contextmanager
    def phase(self, name: str, duration_s: float) -> Iterator[None]:
        """Show a bar during a phase that lasts about `duration_s` seconds."""
        self._console.print(f"  phase {name}: flows for {duration_s:g} s", highlight=False)
        task = self._progress.add_task(f"phase {name}", total=duration_s)
        ended = threading.Event()
        begin = time.monotonic()

        def follow() -> None:
            while not ended.wait(_REFRESH_S):
                self._progress.update(task, completed=min(duration_s, time.monotonic() - begin))

        follower = threading.Thread(target=follow, name="progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            ended.set()
            follower.join()
            self._progress.remove_task(task)
