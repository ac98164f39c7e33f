# SPDX-License-Identifier: Apache-2.0
"""Makes TCP flows end cleanly: the data in the sender's socket are received and acknowledged before FIN.

iperf3's server closes its socket at the end of the test, with data in flight; the kernel answers those with
RST, and which of them were lost is never known. Here the server's data socket is duplicated (pidfd_getfd(2))
while the test runs, so that the server's close() does not close the connection, and read until FIN after the
server has exited. `run` does this on a host of a testbed, with its Python.

In virtual time a server would wake for each segment, since reading takes no time. So the data of flows that
always have more are gathered in the socket (SO_RCVLOWAT of socket(7)), which Linux acknowledges as before.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

from weir.topo.linux import duplicate_descriptor

if TYPE_CHECKING:
    from typing import Self

    from weir.topo.stop import StopToken

DRAIN_LIMIT_S = 15.0
"""Long enough for a send buffer of a few megabytes above a few Mbit/s."""
_SEARCH_INTERVAL_S = 0.05
_BLOCK_BYTES = 1 << 20
_FIRST_BYTES = 1_000_000
"""Bytes before a flow gathers: iperf3's server waits for a cookie of 37, and the window is small at first."""
_GATHERED_BYTES = 32 * 1024
"""Bytes for which a server wakes after that."""
# struct tcp_info (linux/tcp.h): 8 bytes of flags, 24 words of 32 bits, three of 64, tcpi_bytes_received.
_BYTES_RECEIVED = struct.Struct("=8x96x24xQ")

Address = tuple[str, int]


@dataclass
class _Flow:
    name: str
    pid: int
    sender: Address
    pidfd: int
    receiver: socket.socket | None = None
    server_ended: bool = False
    gather_later: bool = False
    buffer: bytearray = field(default_factory=lambda: bytearray(_BLOCK_BYTES), repr=False)


class Draining:
    """A thread that keeps the receiving sockets of flows open and reads them after their servers have exited.

    A context manager around the flows; `finish` waits until all are drained. Leaving it closes the others.
    """

    def __init__(
        self,
        receivers: Iterable[tuple[str, int, Address]],
        on_end: Callable[[str, bool], None] = lambda _name, _drained: None,
        *,
        gathered: Collection[str] = (),
    ) -> None:
        """`receivers`: name of the flow, process id of its running server, address and port of its sender.

        The servers of the flows in `gathered` are not woken for each segment. `on_end` is called in the
        thread for each flow: with true if it has ended, with false if its socket was not found.
        """
        self._on_end = on_end
        self._flows = [
            _Flow(name, pid, sender, os.pidfd_open(pid), gather_later=name in gathered)
            for name, pid, sender in receivers
        ]
        self._left = {flow.name for flow in self._flows}
        self._lost: set[str] = set()
        self._changed = threading.Condition()
        self._ending, self._end = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="draining", daemon=True)

    def finish(self, names: Iterable[str], stop: StopToken, limit_s: float = DRAIN_LIMIT_S) -> list[str]:
        """Wait until these flows have ended; returns those that have not after `limit_s`.

        Their servers must end by themselves. Raises Interrupted if the run is stopped.
        """
        wanted = set(names)

        def notify() -> None:
            with self._changed:
                self._changed.notify_all()

        def over() -> bool:
            return stop.stopped or not (wanted & self._left) - self._lost

        forget = stop.on_stop(notify)
        try:
            with self._changed:
                self._changed.wait_for(over, limit_s)
                stop.raise_if_stopped()
                return sorted(wanted & self._left)
        finally:
            forget()

    def __enter__(self) -> Self:
        """Start to search for the sockets."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the thread and close all sockets."""
        os.close(self._end)
        self._thread.join()
        for flow in self._flows:
            os.close(flow.pidfd)
            if flow.receiver is not None:
                flow.receiver.close()
        os.close(self._ending)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ending, selectors.EVENT_READ)
            for flow in self._flows:
                selector.register(flow.pidfd, selectors.EVENT_READ, flow)
            while self._left:
                searching = [f for f in self._flows if f.receiver is None and not f.server_ended]
                for flow in searching:
                    flow.receiver = shared_socket(flow.pid, flow.pidfd, flow.sender)
                later = [f for f in self._flows if f.gather_later and not f.server_ended]
                for flow in later:
                    flow.gather_later = flow.receiver is None or not _gather(flow.receiver)
                for key, _ in selector.select(_SEARCH_INTERVAL_S if searching or later else None):
                    if key.data is None:
                        return
                    self._ready(key.data, selector)

    def _ready(self, flow: _Flow, selector: selectors.BaseSelector) -> None:
        """Handle the exit of a flow's server, or data for its socket."""
        if not flow.server_ended:
            flow.server_ended = True
            selector.unregister(flow.pidfd)
            if flow.receiver is None:
                with self._changed:
                    self._lost.add(flow.name)
                    self._changed.notify_all()
                self._on_end(flow.name, False)
                return
            flow.receiver.setblocking(False)
            flow.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            selector.register(flow.receiver, selectors.EVENT_READ, flow)
        elif flow.receiver is not None and _ended(flow.receiver, flow.buffer):
            selector.unregister(flow.receiver)
            flow.receiver.close()
            with self._changed:
                self._left.discard(flow.name)
                self._changed.notify_all()
            self._on_end(flow.name, True)


def _gather(receiver: socket.socket) -> bool:
    """Let a socket gather data before its reader wakes; returns false if it is too early."""
    info = receiver.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    if _BYTES_RECEIVED.unpack(info)[0] < _FIRST_BYTES:
        return False
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, _GATHERED_BYTES)
    return True


def _ended(receiver: socket.socket, buffer: bytearray) -> bool:
    """Read once; returns whether the connection has ended."""
    try:
        return receiver.recv_into(buffer) == 0
    except BlockingIOError:
        return False
    except OSError:
        # Reset by the sender.
        return True


def shared_socket(pid: int, pidfd: int, peer: Address) -> socket.socket | None:
    """A duplicate of a process's TCP socket that is connected to `peer`; None if it has none."""
    try:
        links = sorted(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None  # it has ended, or belongs to another user
    for link in links:
        try:
            if not str(link.readlink()).startswith("socket:"):
                continue
            found = socket.socket(fileno=duplicate_descriptor(pidfd, int(link.name)))
        except OSError:
            continue  # closed meanwhile
        try:
            if found.getpeername()[:2] == peer:
                return found
        except OSError:
            pass  # a listener
        found.close()
    return None


def run() -> None:
    """Read the receivers as JSON from stdin, print `ready`, then `drained` or `lost` and the name of each.

    SIGTERM ends it.
    """
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    def tell(name: str, drained: bool) -> None:
        print("drained" if drained else "lost", name, flush=True)

    signal.signal(signal.SIGTERM, end)
    receivers = [(name, pid, (address, port)) for name, pid, address, port in json.load(sys.stdin)]
    with Draining(receivers, tell):
        print("ready", flush=True)
        ended.wait()
