# SPDX-License-Identifier: Apache-2.0
"""A `weir-switch` process that is ready when the block begins and gone when it ends."""

import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

READY = re.compile(r"weir-switch: P4Runtime on (\S+), \d+ ports")


class SwitchProcess:
    """Starts the switch on a free port of the loopback; `address` is where its P4Runtime service listens."""

    def __init__(self, binary: Path, *arguments: str) -> None:
        """Name the binary and what to give it besides the address."""
        self._command = [str(binary), "--p4runtime", "127.0.0.1:0", *arguments]
        self.address = ""

    def __enter__(self) -> Self:
        """Start, and wait for the line that says where it listens."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
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

    def stop(self) -> int:
        """Terminate it if it still runs; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
