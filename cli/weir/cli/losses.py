# SPDX-License-Identifier: Apache-2.0
"""`weir losses`: captures in, tables or JSON out; the work is in weir.analysis.losses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weir.cli import options
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.analysis.losses import CaptureCounts

FLOWS_SHOWN = 50
"""Most rows of the table; `--json` has all flows."""
_LONGEST_IPV4 = len("255.255.255.255:65535")


def losses(captures: options.Captures, as_json: options.AsJson = False) -> int:
    """Count the packets that TCP senders lost, as their captures show it; --json lists them.

    Each retransmission is attributed to the transmission that was lost; spurious ones (DSACK, timestamps) are
    told apart. One pass, bounded memory. docs/losses.md says what the columns are.
    """
    return losses_command(captures, as_json=as_json, console=Console())


def losses_command(captures: Sequence[Path], *, as_json: bool, console: Console) -> int:
    """Show the flows of each capture with their losses; with JSON, every loss event.

    Raises:
        CaptureError: a file is not a capture, or is truncated; the files before it have been shown.
        OSError: a file cannot be read.
    """
    from weir.analysis.losses import counts_of, losses_of

    for path in captures:
        if as_json:
            print(json.dumps(losses_of(path).to_json()))
            continue
        counts = counts_of(path, FLOWS_SHOWN)
        console.print(losses_table(counts))
        if not counts.flows_with_data and (why := _no_data(counts)):
            console.print(why, style="yellow", highlight=False, markup=False)
        more = counts.flows_with_data - len(counts.largest)
        if more > 0:
            console.print(
                f"{plural(more, 'smaller flow is', 'smaller flows are')} not shown; --json has all",
                highlight=False,
            )
        for warning in counts.warnings:
            console.print(warning, style="yellow", highlight=False, markup=False)
    return 0


def _no_data(counts: CaptureCounts) -> str | None:
    """Why the table has no rows; None where a warning of the capture says so."""
    if not counts.records:
        return f"{counts.path}: no packets in it"
    if counts.not_ip < counts.records:
        return f"{counts.path}: no flow with data in {plural(counts.records, 'record')}"
    return None


def losses_table(counts: CaptureCounts) -> Table:
    """One row per flow that carried data, the largest first; `lost before` is upstream of the capture."""
    from weir.analysis.tables import TCP

    table = Table(
        title=Text(counts.path, style="table.title"), title_justify="left", box=None, pad_edge=False
    )
    names = [
        f"{flow['src']}:{flow['src_port']} → {flow['dst']}:{flow['dst_port']}" for flow in counts.largest
    ]
    longest = max((len(end) for name in names for end in name.split(" → ")), default=0)
    # 80 columns have space for both ends of IPv4, one below the other; ends of IPv6 are broken anywhere.
    width = longest + len(" →") if longest <= _LONGEST_IPV4 else None
    table.add_column("flow", overflow="fold", min_width=width)
    for heading in ("packets", "lost", "lost\nbefore", "loss %", "resent", "spurious", "RTT ms"):
        table.add_column(heading, justify="right")
    for name, flow in zip(names, counts.largest, strict=True):
        if flow["protocol"] != TCP:  # no loss can be inferred, which is not the same as none
            table.add_row(name, str(flow["packets"]), *["–"] * 6)
            continue
        table.add_row(
            name,
            str(flow["packets"]),
            str(flow["losses"]),
            str(flow["losses_before"]),
            f"{_ratio(flow) * 100:.3f}",
            str(flow["retransmissions"]),
            str(flow["spurious"]),
            _milliseconds(flow["min_rtt_ns"]),
        )
    return table


def _milliseconds(ns: int | None) -> str:
    if ns is None:
        return ""
    return f"{ns / 1e6:.3f}" if ns < 100_000_000 else f"{ns / 1e6:.1f}"


def _ratio(flow: dict[str, Any]) -> float:
    """Losses before and after the capture point ÷ all transmissions of the sender."""
    from weir.analysis.losses import loss_ratio

    before = int(flow["losses_before"])
    return loss_ratio(flow["losses"] + before, flow["packets"], before, flow["copies"])
