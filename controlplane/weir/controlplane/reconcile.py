# SPDX-License-Identifier: Apache-2.0
"""Writes differences in an order that keeps traffic policed, and reports how much of them was written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weir.controlplane.connection import BATCH, Connection, Update
from weir.controlplane.entities import (
    Changes,
    CloneSession,
    Entity,
    Link,
    MeterCell,
    MulticastGroup,
    TableEntry,
)
from weir.controlplane.errors import (
    ControlPlaneError,
    PartlyAppliedError,
    UnsupportedByTargetError,
    WriteError,
)
from weir.controlplane.links_service import LinksService
from weir.controlplane.targets import Target

_LARGEST_ATOMIC = 10_000
"""Largest number of updates in an atomic write to the embedded switch; larger plans are written in order."""


def as_written(entity: Entity, wanted: Entity | None, target: Target) -> Entity:
    """The wanted entity if the target quantizes it to the one that was read, else the one that was read."""
    if not isinstance(entity, MeterCell) or not isinstance(wanted, MeterCell):
        return entity
    # What the target itself cannot have is an error; what only another of its variants cannot have is not.
    target.read_back(wanted.rate_bytes_per_s, wanted.burst_bytes)
    target.read_back(*wanted.peak)
    for variant in target.variants():
        try:
            rate, burst = variant.read_back(wanted.rate_bytes_per_s, wanted.burst_bytes)
            peak_rate, peak_burst = variant.read_back(*wanted.peak)
        except UnsupportedByTargetError:
            continue
        quantized = replace(
            wanted,
            rate_bytes_per_s=rate,
            burst_bytes=burst,
            peak_rate_bytes_per_s=peak_rate,
            peak_burst_bytes=peak_burst,
        )
        if dict(quantized.fields()) == dict(entity.fields()):
            return wanted
    return entity


def ordered(changes: Changes) -> list[list[Update]]:
    """The updates in an order that never leaves traffic unpoliced; each list may be one request.

    New cells, verdicts and reports are written before packets are classified to them; old ones are deleted
    after packets no longer are.
    """

    def classifies(entity: Entity) -> bool:
        return isinstance(entity, TableEntry) and entity.table.startswith("classify")

    def updates(operation: str, entities: tuple[Entity, ...], classify: bool) -> list[Update]:
        return [
            (operation, entity)
            for entity in entities
            if classifies(entity) == classify and not isinstance(entity, Link)
        ]

    return [
        updates("insert", changes.insert, False),
        updates("modify", changes.modify, False),
        updates("modify", changes.modify, True),
        updates("insert", changes.insert, True),
        updates("delete", changes.delete, True),
        updates("delete", changes.delete, False),
    ]


def forgetting(changes: Changes) -> list[Update]:
    """Updates that make each new group and session without ports, and delete it again.

    A switch that keeps replicas adds those of a new group to the kept ones of its number; with the group it
    deletes both.
    """
    empty = [
        replace(entity, ports=())
        for entity in changes.insert
        if isinstance(entity, MulticastGroup | CloneSession)
    ]
    return [(operation, entity) for operation in ("insert", "delete") for entity in empty]


async def write_changes(
    session: Connection,
    changes: Changes,
    *,
    atomic: bool,
    keeps_replicas: bool = False,
    links: LinksService | None = None,
) -> None:
    """Write all of ``changes``; if ``atomic`` and they are not too many, in one batch between two packets.

    If the switch ``keeps_replicas`` of programs that it ran before, it is made to forget them first. Links
    are set last, one port at a time, through their separate service.

    Raises:
        PartlyAppliedError: an update was refused or the connection broke; says how much is on the switch.
    """
    total = len(changes)
    atomic = atomic and total <= _LARGEST_ATOMIC
    applied = 0
    forgotten = forgetting(changes) if keeps_replicas else []
    if forgotten:
        try:
            await session.write_batch(forgotten)
        except ControlPlaneError as error:
            certain = isinstance(error, WriteError) and error.each
            raise PartlyAppliedError(error, 0, total, certain=certain) from error
    for batch in _batches(ordered(changes), atomic):
        try:
            await session.write_batch(batch, atomic=atomic)
        except WriteError as error:
            if error.each and not atomic:
                applied += len(batch) - len(error.updates)
            raise PartlyAppliedError(error, applied, total, certain=atomic or error.each) from error
        except ControlPlaneError as error:
            # Refused as a whole, or disconnected before the reply: the state of this batch is unknown.
            raise PartlyAppliedError(error, applied, total, certain=False) from error
        applied += len(batch)
    for link in changes.modify:
        if links is not None and isinstance(link, Link):
            try:
                await links.set(link)
            except ControlPlaneError as error:
                certain = isinstance(error, WriteError)
                raise PartlyAppliedError(error, applied, total, certain=certain) from error
            applied += 1


def _batches(steps: list[list[Update]], atomic: bool) -> Iterator[list[Update]]:
    if atomic:
        steps = [[update for step in steps for update in step]]
        size = _LARGEST_ATOMIC
    else:
        size = BATCH
    for step in steps:
        for start in range(0, len(step), size):
            yield step[start : start + size]
