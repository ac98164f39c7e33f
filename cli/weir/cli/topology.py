# SPDX-License-Identifier: Apache-2.0
"""`weir topology`: draws the topology of an experiment, or of a cell of a campaign."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir.cli import options
from weir.cli.errors import InputError
from weir.rundir.whole_files import write_whole

if TYPE_CHECKING:
    from weir.controlplane.config import ExperimentConfig


def topology(
    config: options.Experiment,
    out: options.OutFile,
    cell: Annotated[list[str] | None, typer.Option(metavar="AXIS=LABEL", help="Of a campaign.")] = None,
    as_json: options.AsJson = False,
) -> int:
    """Draw an experiment: hosts, delays, queues, policers, and who sends what through them.

    Of a campaign, one cell is drawn: the first of those that --cell leaves, and the command says which.
    """
    return topology_command(config, out, cell=cell or [], as_json=as_json, console=Console())


def topology_command(file: Path, out: Path, *, cell: Sequence[str], as_json: bool, console: Console) -> int:
    """Draw an experiment, or the first run of a campaign's cell; returns the exit code.

    Raises ConfigError, PlanError, OSError; InputError for a cell that the campaign does not have.
    """
    from weir.diagram.picture import pictures
    from weir.diagram.svg import svg

    experiment, cells = _experiment(file, cell)
    drawn = pictures(experiment)
    write_whole(out, svg(drawn).encode())
    if as_json:
        answer = {"file": str(out), "phases": len(drawn), "cell": cells[0], "cells": len(cells)}
        print(json.dumps(answer))
        return 0
    which = ""
    if cells[0]:
        which = f"; cell {', '.join(f'{axis}={label}' for axis, label in cells[0].items())}"
    if len(cells) > 1:
        which += f", the first of {len(cells)}; --cell AXIS=LABEL chooses others"
    console.print(f"{out}: {drawn[0].title}{which}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _experiment(file: Path, cell: Sequence[str]) -> tuple[ExperimentConfig, list[Mapping[str, str]]]:
    """The experiment that is drawn, and the cells that remain, its own first; `{}` stands for no matrix."""
    from weir.campaign.config import KEYS
    from weir.campaign.load import load_campaign
    from weir.controlplane.config import Source, load_experiment, one_of, read_text

    if not set(Source.parse(read_text(file), str(file)).data) & set(KEYS):
        if cell:
            raise InputError(f"--cell {cell[0]}: {file} is not a campaign; valid: without --cell")
        return load_experiment(file), [{}]
    runs = load_campaign(file).runs
    for wanted in cell:
        axis, _, label = wanted.partition("=")
        kept = [run for run in runs if run.cell.get(axis) == label]
        if not kept:
            cells = dict.fromkeys(f"{name}={value}" for run in runs for name, value in run.cell.items())
            raise InputError(f"--cell {wanted}: no run of {file} has it; {one_of(cells)}")
        runs = tuple(kept)
    return runs[0].experiment, [dict(its) for its in dict.fromkeys(tuple(run.cell.items()) for run in runs)]
