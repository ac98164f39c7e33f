# SPDX-License-Identifier: Apache-2.0
"""The four compared programs: the shape of their entries and packets, and their sentinels.

A sentinel is a packet that leaves through every port, whatever the random entries say. When it has left, so
has all that was sent before it.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from generate import GROUPS, PORTS, SESSIONS, Pool, Shape

REPOSITORY = Path(__file__).resolve().parents[2]
SENTINEL_MAC = 0x02_00_00_00_FF_01
SENTINEL_TYPE = 0x88B6
SAMPLE_TYPE = 0x88B5
TRANSPORTS = (6, 17)
Sentinel = tuple[int, bytes, frozenset[int]]
"""Ingress port, frame, egress ports."""


@dataclass(frozen=True)
class Subject:
    """One program under comparison."""

    folder: str
    shape: Shape
    packet: Callable[[random.Random], bytes]
    """Draws a frame."""
    sentinels: Callable[[bytes, int], Sequence[Sentinel]]
    """The sentinels with a tag, to send in order after the packets into a port."""
    batch: int
    """Packets sent at once; 1 where the order of recirculated copies would matter."""
    rounds: int = 1
    """Number of sentinels in sequence: one more than a packet can recirculate."""
    blank: Callable[[bytes], bytes] = bytes
    """Removes times, which differ between two runs of the same switch."""
    compiled: str = ""
    """Name of the program, where it differs from the subject's."""
    refills: bool = False
    """Compare only meters that refill (`refill.py`)."""


def pool(*values: int) -> Pool:
    """One of these."""

    def draw(rng: random.Random) -> int:
        return values[rng.randrange(len(values))]

    return draw


MACS = tuple(0x02_00_00_00_00_00 + number for number in range(1, 9))
ADDRESSES = tuple(0x0A000000 + number * 0x10001 for number in range(12))
L4_PORTS = (53, 80, 443, 5001)


def ethernet(rng: random.Random, ether_type: int) -> bytes:
    """A header between two stations of the pool."""
    dst, src = rng.choice(MACS), rng.choice(MACS)
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + struct.pack("!H", ether_type)


def broken(rng: random.Random, frame: bytes) -> bytes:
    """Mostly the frame itself; sometimes cut short, or with bytes overwritten."""
    dice = rng.random()
    if dice < 0.04:
        return frame[: rng.randrange(14, len(frame) + 1)]
    if dice < 0.08:
        changed = bytearray(frame)
        for _ in range(rng.randrange(1, 4)):
            changed[rng.randrange(14, len(frame))] = rng.randrange(256)
        return bytes(changed)
    return frame


def checksum(header: bytes) -> int:
    """RFC 1071 over whole 16-bit words."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def ipv4(src: int, dst: int, protocol: int, payload: bytes, ttl: int = 64, dscp: int = 0) -> bytes:
    """An IPv4 packet without options."""
    without = struct.pack("!BBHHHBBHII", 0x45, dscp << 2, 20 + len(payload), 7, 0, ttl, protocol, 0, src, dst)
    return without[:10] + struct.pack("!H", checksum(without)) + without[12:] + payload


def ip_packet(rng: random.Random) -> bytes:
    """IPv4 between addresses of the pool, sometimes tagged, sometimes not IPv4 at all."""
    payload = rng.randbytes(rng.choice((26, 26, 200, 900)))
    if rng.random() < 0.1:
        return broken(rng, ethernet(rng, 0x86DD) + payload)
    ports = struct.pack("!HH", rng.choice(L4_PORTS), rng.choice(L4_PORTS))
    ttl, dscp = rng.choice((0, 1, 2, 64, 255)), rng.choice((0, 0, 10, 46))
    packet = ipv4(
        rng.choice(ADDRESSES), rng.choice(ADDRESSES), rng.choice((*TRANSPORTS, 1)), ports + payload, ttl, dscp
    )
    if rng.random() < 0.1:
        tag = struct.pack("!HH", rng.randrange(1 << 16), 0x0800)
        return broken(rng, ethernet(rng, 0x8100) + tag + packet)
    return broken(rng, ethernet(rng, 0x0800) + packet)


def policed_packet(rng: random.Random) -> bytes:
    """IPv4 with options and fragments, IPv6 with extension headers, between addresses of one pool."""
    if rng.random() < 0.4:
        return ip_packet(rng)
    src, dst = rng.choice(ADDRESSES), rng.choice(ADDRESSES)
    protocol = rng.choice((*TRANSPORTS, 1))
    payload = struct.pack("!HH", rng.choice(L4_PORTS), rng.choice(L4_PORTS)) + rng.randbytes(
        rng.choice((4, 16, 200))
    )
    tag = struct.pack("!HH", 0x8100, rng.randrange(1 << 16)) if rng.random() < 0.2 else b""
    head = ethernet(rng, 0)[:12] + tag
    if rng.random() < 0.5:
        options = rng.randbytes(4 * rng.randrange(11))
        length = rng.choice((20 + len(options) + len(payload),) * 9 + (rng.randrange(60),))
        offset = rng.choice((0, 0, 0x4000, 0x2000, 0x2005, 5))
        first = struct.pack("!BBHHH", 0x45 + len(options) // 4, rng.randrange(256), length, 7, offset)
        rest = struct.pack("!BBHII", 64, protocol, rng.randrange(1 << 16), src, dst)
        return broken(rng, head + b"\x08\x00" + first + rest + options + payload)
    chain = b""
    for _ in range(rng.choice((0, 1, 1, 2, 4, 5))):
        kind, words = rng.choice((0, 43, 44, 60)), rng.choice((0, 0, 1, 8, 9))
        if kind == 44:
            # Reserved in a fragment header; the offset that follows is 0 in first fragments.
            chain = struct.pack("!BBHI", protocol, 0, rng.choice((0, 1, 8)), 7) + chain
        else:
            chain = bytes([protocol, words]) + rng.randbytes(6 + 8 * words) + chain
        protocol = kind
    length = rng.choice((len(chain) + len(payload),) * 9 + (rng.randrange(60),))
    first = struct.pack("!IHBB", 6 << 28 | rng.getrandbits(28), length, protocol, 64)
    rest = src.to_bytes(16, "big") + dst.to_bytes(16, "big")
    return broken(rng, head + b"\x86\xdd" + first + rest + chain + payload)


def sample_packet(rng: random.Random) -> bytes:
    """A sample of `mixture` with a label stack, at times too deep or without an end."""
    kind, slot = rng.choice((0, 1, 2, 3, 0x80, 0x81, 0x82)), rng.choice((*range(8), 64, 65))
    key, number = rng.choice(ADDRESSES), rng.getrandbits(32)
    wide = rng.choice((rng.getrandbits(128), (1 << 128) - 1, 0, 1))
    head = struct.pack("!BBBBII", kind, slot, 0, 0, key, number)
    signed = struct.pack("!HH", rng.choice((0x7FFF, 0x8000, rng.getrandbits(16))), rng.getrandbits(16))
    covered = struct.pack("!BBII", kind, slot, key, number)
    stated = rng.choice((0, checksum(covered), rng.getrandbits(16)))
    tail = struct.pack("!IHBBHH", 0, 0, 0, 0, 0, stated)
    labels = b""
    depth = rng.choice((1, 1, 2, 3, 4, 5))
    for level in range(depth):
        bottom = level == depth - 1
        labels += (rng.choice((0, 3, 1 << 19 | 5)) << 12 | bottom << 8 | rng.randrange(256)).to_bytes(
            4, "big"
        )
    wides = wide.to_bytes(16, "big") + rng.getrandbits(128).to_bytes(16, "big")
    body = head + signed + wides + tail + labels + rng.randbytes(rng.choice((0, 20, 300)))
    return broken(rng, ethernet(rng, rng.choice((SAMPLE_TYPE,) * 19 + (0x9999,))) + body)


def flooded(tag: bytes, port: int) -> list[Sentinel]:
    """For a program that floods, except to the ingress port: two, from different ports."""
    frame = SENTINEL_MAC.to_bytes(6, "big") * 2 + struct.pack("!H", SENTINEL_TYPE) + tag
    another = PORTS[0] if port != PORTS[0] else PORTS[1]
    return [(entered, frame, frozenset(PORTS) - {entered}) for entered in (port, another)]


def multicast(tag: bytes, port: int) -> list[Sentinel]:
    """For `mixture`: its own type of frame, to all ports."""
    frame = SENTINEL_MAC.to_bytes(6, "big") * 2 + struct.pack("!H", SENTINEL_TYPE) + tag
    return [(port, frame, frozenset(PORTS))]


def routed(tag: bytes, port: int) -> list[Sentinel]:
    """For the router: one packet to a station at each port."""
    head = SENTINEL_MAC.to_bytes(6, "big") * 2 + struct.pack("!H", 0x0800)
    return [
        (port, head + ipv4(0x0A000001, station(to), 17, tag + bytes([to])), frozenset({to})) for to in PORTS
    ]


def station(port: int) -> int:
    """Address of the sentinels' destination at a port, outside of the pool."""
    return 0xC0A80000 + port


def without_times(frame: bytes) -> bytes:
    """A report of weir's with the ingress time zeroed; other frames unchanged."""
    time_at = 14 + 20 + 8 + 8 + 4 + 8 + 4
    is_report = frame[12:14] == b"\x08\x00" and frame[36:38] == struct.pack("!H", COLLECTOR_PORT)
    return frame[:time_at] + bytes(8) + frame[time_at + 8 :] if is_report else frame


COLLECTOR_PORT = 32766
ADDRESS_POOL = pool(*ADDRESSES)

SUBJECTS = {
    "l2_learning": Subject(
        "softswitch/programs",
        Shape(
            pools={
                "hdr.ethernet.src": pool(*MACS),
                "hdr.ethernet.dst": pool(*MACS),
                "standard_metadata.ingress_port": pool(*PORTS),
                "port": pool(*PORTS),
            },
            entries={"source": 12, "destination": 6},
        ),
        ip_packet,
        flooded,
        batch=8,
    ),
    "ipv4_router": Subject(
        "softswitch/programs",
        Shape(
            pools={
                "hdr.ipv4.dst": ADDRESS_POOL,
                "next_hop": pool(*range(1, 10)),
                "meta.next_hop": pool(*range(1, 9)),
                "port": pool(*PORTS),
            },
            entries={"route": 40, "next_hop": 30},
            fixed=[
                entry
                for port in PORTS
                for entry in (
                    ("route", {"hdr.ipv4.dst": station(port)}, "set_next_hop", {"next_hop": 60000 + port}),
                    (
                        "next_hop",
                        {"meta.next_hop": 60000 + port},
                        "rewrite",
                        {"port": port, "src": 1, "dst": 2},
                    ),
                )
            ],
        ),
        ip_packet,
        routed,
        batch=8,
    ),
    "weir": Subject(
        "p4src/build",
        Shape(
            pools={
                "dst": lambda rng: rng.choice(MACS + ADDRESSES),
                "src": ADDRESS_POOL,
                "ingress_port": pool(*PORTS),
                "protocol": pool(*TRANSPORTS),
                "src_port": pool(*L4_PORTS),
                "dst_port": pool(*L4_PORTS),
                "dscp": pool(0, 10, 46),
                "has_ports": pool(0, 1),
                # Reports of enqueues contain times and queue occupancies, which differ between two switches.
                "watched": pool(0),
                "drop_not_ect": pool(0, 1),
                "cell": pool(*range(16)),
                "base": pool(0, 8),
                "mask": pool(0, 3, 7),
                "colour": pool(0, 1, 2),
                "session": pool(*SESSIONS),
                "collector": pool(1, 2),
                "port": pool(*PORTS),
                "group": pool(*GROUPS),
                "inner_bytes": pool(0, 64, 128, 2000),
            },
            entries={
                "forward": 8,
                "classify": 12,
                "classify_ipv6": 12,
                "flow_policer": 6,
                "flow_policer_ipv6": 6,
                "verdict": 24,
                "report": 10,
            },
            fixed=[
                (
                    "collector",
                    {"collector": number},
                    "set_collector",
                    {
                        "src_mac": 1,
                        "dst_mac": 2,
                        "src": 3,
                        "dst": 4,
                        "src_port": 5,
                        "dst_port": COLLECTOR_PORT,
                        "node_id": number,
                        "inner_bytes": 64 * number,
                    },
                )
                for number in (1, 2)
            ],
            meter_cells=16,
            # One port: reports are numbered on egress, and a switch may serve its ports in any order.
            session_ports=(4,),
        ),
        policed_packet,
        flooded,
        batch=8,
        blank=without_times,
    ),
    "mixture": Subject(
        "softswitch/programs",
        Shape(
            pools={
                "hdr.sample.kind": pool(0, 1, 2, 3, 0x80, 0x81, 0x82),
                "hdr.sample.slot": pool(*range(8), 64, 65),
                "hdr.sample.key": ADDRESS_POOL,
                "low_key": pool(*(address & 0xFF for address in ADDRESSES)),
                "labelled": pool(0, 1),
                "label": pool(0, 3, 1 << 19 | 5),
                "standard_metadata.ingress_port": pool(*PORTS),
                "standard_metadata.egress_port": pool(*PORTS),
                "standard_metadata.egress_rid": pool(0, 1, 2, 3),
                "port": pool(*PORTS),
                "group": pool(*GROUPS),
                "session": pool(*SESSIONS),
                "bytes": pool(20, 60, 90, 2000),
                "recirculations": pool(0, 1, 2),
                "size": pool(1, 10, 1000, 4096),
                "places": pool(0, 1, 7, 64, 127, 128, 200),
                "ttl": pool(1, 64),
            },
            entries={
                "compute": 24,
                "hashing": 6,
                "special": 12,
                "labels": 8,
                "route": 14,
                "resubmission": 3,
                "ports": 5,
                "balance": 5,
            },
            members=12,
            meter_cells=6,
        ),
        sample_packet,
        multicast,
        batch=1,
        rounds=4,
    ),
    "refill": Subject(
        "softswitch/programs", Shape(), sample_packet, multicast, batch=1, compiled="mixture", refills=True
    ),
}
