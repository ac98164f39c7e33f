# SPDX-License-Identifier: Apache-2.0
"""The processes of one trial: found by a variable that all of them inherit, named by what they do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.topo.inherited import processes_with

MARKER = "WEIR_CHAOS_TRIAL"
"""Environment variable with the trial's unique value."""


@dataclass(frozen=True, slots=True, order=True)
class Process:
    """A process of the trial: its role, and its id here."""

    role: str
    pid: int


def processes_of(trial: str) -> list[Process]:
    """The processes of a trial, by role and id."""
    return sorted(_found(trial))


def _found(trial: str) -> Iterator[Process]:
    for folder in processes_with(MARKER, trial):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            status = (folder / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if facts["State"].split()[0] not in "ZX":
            innermost = facts.get("NSpid", folder.name).split()
            yield Process(role_of(words, innermost), int(folder.name))


def role_of(words: list[str], ids: list[str]) -> str:
    """The role of a process, by its command line and its ids from the outermost PID namespace to its own."""
    program = Path(words[0]).name
    if not program.startswith("python"):
        return program
    text = "\0".join(words)
    if "sandbox_init" in text:
        return "sandbox's process 1" if ids[-1] == "1" else "runner"
    for name in ("campaign", "run", "report"):
        if f"/weir\0{name}\0" in text:
            return f"weir {name}"
    module = next((word for word in words if word.startswith("from weir.")), "")
    return module.split()[1].removeprefix("weir.") if module else "another Python"


def wait_for_none(trial: str, patience_s: float) -> list[Process]:
    """Wait until no process of the trial is left; returns those that are left after `patience_s`."""
    give_up = time.monotonic() + patience_s
    while (left := processes_of(trial)) and time.monotonic() < give_up:
        time.sleep(0.1)
    return left


def threads_of(pid: int) -> list[int]:
    """Ids of a process's threads; none if it has ended."""
    try:
        return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:
        return []
