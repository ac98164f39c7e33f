# SPDX-License-Identifier: Apache-2.0
"""Applies plans to a switch: writes the differences, reads them back, and reads the counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

from finsy import GRPCCredentialsTLS

from weir.controlplane.connection import (
    AllGroups,
    AllSessions,
    Asked,
    CellOf,
    Connection,
    EntriesOf,
    Part,
    SettingsOf,
)
from weir.controlplane.counters import (
    PolicerCounters,
    PortCounters,
    cells_of,
    counters_of,
    read_policers,
)
from weir.controlplane.entities import (
    Changes,
    Count,
    Entity,
    Link,
    MeterCell,
    PortSettings,
    TableEntry,
    changes,
    differences,
)
from weir.controlplane.errors import (
    ControlPlaneError,
    PartlyAppliedError,
    PipelineError,
    PlanError,
    ReadBackError,
    ReadError,
)
from weir.controlplane.learning import TABLES as LEARNED_TABLES
from weir.controlplane.links_service import LinksService, PortState
from weir.controlplane.p4runtime import P4RuntimeConnection
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import Pipeline, load_pipeline
from weir.controlplane.plan import FIRST_COLLECTOR
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.reconcile import as_written, write_changes
from weir.controlplane.session import Session
from weir.controlplane.targets import TARGETS, Target


class SwitchControl:
    """A controller of one switch, by default its primary; an async context manager.

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
        pipeline: Pipeline | None = None,
        target: Target | None = None,
        tls: GRPCCredentialsTLS | None = None,
        part: Part = "primary",
        timeout_s: float = 10.0,
        via: str | None = None,
        connection: Connection | None = None,
    ) -> None:
        """Set the switch's address; ``pipeline`` is by default weir's own, ``target`` the embedded switch.

        ``via`` is that of :class:`Session`. With a ``connection``, that is used and not P4Runtime.

        Raises:
            PipelineError: the compiled program is missing or is not weir's.
        """
        self._target = TARGETS["softswitch"] if target is None else target
        if connection is None:
            session = Session(address, device_id, election_id, timeout_s, tls, part, via)
            connection = P4RuntimeConnection(session, load_pipeline() if pipeline is None else pipeline)
        self.session: Connection = connection
        has_links = self._target.capabilities.links_service
        self.links = LinksService(address, tls, via) if has_links else None
        self._zeros: dict[tuple[str, int], Count] = {}

    async def __aenter__(self) -> Self:
        """Connect; raises as :meth:`Connection.__aenter__`."""
        await self.session.__aenter__()
        if self.links is not None:
            await self.links.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect; the switch keeps what was applied."""
        if self.links is not None:
            await self.links.__aexit__(*exc)
        await self.session.__aexit__(*exc)

    async def push_pipeline(self) -> None:
        """Load the program and check that the switch runs it; tables, meters and counters start empty.

        Raises:
            PipelineError: the switch refused the program.
            ReadError: the switch accepted it but reads back another one.
        """
        await self.session.push_pipeline()
        self._zeros.clear()
        running = await self.session.running()
        if not running.ours:
            raise ReadError(
                f"the switch at {self.session.address} reads back another pipeline than was pushed "
                f"({running.another or 'none'}); valid: the pushed one"
            )

    async def runs_pipeline(self, *, or_another: bool = False) -> bool:
        """Whether the switch runs this pipeline.

        Raises:
            PipelineError: it runs another one, unless ``or_another``.
        """
        running = await self.session.running()
        if running.another is not None and not or_another:
            raise PipelineError(
                f"the switch at {self.session.address} runs another pipeline ({running.another}); "
                "valid: --load-pipeline, which empties its tables and counters"
            )
        return running.ours

    async def apply(self, phase: PhasePlan) -> Changes:
        """Write the differences between switch and ``phase``, then read everything back and compare.

        If the target has atomic writes, the updates are one batch between two packets. Otherwise their order
        keeps traffic policed throughout: new cells, verdicts and reports are written before a packet is
        classified to them, and old ones are deleted after no packet is.

        Links are set last, one by one: they are not part of P4Runtime.

        Raises:
            TableFullError: the phase has more entries than a table holds; nothing was written.
            PlanError: the switch has no port for a link; nothing was written.
            PartlyAppliedError: the switch refused updates, or the connection broke before all was written and
                read back; the text says how much is on the switch.
            ReadBackError: the switch accepted everything but reads back other values.
        """
        update = await self.difference(phase)
        await self.write(update)
        try:
            await self.check(phase)
        except ReadBackError:
            raise
        except ControlPlaneError as error:
            raise PartlyAppliedError(error, len(update), len(update), certain=True) from error
        return update

    async def write(self, update: Changes) -> None:
        """Write known differences in the order of :meth:`apply`. Raises PartlyAppliedError."""
        can = self._target.capabilities
        await write_changes(
            self.session,
            update,
            atomic=can.atomic_writes,
            keeps_replicas=can.keeps_replicas,
            links=self.links,
        )

    async def check(self, phase: PhasePlan) -> None:
        """Read back the entities of ``phase``. Raises ReadBackError if the switch differs."""
        found = differences(await self._read(phase), phase.entities)
        if found:
            raise ReadBackError(found)

    async def difference(self, phase: PhasePlan) -> Changes:
        """The updates that :meth:`apply` would write; changes nothing. Raises TableFullError, PlanError."""
        self.session.program.check_fits(phase.name, phase.entities)
        return changes(await self._read(phase), phase.entities)

    async def difference_when_loaded(self, phase: PhasePlan) -> Changes:
        """The updates that :meth:`apply` would write after loading the pipeline onto a switch without it."""
        self.session.program.check_fits(phase.name, phase.entities)
        links = changes(await self._read_links(phase), [e for e in phase.entities if isinstance(e, Link)])
        others = tuple(entity for entity in phase.entities if not isinstance(entity, Link))
        return Changes(others, links.modify, (), links.replaced)

    async def count_from_now(self, policers: Iterable[PolicerPlan]) -> None:
        """Let the counters of these policers and of reports be 0 now; all others are as the switch has them.

        For a program that was not loaded for this controller, which would empty them.
        """
        cells = counters_of(policers) | {"report_counter": [FIRST_COLLECTOR]}
        self._zeros.clear()
        for counter, indices in cells.items():
            found = await self.session.counts(counter, indices)
            self._zeros |= {(counter, index): count for index, count in found.items()}

    async def read_counters(self, phase: PhasePlan) -> dict[str, dict[str, Any]]:
        """The counters of the phase's policers by name, in the form of a run's manifest."""
        policers = await self.read_policers(phase)
        return {name: counters.as_manifest() for name, counters in policers.items()}

    async def read_policers(self, phase: PhasePlan) -> dict[str, PolicerCounters]:
        """Counters of each policer of the phase; phases do not share cells.

        They count since the pipeline was loaded, or :meth:`count_from_now`.
        """
        return await read_policers(self.counts, phase.policers)

    async def read_packets_met(self, policer: PolicerPlan) -> dict[int, int]:
        """Packets metered by each cell of a policer, which shows the buckets that flows were hashed to."""
        counts = await self.counts("met_counter", list(cells_of(policer)))
        return {cell: count.packets for cell, count in counts.items()}

    async def read_reports_sent(self, collectors: int = 1) -> int:
        """Number of reports that the switch has sent, counted as by :meth:`read_policers`."""
        ids = list(range(FIRST_COLLECTOR, FIRST_COLLECTOR + collectors))
        counts = await self.counts("report_counter", ids)
        return sum(count.packets for count in counts.values())

    async def read_drops(self) -> dict[int, int]:
        """Packets dropped in ingress by drop reason, without reasons that did not occur."""
        size = self.session.program.counter_size("drop_counter")
        counts = await self.session.counts("drop_counter", range(size))
        return {reason: count.packets for reason, count in counts.items() if count.packets}

    async def read_ports(self, numbers: Sequence[int]) -> dict[int, PortCounters]:
        """Counters of these ports in both directions since the pipeline was loaded."""
        into = await self.session.counts("ingress_port_counter", numbers)
        out = await self.session.counts("egress_port_counter", numbers)
        return {number: PortCounters(into[number], out[number]) for number in numbers}

    async def read_links(self) -> dict[int, PortState]:
        """The switch's ports with their links and queues; empty if it has no links service."""
        return {} if self.links is None else await self.links.ports()

    async def read_meters(self, phase: PhasePlan) -> dict[int, MeterCell]:
        """The configured meter cells of a phase as the switch reads them back, by index."""
        cells = [entity for entity in phase.entities if isinstance(entity, MeterCell)]
        found = await self.session.entities([CellOf(cell.meter, cell.index) for cell in cells])
        return {entity.index: entity for entity in found if isinstance(entity, MeterCell)}

    async def count_entries(self) -> dict[str, int]:
        """Number of entries in each table, from all controllers."""
        tables = self.session.program.tables()
        found = await self.session.entities([EntriesOf(table) for table in tables])
        names = [entity.table for entity in found if isinstance(entity, TableEntry)]
        return {table: names.count(table) for table in tables}

    async def learned_flows(self, phase: PhasePlan) -> list[TableEntry]:
        """The entries of flows that hold cells of the phase's learned policers."""
        found = await self.session.entities([EntriesOf(table) for table in LEARNED_TABLES.values()])
        return [entity for entity in found if isinstance(entity, TableEntry) and _is_learned(entity, phase)]

    async def counts(self, counter: str, indices: Sequence[int]) -> dict[int, Count]:
        """Cells of a counter, less what they had at :meth:`count_from_now`.

        Raises also ReadError for a cell that has less now: somebody has reset it, or loaded the program anew.
        """
        counts = {}
        for index, now in (await self.session.counts(counter, indices)).items():
            then = self._zeros.get((counter, index), Count(0, 0))
            if now.packets < then.packets or now.bytes < then.bytes:
                raise ReadError(
                    f"counter {counter} index {index} of the switch at {self.session.address} went back from "
                    f"{then.packets} to {now.packets} packets; valid: a switch whose counters nobody resets, "
                    "and whose program nobody loads, meanwhile"
                )
            counts[index] = Count(now.packets - then.packets, now.bytes - then.bytes)
        return counts

    async def _read(self, phase: PhasePlan) -> list[Entity]:
        """The entities on the switch of the kinds that a plan has; of meter and ports, only the phase's.

        Entries of learned flows are left out: no plan contains them.
        """
        cells = [entity for entity in phase.entities if isinstance(entity, MeterCell)]
        asked: list[Asked] = [
            *(EntriesOf(table) for table in self.session.program.tables()),
            AllGroups(),
            AllSessions(),
            *(CellOf(cell.meter, cell.index) for cell in cells),
            *(SettingsOf(entity.port) for entity in phase.entities if isinstance(entity, PortSettings)),
        ]
        found = await self.session.entities(asked)
        wanted = {cell.key: cell for cell in cells}
        return [
            *(
                as_written(entity, wanted.get(entity.key), self._target)
                for entity in found
                if not _is_learned(entity, phase)
            ),
            *await self._read_links(phase),
        ]

    async def _read_links(self, phase: PhasePlan) -> list[Link]:
        """The links of the phase's ports; a missing port is an error only if its link is not the default."""
        wanted = [entity for entity in phase.entities if isinstance(entity, Link)]
        ports = await self.read_links() if wanted else {}
        missing = [link for link in wanted if link.port not in ports]
        for link in missing:
            if not link.is_default:
                existing = ", ".join(map(str, sorted(ports))) or "none"
                raise PlanError(
                    f"{link.key}: the switch at {self.session.address} has no such port; "
                    f"valid: its ports ({existing})"
                )
        return [*(ports[link.port].link for link in wanted if link.port in ports), *missing]


def _is_learned(entity: Entity, phase: PhasePlan) -> bool:
    if not isinstance(entity, TableEntry) or entity.table not in LEARNED_TABLES.values():
        return False
    cell = dict(entity.args).get("cell")
    return any(cell in policer.learned_cells for policer in phase.policers)
