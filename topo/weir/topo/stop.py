# SPDX-License-Identifier: Apache-2.0
"""How a run is told to stop: a token that every wait in this package looks at.

Stopping is co-operative on purpose. An exception thrown into the main thread at any byte code could tear
a half-written file or a `finally` block; a token raises only where the code asks.
"""

import os
import threading
from collections.abc import Callable
from typing import Literal

StopReason = Literal["interrupted", "terminated", "orphaned"]


class Interrupted(Exception):
    """The run was told to stop; `reason` says by whom.

    `interrupted`: Ctrl-C. `terminated`: SIGTERM or SIGHUP. `orphaned`: the process that the user started
    is gone, `kill -9` included.
    """

    def __init__(self, reason: StopReason) -> None:
        """Name the reason."""
        super().__init__(f"the run was stopped early ({reason})")
        self.reason: StopReason = reason


class StopToken:
    """Set once, never cleared; safe to use from any thread."""

    def __init__(self) -> None:
        """Make a token that is not stopped."""
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_callback = 0
        self._reason: StopReason | None = None
        # Lets select() and poll() wait for a stop next to pipes and processes.
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __del__(self) -> None:
        """Give the file descriptor back."""
        os.close(self._eventfd)

    @property
    def reason(self) -> StopReason | None:
        """Why the run was told to stop, or None while it was not."""
        return self._reason

    @property
    def stopped(self) -> bool:
        """Whether the run was told to stop."""
        return self._event.is_set()

    def stop(self, reason: StopReason) -> None:
        """Tell everyone who waits. Later calls change nothing: the first reason stays."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            callbacks = list(self._callbacks.values())
        self._event.set()
        os.eventfd_write(self._eventfd, 1)
        for callback in callbacks:
            callback()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until told to stop or until the time is over; True when told to stop."""
        return self._event.wait(timeout_s)

    def raise_if_stopped(self) -> None:
        """Raise `Interrupted` when told to stop."""
        if self._reason is not None:
            raise Interrupted(self._reason)

    def sleep(self, duration_s: float) -> None:
        """Wait `duration_s` seconds; raise `Interrupted` as soon as told to stop."""
        self._event.wait(duration_s)
        self.raise_if_stopped()

    def fileno(self) -> int:
        """File descriptor that is readable from the stop on."""
        return self._eventfd

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once when told to stop, from the thread that tells (at once when it has happened).

        For asyncio: `token.on_stop(lambda: loop.call_soon_threadsafe(task.cancel))`.
        Returns a function that takes the callback back.
        """
        with self._lock:
            key = self._next_callback
            self._next_callback += 1
            self._callbacks[key] = callback
            stopped = self._reason is not None
        if stopped:
            callback()

        def forget() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return forget
