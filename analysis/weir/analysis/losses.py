# SPDX-License-Identifier: Apache-2.0
"""`weir losses FILE` and `weir detect NAME FILE FILE`: anyone's captures, without a switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weir.analysis.detectors import FlowEvents, PairResult, pair_detector
from weir.analysis.tables import flows_from_arrow


class FlowChoiceError(ValueError):
    """The flow to look at is not in the capture, or the capture does not decide which it is."""


@dataclass(frozen=True)
class FlowLosses:
    """One directed flow of a capture taken at its sender, with its inferred losses.

    `losses` has the columns sent_ns, detected_ns, seq, length, cause; sorted by the time of sending.
    """

    flow: int
    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int
    packets: int
    bytes: int
    payload_bytes: int
    first_ns: int
    last_ns: int
    min_rtt_ns: int | None
    retransmissions: int
    spurious: int
    losses: Any

    @property
    def label(self) -> str:
        """Source and destination as text."""
        return f"{self.src}:{self.src_port} → {self.dst}:{self.dst_port}"

    @property
    def loss_ratio(self) -> float | None:
        """Inferred losses ÷ packets sent."""
        return self.losses.num_rows / self.packets if self.packets else None

    def summary(self) -> dict[str, Any]:
        """The flow without its single losses, ready for JSON."""
        causes = self.losses["cause"].value_counts().to_pylist()
        return {
            **{name: getattr(self, name) for name in _FLOW_COLUMNS if name != "flow"},
            "losses": self.losses.num_rows,
            "loss_ratio": self.loss_ratio,
            "causes": {str(entry["values"]): int(entry["counts"]) for entry in causes},
        }


@dataclass(frozen=True)
class CaptureLosses:
    """All flows of a capture and what the reader should know about the file."""

    path: str
    flows: tuple[FlowLosses, ...]
    warnings: tuple[str, ...]

    def to_json(self, *, events: bool = True) -> dict[str, Any]:
        """The capture's flows, with every single loss unless `events` is False."""
        rows = []
        for flow in self.flows:
            row = flow.summary()
            if events:
                row["loss_events"] = flow.losses.to_pylist()
            rows.append(row)
        return {"schema": 1, "file": self.path, "warnings": list(self.warnings), "flows": rows}


_FLOW_COLUMNS = (
    *("flow", "src", "dst", "src_port", "dst_port", "protocol", "packets", "bytes", "payload_bytes"),
    *("first_ns", "last_ns", "min_rtt_ns", "retransmissions", "spurious"),
)
_REPORT_SCHEMA = pa.schema(
    [
        ("received_ns", pa.int64()),
        ("dropped", pa.bool_()),
        ("ingress_ns", pa.uint64()),
        ("policer", pa.uint16()),
        ("colour", pa.uint8()),
        ("wire_length", pa.uint32()),
        ("packet_number", pa.uint32()),
        ("inner", pa.binary()),
    ]
)
_LOSS_COLUMNS = ("sent_ns", "detected_ns", "seq", "length", "cause")


def losses_of(path: Path) -> CaptureLosses:
    """Infer the losses of every flow of a capture; raises `weir_core.CaptureError`."""
    import weir_core

    read = weir_core.read_losses(path)
    return capture_losses(str(path), read.flows, read.losses, tuple(read.warnings))


def capture_losses(path: str, flows: Any, losses: Any, warnings: Sequence[str]) -> CaptureLosses:
    """Split the tables of `weir_core.read_losses` by flow."""
    events = pa.table(losses).sort_by([("flow", "ascending"), ("sent_ns", "ascending")])
    numbers = np.asarray(events["flow"].to_numpy())
    result = []
    for row in pa.table(flows).select(list(_FLOW_COLUMNS)).to_pylist():
        low, high = np.searchsorted(numbers, [row["flow"], row["flow"] + 1])
        its = events.slice(int(low), int(high - low)).select(list(_LOSS_COLUMNS))
        result.append(FlowLosses(**row, losses=its))
    return CaptureLosses(path, tuple(result), tuple(warnings))


def choose_flow(capture: CaptureLosses, wanted: str | None = None) -> FlowLosses:
    """The flow named `SRC:PORT-DST:PORT`, else the one that sent the most payload; raises FlowChoiceError."""
    data = [flow for flow in capture.flows if flow.payload_bytes > 0]
    if wanted is not None:
        for flow in data:
            if wanted == f"{flow.src}:{flow.src_port}-{flow.dst}:{flow.dst_port}":
                return flow
        valid = ", ".join(f"{f.src}:{f.src_port}-{f.dst}:{f.dst_port}" for f in data[:10]) or "none has data"
        raise FlowChoiceError(f"{capture.path}: no flow {wanted!r} with data; there are: {valid}")
    if not data:
        raise FlowChoiceError(f"{capture.path}: no flow with data, so there is nothing to compare")
    return max(data, key=lambda flow: flow.payload_bytes)


def detect(
    name: str, first: Path, second: Path, flows: tuple[str | None, str | None] = (None, None)
) -> tuple[PairResult, tuple[FlowLosses, FlowLosses]]:
    """Judge two flows by a detector, each from a capture at its sender (one file may hold both).

    Each file's flow with the most data is taken unless `flows` names one. The captures' clocks are taken as
    they are: without a switch or the receiver's capture nothing pins one to the other. Raises
    UnknownDetectorError, FlowChoiceError and what `losses_of` raises.
    """
    judge = pair_detector(name)
    chosen = (choose_flow(losses_of(first), flows[0]), choose_flow(losses_of(second), flows[1]))
    one, other = chosen
    if first == second and one.flow == other.flow:
        raise FlowChoiceError(f"{first}: the same flow twice ({one.label}); name two flows")
    return judge(sent_events(first, one), sent_events(second, other)), chosen


def sent_events(path: Path, flow: FlowLosses) -> FlowEvents:
    """The data packets of one flow of a capture at its sender, each with its inferred fate."""
    import weir_core

    # The join without any report leaves what the sender's capture alone says of each packet.
    with TemporaryDirectory(prefix="weir-") as temporary:
        no_reports = Path(temporary) / "telemetry.parquet"
        pq.write_table(_REPORT_SCHEMA.empty_table(), no_reports, compression="none")
        joined = weir_core.join_run([(path, [flow.src])], no_reports)
    key = (flow.src, flow.dst, flow.src_port, flow.dst_port, flow.protocol)
    numbers = [row.flow for row in flows_from_arrow(joined.flows).values() if row.key == key]
    return events_of(pa.table(joined.packets), numbers[0], flow)


def events_of(packets: Any, number: int, flow: FlowLosses) -> FlowEvents:
    """The data packets of flow `number` of a packets table, in order of sending."""
    if not flow.min_rtt_ns:
        raise FlowChoiceError(f"{flow.label} has no RTT sample; the capture must hold its ACKs too")
    data = packets.filter((pc.field("flow") == number) & (pc.field("payload_length") > 0))
    data = data.sort_by([("sent_ns", "ascending")])
    return FlowEvents(
        sent_ns=np.asarray(data["sent_ns"].to_numpy(), dtype=np.int64),
        size_bytes=np.asarray(data["payload_length"].to_numpy(), dtype=np.int64),
        lost=np.asarray(data["inferred_lost"].to_numpy(), dtype=bool),
        min_rtt_ns=flow.min_rtt_ns,
    )
