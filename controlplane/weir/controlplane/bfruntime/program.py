# SPDX-License-Identifier: Apache-2.0
"""A program on a Tofino as its bf-rt.json describes it: weir's tables in it, and their sizes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weir.controlplane.bfruntime.messages import MESSAGES
from weir.controlplane.bfruntime.schema import BfRtInfo, SchemaTable, read_bf_rt
from weir.controlplane.entities import Entity
from weir.controlplane.errors import PipelineError
from weir.controlplane.pipeline import COUNTERS, METERS, TABLES, TOFINO_TABLES, check_sizes
from weir.controlplane.targets.tofino_pipeline import bf_pipeline_config

MATCH, METER, COUNTER, REGISTER = ("MatchAction_Direct",), ("Meter",), ("Counter",), ("Register",)
PRIORITY = "$MATCH_PRIORITY"


@dataclass(frozen=True)
class BfRtProgram:
    """The name of a program and its schema."""

    name: str
    schema: bytes
    """The contents of bf-rt.json."""
    info: BfRtInfo

    def table(self, name: str) -> SchemaTable:
        """A table of weir's program by its short name. Raises PipelineError if the program lacks it."""
        return self._find(name, MATCH)

    def meter(self, name: str) -> SchemaTable:
        """A meter, as :meth:`table`."""
        return self._find(name, METER)

    def counter(self, name: str) -> SchemaTable:
        """A counter, as :meth:`table`."""
        return self._find(name, COUNTER)

    def register(self, name: str) -> SchemaTable:
        """A register, as :meth:`table`."""
        return self._find(name, REGISTER)

    def lacks(self) -> str | None:
        """What keeps this from being weir's program, or None."""
        for name, fields in TABLES.items():
            found = self.info.find(name, MATCH)
            if found is None:
                return f"no table {name} ({self.info.why_not(name)})"
            if found.key.keys() - {PRIORITY} != fields:
                return f"table {name} has the key {', '.join(sorted(found.key.keys() - {PRIORITY}))}"
        for kind, names, kinds in (("meter", METERS, METER), ("counter", COUNTERS, COUNTER)):
            missing = sorted(name for name in names if self.info.find(name, kinds) is None)
            if missing:
                return f"no {kind} {missing[0]} ({self.info.why_not(missing[0])})"
        return None

    def check_fits(self, phase: str, entities: Iterable[Entity]) -> None:
        """Compare a phase with the sizes of tables and meters. Raises TableFullError."""
        check_sizes(phase, entities, lambda name: self.table(name).size, lambda name: self.meter(name).size)

    def counter_size(self, name: str) -> int:
        """Number of cells of a counter."""
        return self.counter(name).size

    def tables(self) -> tuple[str, ...]:
        """The tables that the control plane writes, of those that the program has."""
        names = (*TABLES, *TOFINO_TABLES)
        return tuple(name for name in names if self.info.find(name, MATCH) is not None)

    def same(self, other: BfRtProgram) -> bool:
        """Whether both have the same name and schema, whatever the spaces in it."""
        return self.name == other.name and json.loads(self.schema) == json.loads(other.schema)

    def _find(self, name: str, kinds: tuple[str, ...]) -> SchemaTable:
        found = self.info.find(name, kinds)
        if found is None:
            why = self.info.why_not(name)
            raise PipelineError(f"program {self.name}: no {kinds[0]} {name} ({why}); valid: weir's program")
        return found


def program_of(name: str, schema: bytes) -> BfRtProgram:
    """A program and its schema as a switch returns them. Raises PipelineError."""
    return BfRtProgram(name, schema, read_bf_rt(schema, f"bf-rt.json of program {name}"))


@dataclass(frozen=True)
class Compiled:
    """What the compiler wrote for one program, as the message that loads it."""

    program: BfRtProgram
    message: bytes
    """A ForwardingPipelineConfig."""


def load_compiled(directory: Path) -> Compiled:
    """Read the compiler's output in a directory.

    Raises:
        PipelineError: a file is missing or malformed, or the program is not weir's; the text names the file.
    """
    # Stratum's message has the fields of BfRuntime's under the same numbers.
    data = bf_pipeline_config(directory)
    config = MESSAGES["ForwardingPipelineConfig"].FromString(data)
    info = read_bf_rt(config.bfruntime_info, str(directory / "bf-rt.json"))
    program = BfRtProgram(config.p4_name, config.bfruntime_info, info)
    lack = program.lacks()
    if lack is not None:
        raise PipelineError(f"{directory}: {lack}; valid: weir's program, compiled for a Tofino")
    return Compiled(program, data)
