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


class Capture:
    """Captures the frames that arrive at an interface, with the kernel's time stamps."""

    def __init__(self, interface: str) -> None:
        """Begin."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._socket.bind((interface, 0x88B5))
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
            if address[2] != OUTGOING:
                stamps = [data for _, kind, data in ancillary if kind == SO_TIMESTAMPNS]
                seconds, nanoseconds = TIMESPEC.unpack(stamps[0][: TIMESPEC.size])
                self.seen.append((seconds * 1_000_000_000 + nanoseconds, int.from_bytes(frame[14:22], "big")))

    def stop(self) -> list[tuple[int, int]]:
        """Stop when no more frames arrive; return all that were captured."""
        self._stop.set()
        self._thread.join()
        return self.seen
