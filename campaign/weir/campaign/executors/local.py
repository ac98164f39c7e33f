# SPDX-License-Identifier: Apache-2.0
"""Makes runs as processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from weir.campaign.executors.executor import Command, Execution, start_process, why_failed
from weir.campaign.load import PlannedRun


class LocalExecutor:
    """At most `jobs` processes have traffic at a time, while as many more analyse their captures."""

    def __init__(self, jobs: int, command: Command) -> None:
        """Start runs with `command`."""
        self.jobs = jobs
        self._command = command
        self._running: list[_LocalExecution] = []

    def is_free(self) -> bool:
        """Whether fewer than `jobs` runs have traffic, and fewer than 2 × `jobs` are running."""
        measuring = sum(run.is_measuring() for run in self._running)
        return measuring < self.jobs and len(self._running) < 2 * self.jobs

    def start(self, run: PlannedRun, partial: Path) -> Execution:
        """Start a process."""
        reader, measuring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            process = start_process(self._command(partial), partial, measuring)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(measuring)
        self._running.append(_LocalExecution(self, process, partial, reader))
        return self._running[-1]

    def tick(self) -> None:
        """Nothing has to be repeated."""

    def remove(self, execution: _LocalExecution) -> None:
        """Forget a run that has ended."""
        self._running.remove(execution)


class _LocalExecution:
    def __init__(
        self, executor: LocalExecutor, process: subprocess.Popen[bytes], partial: Path, reader: int
    ) -> None:
        self._executor, self._process, self._partial, self._reader = executor, process, partial, reader
        self.fd = os.pidfd_open(process.pid)

    def is_measuring(self) -> bool:
        """Whether the run still has its end of the pipe open."""
        try:
            return os.read(self._reader, 1) != b""
        except BlockingIOError:
            return True

    def finish(self) -> str | None:
        os.close(self.fd)
        os.close(self._reader)
        self._executor.remove(self)
        return why_failed(self._process.wait(), self._partial)

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
