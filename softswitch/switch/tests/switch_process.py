# SPDX-License-Identifier: Apache-2.0
"""A `weir-switch` process as a context manager: ready inside the block, stopped after it."""

import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Self

READY = re.compile(r"weir-switch: (?:P4Runtime|wire, links) on (\S+), \d+ ports")


class SwitchProcess:
    """Starts the switch, or a wire, on a free port of the loopback; it listens at `address`."""

    def __init__(
        self,
        binary: Path,
        *arguments: str,
        stderr: IO[str] | None = None,
        max_open_files: int | None = None,
        wire: bool = False,
    ) -> None:
        """Take the binary, its arguments except the address, a file for its log, its descriptor limit."""
        role = ["wire", "--links"] if wire else ["--p4runtime"]
        self._command = [str(binary), *role, "127.0.0.1:0", *arguments]
        if max_open_files is not None:
            self._command = ["prlimit", f"--nofile={max_open_files}", *self._command]
        self._stderr = stderr
        self.address = ""

    def __enter__(self) -> Self:
        """Start, and wait for the line with its address."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = READY.match(line)
        if ready is None:
            self._process.kill()
            raise AssertionError(f"{self._command[0]} did not become ready, its first line was {line!r}")
        self.address = ready[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it; fail the test unless its exit code is 0."""
        code = self.stop()
        assert kind is not None or code == 0, f"weir-switch exited with code {code}"

    @property
    def pid(self) -> int:
        """The process, for signals."""
        return self._process.pid

    def state(self) -> str:
        """The process state in /proc: `R` runs, `S` sleeps, `T` is stopped."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def resident_bytes(self) -> int:
        """Resident memory. Fails when the process has exited."""
        assert self._process.poll() is None, f"weir-switch exited with code {self._process.returncode}"
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None, status
        return int(match[1]) * 1024

    def cpu_s(self) -> float:
        """Processor time used so far, all threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Terminate the process if it still runs; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
