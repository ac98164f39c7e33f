# SPDX-License-Identifier: Apache-2.0
"""One end of a background, a process on its host: `run()` with the argument ROLE, the configuration on stdin.

`sink` listens and discards what it reads. `source` starts each flow at its time, counted from SIGUSR1, and at
the end prints `result` and a JSON object. Both print `ready`, and end on SIGTERM. Imports only the standard
library, of Python 3.9, because it also runs on hosts of a testbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import sys
import threading
from typing import Any

SO_MAX_PACING_RATE = 47
_BLOCK = bytes(256 * 1024)
_BACKLOG = 4096
_OFFSET_BYTES = 8


_discarded = bytearray(1 << 20)
"""All connections are read into it: its content is not used."""


class _Discard(asyncio.BufferedProtocol):
    """Reads into one buffer, and closes after the sender."""

    def get_buffer(self, sizehint: int) -> bytearray:
        """The same buffer for all connections."""
        return _discarded


def datagram(start: int, size: int) -> bytes:
    """Its offset in the flow, then zeros: IPv6 has no identification field to tell datagrams apart."""
    return start.to_bytes(_OFFSET_BYTES, "big").ljust(size, b"\0")[:size]


def family(config: dict[str, Any]) -> socket.AddressFamily:
    """AF_INET6 or AF_INET, by the sink's address."""
    return socket.AF_INET6 if ":" in config["address"] else socket.AF_INET


class _Sink:
    """Reads each connection in a thread: a system call per megabyte, where asyncio makes five per segment.

    A thread whose connection has ended takes the next one.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._waiting = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        """Wait for connections."""
        with self._lock:
            self._waiting += 1
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with self._lock:
                self._waiting -= 1
                last = self._waiting == 0
            if last:
                self.start()
            _discard(connection)
            with self._lock:
                self._waiting += 1


def _discard(connection: socket.socket) -> None:
    """Read to the end; the kernel discards the data (MSG_TRUNC, tcp(7)), so the buffer only gives a size."""
    with connection, contextlib.suppress(OSError):
        while connection.recv_into(_discarded, 0, socket.MSG_WAITALL | socket.MSG_TRUNC):
            pass


async def sink(config: dict[str, Any]) -> None:
    """Listen until SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    if config["congestion_control"] is None:
        # Bound but never read: the kernel drops datagrams after the capture, and sends no ICMP errors.
        with socket.socket(family(config), socket.SOCK_DGRAM) as datagrams:
            datagrams.bind((config["address"], config["port"]))
            print("ready", flush=True)
            await ended.wait()
        return
    if config["virtual_time"]:
        address = (config["address"], config["port"])
        with socket.create_server(address, family=family(config), backlog=_BACKLOG) as listener:
            _Sink(listener).start()
            print("ready", flush=True)
            await ended.wait()
        return
    server = await loop.create_server(_Discard, config["address"], config["port"], backlog=_BACKLOG)
    print("ready", flush=True)
    await ended.wait()
    server.close()


class _Source:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.complete = 0
        self.errors: list[str] = []
        self.late_max_s = 0.0

    async def flow(self, due: float, size: int) -> None:
        """Wait for the start of one flow and send it, over UDP if there is no congestion control."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(due - loop.time())
        self.late_max_s = max(self.late_max_s, loop.time() - due)
        send = self._datagrams if self.config["congestion_control"] is None else self._connection
        try:
            await send(loop, due, size)
        except OSError as error:
            self.errors.append(f"flow of {size} bytes: {error.strerror or error}")
            return
        self.complete += 1

    async def _datagrams(self, loop: asyncio.AbstractEventLoop, due: float, size: int) -> None:
        """Send datagrams at the pacing rate, each at its time; a late one does not delay the others."""
        largest, per_second = self.config["datagram_bytes"], self.config["pacing_bytes_per_s"]
        with socket.socket(family(self.config), socket.SOCK_DGRAM) as datagrams:
            datagrams.setblocking(False)
            datagrams.connect((self.config["address"], self.config["port"]))
            for start in range(0, size, largest):
                wait_s = due + start / per_second - loop.time()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                await loop.sock_sendall(datagrams, datagram(start, min(largest, size - start)))

    async def _connection(self, loop: asyncio.AbstractEventLoop, _due: float, size: int) -> None:
        """Connect, send, and wait until the sink has read everything."""
        with socket.socket(family(self.config), socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            congestion = self.config["congestion_control"].encode()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion)
            if self.config["pacing_bytes_per_s"] is not None:
                rate = struct.pack("Q", self.config["pacing_bytes_per_s"])
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
            # close() of a flow that is cut off discards its unsent data and sends RST.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await loop.sock_connect(connection, (self.config["address"], self.config["port"]))
            left = size
            while left:
                block = _BLOCK[:left] if left < len(_BLOCK) else _BLOCK
                await loop.sock_sendall(connection, block)
                left -= len(block)
            connection.shutdown(socket.SHUT_WR)
            await loop.sock_recv(connection, 1)


async def source(config: dict[str, Any]) -> None:
    """Send all flows, from SIGUSR1 until the duration is over or SIGTERM."""
    loop = asyncio.get_running_loop()
    go, ended = asyncio.Event(), asyncio.Event()

    def end_early() -> None:
        ended.set()
        go.set()

    loop.add_signal_handler(signal.SIGUSR1, go.set)
    loop.add_signal_handler(signal.SIGTERM, end_early)
    print("ready", flush=True)
    await go.wait()
    begin = loop.time() + config["start_s"]
    sender = _Source(config)
    flows = [asyncio.create_task(sender.flow(begin + at_s, size)) for at_s, size in config["flows"]]
    end = asyncio.create_task(ended.wait())
    over = asyncio.create_task(asyncio.sleep(begin + config["duration_s"] - loop.time()))
    await asyncio.wait([end, over], return_when=asyncio.FIRST_COMPLETED)
    cut = [flow for flow in flows if not flow.done()]
    for task in (*cut, end, over):
        task.cancel()
    await asyncio.gather(*flows, end, over, return_exceptions=True)
    found = {
        "complete": sender.complete,
        "cut": len(cut),
        "errors": sender.errors,
        "late_max_s": sender.late_max_s,
    }
    print(f"result {json.dumps(found)}", flush=True)


def run() -> None:
    """Run the end that the command line names."""
    asyncio.run({"sink": sink, "source": source}[sys.argv[1]](json.load(sys.stdin)))
