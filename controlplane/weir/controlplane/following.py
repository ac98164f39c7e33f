# SPDX-License-Identifier: Apache-2.0
"""Assigns meter cells to new flows of learned policers on a switch, and frees those of idle flows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from weir.controlplane.apply import SwitchControl
from weir.controlplane.entities import TableEntry
from weir.controlplane.errors import WriteError
from weir.controlplane.learning import FlowLearner, LearningStatus
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.together import together

_NS = 1_000_000_000
_CHECKS_PER_LIMIT = 4
"""Checks per idle limit: an idle flow is noticed at most a quarter of its limit late."""


class FlowFollower:
    """The flows of one phase's learned policers.

    A new flow's entry names a cell and never writes it, so a flow that is announced while a change is being
    written is policed as the cell is: at the old rate until the change reaches the cell, then at the new one.
    """

    def __init__(self, control: SwitchControl, phase: PhasePlan) -> None:
        """Prepare; :meth:`start` is the first to use the connection."""
        self._control = control
        self._phase = phase
        self._learned = {policer.index: policer for policer in phase.policers if policer.learned_cells}
        self._writing_cells = asyncio.Lock()
        self._learner = FlowLearner({base: policer.learned_cells for base, policer in self._learned.items()})

    async def start(self) -> None:
        """Adopt the flows that the switch has entries for, and enable the digests of new ones.

        Raises:
            ControlPlaneError: the switch refused, or disconnected.
        """
        for entry in self._learner.adopt(await self._control.learned_flows(self._phase)):
            await self._control.session.write_batch([("delete", entry)])
        await self._control.session.announce_flows()

    @asynccontextmanager
    async def changing_to(self, phase: PhasePlan) -> AsyncIterator[None]:
        """While the cells of `phase` are written: from the begin on, idle flows leave cells with its values.

        Writes of cells do not overlap, because a switch may execute two requests in either order.
        """
        async with self._writing_cells:
            self._phase = phase
            yield

    async def run(self) -> None:
        """Run until cancelled. Raises ControlPlaneError if the switch refuses or disconnects."""
        await together(self._learn(), *([self._age()] if self._limits_s() else []))

    def status(self) -> dict[str, LearningStatus]:
        """The status of each learned policer, by name."""
        return {policer.name: self._learner.status(base) for base, policer in self._learned.items()}

    def _limits_s(self) -> dict[int, float]:
        return {
            base: policer.config.idle / _NS for base, policer in self._learned.items() if policer.config.idle
        }

    async def _learn(self) -> None:
        while True:
            entries = self._learner.entries(await self._control.session.next_digest())
            if entries:
                await self._insert(entries)

    async def _insert(self, entries: Sequence[TableEntry]) -> None:
        """Insert the entries that their table has room for; other flows keep their hashed cells."""
        try:
            await self._control.session.write_batch([("insert", entry) for entry in entries])
        except WriteError as error:
            full = {update.entity for update in error.updates if update.full}
            refused = [entry for entry in entries if entry.key in full]
            if len(refused) < len(error.updates):
                raise
            for entry in refused:
                self._learner.refuse(entry)

    async def _age(self) -> None:
        limits_s = self._limits_s()
        while True:
            await asyncio.sleep(min(limits_s.values()) / _CHECKS_PER_LIMIT)
            counts = await self._control.session.counts("met_counter", self._learner.cells)
            packets = {cell: count.packets for cell, count in counts.items()}
            for entry in self._learner.idle(packets, time.monotonic(), limits_s):
                cell = dict(entry.args)["cell"]
                async with self._writing_cells:
                    owner = next(policer for policer in self._phase.policers if cell in policer.learned_cells)
                    # Writing the cell refills its bucket, so that the next flow starts with a full one.
                    await self._control.session.write_batch(
                        [("delete", entry), ("modify", owner.meter_cell(cell))]
                    )
                self._learner.forget(entry)
