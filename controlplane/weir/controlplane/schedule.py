# SPDX-License-Identifier: Apache-2.0
"""Makes the changes of a phase at their times, and records when each took effect on both clocks."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from weir.controlplane.apply import SwitchControl
from weir.controlplane.entities import changes
from weir.controlplane.following import FlowFollower
from weir.controlplane.phase_plan import PhasePlan, Step

_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class MadeChange:
    """A completed change. It took effect within both intervals (begin, end), in ns."""

    step: Step
    updates: int
    realtime_ns: tuple[int, int]
    switch_ns: tuple[int, int] | None
    """On the switch's clock; None if the switch does not provide it."""

    def as_manifest(self) -> dict[str, Any]:
        """The change in the form of a run's manifest."""
        return {
            "at_s": self.step.at_ns / _NS,
            **self._changed(),
            "updates": self.updates,
            "realtime_ns": list(self.realtime_ns),
            "switch_clock_ns": None if self.switch_ns is None else list(self.switch_ns),
        }

    def _changed(self) -> dict[str, Any]:
        change, plan = self.step.change, self.step.plan
        if change.host is not None:
            link = plan.link_to(change.host)
            return {
                "host": change.host,
                "rate_bps": link.rate_bps,
                "burst_bytes": link.burst_bytes,
                "delay_s": link.delay_ns / _NS,
                "jitter_s": link.jitter_ns / _NS,
                "loss": link.loss_ppb / _NS,
            }
        policer = next(one for one in plan.policers if one.name == change.policer)
        return {**policer.as_dict(), "match": change.match is not None}


async def run_schedule(
    control: SwitchControl, phase: PhasePlan, made: list[MadeChange], follower: FlowFollower | None = None
) -> None:
    """Make the changes of ``phase``, whose traffic starts now; append each to ``made`` when it is written.

    ``follower`` is that of the phase's learned policers, if it has any: it takes over each change.

    Raises:
        ControlPlaneError: the switch refused a change, reads back something else, or disconnected.
    """
    clock = None if control.links is None else control.links.now_ns
    begin_s, current = time.monotonic(), phase
    for step in phase.steps:
        await asyncio.sleep(max(0.0, begin_s + step.at_ns / _NS - time.monotonic()))
        update = changes(current.entities, step.plan.entities)
        async with nullcontext() if follower is None else follower.changing_to(step.plan):
            before_ns = time.time_ns(), None if clock is None else await clock()
            await control.write(update)
            after_ns = None if clock is None else await clock(), time.time_ns()
        switch_ns = None if before_ns[1] is None or after_ns[0] is None else (before_ns[1], after_ns[0])
        made.append(MadeChange(step, len(update), (before_ns[0], after_ns[1]), switch_ns))
        await control.check(step.plan)
        current = step.plan
