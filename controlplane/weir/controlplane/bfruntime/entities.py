# SPDX-License-Identifier: Apache-2.0
"""weir's entities as updates of BfRuntime's tables, and the tables' entries as entities. Pure, no I/O.

One entity may take several updates: a multicast group is a node with its ports, and a group with that node.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir.controlplane.bfruntime.codec import KeyValue, Value, read_data, read_key, table_entry
from weir.controlplane.bfruntime.messages import DELETE, INSERT, MESSAGES, MODIFY
from weir.controlplane.bfruntime.program import PRIORITY, BfRtProgram
from weir.controlplane.bfruntime.schema import BfRtInfo, SchemaTable
from weir.controlplane.entities import (
    CloneSession,
    Entity,
    Match,
    MeterCell,
    MulticastGroup,
    PortSettings,
    TableEntry,
    UnsetMeterCell,
)
from weir.controlplane.errors import PipelineError, ReadError, UnsupportedByTargetError
from weir.controlplane.targets.tofino import KBIT_BYTES

HIGHEST_PRIORITY = 2**24 - 1
"""P4Runtime's larger priority wins, the chip's smaller one does: the chip gets this less P4Runtime's."""
WHOLE_PACKET = 0xFFFF
"""The length that a mirror session reads back which does not cut its packets."""
UNSET_BYTES_PER_S = 2**38
"""Cells that nothing was written to have some rate above this, far beyond any port, as Stratum found."""
SPEEDS = {10**9 * speed: f"BF_SPEED_{speed}G" for speed in (1, 10, 25, 40, 50, 100, 200, 400)}
FECS = {
    "none": "BF_FEC_TYP_NONE",
    "firecode": "BF_FEC_TYP_FIRECODE",
    "reed_solomon": "BF_FEC_TYP_REED_SOLOMON",
}
_OTHER_FECS = {"BF_FEC_TYP_FC": "firecode", "BF_FEC_TYP_RS": "reed_solomon"}
"""Further names of the same codes, one of which the switch reads back."""
POLICIES = {"default": "PM_AN_DEFAULT", "on": "PM_AN_FORCE_ENABLE", "off": "PM_AN_FORCE_DISABLE"}
FIXED = {
    "$pre.mgid": ("$MGID", "$MULTICAST_NODE_ID", "$MULTICAST_NODE_L1_XID_VALID", "$MULTICAST_NODE_L1_XID"),
    "$pre.node": ("$MULTICAST_NODE_ID", "$MULTICAST_RID", "$MULTICAST_LAG_ID", "$DEV_PORT"),
    "$mirror.cfg": (
        *("$sid", "$session_enable", "$direction", "$max_pkt_len"),
        *("$ucast_egress_port", "$ucast_egress_port_valid"),
    ),
    "$PORT": ("$DEV_PORT", "$SPEED", "$FEC", "$AUTO_NEGOTIATION", "$PORT_ENABLE"),
}
"""The fields that weir uses of a switch's fixed tables."""
_SETTINGS = {
    "speed": "$SPEED",
    "fec": "$FEC",
    "autonegotiation": "$AUTO_NEGOTIATION",
    "enabled": "$PORT_ENABLE",
}
_TYPES = {"insert": INSERT, "modify": MODIFY, "delete": DELETE}


@dataclass(frozen=True, slots=True)
class Present:
    """What decides how an update is made: what the switch has of groups, nodes and ports."""

    nodes: frozenset[int] = frozenset()
    """The multicast nodes."""
    members: Mapping[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """By multicast group, its nodes."""
    settings: Mapping[int, PortSettings] = dataclasses.field(default_factory=dict)
    """By port, the settings of those that were added."""


class Translator:
    """Translates for one program on a switch with its fixed tables."""

    def __init__(self, program: BfRtProgram, fixed: BfRtInfo) -> None:
        """Keep both schemas."""
        self.program, self._fixed = program, fixed

    def fixed(self, name: str) -> SchemaTable:
        """One of the switch's fixed tables. Raises PipelineError if it has none, or another."""
        found = self._fixed.find(name)
        fields = set() if found is None else found.key.keys() | found.data.keys()
        missing = [field for field in FIXED[name] if field not in fields]
        if found is None or missing:
            what = self._fixed.why_not(name) if found is None else f"no field {missing[0]}"
            raise PipelineError(f"the switch's table {name}: {what}; valid: as in open P4 Studio 9.13")
        return found

    def updates(self, operation: str, entity: Entity, present: Present) -> list[Any]:
        """The Update messages of one update.

        Raises:
            PlanError: the program or the switch has no such table, field or value.
        """
        kind = _TYPES[operation]
        match entity:
            case TableEntry():
                return [_update(kind, self._entry(entity, with_data=operation != "delete"))]
            case MeterCell():
                return [_update(kind, self._cell(entity))]
            case MulticastGroup():
                return self._group(operation, entity, present)
            case CloneSession():
                return [_update(kind, self._session(entity, with_data=operation != "delete"))]
            case PortSettings():
                return [_update(kind, self._settings(entity, present.settings.get(entity.port)))]
        raise UnsupportedByTargetError(
            f"BfRuntime has no {entity.key}; valid: entries, cells, groups, sessions"
        )

    def _entry(self, entity: TableEntry, *, with_data: bool) -> Any:
        table = self.program.table(entity.table)
        given = {match.field: match for match in entity.matches}
        key: dict[str, KeyValue] = {}
        for field in table.key.values():
            match = given.pop(field.name, None)
            if field.name == PRIORITY:
                key[PRIORITY] = HIGHEST_PRIORITY - entity.priority
            elif match is None:
                key[field.name] = (0, 0) if field.match == "Ternary" else 0
            elif field.match == "Ternary":
                mask = (1 << field.bits) - 1 if match.mask is None else match.mask
                key[field.name] = match.value, mask
            else:
                key[field.name] = match.value
        # What is left are fields that the table does not have, which is an error with their names.
        key |= {name: match.value for name, match in given.items()}
        return table_entry(
            table, key, dict(entity.args) if with_data else None, entity.action if with_data else None
        )

    def entries_key(self, name: str) -> Any:
        """The TableEntry that asks for all entries of a table."""
        return table_entry(self.program.table(name))

    def table_entry(self, name: str, entry: Any) -> TableEntry:
        """The entry of a table of the program. Raises ReadError for what is not in its schema."""
        table = self.program.table(name)
        matches, priority = [], 0
        for field, value in read_key(table, entry).items():
            full = (1 << table.key[field].bits) - 1
            if field == PRIORITY and isinstance(value, int):
                priority = HIGHEST_PRIORITY - value
            elif isinstance(value, int):
                matches.append(Match(field, value))
            elif value[1]:
                matches.append(Match(field, value[0], None if value[1] == full else value[1]))
        action, data = read_data(table, entry)
        if action is None:
            raise ReadError(f"table {name}: an entry without an action; valid: one action")
        args = tuple(sorted((field, value) for field, value in data.items() if isinstance(value, int)))
        return TableEntry(name, tuple(sorted(matches, key=lambda match: match.field)), action, args, priority)

    def cell_key(self, meter: str, index: int) -> Any:
        """The TableEntry that asks for a meter cell."""
        return table_entry(self.program.meter(meter), {"$METER_INDEX": index})

    def _cell(self, cell: MeterCell) -> Any:
        pir, pburst = cell.peak
        data: dict[str, Value] = {
            "$METER_SPEC_CIR_KBPS": cell.rate_bytes_per_s // KBIT_BYTES,
            "$METER_SPEC_PIR_KBPS": pir // KBIT_BYTES,
            "$METER_SPEC_CBS_KBITS": cell.burst_bytes // KBIT_BYTES,
            "$METER_SPEC_PBS_KBITS": pburst // KBIT_BYTES,
        }
        if cell.excess_burst_bytes:
            raise UnsupportedByTargetError(f"{cell.key}: a Tofino has no excess burst; valid: sr2c, tr3c")
        return table_entry(self.program.meter(cell.meter), {"$METER_INDEX": cell.index}, data)

    def meter_cell(self, meter: str, entry: Any) -> MeterCell | UnsetMeterCell:
        """The meter cell of a TableEntry, in bytes. Raises ReadError."""
        table = self.program.meter(meter)
        _, data = read_data(table, entry)
        names = ("CIR_KBPS", "CBS_KBITS", "PIR_KBPS", "PBS_KBITS")
        values = [_whole(table, data, f"$METER_SPEC_{name}") * KBIT_BYTES for name in names]
        index = _whole(table, read_key(table, entry), "$METER_INDEX")
        if values[0] >= UNSET_BYTES_PER_S:
            return UnsetMeterCell(meter, index)
        cell = MeterCell(meter, index, values[0], values[1])
        if values[:2] == values[2:]:
            return cell
        return replace(cell, peak_rate_bytes_per_s=values[2], peak_burst_bytes=values[3])

    def _group(self, operation: str, group: MulticastGroup, present: Present) -> list[Any]:
        """The node has the number of the group. It outlasts a group whose deletion failed half-way.

        Nodes of another number are another controller's, and stay.
        """
        mgid, node = self.fixed("$pre.mgid"), self.fixed("$pre.node")
        number, there = group.group, group.group in present.nodes
        ours = present.members.get(number) == (number,)
        if operation == "delete":
            gone = [table_entry(mgid, {"$MGID": number})]
            gone += [table_entry(node, {"$MULTICAST_NODE_ID": number})] if there and ours else []
            return [_update(DELETE, entry) for entry in gone]
        ports: dict[str, Value] = {"$MULTICAST_RID": 0, "$MULTICAST_LAG_ID": (), "$DEV_PORT": group.ports}
        set_node = _update(
            MODIFY if there else INSERT, table_entry(node, {"$MULTICAST_NODE_ID": number}, ports)
        )
        if operation == "modify" and ours:
            return [set_node]  # the switch would delete the group and make it again
        members: dict[str, Value] = {
            "$MULTICAST_NODE_ID": (number,),
            "$MULTICAST_NODE_L1_XID_VALID": (False,),
            "$MULTICAST_NODE_L1_XID": (0,),
        }
        return [set_node, _update(_TYPES[operation], table_entry(mgid, {"$MGID": number}, members))]

    def nodes(self, entries: Iterable[Any]) -> dict[int, tuple[int, ...]]:
        """The ports of each multicast node. Raises ReadError."""
        table = self.fixed("$pre.node")
        return {
            _whole(table, read_key(table, entry), "$MULTICAST_NODE_ID"): _numbers(table, entry, "$DEV_PORT")
            for entry in entries
        }

    def members(self, entries: Iterable[Any]) -> dict[int, tuple[int, ...]]:
        """The nodes of each multicast group. Raises ReadError."""
        table = self.fixed("$pre.mgid")
        return {
            _whole(table, read_key(table, entry), "$MGID"): _numbers(table, entry, "$MULTICAST_NODE_ID")
            for entry in entries
        }

    def _session(self, session: CloneSession, *, with_data: bool) -> Any:
        table, key = self.fixed("$mirror.cfg"), {"$sid": session.session}
        if not with_data:
            return table_entry(table, key)
        if len(session.ports) != 1:
            raise UnsupportedByTargetError(
                f"{session.key}: {len(session.ports)} ports; valid: one port of a session on a Tofino"
            )
        data: dict[str, Value] = {
            "$session_enable": True,
            "$direction": "BOTH",
            "$ucast_egress_port": session.ports[0],
            "$ucast_egress_port_valid": True,
            "$max_pkt_len": session.truncate_bytes or WHOLE_PACKET,
        }
        return table_entry(table, key, data, "$normal")

    def session(self, entry: Any) -> CloneSession:
        """The mirror session of a TableEntry; one that is disabled or of another kind has no ports."""
        table = self.fixed("$mirror.cfg")
        action, data = read_data(table, entry)
        number = _whole(table, read_key(table, entry), "$sid")
        on = action == "$normal" and data.get("$session_enable") and data.get("$ucast_egress_port_valid")
        whole = data.get("$direction") == "BOTH" and on
        ports = (_whole(table, data, "$ucast_egress_port"),) if whole else ()
        length = _whole(table, data, "$max_pkt_len")
        return CloneSession(number, ports, 0 if length == WHOLE_PACKET else length)

    def _settings(self, settings: PortSettings, before: PortSettings | None) -> Any:
        """Of a port that was added only what differs: with a speed, the switch takes it down and up again."""
        if settings.speed_bps not in SPEEDS:
            speeds = ", ".join(f"{speed // 10**9} Gbit/s" for speed in SPEEDS)
            raise UnsupportedByTargetError(f"{settings.key}: no such speed; valid: {speeds}")
        data: dict[str, Value] = {
            "$SPEED": SPEEDS[settings.speed_bps],
            "$FEC": FECS[settings.fec],
            "$AUTO_NEGOTIATION": POLICIES[settings.autonegotiation],
            "$PORT_ENABLE": settings.enabled,
        }
        if before is not None:
            same = (name for name, value in settings.fields().items() if before.fields()[name] == value)
            for name in same:
                del data[_SETTINGS[name]]
        return table_entry(self.fixed("$PORT"), {"$DEV_PORT": settings.port}, data)

    def settings(self, entry: Any) -> PortSettings:
        """The settings of a port of a TableEntry. Raises ReadError."""
        table = self.fixed("$PORT")
        data = read_data(table, entry)[1]
        fecs = {text: name for name, text in FECS.items()} | _OTHER_FECS
        speeds = {text: speed for speed, text in SPEEDS.items()}
        policies = {text: name for name, text in POLICIES.items()}
        return PortSettings(
            _whole(table, read_key(table, entry), "$DEV_PORT"),
            speeds.get(str(data.get("$SPEED")), 0),
            fecs.get(str(data.get("$FEC")), "another"),
            policies.get(str(data.get("$AUTO_NEGOTIATION")), "another"),
            bool(data.get("$PORT_ENABLE")),
        )


def _update(kind: int, entry: Any) -> Any:
    return MESSAGES["Update"](type=kind, entity=MESSAGES["Entity"](table_entry=entry))


def _whole(table: SchemaTable, values: Any, name: str) -> int:
    value = values.get(name)
    if not isinstance(value, int):
        raise ReadError(f"table {table.name}: the switch returned an entry without {name}")
    return value


def _numbers(table: SchemaTable, entry: Any, name: str) -> tuple[int, ...]:
    value = read_data(table, entry)[1].get(name, ())
    return tuple(int(one) for one in value) if isinstance(value, tuple) else ()
