# SPDX-License-Identifier: Apache-2.0
"""One phase of a run: its flows, the changes of its schedule, and the flows that the switch learns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from weir.controlplane.apply import SwitchControl
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.following import FlowFollower
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.schedule import MadeChange, run_schedule
from weir.rundir.manifest import Change, Learned, LinkChange
from weir.rundir.plural import plural
from weir.topo.program import ProcessError
from weir.topo.stop import StopToken
from weir.topo.traffic import TrafficResult

WATCH_S = 1.0


class Traffic(Protocol):
    """Runs the flows of a phase; calls ``on_start`` when they begin."""

    def __call__(self, *, on_start: Callable[[], None]) -> TrafficResult:
        """Run the flows until all have ended."""
        ...


@dataclass(frozen=True)
class PhaseEvents:
    """The changes made during a phase, and the final state of each policer that learns flows."""

    changes: tuple[Change, ...]
    link_changes: tuple[LinkChange, ...]
    learned: Mapping[str, Learned]

    @property
    def problems(self) -> list[str]:
        """A line for each learning policer with more flows than buckets: their ground truth is unknown."""
        return [
            f"{plural(status.flows_without_cell, 'flow')} of {name} found no free bucket"
            for name, status in self.learned.items()
            if status.flows_without_cell
        ]


class Watched(Protocol):
    """A program that must not end before the flows have."""

    def check_running(self) -> None:
        """Raise ProcessError if it has ended."""
        ...


Guard = Callable[[], Coroutine[Any, Any, None]]
"""Raises ProcessError or ControlPlaneError when the run cannot continue; returns never or when cancelled."""


def all_well(check: Callable[[], None], *programs: Watched) -> Guard:
    """A guard of programs, and of what `check` raises ProcessError for, such as a full disk."""

    async def guard() -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            for program in programs:
                program.check_running()
            await asyncio.to_thread(check)

    return guard


async def _fail_with(guard: Guard, stop: StopToken) -> None:
    try:
        await guard()
    except (ProcessError, ControlPlaneError) as error:
        stop.fail(error)


async def run_phase(
    control: SwitchControl,
    phase: PhasePlan,
    traffic: Traffic,
    guards: Sequence[Guard],
    stop: StopToken,
) -> tuple[TrafficResult, PhaseEvents]:
    """Run the flows of a phase whose entries are installed; `stop` fails with the error of a guard.

    Raises ControlPlaneError, after the flows have ended, when the switch rejected a change or an entry.
    """
    follower = FlowFollower(control, phase)
    learned = any(policer.learned_cells for policer in phase.policers)
    begun, loop = asyncio.Event(), asyncio.get_running_loop()
    applied: list[MadeChange] = []

    def begin() -> None:
        loop.call_soon_threadsafe(begun.set)

    async def changes() -> None:
        await begun.wait()
        await run_schedule(control, phase, applied, follower if learned else None)

    if learned:
        await follower.start()
    following = asyncio.create_task(follower.run()) if learned else None
    changing = asyncio.create_task(changes())
    guarding = [asyncio.create_task(_fail_with(guard, stop)) for guard in guards]
    try:
        result = await asyncio.to_thread(traffic, on_start=begin)
        await changing
        if following is not None and following.done():
            await following
    finally:
        tasks = [task for task in (changing, following, *guarding) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return result, PhaseEvents(
        tuple(Change.model_validate(one.as_manifest()) for one in applied if one.step.change.policer),
        tuple(LinkChange.model_validate(one.as_manifest()) for one in applied if one.step.change.host),
        {name: Learned(**asdict(status)) for name, status in follower.status().items()},
    )
