# SPDX-License-Identifier: Apache-2.0
"""`weir bmv2`: puts `weir-switch` on a PATH under the names of bmv2's programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weir.cli import options
from weir.cli.errors import InputError
from weir.cli.filled_help import Commands
from weir.topo.tools import find_own_program

# The names under which weir-switch takes bmv2's command line.
NAMES = ("simple_switch_grpc", "simple_switch")
# The name of the program for commands, and its module.
CLI_NAME, CLI_MODULE = "simple_switch_CLI", "weir.cli.simple_switch"

app = Commands(
    name="bmv2",
    help="weir-switch in the place of bmv2: `install` puts it on a PATH under bmv2's names.",
    no_args_is_help=True,
)


# With a callback, Typer keeps the name of the only command.
@app.callback()
def _bmv2() -> None:
    pass


@app.command()
def install(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Where the names go; made if missing.", callback=options.folder),
    ],
    as_json: options.AsJson = False,
) -> int:
    """Put simple_switch_grpc and simple_switch into DIR, as links to weir-switch, and simple_switch_CLI.

    Makefiles, Mininet classes and test runners that start bmv2 from PATH then start weir-switch. What it does
    otherwise is in docs/in-place-of-bmv2.md, and said at its start.
    """
    switch = find_own_program("weir-switch").resolve()
    links = [*link_names(folder, switch), write_cli(folder)]
    if as_json:
        print(json.dumps({"switch": str(switch), "links": [str(link) for link in links]}))
        return 0
    directory = folder.resolve()
    lines = [
        f"{', '.join(NAMES)} in {directory} are weir-switch ({switch}), {CLI_NAME} is weir's.",
        "Put the folder before bmv2's own:",
        f"  export PATH={directory}:$PATH",
        "Makefiles of p4lang/tutorials take the program by its path:",
        f"  make run BMV2_SWITCH_EXE={directory / NAMES[0]}",
        "sudo has a PATH of its own: sudo env PATH=$PATH COMMAND",
    ]
    Console().print("\n".join(lines), soft_wrap=True, highlight=False, markup=False)
    return 0


def link_names(folder: Path, switch: Path) -> list[Path]:
    """Make the links; those of an earlier call are replaced.

    Raises:
        InputError: a name is taken by something else, such as bmv2 itself; then nothing is changed.
        OSError: the folder or a link cannot be made.
    """
    links = [folder / name for name in NAMES]
    for link in links:
        taken = link.exists() or link.is_symlink()
        if taken and not (link.is_symlink() and link.readlink().name == switch.name):
            raise InputError(f"{link} is there and no link to weir-switch; give another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for link in links:
        made = link.with_name(f".{link.name}.{os.getpid()}")
        made.symlink_to(switch)
        made.replace(link)
    return links


def write_cli(folder: Path) -> Path:
    """Write the program for commands; one of an earlier call is replaced.

    Raises:
        InputError: the name is taken by something else.
        OSError: it cannot be written.
    """
    program = folder / CLI_NAME
    if program.exists() and CLI_MODULE not in program.read_text(errors="replace"):
        raise InputError(f"{program} is there and not weir's; give another folder, or remove it")
    made = program.with_name(f".{program.name}.{os.getpid()}")
    made.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m {CLI_MODULE} "$@"\n')
    made.chmod(0o755)
    made.replace(program)
    return program
