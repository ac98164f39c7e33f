# SPDX-License-Identifier: Apache-2.0
"""A `weir-switch` process that is ready when the block begins and gone when it ends."""

import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Self

READY = re.compile(r"weir-switch: (?:P4Runtime|wire, links) on (\S+), \d+ ports")


class SwitchProcess:
    """Starts the switch, or a wire, on a free port of the loopback; `address` is where it listens."""

    def __init__(
        self,
        binary: Path,
        *arguments: str,
        stderr: IO[str] | None = None,
        max_open_files: int | None = None,
        wire: bool = False,
    ) -> None:
        """Name the binary and what to give it besides the address; where its log goes; what it may open."""
        role = ["wire", "--links"] if wire else ["--p4runtime"]
        self._command = [str(binary), *role, "127.0.0.1:0", *arguments]
        if max_open_files is not None:
            self._command = ["prlimit", f"--nofile={max_open_files}", *self._command]
        self._stderr = stderr
        self.address = ""

    def __enter__(self) -> Self:
        """Start, and wait for the line that says where it listens."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        ready = READY.match(line)
        if ready is None:
            self._process.kill()
            raise AssertionError(f"{self._command[0]} did not become ready, it said {line!r}")
        self.address = ready[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it; a switch that does not end well fails the test."""
        code = self.stop()
        assert kind is not None or code == 0, f"weir-switch ended with code {code}"

    @property
    def pid(self) -> int:
        """The process, for signals."""
        return self._process.pid

    def state(self) -> str:
        """The letter that the kernel has for what it does: `R` runs, `S` waits, `T` was stopped."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def resident_bytes(self) -> int:
        """Memory that it has now. Fails when it has ended."""
        assert self._process.poll() is None, f"weir-switch ended with code {self._process.returncode}"
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None, status
        return int(match[1]) * 1024

    def cpu_s(self) -> float:
        """Processor time that it has used, all threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Terminate it if it still runs; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
