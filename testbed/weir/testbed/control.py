# SPDX-License-Identifier: Apache-2.0
"""Changes of a host and programs on it, through the helper that puts everything back however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncssh

from weir.testbed.check import EXCHANGES, begin, failure
from weir.testbed.clock import ClockReading, offset_of
from weir.testbed.connection import Connection
from weir.testbed.errors import ChangeError, CommandError, HostError
from weir.testbed.features import OFFLOADS
from weir.testbed.inventory import HostEntry, Privileges
from weir.testbed.scripts import command

WATCHDOG_S = 10.0
"""Without a heartbeat for so long, the helper ends programs and undoes changes."""
LIMIT_S = 7 * 24 * 3600.0
"""No run is so long: its flows last a day at most. A helper of which weir has lost sight ends sooner."""
_BEATS = 5  # per watchdog time
_START_S, _END_S = 30.0, 60.0
ANSWER_S = 60.0
"""A helper that takes longer for an answer is stuck, as on a file system that hangs: the programs that it
calls have limits of their own."""


@dataclass(frozen=True)
class Ended:
    """A program that has ended; ``code`` is negative after a signal."""

    name: str
    code: int | None
    stderr: str
    """The end of what it wrote there."""


@dataclass(frozen=True)
class Start:
    """The findings of a helper at its start."""

    undone: tuple[str, ...]
    """Changes of an earlier helper, which was killed, that are undone now."""
    left: tuple[str, ...]
    """Those that could not be undone, with the reason."""
    previous: dict[str, Any] | None
    """How the earlier helper ended, if it was not asked to: the reason, and what it undid."""
    uid: int = 0
    """The user whom programs run as."""
    folder: str = ""
    """The work folder."""


class HostControl:
    """The helper of one host; made by :func:`control`. Every method raises HostError."""

    def __init__(self, connection: Connection, process: asyncssh.SSHClientProcess[bytes]) -> None:
        """Take a helper that runs."""
        self.host = connection.host
        self.start_report = Start((), (), None)
        self.end_report: dict[str, Any] | None = None
        self._connection, self._process = connection, process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._programs: dict[str, asyncio.Future[Ended]] = {}
        self._on_lines: dict[str, Callable[[list[str]], None]] = {}
        self._over = asyncio.Event()
        self._unanswered: str | None = None

    @property
    def control_addresses(self) -> list[str]:
        """The addresses of both ends of the SSH connection."""
        return self._connection.addresses

    async def turn_offloads_off(self, interface: str, offloads: Sequence[str] = OFFLOADS) -> bool:
        """Turn offloads of an interface off; returns whether any was on."""
        return bool(await self._ask("offloads", interface=interface, off=list(offloads)))

    async def set_sysctl(self, name: str, value: str) -> bool:
        """Set a setting of the host's network namespace; returns whether it had another value."""
        return bool(await self._ask("sysctl", name=name, value=value))

    async def add_address(self, interface: str, address: str) -> bool:
        """Add an address with its prefix length; returns whether it was not there."""
        return bool(await self._ask("address", interface=interface, address=address))

    async def add_route(self, destination: str, interface: str, via: str | None = None) -> bool:
        """Add a route; returns whether it was not there."""
        return bool(await self._ask("route", destination=destination, interface=interface, via=via))

    async def add_neighbour(self, interface: str, address: str, mac: str) -> bool:
        """Enter a neighbour for good, so that none is asked for; returns whether it was not there."""
        return bool(await self._ask("neighbour", interface=interface, address=address, mac=mac))

    async def silence(self, interface: str, address: str) -> bool:
        """Make the network of an interface's address unreachable; returns whether it was not."""
        return bool(await self._ask("silence", interface=interface, address=address))

    async def start(
        self,
        name: str,
        argv: Sequence[str],
        stdout: str | None = None,
        *,
        stdin: str = "",
        on_lines: Callable[[list[str]], None] | None = None,
        limit_bytes: int | None = None,
    ) -> int:
        """Start a program in the work folder, its stdout in a file there; returns its process id there.

        With `on_lines`, all that it writes is given to that instead, some lines at a time. A file that it
        writes may have `limit_bytes`.
        """
        self._programs[name] = asyncio.get_running_loop().create_future()
        if on_lines is not None:
            self._on_lines[name] = on_lines
        pid = await self._ask(
            "start",
            name=name,
            argv=list(argv),
            stdout=stdout,
            stdin=stdin,
            lines=on_lines is not None,
            limit_bytes=limit_bytes,
        )
        return int(pid)

    async def send_signal(self, name: str, signal: str) -> None:
        """Send a signal to a program; nothing if it has ended."""
        await self._ask("signal", name=name, signal=signal)

    async def clock(self) -> ClockReading:
        """Compare the host's clock with this machine's."""
        exchanges = []
        for _ in range(EXCHANGES):
            asked = time.time_ns()
            answered = int(await self._ask("time"))
            exchanges.append((asked, answered, time.time_ns()))
        return ClockReading(exchanges[-1][2], offset_of(exchanges))

    async def ask(self, do: str, **values: Any) -> Any:
        """What the helper answers from files, counters and clock; see `remote/files.py`."""
        return await self._ask(do, **values)

    async def stop(self, name: str, signal: str = "SIGTERM") -> Ended:
        """End a program; returns how it ended, also if it had already done so."""
        program = self._programs.get(name)
        if program is not None and program.done():
            return program.result()
        try:
            ended = Ended(**await self._ask("stop", name=name, signal=signal))
        except ChangeError:
            if program is not None and program.done():  # it has just ended by itself
                return program.result()
            raise
        if program is not None and not program.done():
            program.set_result(ended)
        return ended

    async def stderr(self, name: str) -> str:
        """The end of what a program that runs has written to stderr; tcpdump says there that it listens."""
        return str(await self._ask("stderr", name=name))

    async def wait(self, name: str) -> Ended:
        """Wait until a program has ended by itself."""
        over = asyncio.ensure_future(self._over.wait())
        either: set[asyncio.Future[Any]] = {self._programs[name], over}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not self._programs[name].done():
            raise self.lost()
        return self._programs[name].result()

    async def wait_over(self) -> None:
        """Wait until the helper has ended or is out of reach."""
        await self._over.wait()

    async def _ask(self, do: str, **values: Any) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._send({"id": number, "do": do, **values})
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            self._unanswered = do
            self._end_waiting()
            raise self.lost() from None

    def _send(self, request: dict[str, Any]) -> None:
        if self._over.is_set():
            raise self.lost()
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except (asyncssh.Error, OSError) as error:
            raise self.lost() from error

    @property
    def is_over(self) -> bool:
        """Whether the helper has ended or is out of reach."""
        return self._over.is_set()

    def lost(self) -> HostError:
        """The reason why it is over."""
        if self.end_report is not None:
            return ChangeError(self.host, f"weir's helper has ended there: {self.end_report['end']}")
        if self._unanswered is not None:
            return CommandError(
                self.host, f"weir's helper there did not answer `{self._unanswered}` within {ANSWER_S:g} s"
            )
        return self._connection.lost()

    async def _read(self) -> None:
        """Hand each line to whom it is for, until the helper or the connection ends."""
        try:
            while line := await self._process.stdout.readline():
                self._take(json.loads(line))
        except (asyncssh.Error, OSError, ValueError):
            pass
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        """Nothing comes any more."""
        self._over.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.lost())
        self._waiting.clear()

    def _take(self, line: dict[str, Any]) -> None:
        if "end" in line:
            self.end_report = line
        elif line.get("event") == "lines":
            self._on_lines[line["name"]](line["lines"])
        elif line.get("event") == "ended":
            program = self._programs.get(line["name"])
            if program is not None and not program.done():
                program.set_result(Ended(line["name"], line["code"], line["stderr"]))
        elif line.get("id") in self._waiting:
            answer = self._waiting.pop(line["id"])
            if line["ok"]:
                answer.set_result(line["result"])
            else:
                answer.set_exception(ChangeError(self.host, line["error"]))

    async def _beat(self, every_s: float) -> None:
        with contextlib.suppress(HostError):
            while True:
                await asyncio.sleep(every_s)
                self._send({"do": "beat"})


@asynccontextmanager
async def control(
    connection: Connection,
    host: HostEntry,
    privileges: Privileges,
    *,
    watchdog_s: float = WATCHDOG_S,
    limit_s: float = LIMIT_S,
) -> AsyncIterator[HostControl]:
    """Run the helper on a host; at the end of the block everything is put back.

    Raises:
        HostError: the helper cannot be run, or at the end, something could not be put back.
    """
    asked = {"work_folder": host.work_folder, "watchdog_s": watchdog_s, "limit_s": limit_s}
    argv, program = command("helper", [json.dumps(asked)], privileges)
    process = await connection.start(argv)
    helper = HostControl(connection, process)
    tasks: list[asyncio.Task[None]] = []
    try:
        helper.start_report = await _started(connection, process, program, privileges)
        tasks.append(asyncio.create_task(helper._read()))
        tasks.append(asyncio.create_task(helper._beat(watchdog_s / _BEATS)))
        try:
            yield helper
        finally:
            with contextlib.suppress(HostError):
                helper._send({"do": "end"})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await helper.wait_over()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        process.close()
    end = helper.end_report
    if end is not None and end["left"]:
        raise ChangeError(helper.host, f"not put back: {'; '.join(end['left'])}")


async def _started(
    connection: Connection,
    process: asyncssh.SSHClientProcess[bytes],
    program: bytes,
    privileges: Privileges,
) -> Start:
    try:
        async with asyncio.timeout(_START_S):
            await begin(connection, process, program, privileges)
            line = await process.stdout.readline()
            if not line:
                raise await failure(connection, process, privileges)
    except TimeoutError as error:
        raise ChangeError(connection.host, f"weir's helper did not start within {_START_S:g} s") from error
    except (asyncssh.Error, OSError) as error:
        raise connection.lost() from error
    said = json.loads(line)
    if "refused" in said:
        raise ChangeError(connection.host, said["refused"])
    return Start(
        tuple(said["undone"]), tuple(said["left"]), said["previous"], int(said["uid"]), str(said["folder"])
    )
