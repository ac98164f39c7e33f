# SPDX-License-Identifier: Apache-2.0
"""Classic pcap files (draft-ietf-opsawg-pcap) of Ethernet frames, times as whole nanoseconds.

Other readers give times as floats, or headers only (weir_core), which cannot be replayed exactly.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_MAGIC_NS = 0xA1B23C4D
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_FILE_HEADER, _RECORD_HEADER = "IHHiIII", "IIII"
_ETHERNET = 1
_SECOND_NS = 1_000_000_000
_MAX_FRAME_BYTES = 262_144  # libpcap's MAXIMUM_SNAPLEN
_VALID = "valid: a classic pcap file of Ethernet frames (tcpdump -w, editcap -F pcap)"


class CaptureFormatError(ValueError):
    """A file is not a readable capture; the text says which file, where in it, and what is valid."""


class Record(NamedTuple):
    """One frame of a capture; a negative time is before 1970 and cannot be written."""

    time_ns: int
    frame: bytes


def read_pcap(path: Path, *, whole: bool = True) -> Iterator[Record]:
    """The frames of a capture in the file's order, times in ns since the epoch.

    Raises:
        CaptureFormatError: no classic pcap, another link type, an incomplete file or, with ``whole``, frames
            cut by the snap length.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        header = file.read(struct.calcsize(_FILE_HEADER))
        order, tick_ns = _flavour(path, header)
        if len(header) < struct.calcsize(_FILE_HEADER):
            raise CaptureFormatError(f"{path}: ends in the file header; {_VALID}")
        link_type = struct.unpack(order + _FILE_HEADER, header)[6] & 0x0FFF_FFFF
        if link_type != _ETHERNET:
            raise CaptureFormatError(f"{path}: link type {link_type}; valid: 1 (Ethernet)")
        yield from _records(path, file, order, tick_ns, whole)


def _flavour(path: Path, header: bytes) -> tuple[str, int]:
    """The byte order, and the unit of the time stamps in ns."""
    for order in "<>":
        if len(header) >= 4:
            match struct.unpack_from(order + "I", header)[0]:
                case 0xA1B2C3D4:  # microseconds
                    return order, 1000
                case 0xA1B23C4D:  # nanoseconds
                    return order, 1
    kind = "a pcapng file" if header[:4] == _PCAPNG else f"no pcap file (it begins with {header[:4].hex()!r})"
    raise CaptureFormatError(f"{path}: {kind}; {_VALID}")


def _records(path: Path, file: BinaryIO, order: str, tick_ns: int, whole: bool) -> Iterator[Record]:
    record = struct.Struct(order + _RECORD_HEADER)
    number = 0
    while header := file.read(record.size):
        number += 1
        where = f"{path}: record {number}"
        if len(header) < record.size:
            raise CaptureFormatError(f"{where}: the file ends in its header; valid: a complete capture")
        seconds, ticks, captured, original = record.unpack(header)
        if captured > _MAX_FRAME_BYTES:
            raise CaptureFormatError(f"{where}: {captured} bytes; valid: at most {_MAX_FRAME_BYTES}")
        if whole and captured < original:
            raise CaptureFormatError(
                f"{where}: cut to {captured} of {original} bytes; valid: whole frames (tcpdump -s 0)"
            )
        frame = file.read(captured)
        if len(frame) < captured:
            raise CaptureFormatError(f"{where}: the file ends in its frame; valid: a complete capture")
        yield Record(seconds * _SECOND_NS + ticks * tick_ns, frame)


def write_pcap(path: Path, records: Iterable[Record]) -> int:
    """Write frames with times in ns since the epoch; returns their number.

    Raises:
        ValueError: a time before the epoch or after 2106, which the format cannot represent.
        OSError: the file cannot be written.
    """
    written = 0
    with path.open("wb") as file:
        file.write(struct.pack("<" + _FILE_HEADER, _MAGIC_NS, 2, 4, 0, 0, _MAX_FRAME_BYTES, _ETHERNET))
        for time_ns, frame in records:
            seconds, ticks = divmod(time_ns, _SECOND_NS)
            if not 0 <= seconds < 1 << 32:
                raise ValueError(f"{path}: time {time_ns} ns; valid: 0 to {(1 << 32) * _SECOND_NS - 1}")
            file.write(struct.pack("<" + _RECORD_HEADER, seconds, ticks, len(frame), len(frame)) + frame)
            written += 1
    return written
