# SPDX-License-Identifier: Apache-2.0
"""A Connection over BfRuntime, to the bf_switchd of open P4 Studio or an SDE.

No batch is atomic for packets: updates are tried one by one, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from weir.controlplane.bfruntime.channel import BfRtChannel
from weir.controlplane.bfruntime.codec import read_data, read_key, read_number, table_entry
from weir.controlplane.bfruntime.entities import Present, Translator
from weir.controlplane.bfruntime.messages import MESSAGES, MODIFY, VERIFY_AND_WARM_INIT_BEGIN_AND_END
from weir.controlplane.bfruntime.program import BfRtProgram, Compiled, program_of
from weir.controlplane.bfruntime.schema import BfRtInfo, read_bf_rt
from weir.controlplane.connection import (
    BATCH,
    AllGroups,
    AllSessions,
    Asked,
    CellOf,
    EntriesOf,
    Part,
    Running,
    SettingsOf,
    Update,
)
from weir.controlplane.entities import Count, Entity, MulticastGroup, PortSettings
from weir.controlplane.errors import (
    MaybeLoadedError,
    NotPrimaryError,
    PipelineError,
    ReadError,
    SwitchUnreachableError,
    UnsupportedByTargetError,
)

READER_ID = 0xFF_F000
"""Client id of those that only read; the server keeps 24 bits of an id."""
_NO_PROGRAM = "$SHARED"
"""What the server names in the place of a program, with its fixed tables, if it runs none."""
_BIND_AGAIN_S = 0.2
"""Pause between a backup's attempts to bind."""


@dataclass(frozen=True, slots=True)
class BfRtDigest:
    """New flows: the name of their digest, and the fields of each."""

    digest_id: str
    flows: tuple[Mapping[str, int], ...]

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        """Each flow."""
        return iter(self.flows)


class BfRtSession:
    """A connection to one device; an async context manager."""

    def __init__(
        self,
        address: str,
        device_id: int,
        client_id: int,
        timeout_s: float,
        part: Part = "primary",
        compiled: Compiled | None = None,
        via: str | None = None,
    ) -> None:
        """Set the address; entering the context connects. `compiled` is what :meth:`push_pipeline` loads.

        Without it, the program is weir's that the switch runs. ``via`` is an address that relays to it.
        """
        self._channel = BfRtChannel(address, device_id, READER_ID if part == "reader" else client_id, via)
        self._part, self._timeout_s, self._compiled = part, timeout_s, compiled
        self._programs: dict[str, BfRtProgram] = {}
        self._fixed = BfRtInfo(())
        self._bound = False

    @property
    def address(self) -> str:
        """Address of the switch."""
        return self._channel.address

    @property
    def device_id(self) -> int:
        """Id of the device."""
        return self._channel.device_id

    @property
    def fixed(self) -> BfRtInfo:
        """The tables of the switch's fixed parts, as it returned them."""
        return self._fixed

    @property
    def programs(self) -> tuple[BfRtProgram, ...]:
        """The programs that the switch ran when it was last asked."""
        return tuple(self._programs.values())

    @property
    def program(self) -> BfRtProgram:
        """The program that is wanted. Raises PipelineError if none was given and the switch runs none."""
        found = self._compiled.program if self._compiled is not None else self._running_ours()
        if found is None:
            raise PipelineError(
                f"the switch at {self.address} does not run weir's program; valid: --compiled, to load it"
            )
        return found

    async def __aenter__(self) -> Self:
        """Connect and take the part; raises as :meth:`Connection.__aenter__`."""
        self._channel.open()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._refresh()
                if self._part != "reader":
                    await self._channel.subscribe()
                if self._part == "primary":
                    await self._bind()
            if self._part == "backup":
                await self._take_over()
        except TimeoutError as error:
            await self._channel.close()
            raise SwitchUnreachableError(
                f"the switch at {self.address} did not answer within {self._timeout_s:g} s"
            ) from error
        except BaseException:
            await self._channel.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection, which gives the program free; the switch keeps what was written."""
        await self._channel.close()

    async def running(self) -> Running:
        """Compares the switch's programs with the given one, or with what weir needs."""
        await self._refresh()
        if self._running_ours() is not None:
            return Running(ours=True)
        others = ", ".join(self._describe(program) for program in self.programs)
        return Running(ours=False, another=others or None)

    async def push_pipeline(self) -> None:
        """Load the program over the device's own, with its fast reconfiguration.

        Ports go down. Raises as :meth:`Connection.push_pipeline`.
        """
        if self._compiled is None:
            raise PipelineError("no program to load; valid: --compiled, with the compiler's output")
        config = MESSAGES["ForwardingPipelineConfig"].FromString(self._compiled.message)
        try:
            await self._channel.load(VERIFY_AND_WARM_INIT_BEGIN_AND_END, config)
        except SwitchUnreachableError as error:
            raise MaybeLoadedError(error) from error
        await self._refresh()
        await self._bind()

    async def write_batch(self, updates: Sequence[Update], *, atomic: bool = False) -> None:
        """Write updates in order; raises as :meth:`Connection.write_batch`."""
        if atomic:
            raise UnsupportedByTargetError("BfRuntime has no atomic batch; valid: updates in order")
        translator = self._translator()
        present = await self._present(translator, [entity for _, entity in updates])
        made = [(one, message) for one in updates for message in translator.updates(*one, present)]
        await self._channel.write(translator.program.name, made)

    async def entities(self, asked: Sequence[Asked]) -> list[Entity]:
        """The entities that are asked for; raises as :meth:`Connection.entities`."""
        translator = self._translator()
        found: list[Entity] = []
        entries = {
            one.table: translator.entries_key(one.table) for one in asked if isinstance(one, EntriesOf)
        }
        names = {key.table_id: name for name, key in entries.items()}
        for entry in await self._read(list(entries.values())):
            if entry.table_id not in names:
                raise ReadError(f"the switch returned table {entry.table_id}, which was not requested")
            found.append(translator.table_entry(names[entry.table_id], entry))
        if any(isinstance(one, AllGroups) for one in asked):
            nodes, members = await self._multicast(translator)
            for group, of_group in members.items():
                ports = sorted(port for node in of_group for port in nodes.get(node, ()))
                found.append(MulticastGroup(group, tuple(ports)))
        if any(isinstance(one, AllSessions) for one in asked):
            sessions = await self._read([table_entry(translator.fixed("$mirror.cfg"))])
            found += [translator.session(entry) for entry in sessions]
        cells = [one for one in asked if isinstance(one, CellOf)]
        for meter in dict.fromkeys(cell.meter for cell in cells):
            keys = [translator.cell_key(meter, cell.index) for cell in cells if cell.meter == meter]
            found += [translator.meter_cell(meter, entry) for entry in await self._read(keys)]
        ports_asked = {one.port for one in asked if isinstance(one, SettingsOf)}
        if ports_asked:
            settings = await self._settings(translator)
            found += [settings[port] for port in sorted(ports_asked & settings.keys())]
        return found

    async def counts(self, counter: str, indices: Sequence[int]) -> dict[int, Count]:
        """The cells of a counter, from the hardware, all pipes together; raises as `Connection.counts`."""
        table = self.program.counter(counter)
        keys = [table_entry(table, {"$COUNTER_INDEX": index}) for index in indices]
        counts: dict[int, Count] = {}
        for entry in await self._read(keys, from_hw=True):
            index, (_, data) = read_key(table, entry).get("$COUNTER_INDEX"), read_data(table, entry)
            packets, octets = (data.get(f"$COUNTER_SPEC_{part}", 0) for part in ("PKTS", "BYTES"))
            if isinstance(index, int) and isinstance(packets, int) and isinstance(octets, int):
                counts[index] = Count(packets, octets)
        missing = [index for index in indices if index not in counts]
        if missing:
            raise ReadError(f"the switch did not answer for counter {counter} index {missing[0]}")
        return counts

    async def announce_flows(self) -> None:
        """Do nothing: a client that binds gets every digest, because it subscribed to them."""
        self._channel.check_alive()

    async def next_digest(self) -> BfRtDigest:
        """Wait for the next digest; the server acknowledges it. Raises as :meth:`Connection.next_digest`."""
        self._channel.check_alive()
        message = await self._channel.digests.get()
        if message is None:
            self._channel.digests.put_nowait(None)
            self._channel.check_alive()
        found = self.program.info.filter_by_id(message.digest_id)
        if found is None:
            raise ReadError(f"the switch sent the digest {message.digest_id}, which is not in bf-rt.json")
        flows = []
        for data in message.data:
            numbers = {field.field_id: int.from_bytes(field.stream, "big") for field in data.fields}
            unknown = numbers.keys() - found.fields.keys()
            if unknown:
                raise ReadError(f"digest {found.name}: the unknown field {min(unknown)}")
            flows.append({found.fields[number].name: value for number, value in numbers.items()})
        return BfRtDigest(found.name.rpartition(".")[2], tuple(flows))

    async def until_lost(self) -> None:
        """Wait for the end of the stream, and raise its reason."""
        await self._channel.ended.wait()
        self._channel.check_alive()

    async def read_register(self, name: str, index: int) -> tuple[int, ...]:
        """A cell of a register from the hardware, one value for each pipe. Raises as :meth:`entities`."""
        table = self.program.register(name)
        entries = await self._read([table_entry(table, {"$REGISTER_INDEX": index})], from_hw=True)
        # The server returns the field once for each pipe.
        return tuple(read_number(table, one) for entry in entries for one in entry.data.fields)

    async def write_register(self, name: str, index: int, value: int) -> None:
        """Set a cell of a register in all pipes. Raises as :meth:`write_batch`."""
        table = self.program.register(name)
        (field,) = table.data
        entry = table_entry(table, {"$REGISTER_INDEX": index}, {field: value})
        message = MESSAGES["Update"](type=MODIFY, entity=MESSAGES["Entity"](table_entry=entry))
        await self._channel.write_one(self.program.name, f"register {name} cell {index}", message)

    async def ports_up(self) -> dict[int, bool]:
        """Whether each port that was added is up. Raises as :meth:`Connection.entities`."""
        table = self._translator().fixed("$PORT")
        entries = await self._read([table_entry(table)])
        found = {read_key(table, entry)["$DEV_PORT"]: read_data(table, entry)[1] for entry in entries}
        return {port: bool(data.get("$PORT_UP")) for port, data in found.items() if isinstance(port, int)}

    def _running_ours(self) -> BfRtProgram | None:
        """The program that the switch runs, if it is the given one, or without one, if it is weir's."""
        if self._compiled is not None:
            found = self._programs.get(self._compiled.program.name)
            return found if found is not None and found.same(self._compiled.program) else None
        return next((program for program in self.programs if program.lacks() is None), None)

    def _describe(self, program: BfRtProgram) -> str:
        lack = program.lacks()
        if lack is None:
            return f"{program.name}, which is weir's, but was compiled otherwise"
        return f"{program.name}, which has {lack}"

    def _translator(self) -> Translator:
        return Translator(self.program, self._fixed)

    async def _present(self, translator: Translator, entities: Sequence[Entity]) -> Present:
        """Reads what the updates of groups and ports depend on."""
        nodes: Mapping[int, tuple[int, ...]] = {}
        members: Mapping[int, tuple[int, ...]] = {}
        settings: Mapping[int, PortSettings] = {}
        if any(isinstance(entity, MulticastGroup) for entity in entities):
            nodes, members = await self._multicast(translator)
        if any(isinstance(entity, PortSettings) for entity in entities):
            settings = await self._settings(translator)
        return Present(frozenset(nodes), members, settings)

    async def _multicast(
        self, translator: Translator
    ) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        """The ports of each multicast node, and the nodes of each group."""
        nodes = await self._read([table_entry(translator.fixed("$pre.node"))])
        groups = await self._read([table_entry(translator.fixed("$pre.mgid"))])
        return translator.nodes(nodes), translator.members(groups)

    async def _settings(self, translator: Translator) -> dict[int, PortSettings]:
        """The settings of every port that was added; the server has an error for others."""
        entries = await self._read([table_entry(translator.fixed("$PORT"))])
        return {settings.port: settings for settings in map(translator.settings, entries)}

    async def _read(self, asked: Sequence[Any], *, from_hw: bool = False) -> list[Any]:
        """The entries that are asked for, in batches, without default entries."""
        found = []
        for entry in asked:
            entry.table_flags.from_hw = from_hw
        for start in range(0, len(asked), BATCH):
            found += await self._channel.read(self.program.name, asked[start : start + BATCH])
        return [entry for entry in found if entry.HasField("key") and not entry.is_default_entry]

    async def _refresh(self) -> None:
        """Ask which programs the switch runs, and for the tables of its fixed parts."""
        reply = await self._channel.config()
        self._programs = {
            one.p4_name: program_of(one.p4_name, one.bfruntime_info)
            for one in reply.config
            if one.p4_name != _NO_PROGRAM
        }
        info = reply.non_p4_config.bfruntime_info
        self._fixed = read_bf_rt(info, f"the fixed tables of {self.address}") if info else BfRtInfo(())

    async def _bind(self) -> None:
        """Own weir's program, if the switch runs it; one that is to be loaded is bound to after that."""
        ours = self._running_ours()
        if ours is not None and not self._bound:
            await self._channel.bind(ours.name)
            self._bound = True

    async def _take_over(self) -> None:
        while True:
            try:
                await self._bind()
            except NotPrimaryError:
                self._channel.check_alive()
                await asyncio.sleep(_BIND_AGAIN_S)
                continue
            return
