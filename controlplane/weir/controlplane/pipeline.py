# SPDX-License-Identifier: Apache-2.0
"""The compiled pipeline: finds and loads it, and checks that it has the objects that plans need."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from finsy import P4Schema
from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.entities import Entity, MeterCell, TableEntry
from weir.controlplane.errors import PipelineError, TableFullError
from weir.controlplane.shipped import pipeline_directory

NAME = "weir"

_FLOW = frozenset({"src", "dst", "protocol", "src_port", "dst_port"})
_CLASSIFIED = _FLOW | {"ingress_port", "dscp", "has_ports"}

TABLES: Mapping[str, frozenset[str]] = {
    "forward": frozenset({"dst"}),
    "classify": _CLASSIFIED,
    "classify_ipv6": _CLASSIFIED,
    "flow_policer": _FLOW,
    "flow_policer_ipv6": _FLOW,
    "verdict": frozenset({"cell", "colour"}),
    "report": frozenset({"cell"}),
    "report_enqueues": frozenset({"cell"}),
    "report_queue": frozenset({"port"}),
    "collector": frozenset({"collector"}),
}
"""Tables that the control plane writes, with their key fields."""
TOFINO_TABLES: Mapping[str, frozenset[str]] = {"pre_colour": frozenset({"cell", "dscp"})}
"""Those that only the program for Tofino has."""

METERS = frozenset({"policer"})
COUNTERS = frozenset(
    {
        "policer_counter",
        "met_counter",
        "drop_counter",
        "report_counter",
        "ingress_port_counter",
        "egress_port_counter",
    }
)


@dataclass(frozen=True)
class P4Program:
    """A program by its P4Info."""

    schema: P4Schema

    def check_fits(self, phase: str, entities: Iterable[Entity]) -> None:
        """Compare a phase with the sizes of tables and meters. Raises as :func:`check_sizes`."""
        check_sizes(
            phase,
            entities,
            lambda table: self.schema.tables[table].size,
            lambda meter: self.schema.meters[meter].size,
        )

    def counter_size(self, name: str) -> int:
        """Number of cells of a counter."""
        return self.schema.counters[name].size

    def tables(self) -> tuple[str, ...]:
        """The tables that the control plane writes, of those that the program has."""
        present = {table.alias for table in self.schema.tables}
        return tuple(table for table in (*TABLES, *TOFINO_TABLES) if table in present)


@dataclass(frozen=True)
class Pipeline(P4Program):
    """A compiled program: its P4Info, and what the switch loads (BMv2 JSON, or the output for Tofino)."""

    path: Path


def check_sizes(
    phase: str,
    entities: Iterable[Entity],
    table_size: Callable[[str], int],
    meter_size: Callable[[str], int],
) -> None:
    """Compare the entries and meter cells of a phase with the sizes of tables and meters.

    Raises:
        TableFullError: a table or meter is too small.
    """
    entities = tuple(entities)
    needed: dict[str, int] = {}
    for entity in entities:
        if isinstance(entity, TableEntry):
            needed[entity.table] = needed.get(entity.table, 0) + 1
    cells = [entity for entity in entities if isinstance(entity, MeterCell)]
    for cell in cells:
        if cell.index >= meter_size(cell.meter):
            raise TableFullError(
                f"phase {phase} needs {cell.key}; valid: cells below {meter_size(cell.meter)} on this target"
            )
    for table, entries in needed.items():
        if entries > table_size(table):
            raise TableFullError(
                f"phase {phase} needs {entries} entries in table {table}; valid: at most {table_size(table)}"
            )


def load_pipeline(
    directory: Path | None = None, policer: p4i.MeterSpec.Type.ValueType | None = None
) -> Pipeline:
    """Read ``weir.p4info.txtpb`` and ``weir.json`` from ``directory``.

    ``policer`` is the type of all cells of the policer meter. The default is TWO_RATE_THREE_COLOR (RFC 2698),
    which can express a plain token bucket too; SINGLE_RATE_THREE_COLOR is RFC 2697, where the switch has it.

    Raises:
        PipelineError: a file is missing or malformed, or the program is not weir's.
    """
    directory = directory or pipeline_directory()
    p4info_path, program_path = directory / f"{NAME}.p4info.txtpb", directory / f"{NAME}.json"
    for path in (p4info_path, program_path):
        if not path.is_file():
            raise PipelineError(
                f"{path}: no such file; valid: a directory with {NAME}.p4info.txtpb and {NAME}.json"
            )
    check_program(program_path)
    return Pipeline(load_schema(p4info_path, program_path, policer), program_path)


def running_program(p4info: p4i.P4Info, where: str) -> P4Program:
    """weir's program by the P4Info that a switch tells of what it runs.

    Raises:
        PipelineError: the program is not weir's.
    """
    try:
        schema = P4Schema(p4info)
    except ValueError as error:
        raise PipelineError(f"{where}: not a P4Info: {error}; valid: that of weir's pipeline") from error
    _check_objects(schema, where)
    return P4Program(schema)


def load_for(single_rate: bool) -> Pipeline:
    """weir's own pipeline, with the meter of RFC 2697 if ``single_rate``, else of RFC 2698.

    Raises:
        PipelineError: as :func:`load_pipeline`.
    """
    return load_pipeline(policer=p4i.MeterSpec.SINGLE_RATE_THREE_COLOR if single_rate else None)


def load_schema(
    p4info_path: Path, program: Path | bytes, policer: p4i.MeterSpec.Type.ValueType | None = None
) -> P4Schema:
    """Read a P4Info and check that it has the tables, meters and counters of weir's pipeline.

    ``program`` is what the switch loads with it, ``policer`` as for :func:`load_pipeline`.

    Raises:
        PipelineError: the file is not a P4Info, or an object is missing.
    """
    schema = read_schema(p4info_path, program, policer)
    _check_objects(schema, str(p4info_path))
    return schema


def read_schema(
    p4info_path: Path, program: Path | bytes, policer: p4i.MeterSpec.Type.ValueType | None = None
) -> P4Schema:
    """Read the P4Info of any program; arguments as for :func:`load_schema`.

    Raises:
        PipelineError: the file is not a P4Info.
    """
    try:
        p4info = text_format.Parse(p4info_path.read_text(encoding="utf-8"), p4i.P4Info())
        for meter in p4info.meters:
            if policer is not None and meter.preamble.alias == "policer":
                meter.spec.type = policer
        return P4Schema(p4info, program)
    except (text_format.ParseError, ValueError) as error:
        raise PipelineError(
            f"{p4info_path}: not a P4Info: {error}; valid: P4Info in protobuf text format"
        ) from error


def check_program(path: Path) -> None:
    """Raise PipelineError if the file is not a BMv2 program."""
    try:
        program = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: not JSON: {error}; valid: the output of p4c-bm2-ss") from error
    if not isinstance(program, dict) or not {"header_types", "parsers", "pipelines"} <= program.keys():
        raise PipelineError(f"{path}: JSON, but not a BMv2 program; valid: the output of p4c-bm2-ss")


def _check_objects(schema: P4Schema, path: str) -> None:
    present = {table.alias: {field.alias for field in table.match_fields} for table in schema.tables}
    for table, fields in TABLES.items():
        if table not in present:
            raise PipelineError(f"{path}: no table {table!r}; valid: the P4Info of weir's pipeline")
        if present[table] != fields:
            raise PipelineError(
                f"{path}: table {table!r} has the key {', '.join(sorted(present[table]))}; "
                f"valid: {', '.join(sorted(fields))}"
            )
    for kind, needed, has in (
        ("meter", METERS, {meter.alias for meter in schema.meters}),
        ("counter", COUNTERS, {counter.alias for counter in schema.counters}),
    ):
        for name in sorted(needed - has):
            raise PipelineError(f"{path}: no {kind} {name!r}; valid: the P4Info of weir's pipeline")
