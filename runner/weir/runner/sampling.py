# SPDX-License-Identifier: Apache-2.0
"""Samples the switch's counters while a phase runs, over the run's own P4Runtime connection."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection

from weir.controlplane.apply import SwitchControl
from weir.controlplane.counters import PolicerCounters, read_policers
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.policer_plan import PolicerPlan
from weir.runner.progress import Reading, Sample, Watcher

PERIOD_S = 0.25
BUSY_SHARE = 0.05
"""Upper limit of the share of time that is spent on reading; slow readings are made less often."""
MAX_CELLS = 512
"""Policers of more cells are not sampled: each cell is four counters."""


@contextlib.asynccontextmanager
async def sampled(control: SwitchControl, phase: PhasePlan, watcher: Watcher | None) -> AsyncIterator[None]:
    """Give `watcher` a sample every `PERIOD_S` seconds in the context, and one at its end.

    Nothing is read without a watcher.
    """
    if watcher is None:
        yield
        return
    sampler = asyncio.create_task(_sample(control, phase, watcher))
    try:
        yield
    finally:
        sampler.cancel()
        await asyncio.gather(sampler, return_exceptions=True)
    with contextlib.suppress(ControlPlaneError):
        watcher(await read_sample(control, phase))


async def _sample(control: SwitchControl, phase: PhasePlan, watcher: Watcher) -> None:
    # A switch that no longer answers is an error of the run's next request, not of a sample.
    with contextlib.suppress(ControlPlaneError):
        while True:
            begin = time.monotonic()
            sample = await read_sample(control, phase)
            watcher(sample)
            took_s = time.monotonic() - begin
            await asyncio.sleep(max(PERIOD_S - took_s, took_s / BUSY_SHARE))


async def read_sample(control: SwitchControl, phase: PhasePlan) -> Sample:
    """Read the counters of the phase's policers and shaped queues. Raises ControlPlaneError.

    A policer is left out if it has too many cells, or if a verdict depends on the packets' ECN field, so that
    its colours do not say which packets it dropped.
    """
    policers = [policer for policer in phase.policers if policer.cells <= MAX_CELLS]
    counters = await read_policers(control.counts, policers)
    changing = {step.change.policer for step in phase.steps}
    readings = [
        _of_policer(policer, dropped, counters[policer.name], changes=policer.name in changing)
        for policer in policers
        if (dropped := policer.config.dropped_colours) is not None
    ]
    return Sample(time.monotonic(), (*readings, *await _queues(control, phase)))


async def _queues(control: SwitchControl, phase: PhasePlan) -> list[Reading]:
    numbers = {name: phase.hosts[name].port for name in sorted(phase.queued)}
    if not numbers:
        return []
    links = await control.read_links()
    ports = await control.read_ports(list(numbers.values()))
    return [
        Reading(
            name=f"queue to {name}",
            rate_bps=links[number].link.rate_bps,
            passed_packets=ports[number].sent.packets,
            passed_bytes=ports[number].sent.bytes,
            dropped_packets=links[number].queue_drops,
        )
        for name, number in numbers.items()
        if number in links
    ]


def _of_policer(
    policer: PolicerPlan, dropped: Collection[str], counters: PolicerCounters, *, changes: bool
) -> Reading:
    by_colour = {"green": counters.green, "yellow": counters.yellow, "red": counters.red}
    passed = [count for colour, count in by_colour.items() if colour not in dropped]
    return Reading(
        name=policer.name,
        rate_bps=None if changes else policer.rate_bps,
        passed_packets=sum(count.packets for count in passed),
        passed_bytes=sum(count.bytes for count in passed),
        dropped_packets=sum(count.packets for colour, count in by_colour.items() if colour in dropped),
    )
