# SPDX-License-Identifier: Apache-2.0
"""Tables of runs and campaigns: read on first use, then given as Arrow, pandas or polars."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from weir.api import html
from weir.api.errors import optional
from weir.rundir.errors import RunFileError
from weir.rundir.plural import plural

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow.dataset

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
SHOWN_ROWS = 10
"""Rows that a notebook shows."""


class Table:
    """A table that is read when it is first used, and kept.

    Units are in the names of its columns. It exports Arrow's PyCapsule interface, so
    `polars.DataFrame(table)`, `pyarrow.table(table)` and queries of DuckDB read it without a copy. Reading
    raises what its property of the run or campaign names.
    """

    def __init__(self, name: str, read: Callable[[], pa.Table]) -> None:
        """A table called `name`, which `read` makes."""
        self.name = name
        self._read = read
        self._arrow: pa.Table | None = None

    def arrow(self) -> pa.Table:
        """The whole table as a `pyarrow.Table`."""
        if self._arrow is None:
            self._arrow = self._read()
        return self._arrow

    def pandas(self) -> pd.DataFrame:
        """The whole table as a `pandas.DataFrame`; raises ImportError without pandas.

        Whole numbers stay whole: where some are null, their column is of pandas' nullable Int64 or alike, as
        floats cannot hold nanoseconds since the epoch.
        """
        pandas = optional("pandas")
        table = self.arrow()
        frame: pd.DataFrame = table.to_pandas()
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count and pa.types.is_integer(column.type):
                nullable = str(column.type).replace("int", "Int").replace("uI", "UI")
                frame[name] = column.to_pandas(
                    types_mapper=lambda _, to=nullable: pandas.api.types.pandas_dtype(to)
                )
        return frame

    def polars(self) -> pl.DataFrame:
        """The whole table as a `polars.DataFrame`; raises ImportError without polars."""
        polars = optional("polars")
        frame: pl.DataFrame = polars.from_arrow(self.arrow())
        return frame

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, as a `pyarrow.Schema`."""
        return self.arrow().schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.schema.names)

    def __len__(self) -> int:
        """The number of rows."""
        return int(self.arrow().num_rows)

    def head(self, rows: int = SHOWN_ROWS) -> pa.Table:
        """The first rows."""
        return self.arrow().slice(0, rows)

    def __arrow_c_schema__(self) -> object:
        """The schema through Arrow's PyCapsule interface."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows through Arrow's PyCapsule interface."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Name, size and columns."""
        return f"<{self.name}: {plural(len(self), 'row')}; {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        shown, rows = self.head(), len(self)
        cut = f", the first {shown.num_rows} of them" if rows > shown.num_rows else ""
        caption = f"{self.name}: {plural(rows, 'row')}{cut}"
        return html.table(caption, self.columns, [list(row.values()) for row in shown.to_pylist()])


class ParquetTable(Table):
    """A table in a Parquet file: its schema and length are read without its rows, and rows only where needed.

    Telemetry has a row per dropped packet: read the columns and rows that you need with `scan`.
    """

    def __init__(self, name: str, path: Path, hint: str) -> None:
        """The table in `path`; `hint` says where the file comes from, for the error when it is missing."""
        super().__init__(name, lambda: self._of_file(pq.read_table))
        self._path, self._hint = path, hint

    def scan(self) -> pyarrow.dataset.Dataset:
        """The file as a `pyarrow.dataset.Dataset`, for choosing columns and rows before they are read.

        `polars.scan_pyarrow_dataset` and DuckDB take it too. Raises RunFileError.

            drops = run.telemetry.scan().to_table(columns=["ingress_ns"], filter=ds.field("policer") == 1)
        """
        import pyarrow.dataset

        return self._of_file(lambda path: pyarrow.dataset.dataset(path, format="parquet"))

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, from the end of the file; raises RunFileError."""
        return self._of_file(pq.read_schema)

    def __len__(self) -> int:
        """The number of rows, from the end of the file; raises RunFileError."""
        return int(self._of_file(pq.read_metadata).num_rows)

    def head(self, rows: int = SHOWN_ROWS) -> pa.Table:
        """The first rows; raises RunFileError."""
        return self.scan().head(rows)

    def _of_file(self, read: Callable[[Path], Any]) -> Any:
        if not self._path.is_file():
            raise RunFileError(f"{self._path}: not found; {self._hint}")
        try:
            return read(self._path)
        except (OSError, pa.ArrowException) as error:
            raise RunFileError(
                f"{self._path}: {error}; valid: a whole Parquet file, as weir writes it"
            ) from error


def from_models(rows: Sequence[Mapping[str, Any]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Rows of models as `flat` makes them; each table has all columns of `flat_types`, even an empty one.

    So tables of several runs can be put together, also where a column of one has nothing but nulls.
    """
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()})


def flat_types(model: type[BaseModel], prefix: str = "") -> dict[str, pa.DataType]:
    """The columns that `flat` makes of a model, those of parts that may be None included."""
    found: dict[str, pa.DataType] = {}
    for name, field in model.model_fields.items():
        kinds = [kind for kind in get_args(field.annotation) or (field.annotation,) if kind is not type(None)]
        kind = kinds[0]
        if name == "flows":
            found |= {"flow1": pa.string(), "flow2": pa.string()}
        elif isinstance(kind, type) and issubclass(kind, BaseModel) and name != "steps":
            found |= flat_types(kind, f"{prefix}{name}_")
        else:
            is_text = get_origin(field.annotation) is tuple or kind not in _TYPES
            found[prefix + name] = pa.string() if is_text else _TYPES[kind]
    return found


def from_rows(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> pa.Table:
    """Rows as a table; `names` are its columns where there is no row."""
    if not rows:
        return pa.table({name: pa.nulls(0) for name in names})
    columns = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: [row.get(name) for row in rows] for name in columns})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values as columns: `conformance_window_s`; a pair's flows as flow1, flow2; details as JSON."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("detail", "steps"):
            found[prefix + name] = json.dumps(value)
        elif name == "flows":
            found |= {f"flow{number}": flow for number, flow in enumerate(value, 1)}
        elif isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}_")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            found[prefix + name] = "; ".join(map(str, value))
        else:
            found[prefix + name] = value
    return found
