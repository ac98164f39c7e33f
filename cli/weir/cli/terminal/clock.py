# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run in virtual time: on a terminal one line, which is cleared at the end."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console

from weir.cli.terminal.live import can_draw

_CLEAR = "\r\x1b[K"


class VirtualClock:
    """Shows virtual and wall time; a context manager that says at its end how fast the run was."""

    def __init__(self, console: Console, *, shown: bool) -> None:
        """Show on `console`, the line only if `shown`."""
        self._console, self._drawn = console, shown and can_draw(console)
        self._virtual_s = 0.0
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        """Start the wall time."""
        self._began = time.monotonic()
        return self

    def tick(self, virtual_s: float) -> None:
        """Show the guest's time."""
        self._virtual_s = virtual_s
        if self._drawn:
            # Without a line end, so that the next line of the run replaces it.
            self._console.file.write(f"{_CLEAR}  {self._text()}\r")
            self._console.file.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Clear the line; of a run that had begun print the times."""
        if self._drawn:
            self._console.file.write(_CLEAR)
            self._console.file.flush()
        if kind is None and self._virtual_s:
            self._console.print(f"  {self._text()}", highlight=False)

    def _text(self) -> str:
        wall_s = time.monotonic() - self._began
        return f"virtual time {self._virtual_s:.0f} s, wall time {wall_s:.0f} s"
