# SPDX-License-Identifier: Apache-2.0
"""Writes the capture files and telemetry.parquet of a simulated TCP transfer with chosen losses.

A sender paces segments over a path of 10 ms each way. The receiver acknowledges each one (cumulatively, with
SACK). A segment is retransmitted once three later ones are acknowledged, or after a timeout. The switch drops
the chosen transmissions 20 µs after they were sent and reports each with its first 128 bytes.
"""

from __future__ import annotations

import heapq
import ipaddress
import json
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

EPOCH_NS = 1_760_000_000_000_000_000
SWITCH_ZERO_NS = EPOCH_NS - 1_000_000_000
MSS, DELAY_NS, PACE_NS, RTO_NS = 1448, 10_000_000, 1_000_000, 250_000_000
SYN, ACK = 2, 16

REPORT_SCHEMA = pa.schema(
    [
        ("received_ns", pa.int64()),
        ("node_id", pa.uint32()),
        ("hw_id", pa.uint8()),
        ("sequence", pa.uint32()),
        ("dropped", pa.bool_()),
        ("congested", pa.bool_()),
        ("tracked", pa.bool_()),
        ("queue_id", pa.uint8()),
        ("queue_occupancy", pa.uint32()),
        ("ingress_ns", pa.uint64()),
        ("egress_ns", pa.uint64()),
        ("drop_reason", pa.uint8()),
        ("policer", pa.uint16()),
        ("colour", pa.uint8()),
        ("wire_length", pa.uint32()),
        ("packet_number", pa.uint32()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("src_port", pa.uint16()),
        ("dst_port", pa.uint16()),
        ("protocol", pa.uint8()),
        ("inner", pa.binary()),
    ]
)


def checksum(data: bytes) -> int:
    """The Internet checksum, RFC 1071."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tsval(frame: bytes) -> int:
    """The timestamp of a frame of this module, whose options begin with it."""
    value: int = struct.unpack_from("!I", frame, 14 + 20 + 20 + 4)[0]
    return value


@dataclass
class Host:
    """One end: its address, port, capture, the next IP identification, and the last TSval that arrived."""

    address: str
    port: int
    records: list[tuple[int, bytes]] = field(default_factory=list)
    identification: int = 1
    recent: int = 0

    def write(self, path: Path) -> None:
        """Write the capture: nanosecond pcap, Ethernet."""
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 1))
            for at_ns, frame in sorted(self.records, key=lambda record: record[0]):
                head = struct.pack("<IIII", *divmod(at_ns, 10**9), min(len(frame), 96), len(frame))
                file.write(head + frame[:96])


@dataclass
class Transfer:
    """The simulation; `drop` holds the numbers of the dropped transmissions, from 0.

    With `initial_seq`, that of both ends, the captures have their SYNs, too; without, the first segment has
    number 1.
    """

    segments: int
    drop: Collection[int]
    sender: Host
    receiver: Host
    start_ns: int = EPOCH_NS
    initial_seq: int | None = None
    reports: list[dict[str, object]] = field(default_factory=list)
    transmissions: int = 0
    green_bytes: int = 0
    _events: list[tuple[int, int, Callable[[int], None]]] = field(default_factory=list)
    _order: int = 0
    _outstanding: dict[int, int] = field(default_factory=dict)
    _arrived: list[int] = field(default_factory=list)
    _got: set[int] = field(default_factory=set)
    _acked: int = 0

    def run(self) -> Transfer:
        """Simulate from the first segment to the last acknowledgment."""
        if self.initial_seq is not None:
            sent_ns = self.start_ns - 2 * DELAY_NS
            syn = self._frame(self.sender, self.receiver, sent_ns, self.initial_seq, 0, 0, flags=SYN)
            self.sender.records.append((sent_ns, syn))
            self.receiver.records.append((sent_ns + DELAY_NS, syn))
            self.receiver.recent = tsval(syn)
            answer_ns = sent_ns + DELAY_NS
            answer = self._frame(
                self.receiver, self.sender, answer_ns, self.initial_seq, self._seq(0), 0, flags=SYN | ACK
            )
            self.receiver.records.append((answer_ns, answer))
            self.sender.records.append((answer_ns + DELAY_NS, answer))
        for i in range(self.segments):
            self._at(self.start_ns + i * PACE_NS, partial(self._send, index=i))
        while self._events:
            now, _, action = heapq.heappop(self._events)
            action(now)
        return self

    def _at(self, when_ns: int, action: Callable[[int], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when_ns, self._order, action))

    def _seq(self, index: int) -> int:
        return (self.initial_seq or 0) + 1 + index * MSS

    def _send(self, now: int, index: int) -> None:
        frame = self._frame(self.sender, self.receiver, now, self._seq(index), self._seq(0), MSS)
        self.sender.records.append((now, frame))
        number = self.transmissions
        self.transmissions += 1
        self._outstanding[index] = number
        if number in self.drop:
            self._report(now, frame)
        else:
            self.green_bytes += len(frame)
            self._at(now + DELAY_NS, lambda at: self._arrive(at, index, number, frame))
        self._at(now + RTO_NS, lambda at: self._timeout(at, index, number))

    def _timeout(self, now: int, index: int, number: int) -> None:
        if self._outstanding.get(index) == number:
            self._send(now, index)

    def _arrive(self, now: int, index: int, number: int, frame: bytes) -> None:
        self.receiver.records.append((now, frame))
        self.receiver.recent = tsval(frame)
        self._got.add(index)
        while self._acked in self._got:
            self._acked += 1
        acked = self._acked
        sacks = [] if index < acked else [(self._seq(index), self._seq(index + 1))]
        answer = self._frame(self.receiver, self.sender, now, self._seq(0), self._seq(acked), 0, sacks)
        self.receiver.records.append((now, answer))
        self._at(now + DELAY_NS, lambda at: self._acknowledged(at, acked, index, number, answer))

    def _acknowledged(self, now: int, upto: int, index: int, number: int, frame: bytes) -> None:
        self.sender.records.append((now, frame))
        self.sender.recent = tsval(frame)
        self._arrived.append(number)
        for done in [i for i in self._outstanding if i < upto or i == index]:
            del self._outstanding[done]
        for other, sent in sorted(self._outstanding.items()):
            # Lost when three later transmissions have arrived (as RACK, RFC 8985, without its timer).
            if sum(later > sent for later in self._arrived) >= 3:
                self._send(now, other)

    def _report(self, now: int, frame: bytes) -> None:
        self.reports.append(
            {
                "received_ns": now + 200_000,
                "node_id": 1,
                "hw_id": 0,
                "sequence": len(self.reports),
                "dropped": True,
                "congested": False,
                "tracked": False,
                "ingress_ns": (now + 20_000 - SWITCH_ZERO_NS) // 1000 * 1000,
                "egress_ns": 0,
                "drop_reason": 70,
                "policer": 0,
                "colour": 2,
                "wire_length": len(frame),
                "packet_number": self.transmissions,
                "src": self.sender.address,
                "dst": self.receiver.address,
                "src_port": self.sender.port,
                "dst_port": self.receiver.port,
                "protocol": 6,
                "inner": frame[:128],
            }
        )

    def _frame(
        self,
        src: Host,
        dst: Host,
        now: int,
        seq: int,
        ack: int,
        payload: int,
        sacks: Collection[tuple[int, int]] = (),
        flags: int = ACK,
    ) -> bytes:
        stamp = (now - EPOCH_NS) // 1_000_000 + 1
        options = struct.pack("!BBBBII", 1, 1, 8, 10, stamp, src.recent)
        if sacks:
            options += struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(sacks))
            options += b"".join(struct.pack("!II", *block) for block in sacks)
        body = bytes(payload)
        tcp = struct.pack(
            "!HHIIBBHHH", src.port, dst.port, seq, ack, (20 + len(options)) // 4 << 4, flags, 512, 0, 0
        )
        addresses = ipaddress.ip_address(src.address).packed + ipaddress.ip_address(dst.address).packed
        length = 20 + len(tcp) + len(options) + len(body)
        head = (
            struct.pack("!BBHHHBBH", 0x45, 0, length, src.identification & 0xFFFF, 0x4000, 64, 6, 0)
            + addresses
        )
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
        src.identification += 1
        return bytes(12) + b"\x08\x00" + head + tcp + options + body


def write_run(run_dir: Path, segments: int = 400, drop: Collection[int] = (20, 50, 51, 120)) -> Transfer:
    """Write the run directory of one transfer through one policer; returns the finished simulation."""
    server, client = Host("10.0.0.2", 40_000), Host("10.0.0.1", 5_201)
    transfer = Transfer(segments, drop, server, client).run()
    (run_dir / "pcap").mkdir(parents=True, exist_ok=True)
    server.write(run_dir / "pcap" / "server.pcap")
    client.write(run_dir / "pcap" / "client.pcap")
    pq.write_table(
        pa.Table.from_pylist(transfer.reports, REPORT_SCHEMA),
        run_dir / "telemetry.parquet",
        compression="none",
    )
    dropped = len(transfer.reports)
    green = transfer.transmissions - dropped
    frame = 14 + 20 + 32 + MSS
    flow = {
        **{"id": "main/flow", "name": "flow", "src_host": "server", "dst_host": "client"},
        **{"src": server.address, "dst": client.address, "src_port": server.port, "dst_port": client.port},
        **{"protocol": 6, "cc": "cubic", "measured": True, "policer": "only"},
    }
    policer = {
        **{"name": "only", "index": 0, "cells": 1, "rate_bps": 40e6, "burst_bytes": 100_000},
        "counters": {
            "green": {"packets": green, "bytes": transfer.green_bytes},
            "red": {"packets": dropped, "bytes": dropped * frame},
        },
        "packets_met": transfer.transmissions,
    }
    phase = {
        "name": "main",
        "start_ns": EPOCH_NS,
        "end_ns": EPOCH_NS + segments * PACE_NS + 2_000_000_000,
        "policers": [policer],
        "flows": [flow],
        "pairs": [],
    }
    hosts = [
        {"name": name, "addresses": [host.address], "pcap": f"pcap/{name}.pcap", "capture_drops": 0}
        for name, host in (("server", server), ("client", client))
    ]
    manifest = {
        **{"schema": 1, "name": "transfer", "run_id": "1", "complete": True, "state": "complete"},
        **{"phases": [phase], "hosts": hosts, "switch": {"stats": {"ports": []}, "reports_sent": dropped}},
    }
    collector = {"schema": 1, "received": dropped, "complete": True}
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    (run_dir / "collector.json").write_text(json.dumps(collector))
    return transfer
