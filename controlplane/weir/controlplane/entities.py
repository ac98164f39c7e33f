# SPDX-License-Identifier: Apache-2.0
"""What is on a switch, as values: table entries, meter cells, replication. No protobuf, no connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from weir.controlplane.errors import Difference
from weir.controlplane.readable import show_match, show_value
from weir.controlplane.units import format_rate, format_share, format_size, format_time


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """One key field of an entry. ``mask`` None: all bits count. A field that matches anything is left out."""

    field: str
    value: int
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry of a match-action table; ``matches`` and ``args`` are sorted by name."""

    table: str
    matches: tuple[Match, ...]
    action: str
    args: tuple[tuple[str, int], ...] = ()
    priority: int = 0

    @property
    def key(self) -> str:
        """What the switch tells entries apart by."""
        shown = (show_match(self.table, match.field, match.value, match.mask) for match in self.matches)
        fields = " ".join(shown) or "any"
        return f"table {self.table} [{fields}]" + (f" priority {self.priority}" if self.priority else "")

    def fields(self) -> Mapping[str, object]:
        """What an update of the entry may change."""
        args = ", ".join(f"{name}={show_value(self.table, name, value)}" for name, value in self.args)
        return {"action": f"{self.action}({args})"}


@dataclass(frozen=True, slots=True)
class MeterCell:
    """One cell of a meter. Without a peak rate and bucket they are the committed ones.

    With neither peak nor excess it is a single-rate two-colour policer, whatever type the meter has.
    """

    meter: str
    index: int
    rate_bytes_per_s: int
    burst_bytes: int
    peak_rate_bytes_per_s: int | None = None
    peak_burst_bytes: int | None = None
    excess_burst_bytes: int = 0

    @property
    def key(self) -> str:
        """What the switch tells cells apart by."""
        return f"meter {self.meter} cell {self.index}"

    @property
    def peak(self) -> tuple[int, int]:
        """Peak rate in bytes/s and burst in bytes."""
        rate = self.rate_bytes_per_s if self.peak_rate_bytes_per_s is None else self.peak_rate_bytes_per_s
        return rate, self.burst_bytes if self.peak_burst_bytes is None else self.peak_burst_bytes

    def fields(self) -> Mapping[str, object]:
        """P4Runtime's names of the rates (bytes/s) and bursts (bytes); eburst only where there is one."""
        pir, pburst = self.peak
        fields = {"cir": self.rate_bytes_per_s, "cburst": self.burst_bytes, "pir": pir, "pburst": pburst}
        return fields | ({"eburst": self.excess_burst_bytes} if self.excess_burst_bytes else {})


@dataclass(frozen=True, slots=True)
class UnsetMeterCell:
    """A cell that has no configuration: every packet is green."""

    meter: str
    index: int

    @property
    def key(self) -> str:
        """What the switch tells cells apart by."""
        return f"meter {self.meter} cell {self.index}"

    def fields(self) -> Mapping[str, object]:
        """Nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A group of ports, each of which gets one copy."""

    group: int
    ports: tuple[int, ...]

    @property
    def key(self) -> str:
        """What the switch tells groups apart by."""
        return f"multicast group {self.group}"

    def fields(self) -> Mapping[str, object]:
        """The ports."""
        return {"ports": self.ports}


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where mirrored packets go. The pipeline cuts the report that it makes of one, not the session."""

    session: int
    ports: tuple[int, ...]
    truncate_bytes: int = 0

    @property
    def key(self) -> str:
        """What the switch tells sessions apart by."""
        return f"clone session {self.session}"

    def fields(self) -> Mapping[str, object]:
        """The ports and the truncation (0: none)."""
        return {"ports": self.ports, "packet_length_bytes": self.truncate_bytes}


@dataclass(frozen=True, slots=True)
class Link:
    """What shapes, delays and loses the frames that leave through a port of the embedded switch.

    None: no rate, no limit, and what a full queue drops is not deflected. Without a rate there is no burst.
    """

    port: int
    rate_bps: int | None = None
    burst_bytes: int | None = None
    limit_bytes: int | None = None
    limit_packets: int | None = None
    deflect_to: int | None = None
    delay_ns: int = 0
    jitter_ns: int = 0
    loss_ppb: int = 0

    @property
    def key(self) -> str:
        """What the switch tells links apart by."""
        return f"link of port {self.port}"

    @property
    def bare(self) -> bool:
        """Whether frames pass at once, all of them."""
        return self == Link(self.port)

    def fields(self) -> Mapping[str, object]:
        """Each setting as a person reads it."""
        return {
            "rate": _or_none(format_rate, self.rate_bps),
            "burst": _or_none(format_size, self.burst_bytes),
            "queue": _or_none(format_size, self.limit_bytes),
            "queue_packets": _or_none(str, self.limit_packets),
            "deflect_to": _or_none(str, self.deflect_to),
            "delay": format_time(self.delay_ns),
            "jitter": format_time(self.jitter_ns),
            "loss": format_share(self.loss_ppb),
        }


def _or_none(show: Callable[[int], str], value: int | None) -> str:
    return "none" if value is None else show(value)


Entity = TableEntry | MeterCell | UnsetMeterCell | MulticastGroup | CloneSession | Link


@dataclass(frozen=True, slots=True)
class Changes:
    """What turns the entities of a switch into those of a plan."""

    insert: tuple[Entity, ...]
    modify: tuple[Entity, ...]
    delete: tuple[Entity, ...]
    replaced: Mapping[str, Entity] = field(default_factory=dict, compare=False)
    """By key, what is on the switch and is to be modified."""

    def __len__(self) -> int:
        """How many updates; 0 when the switch is as planned."""
        return len(self.insert) + len(self.modify) + len(self.delete)


_ALWAYS_THERE = (MeterCell, UnsetMeterCell, Link)
"""What is modified only: a meter's cells and the links of ports."""


def changes(current: Iterable[Entity], wanted: Iterable[Entity]) -> Changes:
    """The fewest updates from ``current`` to ``wanted``."""
    before = {entity.key: entity for entity in current}
    after = {entity.key: entity for entity in wanted}
    fresh = [entity for key, entity in after.items() if key not in before]
    other = [entity for key, entity in after.items() if key in before and differ(before[key], entity)]
    return Changes(
        insert=tuple(entity for entity in fresh if not isinstance(entity, _ALWAYS_THERE)),
        modify=(*(entity for entity in fresh if isinstance(entity, _ALWAYS_THERE)), *other),
        delete=tuple(
            entity
            for key, entity in before.items()
            if key not in after and not isinstance(entity, _ALWAYS_THERE)
        ),
        replaced={entity.key: before[entity.key] for entity in other},
    )


def differ(one: Entity, other: Entity) -> bool:
    """Whether two entities of one key say different things."""
    return dict(one.fields()) != dict(other.fields())


def differences(current: Iterable[Entity], wanted: Iterable[Entity]) -> tuple[Difference, ...]:
    """Every field in which the switch differs from the plan, missing and surplus entries included."""
    before = {entity.key: entity for entity in current}
    after = {entity.key: entity for entity in wanted}
    found: list[Difference] = []
    for key, entity in after.items():
        if key not in before:
            found.append(Difference(key, "entry", "present", "missing"))
            continue
        got = before[key].fields()
        found += [
            Difference(key, name, str(value), str(got.get(name, "nothing")))
            for name, value in entity.fields().items()
            if got.get(name) != value
        ]
    surplus = (key for key, entity in before.items() if key not in after)
    found += [
        Difference(key, "entry", "missing", "present")
        for key in surplus
        if not isinstance(before[key], _ALWAYS_THERE)
    ]
    return tuple(found)
