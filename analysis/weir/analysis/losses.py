# SPDX-License-Identifier: Apache-2.0
"""Losses inferred from captures alone, without a switch: `weir losses FILE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.analysis.tables import TCP, delivery_rates_from_arrow
from weir.rundir.plural import plural


@dataclass(frozen=True)
class FlowLosses:
    """One directed flow of a capture, with its inferred losses.

    `losses` has the columns sent_ns, detected_ns, seq, length, cause, place, confidence (docs/losses.md) and
    is sorted by the time of sending. `losses_before` of them were lost before the point of capture (place
    `before`) and are not in `packets`; at a receiver all are. `copies` of the packets are in the capture a
    second time. `delivery_rates_bps`: payload delivered per
    second, a sample per ACK.
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
    losses_before: int
    copies: int
    losses: Any
    delivery_rates_bps: Any

    @property
    def label(self) -> str:
        """Source and destination as text."""
        return f"{self.src}:{self.src_port} → {self.dst}:{self.dst_port}"

    @property
    def loss_ratio(self) -> float | None:
        """Inferred losses ÷ packets sent, with those lost before the point of capture; None if not TCP."""
        if self.protocol != TCP or not self.packets:
            return None
        return loss_ratio(int(self.losses.num_rows), self.packets, self.losses_before, self.copies)

    def summary(self) -> dict[str, Any]:
        """The flow without the list of its losses, ready for JSON; without TCP, what is inferred is None."""
        causes = self.losses["cause"].value_counts().to_pylist()
        inferred = {name: getattr(self, name) for name in ("retransmissions", "spurious", "losses_before")}
        inferred["losses"] = self.losses.num_rows - self.losses_before
        return {
            **{name: getattr(self, name) for name in _FLOW_COLUMNS if name not in ("flow", *inferred)},
            **(inferred if self.protocol == TCP else dict.fromkeys(inferred)),
            "loss_ratio": self.loss_ratio,
            "causes": {str(entry["values"]): int(entry["counts"]) for entry in causes},
            "delivery_rate_bps": self._delivery_rate(),
        }

    def _delivery_rate(self) -> dict[str, float] | None:
        """First decile, median, last decile; None without samples, or in a capture at the receiver."""
        import numpy as np

        if not len(self.delivery_rates_bps) or 2 * self.losses_before > self.losses.num_rows:
            return None
        values = np.quantile(self.delivery_rates_bps, (0.1, 0.5, 0.9)).tolist()
        return dict(zip(("p10", "median", "p90"), values, strict=True))


@dataclass(frozen=True)
class CaptureLosses:
    """All flows of a capture, and warnings about the file."""

    path: str
    flows: tuple[FlowLosses, ...]
    warnings: tuple[str, ...]

    def to_json(self, *, events: bool = True) -> dict[str, Any]:
        """The capture's flows, with a list of every loss unless `events` is False."""
        rows = []
        for flow in self.flows:
            row = flow.summary()
            if events:
                row["loss_events"] = flow.losses.to_pylist()
            rows.append(row)
        return {"schema": 1, "file": self.path, "warnings": list(self.warnings), "flows": rows}


@dataclass(frozen=True)
class CaptureCounts:
    """Counts of a capture, read in one pass whose memory does not grow with the file.

    `largest` are the flows with the most payload, largest first, as rows of the flows table of `weir_core`;
    `flows_with_data` counts those with any. `losses` and `losses_by_cause` count transmissions of all flows
    that passed the point of capture; `losses_before` were lost before it.
    """

    path: str
    records: int
    not_ip: int
    flows_with_data: int
    losses: int
    losses_before: int
    losses_by_cause: dict[str, int]
    largest: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...]


_FLOW_COLUMNS = (
    *("flow", "src", "dst", "src_port", "dst_port", "protocol", "packets", "bytes", "payload_bytes"),
    *("first_ns", "last_ns", "min_rtt_ns", "retransmissions", "spurious", "losses_before", "copies"),
)
CAUSES = ("fast_retransmit", "rto", "lost_retransmission", "tail")
_LOSS_COLUMNS = ("sent_ns", "detected_ns", "seq", "length", "cause", "place", "confidence")


def loss_ratio(losses: int, captured: int, before: int, copies: int) -> float:
    """Losses ÷ packets sent, `before` of which never reached the capture, which has `copies` of others."""
    return losses / (captured - copies + before)


def losses_of(path: Path) -> CaptureLosses:
    """Infer the losses of every flow of a capture; raises the errors of `traces.traces_of`."""
    import weir_core

    read = weir_core.read_losses(path)
    warnings = list(read.warnings)
    cut = sum(read.flows["cut_acknowledgments"].to_pylist())
    if cut:
        warnings.append(cut_warning(str(path), cut))
    warnings += unacknowledged_warnings(str(path), read.flows.to_pylist())
    return capture_losses(str(path), read.flows, read.losses, read.delivery_rates, warnings)


def counts_of(path: Path, largest: int = 0) -> CaptureCounts:
    """Count the losses in a capture of any size, and return the `largest` flows.

    Raises the errors of `traces.traces_of`.
    """
    import weir_core

    stream = weir_core.stream_losses(path)
    stream.drain()
    totals = stream.totals()
    warnings = list(stream.warnings)
    if totals["cut_acknowledgments"]:
        warnings.append(cut_warning(str(path), totals["cut_acknowledgments"]))
    rows = stream.largest(largest)
    warnings += unacknowledged_warnings(str(path), rows)
    return CaptureCounts(
        path=str(path),
        records=stream.records,
        not_ip=stream.not_ip,
        flows_with_data=totals["flows_with_data"],
        losses=totals["losses"],
        losses_before=totals["losses_before"],
        losses_by_cause={cause: totals[cause] for cause in CAUSES},
        largest=tuple(rows),
        warnings=tuple(warnings),
    )


def cut_warning(path: str, acknowledgments: int) -> str:
    """The warning that the snap length was too short."""
    return (
        f"{path}: the snap length cut the TCP options of {plural(acknowledgments, 'ACK')}; without "
        "timestamps and SACK blocks, spurious retransmissions go unnoticed and confidence is low (128 "
        "bytes hold all)"
    )


def unacknowledged_warnings(path: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The warning that losses of flows rest on no ACK, if there are such flows among `rows`."""
    number = sum(
        row["payload_bytes"] > 0 and row["retransmissions"] > 0 and row["min_rtt_ns"] is None for row in rows
    )
    if not number:
        return []
    flows = plural(number, "flow with losses has", "flows with losses have")
    return [
        f"{path}: {flows} no ACK that shows an RTT; where ACKs were not captured, every retransmission "
        "counts as lost, needed or not"
    ]


def capture_losses(
    path: str, flows: Any, losses: Any, delivery_rates: Any, warnings: Sequence[str]
) -> CaptureLosses:
    """Split the tables of `weir_core.read_losses` by flow."""
    import numpy as np
    import pyarrow as pa

    events = pa.table(losses).sort_by([("flow", "ascending"), ("sent_ns", "ascending")])
    numbers = np.asarray(events["flow"].to_numpy())
    rates_bps = delivery_rates_from_arrow(delivery_rates)
    result = []
    for row in pa.table(flows).select(list(_FLOW_COLUMNS)).to_pylist():
        low, high = np.searchsorted(numbers, [row["flow"], row["flow"] + 1])
        its = events.slice(int(low), int(high - low)).select(list(_LOSS_COLUMNS))
        its_rates = rates_bps.get(row["flow"], np.empty(0))
        result.append(FlowLosses(**row, losses=its, delivery_rates_bps=its_rates))
    return CaptureLosses(path, tuple(result), tuple(warnings))
