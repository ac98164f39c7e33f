# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.analysis.reports import COLUMNS, read_rows
from weir.rundir.errors import RunFileError


def test_the_columns_come_in_the_order_of_the_join(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.parquet"
    pq.write_table(pa.table({name: [number] for number, name in enumerate(reversed(COLUMNS))}), path)
    table = read_rows(path).read_all()
    assert table.column_names == list(COLUMNS)
    assert table["inner"].to_pylist() == [0]


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.parquet"
    pq.write_table(pa.table({"received_ns": [1], "dropped": [True]}), path)
    with pytest.raises(RunFileError, match=r"telemetry\.parquet: column ingress_ns is missing; valid: "):
        read_rows(path)


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.parquet"
    path.write_bytes(b"something else")
    with pytest.raises(RunFileError, match=r"telemetry\.parquet: .*; valid: .*weir-collector"):
        read_rows(path)
