# SPDX-License-Identifier: Apache-2.0
"""The bf-rt.json that the compiler wrote against the client of BfRuntime, and against that of its tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_p4
import release
import tofino
from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.bfruntime.program import BfRtProgram, load_compiled, program_of
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config import parse_experiment
from weir.controlplane.entities import Match, TableEntry
from weir.controlplane.learning import TABLES as LEARNED
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import COUNTERS, METERS, TABLES, TOFINO_TABLES
from weir.controlplane.plan import make_plan
from weir.controlplane.targets import TARGETS
from weir_tests.controlplane.bfrt_files import fixed_schema, program_schema
from weir_tests.controlplane.bfruntime_server import BfRuntimeServer

programs = pytest.mark.parametrize(
    "program", [p for p in build_p4.PROGRAMS if p.chip is not None], ids=lambda program: program.name
)
REGISTERS = ("packet_number", "until_report", "sequence")
NOT_WRITTEN = {
    *("flood", "come_in_green", "no_policer", "new_flow", "pass_packet"),
    *("no_report", "no_enqueue_report", "no_queue_report", "no_collector"),
    "set_numbered_egress",
}
"""The actions of misses, and that of switches which report gaps."""
EXPERIMENT = """\
name: all
switch: {target: TARGET}
hosts:
  a: {port: 1, address6: "2001:db8::1"}
  b: {port: 2, address6: "2001:db8::2", rate: 1 Gbit/s}
  c: {port: 3, address6: "2001:db8::3"}
flows: [{name: f, from: a, to: b, duration: 1 s}]
telemetry: {collectors: {near: {port: 4, address: 10.0.0.9, mac: "02:00:00:00:00:09"}}}
policers:
- {name: one, rate: 1 Gbit/s, burst: 1 MB, match: [{from: a, to: b}], verdict: {red: remark_dscp 10}}
- name: colours
  rate: 10 Mbit/s
  burst: 64 kB
  meter: tr3c
  peak_rate: 20 Mbit/s
  peak_burst: 128 kB
  colour_aware: true
  verdict: {yellow: mark_ce}
  reports: {enqueues: 100}
  match: [{from: b, to: a}]
- {name: hashed, rate: 10 Mbit/s, burst: 64 kB, mode: per_flow_hashed, cells: 4, match: [{to: c}]}
- {name: learned, rate: 10 Mbit/s, burst: 64 kB, mode: per_flow_learned, flows: 4, match: [{from: c}]}
"""


def committed(program: build_p4.Program) -> BfRtProgram:
    """What the compiler wrote; `build_p4_test.py` says whether it is of these sources."""
    return program_of(
        program.name, (build_p4.ROOT / program.build / f"{program.name}.{release.BF_RT}").read_bytes()
    )


def phase_for(program: build_p4.Program) -> PhasePlan:
    """A plan with everything that plans write, but for flows that are learned later."""
    assert program.chip is not None
    experiment = parse_experiment(EXPERIMENT.replace("TARGET", program.chip.target))
    return make_plan(experiment, attachment_of(experiment)).phases[0]


def learned_flows(phase: PhasePlan) -> Iterator[TableEntry]:
    """A flow for each table of learned flows."""
    (policer,) = (policer for policer in phase.policers if policer.learned_cells)
    for table, cell in zip(sorted(LEARNED.values()), policer.learned_cells, strict=False):
        matches = tuple(Match(field, 1) for field in sorted(TABLES[table]))
        yield TableEntry(table, matches, "set_flow_cell", (("cell", cell),))


@programs
def test_tables_fields_and_ids_are_those_that_the_tests_of_bfruntime_have(program: build_p4.Program) -> None:
    compiled = committed(program)
    assert compiled.lacks() is None
    assert compiled.info.unread == {}
    made = program_of(program.name, program_schema(program.name)).info
    by_name = {table.name: table for table in compiled.info.tables}
    assert [by_name[table.name] for table in made.tables] == list(made.tables)
    assert compiled.info.filters == made.filters


@programs
def test_the_compiler_has_every_name_that_the_client_uses(program: build_p4.Program) -> None:
    compiled = committed(program)
    assert set(compiled.tables()) == {*TABLES, *TOFINO_TABLES}
    for table, fields in (TABLES | TOFINO_TABLES).items():
        assert compiled.table(table).key.keys() - {"$MATCH_PRIORITY"} == fields
    parts = {f"$METER_SPEC_{part}" for part in ("CIR_KBPS", "PIR_KBPS", "CBS_KBITS", "PBS_KBITS")}
    for meter in METERS:
        assert compiled.meter(meter).data.keys() == parts
    for counter in COUNTERS:
        table = compiled.counter(counter)
        assert table.key.keys() == {"$COUNTER_INDEX"}
        assert table.data.keys() <= {"$COUNTER_SPEC_PKTS", "$COUNTER_SPEC_BYTES"}
        assert "$COUNTER_SPEC_PKTS" in table.data
    for register in REGISTERS:
        assert len(compiled.register(register).data) == 1
    digests = {one.name.rpartition(".")[2]: one for one in compiled.info.filters}
    assert digests.keys() == LEARNED.keys()
    for name, digest in digests.items():
        assert {field.name for field in digest.fields.values()} == {"base", *TABLES[LEARNED[name]]}


@programs
def test_a_server_with_the_compilers_schema_takes_every_update(program: build_p4.Program) -> None:
    compiled, phase = committed(program), phase_for(program)
    assert program.chip is not None
    server = BfRuntimeServer(
        {program.name: compiled.schema}, fixed_schema("tf1" if program.chip is tofino.TOFINO1 else "tf2")
    )

    async def run() -> None:
        async with server:
            session = BfRtSession(server.address, 0, 2, 5.0)
            control = SwitchControl(
                server.address,
                target=TARGETS[program.chip.target if program.chip else ""],
                connection=session,
            )
            async with control:
                await control.apply(phase)
                flows = list(learned_flows(phase))
                await session.write_batch([("insert", flow) for flow in flows])
                assert len(await control.learned_flows(phase)) == len(flows) == len(LEARNED)
                assert len(await control.difference(phase)) == 0
                await control.read_policers(phase)
                for register in REGISTERS:
                    await session.write_register(register, 0, 0)

    asyncio.run(run())


@programs
def test_no_action_of_the_program_is_left_out_of_these_tests(program: build_p4.Program) -> None:
    phase, compiled = phase_for(program), committed(program)
    entries = [one for one in phase.entities if isinstance(one, TableEntry)]
    written = {(one.table, one.action) for one in (*entries, *learned_flows(phase))}
    assert {table for table, _ in written} == set(compiled.tables())
    for table in compiled.tables():
        actions = compiled.table(table).actions.keys() - NOT_WRITTEN
        assert actions == {action for name, action in written if name == table}, table


@programs
def test_what_is_left_for_a_release_is_loaded_without_a_compiler(
    program: build_p4.Program, tmp_path: Path
) -> None:
    if not program.compilable:
        pytest.skip("p4c: the program's compiler is not on PATH")
    chip, made_of = program.chip, build_p4.made_of(program)
    assert chip is not None
    folder = build_p4.RELEASE / program.name
    if not release.is_left(program.name, chip, folder, made_of):
        folder, compiled = tmp_path / "release", tmp_path / "compiled"
        compiled.mkdir()
        build_p4.compile_program(program, compiled)
        release.leave(program.name, chip, compiled, folder, made_of)
    assert load_compiled(folder).program.same(committed(program))
    record = json.loads((folder / release.PROVENANCE).read_text())
    assert record["outputs"].keys() == set(release.files(program.name, chip))
    assert record["compiler"] == tofino.version()
