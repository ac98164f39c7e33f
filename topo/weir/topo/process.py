# SPDX-License-Identifier: Apache-2.0
"""Starts helper processes on this machine, logs their output, and always ends them."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from weir.topo.program import ProcessError, Program
from weir.topo.tools import find_tool

__all__ = ["LoggedProcess", "ProcessError", "RunningProgram", "StartedTogether", "bare_python", "run_tool"]


def run_tool(name: str, *arguments: str, input_text: str | None = None) -> str:
    """Run a system tool and return its stdout; raises ProcessError with its error output."""
    command = [find_tool(name), *arguments]
    done = subprocess.run(command, input=input_text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip()
        stdin = f"\nits input was:\n{input_text}" if input_text else ""
        raise ProcessError(f"`{' '.join([name, *arguments])}` failed ({done.returncode}): {complaint}{stdin}")
    return done.stdout


def bare_python(module: str) -> list[str]:
    """Command that calls `run()` of a module in a Python that starts quickly, without site packages (-S -E).

    The module and those of weir that it imports need only the standard library.
    """
    folder = str(Path(__file__).parents[2])
    start = f"import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import run; run()"
    return [sys.executable, "-S", "-E", "-c", start, folder]


class LoggedProcess(Program):
    """A running process of this machine; a thread reads its output, so it never blocks on a full pipe."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        stdin: Path | None = None,
        awaited: bool = True,
    ) -> None:
        """Start `argv`, with a file as its stdin if there is one. Raises ProcessError.

        The output of a process whose lines are not `awaited` goes to the log without the thread.
        """
        super().__init__(name, log)
        self._pidfd: int | None = None
        try:
            with Path("/dev/null" if stdin is None else stdin).open("rb") as source:
                self._process = subprocess.Popen(
                    list(argv),
                    stdin=source,
                    stdout=subprocess.PIPE if awaited else self._log,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
        except OSError as error:
            self._close()
            raise ProcessError(f"{name} cannot be started ({argv[0]}): {error.strerror}") from error
        if self._process.stdout is None:
            self._close()
            return
        threading.Thread(
            target=self._read, args=(self._process.stdout,), name=f"log-{name}", daemon=True
        ).start()

    @property
    def pid(self) -> int:
        """Process id in the sandbox's PID namespace."""
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code, or None while the process runs; negative after a signal."""
        return self._process.poll()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait until it has ended; returns its exit code, or None after the timeout."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def fileno(self) -> int:
        """File descriptor that becomes readable when it has ended; first used before it is reaped."""
        if self._pidfd is None:
            self._pidfd = os.pidfd_open(self._process.pid)
        return self._pidfd

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended."""
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, grace_s: float = 5.0) -> int:
        """As :meth:`Program.stop`; the kernel always ends it."""
        code = super().stop(number, grace_s)
        return self._process.wait() if code is None else code

    def __del__(self) -> None:
        """Close the file descriptor."""
        if self._pidfd is not None:
            os.close(self._pidfd)

    def _read(self, pipe: IO[str]) -> None:
        with pipe:
            for line in pipe:
                self._take(line)
        self._close()


class RunningProgram:
    """A helper that is started by its constructor; a context manager that always ends it."""

    def __init__(self, process: Program, grace_s: float = 5.0) -> None:
        """Own ``process``; it is killed if it has not ended ``grace_s`` seconds after SIGTERM."""
        self._process, self._grace_s = process, grace_s

    @property
    def pid(self) -> int:
        """Process id in the sandbox."""
        return self._process.pid

    def check_running(self) -> None:
        """Raise ProcessError if it has ended by itself."""
        self._process.check_running()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.stop(signal.SIGKILL)

    def __enter__(self) -> Self:
        """Do nothing: the constructor has started it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it if it still runs."""
        self._process.stop(grace_s=self._grace_s)

    def _end(self) -> None:
        """End it with SIGTERM. Raises ProcessError if it had ended by itself or its exit code is not 0."""
        self._process.check_running()
        code = self._process.stop(grace_s=self._grace_s)
        if code != 0:
            raise self._process.error(f"ended with exit code {code} when told to stop")

    def _read_json(self, path: Path) -> dict[str, Any]:
        """The JSON object that it wrote to a file. Raises ProcessError."""
        try:
            value = json.loads(path.read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise self._process.error(f"left no readable {path.name} ({error})") from error
        if not isinstance(value, dict):
            raise self._process.error(f"wrote no JSON object to {path}")
        return value


class StartedTogether:
    """Helpers that are ended together, the last one first; a context manager that always ends them."""

    def __init__(self) -> None:
        """Start with no helper."""
        self._started: list[Program] = []

    def _end(self) -> None:
        for process in reversed(self._started):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._started):
            process.stop()

    def __enter__(self) -> Self:
        """Do nothing: the constructor has started them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        self._end()
