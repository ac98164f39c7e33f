# SPDX-License-Identifier: Apache-2.0
"""Makes runs as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from weir.campaign.executors.executor import Command, Execution, start_process, why_failed
from weir.campaign.load import PlannedRun

QUIET_S = 5.0
"""An analysis that has not ended when no run has measured for this long may have been kept waiting."""


class LocalExecutor:
    """At most `jobs` processes have traffic at a time, while as many more analyse their captures.

    Analyses take only time that nothing else needs, which on a busy machine may be none. So, when no run
    measures for some time, the oldest analysis learns that it need not wait; no run starts before it ends.
    """

    writes_here = True

    def __init__(self, jobs: int, command: Command, quiet_s: float = QUIET_S) -> None:
        """Start runs with `command`."""
        self.jobs = jobs
        self._command = command
        self._running: list[_LocalExecution] = []
        self._quiet_s = quiet_s
        self._quiet_since: float | None = None

    def is_free(self) -> bool:
        """Whether another run may start.

        Fewer than `jobs` runs have traffic, fewer than 2 × `jobs` are running, and no analysis was told
        not to wait.
        """
        measuring = sum(run.is_measuring() for run in self._running)
        free = measuring < self.jobs and len(self._running) < 2 * self.jobs
        return free and not any(run.hastened for run in self._running)

    def start(self, run: PlannedRun, partial: Path) -> Execution:
        """Start a process."""
        mine, its = socket.socketpair()
        mine.setblocking(False)
        try:
            with its:
                process = start_process(self._command(partial), partial, its.fileno())
        except BaseException:
            mine.close()
            raise
        self._running.append(_LocalExecution(self, process, partial, mine))
        return self._running[-1]

    def tick(self) -> None:
        """Tell the oldest analysis not to wait if no run has measured for `quiet_s`."""
        if not self._running or any(run.is_measuring() for run in self._running):
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = time.monotonic()
        elif time.monotonic() - self._quiet_since >= self._quiet_s:
            self._running[0].hasten()

    def remove(self, execution: _LocalExecution) -> None:
        """Forget a run that has ended."""
        self._running.remove(execution)


class _LocalExecution:
    def __init__(
        self,
        executor: LocalExecutor,
        process: subprocess.Popen[bytes],
        partial: Path,
        connection: socket.socket,
    ) -> None:
        self._executor, self._process, self._partial = executor, process, partial
        self._connection = connection
        self.fd = os.pidfd_open(process.pid)
        self.hastened = False

    def is_measuring(self) -> bool:
        """Whether the run still has the sending side of its socket open."""
        try:
            return self._connection.recv(1) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:  # it ended without having read what it was told
            return False

    def hasten(self) -> None:
        """Tell the run, once, that no run measures."""
        if not self.hastened:
            self.hastened = True
            with contextlib.suppress(BrokenPipeError):  # it has just ended
                self._connection.send(b".")

    def finish(self) -> str | None:
        os.close(self.fd)
        self._connection.close()
        self._executor.remove(self)
        return why_failed(self._process.wait(), self._partial)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
