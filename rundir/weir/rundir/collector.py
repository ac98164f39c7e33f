# SPDX-License-Identifier: Apache-2.0
"""`collector.json` as a model: the collector's accounting of the reports that it received."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from weir.rundir.directory import RunDirectory
from weir.rundir.record import Record, read_record


class Collector(Record):
    """`collector.json`; counts are in reports."""

    schema_version: Literal[1] = Field(alias="schema")
    received: int
    malformed: int = 0
    duplicates: int = 0
    lost: int = 0
    kernel_drops: int = 0
    complete: bool = True


def read_collector(run_dir: Path) -> Collector:
    """Read `collector.json` of a run directory; raises RunFileError."""
    return read_record(RunDirectory(run_dir).accounting, Collector)
