# SPDX-License-Identifier: Apache-2.0
"""`weir stratum`: writes the chassis and pipeline configuration of a Tofino under Stratum."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir.cli import options
from weir.cli.errors import InputError
from weir.controlplane.units import parse_rate
from weir.rundir.whole_files import write_whole

if TYPE_CHECKING:
    from weir.controlplane.targets.tofino_chassis import Panel

CHASSIS_NAME = "chassis_config.pb.txt"
PIPELINE_NAME = "pipeline_config.pb.bin"
_PANEL = re.compile(r"(?P<name>[^=]+)=(?P<port>\d{1,3})(/(?P<channel>\d))?")


def stratum(
    config: options.Experiment,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the files go.", callback=options.folder)
    ],
    compiled: options.Compiled = None,
    panel: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST=PORT[/CHANNEL]", help="Front-panel port of a host; give all or none."),
    ] = None,
    speed: Annotated[str, typer.Option(help="Speed of these ports.")] = "100 Gbit/s",
    as_json: options.AsJson = False,
) -> int:
    """Write what a Tofino under Stratum needs for an experiment: its chassis and pipeline configuration.

    The chassis configuration has the hosts' shaped queues, and with --panel the ports. The pipeline's is made
    of the compiler's output.
    """
    return stratum_command(
        config,
        out,
        compiled=compiled,
        panels=panel or [],
        speed=speed,
        as_json=as_json,
        console=Console(),
    )


def stratum_command(
    config: Path,
    out: Path,
    *,
    compiled: Path | None,
    panels: Sequence[str],
    speed: str,
    as_json: bool,
    console: Console,
) -> int:
    """Write the chassis configuration, and the pipeline configuration if `compiled` is given.

    Raises:
        InputError: the experiment is for another target, or an option `--panel` is malformed.
        PipelineError: the compiler's output is incomplete.
        PlanError: the experiment cannot be planned.
        OSError: a file cannot be read or written.
    """
    from weir.controlplane.attach import attachment_of
    from weir.controlplane.config import load_experiment
    from weir.controlplane.plan import make_plan
    from weir.controlplane.targets.tofino_chassis import CELL_BYTES, chassis_text
    from weir.controlplane.targets.tofino_pipeline import bf_pipeline_config

    experiment = load_experiment(config)
    if experiment.switch.target not in CELL_BYTES:
        raise InputError(
            f"{config}: switch.target is {experiment.switch.target}; valid: {', '.join(CELL_BYTES)}"
        )
    attachment = attachment_of(experiment)
    make_plan(experiment, attachment)
    placed = dict(_panel(panel, list(experiment.hosts), speed) for panel in panels)
    chassis = chassis_text(experiment, attachment.hosts, placed)
    files = {CHASSIS_NAME: chassis.encode()} if chassis else {}
    if compiled is not None:
        files[PIPELINE_NAME] = bf_pipeline_config(compiled)
    if not files:
        raise InputError(f"{config}: nothing to write; valid: a host with a rate, --panel, or --compiled")
    out.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_whole(out / name, data)
    if as_json:
        print(json.dumps({name: str(out / name) for name in files}))
    else:
        for name, data in files.items():
            console.print(f"{out / name}: {len(data)} bytes", markup=False, highlight=False, soft_wrap=True)
    return 0


def _panel(text: str, hosts: Sequence[str], speed: str) -> tuple[str, Panel]:
    from weir.controlplane.targets.tofino_chassis import Panel

    match = _PANEL.fullmatch(text)
    if match is None or match["name"] not in hosts:
        raise InputError(f"--panel {text!r}; valid: HOST=PORT or HOST=PORT/CHANNEL, of {', '.join(hosts)}")
    return match["name"], Panel(int(match["port"]), int(match["channel"] or 0), parse_rate(speed))
