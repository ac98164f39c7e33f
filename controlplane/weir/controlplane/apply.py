# SPDX-License-Identifier: Apache-2.0
"""Plans on a switch: apply what differs, read it back, read the counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from finsy import P4CloneSessionEntry, P4CounterEntry, P4MeterEntry, P4MulticastGroupEntry, P4TableEntry

from weir.controlplane.entities import Changes, Entity, MeterCell, TableEntry, changes, differences
from weir.controlplane.errors import ControlPlaneError, ReadBackError, ReadError
from weir.controlplane.pipeline import TABLES, Pipeline, load_pipeline
from weir.controlplane.plan import COLLECTOR_ID, COLOURS, PhasePlan, PolicerPlan
from weir.controlplane.session import Session
from weir.controlplane.translate import from_finsy


@dataclass(frozen=True, slots=True)
class Count:
    """A counter's two halves."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PolicerCounters:
    """What one policer did since the pipeline was loaded: per colour, and how many packets met it at all."""

    name: str
    green: Count
    yellow: Count
    red: Count
    packets_met: int

    @property
    def consistent(self) -> bool:
        """Whether every packet that met the policer got a colour; the pipeline counts both independently."""
        return self.green.packets + self.yellow.packets + self.red.packets == self.packets_met

    def as_manifest(self) -> dict[str, Any]:
        """The counters as a run's manifest holds them."""
        colours = {"green": self.green, "yellow": self.yellow, "red": self.red}
        return {
            "counters": {
                name: {"packets": count.packets, "bytes": count.bytes} for name, count in colours.items()
            },
            "packets_met": self.packets_met,
        }


class SwitchControl:
    """The primary controller of one switch; an async context manager.

    >>> async with SwitchControl("127.0.0.1:9559") as control:      # doctest: +SKIP
    ...     await control.push_pipeline()
    ...     await control.apply(plan.phase("shared"))
    """

    def __init__(
        self,
        address: str,
        device_id: int = 1,
        *,
        election_id: int = 1,
        pipeline: Path | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """Name the switch; ``pipeline`` is the directory of the compiled program, by default weir's own.

        Raises:
            PipelineError: the compiled program is missing or is not weir's.
        """
        self._pipeline: Pipeline = load_pipeline(pipeline)
        self._session = Session(address, device_id, election_id, timeout_s)

    async def __aenter__(self) -> Self:
        """Connect and become primary; raises as :meth:`Session.__aenter__`."""
        await self._session.__aenter__()
        self._session.use(self._pipeline.schema)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect; the switch keeps what was applied."""
        await self._session.__aexit__(*exc)

    async def push_pipeline(self) -> None:
        """Load the program and check that the switch runs it; tables, meters and counters start empty.

        Raises:
            PipelineError: the switch refused the program.
            ReadBackError: the switch accepted it and names another one.
        """
        await self._session.push_pipeline(self._pipeline.schema)
        cookie = await self._session.running_cookie()
        if cookie != self._pipeline.schema.p4cookie:
            raise ReadError(
                f"the switch at {self._session.address} reads back the pipeline cookie {cookie}; "
                f"valid: {self._pipeline.schema.p4cookie}"
            )

    async def apply(self, phase: PhasePlan) -> Changes:
        """Make the switch what ``phase`` says: write what differs, then read everything back and compare.

        The order of the writes keeps traffic policed throughout: the new cells, verdicts and reports are in
        place before a packet is classified to them, and the old ones go when no packet is any more.

        Raises:
            PlanError: the phase has more entries than a table holds; nothing was written.
            WriteError: the switch refused updates; what came before them is on the switch.
            ReadBackError: the switch accepted everything and reads back something else.
        """
        self._pipeline.check_fits(phase.name, phase.entities)
        update = changes(await self._read(phase), phase.entities)
        for operation, entities in _ordered(update):
            await self._session.write(operation, entities)
        found = differences(await self._read(phase), phase.entities)
        if found:
            raise ReadBackError(found)
        return update

    async def difference(self, phase: PhasePlan) -> Changes:
        """What :meth:`apply` would write; nothing is changed."""
        return changes(await self._read(phase), phase.entities)

    async def read_counters(self, phase: PhasePlan) -> dict[str, dict[str, Any]]:
        """The phase's policers by name, as a run's manifest holds their counters."""
        policers = await self.read_policers(phase)
        return {name: counters.as_manifest() for name, counters in policers.items()}

    async def read_policers(self, phase: PhasePlan) -> dict[str, PolicerCounters]:
        """What each policer of the phase did since the pipeline was loaded; phases have their own cells."""
        cells = [cell for policer in phase.policers for cell in _cells(policer)]
        indices = [cell * 4 + colour for cell in cells for colour in range(4)]
        colours = await self._counts("policer_counter", indices)
        met = await self._counts("met_counter", cells)
        return {policer.name: _sum(policer, colours, met) for policer in phase.policers}

    async def read_packets_met(self, policer: PolicerPlan) -> dict[int, int]:
        """How many packets met each cell of a policer: which buckets of a hashed one its flows fell into."""
        counts = await self._counts("met_counter", list(_cells(policer)))
        return {cell: count.packets for cell, count in counts.items()}

    async def read_reports_sent(self) -> int:
        """How many reports the switch has made since the pipeline was loaded."""
        return (await self._counts("report_counter", [COLLECTOR_ID]))[COLLECTOR_ID].packets

    async def _counts(self, counter: str, indices: list[int]) -> dict[int, Count]:
        asked = [P4CounterEntry(counter, index=index) for index in indices]
        counts: dict[int, Count] = {}
        async for entry in self._session.read(asked):
            if isinstance(entry, P4CounterEntry) and entry.index is not None:
                counts[entry.index] = Count(entry.packet_count, entry.byte_count)
        missing = [index for index in indices if index not in counts]
        if missing:
            raise ReadError(f"the switch did not answer for counter {counter} index {missing[0]}")
        return counts

    async def _read(self, phase: PhasePlan) -> list[Entity]:
        """What is on the switch of the kinds that a plan has; of the meter, the cells of the phase."""
        cells = [entity for entity in phase.entities if isinstance(entity, MeterCell)]
        asked: list[Any] = [
            *(P4TableEntry(table) for table in TABLES),
            P4MulticastGroupEntry(),
            P4CloneSessionEntry(),
            *(P4MeterEntry(cell.meter, index=cell.index) for cell in cells),
        ]
        found = [from_finsy(entity, self._session.schema) async for entity in self._session.read(asked)]
        return [entity for entity in found if entity is not None]


def _ordered(update: Changes) -> Iterable[tuple[str, list[Entity]]]:
    """The writes of an update in an order that never leaves traffic unpoliced."""

    def classifies(entity: Entity) -> bool:
        return isinstance(entity, TableEntry) and entity.table == "classify"

    for operation, entities in (("insert", update.insert), ("modify", update.modify)):
        yield operation, [entity for entity in entities if not classifies(entity)]
    for operation, entities in (
        ("modify", update.modify),
        ("insert", update.insert),
        ("delete", update.delete),
    ):
        yield operation, [entity for entity in entities if classifies(entity)]
    yield "delete", [entity for entity in update.delete if not classifies(entity)]


def _cells(policer: PolicerPlan) -> range:
    return range(policer.index, policer.index + policer.cells)


def _sum(policer: PolicerPlan, colours: Mapping[int, Count], met: Mapping[int, Count]) -> PolicerCounters:
    def of(colour: str) -> Count:
        parts = [colours[cell * 4 + COLOURS[colour]] for cell in _cells(policer)]
        return Count(sum(part.packets for part in parts), sum(part.bytes for part in parts))

    # The fourth index of a cell belongs to no colour; a count there would be packets that no sum contains.
    stray = sum(colours[cell * 4 + 3].packets for cell in _cells(policer))
    if stray:
        raise ControlPlaneError(f"policer {policer.name}: {stray} packets of a colour that does not exist")
    return PolicerCounters(
        policer.name, of("green"), of("yellow"), of("red"), sum(met[cell].packets for cell in _cells(policer))
    )
