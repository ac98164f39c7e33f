# SPDX-License-Identifier: Apache-2.0
"""`weir kernel`: builds the kernels of runs in virtual time, and lists them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from weir.cli import options
from weir.cli.filled_help import Commands
from weir.cli.signals import stopped_by_sigterm
from weir.cli.terminal.build import BuildLine

if TYPE_CHECKING:
    from weir.kernel.store import StoredKernel

app = Commands(
    name="kernel",
    help="Kernels for runs in virtual time: `build` makes one, `list` shows those that exist.",
    no_args_is_help=True,
)


@app.command()
def build(
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="DIR", help="A source tree; by default Debian's linux-source-6.12."),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", metavar="SUITE", help="The newest Linux of another Debian, such as trixie-backports."
        ),
    ] = None,
    patches: Annotated[
        list[Path] | None,
        typer.Option("--patch", metavar="FILE", help="Apply a patch, as patch -p1 does; repeatable."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Its name; by default the version, + that of each patch."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Compilers at a time; by default as many as cores."),
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Build a User-Mode Linux kernel with virtual time and all congestion controls of its source.

    Needs no root, only compilers: Debian's source is downloaded with apt-get if it is not installed. The
    kernel is kept in ~/.cache/weir/kernels (XDG_CACHE_HOME), and not built again from the same inputs.
    """
    from weir.kernel.build import Order, build_kernel
    from weir.kernel.store import KernelStore, kernels_folder

    cores = len(os.sched_getaffinity(0))
    order = Order(source, tuple(patches or ()), name, jobs or cores, suite)
    notes = Console(stderr=True)
    began = time.monotonic()
    with stopped_by_sigterm(), BuildLine(notes) as line:
        outcome = build_kernel(order, KernelStore(kernels_folder()), line)
    if as_json:
        print(json.dumps(_as_json(outcome.kernel) | {"new": outcome.is_new}))
        return 0
    record = outcome.kernel.record
    how = f"built in {_minutes(time.monotonic() - began)}" if outcome.is_new else "was built before"
    console = Console()
    lines = [
        f"{record.name}: Linux {record.version}, {how}: {outcome.kernel.folder}",
        f"congestion controls: {' '.join(record.congestion_controls)}",
    ]
    if record.seed_patch is None:
        lines.append("not repeatable: weir's patch for the guest's entropy does not apply to this source")
    elif not record.repeatable:
        lines.append("not repeatable: two boots with the same seed drew different random bytes")
    for text in lines:
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    return 0


@app.command("list")
def list_kernels(as_json: options.AsJson = False) -> int:
    """Show the kernels that exist: name, version, source, patches and congestion controls.

    A kernel without a name is one whose name a newer kernel has. A repeatable one draws the same random
    bytes in each run; weir's patch for that does not apply to every source.
    """
    from weir.kernel.store import KernelStore, kernels_folder

    folder = kernels_folder()
    kernels = KernelStore(folder).kernels()
    if as_json:
        print(json.dumps([_as_json(kernel) for kernel in kernels]))
        return 0
    console = Console()
    if not kernels:
        console.print(
            f"no kernel in {folder}; build one with: weir kernel build", highlight=False, soft_wrap=True
        )
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "version", "source", "patches", "repeatable", "congestion controls"):
        table.add_column(heading, overflow="fold")
    for kernel in kernels:
        record = kernel.record
        patches = " ".join(patch.file for patch in record.patches)
        controls = " ".join(record.congestion_controls)
        repeatable = "yes" if record.repeatable else "no"
        table.add_row(
            record.name or "–", record.version, record.source.origin, patches or "–", repeatable, controls
        )
    console.print(table, markup=False)
    return 0


def _as_json(kernel: StoredKernel) -> dict[str, Any]:
    return kernel.record.model_dump(mode="json", by_alias=True) | {"folder": str(kernel.folder)}


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
