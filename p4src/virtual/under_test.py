# SPDX-License-Identifier: Apache-2.0
"""The compiled pipeline on a switch in virtual time: write entries by name, read frames, counters,
digests."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from finsy.p4entity import encode_entities
from finsy.proto import p4i, p4r

from weir.controlplane.entities import CloneSession, Entity, Match, MeterCell, MulticastGroup, TableEntry
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.translate import to_finsy
from weir.softswitch import VirtualSwitch
from weir.softswitch.events import ControllerMessage, Event, SentFrame

SENDING, RECEIVING, COLLECTING, SECOND_COLLECTING = 1, 2, 3, 4
GREEN, YELLOW, RED = 0, 1, 2
SESSION, SECOND_SESSION = 5, 6
COLLECTOR, SECOND_COLLECTOR = 1, 2
CELL = 7
ALL_CELLS = 0
CLIENT, OTHER = 0x0200_0000_0001, 0x0200_0000_0009
OUTER_BYTES = 14 + 20 + 8
Key = int | tuple[int, int]


def entry(
    table: str, action: str, keys: Mapping[str, Key] | None = None, priority: int = 0, **args: int
) -> TableEntry:
    """An entry; a key of two numbers is a value and a mask."""
    matches = [
        Match(name, value) if isinstance(value, int) else Match(name, *value)
        for name, value in sorted((keys or {}).items())
    ]
    return TableEntry(table, tuple(matches), action, tuple(sorted(args.items())), priority)


def collector(number: int, inner_bytes: int = 128) -> TableEntry:
    """A collector whose addresses end with its number."""
    return entry(
        "collector",
        "set_collector",
        {"collector": number},
        src_mac=0x0200_0000_0900 | number,
        dst_mac=0x0200_0000_0A00 | number,
        src=0x0A00_00FE,
        dst=0x0A00_0100 | number,
        src_port=32766,
        dst_port=32766,
        node_id=1,
        inner_bytes=inner_bytes,
    )


@dataclass(frozen=True)
class Report:
    """The fields of a report, decoded by hand from docs/spec/telemetry-report.md."""

    time_ns: int
    port: int
    sequence: int
    dropped: int
    congested: int
    tracked: int
    queue_id: int
    queue_occupancy: int
    ingress_ns: int
    egress_ns: int
    drop_reason: int
    policer: int
    colour: int
    wire_length: int
    packet_number: int
    queue_lost: int | None
    inner: bytes

    @classmethod
    def of(cls, event: SentFrame) -> Report:
        """Decode a report, and assert the fields that are the same in every report."""
        frame = event.frame
        assert frame[12:14] == b"\x08\x00"
        total_length, udp_length = struct.unpack("!H", frame[16:18])[0], struct.unpack("!H", frame[38:40])[0]
        assert (total_length, udp_length) == (len(frame) - 14, len(frame) - 34)
        data = frame[OUTER_BYTES:]
        group, node, kind, length, words, flags = struct.unpack("!IIBBBB", data[:12])
        assert (group >> 22, node, kind) == (2 << 6, 1, 0x13)
        md_bits, domain, ds_bits, status = struct.unpack("!HHHH", data[12:20])
        assert (md_bits, domain, status) == (0x1C01, 0x5745, 0)
        queue, ingress_ns, egress_ns, drop, policer, colour, _, wire, number = struct.unpack(
            "!IQQIHBBII", data[20:56]
        )
        assert drop >> 24 == queue >> 24, "queue_id and drop queue_id are the same"
        assert {9: 0xE000, 10: 0xF000}[words] == ds_bits
        start = 20 + 4 * words
        assert length == min(255, 2 + words + -(-len(data[start:]) // 4))
        return cls(
            event.time_ns,
            event.port,
            group & 0x3FFFFF,
            flags >> 7,
            flags >> 6 & 1,
            flags >> 5 & 1,
            queue >> 24,
            queue & 0xFFFFFF,
            ingress_ns,
            egress_ns,
            drop >> 16 & 0xFF,
            policer,
            colour,
            wire,
            number,
            struct.unpack("!I", data[56:60])[0] if words == 10 else None,
            data[start:],
        )


class PipelineUnderTest:
    """A switch with the pipeline, the client at port RECEIVING, and a collector at COLLECTING."""

    def __init__(
        self,
        *entities: Entity,
        ports: Mapping[int, str] | None = None,
        policer: p4i.MeterSpec.Type.ValueType | None = None,
        alone: bool = False,
    ) -> None:
        """Write `entities`, and unless `alone` also the forwarding and reporting that every test uses."""
        self.pipeline = load_pipeline(policer=policer)
        self.switch = VirtualSwitch(dict.fromkeys(range(1, 6), "") | dict(ports or {}))
        self.switch.set_pipeline(self.pipeline.schema.p4info, self.pipeline.path.read_bytes())
        if alone:
            self.write(*entities)
            return
        self.write(
            collector(COLLECTOR),
            CloneSession(SESSION, (COLLECTING,)),
            MulticastGroup(1, (SENDING, RECEIVING, COLLECTING)),
            entry("report", "report_drops", priority=1, session=SESSION, collector=COLLECTOR),
            *([] if any(_forwards(one) for one in entities) else [forward()]),
            *entities,
        )

    def write(self, *entities: Entity) -> None:
        """Insert entities; cells of meters always exist and are modified."""
        for one in entities:
            self._update(p4r.Update.MODIFY if isinstance(one, MeterCell) else p4r.Update.INSERT, one)

    def delete(self, entity: Entity) -> None:
        """Delete an entity."""
        self._update(p4r.Update.DELETE, entity)

    def _update(self, kind: p4r.Update.Type.ValueType, one: Entity) -> None:
        (encoded,) = encode_entities([to_finsy(one)], self.pipeline.schema)
        update = p4r.Update(type=kind, entity=encoded)
        self.switch.write(p4r.WriteRequest(device_id=1, updates=[update]))

    def meter(self, **config: int) -> None:
        """Configure the cell with P4Runtime's fields: cir, cburst, pir, pburst, eburst."""
        meter = self.pipeline.schema.meters["policer"]
        cell = p4r.MeterEntry(
            meter_id=meter.id, index=p4r.Index(index=CELL), config=p4r.MeterConfig(**config)
        )
        self.switch.modify(p4r.Entity(meter_entry=cell))

    def meter_all(self, committed_burst_bytes: int, peak_burst_bytes: int) -> None:
        """Configure every cell of a two-rate meter at the lowest rates: the bursts decide."""
        config = p4r.MeterConfig(cir=1, cburst=committed_burst_bytes, pir=1, pburst=peak_burst_bytes)
        meter = self.pipeline.schema.meters["policer"]
        self.switch.modify(p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=meter.id, config=config)))

    def send(self, frame: bytes, time_ns: int | None = None, port: int = SENDING) -> list[Event]:
        """Let a frame arrive at `time_ns`, by default now; returns the events that it caused."""
        return self.switch.process(port, frame, self.switch.now_ns if time_ns is None else time_ns)

    def passed(self, frame: bytes, time_ns: int | None = None) -> list[bytes]:
        """Send a frame; the frames that leave to the client."""
        return [event.frame for event in frames(self.send(frame, time_ns)) if event.port == RECEIVING]

    def count(self, counter: str, index: int) -> tuple[int, int]:
        """Packets and bytes of one counter."""
        wanted = p4r.CounterEntry(
            counter_id=self.pipeline.schema.counters[counter].id, index=p4r.Index(index=index)
        )
        (read,) = self.switch.read(p4r.ReadRequest(device_id=1, entities=[p4r.Entity(counter_entry=wanted)]))
        return read.counter_entry.data.packet_count, read.counter_entry.data.byte_count

    def packets(self, counter: str, index: int) -> int:
        """Packets of one counter."""
        return self.count(counter, index)[0]

    def colours(self, cell: int = CELL) -> tuple[int, int, int]:
        """Packets per colour of a cell; asserts that their sum is the number of packets that met it."""
        found = [self.packets("policer_counter", cell << 2 | colour) for colour in range(4)]
        assert found[3] == 0
        assert sum(found) == self.packets("met_counter", cell)
        return found[0], found[1], found[2]

    def enable_digests(self) -> None:
        """Announce each new flow at once."""
        entities = [
            p4r.Entity(
                digest_entry=p4r.DigestEntry(
                    digest_id=digest.id,
                    config=p4r.DigestEntry.Config(max_timeout_ns=0, max_list_size=1, ack_timeout_ns=0),
                )
            )
            for digest in self.pipeline.schema.digests
        ]
        self.switch.insert(*entities)


def _forwards(entity: Entity) -> bool:
    return isinstance(entity, TableEntry) and entity.table == "forward"


def forward(action: str = "set_egress", port: int = RECEIVING) -> TableEntry:
    """The client is reached through a port."""
    return entry("forward", action, {"dst": CLIENT}, port=port)


def shared(
    table: str = "classify", keys: Mapping[str, Key] | None = None, cell: int = CELL, **more: int
) -> TableEntry:
    """Matching packets meet one cell."""
    return entry(
        table, "police_shared", keys, more.pop("priority", 1), cell=cell, watched=more.pop("watched", 0)
    )


def drop(colour: int = RED) -> TableEntry:
    """Packets of a colour are dropped, in every cell."""
    return entry("verdict", "drop_packet", {"colour": colour}, 1)


def frames(events: list[Event]) -> list[SentFrame]:
    """Frames that left."""
    return [event for event in events if isinstance(event, SentFrame)]


def reports(events: list[Event]) -> list[Report]:
    """Reports that left to either collector."""
    ports = (COLLECTING, SECOND_COLLECTING)
    return [Report.of(event) for event in frames(events) if event.port in ports]


def digests(events: list[Event]) -> list[tuple[bytes, ...]]:
    """Members of the digests among the events."""
    found = []
    for event in events:
        if isinstance(event, ControllerMessage):
            for data in event.message.digest.data:
                found.append(tuple(member.bitstring for member in data.struct.members))
    return found
