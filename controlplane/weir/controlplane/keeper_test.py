# SPDX-License-Identifier: Apache-2.0
"""How a keeper reacts to changes by others. Restarts and fail-over are tested on real switches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.connection import Part
from weir.controlplane.keeper import Event, Keeper
from weir.controlplane.links_service import MESSAGES
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.plan import make_plan
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

_PATIENCE_S = 60.0
EXPERIMENT = """\
name: kept
hosts: {a: {delay: 5 ms}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers: [{name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}]
"""


class Kept:
    """A keeper of a test's server, and its events."""

    def __init__(self, server: P4RuntimeServer) -> None:
        experiment = parse_experiment(EXPERIMENT)
        self.phase: PhasePlan = make_plan(experiment, attachment_of(experiment)).phase("main")
        self.server, self.beside_calls = server, 0
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    def connect(self, part: Part) -> SwitchControl:
        return SwitchControl(self.server.address, part=part)

    async def next(self, kind: str) -> Event:
        async with asyncio.timeout(_PATIENCE_S):
            while (event := await self._events.get()).kind != kind:
                pass
        return event

    async def during(self, action: Callable[[], Awaitable[None]], *, backup: bool = False) -> None:
        async def beside() -> None:
            self.beside_calls += 1

        say = self._events.put_nowait
        keeper = Keeper(
            self.server.address,
            self.connect,
            self.phase,
            say,
            backup=backup,
            reading_s=0.01,
            beside=beside,
        )
        running = asyncio.create_task(keeper.run())
        try:
            await action()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def test_changes_of_the_switch_by_others_are_repaired_and_reported() -> None:
    async def scenario() -> None:
        links = {port: MESSAGES["Link"]() for port in (1, 2, 3)}
        async with P4RuntimeServer(links=links) as server:
            kept = Kept(server)

            async def change() -> None:
                await kept.next("configured")
                assert server.links is not None
                server.entities.clear()
                server.links[1].delay_ns = 7
                repaired = await kept.next("repaired")
                assert server.links[1].delay_ns == 5_000_000
                # All P4Runtime entities of the phase, and the link.
                assert repaired.details["updates"] == len(server.entities) + 1

            await kept.during(change)

    asyncio.run(scenario())


def test_settings_outside_p4runtime_are_set_too_but_not_by_a_backup_that_takes_over() -> None:
    async def scenario() -> None:
        async with P4RuntimeServer(links={1: MESSAGES["Link"]()}) as server:
            kept = Kept(server)

            async def configured() -> None:
                await kept.next("configured")

            await kept.during(configured)
            assert kept.beside_calls == 1
            await kept.during(configured, backup=True)
            assert kept.beside_calls == 1

    asyncio.run(scenario())


def test_counters_that_decrease_are_a_discontinuity_with_the_last_reading() -> None:
    met = load_pipeline().schema.counters["met_counter"].id

    async def scenario() -> None:
        async with P4RuntimeServer(links={1: MESSAGES["Link"]()}, counters={(met, 1): (9, 0)}) as server:
            kept = Kept(server)

            async def reset() -> None:
                await kept.next("configured")
                server.counters[met, 1] = (2, 0)
                event = await kept.next("discontinuity")
                before, after = (event.details[when]["p"]["packets_met"] for when in ("before", "after"))
                assert (before, after) == (9, 2)

            await kept.during(reset)

    asyncio.run(scenario())
