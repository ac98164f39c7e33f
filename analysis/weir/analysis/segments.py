# SPDX-License-Identifier: Apache-2.0
"""The TCP segments and UDP datagrams of a capture as Arrow tables, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("src_port", pa.uint16(), nullable=False),
        pa.field("dst_port", pa.uint16(), nullable=False),
        pa.field("protocol", pa.uint8(), nullable=False),
        pa.field("seq", pa.uint32()),
        pa.field("ack", pa.uint32()),
        pa.field("syn", pa.bool_(), nullable=False),
        pa.field("tsval", pa.uint32()),
        pa.field("tsecr", pa.uint32()),
        pa.field("payload_bytes", pa.uint32(), nullable=False),
    ]
)
"""`seq` is null for UDP, `ack` without the ACK flag, `tsval` and `tsecr` without the timestamps option;
`payload_bytes` is as sent, not as captured."""


def segment_tables(path: Path, *, may_be_cut: bool = False) -> Iterator[Any]:
    """Tables (SCHEMA) of about 65,536 rows in the order of the file.

    Raises `weir_core.CaptureError` when the file is no capture, or from the iterator when it is damaged or
    ends inside a record; `may_be_cut`: such a file ends before that record.
    """
    import weir_core

    return map(_of_schema, weir_core.stream_segments(path, may_be_cut=may_be_cut))


def _of_schema(found: Any) -> Any:
    return with_texts(pa.table(found)).select(SCHEMA.names).cast(SCHEMA)


def with_texts(table: Any) -> Any:
    """The table with addresses `src` and `dst` as text; a capture has few different ones."""
    for name in ("src", "dst"):
        encoded = table[name].combine_chunks().dictionary_encode()
        texts = pa.array([str(ip_address(packed)) for packed in encoded.dictionary.to_pylist()], pa.string())
        table = table.set_column(table.column_names.index(name), name, texts.take(encoded.indices))
    return table
