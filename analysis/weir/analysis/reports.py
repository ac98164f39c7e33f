# SPDX-License-Identifier: Apache-2.0
"""Joins the captures of a run with the drop reports in its `telemetry.parquet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weir.analysis.run_data import Clocks, Join, Joined, RunData, join
from weir.rundir.collector import read_collector
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import read_manifest

COLUMNS = (
    "received_ns",
    "dropped",
    "ingress_ns",
    "policer",
    "colour",
    "wire_length",
    "packet_number",
    "inner",
)
"""The columns that `weir_core.join_run` needs."""
_VALID = "valid: a telemetry.parquet as weir-collector writes it"


def join_run(captures: list[tuple[str, list[str]]], reports: str, clocks: Clocks | None = None) -> Joined:
    """Join captures (path, addresses of the host), moved by `clocks`, with the reports in the file `reports`.

    Raises RunFileError when `reports` is no telemetry.parquet, `weir_core.CaptureError` for a capture that
    cannot be read and for a report file that is damaged.
    """
    import weir_core

    path = Path(reports)
    joined: Joined = weir_core.join_run(captures, (path, read_rows(path)), clocks)
    return joined


def read_run(run_dir: Path, joiner: Join = join_run) -> RunData:
    """Join the captures of a run directory with its reports; `joiner` replaces `join_run`.

    Raises RunFileError for missing or malformed files of the run and `weir_core.CaptureError` for a capture
    that cannot be read.
    """
    return join(run_dir, read_manifest(run_dir), read_collector(run_dir), joiner)


def read_rows(path: Path) -> pa.RecordBatchReader:
    """The rows of a telemetry.parquet, read as they are consumed; raises RunFileError when it is none."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise RunFileError(f"{path}: {error}; {_VALID}") from None
    missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
    if missing:
        raise RunFileError(f"{path}: column {missing[0]} is missing; {_VALID}")
    schema = pa.schema([file.schema_arrow.field(name) for name in COLUMNS])
    return pa.RecordBatchReader.from_batches(schema, _batches(file))


def _batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    for batch in file.iter_batches(columns=list(COLUMNS)):
        yield batch.select(COLUMNS)
