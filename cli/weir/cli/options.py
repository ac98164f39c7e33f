# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands share."""

import errno
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from weir.cli import completion
from weir.cli.errors import InputError
from weir.controlplane.shipped import find_experiment

STANDARD_INPUT = Path("-")
LARGEST_DEVICE_ID, LARGEST_ELECTION_ID = 2**64 - 1, 2**128 - 1
"""P4Runtime has them as uint64 and uint128."""
LARGEST_BFRUNTIME_ID = 2**32 - 1
"""BfRuntime has the ids of devices and of clients as uint32."""


def _find(given: Path | None) -> Path | None:
    """The file of an experiment argument; None while a shell completes a command without one."""
    return None if given is None else find_experiment(given)


def writable(given: Path | None) -> Path | None:
    """The file of an option that names what to write; checked here, before the work whose result it gets.

    Raises InputError where no file can be made, and for devices: a new file takes the place of an old one.
    """
    if given is None:
        return None
    if given.is_dir():
        raise InputError(f"{given}: is a folder; valid: the name of a file")
    if not given.parent.is_dir():
        raise InputError(f"{given}: {given.parent} is no folder; valid: a file in a folder that exists")
    # /dev/stdout is a link, which may lead to a file.
    if given.absolute().parent == Path("/dev") or (given.exists() and not given.is_file()):
        raise InputError(f"{given}: is a device or a pipe, and no file to replace; valid: the name of a file")
    return given


def folder(given: Path | None) -> Path | None:
    """The folder of an option, which is made where it is missing; raises InputError where it cannot be."""
    if given is not None:
        places = (given, *given.parents)
        _check_folder(given, next((place for place in places if os.path.lexists(place)), given))
    return given


def existing_folder(given: Path | None) -> Path | None:
    """The folder of an option; raises InputError where it is none."""
    if given is not None:
        _check_folder(given, given)
    return given


def _check_folder(given: Path, place: Path) -> None:
    if not place.is_dir():
        what = "is" if place == given else f"{place} is"
        raise InputError(f"{given}: {what} no folder; valid: a folder")


def readable(given: Path | None) -> Path | None:
    """The file of an argument or option; raises InputError where it cannot be read."""
    if given is None:
        return None
    if given.is_dir():
        raise InputError(f"{given}: is a folder; valid: a file")
    try:
        given.stat()
    except OSError as error:
        raise InputError(f"{given}: {error.strerror}; valid: a file") from error
    if not os.access(given, os.R_OK):
        raise InputError(f"{given}: {os.strerror(errno.EACCES)}; valid: a file that you may read")
    return given


def captures(given: list[Path] | None) -> list[Path] | None:
    """The files of an argument that names captures; raises InputError where two are standard input."""
    if given is not None and given.count(STANDARD_INPUT) > 1:
        raise InputError("- is given twice; valid: once, as standard input is read once")
    return given


def finite(option: typer.CallbackParam, given: float | None) -> float | None:
    """The number of an option, which `inf` is none of; raises InputError."""
    if given == math.inf:
        raise InputError(f"{option.opts[0]} {given}: not a finite number; valid: such as 10")
    return given


def within(low: int, high: int) -> Callable[[typer.CallbackParam, float], float]:
    """Checks that the number of an option is in a range; the callback raises InputError, which names it."""

    def check(option: typer.CallbackParam, given: float) -> float:
        if not low <= given <= high:  # nor is it for NaN
            raise InputError(f"{option.opts[0]} {given}: out of range; valid: {low} to {high}")
        return given

    return check


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
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Of a Tofino: what the compiler wrote, and the P4Info.",
        callback=existing_folder,
    ),
]
ThriftPort = Annotated[
    int | None,
    typer.Option(min=1, max=65_535, help="bmv2's, on this machine: its queues are set through it."),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Use TLS: the authority of the switch's certificate (PEM).",
        callback=readable,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Certificate to show to the switch (PEM).", callback=readable),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Private key of that certificate (PEM).", callback=readable),
]

PRIMARY_ID, BACKUP_ID = 2, 1
"""Default election ids; a backup has the lower one."""
DEFAULT_SWITCH = "127.0.0.1:9559"

Runs = Annotated[
    Path, typer.Option("--runs", metavar="DIR", help="Where run directories go.", callback=folder)
]
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
OutFile = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="What to write.", callback=writable)
]
CAPTURES = "Captures (pcap or pcapng), compressed or not; - is standard input."
Captures = Annotated[
    list[Path], typer.Argument(metavar="FILE…", help=CAPTURES, show_default=False, callback=captures)
]
