# SPDX-License-Identifier: Apache-2.0
"""The entities on a switch as plain values, and the differences between two sets. No protobuf, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from weir.controlplane.errors import Difference
from weir.controlplane.readable import show_match, show_value
from weir.controlplane.units import format_rate, format_share, format_size, format_time


@dataclass(frozen=True, slots=True)
class Count:
    """The value of one counter cell."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """One key field of an entry. ``mask`` None compares all bits. Fields that match anything are left out."""

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
        """Identifies the entry on the switch."""
        shown = (show_match(self.table, match.field, match.value, match.mask) for match in self.matches)
        fields = " ".join(shown) or "any"
        return f"table {self.table} [{fields}]" + (f" priority {self.priority}" if self.priority else "")

    def fields(self) -> Mapping[str, object]:
        """The fields that an update may change."""
        args = ", ".join(f"{name}={show_value(self.table, name, value)}" for name, value in self.args)
        return {"action": f"{self.action}({args})"}


@dataclass(frozen=True, slots=True)
class MeterCell:
    """One cell of a meter. Peak rate and burst default to the committed ones.

    With neither peak nor excess it is a single-rate two-colour policer, whatever the meter's type.
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
        """Identifies the cell on the switch."""
        return f"meter {self.meter} cell {self.index}"

    @property
    def peak(self) -> tuple[int, int]:
        """Peak rate in bytes/s and burst in bytes."""
        rate = self.rate_bytes_per_s if self.peak_rate_bytes_per_s is None else self.peak_rate_bytes_per_s
        return rate, self.burst_bytes if self.peak_burst_bytes is None else self.peak_burst_bytes

    def fields(self) -> Mapping[str, object]:
        """Rates (bytes/s) and bursts (bytes) by their P4Runtime names; eburst only if it is not 0."""
        pir, pburst = self.peak
        fields = {"cir": self.rate_bytes_per_s, "cburst": self.burst_bytes, "pir": pir, "pburst": pburst}
        return fields | ({"eburst": self.excess_burst_bytes} if self.excess_burst_bytes else {})


@dataclass(frozen=True, slots=True)
class UnsetMeterCell:
    """A cell without a configuration: it marks every packet green."""

    meter: str
    index: int

    @property
    def key(self) -> str:
        """Identifies the cell on the switch."""
        return f"meter {self.meter} cell {self.index}"

    def fields(self) -> Mapping[str, object]:
        """Empty: there is nothing to configure."""
        return {}


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A group of ports, each of which sends one copy."""

    group: int
    ports: tuple[int, ...]

    @property
    def key(self) -> str:
        """Identifies the group on the switch."""
        return f"multicast group {self.group}"

    def fields(self) -> Mapping[str, object]:
        """The ports."""
        return {"ports": self.ports}


@dataclass(frozen=True, slots=True)
class CloneSession:
    """The ports of mirrored packets. Plans truncate here for a Tofino only; elsewhere the pipeline does."""

    session: int
    ports: tuple[int, ...]
    truncate_bytes: int = 0

    @property
    def key(self) -> str:
        """Identifies the session on the switch."""
        return f"clone session {self.session}"

    def fields(self) -> Mapping[str, object]:
        """The ports and the truncation (0: none)."""
        return {"ports": self.ports, "packet_length_bytes": self.truncate_bytes}


@dataclass(frozen=True, slots=True)
class Link:
    """Shaper, queue, line, delay and random loss of frames that leave through a port of the embedded switch.

    None: no rate, no limit, or no deflection of frames that a full queue drops. A burst needs a rate.
    """

    port: int
    rate_bps: int | None = None
    burst_bytes: int | None = None
    limit_bytes: int | None = None
    limit_packets: int | None = None
    deflect_to: int | None = None
    delay_ns: int = 0
    jitter_ns: int = 0
    reorder: bool = False
    loss_ppb: int = 0
    line_rate_bps: int | None = None

    @property
    def key(self) -> str:
        """Identifies the link on the switch."""
        return f"link of port {self.port}"

    @property
    def is_default(self) -> bool:
        """Whether the link has no rate, delay or loss, so that all frames pass at once."""
        return self == Link(self.port)

    def fields(self) -> Mapping[str, object]:
        """Each setting, formatted for people."""
        return {
            "rate": _or_none(format_rate, self.rate_bps),
            "burst": _or_none(format_size, self.burst_bytes),
            "queue": _or_none(format_size, self.limit_bytes),
            "queue_packets": _or_none(str, self.limit_packets),
            "deflect_to": _or_none(str, self.deflect_to),
            "delay": format_time(self.delay_ns),
            "jitter": format_time(self.jitter_ns),
            "reorder": "yes" if self.reorder else "no",
            "loss": format_share(self.loss_ppb),
            "line_rate": _or_none(format_rate, self.line_rate_bps),
        }


@dataclass(frozen=True, slots=True)
class PortSettings:
    """Speed, error correction and autonegotiation of a Tofino's port, which is up once they are set."""

    port: int
    speed_bps: int
    fec: str = "none"
    """none, firecode or reed_solomon."""
    autonegotiation: str = "default"
    """default, on or off."""
    enabled: bool = True

    @property
    def key(self) -> str:
        """Identifies the settings on the switch."""
        return f"settings of port {self.port}"

    def fields(self) -> Mapping[str, object]:
        """Each setting, formatted for people."""
        return {
            "speed": format_rate(self.speed_bps),
            "fec": self.fec,
            "autonegotiation": self.autonegotiation,
            "enabled": "yes" if self.enabled else "no",
        }


def _or_none(show: Callable[[int], str], value: int | None) -> str:
    return "none" if value is None else show(value)


Entity = TableEntry | MeterCell | UnsetMeterCell | MulticastGroup | CloneSession | Link | PortSettings


@dataclass(frozen=True, slots=True)
class Changes:
    """The updates that turn the entities of a switch into those of a plan."""

    insert: tuple[Entity, ...]
    modify: tuple[Entity, ...]
    delete: tuple[Entity, ...]
    replaced: Mapping[str, Entity] = field(default_factory=dict, compare=False)
    """By key, the present entities of ``modify``."""

    def __len__(self) -> int:
        """Number of updates; 0 if the switch is as planned."""
        return len(self.insert) + len(self.modify) + len(self.delete)


_ALWAYS_THERE = (MeterCell, UnsetMeterCell, Link)
"""Entities that cannot be inserted or deleted, only modified."""


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
    """Whether two entities with the same key have different fields."""
    return dict(one.fields()) != dict(other.fields())


def differences(current: Iterable[Entity], wanted: Iterable[Entity]) -> tuple[Difference, ...]:
    """Every field that differs between switch and plan, including missing and surplus entries."""
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
