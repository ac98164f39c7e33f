# SPDX-License-Identifier: Apache-2.0
"""Makes captures of what :mod:`weir.testbed.remote.headers` has kept of them: the same records, times and
headers, without payload and with checksums of 0."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from weir.testbed.remote.headers import (
    COLUMNS,
    ETHERNET,
    FILE_HEADER,
    IPV4_BYTES,
    IPV6_BYTES,
    LARGEST_RECORD,
    LINK_BYTES,
    MAGIC_NS,
    MOST_EDGES,
    SACK,
    TCP,
    TCP_BYTES,
    TIMESTAMPS,
    UDP_BYTES,
    VERSION,
)

_RECORD_BYTES = 16
_NS = 1_000_000_000
Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]


class DamagedError(ValueError):
    """The file is not what the host's program writes; the text says what is wrong."""


def restore(headers: Path, capture: Path) -> int:
    """Write the capture; returns the bytes of the one on the host. Raises DamagedError and OSError."""
    with headers.open("rb") as source, capture.open("wb") as target:
        try:
            return _restored(source, target)
        except (ValueError, KeyError, IndexError, TypeError, zlib.error) as error:
            raise DamagedError(f"{headers.name}: {type(error).__name__}: {error}") from error


def _restored(source: BinaryIO, target: BinaryIO) -> int:
    if json.loads(source.readline()) != {"weir-headers": VERSION}:
        raise ValueError("it does not begin as headers of a capture do")
    target.write(struct.pack("<" + FILE_HEADER, MAGIC_NS, 2, 4, 0, 0, LARGEST_RECORD, ETHERNET))
    flows, count = _Flows(), 0
    while "end" not in (line := json.loads(source.readline())):
        columns = {name: _unpacked(COLUMNS[name], source.read(line["columns"][name])) for name in COLUMNS}
        flows.add(line["flows"])
        target.write(_records(columns, flows).tobytes())
        count += line["records"]
    if line["end"] != count:
        raise ValueError(f"{count} of {line['end']} records")
    return int(line["bytes"])


def _unpacked(kind: str, packed: bytes) -> Ints:
    """The numbers of a column."""
    whole = np.frombuffer(zlib.decompress(packed), np.uint8)
    number = np.dtype(kind).newbyteorder("<")
    by_byte = whole.reshape(number.itemsize, -1)
    return np.ascontiguousarray(by_byte.T).view(number).ravel().astype(np.int64)


class _Flows:
    """What is equal in all packets of a flow, and the values of its last ones; its number is the index."""

    def __init__(self) -> None:
        self.templates: list[bytes] = [b""]
        self.transport = np.zeros(1, np.int64)
        """Where the transport header begins."""
        self.is_tcp = np.zeros(1, bool)
        self._last: dict[str, Ints] = {}
        self.time_ns = 0

    def add(self, keys: list[str]) -> None:
        """Add flows that begin."""
        for key in map(bytes.fromhex, keys):
            if key[12:14] == b"\x08\x00":
                head, protocol = key[:16] + bytes(4) + key[16:20] + bytes(2) + key[20:32], key[19]
                urgent, at = key[32:], LINK_BYTES + IPV4_BYTES
            else:
                head, protocol = key[:18] + bytes(2) + key[18:56], key[18]
                urgent, at = key[56:], LINK_BYTES + IPV6_BYTES
            is_tcp = protocol == TCP
            rest = bytes(TCP_BYTES - 4 - 2) + urgent if is_tcp else bytes(UDP_BYTES - 4)
            self.templates.append(head + rest)
            self.transport = np.append(self.transport, at)
            self.is_tcp = np.append(self.is_tcp, is_tcp)

    def chained(self, name: str, of: Ints, steps: Ints, bits: int) -> Ints:
        """The values of a column from the steps between them, each in the chain whose number is in `of`."""
        size = max(int(of.max(initial=0)) + 1, len(self.templates) * MOST_EDGES)
        last = self._last.get(name, np.zeros(0, np.int64))
        last = np.append(last, np.zeros(max(0, size - len(last)), np.int64))
        order = np.argsort(of, kind="stable")
        chain = of[order]
        sums = np.cumsum(steps[order])
        first = np.flatnonzero(np.r_[True, chain[1:] != chain[:-1]]) if len(chain) else order
        before = np.r_[0, sums][first]
        lengths = np.diff(np.r_[first, len(chain)])
        values = np.empty_like(steps)
        values[order] = (sums + np.repeat(last[chain[first]] - before, lengths)) % (1 << bits)
        last[chain[first]] = values[order][first + lengths - 1]
        self._last[name] = last
        return values


def _records(columns: Mapping[str, Ints], flows: _Flows) -> _Bytes:
    """The records of a block as bytes of a pcap."""
    number = columns["flow"]
    time_ns = flows.time_ns + np.cumsum(columns["time"])
    flows.time_ns = int(time_ns[-1]) if len(time_ns) else flows.time_ns
    is_raw = number == 0
    is_tcp = flows.is_tcp[number]
    its = number[~is_raw]
    transport = flows.transport[number]
    # The length field counts the IPv4 header, too.
    payload = columns["length"] - np.where(flows.transport[its] == LINK_BYTES + IPV4_BYTES, IPV4_BYTES, 0)
    captured, wire = np.empty_like(number), np.empty_like(number)
    captured[is_raw], wire[is_raw] = columns["captured"], columns["wire"]
    wire[~is_raw] = transport[~is_raw] + payload + columns["beyond"]
    captured[~is_raw] = transport[~is_raw] + UDP_BYTES
    header = (columns["flags"] >> 12) * 4
    captured[is_tcp] = transport[is_tcp] + header
    ends = np.cumsum(captured + _RECORD_BYTES)
    at = ends - captured - _RECORD_BYTES
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for field, values in enumerate((time_ns // _NS, time_ns % _NS, captured, wire)):
        _put(out, at + 4 * field, values, 4, little=True)
    frame = at + _RECORD_BYTES
    out[_ranges(frame[is_raw], columns["captured"])] = columns["raw"]
    _templates(out, frame, number, flows)
    chained = _Chains(flows, its)
    ids = chained.of("id", columns["id"], 16)
    is_4 = flows.transport[its] == LINK_BYTES + IPV4_BYTES
    ip = frame[~is_raw] + LINK_BYTES
    _put(out, ip + np.where(is_4, 2, 4), columns["length"], 2)
    _put(out, ip[is_4] + 4, ids[is_4], 2)
    of_tcp = is_tcp[~is_raw]
    behind = frame[~is_raw] + flows.transport[its]
    _put(out, behind[~of_tcp] + 4, payload[~of_tcp], 2)
    checksum = behind + np.where(of_tcp, 16, 6)
    _put(out, checksum[~is_4], ids[~is_4], 2)
    _tcp(out, behind[of_tcp], payload[of_tcp] - header, columns, _Chains(flows, its[of_tcp]))
    return out


class _Chains:
    """The values of the packets of some flows."""

    def __init__(self, flows: _Flows, its: Ints) -> None:
        self.flows, self.its = flows, its

    def of(self, name: str, steps: Ints, bits: int, which: npt.NDArray[np.bool_] | None = None) -> Ints:
        """A column of these packets, or of those selected."""
        return self.flows.chained(name, self.its if which is None else self.its[which], steps, bits)


def _tcp(out: _Bytes, at: Ints, payload: Ints, columns: Mapping[str, Ints], chains: _Chains) -> None:
    """Write the TCP headers that begin at `at`, of segments with `payload` bytes."""
    # Steps of seq are from the end of the segment before, so the chain is that of the ends.
    ends = chains.of("seq", columns["seq"] + payload, 32)
    _put(out, at + 4, (ends - payload) % (1 << 32), 4)
    _put(out, at + 8, chains.of("ack", columns["ack"], 32), 4)
    _put(out, at + 12, columns["flags"], 2)
    _put(out, at + 14, chains.of("window", columns["window"], 16), 2)
    options = at + TCP_BYTES
    stamped = columns["stamped"] == 1
    for byte, value in enumerate(TIMESTAMPS):
        out[options[stamped] + byte] = value
    for byte, name in ((4, "tsval"), (8, "tsecr")):
        _put(out, options[stamped] + byte, chains.of(name, columns[name], 32, stamped), 4)
    options = options + 12 * stamped
    out[_ranges(options, columns["options"])] = columns["option"]
    edges = columns["edges"]
    sacked = edges > 0
    for byte, value in enumerate(SACK):
        out[options[sacked] + byte] = value
    out[options[sacked] + 3] = 2 + 4 * edges[sacked]
    place = _ranges(np.zeros(int(sacked.sum()), np.int64), edges[sacked])
    of = np.repeat(chains.its[sacked], edges[sacked]) * MOST_EDGES + place
    values = chains.flows.chained("edge", of, columns["edge"], 32)
    _put(out, np.repeat(options[sacked] + 4, edges[sacked]) + 4 * place, values, 4)


def _templates(out: _Bytes, frame: Ints, number: Ints, flows: _Flows) -> None:
    """Write what is equal in all packets of a flow."""
    order = np.argsort(number, kind="stable")
    for its in _groups(number[order]):
        template = np.frombuffer(flows.templates[int(number[order[its.start]])], np.uint8)
        out[frame[order[its], None] + np.arange(len(template))] = template


def _groups(ordered: Ints) -> Iterator[slice]:
    """The runs of equal values."""
    if len(ordered):
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]).tolist()
        yield from map(slice, first, [*first[1:], len(ordered)])


def _ranges(first: Ints, lengths: Ints) -> Ints:
    """The numbers first[0], first[0] + 1, … of each range, one range after the other."""
    before = np.cumsum(lengths) - lengths
    numbers: Ints = np.arange(int(lengths.sum())) + np.repeat(first - before, lengths)
    return numbers


def _put(out: _Bytes, at: Ints, values: Any, width: int, *, little: bool = False) -> None:
    """Write numbers of `width` bytes at these places, in the network's order or as pcaps here have them."""
    for byte in range(width):
        shift = 8 * (byte if little else width - 1 - byte)
        out[at + byte] = (values >> shift) & 0xFF
