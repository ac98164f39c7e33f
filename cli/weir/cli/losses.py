# SPDX-License-Identifier: Apache-2.0
"""`weir losses` and `weir detect`: captures in, tables or JSON out; the work is in weir.analysis.losses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from weir.analysis.detectors import pair_detector
from weir.analysis.losses import CaptureLosses, FlowLosses, detect, losses_of
from weir.cli.errors import InputError


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


def detect_command(
    name: str, captures: Sequence[Path], flows: Sequence[str], *, as_json: bool, console: Console
) -> int:
    """Show a detector's verdict on two flows of one or two captures.

    Raises:
        UnknownDetectorError: no detector of that name; the message lists them.
        InputError, FlowChoiceError: too many files or flows, or a flow that is not there.
        CaptureError, OSError: a capture cannot be read.
    """
    pair_detector(name)  # a wrong name is said before any capture is read
    files = two_files(captures)
    wanted = two_flows(captures, flows)
    result, chosen = detect(name, *files, wanted)
    if as_json:
        pair = [name_of(flow) for flow in chosen]
        answer = {
            "schema": 1,
            "detector": name,
            "flows": pair,
            "verdict": result.verdict,
            "reason": result.reason,
            "detail": result.detail(),
        }
        print(json.dumps(answer))
    else:
        for flow in chosen:
            console.print(
                f"{flow.label}: {flow.losses.num_rows} of {flow.packets} packets lost", highlight=False
            )
        console.print(f"{name}: [bold]{result.verdict}[/bold]; {result.reason}", highlight=False)
    return 0


def two_files(captures: Sequence[Path]) -> tuple[Path, Path]:
    """The files of the two flows: one capture may hold both."""
    if len(captures) not in (1, 2):
        raise InputError(f"{len(captures)} captures; valid: one that holds both flows, or one for each")
    return captures[0], captures[-1]


def two_flows(captures: Sequence[Path], flows: Sequence[str]) -> tuple[str | None, str | None]:
    """The names of the flows to compare; None: the largest of its file."""
    if len(flows) == 2:
        return flows[0], flows[1]
    if flows:
        raise InputError("one --flow; valid: none, or --flow twice, first for the first capture")
    if len(captures) == 2:
        return None, None
    largest = by_size(losses_of(captures[0]))[:2]
    if len(largest) < 2:
        raise InputError(f"{captures[0]}: fewer than two flows with data; valid: a second capture")
    return name_of(largest[0]), name_of(largest[1])


def name_of(flow: FlowLosses) -> str:
    """A flow as ``--flow`` takes it."""
    return f"{flow.src}:{flow.src_port}-{flow.dst}:{flow.dst_port}"


def by_size(capture: CaptureLosses) -> list[FlowLosses]:
    """Flows that carried data, the one with the most first."""
    data = (flow for flow in capture.flows if flow.payload_bytes > 0)
    return sorted(data, key=lambda flow: -flow.payload_bytes)
