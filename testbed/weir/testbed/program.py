# SPDX-License-Identifier: Apache-2.0
"""A program on a host of a testbed, as :class:`weir.topo.program.Program`: usable from every thread."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from weir.testbed.control import HostControl
from weir.testbed.errors import HostError
from weir.topo.program import Program

UNREACHED = 255
"""Exit code of a program that could not be started or whose host was lost, as ssh(1) has it."""
_PID_S = 30.0


class RemoteProgram(Program):
    """Started through the helper of its host; the start does not wait for the host's answer."""

    def __init__(
        self,
        name: str,
        log: Path,
        helper: HostControl,
        key: str,
        argv: Sequence[str],
        loop: asyncio.AbstractEventLoop,
        *,
        stdin: str = "",
        limit_bytes: int | None = None,
    ) -> None:
        """Start `argv`; `key` names it to the helper, which is served by `loop`. What fails is its output."""
        super().__init__(name, log)
        self._helper, self._key, self._loop = helper, key, loop
        self._code: int | None = None
        self._over = threading.Event()
        self._pid: Future[int] = Future()
        self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        asyncio.run_coroutine_threadsafe(self._run(list(argv), stdin, limit_bytes), loop)

    @property
    def pid(self) -> int:
        """Process id on its host. Raises ProcessError if it could not be started."""
        pid = self._pid.result(_PID_S)
        if pid == 0:
            raise self.error("could not be started")
        return pid

    def poll(self) -> int | None:
        """Exit code, or None while it runs; negative after a signal, 255 if its host was lost."""
        return self._code

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait until it has ended; returns its exit code, or None after the timeout."""
        self._over.wait(timeout_s)
        return self._code

    def fileno(self) -> int:
        """File descriptor that becomes readable when it has ended."""
        return self._read_end

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if it has ended, or its host is lost."""
        asyncio.run_coroutine_threadsafe(self._send(number), self._loop)

    def __del__(self) -> None:
        """Close the file descriptor."""
        os.close(self._read_end)

    async def _send(self, number: signal.Signals) -> None:
        try:
            await self._helper.send_signal(self._key, number.name)
        except HostError:  # `_run` has it too
            return

    async def _run(self, argv: list[str], stdin: str, limit_bytes: int | None) -> None:
        code: int | None = None
        try:
            pid = await self._helper.start(
                self._key, argv, stdin=stdin, on_lines=self._take_lines, limit_bytes=limit_bytes
            )
            self._pid.set_result(pid)
            code = (await self._helper.wait(self._key)).code
            if code == -signal.SIGXFSZ:
                self._take(f"{self._helper.host}: a file reached the disk_limit of {limit_bytes} bytes\n")
        except HostError as error:
            self._take(f"{error}\n")
        finally:
            if not self._pid.done():
                self._pid.set_result(0)
            self._code = UNREACHED if code is None else code
            self._close()
            self._over.set()
            os.close(self._write_end)

    def _take_lines(self, lines: list[str]) -> None:
        for line in lines:
            self._take(f"{line}\n")
