# SPDX-License-Identifier: Apache-2.0
"""The joined packets of a run as typed numpy columns, the input of this package's pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weir.rundir.errors import RunFileError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Strings = npt.NDArray[np.object_]
FlowKey = tuple[str, str, int, int, int]
"""Source, destination, their ports, protocol."""
TCP = 6


def read_parquet(path: Path, filters: list[tuple[str, str, Any]] | None = None) -> pa.Table:
    """The rows of a Parquet file of a run; raises RunFileError, which names the file, where it is damaged."""
    try:
        return pq.read_table(path, filters=filters)
    except (OSError, pa.ArrowException) as error:
        raise RunFileError(f"{path}: {error}; valid: a whole Parquet file, as weir writes it") from error


def reverse_of(key: FlowKey) -> FlowKey:
    """The other direction of a flow."""
    src, dst, src_port, dst_port, protocol = key
    return (dst, src, dst_port, src_port, protocol)


_INTEGERS = (
    "flow",
    "sent_ns",
    "wire_length",
    "payload_length",
    "received_ns",
    "inferred_at_ns",
    "ingress_ns",
    "packet_number",
    "policer",
    "colour",
    "seq",
    "passed_ns",
)


@dataclass(frozen=True)
class Packets:
    """One entry per IP packet sent, in the order of the table (all arrays have the same length).

    `sent_ns` is on the sender's clock, `received_ns` on the receiver's, `ingress_ns` on the switch's. Where a
    packet was not received, not reported or not inferred lost, the flag is False and the value 0. `judged`:
    the sender's capture shows whether the packet arrived. `passed_ns` is when the switch had a packet that it
    did not drop, where it reported that; 0 otherwise. `syn`: the packet has this TCP flag. `copy`: the
    capture has an earlier packet a second time, and this is the second one.
    """

    flow: Ints
    sent_ns: Ints
    wire_length: Ints
    payload_length: Ints
    seq: Ints
    retransmission: Bools
    judged: Bools
    inferred_lost: Bools
    inferred_at_ns: Ints
    cause: Strings
    received: Bools
    received_ns: Ints
    dropped: Bools
    ingress_ns: Ints
    policer: Ints
    colour: Ints
    packet_number: Ints
    passed_ns: Ints
    syn: Bools
    copy: Bools

    def __len__(self) -> int:
        """The number of packets."""
        return len(self.flow)

    def select(self, which: Bools | Ints | slice) -> Packets:
        """The packets selected by a mask or by indices, in that order; views of these arrays for a slice."""
        return Packets(**{f.name: getattr(self, f.name)[which] for f in fields(self)})

    def by_flow(self) -> Iterator[tuple[int, Packets]]:
        """Each flow with its packets, in ascending flow number and in order of sending."""
        if not len(self):
            return
        ordered = self.select(np.lexsort((self.sent_ns, self.flow)))
        flow = ordered.flow
        starts = np.flatnonzero(np.r_[True, flow[1:] != flow[:-1]])
        for start, end in zip(starts, np.r_[starts[1:], len(flow)], strict=True):
            yield int(flow[start]), ordered.select(slice(start, end))


def packets_from_arrow(table: Any) -> Packets:
    """Turn the `packets` table of `weir_core.join_run` into numpy columns.

    Raises ValueError when a column is missing. Null becomes 0, with a flag that is False.
    """
    arrow = pa.table(table)
    needed = {f.name for f in fields(Packets)} - {"received", "passed_ns", "syn", "copy"}
    missing = sorted(needed - set(arrow.column_names))
    if missing:
        raise ValueError(
            f"packets table: no column {', '.join(missing)}; it has {', '.join(arrow.column_names)}"
        )
    for name, kind in (("passed_ns", pa.int64()), ("syn", pa.bool_()), ("copy", pa.bool_())):
        if name not in arrow.column_names:
            arrow = arrow.append_column(name, pa.nulls(arrow.num_rows, kind))
    columns: dict[str, Any] = {
        name: np.asarray(pc.fill_null(pc.cast(arrow[name], pa.int64(), safe=False), 0).to_numpy())
        for name in _INTEGERS
    }
    for name in ("syn", "copy", "retransmission", "judged", "inferred_lost", "dropped"):
        columns[name] = np.asarray(pc.fill_null(arrow[name], False).to_numpy(), dtype=bool)
    columns["received"] = np.asarray(pc.is_valid(arrow["received_ns"]).to_numpy(), dtype=bool)
    columns["cause"] = np.asarray(arrow["cause"].to_numpy(zero_copy_only=False), dtype=object)
    return Packets(**columns)


@dataclass(frozen=True)
class FlowRow:
    """One directed 5-tuple of the captures."""

    flow: int
    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int
    min_rtt_ns: int | None
    mean_rtt_ns: float | None
    received_payload_bytes: int
    retransmissions: int
    spurious: int

    @property
    def key(self) -> FlowKey:
        """The directed 5-tuple."""
        return (self.src, self.dst, self.src_port, self.dst_port, self.protocol)


def flows_from_arrow(table: Any) -> dict[int, FlowRow]:
    """Turn the `flows` table of `weir_core.join_run` into rows by flow number."""
    names = [f.name for f in fields(FlowRow)]
    arrow = pa.table(table)
    missing = sorted(set(names) - set(arrow.column_names))
    if missing:
        raise ValueError(
            f"flows table: no column {', '.join(missing)}; it has {', '.join(arrow.column_names)}"
        )
    return {row["flow"]: FlowRow(**row) for row in arrow.select(names).to_pylist()}


@dataclass(frozen=True)
class RttSamples:
    """RTT samples: flow number, time of the ACK on the sender's clock, and the sample."""

    flow: Ints
    time_ns: Ints
    rtt_ns: Ints


def rtts_from_arrow(table: Any) -> RttSamples:
    """Turn the `rtts` table of weir_core into numpy columns."""
    arrow = pa.table(table)
    return RttSamples(
        **{
            name: np.asarray(pc.cast(arrow[name], pa.int64(), safe=False).to_numpy())
            for name in ("flow", "time_ns", "rtt_ns")
        }
    )


def delivery_rates_from_arrow(table: Any) -> dict[int, Floats]:
    """The `delivery_rates` table of weir_core in bit/s of payload, by flow number, each in order of time."""
    arrow = pa.table(table)
    flow, rate_bps = (np.asarray(arrow[name].to_numpy()) for name in ("flow", "rate_bps"))
    order = np.argsort(flow, kind="stable")
    numbers, first = np.unique(flow[order], return_index=True)
    parts = np.split(rate_bps[order], first[1:])
    return dict(zip(numbers.tolist(), parts, strict=True)) if len(numbers) else {}
