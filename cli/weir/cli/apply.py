# SPDX-License-Identifier: Apache-2.0
"""`weir plan` and `weir apply`: how a running switch differs from an experiment, and ending that."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import Any

from rich.console import Console

from weir.cli.switch_args import Job
from weir.controlplane.entities import Changes, Entity
from weir.controlplane.errors import ControlPlaneError, HalfwayError
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.targets.bmv2_queues import set_queues
from weir.controlplane.units import format_rate, format_size

_SHOWN = 40
"""Changes that a person is shown one by one."""


def plan_command(job: Job, *, as_json: bool, console: Console) -> int:
    """Show what `apply_command` would write; the switch is only read. Raises ControlPlaneError."""

    async def difference() -> tuple[bool, Changes]:
        async with job.control("reader") as control:
            if not await control.runs_pipeline(or_another=True):
                return False, await control.difference_when_loaded(job.phase)
            return True, await control.difference(job.phase)

    runs, update = asyncio.run(difference())
    _show(job, "plan", {"pipeline_loaded": runs}, update, as_json, console)
    return 0


def apply_command(
    job: Job, *, load_pipeline: bool, thrift_port: int | None, as_json: bool, console: Console
) -> int:
    """Make the switch what the phase says, and read it back.

    Raises:
        InputError: a bmv2's queues are to be set, and nobody said where.
        ControlPlaneError: as its text says.
    """
    job.check_queues(thrift_port)

    async def apply() -> tuple[bool, Changes]:
        async with job.control() as control:
            runs = await control.runs_pipeline(or_another=load_pipeline)
            if not runs:
                await control.push_pipeline()
                # At once: what comes next may fail, and this is done.
                print("weir: the pipeline was loaded", file=sys.stderr)
            return not runs, await control.apply(job.phase)

    pushed, update = asyncio.run(apply())
    if thrift_port is not None:
        try:
            set_queues(job.queues, thrift_port)
        except ControlPlaneError as error:
            state = "its tables and meters are as planned, its queues may not be; valid: apply again"
            raise HalfwayError(error, state) from error
    _show(job, "apply", {"pipeline_pushed": pushed}, update, as_json, console)
    return 0


def _show(
    job: Job, what: str, state: dict[str, bool], update: Changes, as_json: bool, console: Console
) -> None:
    if as_json:
        print(json.dumps(_as_dict(job, state, update)))
        return
    say = _Say(console)
    if state.get("pipeline_loaded") is False:
        say("the pipeline is to be loaded first: the switch runs none, or another one")
    lines = [*(f"+ {entity.key}: {_fields(entity)}" for entity in update.insert)]
    lines += [f"~ {entity.key}: {_modified(entity, update)}" for entity in update.modify]
    lines += [f"- {entity.key}" for entity in update.delete]
    for line in lines[:_SHOWN]:
        say(f"  {line}")
    if len(lines) > _SHOWN:
        say(f"  … and {len(lines) - _SHOWN} more; --json lists all")
    for policer in job.phase.policers:
        say(_describe(policer))
    for note in job.notes:
        say(note)
    done = "would change" if what == "plan" else "changed"
    counts = f"{len(update.insert)} added, {len(update.modify)} modified, {len(update.delete)} removed"
    say(f"phase {job.phase.name} on {job.where.address}: {done} {len(update)}: {counts}")


class _Say:
    """Prints lines as they are: names may look like markup."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _describe(policer: PolicerPlan) -> str:
    buckets = (
        f"{word}{format_rate(bucket.rate_bps)}, burst {format_size(bucket.burst_bytes)} "
        f"(effective {format_rate(round(bucket.effective.rate_bps))}, "
        f"{format_size(bucket.effective.burst_bytes)})"
        for word, bucket in policer.buckets()
    )
    last = policer.index + policer.cells - 1
    cells = f"cell {policer.index}" if policer.cells == 1 else f"cells {policer.index} to {last}"
    return f"policer {policer.name}: {'; '.join(buckets)}; {policer.config.mode}, {cells}"


def _as_dict(job: Job, state: dict[str, bool], update: Changes) -> dict[str, Any]:
    def described(entities: tuple[Entity, ...]) -> list[dict[str, Any]]:
        return [{"entity": entity.key, **entity.fields()} for entity in entities]

    return {
        "switch": job.where.address,
        "device_id": job.where.device_id,
        "target": job.plan.target.name,
        "phase": job.phase.name,
        **state,
        "changes": len(update),
        "insert": described(update.insert),
        "modify": [
            {"entity": entity.key, **entity.fields(), "before": _before(entity, update)}
            for entity in update.modify
        ],
        "delete": [entity.key for entity in update.delete],
        "policers": [
            {
                **policer.as_dict(),
                "rate_error": policer.committed.rate_error,
                "burst_error": policer.committed.burst_error,
            }
            for policer in job.phase.policers
        ],
        "queues": [asdict(queue) for queue in job.queues],
        "notes": list(job.notes),
    }


def _before(entity: Entity, update: Changes) -> dict[str, Any]:
    return dict(update.replaced[entity.key].fields()) if entity.key in update.replaced else {}


def _fields(entity: Entity) -> str:
    return ", ".join(f"{name} {value}" for name, value in entity.fields().items())


def _modified(entity: Entity, update: Changes) -> str:
    before = _before(entity, update)
    parts = (
        f"{name} {before.get(name, 'unset')} → {value}"
        for name, value in entity.fields().items()
        if before.get(name) != value
    )
    return ", ".join(parts)
