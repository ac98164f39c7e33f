# SPDX-License-Identifier: Apache-2.0
"""The control plane's P4Runtime session for tests: without `await`, and every write can be undone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from finsy import (
    GRPCCredentialsTLS,
    P4CloneSessionEntry,
    P4CounterEntry,
    P4DigestList,
    P4MeterEntry,
    P4MulticastGroupEntry,
    P4RegisterEntry,
    P4Schema,
    P4TableEntry,
)
from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.entities import CloneSession, Count, Entity, MeterCell, MulticastGroup, TableEntry
from weir.controlplane.learning import DIGESTS
from weir.controlplane.session import Session
from weir.controlplane.translate import FinsyEntity
from weir.ptf.switch import ELECTION_ID, TIMEOUT_S
from weir.ptftests.config import RunConfig, Tls
from weir.ptftests.traffic import PATIENCE_S

_T = TypeVar("_T")
Writable = Entity | FinsyEntity


class Control:
    """The primary controller of the switch under test, in a separate thread."""

    def __init__(self, config: RunConfig) -> None:
        """Connect. Raises ControlPlaneError."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="control", daemon=True).start()
        self._config = config
        self._schema = P4Schema(Path(config.p4info), Path(config.program))
        self._written: list[tuple[str, Writable]] = []
        self._session = self._run(self._open(config))

    async def _open(self, config: RunConfig) -> Session:
        tls = credentials(config.tls)
        session = Session(config.address, config.device_id, ELECTION_ID, TIMEOUT_S, tls)
        await session.__aenter__()
        session.use(self._schema)
        return session

    def push(self, policer: p4i.MeterSpec.Type.ValueType | None = None) -> None:
        """Load the program; the switch then has no entries. `policer`: a MeterSpec.Type for that meter."""
        p4info = text_format.Parse(Path(self._config.p4info).read_text(), p4i.P4Info())
        for meter in p4info.meters:
            if policer is not None and meter.preamble.alias == "policer":
                meter.spec.type = policer
        self._schema = P4Schema(p4info, Path(self._config.program))
        self._run(self._session.push_pipeline(self._schema))

    def close(self) -> None:
        """Disconnect."""
        self._run(self._session.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def insert(self, *entities: Writable) -> None:
        """Write new entities, in order; `undo` deletes them."""
        self._run(self._session.write("insert", entities))
        self._written += [("insert", entity) for entity in entities]

    def modify(self, *entities: Writable) -> None:
        """Set entities that always exist, such as meter cells; `undo` resets them."""
        self._run(self._session.write("modify", entities))
        self._written += [("modify", entity) for entity in entities]

    def delete(self, *entities: Writable) -> None:
        """Delete entities that `insert` wrote."""
        self._run(self._session.write("delete", entities))
        for entity in entities:
            self._written.remove(("insert", entity))

    def undo(self) -> None:
        """Delete or reset all that was written, the last first."""
        written, self._written = self._written, []
        for operation, entity in reversed(written):
            if operation == "insert":
                self._run(self._session.write("delete", [entity]))
            else:
                self._run(self._session.write("modify", [_unset(entity)]))

    def entities(self) -> set[str]:
        """All inserted entities that are on the switch now: entries, groups, mirror sessions."""
        tables: list[Any] = [P4TableEntry(table.alias) for table in self._schema.tables]
        found = self._read([*tables, P4MulticastGroupEntry(), P4CloneSessionEntry()])
        return {
            repr(entity)
            for entity in found
            if not (isinstance(entity, P4TableEntry) and (entity.is_default_action or entity.is_const))
        }

    def counts(self, counter: str, indices: Iterable[int]) -> dict[int, Count]:
        """Packets and bytes of cells of a counter."""
        found = self._read([P4CounterEntry(counter, index=index) for index in indices])
        return {entry.index: Count(entry.packet_count, entry.byte_count) for entry in found}

    def listen(self) -> None:
        """Enable the digests of new flows until `undo`."""
        self.insert(*DIGESTS)

    def digest(self) -> P4DigestList:
        """The next list of a digest's messages, acknowledged. Raises TimeoutError when none comes."""
        return self._run(self._session.next_digest(), PATIENCE_S)

    def full_name(self, register: str) -> str:
        """A register's name with the controls around it."""
        return self._schema.registers[register].name

    def write_register(self, register: str, index: int, value: int) -> None:
        """Set a cell of a register; it is 0 after `undo`."""
        self.modify(P4RegisterEntry(register, index=index, data=value))

    def _read(self, entities: Sequence[Any]) -> list[Any]:
        async def collect() -> list[Any]:
            return [entity async for entity in self._session.read(entities)]

        return self._run(collect())

    def _run(self, work: Coroutine[Any, Any, _T], timeout_s: float = TIMEOUT_S) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)


def credentials(tls: Tls | None) -> GRPCCredentialsTLS | None:
    """The certificates of a session; None without TLS."""
    if tls is None:
        return None
    cert, key = (Path(name) if name else None for name in (tls.cert, tls.key))
    return GRPCCredentialsTLS(cacert=Path(tls.ca), cert=cert, private_key=key)


def _unset(entity: Writable) -> FinsyEntity:
    """The write that resets a modified entity."""
    match entity:
        case MeterCell():
            return P4MeterEntry(entity.meter, index=entity.index)
        case P4MeterEntry():
            return P4MeterEntry(entity.meter_id, index=entity.index)
        case P4RegisterEntry():
            return P4RegisterEntry(entity.register_id, index=entity.index, data=0)
        case TableEntry() | MulticastGroup() | CloneSession() | _:
            raise TypeError(f"{entity!r} was modified; valid: meter cells and registers, or insert it")
