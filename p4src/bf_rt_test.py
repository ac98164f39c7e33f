# SPDX-License-Identifier: Apache-2.0
"""The bf-rt.json that the compiler writes is the one that the tests of BfRuntime make of the P4Info."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import build_p4
import tofino
from weir.controlplane.bfruntime.program import program_of
from weir_tests.controlplane.bfrt_files import program_schema

programs = pytest.mark.parametrize(
    "program", [p for p in build_p4.PROGRAMS if p.chip is not None], ids=lambda program: program.name
)


@programs
def test_tables_fields_and_ids_are_those_that_the_tests_of_bfruntime_have(
    program: build_p4.Program, tmp_path: Path
) -> None:
    if shutil.which(tofino.COMPILER) is None:
        pytest.skip(f"p4c: {tofino.COMPILER} is not on PATH")
    chip, schema = program.chip, tmp_path / "bf-rt.json"
    assert chip is not None
    command = [tofino.COMPILER, "--target", chip.target, "--arch", chip.arch, "--std", "p4-16", "-g"]
    command += [f"-D__TARGET_TOFINO__={chip.number}", "--bf-rt-schema", str(schema)]
    tofino.run([*command, "-o", str(tmp_path / "out"), program.source], program.source)
    compiled = program_of(program.name, schema.read_bytes())
    assert compiled.lacks() is None
    assert compiled.info.unread == {}
    made = program_of(program.name, program_schema(program.name)).info
    by_name = {table.name: table for table in compiled.info.tables}
    assert [by_name[table.name] for table in made.tables] == list(made.tables)
    assert compiled.info.filters == made.filters
