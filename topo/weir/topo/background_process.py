# SPDX-License-Identifier: Apache-2.0
"""The two ends of a background, each a process in its host: `run()` with the arguments ROLE CONFIG.

`sink` listens and forgets what it reads. `source` sends each flow at its moment, counted from SIGUSR1. Both
say `ready`, and end on SIGTERM. Only the standard library and `whole_files` are imported, so that they
start quickly.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

from weir.rundir.whole_files import write_whole

SO_MAX_PACING_RATE = 47
_BLOCK = bytes(256 * 1024)
_BACKLOG = 4096
_PLACE_BYTES = 8


class _Forget(asyncio.BufferedProtocol):
    """Reads into one buffer, and closes when the sender has."""

    _buffer = bytearray(1 << 20)

    def get_buffer(self, sizehint: int) -> bytearray:
        """The same memory for all: nobody looks at it."""
        return self._buffer


def datagram(start: int, size: int) -> bytes:
    """Its place in the flow, and zeros: over IPv6, which numbers no packets, all would else look alike."""
    return start.to_bytes(_PLACE_BYTES, "big").ljust(size, b"\0")[:size]


def family(config: dict[str, Any]) -> socket.AddressFamily:
    """IPv4 or IPv6, as the sink's address is."""
    return socket.AF_INET6 if ":" in config["address"] else socket.AF_INET


async def sink(config: dict[str, Any]) -> None:
    """Listen until SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    if config["congestion_control"] is None:
        # Nobody reads what comes: the kernel drops it behind the capture, and sends no ICMP.
        with socket.socket(family(config), socket.SOCK_DGRAM) as datagrams:
            datagrams.bind((config["address"], config["port"]))
            print("ready", flush=True)
            await ended.wait()
        return
    server = await loop.create_server(_Forget, config["address"], config["port"], backlog=_BACKLOG)
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
        """One flow, from its moment on; TCP, or UDP where there is no congestion control."""
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
        """Datagrams at the flow's pace, each at its moment: one that was late delays no other."""
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
        """Connect, send, and wait until the other side has read all of it."""
        with socket.socket(family(self.config), socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            congestion = self.config["congestion_control"].encode()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion)
            if self.config["pacing_bytes_per_s"] is not None:
                rate = struct.pack("Q", self.config["pacing_bytes_per_s"])
                connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
            # A flow that is cut off ends at once, with what it had not sent.
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
    made = _Source(config)
    flows = [asyncio.create_task(made.flow(begin + at_s, size)) for at_s, size in config["flows"]]
    end = asyncio.create_task(ended.wait())
    over = asyncio.create_task(asyncio.sleep(begin + config["duration_s"] - loop.time()))
    await asyncio.wait([end, over], return_when=asyncio.FIRST_COMPLETED)
    cut = [flow for flow in flows if not flow.done()]
    for task in (*cut, end, over):
        task.cancel()
    await asyncio.gather(*flows, end, over, return_exceptions=True)
    found = {
        "complete": made.complete,
        "cut": len(cut),
        "errors": made.errors,
        "late_max_s": made.late_max_s,
    }
    write_whole(Path(config["result"]), json.dumps(found).encode())


def run() -> None:
    """Run the end that the command line names."""
    asyncio.run({"sink": sink, "source": source}[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text())))
