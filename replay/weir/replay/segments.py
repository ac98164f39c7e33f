# SPDX-License-Identifier: Apache-2.0
"""Reads a capture as TCP segments and UDP datagrams, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

_NS_PER_S = 1_000_000_000
End = tuple[bytes, int]
"""Address in network byte order, and port."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment: capture time and header fields. `payload` is its size on the wire in bytes."""

    time_s: float
    source: End
    destination: End
    seq: int
    ack: int | None
    syn: bool
    payload: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """One UDP datagram; `payload` as in `Segment`, summed over its IP fragments."""

    time_s: float
    source: End
    destination: End
    payload: int


def name_of(source: End, destination: End) -> str:
    """The name of a connection or flow in all commands: SRC:PORT-DST:PORT."""
    return "-".join(f"{ip_address(address)}:{port}" for address, port in (source, destination))


def segments(path: Path, warnings: list[str] | None = None) -> Iterator[Segment | Datagram]:
    """The TCP segments and UDP datagrams of a capture, compressed or not; all other packets are skipped.

    The path `-` is standard input. A classic pcap that ends inside a frame is read up to it; `warnings` gets
    a sentence that says so, as all that the reader of the result must know of the capture.

    Raises weir_core.CaptureError if the file cannot be read, is no capture, is damaged or ends in another
    place.
    """
    import weir_core

    stream = weir_core.stream_segments(path)
    for table in stream:
        columns = table.to_pydict()
        ends = (zip(columns[end], columns[f"{end}_port"], strict=True) for end in ("src", "dst"))
        rest = (columns[name] for name in ("time_ns", "seq", "ack", "syn", "payload_bytes"))
        for source, destination, time_ns, seq, ack, syn, payload in zip(*ends, *rest, strict=True):
            # Dividing integers rounds once; float(time_ns) would first round to a multiple of 256 ns.
            time_s = time_ns / _NS_PER_S
            if seq is None:
                yield Datagram(time_s, source, destination, payload)
            else:
                yield Segment(time_s, source, destination, seq, ack, syn, payload)
    if warnings is not None:
        warnings += stream.warnings
