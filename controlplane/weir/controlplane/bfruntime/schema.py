# SPDX-License-Identifier: Apache-2.0
"""Reads bf-rt.json: the tables, fields and actions of a switch, with their ids and widths.

p4c for Tofino writes one file for each program (--bf-rt-schema). The switch has more for its fixed parts
(mirror sessions, multicast, ports), and returns both. Meters, counters and registers are tables too, with an
index as key. The form is that of p4c's backends/tofino/bf-p4c/control-plane/bfruntime.cpp. A table in another
form matters only to whom needs it, because switches have tables for much that weir does not use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weir.controlplane.errors import PipelineError

_INTEGER_BITS = {f"{sign}int{bits}": bits for sign in ("u", "") for bits in (8, 16, 32, 64)}
_LARGEST_ID = 2**32 - 1
_MOST_BITS = 1 << 20
_Read = TypeVar("_Read")
_VALID = "valid: bf-rt.json, as p4c for Tofino writes it (--bf-rt-schema)"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A key field, a data field or an action parameter; `bits` is 0 for a kind that is not a number.

    Kinds are the types of bf-rt.json, and container. Of these weir reads and writes numbers, bool and string.
    """

    id: int
    name: str
    kind: str
    bits: int = 0
    match: str = ""
    """The match type of a key field; empty for others."""
    repeated: bool = False
    mandatory: bool = False
    read_only: bool = False
    choices: tuple[str, ...] = ()

    @property
    def width_bytes(self) -> int:
        """Bytes of a number on the wire."""
        return (self.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class SchemaAction:
    """An action of a table, with its parameters by name."""

    id: int
    name: str
    data: Mapping[str, SchemaField]


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """A table: its fields by name, and its actions by the last part of their names."""

    id: int
    name: str
    kind: str
    size: int
    key: Mapping[str, SchemaField]
    data: Mapping[str, SchemaField]
    actions: Mapping[str, SchemaAction]

    def action_of(self, number: int) -> tuple[str, SchemaAction] | None:
        """The action with this id, after its short name."""
        return next(((name, action) for name, action in self.actions.items() if action.id == number), None)


@dataclass(frozen=True, slots=True)
class LearnFilter:
    """A digest: the fields that it announces, by id."""

    id: int
    name: str
    fields: Mapping[int, SchemaField]


@dataclass(frozen=True, slots=True)
class BfRtInfo:
    """All tables and digests of a program, or of a program and the fixed parts of its switch."""

    tables: tuple[SchemaTable, ...]
    filters: tuple[LearnFilter, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """By name, why a table or digest could not be read."""

    def find(self, name: str, kinds: Iterable[str] = ()) -> SchemaTable | None:
        """The table with this name, or whose name ends with it after a dot; None if none or several do.

        `kinds` are the table types that are looked at; all if there are none.
        """
        kinds = frozenset(kinds)
        tables = [table for table in self.tables if not kinds or table.kind in kinds]
        exact = [table for table in tables if table.name == name]
        found = exact or [table for table in tables if table.name.endswith(f".{name}")]
        return found[0] if len(found) == 1 else None

    def why_not(self, name: str) -> str:
        """Why the table cannot be found that :meth:`find` looks for."""
        reasons = (why for other, why in self.unread.items() if f".{other}".endswith(f".{name}"))
        return next(reasons, "none, or several of this name")

    def filter_by_id(self, number: int) -> LearnFilter | None:
        """The digest with this id."""
        return next((one for one in self.filters if one.id == number), None)

    def __add__(self, other: BfRtInfo) -> BfRtInfo:
        """The tables and digests of both."""
        return BfRtInfo(
            (*self.tables, *other.tables),
            (*self.filters, *other.filters),
            {**self.unread, **other.unread},
        )


def read_bf_rt(text: bytes, where: str) -> BfRtInfo:
    """Read the contents of a bf-rt.json; `where` names it in errors.

    Raises:
        PipelineError: it is not JSON, or has no tables.
    """
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PipelineError(f"{where}: not JSON: {error}; {_VALID}") from error
    try:
        items, digests = _list(tree, "tables"), _list(tree, "learn_filters", optional=True)
    except _SchemaError as error:
        raise PipelineError(f"{where}: {error}; {_VALID}") from error
    unread: dict[str, str] = {}
    tables = tuple(_each(items, _table, unread))
    return BfRtInfo(tables, tuple(_each(digests, _filter, unread)), unread)


def _each(items: list[Any], read: Callable[[Any], _Read], unread: dict[str, str]) -> Iterator[_Read]:
    for item in items:
        try:
            yield read(item)
        except _SchemaError as error:
            named = isinstance(item, dict) and isinstance(item.get("name"), str)
            unread[item["name"] if named else "?"] = str(error)


class _SchemaError(Exception):
    """The text says what in the schema is wrong."""


def _table(tree: Any) -> SchemaTable:
    name = _value(tree, "name", str, "a table")
    try:
        key = [_field(item, key=True) for item in _list(tree, "key", optional=True)]
        data = [one for item in _list(tree, "data", optional=True) for one in _data(item)]
        actions = [_action(item) for item in _list(tree, "action_specs", optional=True)]
        _distinct("key field", [one.id for one in key])
        _distinct("data field", [one.id for one in data])
        _distinct("action", [action.id for action in actions])
        return SchemaTable(
            _id(tree),
            name,
            _value(tree, "table_type", str, "it"),
            _number(tree, "size", 2**63),
            _by_name(key),
            _by_name(data),
            {action.name.rpartition(".")[2]: action for action in actions},
        )
    except _SchemaError as error:
        raise _SchemaError(f"table {name}: {error}") from error


def _action(tree: Any) -> SchemaAction:
    name = _value(tree, "name", str, "an action")
    try:
        data = [_field(one) for item in _list(tree, "data", optional=True) for one in _singletons(item)]
        return SchemaAction(_id(tree), name, _by_name(data))
    except _SchemaError as error:
        raise _SchemaError(f"action {name}: {error}") from error


def _filter(tree: Any) -> LearnFilter:
    name = _value(tree, "name", str, "a digest")
    try:
        fields = [_field(item) for item in _list(tree, "fields", optional=True)]
        _distinct("field", [one.id for one in fields])
        return LearnFilter(_id(tree), name, {one.id: one for one in fields})
    except _SchemaError as error:
        raise _SchemaError(f"digest {name}: {error}") from error


def _data(tree: Any) -> Iterator[SchemaField]:
    mandatory, read_only = (bool(_object(tree).get(name, False)) for name in ("mandatory", "read_only"))
    for item in _singletons(tree):
        yield _field(item, mandatory=mandatory, read_only=read_only)


def _singletons(tree: Any) -> list[Any]:
    """The fields of a data item: one, several of which one is set, or the item itself."""
    item = _object(tree)
    if "singleton" in item:
        return [item["singleton"]]
    return _list(item, "oneof") if "oneof" in item else [item]


def _field(tree: Any, *, key: bool = False, mandatory: bool = False, read_only: bool = False) -> SchemaField:
    name = _value(tree, "name", str, "a field")
    try:
        match = _value(tree, "match_type", str, "it") if key else ""
        kind, bits, choices = _type(tree)
        return SchemaField(
            _id(tree),
            name,
            kind,
            bits,
            match,
            bool(tree.get("repeated", False)),
            mandatory or bool(tree.get("mandatory", False)),
            read_only or bool(tree.get("read_only", False)),
            choices,
        )
    except _SchemaError as error:
        raise _SchemaError(f"field {name}: {error}") from error


def _type(tree: Any) -> tuple[str, int, tuple[str, ...]]:
    if "container" in tree:
        return "container", 0, ()
    described = _object(tree.get("type"))
    kind = _value(described, "type", str, "its type")
    if kind == "bytes":
        return kind, _number(described, "width", _MOST_BITS), ()
    choices = _list(described, "choices", optional=True)
    if not all(isinstance(choice, str) for choice in choices):
        raise _SchemaError("its choices are not text")
    return kind, _INTEGER_BITS.get(kind, 0), tuple(choices)


def _id(tree: Any) -> int:
    return _number(tree, "id", _LARGEST_ID)


def _number(tree: Any, name: str, largest: int) -> int:
    value = _object(tree).get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise _SchemaError(f"{name} is not a number from 0 to {largest}")
    return value


def _value(tree: Any, name: str, kind: type[str], owner: str) -> str:
    value = _object(tree).get(name)
    if not isinstance(value, kind):
        raise _SchemaError(f"{owner} has no {name}")
    return value


def _object(tree: Any) -> Mapping[str, Any]:
    if not isinstance(tree, dict):
        raise _SchemaError("no object where one is expected")
    return tree


def _list(tree: Any, name: str, *, optional: bool = False) -> list[Any]:
    found = _object(tree).get(name, [] if optional else None)
    if not isinstance(found, list):
        raise _SchemaError(f"{name} is not a list")
    return found


def _by_name(fields: list[SchemaField]) -> dict[str, SchemaField]:
    _distinct("field", [one.name for one in fields])
    return {one.name: one for one in fields}


def _distinct(what: str, values: list[Any]) -> None:
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            raise _SchemaError(f"two of {what} {value}")
        seen.add(value)
