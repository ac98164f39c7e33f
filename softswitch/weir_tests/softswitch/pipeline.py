# SPDX-License-Identifier: Apache-2.0
"""weir's pipeline on a virtual switch: one policer, whose verdicts show in egress frames and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from finsy.p4entity import encode_entities
from finsy.proto import p4i, p4r

from weir.controlplane.entities import CloneSession, Entity, Match, TableEntry
from weir.controlplane.pipeline import Pipeline, load_pipeline
from weir.controlplane.translate import to_finsy
from weir.softswitch.events import SentFrame
from weir.softswitch.switch import VirtualSwitch
from weir_tests.softswitch.token_buckets import Colour, Config

CLIENT_MAC, SERVER_MAC = 0x0200_0000_0001, 0x0200_0000_0002
SENDING, RECEIVING, COLLECTING = 1, 2, 3
"""Ports of the switch."""
CELL = 7
_SESSION = 5
_HEADERS_BYTES = 14 + 20
_INNER_BYTES = 128
_DOMAIN_BYTES = 12
"""Domain metadata of a report: cell, colour, reserved, length, number (telemetry-report.md)."""


def frame(length_bytes: int, number: int) -> bytes:
    """An IPv4 frame from the server to the client that carries a number."""
    ethernet = CLIENT_MAC.to_bytes(6, "big") + SERVER_MAC.to_bytes(6, "big") + b"\x08\x00"
    length = min(length_bytes - 14, 0xFFFF).to_bytes(2, "big")
    ipv4 = b"\x45\x00" + length + b"\0\0\x40\0\x40\xfd\0\0" + bytes([10, 0, 0, 2, 10, 0, 0, 1])
    body = number.to_bytes(8, "big")
    return ethernet + ipv4 + body + bytes(length_bytes - _HEADERS_BYTES - len(body))


def _entries() -> list[Entity]:
    collector = {
        "src_mac": 0x0200_0000_0901,
        "dst_mac": 0x0200_0000_0902,
        "src": 0x0A00_0008,
        "dst": 0x0A00_0009,
        "src_port": 0x1234,
        "dst_port": 0x7FFE,
        "node_id": 1,
        "inner_bytes": _INNER_BYTES,
    }
    return [
        TableEntry("forward", (Match("dst", CLIENT_MAC),), "set_egress", (("port", RECEIVING),)),
        TableEntry("classify", (), "police_shared", (("cell", CELL), ("watched", 0)), priority=1),
        # Only green passes; the reports of the others contain the colour.
        TableEntry("verdict", (Match("colour", Colour.YELLOW),), "drop_packet", priority=1),
        TableEntry("verdict", (Match("colour", Colour.RED),), "drop_packet", priority=1),
        TableEntry("report", (), "report_drops", (("collector", 1), ("session", _SESSION)), priority=1),
        TableEntry("collector", (Match("collector", 1),), "set_collector", tuple(sorted(collector.items()))),
        CloneSession(_SESSION, (COLLECTING,)),
    ]


def write_request() -> p4r.WriteRequest:
    """Entries that police all IPv4 in one cell; green passes, the rest is reported. The meter is not set."""
    schema = load_pipeline().schema
    encoded = encode_entities([to_finsy(entity) for entity in _entries()], schema)
    updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in encoded]
    return p4r.WriteRequest(device_id=1, updates=updates)


@dataclass
class PolicingSwitch:
    """A switch that polices all IPv4 in one cell."""

    switch: VirtualSwitch
    pipeline: Pipeline

    @classmethod
    def start(cls, kind: p4i.MeterSpec.Type.ValueType, config: Config, seed: int) -> PolicingSwitch:
        """Start weir's pipeline with a meter of type ``kind``, configured through P4Runtime."""
        pipeline = load_pipeline()
        p4info = p4i.P4Info.FromString(pipeline.schema.p4info.SerializeToString())
        (policer,) = p4info.meters
        policer.spec.type = kind
        switch = VirtualSwitch([SENDING, RECEIVING, COLLECTING], seed=seed)
        switch.set_pipeline(p4info, pipeline.path.read_bytes())
        switch.write(write_request())
        single = kind != p4i.MeterSpec.TWO_RATE_THREE_COLOR
        cell = p4r.MeterEntry(
            meter_id=policer.preamble.id,
            index=p4r.Index(index=CELL),
            config=p4r.MeterConfig(
                cir=config.cir,
                cburst=config.cbs,
                pir=config.cir if single else config.pir,
                pburst=config.cbs if single else config.pbs,
                eburst=config.ebs,
            ),
        )
        switch.modify(p4r.Entity(meter_entry=cell))
        return cls(switch, pipeline)

    def colours(self, arrivals: Sequence[tuple[int, int]]) -> list[Colour]:
        """The colour of each packet: green ones were forwarded, others dropped and reported."""
        packets = [(SENDING, frame(length, at), time_ns) for at, (time_ns, length) in enumerate(arrivals)]
        found: dict[int, Colour] = {}
        for event in self.switch.process_batch(packets):
            assert isinstance(event, SentFrame), event
            number, colour = _verdict(event)
            assert number not in found, f"packet {number} left twice"
            found[number] = colour
            assert event.time_ns == arrivals[number][0]
        assert found.keys() == set(range(len(arrivals))), "a packet left no trace"
        return [found[number] for number in range(len(arrivals))]

    def counted(self) -> list[int]:
        """Packets per colour, by the program's counter."""
        counter = self.pipeline.schema.counters["policer_counter"]
        entries = [
            p4r.Entity(
                counter_entry=p4r.CounterEntry(
                    counter_id=counter.id, index=p4r.Index(index=CELL << 2 | colour)
                )
            )
            for colour in Colour
        ]
        read = self.switch.read(p4r.ReadRequest(device_id=self.switch.device_id, entities=entries))
        return [entity.counter_entry.data.packet_count for entity in read]


def _verdict(event: SentFrame) -> tuple[int, Colour]:
    """Number and colour of a packet, from the forwarded frame or the report."""
    if event.port == RECEIVING:
        return int.from_bytes(event.frame[_HEADERS_BYTES : _HEADERS_BYTES + 8], "big"), Colour.GREEN
    assert event.port == COLLECTING
    # The report ends with the inner packet; the report's own MAC addresses differ.
    inner = event.frame.rindex(CLIENT_MAC.to_bytes(6, "big") + SERVER_MAC.to_bytes(6, "big"))
    domain = event.frame[inner - _DOMAIN_BYTES : inner]
    assert int.from_bytes(domain[:2], "big") == CELL
    number = int.from_bytes(event.frame[inner + _HEADERS_BYTES : inner + _HEADERS_BYTES + 8], "big")
    assert int.from_bytes(domain[8:], "big") == number + 1, "the program numbers packets from 1"
    return number, Colour(domain[2])
