# SPDX-License-Identifier: Apache-2.0
"""A thread that tells workers that their campaign is still there, whatever the campaign's main thread does.

The main thread copies a finished run from its worker, unpacks it and syncs it to disk. With large captures
that takes minutes, in which the other workers would end their runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Heartbeats:
    """Calls `send` every `interval_s` seconds between `begin` and `end`, both called by one thread."""

    def __init__(self, send: Callable[[], bool], interval_s: float) -> None:
        """Store the parameters; `send` returns whether there is anyone left to send to."""
        self._send, self._interval_s = send, interval_s
        self._ended = threading.Event()
        self._ended.set()

    def begin(self) -> None:
        """Send from now on; no effect if that has begun."""
        if not self._ended.is_set():
            return
        # An event of its own, so that an earlier thread which is still sending ends all the same.
        self._ended = threading.Event()
        threading.Thread(target=self._run, args=(self._ended,), name="heartbeats", daemon=True).start()

    def end(self) -> None:
        """Send no more, except for what is being sent."""
        self._ended.set()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(self._interval_s):
            if not self._send():
                ended.set()
