# SPDX-License-Identifier: Apache-2.0
"""The compiled pipeline: where it is, and whether it is the one that plans are made for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from finsy import P4Schema
from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.entities import Entity, MeterCell, TableEntry
from weir.controlplane.errors import PipelineError, TableFullError

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
"""Tables that plans write, and their key fields."""

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
class Pipeline:
    """A compiled program: what its tables look like (P4Info) and what the switch runs (BMv2 JSON)."""

    p4info_path: Path
    program_path: Path
    schema: P4Schema

    def check_fits(self, phase: str, entities: Iterable[Entity]) -> None:
        """Compare how many entries and meter cells a phase needs with the sizes of tables and meters.

        Raises:
            TableFullError: a table is too small; nothing has been written yet.
        """
        entities = tuple(entities)
        needed: dict[str, int] = {}
        for entity in entities:
            if isinstance(entity, TableEntry):
                needed[entity.table] = needed.get(entity.table, 0) + 1
        cells = [entity for entity in entities if isinstance(entity, MeterCell)]
        for cell in cells:
            if cell.index >= self.schema.meters[cell.meter].size:
                raise TableFullError(
                    f"phase {phase} needs {cell.key}; "
                    f"valid: cells below {self.schema.meters[cell.meter].size} on this target"
                )
        for table, entries in needed.items():
            size = self.schema.tables[table].size
            if entries > size:
                raise TableFullError(
                    f"phase {phase} needs {entries} entries in table {table}; valid: at most {size}"
                )


def default_directory() -> Path:
    """Where the compiled pipeline is: beside the sources in a checkout, inside the package when installed."""
    here = Path(__file__).resolve()
    inside = here.parent / "p4"
    return inside if inside.is_dir() else here.parents[3] / "p4src" / "build"


def load_pipeline(
    directory: Path | None = None, policer: p4i.MeterSpec.Type.ValueType | None = None
) -> Pipeline:
    """Read ``weir.p4info.txtpb`` and ``weir.json`` from ``directory``.

    ``policer`` is the type of the policer meter: all its cells are of one. By default it is
    TWO_RATE_THREE_COLOR (RFC 2698), in whose words a plain token bucket can be said too;
    SINGLE_RATE_THREE_COLOR is RFC 2697, where the switch has it.

    Raises:
        PipelineError: a file is missing or is not what its name says, or its objects are not weir's.
    """
    directory = directory or default_directory()
    p4info_path, program_path = directory / f"{NAME}.p4info.txtpb", directory / f"{NAME}.json"
    for path in (p4info_path, program_path):
        if not path.is_file():
            raise PipelineError(
                f"{path}: no such file; valid: a directory with {NAME}.p4info.txtpb and {NAME}.json"
            )
    _check_program(program_path)
    try:
        p4info = text_format.Parse(p4info_path.read_text(encoding="utf-8"), p4i.P4Info())
        for meter in p4info.meters:
            if policer is not None and meter.preamble.alias == "policer":
                meter.spec.type = policer
        schema = P4Schema(p4info, program_path)
    except (text_format.ParseError, ValueError) as error:
        raise PipelineError(
            f"{p4info_path}: not a P4Info: {error}; valid: P4Info in protobuf text format"
        ) from error
    check_objects(schema, p4info_path)
    return Pipeline(p4info_path, program_path, schema)


def load_for(single_rate: bool) -> Pipeline:
    """weir's own pipeline, its meter of RFC 2697 if ``single_rate``, else RFC 2698. Raises PipelineError."""
    return load_pipeline(policer=p4i.MeterSpec.SINGLE_RATE_THREE_COLOR if single_rate else None)


def _check_program(path: Path) -> None:
    try:
        program = json.loads(path.read_bytes())
    except (ValueError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: not JSON: {error}; valid: the output of p4c-bm2-ss") from error
    if not isinstance(program, dict) or not {"header_types", "parsers", "pipelines"} <= program.keys():
        raise PipelineError(f"{path}: JSON, but not a BMv2 program; valid: the output of p4c-bm2-ss")


def check_objects(schema: P4Schema, path: Path) -> None:
    """Raise PipelineError unless a P4Info has all that plans and readings name; ``path`` is for messages."""
    present = {table.alias: {field.alias for field in table.match_fields} for table in schema.tables}
    for table, fields in TABLES.items():
        if table not in present:
            raise PipelineError(f"{path}: no table {table!r}; valid: the P4Info of weir's pipeline")
        if present[table] != fields:
            raise PipelineError(
                f"{path}: table {table!r} has the key {', '.join(sorted(present[table]))}; "
                f"valid: {', '.join(sorted(fields))}"
            )
    for what, needed, has in (
        ("meter", METERS, {meter.alias for meter in schema.meters}),
        ("counter", COUNTERS, {counter.alias for counter in schema.counters}),
    ):
        for name in sorted(needed - has):
            raise PipelineError(f"{path}: no {what} {name!r}; valid: the P4Info of weir's pipeline")
