# SPDX-License-Identifier: Apache-2.0
"""Packets built header by header, so that each length in them can be wrong on purpose."""

from __future__ import annotations

import ipaddress
import struct

CLIENT_MAC, SERVER_MAC = "020000000001", "020000000002"
TCP, UDP = 6, 17
HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION = 0, 43, 44, 60


def ones_complement_sum(data: bytes) -> int:
    """The sum of RFC 1071, of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def checksum(data: bytes) -> int:
    """RFC 1071's checksum, of an even number of bytes."""
    return ~ones_complement_sum(data) & 0xFFFF


def ethernet(ether_type: int, payload: bytes = b"", vid: int | None = None) -> bytes:
    """A frame from the server to the client; tagged (IEEE 802.1Q) if `vid` is given."""
    macs = bytes.fromhex(CLIENT_MAC + SERVER_MAC)
    tag = b"" if vid is None else struct.pack("!HH", 0x8100, vid)
    return macs + tag + struct.pack("!H", ether_type) + payload


def ipv4_header(
    payload_bytes: int,
    protocol: int = TCP,
    *,
    src: str = "10.0.0.2",
    dst: str = "10.0.0.1",
    tos: int = 0,
    fragment: int = 0x4000,
    options: bytes = b"",
    total_length: int | None = None,
    version_ihl: int | None = None,
) -> bytes:
    """An IPv4 header with a correct checksum; `fragment` is flags and offset."""
    ihl = 5 + len(options) // 4
    length = ihl * 4 + payload_bytes if total_length is None else total_length
    header = struct.pack(
        "!BBHHHBBH",
        (0x40 | ihl) if version_ihl is None else version_ihl,
        tos,
        length,
        7,
        fragment,
        64,
        protocol,
        0,
    )
    header += ipaddress.IPv4Address(src).packed + ipaddress.IPv4Address(dst).packed + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:]


def ipv4(payload: bytes, protocol: int = TCP, *, vid: int | None = None, **fields: object) -> bytes:
    """A frame with an IPv4 packet; `fields` are those of `ipv4_header`."""
    return ethernet(0x0800, ipv4_header(len(payload), protocol, **fields) + payload, vid)  # type: ignore[arg-type]


def ipv6(
    payload: bytes,
    next_header: int = TCP,
    *,
    vid: int | None = None,
    src: str = "2001:db8::2",
    dst: str = "2001:db8::1",
    traffic_class: int = 0,
    payload_length: int | None = None,
    version: int = 6,
) -> bytes:
    """A frame with an IPv6 packet; the payload begins with the extension headers."""
    length = len(payload) if payload_length is None else payload_length
    header = struct.pack("!IHBB", version << 28 | traffic_class << 20 | 0x12345, length, next_header, 64)
    header += ipaddress.IPv6Address(src).packed + ipaddress.IPv6Address(dst).packed
    return ethernet(0x86DD, header + payload, vid)


def extension(next_header: int, words: int = 0) -> bytes:
    """Hop-by-hop, routing or destination options of `words` × 8 bytes after the first 8."""
    return bytes([next_header, words]) + bytes(range(6)) + b"\xab" * 8 * words


def fragment(next_header: int, offset: int, more: bool = True) -> bytes:
    """IPv6's fragment header; the offset is in words of 8 bytes."""
    return struct.pack("!BBHI", next_header, 0, offset << 3 | more, 0xCAFE)


def tcp(src_port: int = 5001, dst_port: int = 40000, payload_bytes: int = 100) -> bytes:
    """A TCP header without options, and payload."""
    header = struct.pack("!HHIIHHHH", src_port, dst_port, 1, 2, 0x5010, 512, 0xBEEF, 0)
    return header + bytes(number & 0xFF for number in range(payload_bytes))


def udp(src_port: int = 5001, dst_port: int = 40000, payload_bytes: int = 100) -> bytes:
    """A UDP header and payload."""
    header = struct.pack("!HHHH", src_port, dst_port, 8 + payload_bytes, 0)
    return header + bytes(number & 0xFF for number in range(payload_bytes))
