# SPDX-License-Identifier: Apache-2.0
"""The BfRuntime server of the tests in front of a weir-switch, which forwards packets as it was told.

    weir run ── BfRuntime ──► ForwardingServer ── P4Runtime ──► weir-switch ══ hosts

It is no bf_switchd: what it accepts it reads back with weir's client, and writes that to weir-switch, whose
program has the same tables. Counters are weir-switch's. Queues, ports and digests are not passed on.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, Self

from weir.controlplane.apply import SwitchControl
from weir.controlplane.bfruntime.session import READER_ID, BfRtSession
from weir.controlplane.connection import AllGroups, AllSessions, Asked, CellOf, EntriesOf
from weir.controlplane.entities import CloneSession, Entity, changes
from weir.controlplane.pipeline import TABLES
from weir_tests.controlplane.bfrt_files import fixed_schema, program_schema
from weir_tests.controlplane.bfrt_tables import Counter
from weir_tests.controlplane.bfruntime_server import BfRuntimeServer

_METER = "policer"


@dataclass
class ForwardingServer(BfRuntimeServer):
    """As its base, with a dataplane."""

    p4runtime: str = ""
    """The weir-switch, without a program."""
    p4runtime_device: int = 1

    async def __aenter__(self) -> Self:
        """Load weir's program into the weir-switch, then listen."""
        self._switch = SwitchControl(self.p4runtime, self.p4runtime_device)
        await self._switch.__aenter__()
        await self._switch.push_pipeline()
        self._following = asyncio.Lock()
        return await super().__aenter__()

    async def __aexit__(self, *reason: object) -> None:
        """Stop."""
        await super().__aexit__(*reason)
        await self._switch.__aexit__(*reason)

    async def Write(self, request: Any, context: Any) -> Any:
        """As the base; what it stored is on the weir-switch before the answer."""
        try:
            return await super().Write(request, context)
        finally:
            await self._follow()

    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """As the base; counters that are asked for are read from the weir-switch."""
        asked: dict[int, list[int]] = {}
        for entity in request.entities:
            entry = entity.table_entry
            if isinstance(self.stores.get(entry.table_id), Counter) and entry.HasField("key"):
                index = int.from_bytes(entry.key.fields[0].exact.value, "big")
                asked.setdefault(entry.table_id, []).append(index)
        for table, indices in asked.items():
            store = self.stores[table]
            assert isinstance(store, Counter)
            found = await self._switch.session.counts(store.short, indices)
            store.counted = {index: (count.packets, count.bytes) for index, count in found.items()}
        async for reply in super().Read(request, context):
            yield reply

    async def _follow(self) -> None:
        async with (
            self._following,
            BfRtSession(self.address, self.device_id, READER_ID, 10.0, "reader") as reader,
        ):
            asked: list[Asked] = [*(EntriesOf(table) for table in TABLES), AllGroups(), AllSessions()]
            cells = (
                int.from_bytes(entry.key.fields[0].exact.value, "big")
                for entry in self.store(_METER).entries.values()
            )
            asked += [CellOf(_METER, cell) for cell in cells]
            stored = [_for_v1model(entity) for entity in await reader.entities(asked)]
            present = await self._switch.session.entities(asked)
            await self._switch.write(changes(present, stored))


def _for_v1model(entity: Entity) -> Entity:
    # Mirror sessions of a Tofino cut the copy; the program of v1model does it itself.
    return replace(entity, truncate_bytes=0) if isinstance(entity, CloneSession) else entity


async def _serve(port: int, p4runtime: str, device: int) -> None:
    """Serve until the standard input is closed; a line says that it does."""
    server = ForwardingServer(
        {"tofino1": program_schema()}, fixed_schema(), p4runtime=p4runtime, p4runtime_device=device
    )
    server.port = port
    async with server:
        print("serves", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":  # python -m …forwarding_bf_server PORT P4RUNTIME DEVICE
    asyncio.run(_serve(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
