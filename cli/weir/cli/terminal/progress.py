# SPDX-License-Identifier: Apache-2.0
"""Progress of a run as plain lines; a progress bar for a terminal."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress


class TerminalBar:
    """A context manager that shows a progress bar, if the console is a terminal."""

    def __init__(self, console: Console, progress: Progress, *, shown: bool = True) -> None:
        """Show `progress`, which was created for `console`; not at all unless `shown`."""
        self._console, self._progress = console, progress
        self._shown = shown and console.is_terminal

    def __enter__(self) -> Self:
        """Start the bar."""
        if self._shown:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clear the bar."""
        if self._shown:
            self._progress.stop()


class RunProgress:
    """Progress of one run as plain lines."""

    def __init__(self, console: Console) -> None:
        """Print on `console`."""
        self._console = console

    def step(self, what: str) -> None:
        """Print the step that begins."""
        self._console.print(f"  {what}", highlight=False)

    def phase(self, name: str, duration_s: float) -> contextlib.AbstractContextManager[None]:
        """Print that a phase begins, whose flows last about `duration_s` seconds."""
        self._console.print(f"  phase {name}: flows for {duration_s:g} s", highlight=False)
        return contextlib.nullcontext()
