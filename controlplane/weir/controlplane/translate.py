# SPDX-License-Identifier: Apache-2.0
"""Translates between weir's entities and finsy's, which know the P4Info and the wire format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from finsy import (
    P4CloneSessionEntry,
    P4DigestEntry,
    P4MeterConfig,
    P4MeterEntry,
    P4MulticastGroupEntry,
    P4RegisterEntry,
    P4Schema,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
)

from weir.controlplane.entities import (
    CloneSession,
    Entity,
    Link,
    Match,
    MeterCell,
    MulticastGroup,
    PortSettings,
    TableEntry,
    UnsetMeterCell,
)
from weir.controlplane.errors import ReadError

FinsyEntity = (
    P4TableEntry
    | P4MeterEntry
    | P4MulticastGroupEntry
    | P4CloneSessionEntry
    | P4RegisterEntry
    | P4DigestEntry
)


def to_finsy(entity: Entity | FinsyEntity) -> FinsyEntity:
    """The finsy entity for one of weir's; finsy's own are returned unchanged."""
    if not isinstance(entity, Entity):
        return entity
    match entity:
        case TableEntry():
            fields = {
                field.field: field.value if field.mask is None else (field.value, field.mask)
                for field in entity.matches
            }
            return P4TableEntry(
                entity.table,
                match=P4TableMatch(fields),
                action=P4TableAction(entity.action, **dict(entity.args)),
                priority=entity.priority,
            )
        case MeterCell():
            pir, pburst = entity.peak
            config = P4MeterConfig(
                cir=entity.rate_bytes_per_s,
                cburst=entity.burst_bytes,
                pir=pir,
                pburst=pburst,
                eburst=entity.excess_burst_bytes,
            )
            return P4MeterEntry(entity.meter, index=entity.index, config=config)
        case MulticastGroup():
            return P4MulticastGroupEntry(entity.group, replicas=entity.ports)
        case CloneSession():
            return P4CloneSessionEntry(
                entity.session, replicas=entity.ports, packet_length_bytes=entity.truncate_bytes
            )
        case UnsetMeterCell():
            return P4MeterEntry(entity.meter, index=entity.index)
        case Link():
            raise ValueError(f"{entity.key} is not a P4Runtime entity; valid: the links service")
        case PortSettings():
            raise ValueError(f"{entity.key} is not a P4Runtime entity; valid: BfRuntime")


def from_finsy(entity: object, schema: P4Schema) -> Entity | None:
    """The canonical entity for one that a switch returned; None for default and const entries of tables.

    Raises:
        ReadError: an entity of a kind that is never requested.
    """
    match entity:
        case P4TableEntry():
            return None if entity.is_default_action or entity.is_const else _table_entry(entity, schema)
        case P4MeterEntry():
            return _meter_cell(entity)
        case P4MulticastGroupEntry():
            return MulticastGroup(entity.multicast_group_id, tuple(sorted(_ports(entity.replicas))))
        case P4CloneSessionEntry():
            return CloneSession(
                entity.session_id, tuple(sorted(_ports(entity.replicas))), entity.packet_length_bytes
            )
    raise ReadError(f"the switch answered with {type(entity).__name__}, which was not requested")


def _table_entry(entry: P4TableEntry, schema: P4Schema) -> TableEntry:
    table = schema.tables[entry.table_id]
    matches = []
    for field, value in (entry.match or {}).items():
        full = (1 << table.match_fields[field].bitwidth) - 1
        if isinstance(value, tuple):
            bits, mask = int(value[0]), int(value[1])
            matches.append(Match(field, bits, None if mask == full else mask))
        else:
            matches.append(Match(field, int(value)))
    if not isinstance(entry.action, P4TableAction):
        raise ReadError(f"table {entry.table_id}: an entry without a direct action; valid: one action")
    args = tuple(sorted((name, int(value)) for name, value in entry.action.args.items()))
    return TableEntry(
        entry.table_id,
        tuple(sorted(matches, key=lambda item: item.field)),
        entry.action.name,
        args,
        entry.priority,
    )


def _meter_cell(entry: P4MeterEntry) -> MeterCell | UnsetMeterCell:
    index, config = entry.index or 0, entry.config
    if config is None:
        return UnsetMeterCell(entry.meter_id, index)
    cell = MeterCell(entry.meter_id, index, config.cir, config.cburst, excess_burst_bytes=config.eburst or 0)
    if (config.cir, config.cburst) == (config.pir, config.pburst):
        return cell
    return replace(cell, peak_rate_bytes_per_s=config.pir, peak_burst_bytes=config.pburst)


def _ports(replicas: Iterable[Any]) -> Iterator[int]:
    for replica in replicas:
        yield replica if isinstance(replica, int) else int(replica.port)
