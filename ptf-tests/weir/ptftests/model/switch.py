# SPDX-License-Identifier: Apache-2.0
"""The entities of the switch, and the model that has them; a model that lacks a deletion is started anew.

The harness can add entries, but not delete or change them. So after a deletion a new model gets what is left,
as soon as packets come or a cell is read; its counters, registers and meters begin anew as well.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from finsy.proto import p4i, p4r
from google.protobuf.message import Message

from weir.controlplane.errors import UnsupportedByTargetError
from weir.ptftests.model import words
from weir.ptftests.model.blocks import WORD_BITS
from weir.ptftests.model.chips import Chip
from weir.ptftests.model.commands import BadEntryError, Names, Table
from weir.ptftests.model.harness import Harness, ModelError
from weir.ptftests.model.program import Program, load

_T = TypeVar("_T")
_VALUES = re.compile(r"(\w+)=(\d+)")
_METERED = "physical"
"""What the harness says of a cell's word, beside the value that the hardware would report."""


class RefusedError(Exception):
    """An update that the switch cannot take; `code` is gRPC's name for why."""

    def __init__(self, code: str, message: str) -> None:
        """Say which code and why."""
        super().__init__(message)
        self.code = code


class ModelSwitch:
    """Tables, groups, sessions and cells of one device. Calls may come from any thread."""

    def __init__(self, chip: Chip, binary: Path, logs: Path) -> None:
        """Use a chip's compiled program; the model starts with the first `push`. Raises ProgramError."""
        self._scratch = tempfile.TemporaryDirectory()
        self._folder = Path(self._scratch.name)
        self._chip = chip
        self._program: Program = load(chip, binary, self._folder)
        self._log = logs / "model.log"
        self._log.write_text("")
        self._lock = threading.RLock()
        self._model: Harness | None = None
        self._files = 0
        self.failures: list[str] = []
        """Why models ended that nobody had told to."""
        self._clear(p4i.P4Info())

    @property
    def program(self) -> Program:
        """The program that it runs."""
        return self._program

    def push(self, p4info: p4i.P4Info) -> None:
        """Forget all entities, and start the program anew. Raises RefusedError, ModelError."""
        with self._lock:
            names = Names(p4info)
            cells = [*names.meters.values(), *names.registers.values()]
            missing = {name for name, _ in cells} - self._program.memories.keys()
            if missing:
                raise RefusedError("INVALID_ARGUMENT", f"the program has no {sorted(missing)}")
            self._clear(p4info)
            self._running()

    def write(self, update: p4r.Update) -> None:
        """Insert, modify or delete an entity. Raises RefusedError, ModelError."""
        with self._lock:
            entity = update.entity
            kind = entity.WhichOneof("entity")
            insert, delete = update.type == p4r.Update.INSERT, update.type == p4r.Update.DELETE
            match kind:
                case "table_entry":
                    self._write_entry(entity.table_entry, insert, delete)
                case "packet_replication_engine_entry":
                    self._write_replication(entity.packet_replication_engine_entry, insert, delete)
                case "meter_entry":
                    self._set_meter(entity.meter_entry)
                case "register_entry":
                    self._set_register(entity.register_entry)
                case _:
                    raise RefusedError("UNIMPLEMENTED", f"the model has no {kind}")

    def read(self, wanted: p4r.Entity) -> Iterator[p4r.Entity]:
        """The entities that one with wildcards describes. Raises RefusedError, ModelError."""
        with self._lock:
            match wanted.WhichOneof("entity"):
                case "table_entry":
                    for entry in self._entries.values():
                        if wanted.table_entry.table_id in (0, entry.table_id):
                            yield p4r.Entity(table_entry=entry)
                case "packet_replication_engine_entry":
                    if wanted.packet_replication_engine_entry.WhichOneof("type") == "multicast_group_entry":
                        for group in self._groups.values():
                            yield _replication(multicast_group_entry=group)
                    else:
                        for session in self._sessions.values():
                            yield _replication(clone_session_entry=session)
                case "counter_entry":
                    yield self._counter(wanted.counter_entry)
                case "meter_entry":
                    yield self._meter(wanted.meter_entry)
                case other:
                    raise RefusedError("UNIMPLEMENTED", f"the model cannot read {other}")

    def pass_frames(self, frames: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Send frames into ports; those that left, with their ports. Raises ModelError."""
        with self._lock:
            return self._on_model(lambda model: model.pass_frames(frames))

    def pass_spaced(self, port: int, frames: Sequence[tuple[bytes, int]]) -> list[tuple[int, bytes]]:
        """Send frames, each with the time until the next one in ns. Raises ModelError, ValueError."""
        with self._lock:
            return self._on_model(lambda model: model.pass_spaced(port, frames))

    def close(self) -> None:
        """End the model."""
        with self._lock:
            self._drop()
            self._scratch.cleanup()

    def _clear(self, p4info: p4i.P4Info) -> None:
        self._drop()
        self._names = Names(p4info)
        self._entries: dict[tuple[int, bytes, int], p4r.TableEntry] = {}
        self._addresses: dict[tuple[int, bytes, int], int] = {}
        self._groups: dict[int, p4r.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4r.CloneSessionEntry] = {}
        self._meters: dict[tuple[int, int], p4r.MeterEntry] = {}

    # Entities

    def _write_entry(self, entry: p4r.TableEntry, insert: bool, delete: bool) -> None:
        try:
            table = self._names.table(entry)
            self._names.add(entry, 0) if not delete else None
        except BadEntryError as error:
            raise RefusedError("INVALID_ARGUMENT", str(error)) from error
        key = _entry_key(entry)
        _check_presence(key in self._entries, insert, f"{table.name}: an entry of this key")
        if insert:
            if sum(known[0] == entry.table_id for known in self._entries) >= table.size:
                raise RefusedError("RESOURCE_EXHAUSTED", f"{table.name} has {table.size} entries")
            self._entries[key] = entry
            if self._model is not None:
                self._add(key)
        elif delete:
            del self._entries[key]
            self._drop()
        else:
            self._entries[key] = entry
            self._drop()

    def _add(self, key: tuple[int, bytes, int]) -> None:
        """Add an entry to the running model, or drop the model if there is no place of its priority."""
        entry = self._entries[key]
        table = self._names.tables[entry.table_id]
        address = None
        if table.ternary:
            address = self._address(key, table)
            if address is None:
                self._drop()
                return
            self._addresses[key] = address
        try:
            self._on_model(lambda model: model.run([self._names.add(entry, address)]))
        except ModelError:
            self._entries.pop(key, None)
            raise

    def _address(self, key: tuple[int, bytes, int], table: Table) -> int | None:
        """A free place between the entries of lower and of higher priority."""
        below, above = -1, table.size
        for known, address in self._addresses.items():
            if known[0] == key[0]:
                if known[2] <= key[2]:
                    below = max(below, address)
                else:
                    above = min(above, address)
        return (below + above) // 2 if above - below > 1 else None

    def _write_replication(self, entry: p4r.PacketReplicationEngineEntry, insert: bool, delete: bool) -> None:
        if entry.WhichOneof("type") == "clone_session_entry":
            session = entry.clone_session_entry
            number, ports = session.session_id, _ports(session.replicas)
            _check_presence(number in self._sessions, insert, f"session {number}")
            highest = self._chip.mirrors.max_session
            if number > highest or len(ports) > 1:
                raise RefusedError(
                    "INVALID_ARGUMENT",
                    f"session {number}, {len(ports)} ports; valid: up to {highest}, with one port",
                )
            if delete:
                del self._sessions[number]
                self._load(self._chip.mirrors.session(number, None))
            else:
                self._sessions[number] = session
                self._load(self._session_block(session))
            return
        group = entry.multicast_group_entry
        number = group.multicast_group_id
        _check_presence(number in self._groups, insert, f"group {number}")
        if not 0 < number <= words.MAX_GROUP:
            raise RefusedError("INVALID_ARGUMENT", f"group {number}; valid: 1 to {words.MAX_GROUP}")
        if delete:
            del self._groups[number]
            self._drop()
        else:
            self._groups[number] = group
            self._load(self._multicast())

    def _multicast(self) -> bytes:
        groups = {number: _ports(group.replicas) for number, group in self._groups.items()}
        return words.multicast(self._chip, groups)

    def _session_block(self, session: p4r.CloneSessionEntry) -> bytes:
        ports = _ports(session.replicas)
        port = ports[0] if ports else None
        return self._chip.mirrors.session(session.session_id, port, session.packet_length_bytes)

    # Cells

    def _set_meter(self, entry: p4r.MeterEntry) -> None:
        name, _ = self._cell(self._names.meters, entry.meter_id, entry.index.index)
        key = (entry.meter_id, entry.index.index)
        self._meters[key] = entry
        self._load(self._meter_block(entry, name))

    def _meter_block(self, entry: p4r.MeterEntry, name: str) -> bytes:
        word = words.meter_word(words.GREEN, words.GREEN)
        if entry.HasField("config"):
            config = entry.config
            try:
                word = words.meter_word(
                    words.bucket(self._chip, config.cir, config.cburst),
                    words.bucket(self._chip, config.pir, config.pburst),
                )
            except UnsupportedByTargetError as error:
                raise RefusedError("INVALID_ARGUMENT", str(error)) from error
        return self._program.memories[name].write(entry.index.index, [word])

    def _meter(self, wanted: p4r.MeterEntry) -> p4r.Entity:
        self._cell(self._names.meters, wanted.meter_id, wanted.index.index)
        known = self._meters.get((wanted.meter_id, wanted.index.index), wanted)
        return p4r.Entity(meter_entry=known)

    def _counter(self, wanted: p4r.CounterEntry) -> p4r.Entity:
        index = wanted.index.index
        name, _ = self._cell(self._names.counters, wanted.counter_id, index)
        values = self._values(f"check_counter 0:{name}({index})")
        found = p4r.CounterEntry(counter_id=wanted.counter_id, index=wanted.index)
        found.data.packet_count, found.data.byte_count = values.get("packets", 0), values.get("bytes", 0)
        return p4r.Entity(counter_entry=found)

    def _set_register(self, entry: p4r.RegisterEntry) -> None:
        index = entry.index.index
        name, _ = self._cell(self._names.registers, entry.register_id, index)
        bits = self._names.register_bits[entry.register_id]
        value = int.from_bytes(entry.data.bitstring, "big")
        if value >> bits:
            raise RefusedError("OUT_OF_RANGE", f"{name}: {value:#x}; valid: {bits} bits")
        # Several cells share a word, and the model goes on counting in the others.
        cells = WORD_BITS // bits
        number, place = divmod(index, cells)
        held = [self._register(name, number * cells + cell) for cell in range(cells)]
        held[place] = value
        word = sum(cell << at * bits for at, cell in enumerate(held))
        self._load(self._program.memories[name].write(number, [word]))

    def _register(self, name: str, index: int) -> int:
        (value,) = self._values(f"check_register 0:{name}({index})").values()
        return value

    def _cell(self, known: dict[int, tuple[str, int]], number: int, index: int) -> tuple[str, int]:
        if number not in known:
            raise RefusedError("NOT_FOUND", f"no id {number}; valid: {sorted(known)}")
        name, size = known[number]
        if not 0 <= index < size:
            raise RefusedError("OUT_OF_RANGE", f"{name}: cell {index}; valid: below {size}")
        return name, size

    def _values(self, command: str) -> dict[str, int]:
        lines = self._on_model(lambda model: model.run([command]))
        physical = [line for line in lines if _METERED in line]
        return {name: int(value) for line in physical for name, value in _VALUES.findall(line)}

    # The model

    def _running(self) -> Harness:
        """The model with all entities. Raises ModelError."""
        if self._model is not None:
            return self._model
        self._model = Harness(
            self._chip, [self._program.context, self._program.binary], self._log, self._folder
        )
        self._addresses = {}
        blocks = [self._chip.mirrors.enable(), self._multicast()]
        blocks += map(self._session_block, self._sessions.values())
        for name, _ in self._names.meters.values():
            blocks.append(self._program.memories[name].fill(words.meter_word(words.GREEN, words.GREEN)))
        for name, _ in self._names.registers.values():
            blocks.append(self._program.memories[name].fill(0))
        for entry in self._meters.values():
            blocks.append(self._meter_block(entry, self._names.meters[entry.meter_id][0]))
        self._model.run(self._loads(b"".join(blocks)))
        self._model.run(self._adds())
        return self._model

    def _adds(self) -> Iterator[str]:
        """Commands for all entries; ternary ones get places that leave room between priorities."""
        for number, table in self._names.tables.items():
            keys = [key for key in self._entries if key[0] == number]
            if table.ternary:
                keys.sort(key=lambda key: key[2])
                gap = table.size / (len(keys) + 1)
                self._addresses |= {key: int((place + 1) * gap) for place, key in enumerate(keys)}
            for key in keys:
                yield self._names.add(self._entries[key], self._addresses.get(key))

    def _load(self, block: bytes) -> None:
        if self._model is not None:
            self._on_model(lambda model: model.run(self._loads(block)))

    def _loads(self, block: bytes) -> Iterable[str]:
        self._files += 1
        path = self._folder / f"block{self._files % 2}.bin"
        path.write_bytes(block)
        return [f"load {path}"]

    def _on_model(self, work: Callable[[Harness], _T]) -> _T:
        """Do something with the running model; note its end if nobody asked for it. Raises ModelError."""
        try:
            return work(self._running())
        except ModelError as error:
            self.failures.append(str(error))
            self._drop()
            raise

    def _drop(self) -> None:
        if self._model is not None:
            self._model.close()
            self._model = None


def _entry_key(entry: p4r.TableEntry) -> tuple[int, bytes, int]:
    matches = sorted(entry.match, key=lambda match: match.field_id)
    return entry.table_id, b"".join(_bytes(match) for match in matches), entry.priority


def _bytes(message: Message) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return len(data).to_bytes(4, "big") + data


def _replication(**entry: p4r.MulticastGroupEntry | p4r.CloneSessionEntry) -> p4r.Entity:
    found = p4r.PacketReplicationEngineEntry(**entry)  # type: ignore[arg-type]
    return p4r.Entity(packet_replication_engine_entry=found)


def _check_presence(present: bool, insert: bool, what: str) -> None:
    if insert and present:
        raise RefusedError("ALREADY_EXISTS", f"{what} is there already")
    if not insert and not present:
        raise RefusedError("NOT_FOUND", f"{what} is not there")


def _ports(replicas: Iterable[p4r.Replica]) -> list[int]:
    ports = [int.from_bytes(item.port, "big") if item.port else item.egress_port for item in replicas]
    for port in ports:
        if port >= 64:
            raise RefusedError("UNIMPLEMENTED", f"port {port}; valid: 0 to 63, of pipe 0")
    return ports
