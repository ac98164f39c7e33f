# SPDX-License-Identifier: Apache-2.0
"""Sends numbered frames of one length from a packet socket: some at once, the others at a steady rate.

Needs the standard library only. Prints how many it sent.
Usage: paced_source.py INTERFACE DESTINATION_MAC FRAME_BYTES AT_ONCE RATE_BPS SECONDS
"""

import ctypes
import socket
import struct
import sys
import time

NUMBER_AT = 14 + 20 + 8
"""Offset of the frame's number: 8 bytes after Ethernet, IPv4 and UDP headers."""
_TRAIN = 64  # most frames per system call
_TRAIN_NS = 200_000  # and most time of the rate
_SECOND_NS = 1_000_000_000


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("sent", ctypes.c_uint),
    )


def frame(destination_mac: str, length_bytes: int) -> bytearray:
    """A UDP frame with number 0."""
    made = bytearray(length_bytes)
    made[:14] = bytes.fromhex(destination_mac.replace(":", "")) + b"\x02\0\0\0\0\x01\x08\0"
    addresses = bytes([10, 0, 0, 1, 10, 0, 0, 2])
    made[14:34] = struct.pack(">BBHHHBBH8s", 0x45, 0, length_bytes - 14, 0, 0, 64, 17, 0, addresses)
    made[34:42] = struct.pack(">HHHH", 4000, 5201, length_bytes - 34, 0)
    return made


def send(
    interface: str, destination_mac: str, length_bytes: int, at_once: int, rate_bps: int, seconds: float
) -> int:
    """Send; a late train is sent at once, so that the long-run rate holds."""
    per_train = max(1, min(_TRAIN, rate_bps * _TRAIN_NS // (length_bytes * 8 * _SECOND_NS)))
    frames = [frame(destination_mac, length_bytes) for _ in range(per_train)]
    views = [(ctypes.c_char * length_bytes).from_buffer(one) for one in frames]
    vectors = (_Vector * per_train)(*(_Vector(ctypes.addressof(view), length_bytes) for view in views))
    messages = (_Message * per_train)()
    for message, vector in zip(messages, vectors, strict=True):
        message.vectors, message.vector_count = ctypes.pointer(vector), 1
    library = ctypes.CDLL(None, use_errno=True)
    outgoing = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    outgoing.bind((interface, 0x0800))
    outgoing.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
    start_ns = time.monotonic_ns()
    end_ns = start_ns + int(seconds * _SECOND_NS)
    number = 0
    while time.monotonic_ns() < end_ns:
        for one in frames:
            struct.pack_into(">Q", one, NUMBER_AT, number)
            number += 1
        due_ns = start_ns + (number - at_once) * length_bytes * 8 * _SECOND_NS // rate_bps
        done = 0
        while done < per_train:
            rest = ctypes.byref(messages, done * ctypes.sizeof(_Message))
            sent = library.sendmmsg(outgoing.fileno(), rest, per_train - done, 0)
            if sent < 0:
                raise OSError(ctypes.get_errno(), "sendmmsg")
            done += sent
        while (wait_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(wait_ns / _SECOND_NS)
    return number


if __name__ == "__main__":
    print(
        send(
            sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6])
        )
    )
