# SPDX-License-Identifier: Apache-2.0
"""The objects of a program by name, from its BMv2 JSON: what commands accept as names, keys and arguments."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.services import EXACT, LPM, RANGE, TERNARY, VALID

T = TypeVar("T")

MATCH_NAMES = {EXACT: "exact", LPM: "lpm", TERNARY: "ternary", VALID: "valid", RANGE: "range"}
_MATCH_NUMBERS = {name: number for number, name in MATCH_NAMES.items()}


def _joined(parts: list[str]) -> str:
    return ",\t".join(parts)


@dataclass
class Action:
    """An action and the data that an entry gives it."""

    name: str
    runtime_data: list[tuple[str, int]]
    """Name and width in bits of each argument."""

    def __str__(self) -> str:
        """As `show_actions` lists it."""
        arguments = [f"{name}({width})" for name, width in self.runtime_data]
        return f"{self.name:30} [{_joined(arguments)}]"


@dataclass
class Profile:
    """An action profile."""

    name: str
    with_selection: bool
    actions: dict[str, Action] = field(default_factory=dict)
    tables: int = 0
    """Number of tables that it implements."""


@dataclass
class KeyField:
    """A field of a table's key."""

    name: str
    match: int
    width: int

    def __str__(self) -> str:
        """As `show_tables` lists it."""
        return f"{self.name}({MATCH_NAMES[self.match]}, {self.width})"


@dataclass
class Table:
    """A table."""

    name: str
    match: int
    key: list[KeyField]
    actions: dict[str, Action]
    profile: Profile | None
    support_timeout: bool

    @property
    def has_priorities(self) -> bool:
        """Entries have priorities."""
        return self.match in (TERNARY, RANGE)

    def __str__(self) -> str:
        """As `show_tables` lists it."""
        profile = self.profile.name if self.profile else None
        key = _joined([str(part) for part in self.key])
        return f"{self.name:30} [implementation={profile}, mk={key}]"


@dataclass
class Array:
    """Meters, counters or registers."""

    name: str
    binding: str | None = None
    """The table of a direct one."""
    rate_count: int = 0
    """Rates of a meter."""


@dataclass
class ValueSet:
    """A parser value set."""

    name: str
    width: int

    def __str__(self) -> str:
        """As `show_pvs` lists it."""
        return f"{self.name:30} [compressed bitwidth:{self.width}]"


class Named(Mapping[str, T]):
    """Objects of one kind, by their full names and by the ends of their names that only one object has."""

    def __init__(self, kind: str, objects: dict[str, T]) -> None:
        """`kind` is for messages."""
        self._kind = kind
        self._objects = objects
        ends: Counter[str] = Counter()
        by_end: dict[str, T] = {}
        for name, found in objects.items():
            parts = name.split(".")
            for start in range(len(parts)):
                end = ".".join(parts[start:])
                ends[end] += 1
                by_end[end] = found
        self._by_end = {end: found for end, found in by_end.items() if ends[end] == 1}

    def find(self, name: str) -> T:
        """The object with this name. Raises CommandError."""
        if name not in self._by_end:
            raise CommandError(f"Invalid {self._kind} name ({name})")
        return self._by_end[name]

    def get_end(self, name: str) -> T | None:
        """The object with this name, if there is one."""
        return self._by_end.get(name)

    def __getitem__(self, name: str) -> T:
        """The object with this full name."""
        return self._objects[name]

    def __iter__(self) -> Iterator[str]:
        """The full names, sorted."""
        return iter(sorted(self._objects))

    def __len__(self) -> int:
        """Their number."""
        return len(self._objects)


class Program:
    """A program's objects."""

    def __init__(self, text: str) -> None:
        """Read the JSON that p4c-bm2-ss writes. Raises ValueError when it is none."""
        try:
            self._read(json.loads(text))
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(f"this is no program in BMv2 JSON: {error!r}") from error

    def _read(self, program: dict[str, Any]) -> None:
        actions = {a["name"]: _action(a) for a in program.get("actions", [])}
        widths = _field_widths(program)
        profiles: dict[str, Profile] = {}
        tables: dict[str, Table] = {}
        for pipeline in program.get("pipelines", []):
            for given in pipeline.get("action_profiles", []):
                profiles[given["name"]] = Profile(given["name"], "selector" in given)
            for given in pipeline["tables"]:
                tables[given["name"]] = _table(given, actions, profiles, widths)
        self.actions = Named("action", actions)
        self.tables = Named("table", tables)
        self.profiles = Named("action profile", profiles)
        self.meters = Named("meter", _arrays(program, "meter_arrays"))
        self.counters = Named("counter", _arrays(program, "counter_arrays"))
        self.registers = Named("register", _arrays(program, "register_arrays"))
        value_sets = program.get("parse_vsets", [])
        sets = {given["name"]: ValueSet(given["name"], given["compressed_bitwidth"]) for given in value_sets}
        self.value_sets = Named("parser value set", sets)
        self.calculations = {c["name"]: c["algo"] for c in program.get("calculations", [])}

    def action_of(self, actions: Mapping[str, Action], name: str) -> Action | None:
        """The action with this name, if it is one of `actions`."""
        action = self.actions.get_end(name)
        return action if action is not None and action.name in actions else None


def _action(given: dict[str, Any]) -> Action:
    return Action(given["name"], [(data["name"], int(data["bitwidth"])) for data in given["runtime_data"]])


def _field_widths(program: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Width of each field, by header and field."""
    types = {given["name"]: given["fields"] for given in program.get("header_types", [])}
    return {
        (header["name"], part[0]): part[1]
        for header in program.get("headers", [])
        for part in types.get(header["header_type"], [])
    }


def _table(
    given: dict[str, Any],
    actions: dict[str, Action],
    profiles: dict[str, Profile],
    widths: dict[tuple[str, str], int],
) -> Table:
    own = {name: actions[name] for name in given["actions"]}
    profile = None
    if given["type"] != "simple":
        name = given.get("action_profile") or given["act_prof_name"]
        profile = profiles.setdefault(name, Profile(name, "selector" in given))
        profile.actions.update(own)
        profile.tables += 1
    return Table(
        name=given["name"],
        match=_MATCH_NUMBERS[given["match_type"]],
        key=[_key_field(part, widths) for part in given["key"]],
        actions=own,
        profile=profile,
        support_timeout=bool(given.get("support_timeout")),
    )


def _key_field(given: dict[str, Any], widths: dict[tuple[str, str], int]) -> KeyField:
    match, target = _MATCH_NUMBERS[given["match_type"]], given["target"]
    if match == VALID:
        return KeyField(f"{target}_valid", match, 1)
    header, name = target
    if name == "$valid$":
        return KeyField(f"{header}_valid", match, 1)
    return KeyField(f"{header}.{name}", match, int(widths[header, name]))


def _arrays(program: dict[str, Any], kind: str) -> dict[str, Array]:
    return {
        given["name"]: Array(
            given["name"],
            binding=given["binding"] if given.get("is_direct") else None,
            rate_count=given.get("rate_count", 0),
        )
        for given in program.get(kind, [])
    }
