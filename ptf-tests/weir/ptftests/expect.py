# SPDX-License-Identifier: Apache-2.0
"""Decode the switch's reports (docs/spec/telemetry-report.md), and check the fields that never vary.

expect_test.py tests this with the specification's vectors.
"""

from __future__ import annotations

import ipaddress
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SPECIFICATION = Path(__file__).resolve().parents[3] / "docs" / "spec" / "telemetry-report.md"
OUTER_BYTES = 14 + 20 + 8
HEADERS_BYTES = 56
_DOMAIN_BITS, _LOST_BIT = 0xE000, 0x1000
_HEADERS = struct.Struct("!IIBBBBHHHHIQQBBHHBBII")


class WrongReport(AssertionError):
    """A frame at a collector is not a report of the specification; the message names the field."""


class Endpoint(NamedTuple):
    """One end of the reports' datagrams."""

    mac: str
    ip: str
    udp_port: int


@dataclass(frozen=True, slots=True)
class Report:
    """The fields that vary from report to report, with the inner packet."""

    node_id: int
    hw_id: int
    sequence: int
    dropped: bool
    congested: bool
    tracked: bool
    queue_id: int
    queue_occupancy: int
    ingress_ns: int
    egress_ns: int
    drop_queue_id: int
    drop_reason: int
    policer: int
    colour: int
    wire_length: int
    packet_number: int
    inner: bytes
    queue_lost: int = 0
    """Packets that the queue dropped before this one."""


def decode(payload: bytes) -> Report:
    """Decode a datagram's payload. Raises WrongReport if a constant field has another value."""
    if len(payload) < HEADERS_BYTES:
        raise WrongReport(f"{len(payload)} bytes; valid: at least {HEADERS_BYTES}")
    group, node_id, types, words, metadata_words, flags, *rest = _HEADERS.unpack_from(payload)
    bits, domain, domain_bits, status, queue, ingress_ns, egress_ns, *rest = rest
    drop_queue_id, drop_reason, pad, policer, colour, reserved, wire_length, packet_number = rest
    inner, queue_lost, lost_words = payload[HEADERS_BYTES:], 0, 0
    if domain_bits == _DOMAIN_BITS | _LOST_BIT and len(inner) >= 4:
        queue_lost, inner, lost_words = int.from_bytes(inner[:4], "big"), inner[4:], 1
        domain_bits ^= _LOST_BIT
    fixed = {
        "version": (group >> 28, 2),
        "RepType and InType": (types, 0x13),
        "report length": (words, 2 + 9 + lost_words + -(-len(inner) // 4)),
        "metadata length": (metadata_words, 9 + lost_words),
        "I and reserved": (flags & 0x1F, 0),
        "RepMdBits": (bits, 0x1C01),
        "domain": (domain, 0x5745),
        "DSMdBits": (domain_bits, _DOMAIN_BITS),
        "DSMdstatus": (status, 0),
        "padding": (pad, 0),
        "reserved": (reserved, 0),
    }
    for name, (found, wanted) in fixed.items():
        if found != wanted:
            raise WrongReport(f"{name} is {found:#x}; valid: {wanted:#x}; payload {payload.hex()}")
    return Report(
        node_id=node_id,
        hw_id=group >> 22 & 0x3F,
        sequence=group & 0x3FFFFF,
        dropped=bool(flags & 0x80),
        congested=bool(flags & 0x40),
        tracked=bool(flags & 0x20),
        queue_id=queue >> 24,
        queue_occupancy=queue & 0xFFFFFF,
        ingress_ns=ingress_ns,
        egress_ns=egress_ns,
        drop_queue_id=drop_queue_id,
        drop_reason=drop_reason,
        policer=policer,
        colour=colour,
        wire_length=wire_length,
        packet_number=packet_number,
        inner=inner,
        queue_lost=queue_lost,
    )


def payload_of(frame: bytes, switch: Endpoint, collector: Endpoint) -> bytes:
    """The UDP payload of a frame that reached a collector. Raises WrongReport for a wrong outer header."""
    outer, payload = frame[:OUTER_BYTES], frame[OUTER_BYTES:]
    wanted = _outer(switch, collector, len(payload))
    if outer != wanted:
        raise WrongReport(f"outer headers {outer.hex()}; valid: {wanted.hex()}")
    return payload


def _outer(switch: Endpoint, collector: Endpoint, payload_bytes: int) -> bytes:
    """Ethernet, IPv4 and UDP headers by the specification's section "On the wire"."""
    macs = bytes.fromhex((collector.mac + switch.mac).replace(":", ""))
    addresses = ipaddress.IPv4Address(switch.ip).packed + ipaddress.IPv4Address(collector.ip).packed
    head = struct.pack("!BBHHHBB", 0x45, 0, 28 + payload_bytes, 0, 0x4000, 64, 17)
    checksum = internet_checksum(head + addresses)
    udp = struct.pack("!HHHH", switch.udp_port, collector.udp_port, 8 + payload_bytes, 0)
    return macs + b"\x08\x00" + head + struct.pack("!H", checksum) + addresses + udp


def internet_checksum(covered: bytes) -> int:
    """RFC 1071 over an even number of bytes in which the checksum itself is 0 or missing."""
    total: int = sum(struct.unpack(f"!{len(covered) // 2}H", covered))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def reasons(specification: Path = SPECIFICATION) -> dict[str, int]:
    """The specification's drop reasons, by name."""
    section = specification.read_text().split("### Drop reasons")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", section, re.M)
    return {name: int(code) for code, name in rows}


REASONS = reasons()
REASON_QUEUE, REASON_POLICER, REASON_NOT_ECT = (REASONS[name] for name in ("queue", "policer", "not ECT"))


class Vector(NamedTuple):
    """A vector of the specification: its bytes, and every other line of it."""

    payload: bytes
    values: Mapping[str, str]


def vectors(specification: Path = SPECIFICATION) -> dict[str, Vector]:
    """The vectors of the specification that are whole reports, by name."""
    return {name: one for name, one in _all_vectors(specification).items() if "error" not in one.values}


def malformed(specification: Path = SPECIFICATION) -> dict[str, Vector]:
    """The vectors of the specification that must be refused, by name; `error` has the expected error."""
    return {name: one for name, one in _all_vectors(specification).items() if "error" in one.values}


def _all_vectors(specification: Path) -> dict[str, Vector]:
    found = {}
    for name, body in re.findall(r"^```vector (\S+)\n(.*?)^```", specification.read_text(), re.M | re.S):
        lines = [line.partition("=") for line in body.splitlines()]
        text = "".join(value for key, _, value in lines if key == "hex")
        values = {key: value for key, _, value in lines if key != "hex"}
        found[name] = Vector(bytes.fromhex(text), values)
    return found


def frames(specification: Path = SPECIFICATION) -> dict[str, bytes]:
    """The specification's whole frames, outer headers included, by name."""
    found = {}
    for name, body in re.findall(r"^```frame (\S+)\n(.*?)^```", specification.read_text(), re.M | re.S):
        found[name] = bytes.fromhex("".join(re.findall(r"^hex=(.*)$", body, re.M)))
    return found
