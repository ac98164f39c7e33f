# SPDX-License-Identifier: Apache-2.0
"""Relays TCP connections from the sandbox's loopback to an address that only its origin can reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Self

from weir.topo.linux import in_network_namespace

_CONNECT_S = 5.0
_CHUNK = 65_536


class Relay:
    """Listens on a port of the sandbox's loopback as long as the context."""

    def __init__(self, address: str, origin: int) -> None:
        """Listen; each connection is continued to `address` (HOST:PORT) from the namespace `origin`."""
        host, _, port = address.rpartition(":")
        self._to, self._origin = (host.strip("[]"), int(port)), origin
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._closing = False
        threading.Thread(target=self._accept, name=f"relay to {address}", daemon=True).start()

    def check(self) -> None:
        """Connect once and close. Raises OSError if nothing listens at the address."""
        self._connect().close()

    def __enter__(self) -> Self:
        """Nothing: the constructor listens."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening, and close all connections."""
        self._closing = True
        for one in (self._listener, *list(self._open)):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _connect(self) -> socket.socket:
        def connect() -> socket.socket:
            return socket.create_connection(self._to, timeout=_CONNECT_S)

        made = in_network_namespace(self._origin, connect)
        made.settimeout(None)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def _accept(self) -> None:
        while not self._closing:
            try:
                here, _ = self._listener.accept()
            except OSError:  # closed by __exit__
                return
            threading.Thread(target=self._relay, args=(here,), daemon=True).start()

    def _relay(self, here: socket.socket) -> None:
        here.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            there = self._connect()
        except OSError:  # the caller sees a connection that closes at once
            here.close()
            return
        self._open |= {here, there}
        back = threading.Thread(target=_copy, args=(there, here), daemon=True)
        back.start()
        _copy(here, there)
        back.join()
        self._open -= {here, there}
        here.close()
        there.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy until either ends, then end both directions: gRPC has no use for a half of a connection."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
