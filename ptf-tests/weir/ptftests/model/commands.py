# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's table entries as commands of the harness, by the names in the P4Info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from finsy.proto import p4i, p4r


class BadEntryError(Exception):
    """An entry does not fit the P4Info; the message says where."""


@dataclass(frozen=True, slots=True)
class Field:
    """A key field or a parameter."""

    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Action:
    """An action and its parameters, by id."""

    name: str
    params: Mapping[int, Field]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its key, actions and size."""

    name: str
    ternary: bool
    size: int
    keys: Mapping[int, Field]
    actions: frozenset[int]


class Names:
    """The tables, actions, meters, counters and registers of a P4Info, by id."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        """Read a P4Info."""
        self.tables = {table.preamble.id: _table(table) for table in p4info.tables}
        self.actions = {
            action.preamble.id: Action(
                action.preamble.name,
                {param.id: Field(param.name, param.bitwidth) for param in action.params},
            )
            for action in p4info.actions
        }
        self.meters = {meter.preamble.id: (meter.preamble.name, meter.size) for meter in p4info.meters}
        self.counters = {item.preamble.id: (item.preamble.name, item.size) for item in p4info.counters}
        self.registers = {item.preamble.id: (item.preamble.name, item.size) for item in p4info.registers}
        self.register_bits = {
            item.preamble.id: item.type_spec.bitstring.bit.bitwidth for item in p4info.registers
        }

    def table(self, entry: p4r.TableEntry) -> Table:
        """The table of an entry. Raises BadEntryError."""
        try:
            return self.tables[entry.table_id]
        except KeyError:
            raise BadEntryError(f"no table {entry.table_id}; valid: {sorted(self.tables)}") from None

    def add(self, entry: p4r.TableEntry, address: int | None) -> str:
        """The command that adds an entry; `address` is the place in a ternary table, the highest wins.

        Raises BadEntryError.
        """
        table = self.table(entry)
        call = entry.action.action
        if entry.action.WhichOneof("type") != "action" or call.action_id not in table.actions:
            raise BadEntryError(f"{table.name}: no such action; valid: {sorted(table.actions)}")
        action = self.actions[call.action_id]
        words = ["add", table.name, *([] if address is None else [str(address)])]
        matches = {match.field_id: match for match in entry.match}
        unknown = matches.keys() - table.keys.keys()
        if unknown:
            raise BadEntryError(f"{table.name}: no fields {sorted(unknown)}; valid: {sorted(table.keys)}")
        # A field that is left out would be compared with 0.
        for number, field in table.keys.items():
            key = _key(matches[number], field) if number in matches else f"0b{'*' * field.bits}"
            words.append(f"{field.name}:{key}")
        given = {param.param_id: int.from_bytes(param.value, "big") for param in call.params}
        if given.keys() != action.params.keys():
            raise BadEntryError(f"{action.name}: parameters {sorted(given)}; valid: {sorted(action.params)}")
        params = ", ".join(f"{action.params[number].name}:{value:#x}" for number, value in given.items())
        return " ".join(words) + f" {action.name}({params})"


def _table(table: p4i.Table) -> Table:
    kinds = {field.match_type for field in table.match_fields}
    ternary = p4i.MatchField.TERNARY in kinds
    return Table(
        table.preamble.name,
        ternary,
        table.size,
        {field.id: Field(field.name, field.bitwidth) for field in table.match_fields},
        frozenset(ref.id for ref in table.action_refs if ref.scope != p4i.ActionRef.DEFAULT_ONLY),
    )


def _key(match: p4r.FieldMatch, field: Field) -> str:
    match match.WhichOneof("field_match_type"):
        case "exact":
            value = int.from_bytes(match.exact.value, "big")
            return f"0x{value:0{-(-field.bits // 4)}x}"
        case "ternary":
            value = int.from_bytes(match.ternary.value, "big")
            mask = int.from_bytes(match.ternary.mask, "big")
            bits = zip(f"{value:0{field.bits}b}", f"{mask:0{field.bits}b}", strict=True)
            return "0b" + "".join(bit if compared == "1" else "*" for bit, compared in bits)
        case other:
            raise BadEntryError(f"{field.name}: a match of kind {other}; valid: exact, ternary")
