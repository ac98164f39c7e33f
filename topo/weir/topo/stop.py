# SPDX-License-Identifier: Apache-2.0
"""The stop token of a run, which interrupts every wait in this package.

Stopping is co-operative: an exception raised at an arbitrary byte code of the main thread could leave a file
or a `finally` block half done; a token raises only where the code checks it.
"""

import os
import threading
from collections.abc import Callable
from typing import Literal

StopReason = Literal["interrupted", "terminated", "orphaned"]


class Interrupted(Exception):
    """The run was stopped; `reason` says how.

    `interrupted`: Ctrl-C. `terminated`: SIGTERM or SIGHUP. `orphaned`: the process that the user started has
    exited, `kill -9` included.
    """

    def __init__(self, reason: StopReason) -> None:
        """Set the reason."""
        super().__init__(f"the run was stopped early ({reason})")
        self.reason: StopReason = reason


class StopToken:
    """A flag that is set once and never cleared; safe to use from any thread.

    `fail` sets it with an error of the run, which every wait raises in place of `Interrupted`.
    """

    def __init__(self) -> None:
        """Make a token that is not stopped."""
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_callback = 0
        self._reason: StopReason | None = None
        self._error: Exception | None = None
        # With it, select() and poll() can wait for a stop as well as for pipes and processes.
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def __del__(self) -> None:
        """Close the file descriptor."""
        os.close(self._eventfd)

    @property
    def reason(self) -> StopReason | None:
        """The reason of the stop; None before it, and for an error."""
        return self._reason

    @property
    def stopped(self) -> bool:
        """Whether the token is set."""
        return self._event.is_set()

    def stop(self, reason: StopReason) -> None:
        """Set the token and wake every wait. Later calls have no effect: the first reason stays."""
        self._set(reason, None)

    def fail(self, error: Exception) -> None:
        """As `stop`, for something that the run cannot continue without."""
        self._set(None, error)

    def _set(self, reason: StopReason | None, error: Exception | None) -> None:
        with self._lock:
            if self._event.is_set():
                return
            self._reason, self._error = reason, error
            self._event.set()
            callbacks = list(self._callbacks.values())
        os.eventfd_write(self._eventfd, 1)
        for callback in callbacks:
            callback()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for a stop or the timeout; returns True if stopped."""
        return self._event.wait(timeout_s)

    def raise_if_stopped(self) -> None:
        """Raise `Interrupted` if stopped, or the error."""
        if self._error is not None:
            raise self._error
        if self._reason is not None:
            raise Interrupted(self._reason)

    def sleep(self, duration_s: float) -> None:
        """Wait `duration_s` seconds; raises as `raise_if_stopped` as soon as stopped."""
        self._event.wait(duration_s)
        self.raise_if_stopped()

    def fileno(self) -> int:
        """File descriptor that becomes readable with the stop."""
        return self._eventfd

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once on a stop, in the thread that calls `stop`; immediately if already stopped.

        For asyncio: `token.on_stop(lambda: loop.call_soon_threadsafe(task.cancel))`.
        Returns a function that removes the callback.
        """
        with self._lock:
            key = self._next_callback
            self._next_callback += 1
            self._callbacks[key] = callback
            stopped = self._event.is_set()
        if stopped:
            callback()

        def forget() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return forget
