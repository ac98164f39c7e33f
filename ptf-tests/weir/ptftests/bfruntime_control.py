# SPDX-License-Identifier: Apache-2.0
"""The control plane of tests over BfRuntime: what `control.Control` is over P4Runtime."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from finsy import P4MeterEntry, P4Schema
from finsy.proto import p4i

from weir.controlplane.bfruntime.program import load_compiled
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config.values import bfruntime_endpoint
from weir.controlplane.connection import AllGroups, AllSessions, Digest, EntriesOf, Update
from weir.controlplane.entities import Count, Entity, MeterCell
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.targets.tofino import KBIT_BYTES
from weir.controlplane.translate import from_finsy
from weir.ptf.switch import ELECTION_ID, TIMEOUT_S
from weir.ptftests.config import RunConfig
from weir.ptftests.control import Writable
from weir.ptftests.traffic import PATIENCE_S

_T = TypeVar("_T")
_WIDE_RATE_BYTES_PER_S, _WIDE_BURST_BYTES = 50 * 10**9, 16 * 10**6
"""What `undo` sets a meter cell to, because the chip has none that is unset: no test sends so much."""


class BfRtControl:
    """The controller that owns the program of the switch under test, in a separate thread."""

    def __init__(self, config: RunConfig) -> None:
        """Connect. Raises ControlPlaneError."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="control", daemon=True).start()
        self._session = session_of(config)
        self._written: list[Update] = []
        self._registers: list[tuple[str, int]] = []
        self._run(self._session.__aenter__())

    def push(self, policer: p4i.MeterSpec.Type.ValueType | None = None) -> None:
        """Load the program; the switch then has no entries. Its meters have one type, so no `policer`."""
        if policer is not None:
            raise ControlPlaneError("the meters of a Tofino are two-rate meters; valid: no other type")
        self._run(self._session.push_pipeline())

    def close(self) -> None:
        """Disconnect."""
        self._run(self._session.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def insert(self, *entities: Writable) -> None:
        """Write new entities, in order; `undo` deletes them."""
        self._write("insert", entities)

    def modify(self, *entities: Writable) -> None:
        """Set meter cells; `undo` makes them wide."""
        self._write("modify", entities)

    def delete(self, *entities: Writable) -> None:
        """Delete entities that `insert` wrote."""
        for entity in map(_entity, entities):
            self._run(self._session.write_batch([("delete", entity)]))
            self._written.remove(("insert", entity))

    def undo(self) -> None:
        """Delete or reset all that was written, the last first."""
        written, self._written = self._written, []
        for operation, entity in reversed(written):
            if operation == "insert":
                self._run(self._session.write_batch([("delete", entity)]))
            elif isinstance(entity, MeterCell):
                wide = MeterCell(entity.meter, entity.index, _WIDE_RATE_BYTES_PER_S, _WIDE_BURST_BYTES)
                self._run(self._session.write_batch([("modify", wide)]))
        registers, self._registers = self._registers, []
        for register, index in registers:
            self._run(self._session.write_register(register, index, 0))

    def entities(self) -> set[str]:
        """All inserted entities that are on the switch now: entries, groups, mirror sessions."""
        tables = [EntriesOf(table) for table in self._session.program.tables()]
        found = self._run(self._session.entities([*tables, AllGroups(), AllSessions()]))
        return {repr(entity) for entity in found}

    def counts(self, counter: str, indices: Iterable[int]) -> dict[int, Count]:
        """Packets and bytes of cells of a counter."""
        return self._run(self._session.counts(counter, list(indices)))

    def listen(self) -> None:
        """Digests come without being asked for."""
        self._run(self._session.announce_flows())

    def digest(self) -> Digest:
        """The next list of a digest's messages. Raises TimeoutError when none comes."""
        return self._run(self._session.next_digest(), PATIENCE_S)

    def full_name(self, register: str) -> str:
        """A register's name with the controls around it."""
        return self._session.program.register(register).name

    def write_register(self, register: str, index: int, value: int) -> None:
        """Set a cell of a register; it is 0 after `undo`."""
        self._run(self._session.write_register(register, index, value))
        self._registers.append((register, index))

    def _write(self, operation: str, entities: Iterable[Writable]) -> None:
        updates = [(operation, _entity(entity)) for entity in entities]
        self._run(self._session.write_batch(updates))
        self._written += updates

    def _run(self, work: Coroutine[object, object, _T], timeout_s: float = TIMEOUT_S) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)


def session_of(config: RunConfig) -> BfRtSession:
    """A session for a run, not yet connected; its program is the compiler's output in a folder.

    Raises:
        ControlPlaneError: the address is not one of a bf_switchd, or the folder has no program of weir.
    """
    try:
        address = bfruntime_endpoint(config.address)
    except ValueError as error:
        raise ControlPlaneError(f"--address: {error}") from error
    if address is None:
        raise ControlPlaneError(f"--address {config.address}; valid: bfruntime://HOST")
    compiled = load_compiled(Path(config.program))
    return BfRtSession(address, config.device_id, ELECTION_ID, TIMEOUT_S, compiled=compiled)


def push(config: RunConfig) -> None:
    """Load the program into a switch, and disconnect. Raises ControlPlaneError."""

    async def connect_and_push() -> None:
        async with session_of(config) as session:
            await session.push_pipeline()

    asyncio.run(connect_and_push())


def _entity(written: Writable) -> Entity:
    found: Entity | None = written if isinstance(written, Entity) else None
    if isinstance(written, P4MeterEntry):
        found = from_finsy(written, P4Schema())
    if found is None:
        raise TypeError(f"{written!r}; valid: weir's entities, and meter cells")
    return at_least_1_kbit_per_s(found) if isinstance(found, MeterCell) else found


def at_least_1_kbit_per_s(cell: MeterCell) -> MeterCell:
    """A cell of at least 1 kbit/s: of less, the driver makes 0, at which every packet is red."""
    peak = cell.peak_rate_bytes_per_s
    return replace(
        cell,
        rate_bytes_per_s=max(cell.rate_bytes_per_s, KBIT_BYTES),
        peak_rate_bytes_per_s=None if peak is None else max(peak, KBIT_BYTES),
    )
