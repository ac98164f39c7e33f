# SPDX-License-Identifier: Apache-2.0
"""Captures numbered test frames with the kernel's time stamps."""

import select
import socket
import struct
import threading

SO_TIMESTAMPNS = 35  # asm-generic/socket.h; Python has no name for it
RECEIVE_BUFFER_BYTES = 8 << 20
OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h
TIMESPEC = struct.Struct("ll")


NUMBERED = 0x88B5  # their EtherType
ALL = 0x0003  # ETH_P_ALL: only a socket for all frames sees those that others send


class Capture:
    """Captures the frames that arrive at an interface or leave it, with the kernel's time stamps."""

    def __init__(self, interface: str, *, sent: bool = False) -> None:
        """Begin; with `sent`, with the frames that leave."""
        self._sent = sent
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.bind((interface, ALL if sent else NUMBERED))
        self._stop = threading.Event()
        self.seen: list[tuple[int, int]] = []
        """Stamp in ns and number of each frame."""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._socket], [], [], 0.05)
            if not ready:
                if self._stop.is_set():
                    return
                continue
            frame, ancillary, _, address = self._socket.recvmsg(2048, 256)
            is_numbered = frame[12:14] == NUMBERED.to_bytes(2, "big")
            if is_numbered and (address[2] == OUTGOING) is self._sent:
                stamps = [data for _, kind, data in ancillary if kind == SO_TIMESTAMPNS]
                seconds, nanoseconds = TIMESPEC.unpack(stamps[0][: TIMESPEC.size])
                self.seen.append((seconds * 1_000_000_000 + nanoseconds, int.from_bytes(frame[14:22], "big")))

    def stop(self) -> list[tuple[int, int]]:
        """Stop when no more frames arrive; return all that were captured."""
        self._stop.set()
        self._thread.join()
        return self.seen
