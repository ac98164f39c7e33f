# SPDX-License-Identifier: Apache-2.0
"""Carries frames between the interfaces of the ports and the model."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
from collections.abc import Mapping

from weir.ptftests.model.harness import ModelError
from weir.ptftests.model.switch import ModelSwitch

_ALL_PROTOCOLS = 3
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_AUXDATA = struct.Struct("IIIHHHH")
_VLAN_VALID = 1 << 4
_ADDRESSES_BYTES = 12
_LONGEST = 65536
_BATCH = 64


class Ports:
    """The interfaces of a switch's ports; a thread of its own takes frames in batches, as they come."""

    def __init__(self, switch: ModelSwitch, interfaces: Mapping[int, str]) -> None:
        """Carry the frames of interfaces, by port, until `close`."""
        self._switch = switch
        self._sockets = {port: _open(name) for port, name in interfaces.items()}
        self._wake, self._end = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        for port, link in self._sockets.items():
            self._selector.register(link, selectors.EVENT_READ, port)
        self._thread = threading.Thread(target=self._carry, name="ports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the interfaces."""
        os.close(self._end)
        self._thread.join()
        self._selector.close()
        os.close(self._wake)
        for link in self._sockets.values():
            link.close()

    def _carry(self) -> None:
        while True:
            ready = [key for key, _ in self._selector.select()]
            if any(key.fd == self._wake for key in ready):
                return
            frames = [(key.data, frame) for key in ready for frame in _received(self._sockets[key.data])]
            try:
                left = self._switch.pass_frames(frames)
            except ModelError:
                continue  # noted by the switch, which starts a new model for the next frames
            for port, frame in left:
                if port in self._sockets:
                    self._sockets[port].send(frame)


def _open(interface: str) -> socket.socket:
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    link.bind((interface, 0))
    link.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    link.setblocking(False)
    return link


def _received(link: socket.socket) -> list[bytes]:
    """The frames that wait at an interface, up to a batch; a tag that the kernel took off is put back."""
    frames: list[bytes] = []
    while len(frames) < _BATCH:
        try:
            data, extra, _, address = link.recvmsg(_LONGEST, socket.CMSG_SPACE(_AUXDATA.size))
        except BlockingIOError:
            break
        if address[2] == socket.PACKET_OUTGOING:
            continue
        frames.append(_with_tag(data, extra))
    return frames


def _with_tag(data: bytes, extra: list[tuple[int, int, bytes]]) -> bytes:
    for level, kind, content in extra:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tag, protocol = _AUXDATA.unpack(content[: _AUXDATA.size])
            if status & _VLAN_VALID:
                head, rest = data[:_ADDRESSES_BYTES], data[_ADDRESSES_BYTES:]
                return head + struct.pack("!HH", protocol or 0x8100, tag) + rest
    return data
