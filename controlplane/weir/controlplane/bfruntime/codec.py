# SPDX-License-Identifier: Apache-2.0
"""Names and values to ids and bytes of BfRuntime, and back, by a schema. Numbers are big-endian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.controlplane.bfruntime.messages import MESSAGES
from weir.controlplane.bfruntime.schema import SchemaField, SchemaTable
from weir.controlplane.errors import PlanError, ReadError

Value = int | bool | str | tuple[int, ...] | tuple[bool, ...]
KeyValue = int | tuple[int, int]
"""A value, or the value and mask of a ternary field."""


def table_entry(
    table: SchemaTable,
    key: Mapping[str, KeyValue] | None = None,
    data: Mapping[str, Value] | None = None,
    action: str | None = None,
) -> Any:
    """A TableEntry; without a key it asks for all entries of the table.

    Raises:
        PlanError: the table has no such field or action, or the field is too narrow for the value.
    """
    entry = MESSAGES["TableEntry"](table_id=table.id)
    for name, matched in (key or {}).items():
        _set_key(entry.key.fields.add(), table, _known(table.key, table, name), matched)
    fields = table.data
    if action is not None:
        if action not in table.actions:
            valid = ", ".join(table.actions) or "none"
            raise PlanError(f"table {table.name}: no action {action}; valid: {valid}")
        entry.data.action_id = table.actions[action].id
        fields = {**table.data, **table.actions[action].data}
    for name, value in (data or {}).items():
        _set_data(entry.data.fields.add(), table, _known(fields, table, name), value)
    return entry


def read_key(table: SchemaTable, entry: Any) -> dict[str, KeyValue]:
    """The key of a TableEntry by field names. Raises ReadError for what is not in the schema."""
    names = {field.id: field for field in table.key.values()}
    found: dict[str, KeyValue] = {}
    for message in entry.key.fields:
        field = _returned(names, table, message.field_id)
        if message.HasField("exact"):
            found[field.name] = _number(table, field, message.exact.value)
        elif message.HasField("ternary"):
            mask = _number(table, field, message.ternary.mask)
            found[field.name] = _number(table, field, message.ternary.value), mask
        else:
            raise ReadError(f"table {table.name}: field {field.name} came without a value that weir reads")
    return found


def read_data(table: SchemaTable, entry: Any) -> tuple[str | None, dict[str, Value]]:
    """The action of a TableEntry and its data by field names; fields of other types are left out.

    Raises:
        ReadError: something is not in the schema.
    """
    action, names = None, {field.id: field for field in table.data.values()}
    if entry.data.action_id:
        found = table.action_of(entry.data.action_id)
        if found is None:
            raise ReadError(f"table {table.name}: an entry with the unknown action {entry.data.action_id}")
        action = found[0]
        names |= {field.id: field for field in found[1].data.values()}
    data: dict[str, Value] = {}
    for message in entry.data.fields:
        field = _returned(names, table, message.field_id)
        if message.HasField("stream"):
            if field.bits:
                data[field.name] = _number(table, field, message.stream)
        elif message.HasField("str_val"):
            data[field.name] = message.str_val
        elif message.HasField("bool_val"):
            data[field.name] = message.bool_val
        elif message.HasField("int_arr_val"):
            data[field.name] = tuple(message.int_arr_val.val)
        elif message.HasField("bool_arr_val"):
            data[field.name] = tuple(message.bool_arr_val.val)
    return action, data


def read_number(table: SchemaTable, message: Any) -> int:
    """The number of one data field of a table without actions. Raises ReadError."""
    names = {field.id: field for field in table.data.values()}
    return _number(table, _returned(names, table, message.field_id), message.stream)


def _set_key(message: Any, table: SchemaTable, field: SchemaField, value: KeyValue) -> None:
    message.field_id = field.id
    if field.match == "Ternary":
        bits, mask = value if isinstance(value, tuple) else (value, (1 << field.bits) - 1)
        message.ternary.value, message.ternary.mask = _encode(table, field, bits), _encode(table, field, mask)
    elif field.match == "Exact" and not isinstance(value, tuple):
        message.exact.value = _encode(table, field, value)
    else:
        raise PlanError(f"table {table.name}: field {field.name} is {field.match}; valid: Exact, or Ternary")


def _set_data(message: Any, table: SchemaTable, field: SchemaField, value: Value) -> None:
    message.field_id = field.id
    if field.kind == "bool" and field.repeated and isinstance(value, tuple):
        message.bool_arr_val.SetInParent()
        message.bool_arr_val.val.extend(value)
    elif field.bits and field.repeated and isinstance(value, tuple):
        message.int_arr_val.SetInParent()
        message.int_arr_val.val.extend(int(_fits(table, field, one)) for one in value)
    elif field.kind == "bool" and isinstance(value, bool):
        message.bool_val = value
    elif field.kind == "string" and isinstance(value, str):
        if field.choices and value not in field.choices:
            raise PlanError(
                f"table {table.name}: field {field.name}: no {value}; valid: {', '.join(field.choices)}"
            )
        message.str_val = value
    elif field.bits and isinstance(value, int):
        message.stream = _encode(table, field, value)
    else:
        raise PlanError(f"table {table.name}: field {field.name} is {field.kind}, and not {value!r}")


def _encode(table: SchemaTable, field: SchemaField, value: int) -> bytes:
    return _fits(table, field, value).to_bytes(field.width_bytes, "big")


def _fits(table: SchemaTable, field: SchemaField, value: int) -> int:
    if not 0 <= value < 1 << field.bits:
        raise PlanError(
            f"table {table.name}: field {field.name} has no {value}; valid: 0 to {(1 << field.bits) - 1}"
        )
    return value


def _number(table: SchemaTable, field: SchemaField, stream: bytes) -> int:
    if field.kind.startswith("int"):  # the published server sends signed numbers as the host has them
        return int.from_bytes(stream, "little", signed=True)
    if not field.bits or len(stream) > field.width_bytes:
        raise ReadError(f"table {table.name}: field {field.name} came with {len(stream)} bytes")
    return int.from_bytes(stream, "big")


def _known(fields: Mapping[str, SchemaField], table: SchemaTable, name: str) -> SchemaField:
    if name not in fields:
        raise PlanError(f"table {table.name}: no field {name}; valid: {', '.join(fields) or 'none'}")
    return fields[name]


def _returned(names: Mapping[int, SchemaField], table: SchemaTable, number: int) -> SchemaField:
    if number not in names:
        raise ReadError(f"table {table.name}: the switch returned the unknown field {number}")
    return names[number]
