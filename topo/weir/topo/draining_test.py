# SPDX-License-Identifier: Apache-2.0
"""Draining and gathering on loopback. The server is `cat`, which holds the receiving socket unread."""

import fcntl
import select
import socket
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weir.topo.draining import Draining
from weir.topo.stop import StopToken

_DEADLINE_S = 10.0


@contextmanager
def _flow() -> Iterator[tuple[socket.socket, socket.socket, "subprocess.Popen[bytes]"]]:
    """A flow's sender, its receiver, and a process that has the receiver too."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    descriptor = receiver.fileno()
    with sender, receiver:
        server = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[descriptor])
        try:
            yield sender, receiver, server
        finally:
            server.kill()
            server.communicate()


def _wait_for(what: str, holds: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < give_up, f"not in {_DEADLINE_S} s: {what}"
        time.sleep(0.01)


def _send(sender: socket.socket, receiver: socket.socket, size: int) -> None:
    """Send bytes and wait until they are in the receiver's socket, unread."""
    before = _unread(receiver)
    sender.sendall(bytes(size))
    _wait_for("data received", lambda: _unread(receiver) == before + size)


def _unread(receiver: socket.socket) -> int:
    return int(struct.unpack("i", fcntl.ioctl(receiver, termios.FIONREAD, bytes(4)))[0])


def _read_a_megabyte(sender: socket.socket, receiver: socket.socket) -> None:
    for _ in range(100):
        sender.sendall(bytes(10_000))
        left = 10_000
        while left:
            left -= len(receiver.recv(left))


def _wakes(receiver: socket.socket) -> bool:
    return bool(select.select([receiver], [], [], 0)[0])


def _low_water(receiver: socket.socket) -> int:
    return receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


def test_a_gathered_flow_wakes_its_server_for_many_segments_at_once() -> None:
    with (
        _flow() as (sender, receiver, server),
        Draining([("bulk", server.pid, sender.getsockname())], gathered={"bulk"}),
    ):
        _read_a_megabyte(sender, receiver)
        _wait_for("gathering", lambda: _low_water(receiver) > 1)
        _send(sender, receiver, 30_000)
        assert not _wakes(receiver)
        _send(sender, receiver, 10_000)
        assert _wakes(receiver)


def test_what_comes_before_the_first_megabyte_wakes_the_server() -> None:
    with (
        _flow() as (sender, receiver, server),
        Draining([("bulk", server.pid, sender.getsockname())], gathered={"bulk"}) as draining,
    ):
        _send(sender, receiver, 37)
        # Longer than several searches for the socket take.
        assert draining.finish(["bulk"], StopToken(), limit_s=0.3) == ["bulk"]
        assert _wakes(receiver)


def test_other_flows_wake_their_servers_for_each_segment() -> None:
    with (
        _flow() as (sender, receiver, server),
        Draining([("bulk", server.pid, sender.getsockname())]) as draining,
    ):
        _read_a_megabyte(sender, receiver)
        assert draining.finish(["bulk"], StopToken(), limit_s=0.3) == ["bulk"]
        assert _low_water(receiver) == 1


def test_the_last_bytes_of_a_gathered_flow_are_drained() -> None:
    with (
        _flow() as (sender, receiver, server),
        Draining([("bulk", server.pid, sender.getsockname())], gathered={"bulk"}) as draining,
    ):
        _read_a_megabyte(sender, receiver)
        _wait_for("gathering", lambda: _low_water(receiver) > 1)
        _send(sender, receiver, 1_000)
        server.kill()
        _wait_for("drained", lambda: _unread(receiver) == 0)
        sender.close()
        assert draining.finish(["bulk"], StopToken(), limit_s=_DEADLINE_S) == []
