# SPDX-License-Identifier: Apache-2.0
"""`weir losses`: captures in, tables or JSON out; the work is in weir.analysis.losses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from weir.analysis.losses import CaptureLosses, FlowLosses, losses_of


def losses_command(captures: Sequence[Path], *, as_json: bool, console: Console) -> int:
    """Show the flows of each capture with their losses; with JSON, every loss event.

    Raises:
        CaptureError: a file is no capture, or is cut off; the files before it have been shown.
        OSError: a file cannot be read.
    """
    for path in captures:
        capture = losses_of(path)
        if as_json:
            print(json.dumps(capture.to_json()))
            continue
        console.print(losses_table(capture))
        for warning in capture.warnings:
            console.print(warning, style="yellow", highlight=False)
    return 0


def losses_table(capture: CaptureLosses) -> Table:
    """One row per flow that carried data, the largest first."""
    table = Table(title=capture.path, title_justify="left", box=None, pad_edge=False)
    table.add_column("flow", overflow="fold")
    for heading in ("packets", "lost", "loss %", "resent", "spurious", "RTT ms"):
        table.add_column(heading, justify="right")
    for flow in by_size(capture):
        ratio, rtt_ns = flow.loss_ratio, flow.min_rtt_ns
        table.add_row(
            flow.label,
            str(flow.packets),
            str(flow.losses.num_rows),
            "" if ratio is None else f"{ratio * 100:.3f}",
            str(flow.retransmissions),
            str(flow.spurious),
            "" if rtt_ns is None else f"{rtt_ns / 1e6:.3f}",
        )
    return table


def by_size(capture: CaptureLosses) -> list[FlowLosses]:
    """Flows that carried data, the one with the most first."""
    data = (flow for flow in capture.flows if flow.payload_bytes > 0)
    return sorted(data, key=lambda flow: -flow.payload_bytes)
