# SPDX-License-Identifier: Apache-2.0
"""What the switch is filled with when it is measured: weir's own pipeline under its stated load.

The same shapes as `softswitch/dataplane/tests/workload`, which measures the dataplane alone: 1,000 classify
entries of eight shapes, each with policer cells of its own, 1,000 MAC addresses, 1 % of the flows dropped and
reported.
"""

from collections.abc import Iterator

from weir.controlplane.entities import CloneSession, Entity, Match, MeterCell, TableEntry
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.session import Session
from weir.topo.hosts import HostPort

CLASSIFY_ENTRIES = 1000
_CELLS = 8  # per classify entry, over which the flow hash spreads
_RED_EVERY = 100  # one entry in this many has cells that drop everything
_UNPOLICED = (1_000_000_000, 1_000_000)  # bytes/s and bytes that no flow reaches
_SOURCE = 0xAC100304  # 172.16.3.4
_PORT = 5201
_REPORT_SESSION, _COLLECTOR, _RED = 5, 1, 2
_EXACT_IP, _PREFIX24 = 0xFFFFFFFF, 0xFFFFFF00


def _keys(entry: int) -> tuple[Match, ...]:
    """The key of one classify entry; lookups must try all eight shapes of masks."""
    network = 0x0A000000 | entry << 8
    prefix, host = Match("dst", network, _PREFIX24), Match("dst", network | 1, _EXACT_IP)
    shapes = (
        (prefix,),
        (prefix, Match("protocol", 17)),
        (host,),
        (prefix, Match("src", 0xAC100000, 0xFFF00000)),
        (prefix, Match("dst_port", _PORT), Match("has_ports", 1)),
        (prefix, Match("ingress_port", 1)),
        (host, Match("src", _SOURCE, _EXACT_IP)),
        (prefix, Match("dscp", 0)),
    )
    return tuple(sorted(shapes[entry % len(shapes)], key=lambda match: match.field))


def entities(receiver: HostPort, collector: HostPort) -> Iterator[Entity]:
    """All entries: forwarding to the receiver's port, policing, reports to the collector."""
    yield CloneSession(_REPORT_SESSION, (collector.switch_port,))
    for entry in range(CLASSIFY_ENTRIES):
        yield TableEntry(
            "forward",
            (Match("dst", 0x0200_0001_0000 | entry),),
            "set_egress",
            (("port", receiver.switch_port),),
        )
        base = entry * _CELLS
        rate, burst = (1, 1) if entry % _RED_EVERY == 7 else _UNPOLICED
        for cell in range(base, base + _CELLS):
            yield MeterCell("policer", cell, rate, burst)
        yield TableEntry(
            "classify",
            _keys(entry),
            "police_hashed",
            (("base", base), ("mask", _CELLS - 1), ("watched", 0)),
            1 + entry * 7 % CLASSIFY_ENTRIES,
        )
    yield TableEntry("verdict", (Match("colour", _RED),), "drop_packet", priority=1)
    yield TableEntry(
        "report", (), "report_drops", (("collector", _COLLECTOR), ("session", _REPORT_SESSION)), priority=1
    )
    args = {
        "src_mac": 0x0600_0000_0003,
        "dst_mac": int(collector.mac.replace(":", ""), 16),
        "src": 0x0A0000FE,
        "dst": 0x0A000009,
        "src_port": 32766,
        "dst_port": 32766,
        "node_id": 1,
        "inner_bytes": 128,
    }
    yield TableEntry(
        "collector", (Match("collector", _COLLECTOR),), "set_collector", tuple(sorted(args.items()))
    )


def hosts_only(hosts: list[HostPort]) -> Iterator[Entity]:
    """Forwarding between hosts; an entry whose policer passes everything polices their flows."""
    for host in hosts:
        yield TableEntry(
            "forward",
            (Match("dst", int(host.mac.replace(":", ""), 16)),),
            "set_egress",
            (("port", host.switch_port),),
        )
    cell = CLASSIFY_ENTRIES * _CELLS
    yield MeterCell("policer", cell, *_UNPOLICED)
    args = (("cell", cell), ("watched", 0))
    yield TableEntry("classify", (Match("protocol", 6),), "police_shared", args, 2000)


async def fill(address: str, hosts: list[HostPort]) -> None:
    """Load the pipeline into the switch at `address` and write all entries.

    `hosts` are source, receiver and collector.
    Raises ControlPlaneError.
    """
    source, receiver, collector = hosts
    async with Session(address, 1, 1, 20.0) as session:
        await session.push_pipeline(load_pipeline().schema)
        everything = [*entities(receiver, collector), *hosts_only([source, receiver])]
        # Meters exist from the start, so they are modified; other entities are inserted.
        meters = [entity for entity in everything if isinstance(entity, MeterCell)]
        await session.write("modify", meters)
        await session.write("insert", [entity for entity in everything if not isinstance(entity, MeterCell)])
