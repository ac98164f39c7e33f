# SPDX-License-Identifier: Apache-2.0
"""Reads captures as one trace per flow.

The view with more losses decides whether a capture was made before them or behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weir.analysis.acknowledged import traces_of_acks
from weir.analysis.tables import (
    TCP,
    FlowKey,
    FlowRow,
    Packets,
    RttSamples,
    delivery_rates_from_arrow,
    flows_from_arrow,
    packets_from_arrow,
    reverse_of,
    rtts_from_arrow,
)
from weir.analysis.traces import NONE, FlowTrace, as_received, as_sent, handshake_of, unwrapped

LEAST_ACKS = 15
"""Fewer packets of one direction alone are the rest of a talk."""


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
    rows = flows_from_arrow(joined.flows)
    packets = packets_from_arrow(joined.packets)
    if packets.copy.any():
        packets = packets.select(~packets.copy)
    of_flow = {number: its for number, its in packets.by_flow() if number in rows}
    flows = _flows(rows, of_flow, joined)
    warnings = list(joined.warnings)
    missed = sum(flow.unfilled for flow in flows)
    if missed:
        warnings.append(
            f"{path}: {missed} holes in the sequence numbers were never filled: "
            "the capture missed packets, or ended"
        )
    acked = traces_of_acks(path, handshakes_of_acks(rows, of_flow))
    warnings += [
        f"{path}: only the ACKs of {flow.name} were captured; they show its arrivals and losses one way later"
        for flow in acked
    ]
    flows = sorted([*flows, *acked], key=lambda flow: -int(flow.payload_bytes.sum()))
    return CaptureTraces(str(path), tuple(flows), tuple(warnings))


def handshakes_of_acks(rows: dict[int, FlowRow], of_flow: dict[int, Packets]) -> dict[FlowKey, int | None]:
    """The flows of which the capture has only what their receiver sent, and their handshakes, if seen."""
    captured = {rows[number].key for number in of_flow}
    handshakes: dict[FlowKey, int | None] = {}
    for number, its in of_flow.items():
        key = rows[number].key
        silent = int(np.count_nonzero(its.payload_length == 0))
        if key[4] == TCP and reverse_of(key) not in captured and silent >= LEAST_ACKS:
            handshakes[reverse_of(key)] = _handshake(its)
    return handshakes


def _handshake(its: Packets) -> int | None:
    """From the SYN of one direction to its next segment, ns; None without the SYN."""
    after_syn = its.syn[0] and its.payload_length[0] == 0
    return handshake_of(its.sent_ns, unwrapped(its.seq)) if after_syn else None


def _flows(rows: dict[int, FlowRow], of_flow: dict[int, Packets], joined: Any) -> list[FlowTrace]:
    samples = rtts_from_arrow(joined.rtts)
    # Once for all flows: a capture may have thousands of them.
    order = np.argsort(samples.flow, kind="stable")
    by_flow = samples.flow[order]
    rates_bps = delivery_rates_from_arrow(joined.delivery_rates)
    by_key = {row.key: number for number, row in rows.items() if row.protocol == TCP}
    data_ns = {number: its.sent_ns[its.payload_length > 0] for number, its in of_flow.items()}
    found = []
    for number, its in of_flow.items():
        row = rows[number]
        if row.protocol != TCP or not len(data_ns[number]):
            continue
        reverse = by_key.get(reverse_of(row.key))
        low, high = np.searchsorted(by_flow, [number, number + 1])
        mine = order[low:high]
        times = RttSamples(samples.flow[mine], samples.time_ns[mine], samples.rtt_ns[mine])
        request_ns = data_ns.get(reverse, NONE) if reverse is not None else NONE
        sent = as_sent(row, its, times, request_ns)
        # A server sends nothing more before the request, for which its client may take any time.
        of_other = _handshake(of_flow[reverse]) if reverse in of_flow else None
        if sent.handshake_ns is not None and of_other is not None:
            sent = replace(sent, handshake_ns=min(sent.handshake_ns, of_other))
        sent = replace(sent, delivery_rates_bps=rates_bps.get(number, np.empty(0)))
        received = as_received(sent)
        of_sent = replace(sent, unfilled=received.unfilled, complete=received.complete)
        found.append(received if received.losses > sent.losses else of_sent)
    return found
