# SPDX-License-Identifier: Apache-2.0
"""The switch under bmv2's name as a context manager: ready inside the block, stopped after it."""

import asyncio
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import finsy
from finsy import P4MulticastGroupEntry, SwitchOptions

READY = re.compile(r"Server listening on (\S+)")
# Only a broken switch takes this long.
PATIENCE_S = 30


class Bmv2Process:
    """Starts `simple_switch_grpc`, a link that it makes in a folder; P4Runtime is at `address`."""

    def __init__(self, binary: Path, folder: Path, *arguments: str) -> None:
        """Take the binary, the folder, and the arguments before `--`."""
        name = folder / "simple_switch_grpc"
        name.symlink_to(binary)
        free_ports = ["--thrift-port", "0", "--", "--grpc-server-addr", "127.0.0.1:0"]
        self._command = [str(name), *arguments, *free_ports]
        self._folder = folder
        self.said: list[str] = []
        """Lines on standard output before the last one."""
        self.output = ""
        """Standard output after that line, once the block has ended."""
        self.errors = ""
        """What was said on standard error, once the block has ended."""

    def __enter__(self) -> Self:
        """Start, and wait for the line with its address."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self._folder
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if ready := READY.search(line):
                self.address = ready[1]
                return self
            self.said.append(line.rstrip())
        raise AssertionError(f"simple_switch_grpc did not become ready: {self._process.communicate()[1]}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it; fail the test unless its exit code is 0."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self.output, self.errors = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        code = self._process.returncode
        assert kind is not None or code == 0, f"simple_switch_grpc exited with code {code}: {self.errors}"

    @property
    def pid(self) -> int:
        """The process, to read what /proc says of it."""
        return self._process.pid

    def flood(self, p4info: Path, program: Path, ports: list[int]) -> None:
        """Have the program l2_learning flood to these ports, as device 0."""

        async def run() -> None:
            options = SwitchOptions(p4info=p4info, p4blob=program, device_id=0)
            async with asyncio.timeout(PATIENCE_S), finsy.Switch("s1", self.address, options) as switch:
                replicas = [(port, 1) for port in ports]
                await switch.write([+P4MulticastGroupEntry(1, replicas=replicas)])

        asyncio.run(run())
