# SPDX-License-Identifier: Apache-2.0
"""A run on the terminal: a line per step, and of each phase a live picture of the drops per policer."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from weir.cli.terminal.picture import PhasePicture
from weir.runner.progress import Sample
from weir.topo.sandbox import STOPPING
from weir.topo.stop import StopToken

REFRESH_S = 0.25
# Leaves the alternate screen without moving the cursor, as 1049 would; shows the cursor.
_RESTORE = b"\x1b[?1047l\x1b[?25h\n"


def can_draw(console: Console) -> bool:
    """Whether the console is a terminal that can be drawn on; colours forced into a file do not make one."""
    return console.is_interactive and not console.is_dumb_terminal and console.file.isatty()


def restore_terminal(console: Console) -> None:
    """Restore a terminal on which a picture was drawn by a process that was killed."""
    with contextlib.suppress(OSError):  # the terminal may be closed
        os.write(console.file.fileno(), _RESTORE)


class RunPicture:
    """Progress of one run with a picture of the running phase; a context manager."""

    def __init__(self, console: Console, stop: StopToken) -> None:
        """Draw on `console`; when Ctrl-C sets `stop`, say so."""
        self._console, self._stop = console, stop
        self._lock = threading.Lock()
        self._picture: PhasePicture | None = None

    def __enter__(self) -> Self:
        """Begin to follow the stop token."""
        self._forget = self._stop.on_stop(self._say_stopping)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Follow the stop token no longer."""
        self._forget()

    def step(self, what: str) -> None:
        """Print the step that begins."""
        self._console.print(f"  {what}", highlight=False)

    def watch(self, sample: Sample) -> None:
        """Add a sample to the picture of the running phase."""
        with self._lock:
            if self._picture is not None:
                self._picture.add(sample)

    @contextlib.contextmanager
    def phase(self, name: str, duration_s: float) -> Iterator[None]:
        """Draw a phase that lasts about `duration_s` seconds; at its end print its whole picture."""
        picture = PhasePicture(name, duration_s, time.monotonic())
        with self._lock:
            self._picture = picture
        ended = threading.Event()
        drawer = threading.Thread(target=self._draw, args=(picture, ended), name="picture", daemon=True)
        drawer.start()
        try:
            yield
        finally:
            ended.set()
            drawer.join()
            with self._lock:
                self._picture = None
                picture.note, picture.height = "", None
                self._console.print(picture)

    def _draw(self, picture: PhasePicture, ended: threading.Event) -> None:
        # On the alternate screen, a resized terminal does not wrap the lines that were drawn before.
        with Live(console=self._console, screen=True, auto_refresh=False) as live:
            while not ended.wait(REFRESH_S):
                with self._lock:
                    picture.advance(time.monotonic())
                    picture.height = self._console.height
                    live.update(picture, refresh=True)

    def _say_stopping(self) -> None:
        if self._stop.reason != "interrupted":
            return
        with self._lock:
            if self._picture is None:
                self._console.print(STOPPING, highlight=False)
            else:
                self._picture.note = STOPPING
