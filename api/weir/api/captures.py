# SPDX-License-Identifier: Apache-2.0
"""One capture of a run: its packets as a stream, its flows, and the losses inferred from it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from weir.analysis.losses import CAUSES, CaptureLosses, FlowLosses, losses_of
from weir.analysis.run_data import NOT_KEPT
from weir.analysis.segments import SCHEMA, segment_tables
from weir.analysis.tables import TCP
from weir.api.table import Table, flat, from_models
from weir.rundir.errors import RunFileError
from weir.telemetry.captures import Record, read_pcap

Key = tuple[str, str, int, int, int]
"""Source, destination, their ports, protocol."""

_LOSSES = pa.schema(
    [
        pa.field("flow", pa.string()),
        pa.field("host", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("sent_ns", "detected_ns", "seq", "length")),
        *(pa.field(name, pa.string(), nullable=False) for name in ("cause", "place", "confidence")),
    ]
)
_FLOWS = {
    **dict.fromkeys(("src", "dst"), pa.string()),
    **dict.fromkeys(
        ("src_port", "dst_port", "protocol", "packets", "bytes", "payload_bytes", "first_ns", "last_ns"),
        pa.int64(),
    ),
    **dict.fromkeys(
        ("min_rtt_ns", "copies", "retransmissions", "spurious", "losses_before", "losses"), pa.int64()
    ),
    "loss_ratio": pa.float64(),
    **dict.fromkeys([f"causes_{cause}" for cause in CAUSES], pa.int64()),
    **dict.fromkeys([f"delivery_rate_bps_{part}" for part in ("p10", "median", "p90")], pa.float64()),
}


class Capture:
    """The capture of one host, from both directions of its link.

    It may be larger than memory: iterate over `segments()`, or give the capture itself to a library that
    reads Arrow streams; either reads it in steps of about 65,536 packets.
    """

    def __init__(
        self, host: str, addresses: tuple[str, ...], path: Path, flow_ids: Mapping[Key, str]
    ) -> None:
        """The capture `path` of a host with these addresses; `flow_ids` are the configured flows' names."""
        self.host, self.addresses, self.path = host, addresses, path
        self._flow_ids = flow_ids

    def segments(self) -> Iterator[pa.Table]:
        """The TCP segments and UDP datagrams as `pyarrow.Table`s, in the order of the file.

        Columns: time_ns (since the epoch), src, dst, src_port, dst_port, protocol (6 TCP, 17 UDP), seq, ack,
        syn, payload_bytes (as sent, regardless of the snap length). Raises RunFileError and
        `weir_core.CaptureError`.
        """
        return segment_tables(self._file())

    def frames(self) -> Iterator[Record]:
        """The frames (time_ns, bytes), cut to the snap length; for scapy and alike. Raises RunFileError."""
        return read_pcap(self._file(), whole=False)

    @cached_property
    def flows(self) -> Table:
        """One row per directed flow: packets, bytes, losses and their causes, min_rtt_ns, rates in bit/s.

        Losses and causes are null for flows that are not TCP. Raises RunFileError and
        `weir_core.CaptureError`.
        """
        return Table(f"flows in {self.path.name}", self._flows)

    @cached_property
    def losses(self) -> Table:
        """The losses of the flows that the host sent, inferred from this capture (docs/losses.md).

        Columns: flow (null if the experiment does not name it), host, sent_ns, detected_ns, seq, length
        (payload bytes), cause, place, confidence. Raises RunFileError and `weir_core.CaptureError`.
        """
        return Table(f"losses in {self.path.name}", self._losses)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Defects of the capture that affect its losses and flows, such as a truncated last record.

        Raises RunFileError and `weir_core.CaptureError`.
        """
        return self._read().warnings

    def _read(self) -> CaptureLosses:
        # Not kept: the samples of delivery rates are larger than both tables.
        return losses_of(self._file())

    def _flows(self) -> pa.Table:
        return from_models([_flow_row(flow) for flow in self._read().flows], _FLOWS)

    def _losses(self) -> pa.Table:
        blocks = []
        for flow in self._read().flows:
            if flow.src not in self.addresses or not flow.losses.num_rows:
                continue
            key = (flow.src, flow.dst, flow.src_port, flow.dst_port, flow.protocol)
            rows = flow.losses.num_rows
            columns = {
                "flow": pa.array([self._flow_ids.get(key)] * rows, pa.string()),
                "host": pa.array([self.host] * rows),
                **{name: flow.losses[name].cast(_LOSSES.field(name).type) for name in _LOSSES.names[2:]},
            }
            blocks.append(pa.table(columns, schema=_LOSSES))
        return pa.concat_tables(blocks) if blocks else _LOSSES.empty_table()

    def __arrow_c_schema__(self) -> object:
        """The schema of `segments` through Arrow's PyCapsule interface."""
        return SCHEMA.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows of `segments` through Arrow's PyCapsule interface, read while they are consumed."""
        batches = (batch for table in self.segments() for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(SCHEMA, batches).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Host, file and size."""
        size = f"{self.path.stat().st_size:,} bytes" if self.path.is_file() else "not there"
        return f"<capture of {self.host}: {self.path}, {size}>"

    def _file(self) -> Path:
        if not self.path.is_file():
            raise RunFileError(f"{self.path}: not found; {NOT_KEPT}")
        return self.path


def _flow_row(flow: FlowLosses) -> dict[str, object]:
    summary = flow.summary()
    none = 0 if flow.protocol == TCP else None
    return flat({**summary, "causes": {cause: summary["causes"].get(cause, none) for cause in CAUSES}})
