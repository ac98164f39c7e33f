# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from weir.cli import completion
from weir.controlplane.shipped import find_experiment

LARGEST_DEVICE_ID, LARGEST_ELECTION_ID = 2**64 - 1, 2**128 - 1
"""P4Runtime has them as uint64 and uint128."""
LARGEST_BFRUNTIME_ID = 2**32 - 1
"""BfRuntime has the ids of devices and of clients as uint32."""


def _find(given: Path | None) -> Path | None:
    """The file of an experiment argument; None while a shell completes a command without one."""
    return None if given is None else find_experiment(given)


Experiment = Annotated[
    Path,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Experiment file (YAML), or the name of a shipped one, such as demo.",
        show_default=False,
        callback=_find,
        autocompletion=completion.experiments,
    ),
]
Campaign = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="Campaign file (YAML), or the name of a shipped one, such as wehey-bbr.",
        show_default=False,
        callback=_find,
        autocompletion=completion.campaigns,
    ),
]
Switch = Annotated[
    str | None,
    typer.Option(
        "--switch",
        metavar="ADDRESS:PORT",
        help="P4Runtime of the switch, or bfruntime://ADDRESS of a Tofino's bf_switchd; by default the "
        "file's address, else 127.0.0.1:9559.",
    ),
]
DeviceId = Annotated[
    int | None,
    typer.Option(
        "--device-id",
        min=0,
        max=LARGEST_DEVICE_ID,
        help="Id that the switch was started with; by default the file's, else 1 (of a bf_switchd 0).",
    ),
]
ElectionId = Annotated[
    int,
    typer.Option(
        "--election-id",
        min=1,
        max=LARGEST_ELECTION_ID,
        help="No two controllers have one; the highest is primary.",
    ),
]
PhaseName = Annotated[
    str | None, typer.Option("--phase", metavar="NAME", help="Phase of the experiment; by default the first.")
]
Compiled = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Of a Tofino: what the compiler wrote, and the P4Info.")
]
ThriftPort = Annotated[
    int | None,
    typer.Option(min=1, max=65_535, help="bmv2's, on this machine: its queues are set through it."),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Use TLS: the authority of the switch's certificate (PEM)."),
]
TlsCert = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Certificate to show to the switch (PEM).")
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of that certificate (PEM).")]

PRIMARY_ID, BACKUP_ID = 2, 1
"""Default election ids; a backup has the lower one."""
DEFAULT_SWITCH = "127.0.0.1:9559"

Runs = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run directories go.")]
TimeOption = Annotated[
    Literal["real", "virtual"] | None,
    typer.Option(
        "--time", help="Virtual time: on a kernel of `weir kernel build`. By default the experiment's."
    ),
]
KernelOption = Annotated[
    str | None,
    typer.Option("--kernel", metavar="NAME", help="Kernel of a run in virtual time; by default 6.12."),
]
TestbedOption = Annotated[
    Path | None,
    typer.Option("--testbed", metavar="FILE", help="Run on this testbed's hosts and switch instead."),
]
Memory = Annotated[
    int | None,
    typer.Option("--memory", metavar="MB", min=128, help="Memory of that kernel; by default 1024 MB."),
]
Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        metavar="NAME",
        help="Kernel of runs in virtual time; several are an axis of the campaign.",
    ),
]
Plain = Annotated[
    bool, typer.Option("--plain", help="Print lines, where a terminal would show a live picture.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
LoadPipeline = Annotated[
    bool, typer.Option("--load-pipeline", help="Replace another pipeline; empties tables and counters.")
]
OutFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="What to write.")]
Captures = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Captures (pcap or pcapng), compressed or not.", show_default=False),
]
