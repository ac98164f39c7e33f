# SPDX-License-Identifier: Apache-2.0
"""Generated scripts, fitted to a switch: p4testgen does not know its ports, cells and mirror sessions.

Each script takes the same path through the program as before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weir.controlplane.entities import CloneSession, Match, TableEntry
from weir.ptftests.control import Writable
from weir.ptftests.expect import OUTER_BYTES
from weir.ptftests.scripts import Script, ScriptError

_DOMAIN, _POLICER = (slice(2 * (OUTER_BYTES + at), 2 * (OUTER_BYTES + at + 2)) for at in (14, 44))
"""The domain and the policer in the hexadecimal digits of a report's frame."""
_WEIR = "5745"
"""The domain number of weir's reports."""
_CELL_OF = {
    "police_shared": "cell",
    "police_hashed": "base",
    "police_learned": "base",
    "set_flow_cell": "cell",
}


def on_ports(script: Script, numbers: Mapping[int, int]) -> Script:
    """A script whose entries name a target's ports, given by those that the script has.

    Where another number of the script is a target's port, it gets one of those that became free.
    """
    taken, free = (
        sorted(set(one) - set(other))
        for one, other in ((numbers.values(), numbers), (numbers, numbers.values()))
    )
    there = {**numbers, **dict(zip(taken, free, strict=True))}

    def renumber(port: int) -> int:
        return there.get(port, port)

    def rewritten(entity: Writable) -> Writable:
        if isinstance(entity, CloneSession):
            return replace(entity, ports=tuple(map(renumber, entity.ports)))
        return _with_args(entity, lambda name, value: renumber(value) if name == "port" else value)

    written = tuple(map(rewritten, script.written))
    return _matching(replace(script, written=written), "ingress_port", script.port, renumber(script.port))


def in_cells(script: Script, cells: int) -> Script:
    """A script whose policers have cells below `cells`, in the place of any number of 16 bits.

    A policer that is hashed to cells beyond has one cell, since the generator does not know the hash either.
    """
    entries = [entity for entity in script.written if isinstance(entity, TableEntry)]
    policing = {entry.action: dict(entry.args) for entry in entries if entry.action in _CELL_OF}
    last = max((args[_CELL_OF[action]] + args.get("mask", 0) for action, args in policing.items()), default=0)
    if last < cells:
        return script

    def below(entity: Writable) -> Writable:
        return _with_args(entity, lambda name, value: _below(name, value, cells))

    known = "set_flow_cell" if "set_flow_cell" in policing else next(iter(policing))
    met = policing[known][_CELL_OF[known]]
    exact = policing[known].get("mask", 0) == 0
    written = tuple(
        below(entity) if isinstance(entity, TableEntry) and entity.action in _CELL_OF else entity
        for entity in script.written
    )
    expected = {
        port: tuple(pattern and _with_policer(pattern, met % cells) for pattern in patterns)
        for port, patterns in script.expected.items()
    }
    moved = replace(script, written=written, expected=expected)
    return _matching(moved, "cell", met if exact else None, met % cells)


def in_sessions(script: Script, sessions: int) -> Script:
    """A script whose mirror sessions have numbers from 1 to `sessions`, in the place of any of 32 bits."""

    def possible(entity: Writable) -> Writable:
        return _with_args(entity, lambda name, value: 1 + value % sessions if name == "session" else value)

    return replace(script, written=tuple(map(possible, script.written)))


def _below(name: str, value: int, cells: int) -> int:
    return {"cell": value % cells, "base": value % cells, "mask": 0}.get(name, value)


def _with_policer(pattern: str, cell: int) -> str:
    if pattern[_DOMAIN] != _WEIR:
        return pattern  # no report
    return pattern[: _POLICER.start] + f"{cell:04x}" + pattern[_POLICER.stop :]


def _with_args(entity: Writable, rewritten: Callable[[str, int], int]) -> Writable:
    if not isinstance(entity, TableEntry):
        return entity
    return replace(entity, args=tuple((name, rewritten(name, value)) for name, value in entity.args))


def _matching(script: Script, field: str, old: int | None, new: int) -> Script:
    """Let entries that match bits of a field match `new`; they have matched `old`, where it is known."""

    def matched(match: Match) -> Match:
        if match.field != field or match.mask is None:
            return match
        if old is not None and old & match.mask != match.value:
            raise ScriptError(f"test {script.name}: {match} does not match {old}")
        return replace(match, value=new & match.mask)

    written = tuple(
        replace(entity, matches=tuple(map(matched, entity.matches)))
        if isinstance(entity, TableEntry)
        else entity
        for entity in script.written
    )
    return replace(script, written=written)
