# SPDX-License-Identifier: Apache-2.0
"""A running program of an experiment, on this machine or elsewhere: its output, its end, signals."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from typing import IO

from weir.topo.stop import StopToken

_TAIL_LINES = 15
# Lines kept for wait_line(), limited so that unread output does not fill the memory.
_KEPT_LINES = 1000
NO_ROOM = os.strerror(errno.ENOSPC)
"""Programs that find a full disk say so."""


class ProcessError(Exception):
    """A helper process failed; the text has its name, the failure and the end of its log."""


class DiskFullError(ProcessError):
    """A helper process failed because a disk was full."""


class Program(ABC):
    """A program whose output (stdout and stderr together) goes to a log file, and whose lines can be awaited.

    Subclasses call `_take` with each line and `_close` after the last one.
    """

    def __init__(self, name: str, log: Path) -> None:
        """Create the log; error messages use `name`."""
        self.name = name
        self.log = log
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._changed = threading.Condition()
        self._ended = False
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log: IO[str] = log.open("w")

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id, in the PID namespace of its host."""

    @abstractmethod
    def poll(self) -> int | None:
        """Exit code, or None while it runs; negative after a signal."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait until it has ended; returns its exit code, or None after the timeout."""

    @abstractmethod
    def fileno(self) -> int:
        """File descriptor that becomes readable when it has ended."""

    @abstractmethod
    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if it has ended."""

    def stop(self, number: signal.Signals = signal.SIGTERM, grace_s: float = 5.0) -> int | None:
        """End it with signal `number`, after `grace_s` seconds with SIGKILL. Returns its exit code.

        Can be called again, and for a program that has already ended. None if it is out of reach.
        """
        if self.poll() is None:
            self.send_signal(number)
        code = self.wait(grace_s)
        if code is None:
            self.send_signal(signal.SIGKILL)
            code = self.wait(grace_s)
        self.wait_output(grace_s)
        return code

    def tail(self) -> str:
        """The last lines that it wrote, as far as they are awaited."""
        with self._changed:
            return "".join(self._tail)

    def wait_output(self, timeout_s: float) -> None:
        """Wait until its log is whole; it must have ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended, timeout_s)

    def wait_line(self, pattern: str, deadline_s: float, stop: StopToken | None = None) -> re.Match[str]:
        """Wait for the next line that contains `pattern`, after the line that was returned last.

        Raises ProcessError if it ends first or after `deadline_s` seconds, and what `raise_if_stopped` raises
        if the run is stopped.
        """
        wanted = re.compile(pattern)
        give_up = time.monotonic() + deadline_s
        forget = stop.on_stop(self._notify) if stop is not None else None
        try:
            with self._changed:
                while True:
                    if stop is not None:
                        stop.raise_if_stopped()
                    while self._lines:
                        match = wanted.search(self._lines.popleft())
                        if match is not None:
                            return match
                    if self._ended:
                        status = self._exit_status()
                        raise self.error(f"ended before it was ready ({status})")
                    left = give_up - time.monotonic()
                    if left <= 0:
                        raise ProcessError(self._describe(f"did not say /{pattern}/ within {deadline_s:g} s"))
                    self._changed.wait(left)
        finally:
            if forget is not None:
                forget()

    def check_running(self) -> None:
        """Raise ProcessError if it has ended."""
        if self.poll() is not None:
            self.wait_output(1.0)
            raise self.error(f"ended unexpectedly ({self._exit_status()})")

    def error(self, what: str) -> ProcessError:
        """Make an error about this program: that it found a full disk, else with the end of its log."""
        with self._changed:
            if any(NO_ROOM in line for line in self._tail):
                return DiskFullError(f"{self.name} {what}; log: {self.log}: {NO_ROOM}")
            return ProcessError(self._describe(what))

    def _take(self, line: str) -> None:
        # On a full disk the log loses lines, but whoever waits for one gets it, and the pipe stays empty.
        with contextlib.suppress(OSError):
            self._log.write(line)
            self._log.flush()
        with self._changed:
            self._tail.append(line)
            self._lines.append(line)
            self._changed.notify_all()

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._log.close()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _exit_status(self) -> str:
        code = self.wait()
        if code is None:
            return "out of reach"
        if code >= 0:
            return f"exit code {code}"
        return f"killed by {signal.Signals(-code).name}"

    def _describe(self, what: str) -> str:
        tail = "".join(self._tail).rstrip()
        return f"{self.name} {what}; log: {self.log}" + (f"\n{tail}" if tail else " (empty)")
