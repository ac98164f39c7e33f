# SPDX-License-Identifier: Apache-2.0
"""The frames that tests send, made with scapy; lengths are of the whole frame without FCS."""

from __future__ import annotations

from typing import Any

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

SRC_IP, DST_IP = "10.0.0.1", "10.0.0.2"
SRC_IP6, DST_IP6 = "2001:db8::1", "2001:db8::2"
SRC_PORT, DST_PORT = 40000, 5001
MIN_FRAME_BYTES = 60
FRAME_BYTES = 250
"""Of the tests' frames, unless they say another: half of it is a kbit, in which BfRuntime's bursts are."""

__all__ = ["ARP", "ICMP", "IP", "TCP", "UDP", "Dot1Q", "Ether", "IPv6", "Packet", "Raw"]


def host_mac(port: int) -> str:
    """MAC address of the station at a port."""
    return f"02:00:00:00:00:{port:02x}"


def mac_number(mac: str) -> int:
    """A MAC address as tables match it."""
    return int(mac.replace(":", ""), 16)


def ethernet(src: int = 1, dst: int = 2) -> Packet:
    """An Ethernet header between the stations at two ports."""
    return Ether(src=host_mac(src), dst=host_mac(dst))


def sized(packet: Packet, frame_bytes: int = FRAME_BYTES) -> bytes:
    """The packet's bytes, padded to a length with counting bytes; lengths and checksums are correct."""
    missing = frame_bytes - len(packet)
    if missing < 0:
        raise ValueError(f"the headers have {len(packet)} bytes; valid: a frame of at least as many")
    return bytes(packet / Raw(bytes(number & 0xFF for number in range(missing))))


def udp(
    frame_bytes: int = FRAME_BYTES, src_port: int = SRC_PORT, dst_port: int = DST_PORT, **ip: Any
) -> bytes:
    """UDP over IPv4 from port 1's station to port 2's; further fields are the IPv4 header's."""
    header = IP(**{"src": SRC_IP, "dst": DST_IP, **ip})
    return sized(ethernet() / header / UDP(sport=src_port, dport=dst_port), frame_bytes)


def tcp(
    frame_bytes: int = FRAME_BYTES, src_port: int = SRC_PORT, dst_port: int = DST_PORT, **ip: Any
) -> bytes:
    """TCP over IPv4 from port 1's station to port 2's; further fields are the IPv4 header's."""
    header = IP(**{"src": SRC_IP, "dst": DST_IP, **ip})
    return sized(ethernet() / header / TCP(sport=src_port, dport=dst_port, flags="A"), frame_bytes)


def option(content: bytes) -> Packet:
    """An option of IPv4, from its bytes on the wire."""
    return IPOption(content)


def numbered(count: int, frame_bytes: int = FRAME_BYTES, src_port: int = SRC_PORT, **ip: Any) -> list[bytes]:
    """UDP frames of one flow that differ in their IPv4 identification, and so in their checksum."""
    return [udp(frame_bytes, src_port, id=number + 1, **ip) for number in range(count)]
