# SPDX-License-Identifier: Apache-2.0
"""Captures made of records, for tests of what hosts reduce them to."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from weir.testbed.remote import headers


def written(path: Path, records: Iterable[headers.Record], order: str = "<") -> None:
    """Write a pcap with nanoseconds in a byte order."""
    with path.open("wb") as file:
        file.write(struct.pack(order + headers.FILE_HEADER, headers.MAGIC_NS, 2, 4, 0, 0, 128, 1))
        for time_ns, wire, frame in records:
            stamp = divmod(time_ns, 1_000_000_000)
            file.write(struct.pack(order + headers.RECORD_HEADER, *stamp, len(frame), wire) + frame)


def read(path: Path) -> list[headers.Record]:
    """The records of such a pcap."""
    with path.open("rb") as file:
        return list(headers.records(file))
