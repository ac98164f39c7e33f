# SPDX-License-Identifier: Apache-2.0
"""Reduces a capture to what the analysis reads: times, lengths and the headers up to TCP's options.

Runs on the host with Python 3.9 and its standard library, in memory that does not grow with the capture.
:mod:`weir.testbed.restoring` makes a capture of its output again, without payload and with checksums of 0.

The output has a line of JSON for each block of records, and behind it the columns that the line names with
their compressed sizes. A column has a number for each record of a kind: what cannot be foretold from the
record before, of the same flow where it has one. So a full segment takes a few bytes, most of them its time.
What is not TCP or UDP over plain IP stays as it was captured.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

VERSION = 1
BLOCK_RECORDS = 1 << 16
MAGIC_NS = 0xA1B23C4D  # pcap with nanoseconds (draft-ietf-opsawg-pcap)
ETHERNET = 1
FILE_HEADER, RECORD_HEADER = "IHHiIII", "IIII"
LARGEST_RECORD = 1 << 18

COLUMNS = {
    # Of every record: ns since the record before, and the flow's number, 0 where it has none.
    "time": "q",
    "flow": "I",
    # Of records without a flow: their length on the wire, and their bytes as captured.
    "wire": "I",
    "captured": "I",
    "raw": "B",
    # Of records of a flow: bytes on the wire beyond the IP packet, length field, IP id (IPv6: the checksum).
    "beyond": "i",
    "length": "H",
    "id": "H",
    # Of TCP segments. `seq` counts from the end of the segment before; `ack`, `id`, `window` from theirs.
    "seq": "I",
    "ack": "I",
    "flags": "H",
    "window": "H",
    # 1: the options begin with two NOPs and timestamps, whose values follow.
    "stamped": "B",
    "tsval": "I",
    "tsecr": "I",
    # Other options: their bytes, or the edges of SACK blocks behind two NOPs, against those of the last ACK.
    "options": "B",
    "edges": "B",
    "edge": "I",
    "option": "B",
}
"""The columns and the type of their numbers, as in :mod:`array`."""

TIMESTAMPS, SACK = b"\x01\x01\x08\x0a", b"\x01\x01\x05"
IPV4_BYTES, IPV6_BYTES, LINK_BYTES, TCP_BYTES, UDP_BYTES = 20, 40, 14, 20, 8
TCP, UDP = 6, 17
MOST_EDGES = 8
_IPV4_FIELDS, _IPV6_LENGTH = struct.Struct(">HH"), struct.Struct(">H")
_TCP_FIELDS, _UDP_FIELDS, _STAMPS = struct.Struct(">IIHHH"), struct.Struct(">HH"), struct.Struct(">II")
_16, _32 = (1 << 16) - 1, (1 << 32) - 1

Record = tuple[int, int, bytes]
"""Time in ns, length on the wire, and the bytes that were captured."""


class NotReduced(Exception):
    """The capture cannot be reduced; the text says why."""


def records(file: BinaryIO) -> Iterator[Record]:
    """The records of a pcap as tcpdump writes it. Raises NotReduced."""
    head = file.read(struct.calcsize("<" + FILE_HEADER))
    order = next((one for one in "<>" if head[:4] == struct.pack(one + "I", MAGIC_NS)), None)
    if order is None or len(head) < struct.calcsize("<" + FILE_HEADER):
        raise NotReduced("it is no pcap with nanoseconds")
    link = struct.unpack(order + FILE_HEADER, head)[-1]
    if link != ETHERNET:
        raise NotReduced(f"its link type is {link}; valid: {ETHERNET}, Ethernet")
    entry = struct.Struct(order + RECORD_HEADER)
    size, read = entry.size, file.read
    while True:
        head = read(size)
        if not head:
            return
        if len(head) < size:
            raise NotReduced("it ends inside a record")
        seconds, nanoseconds, captured, wire = entry.unpack(head)
        if captured > LARGEST_RECORD:
            raise NotReduced(f"a record has {captured} bytes")
        frame = read(captured)
        if len(frame) < captured:
            raise NotReduced("it ends inside a record")
        yield seconds * 1_000_000_000 + nanoseconds, wire, frame


class Flow:
    """The values of a flow's last segment, from which those of the next one differ little."""

    __slots__ = ("ack", "edges", "id", "number", "seq", "tsecr", "tsval", "window")

    def __init__(self, number: int) -> None:
        """Begin with zeros."""
        self.number = number
        self.id = self.seq = self.ack = self.window = self.tsval = self.tsecr = 0
        self.edges = [0] * MOST_EDGES


class Block:
    """The columns of some records, and the flows that began among them."""

    def __init__(self) -> None:
        """Begin without a record."""
        self.columns = {name: array(kind) for name, kind in COLUMNS.items()}
        self.append = {name: values.append for name, values in self.columns.items()}
        self.flows: list[str] = []

    def write(self, file: BinaryIO) -> None:
        """Write it."""
        packed = {name: _packed(values) for name, values in self.columns.items()}
        sizes = {name: len(column) for name, column in packed.items()}
        line = {"records": len(self.columns["time"]), "flows": self.flows, "columns": sizes}
        file.write(json.dumps(line).encode() + b"\n")
        for column in packed.values():
            file.write(column)


def _packed(values: Any) -> bytes:
    """Numbers as little-endian bytes, all first bytes before all second ones, compressed."""
    if sys.byteorder == "big":
        values.byteswap()
    whole, width = values.tobytes(), values.itemsize
    return zlib.compress(b"".join(whole[byte::width] for byte in range(width)))


class Reducer:
    """Turns records into blocks."""

    def __init__(self) -> None:
        """Begin without a flow."""
        self.flows: dict[bytes, Flow] = {}
        self.last_ns = 0
        self.block = Block()

    def add(self, record: Record) -> None:
        """Take a record."""
        time_ns, wire, frame = record
        append = self.block.append
        append["time"](time_ns - self.last_ns)
        self.last_ns = time_ns
        if not self._of_flow(wire, frame):
            append["flow"](0)
            append["wire"](wire)
            append["captured"](len(frame))
            self.block.columns["raw"].frombytes(frame)

    def _of_flow(self, wire: int, frame: bytes) -> bool:
        """Take a frame of TCP or UDP over plain IP; False for any other one."""
        kind = frame[12:15]
        if kind == b"\x08\x00\x45":
            if len(frame) < LINK_BYTES + IPV4_BYTES or frame[20] & 0x3F or frame[21]:  # a fragment
                return False
            protocol, at = frame[23], LINK_BYTES + IPV4_BYTES
            length, number = _IPV4_FIELDS.unpack_from(frame, 16)
            rest = length - IPV4_BYTES
            key = frame[:16] + frame[20:24] + frame[26 : at + 4]
        elif kind[:2] == b"\x86\xdd" and kind[2:] and kind[2] >> 4 == 6:
            if len(frame) < LINK_BYTES + IPV6_BYTES + UDP_BYTES:
                return False
            protocol, at = frame[20], LINK_BYTES + IPV6_BYTES
            (length,) = _IPV6_LENGTH.unpack_from(frame, 18)
            number, rest = -1, length
            key = frame[:18] + frame[20 : at + 4]
        else:
            return False
        if protocol == TCP:
            if len(frame) < at + TCP_BYTES:
                return False
            seq, ack, flags, window, checksum = _TCP_FIELDS.unpack_from(frame, at + 4)
            header = (flags >> 12) * 4
            if header < TCP_BYTES or header > rest or len(frame) < at + header:
                return False
            key += frame[at + 18 : at + TCP_BYTES]  # the urgent pointer, which hardly anybody sets
        elif protocol == UDP:
            if len(frame) < at + UDP_BYTES:
                return False
            size, checksum = _UDP_FIELDS.unpack_from(frame, at + 4)
            if size != rest:
                return False
        else:
            return False
        flow = self.flows.get(key)
        if flow is None:
            flow = self.flows[key] = Flow(len(self.flows) + 1)
            self.block.flows.append(key.hex())
        if number < 0:
            number = checksum  # without an id, the analysis tells packets apart by it
        append = self.block.append
        append["flow"](flow.number)
        append["beyond"](wire - at - rest)
        append["length"](length)
        append["id"]((number - flow.id) & _16)
        flow.id = number
        if protocol == UDP:
            return True
        append["seq"]((seq - flow.seq) & _32)
        flow.seq = seq + rest - header
        append["ack"]((ack - flow.ack) & _32)
        flow.ack = ack
        append["flags"](flags)
        append["window"]((window - flow.window) & _16)
        flow.window = window
        self._options(flow, frame[at + TCP_BYTES : at + header])
        return True

    def _options(self, flow: Flow, options: bytes) -> None:
        append = self.block.append
        stamped = options[:4] == TIMESTAMPS and len(options) >= 12
        append["stamped"](stamped)
        if stamped:
            tsval, tsecr = _STAMPS.unpack_from(options, 4)
            append["tsval"]((tsval - flow.tsval) & _32)
            append["tsecr"]((tsecr - flow.tsecr) & _32)
            flow.tsval, flow.tsecr = tsval, tsecr
            options = options[12:]
        length = len(options)
        edges = (length - 4) // 4
        if options[:3] == SACK and length == options[3] + 2 == 4 + 4 * edges and 0 < edges <= MOST_EDGES:
            append["options"](0)
            append["edges"](edges)
            for place, edge in enumerate(struct.unpack_from(f">{edges}I", options, 4)):
                append["edge"]((edge - flow.edges[place]) & _32)
                flow.edges[place] = edge
            return
        append["options"](length)
        append["edges"](0)
        self.block.columns["option"].frombytes(options)


def reduce(source: BinaryIO, target: BinaryIO) -> None:
    """Reduce a capture. Raises NotReduced."""
    reducer, count = Reducer(), 0
    target.write(json.dumps({"weir-headers": VERSION}).encode() + b"\n")
    for record in records(source):
        reducer.add(record)
        count += 1
        if count % BLOCK_RECORDS == 0:
            reducer.block.write(target)
            reducer.block = Block()
    reducer.block.write(target)
    target.write(json.dumps({"end": count, "bytes": source.tell()}).encode() + b"\n")


def run() -> None:
    """Reduce the file NAME to NAME.headers and delete it; what was done before a lost connection stays."""
    source = Path(sys.argv[1])
    target, part = (source.with_name(source.name + end) for end in (".headers", ".unfinished"))
    if source.exists():
        try:
            with source.open("rb") as capture, part.open("wb") as file:
                reduce(capture, file)
            part.replace(target)
            source.unlink()
        except (NotReduced, OSError) as error:
            sys.exit(f"{source}: {error}")
