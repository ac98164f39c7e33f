# SPDX-License-Identifier: Apache-2.0
"""The first key in which the experiment of a complete run differs from that of a planned one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir.campaign.load import NOT_IN_DIGEST, PlannedRun
from weir.controlplane.config import ConfigError, Location, Source, read_text
from weir.controlplane.config.problems import key_text
from weir.rundir.directory import RunDirectory

_MOST_CHARACTERS = 60
_ABSENT = object()


def difference(run_dir: Path, run: PlannedRun) -> str | None:
    """As "duration is '3 s', now '5 s'"; None if the run's file cannot be read, or has the same values.

    Then a file that the experiment names has changed.
    """
    file = RunDirectory(run_dir).config
    try:
        was = Source.parse(read_text(file), str(file)).data
    except ConfigError:
        return None
    for location, before, now in _differences(was, run.data):
        if location[0] not in NOT_IN_DIGEST:
            return f"{key_text(location)} is {_shown(before)}, now {_shown(now)}"
    return None


def _differences(was: Any, now: Any, location: Location = ()) -> Iterator[tuple[Location, Any, Any]]:
    """Where two parsed files differ, in their order, with both values."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in {**now, **was}:
            yield from _differences(was.get(key, _ABSENT), now.get(key, _ABSENT), (*location, key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (before, after) in enumerate(zip(was, now, strict=True)):
            yield from _differences(before, after, (*location, index))
    elif was != now:
        yield location, was, now


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "missing"
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
