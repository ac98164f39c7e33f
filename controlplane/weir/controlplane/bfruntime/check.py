# SPDX-License-Identifier: Apache-2.0
"""What a bf_switchd can and cannot do for weir, before anything is written to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from weir.controlplane.bfruntime.entities import FIXED
from weir.controlplane.bfruntime.session import READER_ID, BfRtSession
from weir.controlplane.connection import AllGroups, AllSessions, Asked, CellOf, EntriesOf
from weir.controlplane.errors import ControlPlaneError, NotPrimaryError
from weir.controlplane.pipeline import COUNTERS, METERS

_CHIPS = {"tofino": "tf1.", "tofino2": "tf2."}
"""What the names of a chip's own tables begin with, by target."""
_CHECKER_ID = READER_ID + 1
"""Client id while it is tried whether the program is free."""
LOAD = "weir apply EXPERIMENT --switch bfruntime://… --compiled DIR --load-pipeline"


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement of the switch, and what mends it."""

    name: str
    required: bool
    ok: bool
    found: str
    mend: str | None = None


async def check_switch(address: str, device_id: int, target: str, timeout_s: float) -> list[Finding]:
    """Check the bf_switchd at an address for a target; nothing is written.

    The client subscribes and binds for a moment, to see whether the program is free.
    """
    reader = BfRtSession(address, device_id, READER_ID, timeout_s, "reader")
    try:
        async with reader:
            found = [finding async for finding in _of_reader(reader, target)]
    except ControlPlaneError as error:
        return [Finding("bf_switchd", True, False, str(error), "start bf_switchd, and open its port 50052")]
    weirs = any(program.lacks() is None for program in reader.programs)
    return [*found, await _owner(address, device_id, timeout_s) if weirs else _not_tried("controller")]


async def _of_reader(session: BfRtSession, target: str) -> AsyncIterator[Finding]:
    yield Finding("bf_switchd", True, True, f"answers at {session.address}, device {session.device_id}")
    yield _chip(session, target)
    for finding in _fixed(session):
        yield finding
    yield _program(session)
    yield await _reads(session)
    yield await _ports(session)


def _chip(session: BfRtSession, target: str) -> Finding:
    names = [table.name for table in session.fixed.tables]
    chips = [chip for chip, prefix in _CHIPS.items() if any(name.startswith(prefix) for name in names)]
    if chips == [target]:
        return Finding("chip", True, True, target)
    found = " and ".join(chips) or "no tables of a known chip"
    return Finding("chip", True, False, found, f"--target {chips[0]}" if len(chips) == 1 else None)


def _fixed(session: BfRtSession) -> Iterator[Finding]:
    for name, fields in FIXED.items():
        table = session.fixed.find(name)
        known = set() if table is None else table.key.keys() | table.data.keys()
        missing = [field for field in fields if field not in known]
        required = name != "$PORT"  # without it, only switch.port_settings are impossible
        if missing:
            found = session.fixed.why_not(name) if table is None else f"no field {', '.join(missing)}"
            yield Finding(name, required, False, found, "open P4 Studio or SDE 9.13")
        else:
            yield Finding(name, required, True, f"has the {len(fields)} fields that weir uses")


def _program(session: BfRtSession) -> Finding:
    for program in session.programs:
        if program.lacks() is None:
            cells = ", ".join(f"{program.meter(meter).size:,} cells of {meter}" for meter in sorted(METERS))
            return Finding("program", False, True, f"{program.name}: weir's, with {cells}")
    others = ", ".join(f"{program.name} has {program.lacks()}" for program in session.programs)
    return Finding("program", False, False, others or "none runs", LOAD)


async def _reads(session: BfRtSession) -> Finding:
    """Reads each kind of thing that an apply reads."""
    name = "reads"
    if not any(program.lacks() is None for program in session.programs):
        return _not_tried(name)
    asked: list[Asked] = [EntriesOf(table) for table in session.program.tables()]
    try:
        found = await session.entities([*asked, AllGroups(), AllSessions(), *(CellOf(m, 1) for m in METERS)])
        for counter in sorted(COUNTERS):
            await session.counts(counter, [0])
    except ControlPlaneError as error:
        return Finding(name, True, False, str(error), "this SDE is not as open P4 Studio: report this text")
    what = f"{len(asked)} tables, {len(METERS)} meter, {len(COUNTERS)} counters, groups and sessions"
    return Finding(name, True, True, f"{what}: {len(found)} entries, cells, groups and sessions")


async def _ports(session: BfRtSession) -> Finding:
    if not any(program.lacks() is None for program in session.programs):
        return _not_tried("ports")
    try:
        ports = await session.ports_up()
    except ControlPlaneError as error:
        return Finding("ports", False, False, str(error))
    down = [port for port, up in sorted(ports.items()) if not up]
    if ports and not down:
        return Finding("ports", False, True, f"all {len(ports)} that were added are up")
    found = f"{len(ports) - len(down)} up; down: {ranges_of(down)}" if ports else "none was added"
    return Finding("ports", False, False, found, "switch.port_settings in the experiment, or ucli's pm")


def ranges_of(numbers: Sequence[int]) -> str:
    """Ascending numbers, those in a row as one range: bf_switchd adds all ports when it starts."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


async def _owner(address: str, device_id: int, timeout_s: float) -> Finding:
    try:
        async with BfRtSession(address, device_id, _CHECKER_ID, timeout_s):
            return Finding("controller", True, True, "none owns weir's program")
    except NotPrimaryError as error:
        return Finding("controller", True, False, str(error), "stop that controller")
    except ControlPlaneError as error:
        return Finding("controller", True, False, str(error))


def _not_tried(name: str) -> Finding:
    return Finding(name, False, False, "not tried: weir's program does not run")
