# SPDX-License-Identifier: Apache-2.0
"""`weir detect`: applies detectors to captures, with weir.analysis.detect."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from weir.analysis.errors import UnknownDetectorError
from weir.cli import completion, options
from weir.cli.errors import InputError
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.analysis.detectors.policing import FlowVerdict


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
        typer.Argument(metavar="FILE…", help=options.CAPTURES, show_default=False, callback=options.captures),
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
    jitter_ms: Annotated[
        float | None,
        typer.Option(
            "--jitter",
            metavar="MS",
            min=0,
            callback=options.finite,
            help="By how much delays between capture and policer vary; without it, what the captures show.",
            show_default=False,
        ),
    ] = None,
    clock_error_ms: Annotated[
        float | None,
        typer.Option(
            "--clock-error",
            metavar="MS",
            min=0,
            callback=options.finite,
            help="How far two captures' times may be apart at the policer; without it, 2 ms and half an RTT.",
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Ask a detector whether flows are policed, or whether two are behind one policer.

    `policing` looks at every flow of each capture, alone and together with the others; captures may be of
    the sender, of the receiver or of the way between. Detectors of pairs compare two flows: the largest of
    each of two captures, or the two largest of one. Capture at the senders if you can: receivers see less
    (docs/one-policer-or-two.md).
    """
    named = [*(flows or []), *(pair or [])]
    times = Times(jitter_ms, clock_error_ms)
    return detect_command(name, captures or [], named, times, as_json=as_json, console=Console())


@dataclass(frozen=True)
class Times:
    """What the user knows of the captures' times, ms; None: what the captures show."""

    jitter_ms: float | None = None
    clock_error_ms: float | None = None


AS_CAPTURED = Times()


def detect_command(
    name: str | None,
    captures: Sequence[Path],
    flows: Sequence[str],
    times: Times = AS_CAPTURED,
    *,
    as_json: bool,
    console: Console,
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
        if times != AS_CAPTURED:
            raise InputError("--jitter and --clock-error are for detectors of pairs, such as shared")
        return _policing(name, captures, flows, as_json=as_json, console=console)
    if name not in PAIR_DETECTORS:  # checked before any capture is read
        valid = ", ".join([*POLICING_DETECTORS, *PAIR_DETECTORS])
        raise UnknownDetectorError(
            f"{'no detector named' if name is None else f'no detector {name!r}'}; valid: {valid}"
        )
    return _pair(name, captures, flows, times, as_json=as_json, console=console)


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
        console.print(Text(capture.path, style="italic"))
        if not verdicts:
            console.print("no TCP flow with data, so there is nothing to judge", highlight=False)
        for verdict in verdicts:
            _print_policing(verdict, console)
        for warning in capture.warnings:
            console.print(warning, style="yellow", highlight=False, markup=False)
    return 0


def _print_policing(verdict: FlowVerdict, console: Console) -> None:
    """One line that can be copied, as it names the flow for `--flow`, and the reason below it."""
    line = Text(f"{verdict.flow}: ").append(verdict.verdict, style="bold")
    if verdict.rate_bps is not None:
        line.append(f", {verdict.rate_bps / 1e6:.3f} Mbit/s")
    if verdict.burst_bytes is not None:
        line.append(f", burst {verdict.burst_bytes:,.0f} bytes")
    console.print(line, soft_wrap=True)
    console.print(Padding(Text(verdict.reason), (0, 0, 0, 2)))


def _pair(
    name: str,
    captures: Sequence[Path],
    flows: Sequence[str],
    times: Times,
    *,
    as_json: bool,
    console: Console,
) -> int:
    from weir.analysis.detect import detect

    first, second = two_files([_rereadable(capture) for capture in captures])
    jitter_ns, clock_error_ns = (
        None if ms is None else round(ms * 1e6) for ms in (times.jitter_ms, times.clock_error_ms)
    )
    found = detect(name, first, second, two_flows(flows), jitter_ns=jitter_ns, clock_error_ns=clock_error_ns)
    if as_json:
        answer = {
            "schema": 1,
            "detector": name,
            "flows": [flow.name for flow in found.flows],
            "captured": [seen.to_json() for seen in found.captured],
            "warnings": list(found.warnings),
            "clocks": {"error_ns": found.clock_error_ns, "drift": found.clock_drift},
            "verdict": found.result.verdict,
            "reason": found.result.reason,
            "detail": found.result.detail(),
        }
        print(json.dumps(answer))
        return 0
    for flow in found.flows:
        where = "" if flow.view == "sent" else ", captured behind the policer"
        console.print(
            f"{flow.name}: {flow.losses} of {plural(len(flow.time_ns), 'packet')} lost{where}",
            highlight=False,
        )
    if found.clock_drift:
        console.print(
            f"the second capture's clock runs {found.clock_drift * 1e6:+.1f} ppm faster; its times were "
            "converted",
            highlight=False,
        )
    verdict = (found.result.verdict, "bold")
    said = Text.assemble(f"detector {name} says ", verdict, f": {found.result.reason}")
    console.print(said, highlight=False)
    for warning in found.warnings:
        console.print(warning, style="yellow", highlight=False, markup=False)
    return 0


def _rereadable(capture: Path) -> Path:
    """The path of a capture that is read twice, for losses and timestamps: of a pipe, its content as a file.

    Pipes are standard input (`-`), `<(zcat FILE)` of a shell, which is `/dev/fd/N`, and FIFOs with a name.
    Raises OSError where a pipe cannot be read or there is no room for it.
    """
    if capture == options.STANDARD_INPUT:
        if not sys.stdin.seekable():
            _to_file(sys.stdin.buffer, 0)
        return Path("/dev/stdin")  # each opening begins at its start
    if not capture.is_fifo():
        return capture
    with capture.open("rb") as pipe:
        opened = re.fullmatch(r"/dev/fd/(\d+)", str(capture))
        descriptor = int(opened[1]) if opened else os.dup(pipe.fileno())
        _to_file(pipe, descriptor)
    return Path(f"/dev/fd/{descriptor}")


def _to_file(pipe: BinaryIO, descriptor: int) -> None:
    """Read a pipe to its end into a file without a name, which `descriptor` then stands for."""
    with tempfile.TemporaryFile() as copy:
        try:
            shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, tempfile.gettempdir()) from error
        os.dup2(copy.fileno(), descriptor)


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
