# SPDX-License-Identifier: Apache-2.0
"""One end of a connection that follows a script: `run()` with the argument ROLE, the configuration on stdin.

`server` listens; `client` connects at its start time, counted from SIGUSR1. Both print `ready` first, and
then write their blocks. The server sends FIN when it has written all its blocks or its time is over; the
client sends FIN after it has read everything, so no data are left in flight. Without a congestion control
the protocol is UDP: both ends count from SIGUSR1, send their datagrams, and end when nothing more arrives
after the last write. SIGTERM ends them at once. At the end they print `result` and a JSON object. Imports
only the standard library, of Python 3.9, because it also runs on hosts of a testbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
import time
from collections import deque
from typing import Any

SO_MAX_PACING_RATE = 47
TCP_NOTSENT_LOWAT = 25
_NOT_SENT_BYTES = 128 * 1024
"""Largest amount of unsent data in the socket; small, so that little is left to send when time is over."""
_BLOCK = bytes(256 * 1024)
_READ_BYTES = 1 << 20
_NUMBER_BYTES = 8
_QUIET_S = 1.0
"""A UDP end that has received nothing for this long expects no more datagrams."""
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() discards unsent data and sends RST


class End:
    """One end of the connection: reads, writes its blocks, and measures how late its writes were."""

    def __init__(self, connection: socket.socket, config: dict[str, Any]) -> None:
        """Play the blocks of `config`, each with `after` and `writes`."""
        self.connection, self.blocks = connection, config["blocks"]
        self.cut_short = False
        self._closes_first, self._expected = config["role"] == "server", config["peer_bytes"]
        self._peer_closed = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self.received = self.sent = self.writes = 0
        self.late_max_s = 0.0
        self._waiting = deque(
            (block["after"], asyncio.get_running_loop().create_future()) for block in self.blocks
        )
        self._due = [moment for _, moment in self._waiting]
        self._arrived(asyncio.get_running_loop().time())

    def _arrived(self, now: float) -> None:
        """Release the blocks whose bytes from the peer have all arrived; their writes count from `now`."""
        while self._waiting and self._waiting[0][0] <= self.received:
            self._waiting.popleft()[1].set_result(now)

    async def read(self) -> None:
        """Count the bytes from the peer until its FIN."""
        loop = asyncio.get_running_loop()
        buffer = bytearray(_READ_BYTES)
        while count := await loop.sock_recv_into(self.connection, buffer):
            self.received += count
            self._arrived(loop.time())
        self._peer_closed.set()
        if self.received < self._expected:
            self.stop_writing()

    async def write(self) -> None:
        """Write the blocks until done or stopped, then send FIN; the client after the server's FIN."""
        self._writing = asyncio.create_task(self._write_blocks())
        await asyncio.wait([self._writing])
        if not self._writing.cancelled():
            self._writing.result()
        if not self._closes_first:
            await self._peer_closed.wait()
        self.connection.shutdown(socket.SHUT_WR)

    def stop_writing(self) -> None:
        """Skip the remaining writes."""
        self.cut_short = True
        if self._writing is not None:
            self._writing.cancel()

    async def _write_blocks(self) -> None:
        loop = asyncio.get_running_loop()
        for block, arrived in zip(self.blocks, self._due, strict=True):
            begin = await arrived
            for at_s, size in block["writes"]:
                wait_s = begin + at_s - loop.time()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                self.late_max_s = max(self.late_max_s, loop.time() - begin - at_s)
                await self._send(loop, size)
                self.writes += 1

    async def _send(self, loop: asyncio.AbstractEventLoop, size: int) -> None:
        while size:
            piece = memoryview(_BLOCK)[:size]
            try:
                count = self.connection.send(piece)
            except BlockingIOError:
                # Not sock_sendall, which does not tell how much was sent when it is cancelled.
                await self._writable(loop)
                continue
            self.sent += count
            size -= count

    async def _writable(self, loop: asyncio.AbstractEventLoop) -> None:
        free = asyncio.Event()
        loop.add_writer(self.connection, free.set)
        try:
            await free.wait()
        finally:
            loop.remove_writer(self.connection)


def family(config: dict[str, Any]) -> socket.AddressFamily:
    """AF_INET6 or AF_INET, by the end's own address."""
    return socket.AF_INET6 if ":" in config["own_address"] else socket.AF_INET


def prepare(connection: socket.socket, config: dict[str, Any]) -> None:
    """Set the congestion control and pacing of an end's socket, and bind it."""
    connection.setblocking(False)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Each write is sent at once and not merged with the next one.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, config["congestion_control"].encode())
    if config["pacing_bytes_per_s"] is not None:
        rate = struct.pack("Q", config["pacing_bytes_per_s"])
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
    connection.bind((config["own_address"], config["own_port"]))


async def play(connection: socket.socket, config: dict[str, Any], ended: asyncio.Event) -> dict[str, Any]:
    """Play one end on a connected socket; returns its result."""
    end = End(connection, config)
    error: str | None = None

    async def read_and_write() -> None:
        halves = [asyncio.create_task(end.read()), asyncio.create_task(end.write())]
        try:
            await asyncio.gather(*halves)
        finally:
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)

    both, stopping = asyncio.create_task(read_and_write()), asyncio.create_task(ended.wait())
    tasks: set[asyncio.Task[Any]] = {both, stopping}
    await asyncio.wait(tasks, timeout=config["limit_s"], return_when=asyncio.FIRST_COMPLETED)
    if not both.done() and not stopping.done():
        end.stop_writing()
        await asyncio.wait(tasks, timeout=config["drain_s"], return_when=asyncio.FIRST_COMPLETED)
        if not both.done():
            error = "was cut off with data on their way"
    failure = both.exception() if both.done() else None
    if failure is not None:
        error = f"the connection ended: {getattr(failure, 'strerror', None) or failure}"
    if not both.done() or failure is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.stop_writing()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "whole": both.done() and error is None and not end.cut_short,
        "error": error,
        "sent_bytes": end.sent,
        "received_bytes": end.received,
        "writes": end.writes,
        "late_max_s": end.late_max_s,
        "congestion_control": connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        .rstrip(b"\0")
        .decode(),
    }


async def server(config: dict[str, Any], ended: asyncio.Event) -> dict[str, Any]:
    """Listen, and play the server on the first connection."""
    loop = asyncio.get_running_loop()
    with socket.socket(family(config), socket.SOCK_STREAM) as listener:
        prepare(listener, config)
        listener.listen(1)
        print("ready", flush=True)
        accepting = asyncio.create_task(loop.sock_accept(listener))
        stopping = asyncio.create_task(ended.wait())
        await asyncio.wait([accepting, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not accepting.done():
            accepting.cancel()
            return {"whole": False, "error": "nobody connected"}
        connection, _ = accepting.result()
    with connection:
        connection.setblocking(False)
        return await play(connection, config, ended)


async def wait_for_start(config: dict[str, Any], ended: asyncio.Event) -> float | None:
    """Print ready, wait for SIGUSR1 and the start time; returns the delay in s, None if told to end first."""
    loop = asyncio.get_running_loop()
    go = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, go.set)
    print("ready", flush=True)
    going, stopping = asyncio.create_task(go.wait()), asyncio.create_task(ended.wait())
    await asyncio.wait([going, stopping], return_when=asyncio.FIRST_COMPLETED)
    due = loop.time() + config["start_s"]
    await asyncio.wait([stopping], timeout=config["start_s"])
    for task in (going, stopping):
        task.cancel()
    return None if ended.is_set() else loop.time() - due


async def client(config: dict[str, Any], ended: asyncio.Event) -> dict[str, Any]:
    """Wait for the start, connect, and play the client."""
    loop = asyncio.get_running_loop()
    late_s = await wait_for_start(config, ended)
    if late_s is None:
        return _NEVER_STARTED
    with socket.socket(family(config), socket.SOCK_STREAM) as connection:
        prepare(connection, config)
        try:
            await asyncio.wait_for(
                loop.sock_connect(connection, (config["address"], config["port"])), config["connect_s"]
            )
        except TimeoutError:
            return {"whole": False, "error": f"no connection within {config['connect_s']:g} s"}
        except OSError as error:
            return {"whole": False, "error": f"no connection: {error.strerror}"}
        return await play(connection, config, ended) | {"start_late_s": late_s}


class Datagrams:
    """One end of a UDP script: sends and receives datagrams, and measures how late it sent them."""

    def __init__(self, own: socket.socket, config: dict[str, Any], begin: float) -> None:
        """Play the blocks of `config` on a connected socket; write times count from `begin`."""
        self._own, self._begin, self._limit_s = own, begin, config["limit_s"]
        self._all = [write for block in config["blocks"] for write in block["writes"]]
        self._last_received, self._buffer = begin, bytearray(_READ_BYTES)
        self.sent = self.writes = self.received = 0
        self.late_max_s = 0.0

    @property
    def whole(self) -> bool:
        """Whether all datagrams were sent."""
        return self.writes == len(self._all)

    async def send(self) -> None:
        """Send each datagram at its time; a late one does not delay the others."""
        loop = asyncio.get_running_loop()
        for at_s, size in self._all:
            if at_s >= self._limit_s:
                return
            wait_s = self._begin + at_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self.late_max_s = max(self.late_max_s, loop.time() - self._begin - at_s)
            # Numbered because IPv6 has no identification field: datagrams of one size would be identical.
            number = self.writes.to_bytes(_NUMBER_BYTES, "little")
            await loop.sock_sendall(self._own, number.ljust(size, b"\0")[:size])
            self.sent += size
            self.writes += 1

    def receive(self) -> None:
        """Count the datagrams that have arrived."""
        # ConnectionRefusedError: the peer has ended, and reports that itself.
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                self.received += self._own.recv_into(self._buffer)
                self._last_received = asyncio.get_running_loop().time()

    async def wait_for_peer(self, last_s: float, drain_s: float) -> None:
        """Wait until the peer's last write is due and nothing arrives any more, for at most `drain_s`."""
        loop, last = asyncio.get_running_loop(), self._begin + min(last_s, self._limit_s)
        while (wait_s := min(max(self._last_received, last) + _QUIET_S, last + drain_s) - loop.time()) > 0:
            await asyncio.sleep(wait_s)


async def datagrams(config: dict[str, Any], ended: asyncio.Event) -> dict[str, Any]:
    """Bind, wait for the start, and play one end over UDP."""
    loop = asyncio.get_running_loop()
    with socket.socket(family(config), socket.SOCK_DGRAM) as own:
        own.setblocking(False)
        own.bind((config["own_address"], config["own_port"]))
        own.connect((config["address"], config["port"]))
        late_s = await wait_for_start(config, ended)
        if late_s is None:
            return _NEVER_STARTED
        end = Datagrams(own, config, loop.time() - late_s)
        loop.add_reader(own, end.receive)

        async def send_and_wait() -> None:
            await end.send()
            await end.wait_for_peer(config["last_s"], config["drain_s"])

        playing, stopping = asyncio.create_task(send_and_wait()), asyncio.create_task(ended.wait())
        await asyncio.wait([playing, stopping], return_when=asyncio.FIRST_COMPLETED)
        failure = playing.exception() if playing.done() else None
        for task in (playing, stopping):
            task.cancel()
        await asyncio.gather(playing, stopping, return_exceptions=True)
        loop.remove_reader(own)
    return {
        "whole": end.whole,
        "error": None if failure is None else f"cannot send: {getattr(failure, 'strerror', None) or failure}",
        "sent_bytes": end.sent,
        "received_bytes": end.received,
        "writes": end.writes,
        "late_max_s": end.late_max_s,
        "start_late_s": late_s,
    }


_NEVER_STARTED = {"whole": False, "error": "told to stop before it began"}


async def main(role: str, config: dict[str, Any]) -> None:
    """Play one end, and print its result."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    play_role = {"server": server, "client": client}[role]
    if config["congestion_control"] is None:
        play_role = datagrams
    found = await play_role(config | {"role": role}, ended)
    print(f"result {json.dumps({**found, 'ended_ns': time.time_ns()})}", flush=True)


def run() -> None:
    """Run the end that the command line names."""
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
