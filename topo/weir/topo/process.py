# SPDX-License-Identifier: Apache-2.0
"""Starts helper processes, logs their output, waits for lines of it, and always ends them."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from weir.rundir import whole_files
from weir.topo.stop import StopToken
from weir.topo.tools import find_tool

_TAIL_LINES = 15
# Lines kept for wait_line(), limited so that unread output does not fill the memory.
_KEPT_LINES = 1000


class ProcessError(Exception):
    """A helper process failed; the text has its name, the failure and the end of its log."""


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

    The module imports only the standard library and `weir.rundir.whole_files`.
    """
    folders = [str(Path(file).parents[2]) for file in (__file__, whole_files.__file__)]
    start = f"import json, sys; sys.path[:0] = json.loads(sys.argv.pop(1)); from {module} import run; run()"
    return [sys.executable, "-S", "-E", "-c", start, json.dumps(folders)]


class LoggedProcess:
    """A running helper process whose output (stdout and stderr together) goes to a log file.

    A thread reads the output line by line, so the process never blocks on a full pipe and a line can be
    waited for without polling.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path) -> None:
        """Start `argv`; error messages use `name`. Raises ProcessError if it cannot be started."""
        self.name = name
        self.log = log
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._changed = threading.Condition()
        self._ended = False
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise ProcessError(f"{name} cannot be started ({argv[0]}): {error.strerror}") from error
        assert self._process.stdout is not None  # because of stdout=PIPE
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name=f"log-{name}", daemon=True
        )
        self._reader.start()

    @property
    def pid(self) -> int:
        """Process id in the sandbox's PID namespace."""
        return self._process.pid

    def poll(self) -> int | None:
        """Exit code, or None while the process runs; negative after a signal."""
        return self._process.poll()

    def tail(self) -> str:
        """The last lines that the process wrote."""
        with self._changed:
            return "".join(self._tail)

    def wait_line(self, pattern: str, deadline_s: float, stop: StopToken | None = None) -> re.Match[str]:
        """Wait for the next line that contains `pattern`, after the line that was returned last.

        Raises ProcessError if the process ends first or after `deadline_s` seconds, Interrupted if the run is
        stopped.
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
                        raise ProcessError(self._describe(f"ended before it was ready ({status})"))
                    left = give_up - time.monotonic()
                    if left <= 0:
                        raise ProcessError(self._describe(f"did not say /{pattern}/ within {deadline_s:g} s"))
                    self._changed.wait(left)
        finally:
            if forget is not None:
                forget()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended."""
        self._process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM, grace_s: float = 5.0) -> int:
        """End the process with signal `number`, after `grace_s` seconds with SIGKILL. Returns its exit code.

        Can be called again, and for a process that has already ended.
        """
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join(grace_s)
        return code

    def check_running(self) -> None:
        """Raise ProcessError if the process has ended."""
        if self._process.poll() is not None:
            raise self.error(f"ended unexpectedly ({self._exit_status()})")

    def error(self, what: str) -> ProcessError:
        """Make an error about this process with the end of its log."""
        with self._changed:
            return ProcessError(self._describe(what))

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _exit_status(self) -> str:
        code = self._process.wait()
        if code >= 0:
            return f"exit code {code}"
        return f"killed by {signal.Signals(-code).name}"

    def _describe(self, what: str) -> str:
        tail = "".join(self._tail).rstrip()
        return f"{self.name} {what}; log: {self.log}" + (f"\n{tail}" if tail else " (empty)")

    def _read(self, pipe: IO[str]) -> None:
        with self.log.open("w") as log, pipe:
            for line in pipe:
                log.write(line)
                log.flush()
                with self._changed:
                    self._tail.append(line)
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class RunningProgram:
    """A helper that is started by its constructor; a context manager that always ends it."""

    def __init__(self, process: LoggedProcess, grace_s: float = 5.0) -> None:
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
        self._started: list[LoggedProcess] = []

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
