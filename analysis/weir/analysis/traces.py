# SPDX-License-Identifier: Apache-2.0
"""Reads captures as one trace per flow: time and length of each packet, which were lost, and RTTs.

A capture before the policer (at the sender, or on the path) contains the lost packets; the Rust core infers
which they are. A capture after the policer (at the receiver) contains holes in the sequence numbers instead,
which are filled later. The view with more losses decides which of the two a capture is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from weir.analysis.tables import (
    Bools,
    Floats,
    FlowRow,
    Ints,
    Packets,
    RttSamples,
    delivery_rates_from_arrow,
    flows_from_arrow,
    packets_from_arrow,
    rtts_from_arrow,
)

TCP = 6
REORDERING_PACKETS = 3
"""A hole filled within this many packets is reordering (RFC 5681: three duplicate ACKs)."""
View = Literal["sent", "received"]


@dataclass(frozen=True)
class FlowTrace:
    """A directed TCP flow at one point of its path: its packets in order of time, arrays of one length.

    `frame_bytes` is the Ethernet frame without FCS, `seq` counts from the flow's first data byte. In the view
    `received` lost packets were not captured; each is inserted at the time of the packet that showed its
    hole. `rtt_sent_ns` and `rtt_ns`: RTT samples by the time of sending. `request_ns`: times of data in the
    other direction. `from_start`: the capture contains the flow's SYN. `unfilled`: holes that were never
    filled, as the capture missed the packets or ended. `delivery_rates_bps`: payload, a sample per ACK; empty
    after the losses.
    """

    src: str
    dst: str
    src_port: int
    dst_port: int
    time_ns: Ints
    frame_bytes: Ints
    payload_bytes: Ints
    seq: Ints
    lost: Bools
    rtt_sent_ns: Ints
    rtt_ns: Ints
    request_ns: Ints
    from_start: bool
    view: View = "sent"
    unfilled: int = 0
    delivery_rates_bps: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def name(self) -> str:
        """The flow as the option ``--flow`` takes it."""
        return f"{self.src}:{self.src_port}-{self.dst}:{self.dst_port}"

    @property
    def losses(self) -> int:
        """The number of lost packets."""
        return int(np.count_nonzero(self.lost))


@dataclass(frozen=True)
class CaptureTraces:
    """The TCP flows of a capture with data, the largest first, and warnings about the file."""

    path: str
    flows: tuple[FlowTrace, ...]
    warnings: tuple[str, ...]


def traces_of(path: Path) -> CaptureTraces:
    """Read a capture, compressed or not; raises `weir_core.CaptureError`."""
    import weir_core

    # No addresses: every host counts as a local sender, so each direction of each flow is judged.
    joined = weir_core.join_run([(path, [])])
    flows = _flows(flows_from_arrow(joined.flows), packets_from_arrow(joined.packets), joined)
    warnings = list(joined.warnings)
    missed = sum(flow.unfilled for flow in flows)
    if missed:
        warnings.append(
            f"{path}: {missed} holes in the sequence numbers were never filled: "
            "the capture missed packets, or ended"
        )
    return CaptureTraces(str(path), tuple(flows), tuple(warnings))


def _flows(rows: dict[int, FlowRow], packets: Packets, joined: Any) -> list[FlowTrace]:
    samples = rtts_from_arrow(joined.rtts)
    rates_bps = delivery_rates_from_arrow(joined.delivery_rates)
    by_key = {row.key: number for number, row in rows.items() if row.protocol == TCP}
    of_flow = {number: its for number, its in packets.by_flow() if number in rows}
    data_ns = {number: its.sent_ns[its.payload_length > 0] for number, its in of_flow.items()}
    found = []
    for number, its in of_flow.items():
        row = rows[number]
        if row.protocol != TCP or not len(data_ns[number]):
            continue
        reverse = by_key.get((row.dst, row.src, row.dst_port, row.src_port, TCP))
        mine = samples.flow == number
        times = RttSamples(samples.flow[mine], samples.time_ns[mine], samples.rtt_ns[mine])
        request_ns = data_ns.get(reverse, _NONE) if reverse is not None else _NONE
        sent = replace(
            as_sent(row, its, times, request_ns), delivery_rates_bps=rates_bps.get(number, np.empty(0))
        )
        received = as_received(sent)
        found.append(received if received.losses > sent.losses else replace(sent, unfilled=received.unfilled))
    return sorted(found, key=lambda flow: -int(flow.payload_bytes.sum()))


_NONE: Ints = np.empty(0, dtype=np.int64)


def as_sent(row: FlowRow, packets: Packets, rtts: RttSamples, request_ns: Ints = _NONE) -> FlowTrace:
    """The trace of a flow from its sender's capture, with the losses inferred there.

    `packets` (at least one with data) are in order of time, `rtts` are this flow's samples by the time of the
    ACK.
    """
    seq = unwrapped(packets.seq)
    first_data = int(np.argmax(packets.payload_length > 0))
    return FlowTrace(
        src=row.src,
        dst=row.dst,
        src_port=row.src_port,
        dst_port=row.dst_port,
        time_ns=packets.sent_ns,
        frame_bytes=packets.wire_length,
        payload_bytes=packets.payload_length,
        seq=seq - seq[first_data],
        lost=packets.inferred_lost,
        rtt_sent_ns=rtts.time_ns - rtts.rtt_ns,
        rtt_ns=rtts.rtt_ns,
        request_ns=request_ns,
        from_start=bool(packets.payload_length[0] == 0 and seq[0] == seq[first_data] - 1),
    )


def unwrapped(seq: Ints) -> Ints:
    """32-bit sequence numbers as 64-bit ones that do not wrap; neighbours are less than 2³¹ apart."""
    steps = np.diff(seq, prepend=seq[:1])
    return np.asarray(seq[0] + np.cumsum((steps + 2**31) % 2**32 - 2**31), dtype=np.int64)


def as_received(flow: FlowTrace) -> FlowTrace:
    """The trace of a flow captured after its losses: a hole filled later was a loss, at the time it opened.

    A hole filled within `REORDERING_PACKETS` packets is reordering. A lost retransmission leaves no hole and
    is not counted.
    """
    data = np.flatnonzero(flow.payload_bytes > 0)
    seq, end = flow.seq[data], flow.seq[data] + flow.payload_bytes[data]
    reached = np.maximum.accumulate(end)
    before = np.concatenate([seq[:1], reached[:-1]])
    first_seen = np.zeros(len(data), dtype=bool)
    first_seen[np.unique(seq, return_index=True)[1]] = True
    fills = np.flatnonzero((seq < before) & first_seen)
    opened = np.searchsorted(reached, seq[fills], side="right")  # the packet that opened the hole
    late = fills - opened > REORDERING_PACKETS
    fills, opened = fills[late], opened[late]
    jumped = np.maximum(seq - before, 0)
    filled = int(flow.payload_bytes[data[fills]].sum())
    unfilled = 0 if int(jumped.sum()) <= filled else int(np.count_nonzero(jumped)) - len(np.unique(opened))
    order = np.argsort(
        np.concatenate([np.arange(len(flow.time_ns)) + 0.5, data[opened].astype(np.float64)]), kind="stable"
    )

    def merged(seen: Ints, missing: Ints) -> Ints:
        return np.concatenate([seen, missing])[order]

    lost = np.concatenate([np.zeros(len(flow.time_ns), dtype=bool), np.ones(len(fills), dtype=bool)])[order]
    return replace(
        flow,
        time_ns=merged(flow.time_ns, flow.time_ns[data[opened]]),
        frame_bytes=merged(flow.frame_bytes, flow.frame_bytes[data[fills]]),
        payload_bytes=merged(flow.payload_bytes, flow.payload_bytes[data[fills]]),
        seq=merged(flow.seq, seq[fills]),
        lost=lost,
        view="received",
        unfilled=max(unfilled, 0),
        delivery_rates_bps=np.empty(0),
    )
