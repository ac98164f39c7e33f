# SPDX-License-Identifier: Apache-2.0
"""Requests that announce more bytes than they send, built by hand: gRPC clients cannot make them."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# Frame types and flags of HTTP/2 (RFC 9113, section 6).
DATA, HEADERS, SETTINGS = 0, 1, 4
END_HEADERS = 4


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame (RFC 9113, section 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name: str, value: str) -> bytes:
    """A literal field that is not indexed (RFC 7541, section 6.2.2), of names and values up to 126 bytes."""
    return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def half_sent(address: str, method: str, announced_bytes: int, sent_bytes: int = 1000) -> socket.socket:
    """A connection with a P4Runtime call in progress whose message is never completed."""
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)))
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/p4.v1.P4Runtime/{method}",
        ":authority": address,
        "content-type": "application/grpc",
        "te": "trailers",
    }
    headers = b"".join(header(name, value) for name, value in fields.items())
    message = b"\0" + struct.pack(">I", announced_bytes) + bytes(sent_bytes)
    connection.sendall(
        PREFACE
        + frame(SETTINGS, 0, 0, b"")
        + frame(HEADERS, END_HEADERS, 1, headers)
        + frame(DATA, 0, 1, message)
    )
    return connection
