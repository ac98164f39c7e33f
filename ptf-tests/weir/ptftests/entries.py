# SPDX-License-Identifier: Apache-2.0
"""The entities that tests write to the switch, by the names in the pipeline's P4Info."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from finsy import P4MeterConfig, P4MeterEntry

from weir.controlplane.entities import CloneSession, Match, MeterCell, MulticastGroup, TableEntry
from weir.ptftests.expect import Endpoint
from weir.ptftests.packets import FRAME_BYTES, mac_number

COLOURS = GREEN, YELLOW, RED = (0, 1, 2)
FLOOD_GROUP = 1
LOWEST_RATE_BYTES_PER_S = 1
"""At this rate a bucket gains a few bytes in the seconds that a test takes: less than any frame."""
PRIORITY = 10
IPV4, IPV6 = "classify", "classify_ipv6"

METERS = (MeterCell, P4MeterEntry)
Key = int | tuple[int, int]
"""A value, or a value and a mask."""


def ip(address: str) -> int:
    """An address as tables match it."""
    return int(ipaddress.ip_address(address))


def entry(table: str, keys: dict[str, Key], action: str, priority: int = 0, **args: int) -> TableEntry:
    """An entry of any table."""
    matches = [
        Match(name, value) if isinstance(value, int) else Match(name, *value) for name, value in keys.items()
    ]
    matches.sort(key=lambda match: match.field)
    return TableEntry(table, tuple(matches), action, tuple(sorted(args.items())), priority)


def forward(mac: int, p4_port: int) -> TableEntry:
    """A station is reached through a port."""
    return entry("forward", {"dst": mac}, "set_egress", port=p4_port)


def flood_group(p4_ports: tuple[int, ...]) -> MulticastGroup:
    """The group for frames to unknown stations."""
    return MulticastGroup(FLOOD_GROUP, p4_ports)


def session(number: int, p4_port: int, truncate_bytes: int = 0) -> CloneSession:
    """A mirror session to a port; it cuts the copy to a length (0: not at all)."""
    return CloneSession(number, (p4_port,), truncate_bytes)


def _classify(table: str, keys: dict[str, Key], action: str, priority: int, **args: int) -> TableEntry:
    """A classify entry; one that matches ports also matches `has_ports` = 1 unless `keys` has it."""
    ports: dict[str, Key] = {"has_ports": 1} if keys.keys() & {"src_port", "dst_port"} else {}
    return entry(table, ports | keys, action, priority, **args)


def police_shared(
    cell: int, priority: int = PRIORITY, *, table: str = IPV4, watched: bool = False, **keys: Key
) -> TableEntry:
    """Matching flows meet one cell."""
    return _classify(table, keys, "police_shared", priority, cell=cell, watched=watched)


def police_hashed(
    base: int, mask: int, priority: int = PRIORITY, *, table: str = IPV4, watched: bool = False, **keys: Key
) -> TableEntry:
    """Each matching flow meets the cell that its 5-tuple hashes to."""
    return _classify(table, keys, "police_hashed", priority, base=base, mask=mask, watched=watched)


def police_learned(
    base: int, mask: int, priority: int = PRIORITY, *, table: str = IPV4, watched: bool = False, **keys: Key
) -> TableEntry:
    """Each matching flow meets the cell that `learned` gives it; until then, that of `police_hashed`."""
    return _classify(table, keys, "police_learned", priority, base=base, mask=mask, watched=watched)


def learned(cell: int, *, table: str = "flow_policer", **keys: Key) -> TableEntry:
    """A flow gets its own cell."""
    return entry(table, keys, "set_flow_cell", cell=cell)


def pre_colour(cell: Key, dscp: Key, action: str, priority: int = PRIORITY) -> TableEntry:
    """The colour of packets of a DSCP before they are metered."""
    return entry("pre_colour", {"cell": cell, "dscp": dscp}, action, priority)


def comes_in(cell: int, colour: str) -> TableEntry:
    """All packets of a cell come in with a colour."""
    return entry("pre_colour", {"cell": cell}, f"come_in_{colour}", PRIORITY)


def verdict(cell: Key, colour: int, action: str, priority: int = PRIORITY, **args: int) -> TableEntry:
    """The verdict on packets of a colour."""
    return entry("verdict", {"cell": cell, "colour": colour}, action, priority, **args)


def report_drops(cell: Key, mirror: int, collector: int, priority: int = PRIORITY) -> TableEntry:
    """Dropped packets of a cell are reported."""
    return entry("report", {"cell": cell}, "report_drops", priority, session=mirror, collector=collector)


def report_enqueued(
    cell: Key, mirror: int, collector: int, *, every: int, congested_at: int = 0, priority: int = PRIORITY
) -> TableEntry:
    """Packets of a cell that pass are reported: of each flow the first, and then each `every`-th."""
    return entry(
        "report_enqueues",
        {"cell": cell},
        "report_enqueued",
        priority,
        session=mirror,
        collector=collector,
        every=every,
        congested_at=congested_at,
    )


def report_queue_drops(p4_port: int, mirror: int, collector: int) -> TableEntry:
    """Packets that the queue of a port drops are reported."""
    return entry("report_queue", {"port": p4_port}, "report_queue_drops", session=mirror, collector=collector)


def forward_numbered(mac: int, p4_port: int) -> TableEntry:
    """A station is reached through a port whose egress detects gaps."""
    return entry("forward", {"dst": mac}, "set_numbered_egress", port=p4_port)


@dataclass(slots=True)
class Metering:
    """How the meters of the target that is under test take a packet's bytes."""

    own_packet_counts: bool = True
    """Whether a packet's colour counts its own bytes; if not, the packets before it give the colour."""


METERING = Metering()


def burst_of(frames: int, frame_bytes: int = FRAME_BYTES) -> int:
    """A burst that lets `frames` frames pass, also on a target that rounds it by less than half a frame."""
    if METERING.own_packet_counts:
        return frames * frame_bytes + frame_bytes // 2 if frames else 1  # one byte, for frames of any length
    return max(0, frames * frame_bytes - frame_bytes // 2)


def token_bucket(cell: int, burst_bytes: int, rate_bytes_per_s: int = LOWEST_RATE_BYTES_PER_S) -> MeterCell:
    """A two-colour policer: green up to the burst, then red."""
    return MeterCell("policer", cell, rate_bytes_per_s, burst_bytes)


def single_rate(cell: int, committed_burst_bytes: int, excess_burst_bytes: int) -> P4MeterEntry:
    """RFC 2697 at the lowest rate: the bursts decide."""
    rate, burst = LOWEST_RATE_BYTES_PER_S, committed_burst_bytes
    config = P4MeterConfig(cir=rate, cburst=burst, pir=rate, pburst=burst, eburst=excess_burst_bytes)
    return P4MeterEntry("policer", index=cell, config=config)


def two_rate(cell: int, committed_burst_bytes: int, peak_burst_bytes: int) -> P4MeterEntry:
    """RFC 2698 at the lowest rates: the bursts decide."""
    rate = LOWEST_RATE_BYTES_PER_S
    config = P4MeterConfig(cir=rate, cburst=committed_burst_bytes, pir=rate, pburst=peak_burst_bytes)
    return P4MeterEntry("policer", index=cell, config=config)


def collector(number: int, *, switch: Endpoint, here: Endpoint, node_id: int, inner_bytes: int) -> TableEntry:
    """A collector's addresses, and the parameters of its reports."""
    return entry(
        "collector",
        {"collector": number},
        "set_collector",
        src_mac=mac_number(switch.mac),
        dst_mac=mac_number(here.mac),
        src=ip(switch.ip),
        dst=ip(here.ip),
        src_port=switch.udp_port,
        dst_port=here.udp_port,
        node_id=node_id,
        inner_bytes=inner_bytes,
    )
