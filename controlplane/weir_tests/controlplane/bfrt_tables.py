# SPDX-License-Identifier: Apache-2.0
"""The tables of the test server: what each kind accepts, stores and returns, from the JSON of its schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from weir.controlplane.bfruntime.messages import MESSAGES
from weir.controlplane.targets.tofino import TOFINO, Tofino

_BITS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_UNSET = 0xFFFF_FFFF
"""Rate and burst of a meter cell that nothing was written to; a real chip has its largest."""


class Refused(Exception):
    """An update or a read that is refused: the name of its code, and a text."""

    def __init__(self, code: str, text: str) -> None:
        """Keep both."""
        self.code = code
        super().__init__(text)


@dataclass
class Store:
    """One table: its schema as JSON, and its entries by key."""

    tree: dict[str, Any]
    entries: dict[bytes, Any] = field(default_factory=dict)

    @property
    def short(self) -> str:
        """The last part of the name."""
        name: str = self.tree["name"]
        return name if name.startswith("$") else name.rpartition(".")[2]

    @property
    def kind(self) -> str:
        """The table type."""
        return str(self.tree["table_type"])

    def write(self, kind: str, entry: Any, stores: dict[int, Store]) -> None:
        """Insert, modify or delete an entry. Raises Refused."""
        if entry.is_default_entry or not entry.HasField("key"):
            raise Refused("INVALID_ARGUMENT", "Table key cannot be empty")
        self._check_key(entry.key)
        key = entry.key.SerializeToString(deterministic=True)
        if kind != "delete":
            self._check_data(entry.data)
        self._check_kind(kind, key, entry, stores)
        if kind == "insert" and key in self.entries:
            raise Refused("ALREADY_EXISTS", "Table Add failed Already exists")
        if kind != "insert" and key not in self.entries:
            raise Refused("NOT_FOUND", "Table Entry modify failed Object not found")
        if kind == "delete":
            del self.entries[key]
            return
        if len(self.entries) >= self.tree["size"] and key not in self.entries:
            raise Refused("RESOURCE_EXHAUSTED", "Table Add failed Not enough space")
        self.entries[key] = self._stored(entry, self.entries.get(key))

    def read(self, asked: Any) -> Iterator[Any]:
        """The entry with a key, or all, then the default entry. Raises Refused."""
        if asked.HasField("key"):
            self._check_key(asked.key)
            yield self._by_key(asked)
            return
        yield from self.entries.values()
        if self.kind == "MatchAction_Direct":
            default = MESSAGES["TableEntry"](table_id=self.tree["id"], is_default_entry=True)
            default.data.action_id = self.tree["action_specs"][-1]["id"]
            yield default

    def numbers(self) -> dict[int, dict[str, Any]]:
        """By the number that is the only key, the values of each entry by field name; for tests."""

        return {
            int.from_bytes(entry.key.fields[0].exact.value, "big"): self.values(entry)
            for entry in self.entries.values()
        }

    def values(self, entry: Any) -> dict[str, Any]:
        """The data of an entry by field name."""
        names = {one["id"]: one["name"] for one in self._fields(entry.data.action_id).values()}
        return {names[one.field_id]: _value(one) for one in entry.data.fields}

    def _by_key(self, asked: Any) -> Any:
        found = self.entries.get(asked.key.SerializeToString(deterministic=True))
        if found is None:
            raise Refused("NOT_FOUND", "Entry not found in table")
        return found

    def _stored(self, entry: Any, before: Any) -> Any:
        return entry

    def _check_kind(self, kind: str, key: bytes, entry: Any, stores: dict[int, Store]) -> None:
        """What only this kind of table refuses."""

    def _check_key(self, key: Any) -> None:
        known = {one["id"]: one for one in self.tree["key"]}
        given = [one.field_id for one in key.fields]
        if len(given) != len(set(given)) or not set(given) <= known.keys():
            raise Refused("INVALID_ARGUMENT", "unknown or repeated key field")
        for number, one in known.items():
            if one["mandatory"] and number not in given:
                raise Refused("INVALID_ARGUMENT", f"no {one['name']}")
        for one in key.fields:
            described = known[one.field_id]
            if one.HasField("exact") and described["match_type"] == "Exact":
                _check_number(described, one.exact.value)
            elif one.HasField("ternary") and described["match_type"] == "Ternary":
                _check_number(described, one.ternary.value)
                _check_number(described, one.ternary.mask)
            else:
                raise Refused("INVALID_ARGUMENT", f"Invalid match type of {described['name']}")

    def _fields(self, action_id: int) -> dict[int, dict[str, Any]]:
        """The data fields of an action, or of a table without actions."""
        fields = [item["singleton"] | {"read_only": item["read_only"]} for item in self.tree["data"]]
        if action_id:
            actions = {one["id"]: one for one in self.tree.get("action_specs", ())}
            if action_id not in actions:
                raise Refused("INVALID_ARGUMENT", f"no action {action_id}")
            fields += [item.get("singleton", item) for item in actions[action_id]["data"]]
        return {one["id"]: one for one in fields}

    def _check_data(self, data: Any) -> None:
        if self.tree.get("action_specs") and not data.action_id:
            raise Refused("INVALID_ARGUMENT", "no action")
        known = self._fields(data.action_id)
        given = [one.field_id for one in data.fields]
        if len(given) != len(set(given)) or not set(given) <= known.keys():
            raise Refused("INVALID_ARGUMENT", "unknown or repeated data field")
        for number, one in known.items():
            if one.get("mandatory") and number not in given:
                raise Refused("INVALID_ARGUMENT", f"no {one['name']}")
        for one in data.fields:
            described = known[one.field_id]
            if described.get("read_only"):
                raise Refused("INVALID_ARGUMENT", f"{described['name']} is read-only")
            _check_value(described, one)


class Cells(Store):
    """Meter or counter: every index has an entry, insert and modify are the same, nothing is deleted."""

    def write(self, kind: str, entry: Any, stores: dict[int, Store]) -> None:
        """Set one cell."""
        self._check_key(entry.key)
        if kind == "delete":
            raise Refused("UNIMPLEMENTED", "Table Entry delete failed Not supported")
        self._check_data(entry.data)
        self._check_index(entry)
        self.entries[entry.key.SerializeToString(deterministic=True)] = entry

    def _check_index(self, entry: Any) -> None:
        if int.from_bytes(entry.key.fields[0].exact.value, "big") >= self.tree["size"]:
            raise Refused("INVALID_ARGUMENT", "Table Entry modify failed Invalid arguments")


class Meter(Cells):
    """A meter reads back the rates and bursts that the chip has for the written ones."""

    chip: Tofino = TOFINO

    def _by_key(self, asked: Any) -> Any:
        self._check_index(asked)
        names = {one["singleton"]["name"]: one["singleton"]["id"] for one in self.tree["data"]}
        written = self.entries.get(asked.key.SerializeToString(deterministic=True))
        values = dict.fromkeys(names, _UNSET) if written is None else self.values(written)
        answer = MESSAGES["TableEntry"](table_id=self.tree["id"], key=asked.key)
        for part in ("C", "P"):
            rate, burst = values[f"$METER_SPEC_{part}IR_KBPS"], values[f"$METER_SPEC_{part}BS_KBITS"]
            if written is not None:
                rate, burst = (number // 125 for number in self.chip.read_back(rate * 125, burst * 125))
            for name, value in ((f"{part}IR_KBPS", rate), (f"{part}BS_KBITS", burst)):
                number = names[f"$METER_SPEC_{name}"]
                answer.data.fields.add(field_id=number, stream=value.to_bytes(8, "big"))
        return answer


class Counter(Cells):
    """A counter: without from_hw it reads what the driver knew at the last synchronisation, here nothing."""

    counted: dict[int, tuple[int, int]]
    """Packets and bytes by index."""

    def _by_key(self, asked: Any) -> Any:
        self._check_index(asked)
        index = int.from_bytes(asked.key.fields[0].exact.value, "big")
        counted = getattr(self, "counted", {}).get(index, (0, 0))
        packets, octets = counted if asked.table_flags.from_hw else (0, 0)
        answer = MESSAGES["TableEntry"](table_id=self.tree["id"], key=asked.key)
        for one in (item["singleton"] for item in self.tree["data"]):
            value = packets if one["name"].endswith("PKTS") else octets
            answer.data.fields.add(field_id=one["id"], stream=value.to_bytes(8, "big"))
        return answer


class Register(Cells):
    """A register: 0 until it is written, and read once for each of two pipes."""

    def _by_key(self, asked: Any) -> Any:
        self._check_index(asked)
        (one,) = (item["singleton"] for item in self.tree["data"])
        written = self.entries.get(asked.key.SerializeToString(deterministic=True))
        zero = bytes((one["type"]["width"] + 7) // 8)
        stream = zero if written is None else written.data.fields[0].stream
        answer = MESSAGES["TableEntry"](table_id=self.tree["id"], key=asked.key)
        for _ in range(2):
            answer.data.fields.add(field_id=one["id"], stream=stream)
        return answer


class Mirror(Store):
    """Sessions: a write replaces the whole session, and no length means whole packets."""

    def _check_kind(self, kind: str, key: bytes, entry: Any, stores: dict[int, Store]) -> None:
        if (kind == "insert") == (key in self.entries):
            raise Refused("INVALID_ARGUMENT", "mirror session exists, or does not")

    def _stored(self, entry: Any, before: Any) -> Any:
        stored = MESSAGES["TableEntry"](table_id=entry.table_id, key=entry.key)
        stored.data.action_id = entry.data.action_id
        given = {one.field_id: one for one in entry.data.fields}
        for one in (item["singleton"] for item in self.tree["data"]):
            kept = stored.data.fields.add(field_id=one["id"])
            if one["id"] in given:
                kept.CopyFrom(given[one["id"]])
            elif one["type"]["type"] == "bool":
                kept.bool_val = False
            elif one["type"]["type"] == "string":
                kept.str_val = "NONE"
            else:
                kept.stream = bytes(_BITS[one["type"]["type"]] // 8)
            if one["name"] == "$max_pkt_len" and not any(kept.stream):
                kept.stream = b"\xff\xff"
        return stored


class Groups(Store):
    """$pre.mgid: its nodes exist, and each has a level-1 exclusion id."""

    def _check_kind(self, kind: str, key: bytes, entry: Any, stores: dict[int, Store]) -> None:
        if kind == "delete":
            return
        values = self.values(entry)
        nodes = values.get("$MULTICAST_NODE_ID", [])
        (of_nodes,) = (one for one in stores.values() if one.short == "$pre.node")
        if not set(nodes) <= of_nodes.numbers().keys():
            raise Refused("INVALID_ARGUMENT", "no such node")
        if any(len(values.get(f"$MULTICAST_NODE_L1_XID{part}", [])) != len(nodes) for part in ("", "_VALID")):
            raise Refused("INVALID_ARGUMENT", "Wrong size of data members")


class Nodes(Store):
    """$pre.node: a node of a group is not deleted."""

    def _check_kind(self, kind: str, key: bytes, entry: Any, stores: dict[int, Store]) -> None:
        (groups,) = (one for one in stores.values() if one.short == "$pre.mgid")
        used = {node for group in groups.numbers().values() for node in group["$MULTICAST_NODE_ID"]}
        if kind == "delete" and int.from_bytes(entry.key.fields[0].exact.value, "big") in used:
            raise Refused("ALREADY_EXISTS", "Entry references exist")


class Ports(Store):
    """$PORT: an insert needs speed and FEC; a modify keeps the rest, and takes the port down for a speed."""

    flaps: int = 0

    def _check_kind(self, kind: str, key: bytes, entry: Any, stores: dict[int, Store]) -> None:
        values = self.values(entry)
        if kind == "insert" and not {"$SPEED", "$FEC"} <= values.keys():
            raise Refused("INVALID_ARGUMENT", "Port Cfg table entry add require both speed and fec")
        if kind == "modify" and "$SPEED" in values:
            self.flaps += 1

    def _by_key(self, asked: Any) -> Any:
        found = self.entries.get(asked.key.SerializeToString(deterministic=True))
        if found is None:  # of a port that was not added, the driver has no settings
            raise Refused("UNKNOWN", "Entry not found in table Unexpected")
        return found

    def _stored(self, entry: Any, before: Any) -> Any:
        stored = MESSAGES["TableEntry"](table_id=entry.table_id, key=entry.key)
        kept = {} if before is None else {one.field_id: one for one in before.data.fields}
        kept |= {one.field_id: one for one in entry.data.fields}
        for one in (item["singleton"] for item in self.tree["data"]):
            if one["name"] == "$PORT_UP":  # a port is up when it is enabled: the other end is too
                enabled = self.values(entry).get("$PORT_ENABLE", True)
                stored.data.fields.add(field_id=one["id"], bool_val=bool(enabled))
                kept.pop(one["id"], None)
        for one in kept.values():
            added = stored.data.fields.add()
            added.CopyFrom(one)
            if added.HasField("str_val") and added.str_val == "BF_FEC_TYP_REED_SOLOMON":
                added.str_val = "BF_FEC_TYP_RS"  # another name of the same code
        return stored


_KINDS: dict[str, type[Store]] = {
    "Meter": Meter,
    "Counter": Counter,
    "Register": Register,
    "MirrorCfg": Mirror,
    "PreMgid": Groups,
    "PreNode": Nodes,
    "PortConfigure": Ports,
}


def stores_of(tables: Iterable[dict[str, Any]]) -> dict[int, Store]:
    """The stores of tables, by id."""
    return {table["id"]: _KINDS.get(table["table_type"], Store)(table) for table in tables}


def _check_number(described: dict[str, Any], stream: bytes) -> None:
    kind = described["type"]
    bits = kind["width"] if kind["type"] == "bytes" else _BITS[kind["type"]]
    if len(stream) != (bits + 7) // 8:
        raise Refused("INVALID_ARGUMENT", f"{described['name']} has {len(stream)} bytes")
    if int.from_bytes(stream, "big") >= 1 << bits:
        raise Refused("INVALID_ARGUMENT", f"{described['name']} does not fit {bits} bits")


def _check_value(described: dict[str, Any], given: Any) -> None:
    kind, repeated = described["type"]["type"], described["repeated"]
    if kind == "bool":
        right = given.HasField("bool_arr_val" if repeated else "bool_val")
    elif kind == "string":
        right = given.HasField("str_val") and given.str_val in described["type"]["choices"]
    elif repeated:
        right = given.HasField("int_arr_val")
        right = right and all(value < 1 << _BITS[kind] for value in given.int_arr_val.val)
    else:
        right = given.HasField("stream")
        if right:
            _check_number(described, given.stream)
    if not right:
        raise Refused("INVALID_ARGUMENT", f"SetValue failed for {described['name']}")


def _value(given: Any) -> Any:
    for name, read in (
        ("stream", lambda: int.from_bytes(given.stream, "big")),
        ("str_val", lambda: given.str_val),
        ("bool_val", lambda: given.bool_val),
        ("int_arr_val", lambda: list(given.int_arr_val.val)),
        ("bool_arr_val", lambda: list(given.bool_arr_val.val)),
    ):
        if given.HasField(name):
            return read()
    return None
