# SPDX-License-Identifier: Apache-2.0
"""`weir losses FILE`: the losses in anyone's captures, without a switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.analysis.capture_files import readable


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


@dataclass(frozen=True)
class CaptureCounts:
    """What a capture holds, counted while it was read once; `flows` is the table of `weir_core`, with counts
    of losses by cause. Memory follows the data in flight and the number of flows, not the file."""

    path: str
    records: int
    not_ip: int
    flows: Any
    warnings: tuple[str, ...]

    def largest(self, number: int) -> pa.Table:
        """The flows that carried most payload, the largest first; none without payload."""
        flows = pa.table(self.flows)
        flows = flows.filter(pc.greater(flows["payload_bytes"], 0))
        return flows.sort_by([("payload_bytes", "descending"), ("flow", "ascending")]).slice(0, number)

    def with_data(self) -> int:
        """Number of flows that carried payload."""
        return int(pc.sum(pc.greater(pa.table(self.flows)["payload_bytes"], 0)).as_py() or 0)


_FLOW_COLUMNS = (
    *("flow", "src", "dst", "src_port", "dst_port", "protocol", "packets", "bytes", "payload_bytes"),
    *("first_ns", "last_ns", "min_rtt_ns", "retransmissions", "spurious"),
)
_LOSS_COLUMNS = ("sent_ns", "detected_ns", "seq", "length", "cause")


def losses_of(path: Path) -> CaptureLosses:
    """Infer the losses of every flow of a capture; raises as `traces.traces_of`."""
    import weir_core

    with readable(path) as plain:
        read = weir_core.read_losses(plain)
    warnings = tuple(str(warning).replace(str(plain), str(path)) for warning in read.warnings)
    cut = int(pc.sum(pa.table(read.flows)["cut_acknowledgments"]).as_py() or 0)
    if cut:
        warnings = (*warnings, cut_warning(str(path), cut))
    return capture_losses(str(path), read.flows, read.losses, warnings)


def counts_of(path: Path) -> CaptureCounts:
    """Count the losses of every flow of a capture of any size; raises as `traces.traces_of`."""
    import weir_core

    with readable(path) as plain:
        stream = weir_core.stream_losses(plain)
        for _ in stream:
            pass
    flows = pa.table(stream.flows)
    warnings = [str(warning).replace(str(plain), str(path)) for warning in stream.warnings]
    cut = int(pc.sum(flows["cut_acknowledgments"]).as_py() or 0)
    if cut:
        warnings.append(cut_warning(str(path), cut))
    return CaptureCounts(str(path), stream.records, stream.not_ip, flows, tuple(warnings))


def cut_warning(path: str, acknowledgments: int) -> str:
    """What it means that the snap length was too short."""
    return (
        f"{path}: the snap length cut the TCP options of {acknowledgments:,} ACKs; without timestamps and "
        "SACK blocks, spurious retransmissions go unnoticed and losses are less certain (128 bytes hold all)"
    )


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
