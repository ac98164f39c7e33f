# SPDX-License-Identifier: Apache-2.0
"""The Parquet files of weir-collector are readable by pandas, polars, DuckDB and pyarrow."""

import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.telemetry.captures import read_pcap
from weir.topo.tools import ToolMissingError, find_own_program

CAPTURE = Path(__file__).parents[2] / "captures" / "bmv2.pcap"
COLUMNS = ("node_id", "sequence", "dropped", "policer", "colour", "wire_length", "queue_lost", "src", "inner")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    try:
        collector = find_own_program("weir-collector")
    except ToolMissingError as error:
        pytest.skip(str(error))
    command = [str(collector), "--read", str(CAPTURE), "--output", str(folder / "telemetry.parquet")]
    command += ["--accounting", str(folder / "collector.json"), "--run-id", "readers"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / "telemetry.parquet"


Rows = list[tuple[Any, ...]]


def with_pandas(path: Path) -> Rows:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(path)[list(COLUMNS)].astype(object)
    return list(frame.where(frame.notna(), None).itertuples(index=False, name=None))


def with_polars(path: Path) -> Rows:
    polars = pytest.importorskip("polars")
    rows: Rows = polars.read_parquet(path).select(COLUMNS).rows()
    return rows


def with_duckdb(path: Path) -> Rows:
    duckdb = pytest.importorskip("duckdb")
    # Quoted, as `inner` is an SQL keyword.
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    query = f"select {names} from '{path}'"
    rows: Rows = duckdb.sql(query).fetchall()
    return rows


def with_pyarrow(path: Path) -> Rows:
    table = pytest.importorskip("pyarrow.parquet").read_table(path, columns=list(COLUMNS))
    return [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]


@pytest.mark.parametrize("read", [with_pandas, with_polars, with_duckdb, with_pyarrow])
def test_every_row_is_read_as_it_was_sent(stored: Path, read: Callable[[Path], Rows]) -> None:
    rows = read(stored)
    frames = [record.frame for record in read_pcap(CAPTURE)]
    assert len(rows) == json.loads((stored.parent / "collector.json").read_text())["rows"] == len(frames)
    for row, frame in zip(rows, frames, strict=True):
        payload = frame[42:]
        named = dict(zip(COLUMNS, row, strict=True))
        start = 60 if named["queue_lost"] is not None else 56
        policer, colour, wire_length = struct.unpack_from("!HBxI", payload, 44)
        assert (named["policer"], named["colour"], named["wire_length"]) == (policer, colour, wire_length)
        assert (bytes(named["inner"]), bool(named["dropped"])) == (payload[start:], bool(payload[11] & 0x80))


def test_the_files_metadata_has_schema_version_run_and_accounting(stored: Path) -> None:
    metadata = pytest.importorskip("pyarrow.parquet").read_schema(stored).metadata
    assert (metadata[b"weir.schema_version"], metadata[b"weir.run_id"]) == (b"1", b"readers")
    assert json.loads(metadata[b"weir.accounting"])["rows"] > 0
