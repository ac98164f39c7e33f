# SPDX-License-Identifier: Apache-2.0
"""The writes of a follower and of a schedule, on a switch that keeps them and says when to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from finsy import P4DigestList

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.connection import Digest, Update
from weir.controlplane.entities import Changes, Count, MeterCell, TableEntry
from weir.controlplane.errors import RefusedUpdate, WriteError
from weir.controlplane.following import FlowFollower
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.plan import make_plan
from weir.controlplane.schedule import run_schedule

_PATIENCE_S = 60.0
EXPERIMENT = """\
name: learned
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
phases:
  - name: main
    policers:
      - name: each
        rate: 8 Mbit/s
        burst: 20 kB
        mode: per_flow_learned
        cells: 4
        flows: 2
        idle: 4 ms
        match: [{from: a}]
    changes: [{at: 0 s, policer: each, rate: 800 kbit/s}]
"""
OLD_BYTES_PER_S, NEW_BYTES_PER_S = 1_000_000, 100_000


async def _go_on() -> None:
    pass


@dataclass
class Switch:
    """The parts of a switch's controller and session that a follower and a schedule use.

    It has no packets: every learned flow is idle.
    """

    digests: asyncio.Queue[Digest] = field(default_factory=asyncio.Queue)
    cells: dict[int, MeterCell] = field(default_factory=dict)
    entries: dict[str, TableEntry] = field(default_factory=dict)
    writes: asyncio.Queue[Sequence[Update]] = field(default_factory=asyncio.Queue)
    before_write: Callable[[], Awaitable[None]] = _go_on
    """Awaited before a batch of a follower takes effect."""
    room: int = 1000
    """Entries that the table of learned flows holds."""
    before_change: Callable[[], Awaitable[None]] = _go_on
    """Awaited before a change of a schedule takes effect."""
    code: str = "RESOURCE_EXHAUSTED"
    """The code with which an entry beyond `room` is refused."""
    links: None = None

    @property
    def session(self) -> Switch:
        return self

    @property
    def control(self) -> SwitchControl:
        return cast(SwitchControl, self)

    async def learned_flows(self, phase: PhasePlan) -> list[TableEntry]:
        return []

    async def announce_flows(self) -> None:
        pass

    async def next_digest(self) -> Digest:
        return await self.digests.get()

    async def counts(self, counter: str, indices: Sequence[int]) -> Mapping[int, Count]:
        return dict.fromkeys(indices, Count(1, 64))

    async def write_batch(self, updates: Sequence[Update]) -> None:
        await self.before_write()
        if updates[0][0] == "insert" and len(self.entries) == self.room:
            self.writes.put_nowait(updates)
            raise WriteError([RefusedUpdate("insert", updates[0][1].key, self.code, "")])
        for operation, entity in updates:
            if isinstance(entity, MeterCell):
                self.cells[entity.index] = entity
            elif isinstance(entity, TableEntry) and operation == "delete":
                del self.entries[entity.key]
            elif isinstance(entity, TableEntry):
                self.entries[entity.key] = entity
        self.writes.put_nowait(updates)

    async def write(self, update: Changes) -> None:
        await self.before_change()
        self.cells |= {entity.index: entity for entity in update.modify if isinstance(entity, MeterCell)}

    async def check(self, phase: PhasePlan) -> None:
        pass

    def announce(self, base: int, *ports: int) -> None:
        flow: dict[str, Any] = {"src": 1, "dst": 2, "protocol": 17, "dst_port": 9}
        data = [{**flow, "src_port": port, "base": base} for port in ports]
        self.digests.put_nowait(P4DigestList("flow_digest_t", list_id=1, timestamp=0, data=data))

    def rates(self, phase: PhasePlan) -> set[int]:
        """The rates of the cells for learned flows, in bytes/s."""
        return {self.cells[cell].rate_bytes_per_s for cell in phase.policers[0].learned_cells}


def phase_of(text: str = EXPERIMENT) -> PhasePlan:
    experiment = parse_experiment(text)
    return make_plan(experiment, attachment_of(experiment)).phases[0]


def base_of(phase: PhasePlan) -> int:
    return phase.policers[0].index


def switch_of(phase: PhasePlan) -> Switch:
    cells = [entity for entity in phase.entities if isinstance(entity, MeterCell)]
    return Switch(cells={cell.index: cell for cell in cells})


def following(switch: Switch, phase: PhasePlan, action: Callable[[FlowFollower], Awaitable[None]]) -> None:
    async def run() -> None:
        follower = FlowFollower(switch.control, phase)
        await follower.start()
        running = asyncio.create_task(follower.run())
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await action(follower)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


def is_freed(updates: Sequence[Update]) -> bool:
    return [operation for operation, _ in updates] == ["delete", "modify"]


async def until_freed(switch: Switch) -> None:
    while not is_freed(await switch.writes.get()):
        pass


def test_an_idle_flow_leaves_its_cell_with_the_rate_of_the_last_change() -> None:
    phase = phase_of()
    switch = switch_of(phase)

    async def change_then_learn(follower: FlowFollower) -> None:
        assert switch.rates(phase) == {OLD_BYTES_PER_S}
        await run_schedule(switch.control, phase, [], follower)
        assert switch.rates(phase) == {NEW_BYTES_PER_S}
        switch.announce(base_of(phase), 5)
        await until_freed(switch)
        assert switch.entries == {}
        assert switch.rates(phase) == {NEW_BYTES_PER_S}

    following(switch, phase, change_then_learn)


def test_a_change_waits_for_an_idle_flows_write_so_that_the_old_rate_cannot_come_after_the_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phase = phase_of()
    switch = switch_of(phase)
    freeing, asked, freed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        if switch.entries:  # the write after that of the entry
            freeing.set()
            await freed.wait()

    async def overtaking() -> None:
        raise AssertionError("the change was written beside the cell of an idle flow")

    async def change_while_freeing(follower: FlowFollower) -> None:
        switch.announce(base_of(phase), 5)
        await freeing.wait()
        changing_to = follower.changing_to

        def noted(plan: PhasePlan) -> AbstractAsyncContextManager[None]:
            asked.set()
            return changing_to(plan)

        monkeypatch.setattr(follower, "changing_to", noted)
        switch.before_change = overtaking
        changing = asyncio.create_task(run_schedule(switch.control, phase, [], follower))
        await asked.wait()
        switch.before_change = _go_on
        freed.set()
        await changing
        assert switch.rates(phase) == {NEW_BYTES_PER_S}

    switch.before_write = hold
    following(switch, phase, change_while_freeing)


def test_a_flow_announced_during_a_change_gets_its_entry_and_the_cell_gets_the_new_rate() -> None:
    phase = phase_of()
    switch = switch_of(phase)

    async def learn_while_changing(follower: FlowFollower) -> None:
        async def learn() -> None:
            switch.announce(base_of(phase), 5)
            assert [operation for operation, _ in await switch.writes.get()] == ["insert"]

        switch.before_change = learn
        await run_schedule(switch.control, phase, [], follower)
        await until_freed(switch)
        assert switch.rates(phase) == {NEW_BYTES_PER_S}

    following(switch, phase, learn_while_changing)


def test_an_announcement_of_an_earlier_phases_policer_does_not_end_the_next_phase() -> None:
    phase = phase_of()
    switch = switch_of(phase)

    async def learn(follower: FlowFollower) -> None:
        switch.announce(base_of(phase) + 1000, 5)
        switch.announce(base_of(phase), 5)
        assert [operation for operation, _ in await switch.writes.get()] == ["insert"]

    following(switch, phase, learn)


def test_a_full_table_leaves_new_flows_in_their_hashed_cells_and_learning_goes_on() -> None:
    phase = phase_of()
    switch = switch_of(phase)
    switch.room = 0

    async def learn(follower: FlowFollower) -> None:
        switch.announce(base_of(phase), 5)
        await switch.writes.get()
        switch.announce(base_of(phase), 6)
        while follower.status()["each"].flows_without_cell < 2:
            await asyncio.sleep(0)
        assert follower.status()["each"].cells_free == 2

    following(switch, phase, learn)


def test_another_refusal_of_an_entry_is_raised() -> None:
    phase = phase_of()
    switch = switch_of(phase)
    switch.room, switch.code = 0, "INTERNAL"

    async def learn() -> None:
        follower = FlowFollower(switch.control, phase)
        switch.announce(base_of(phase), 5)
        async with asyncio.timeout(_PATIENCE_S):
            await follower.run()

    with pytest.raises(WriteError, match="INTERNAL"):
        asyncio.run(learn())
