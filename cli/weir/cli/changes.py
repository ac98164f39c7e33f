# SPDX-License-Identifier: Apache-2.0
"""Prints the differences between a running switch and an experiment, for `weir plan` and `weir apply`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console

from weir.cli.switch_job import Job
from weir.controlplane.entities import Changes, Entity
from weir.controlplane.policer_plan import PolicerPlan
from weir.controlplane.units import format_rate, format_size

_SHOWN = 40
"""Most changes that are printed one by one."""


def show(
    job: Job, what: str, state: dict[str, bool], update: Changes, as_json: bool, console: Console
) -> None:
    """Print the changes that `weir plan` would make, or that `weir apply` has made."""
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
    say(f"phase {job.phase.name} on {job.endpoint.address}: {done} {len(update)}: {counts}")


class _Say:
    """Prints lines without interpreting markup, which names may contain."""

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
        "switch": job.endpoint.address,
        "device_id": job.endpoint.device_id,
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
