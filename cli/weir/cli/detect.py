# SPDX-License-Identifier: Apache-2.0
"""`weir detect`: applies detectors to captures, with weir.analysis.detect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from weir.analysis.errors import UnknownDetectorError
from weir.cli import completion, options
from weir.cli.errors import InputError

if TYPE_CHECKING:
    from weir.analysis.detectors.policing import FlowVerdict
    from weir.analysis.traces import CaptureTraces


def detect(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Detector; none lists them.",
            show_default=False,
            autocompletion=completion.detectors,
        ),
    ] = None,
    captures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="Captures (pcap, compressed or not).", show_default=False),
    ] = None,
    flows: Annotated[
        list[str] | None,
        typer.Option("--flow", metavar="SRC:PORT-DST:PORT", help="A flow by name; for pairs give both."),
    ] = None,
    pair: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--flows",
            metavar="A B",
            help="Two flows to compare, by name; the first is in the first capture.",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Ask a detector whether flows are policed, or whether two are behind one policer.

    `policing` looks at every flow of each capture, alone and together with the others; captures may be of
    the sender, of the receiver or of the way between. Detectors of pairs compare two flows: the largest of
    each of two captures, or the two largest of one.
    """
    named = [*(flows or []), *(pair or [])]
    return detect_command(name, captures or [], named, as_json=as_json, console=Console())


def detect_command(
    name: str | None, captures: Sequence[Path], flows: Sequence[str], *, as_json: bool, console: Console
) -> int:
    """Show a detector's verdict: on every flow of each capture, or on two flows.

    Raises:
        UnknownDetectorError: an unknown detector, or no name; the message lists the valid ones.
        InputError, FlowChoiceError: no or too many files or flows, or an unknown flow.
        CaptureError: a capture cannot be read.
    """
    from weir.analysis.detectors import PAIR_DETECTORS
    from weir.analysis.detectors.policing import POLICING_DETECTORS

    if name in POLICING_DETECTORS:
        return _policing(name, captures, flows, as_json=as_json, console=console)
    if name not in PAIR_DETECTORS:  # checked before any capture is read
        valid = ", ".join([*POLICING_DETECTORS, *PAIR_DETECTORS])
        raise UnknownDetectorError(
            f"{'no detector named' if name is None else f'no detector {name!r}'}; valid: {valid}"
        )
    return _pair(name, captures, flows, as_json=as_json, console=console)


def _policing(
    name: str, captures: Sequence[Path], flows: Sequence[str], *, as_json: bool, console: Console
) -> int:
    from weir.analysis.detect import policing

    if not captures:
        raise InputError("no capture; valid: one or more files")
    for path in captures:
        capture, verdicts = policing(name, path)
        if flows:
            missing = set(flows) - {verdict.flow for verdict in verdicts}
            if missing:
                valid = ", ".join(verdict.flow for verdict in verdicts[:10]) or "none has data"
                raise InputError(f"{path}: no flow {', '.join(sorted(missing))}; valid: {valid}")
            verdicts = [verdict for verdict in verdicts if verdict.flow in flows]
        if as_json:
            answer = {
                "schema": 1,
                "detector": name,
                "file": capture.path,
                "warnings": list(capture.warnings),
                "flows": [verdict.to_json() for verdict in verdicts],
            }
            print(json.dumps(answer))
            continue
        console.print(policing_table(capture, verdicts))
        for warning in capture.warnings:
            console.print(warning, style="yellow", highlight=False)
    return 0


def policing_table(capture: CaptureTraces, verdicts: Sequence[FlowVerdict]) -> Table:
    """One row per flow, the largest first."""
    table = Table(title=capture.path, title_justify="left", box=None, pad_edge=False)
    table.add_column("flow", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("Mbit/s", justify="right")
    table.add_column("burst B", justify="right")
    table.add_column("reason", overflow="fold")
    for verdict in verdicts:
        rate, burst = verdict.rate_bps, verdict.burst_bytes
        table.add_row(
            verdict.flow,
            verdict.verdict,
            "" if rate is None else f"{rate / 1e6:.3f}",
            "" if burst is None else f"{burst:.0f}",
            verdict.reason,
        )
    return table


def _pair(
    name: str, captures: Sequence[Path], flows: Sequence[str], *, as_json: bool, console: Console
) -> int:
    from weir.analysis.detect import detect

    first, second = two_files(captures)
    result, chosen = detect(name, first, second, two_flows(flows))
    if as_json:
        answer = {
            "schema": 1,
            "detector": name,
            "flows": [flow.name for flow in chosen],
            "verdict": result.verdict,
            "reason": result.reason,
            "detail": result.detail(),
        }
        print(json.dumps(answer))
        return 0
    for flow in chosen:
        console.print(f"{flow.name}: {flow.losses} of {len(flow.time_ns)} packets lost", highlight=False)
    console.print(f"{name}: [bold]{result.verdict}[/bold]; {result.reason}", highlight=False)
    return 0


def two_files(captures: Sequence[Path]) -> tuple[Path, Path | None]:
    """The captures of the two flows; None for the second if one capture contains both."""
    if len(captures) not in (1, 2):
        raise InputError(f"{len(captures)} captures; valid: one that holds both flows, or one for each")
    return captures[0], captures[1] if len(captures) == 2 else None


def two_flows(flows: Sequence[str]) -> tuple[str | None, str | None]:
    """The names of the flows to compare; None means the largest flow of its file."""
    if len(flows) == 2:
        return flows[0], flows[1]
    if flows:
        raise InputError(f"{len(flows)} --flow; valid: none, or --flows A B, A in the first capture")
    return None, None
