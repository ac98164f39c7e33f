# SPDX-License-Identifier: Apache-2.0
"""Connections over P4Runtime: weir's entities on a Session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from finsy import P4CloneSessionEntry, P4CounterEntry, P4MeterEntry, P4MulticastGroupEntry, P4TableEntry

from weir.controlplane.connection import (
    AllGroups,
    AllSessions,
    Asked,
    CellOf,
    Digest,
    EntriesOf,
    Running,
    Update,
)
from weir.controlplane.entities import Count, Entity
from weir.controlplane.errors import PipelineError, ReadError, UnsupportedByTargetError, WriteError
from weir.controlplane.learning import DIGESTS
from weir.controlplane.pipeline import P4Program, Pipeline, running_program
from weir.controlplane.session import Session
from weir.controlplane.translate import from_finsy

_LOADED = "a switch with weir's program, such as after `weir apply --compiled DIR --load-pipeline`"
_Query = P4TableEntry | P4MulticastGroupEntry | P4CloneSessionEntry | P4MeterEntry


class P4RuntimeConnection:
    """Entities of one program on a session; an async context manager."""

    def __init__(self, session: Session, pipeline: Pipeline) -> None:
        """Keep both; entering the context connects."""
        self.session, self._pipeline = session, pipeline

    @property
    def address(self) -> str:
        """Address of the switch."""
        return self.session.address

    @property
    def device_id(self) -> int:
        """Id of the device."""
        return self.session.device_id

    @property
    def program(self) -> P4Program:
        """The program that is wanted."""
        return self._pipeline

    async def __aenter__(self) -> Self:
        """Connect; raises as :meth:`Session.__aenter__`."""
        await self.session.__aenter__()
        self.session.use(self._pipeline.schema)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Disconnect."""
        await self.session.__aexit__(*exc)

    async def running(self) -> Running:
        """Compares the cookies."""
        cookie, ours = await self.session.running_cookie(), self._pipeline.schema.p4cookie
        return Running(cookie == ours, None if cookie in (None, ours) else f"cookie {cookie}, ours {ours}")

    async def push_pipeline(self) -> None:
        """Load the program; raises as :meth:`Session.push_pipeline`."""
        await self.session.push_pipeline(self._pipeline.schema)

    async def write_batch(self, updates: Sequence[Update], *, atomic: bool = False) -> None:
        """Write updates; raises as :meth:`Session.write_batch`."""
        await self.session.write_batch(updates, atomic=atomic)

    async def entities(self, asked: Sequence[Asked]) -> list[Entity]:
        """The entities that are asked for; raises as :meth:`Session.read`."""
        queries = [_query(one) for one in asked]
        found = [from_finsy(entity, self.session.schema) async for entity in self.session.read(queries)]
        return [entity for entity in found if entity is not None]

    async def counts(self, counter: str, indices: Sequence[int]) -> dict[int, Count]:
        """The cells of a counter by index. Raises ReadError if the switch leaves one out."""
        asked = [P4CounterEntry(counter, index=index) for index in indices]
        counts: dict[int, Count] = {}
        async for entry in self.session.read(asked):
            if isinstance(entry, P4CounterEntry) and entry.index is not None:
                counts[entry.index] = Count(entry.packet_count, entry.byte_count)
        missing = [index for index in indices if index not in counts]
        if missing:
            raise ReadError(f"the switch did not answer for counter {counter} index {missing[0]}")
        return counts

    async def announce_flows(self) -> None:
        """Insert the digest entries, unless they are there. Raises as :meth:`Session.write`."""
        try:
            await self.session.write("insert", DIGESTS)
        except WriteError as error:
            if {update.code for update in error.updates} != {"ALREADY_EXISTS"}:
                raise

    async def next_digest(self) -> Digest:
        """The next digest list; raises as :meth:`Session.next_digest`."""
        return await self.session.next_digest()

    async def until_lost(self) -> None:
        """Wait for the end of the session; raises its reason."""
        await self.session.until_lost()


class RunningProgram(P4RuntimeConnection):
    """As P4RuntimeConnection, with the program that the switch runs, whose P4Info it tells.

    For a Tofino under Stratum: its program needs the compiler's output, which only who loaded it has.
    """

    def __init__(self, session: Session) -> None:
        """Keep the session; entering the context connects."""
        self.session = session
        self._running: P4Program | None = None

    @property
    def program(self) -> P4Program:
        """The program at the last :meth:`running`. Raises PipelineError if it was none, or not weir's."""
        if self._running is None:
            raise PipelineError(f"the switch at {self.address} does not run weir's program; valid: {_LOADED}")
        return self._running

    async def __aenter__(self) -> Self:
        """Connect and ask what runs; raises as :meth:`Session.__aenter__`."""
        await self.session.__aenter__()
        try:
            await self.running()
        except BaseException:
            await self.session.__aexit__(None, None, None)
            raise
        return self

    async def running(self) -> Running:
        """Compares the P4Info with what weir needs."""
        p4info = await self.session.running_p4info()
        self._running = None
        if p4info is None:
            return Running(ours=False)
        try:
            self._running = running_program(p4info, f"the switch at {self.address}")
        except PipelineError as error:
            return Running(ours=False, another=str(error))
        self.session.use(self._running.schema)
        return Running(ours=True)

    async def push_pipeline(self) -> None:
        """Raises PipelineError: there is none to load."""
        raise PipelineError(f"no program to load; valid: {_LOADED}")


def _query(asked: Asked) -> _Query:
    match asked:
        case EntriesOf():
            return P4TableEntry(asked.table)
        case AllGroups():
            return P4MulticastGroupEntry()
        case AllSessions():
            return P4CloneSessionEntry()
        case CellOf():
            return P4MeterEntry(asked.meter, index=asked.index)
    raise UnsupportedByTargetError(
        "switch.port_settings: P4Runtime cannot set ports; valid: an address bfruntime://"
    )
