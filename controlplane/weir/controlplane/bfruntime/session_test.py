# SPDX-License-Identifier: Apache-2.0
"""Plans on a server that checks each message against bf-rt.json: apply, apply again, failures, reconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.bfruntime.program import load_compiled
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config import parse_experiment
from weir.controlplane.connection import Part
from weir.controlplane.entities import Count, Entity, MeterCell, MulticastGroup, PortSettings, TableEntry
from weir.controlplane.errors import (
    MaybeLoadedError,
    NotPrimaryError,
    PartlyAppliedError,
    PipelineError,
    ReadBackError,
    ReadError,
    SwitchUnreachableError,
    TableFullError,
    WriteError,
    WrongDeviceError,
)
from weir.controlplane.following import FlowFollower
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.plan import make_plan
from weir.controlplane.targets import TARGETS
from weir_tests.controlplane.bfrt_files import compiler_output, program_schema
from weir_tests.controlplane.bfruntime_server import BfRuntimeServer, weir_server

HEAD = """\
name: chip
switch: {target: tofino}
hosts: {a: {port: 132}, b: {port: 140}, c: {port: 148}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
telemetry: {collectors: {near: {port: 156, address: 10.0.0.9, mac: "02:00:00:00:00:09"}}}
"""
ONE = "{name: one, rate: 1 Gbit/s, burst: 1 MB, match: [{from: a, to: b}, {from: a, dst_port: 80}]}"
FASTER = ONE.replace("1 Gbit", "2 Gbit")
TWO = (
    "{name: two, rate: 10 Mbit/s, burst: 64 kB, meter: tr3c, peak_rate: 20 Mbit/s, peak_burst: 128 kB, "
    "colour_aware: true, verdict: {yellow: remark_dscp 10}, match: [{from: b, to: a}]}"
)


def phase_of(*policers: str, head: str = HEAD) -> PhasePlan:
    experiment = parse_experiment(f"{head}policers: [{', '.join(policers)}]\n")
    return make_plan(experiment, attachment_of(experiment)).phases[0]


def control_of(
    server: BfRuntimeServer,
    part: Part = "primary",
    client_id: int = 2,
    compiled: Path | None = None,
    target: str = "tofino",
) -> SwitchControl:
    output = None if compiled is None else load_compiled(compiled)
    session = BfRtSession(server.address, 0, client_id, 5.0, part, output)
    return SwitchControl(server.address, target=TARGETS[target], connection=session)


def on(
    server: BfRuntimeServer, action: Callable[[SwitchControl], Awaitable[None]], target: str = "tofino"
) -> None:
    async def run() -> None:
        async with server, control_of(server, target=target) as control:
            await action(control)

    asyncio.run(run())


@pytest.mark.parametrize(("chip", "target"), [("tofino1", "tofino"), ("tofino2", "tofino2")])
def test_a_plan_is_on_the_switch_after_apply_and_a_second_one_writes_nothing(chip: str, target: str) -> None:
    head = HEAD.replace("target: tofino", f"target: {target}")
    server, phase = weir_server(chip), phase_of(ONE, TWO, head=head)

    async def apply(control: SwitchControl) -> None:
        assert await control.runs_pipeline()
        update = await control.apply(phase)
        assert len(update) == len(phase.entities)
        # Written are one update for each entity, and one more for the node of the multicast group.
        assert len(server.writes) == len(phase.entities) + 1
        server.writes.clear()
        assert len(await control.apply(phase)) == 0
        assert server.writes == []
        assert len(await control.difference(phase)) == 0

    on(server, apply, target)


def test_a_change_of_one_policer_writes_one_cell() -> None:
    server = weir_server()

    async def apply(control: SwitchControl) -> None:
        await control.apply(phase_of(ONE, TWO))
        server.writes.clear()
        await control.apply(phase_of(FASTER, TWO))
        assert server.writes == [("modify", "policer")]

    on(server, apply)


def test_entries_and_cells_are_in_the_chips_terms() -> None:
    server, phase = weir_server(), phase_of(ONE, TWO)

    async def apply(control: SwitchControl) -> None:
        await control.apply(phase)
        one = next(policer for policer in phase.policers if policer.name == "one")
        cell = server.store("policer").numbers()[one.index]
        assert cell == {
            "$METER_SPEC_CIR_KBPS": 1_000_000,
            "$METER_SPEC_PIR_KBPS": 1_000_000,
            "$METER_SPEC_CBS_KBITS": 8000,
            "$METER_SPEC_PBS_KBITS": 8000,
        }
        sessions = server.store("$mirror.cfg").numbers()
        assert sessions[1]["$ucast_egress_port"] == 156
        assert (sessions[1]["$direction"], sessions[1]["$session_enable"]) == ("BOTH", True)
        assert server.store("$pre.node").numbers()[1]["$DEV_PORT"] == [132, 140, 148]
        assert server.store("$pre.mgid").numbers()[1]["$MULTICAST_NODE_ID"] == [1]
        assert len(server.store("pre_colour").entries) == 8

    on(server, apply)


def test_the_entry_of_the_larger_priority_comes_first_on_the_chip() -> None:
    server, phase = weir_server(), phase_of(ONE, TWO)
    wanted = {entry.args: entry.priority for entry in phase.entities if is_classify(entry)}
    assert len(set(wanted.values())) > 1

    async def apply(control: SwitchControl) -> None:
        await control.apply(phase)
        store = server.store("classify")
        (number,) = (one["id"] for one in store.tree["key"] if one["name"] == "$MATCH_PRIORITY")
        on_chip = {
            store.values(entry)["cell"]: int.from_bytes(
                next(one.exact.value for one in entry.key.fields if one.field_id == number), "big"
            )
            for entry in store.entries.values()
        }
        by_cell = {dict(args)["cell"]: priority for args, priority in wanted.items()}
        assert sorted(on_chip, key=on_chip.__getitem__) == sorted(
            by_cell, key=by_cell.__getitem__, reverse=True
        )

    on(server, apply)


def is_classify(entity: Entity) -> bool:
    return isinstance(entity, TableEntry) and entity.table == "classify"


def test_counters_are_read_from_the_hardware() -> None:
    server, phase = weir_server(), phase_of(ONE)
    index = phase.policers[0].index

    async def read(control: SwitchControl) -> None:
        await control.apply(phase)
        server.store("policer_counter").counted = {index * 4: (10, 1000), index * 4 + 2: (3, 300)}  # type: ignore[attr-defined]
        server.store("met_counter").counted = {index: (13, 0)}  # type: ignore[attr-defined]
        server.store("drop_counter").counted = {101: (7, 700)}  # type: ignore[attr-defined]
        counters = (await control.read_policers(phase))["one"]
        assert (counters.green, counters.red) == (Count(10, 1000), Count(3, 300))
        assert counters.consistent
        assert await control.read_drops() == {101: 7}
        assert (await control.read_ports([132]))[132].sent == Count(0, 0)
        assert await control.read_reports_sent() == 0

    on(server, read)


@pytest.mark.parametrize(("before", "after"), [("", ONE), (ONE, f"{FASTER}, {TWO}"), (f"{ONE}, {TWO}", TWO)])
def test_whichever_write_fails_the_error_says_what_is_on_the_switch(before: str, after: str) -> None:
    """Each update is refused in turn, and the connection broken; the next apply completes the plan."""

    async def count() -> int:
        async with weir_server() as server, control_of(server) as control:
            await control.apply(phase_of(before))
            server.writes.clear()
            await control.apply(phase_of(after))
            return len(server.writes)

    async def fail(turn: int, broken: bool) -> None:
        async with weir_server() as server, control_of(server) as control:
            await control.apply(phase_of(before))
            tried = 0

            def refuse(_kind: str, _table: str, _entry: Any) -> str | None:
                nonlocal tried
                tried += 1
                server.drop_write = broken and tried > turn
                return "RESOURCE_EXHAUSTED" if tried == turn + 1 else None

            server.refuse = refuse
            phase = phase_of(after)
            total = len(await control.difference(phase))
            with pytest.raises(PartlyAppliedError) as caught:
                await control.apply(phase)
            left = len(await control.difference(phase))
            if not broken:
                assert isinstance(caught.value.cause, WriteError)
                assert caught.value.applied == total - left
                assert str(caught.value).startswith("the switch refused ")
            server.refuse, server.drop_write = (lambda *_: None), False
            await control.apply(phase)
            assert len(await control.difference(phase)) == 0

    async def each() -> None:
        for turn in range(await count()):
            for broken in (False, True):
                await fail(turn, broken)

    asyncio.run(each())


def test_a_group_whose_node_outlasted_it_is_made_again() -> None:
    server = weir_server()

    async def apply(control: SwitchControl) -> None:
        group = MulticastGroup(7, (132, 140))
        await control.session.write_batch([("insert", group)])
        server.refuse = lambda kind, table, _: (
            "INTERNAL" if (kind, table) == ("delete", "$pre.node") else None
        )
        with pytest.raises(WriteError, match="delete multicast group 7: INTERNAL: as told"):
            await control.session.write_batch([("delete", group)])
        server.refuse = lambda *_: None
        smaller = MulticastGroup(7, (140,))
        await control.session.write_batch([("insert", smaller)])
        assert server.store("$pre.node").numbers()[7]["$DEV_PORT"] == [140]
        server.writes.clear()
        await control.session.write_batch([("modify", group)])
        assert server.writes == [("modify", "$pre.node")]  # the group itself is not taken away
        await control.session.write_batch([("delete", group)])
        assert server.store("$pre.node").entries == {}

    on(server, apply)


def test_ports_are_added_once_and_then_only_what_differs_is_set() -> None:
    server = weir_server()
    head = HEAD.replace(
        "target: tofino", "target: tofino, address: 'bfruntime://192.0.2.1', port_settings: {%s}"
    )
    settings = "a: {speed: 100 Gbit/s, fec: reed_solomon}, near: {speed: 25 Gbit/s, autonegotiation: 'off'}"

    async def apply(control: SwitchControl) -> None:
        await control.apply(phase_of(ONE, head=head % settings))
        ports = server.store("$PORT")
        assert ports.numbers()[132]["$SPEED"] == "BF_SPEED_100G"
        assert ports.numbers()[156]["$AUTO_NEGOTIATION"] == "PM_AN_FORCE_DISABLE"
        assert ports.numbers()[156]["$PORT_ENABLE"] is True
        server.writes.clear()
        await control.apply(phase_of(ONE, head=head % settings))
        assert server.writes == []
        await control.apply(phase_of(ONE, head=head % settings.replace("'off'", "'on'")))
        assert server.writes == [("modify", "$PORT")]
        assert ports.flaps == 0  # type: ignore[attr-defined]
        await control.apply(phase_of(ONE, head=head % settings.replace("25 G", "10 G")))
        assert ports.flaps == 1  # type: ignore[attr-defined]
        # Ports without settings stay as they are.
        assert len(await control.apply(phase_of(ONE))) == 0
        assert ports.numbers().keys() == {132, 156}

    on(server, apply)


def test_a_program_is_loaded_and_bound_to_onto_a_switch_that_ran_another(tmp_path: Path) -> None:
    compiled, phase = compiler_output(tmp_path / "out"), phase_of(ONE)

    async def load() -> None:
        async with BfRuntimeServer({"other": b'{"tables": []}'}) as server:
            async with control_of(server, "reader", compiled=compiled) as control:
                assert not await control.runs_pipeline(or_another=True)
                assert len(await control.difference_when_loaded(phase)) == len(phase.entities)
            async with control_of(server, compiled=compiled) as control:
                with pytest.raises(
                    PipelineError, match=r"another pipeline \(other, which has no table forward \(none"
                ):
                    await control.runs_pipeline()
                await control.push_pipeline()
                await control.apply(phase)
                (loaded,) = server.loads
                assert (loaded.p4_name, loaded.bfruntime_info) == ("tofino1", program_schema())
                (profile,) = loaded.profiles
                assert (profile.binary, list(profile.pipe_scope)) == (b"\x00\xff\x01", [0, 1, 2, 3])
                assert [client.bound for client in server.clients.values()] == ["tofino1"]

    asyncio.run(load())


def test_a_program_loaded_again_starts_with_empty_tables(tmp_path: Path) -> None:
    compiled, phase = compiler_output(tmp_path / "out"), phase_of(ONE)

    async def load() -> None:
        async with weir_server() as server, control_of(server, compiled=compiled) as control:
            await control.apply(phase)
            await control.push_pipeline()
            assert len(await control.apply(phase)) == len(phase.entities)

    asyncio.run(load())


def test_a_program_compiled_otherwise_is_another_one(tmp_path: Path) -> None:
    other = compiler_output(
        tmp_path / "out", schema=program_schema().replace(b'"size": 16384', b'"size": 8192')
    )

    async def compare() -> None:
        async with weir_server() as server, control_of(server, compiled=other) as control:
            with pytest.raises(PipelineError, match="tofino1, which is weir's, but was compiled otherwise"):
                await control.runs_pipeline()

    asyncio.run(compare())


def test_a_refused_program_and_a_broken_connection_say_so(tmp_path: Path) -> None:
    compiled = compiler_output(tmp_path / "out")

    async def load() -> None:
        async with weir_server() as server, control_of(server, compiled=compiled) as control:
            server.refuse_program = "Invalid device config sent"
            with pytest.raises(PipelineError, match="refused the program: INVALID_ARGUMENT: Invalid device"):
                await control.push_pipeline()
            stop = asyncio.create_task(server.stop())
            with pytest.raises((MaybeLoadedError, SwitchUnreachableError)):
                await control.push_pipeline()
            await stop

    asyncio.run(load())


def test_a_switch_without_the_program_and_without_output_to_load_says_what_is_missing() -> None:
    async def read() -> None:
        async with BfRuntimeServer() as server, control_of(server, "reader") as control:
            assert not await control.runs_pipeline()
            with pytest.raises(PipelineError, match="does not run weir's program; valid: --compiled"):
                await control.difference_when_loaded(phase_of(ONE))

    asyncio.run(read())


def test_a_second_controller_is_refused_and_a_reader_is_not() -> None:
    async def share() -> None:
        async with weir_server() as server, control_of(server) as control:
            await control.apply(phase_of(ONE))
            with pytest.raises(NotPrimaryError, match="another controller owns program tofino1"):
                await control_of(server, client_id=3).__aenter__()
            with pytest.raises(NotPrimaryError, match=r"another controller .* with our client id 2"):
                await control_of(server, client_id=2).__aenter__()
            async with control_of(server, "reader") as reader:
                assert len(await reader.difference(phase_of(ONE))) == 0

    asyncio.run(share())


def test_a_backup_takes_over_when_the_primary_is_gone() -> None:
    async def take_over() -> None:
        async with weir_server() as server:
            primary = control_of(server)
            await primary.__aenter__()
            backup = control_of(server, "backup", client_id=1)
            waiting = asyncio.create_task(backup.__aenter__())
            async with asyncio.timeout(10):
                while len(server.clients) < 2:
                    await asyncio.sleep(0.01)
                assert not waiting.done()
                await primary.__aexit__()
                await waiting
            await backup.apply(phase_of(ONE))
            await backup.__aexit__()

    asyncio.run(take_over())


def test_a_switch_that_dies_is_named_at_the_next_request() -> None:
    async def die() -> None:
        async with weir_server() as server, control_of(server) as control:
            await server.stop()
            async with asyncio.timeout(10):
                with pytest.raises(SwitchUnreachableError):
                    await control.session.until_lost()
            with pytest.raises(SwitchUnreachableError, match=server.address):
                await control.difference(phase_of(ONE))

    asyncio.run(die())


def test_another_device_and_an_address_where_nothing_listens_are_named() -> None:
    async def connect() -> None:
        async with weir_server() as server:
            with pytest.raises(WrongDeviceError, match=r"what device 1 runs .*valid: the id of its chip"):
                await BfRtSession(server.address, 1, 2, 5.0).__aenter__()
        with pytest.raises(SwitchUnreachableError, match=f"no BfRuntime at {server.address}"):
            await control_of(server).__aenter__()

    asyncio.run(connect())


def test_values_that_read_back_differently_are_named() -> None:
    server, phase = weir_server(), phase_of(ONE)

    def garble(entry: Any) -> None:
        if entry.table_id == server.store("policer").tree["id"]:
            entry.data.fields[0].stream = (1).to_bytes(8, "big")

    server.garble = garble

    async def apply(control: SwitchControl) -> None:
        with pytest.raises(ReadBackError, match="meter policer cell 1: cir: expected 125000000, got 125"):
            await control.apply(phase)

    on(server, apply)


def test_an_answer_that_is_not_in_the_schema_is_an_error() -> None:
    server = weir_server()

    def garble(entry: Any) -> None:
        if entry.table_id == server.store("forward").tree["id"]:
            entry.data.action_id = 4711

    async def read(control: SwitchControl) -> None:
        await control.apply(phase_of(ONE))
        server.garble = garble
        with pytest.raises(ReadError, match=r"forward: an entry with the unknown action 4711"):
            await control.difference(phase_of(ONE))

    on(server, read)


def test_a_phase_that_does_not_fit_is_refused_before_any_write() -> None:
    server = BfRuntimeServer({"tofino1": program_schema().replace(b'"size": 1024', b'"size": 1')})

    async def apply(control: SwitchControl) -> None:
        with pytest.raises(TableFullError, match="needs 3 entries in table forward; valid: at most 1"):
            await control.apply(phase_of(ONE))
        assert server.writes == []

    on(server, apply)


def test_a_new_flow_is_announced_by_its_digest() -> None:
    server = weir_server()
    flow = {"src": 0x0A000001, "dst": 0x0A000002, "protocol": 6, "src_port": 1, "dst_port": 2, "base": 64}

    async def learn(control: SwitchControl) -> None:
        await control.session.announce_flows()
        await server.announce("flow_digest_t", flow)
        digest = await asyncio.wait_for(control.session.next_digest(), 10)
        assert (digest.digest_id, list(digest)) == ("flow_digest_t", [flow])

    on(server, learn)


def test_an_announced_flow_gets_an_entry_with_a_cell_of_its_own() -> None:
    server = weir_server()
    phase = phase_of(
        "{name: each, rate: 10 Mbit/s, burst: 64 kB, mode: per_flow_learned, cells: 64, flows: 8, "
        "match: [{from: a, to: b}]}"
    )
    (policer,) = phase.policers
    flow = {"src": 1, "dst": 2, "protocol": 6, "src_port": 3, "dst_port": 4, "base": policer.index}

    async def learn(control: SwitchControl) -> None:
        await control.apply(phase)
        follower = FlowFollower(control, phase)
        await follower.start()
        running = asyncio.create_task(follower.run())
        await server.announce("flow_digest_t", flow, flow)
        table = server.store("flow_policer")
        async with asyncio.timeout(10):
            while not table.entries:
                await asyncio.sleep(0.01)
        (entry,) = table.entries.values()
        assert table.values(entry)["cell"] in policer.learned_cells
        assert len(await control.learned_flows(phase)) == 1
        assert len(await control.difference(phase)) == 0  # a learned flow is no difference from the plan
        running.cancel()

    on(server, learn)


def test_a_register_is_set_in_all_pipes_and_read_from_each() -> None:
    async def registers() -> None:
        async with weir_server() as server, BfRtSession(server.address, 0, 2, 5.0) as session:
            await session.write_register("sequence", 1, 77)
            assert await session.read_register("sequence", 1) == (77, 77)
            assert await session.read_register("packet_number", 5) == (0, 0)
            with pytest.raises(WriteError, match="set register sequence cell 99999: INVALID_ARGUMENT"):
                await session.write_register("sequence", 99_999, 1)

    asyncio.run(registers())


def test_a_cell_to_which_nothing_was_written_is_written() -> None:
    server, phase = weir_server(), phase_of(ONE)

    async def apply(control: SwitchControl) -> None:
        update = await control.difference(phase)
        assert await control.read_meters(phase) == {}
        assert [entity for entity in update.modify if isinstance(entity, MeterCell)]
        assert not [entity for entity in update.insert if isinstance(entity, MeterCell | PortSettings)]
        await control.apply(phase)
        assert set(await control.read_meters(phase)) == {phase.policers[0].index}

    on(server, apply)


def test_an_address_that_only_a_relay_reaches_is_reached_through_it() -> None:
    server = weir_server()

    async def run() -> None:
        async with server, BfRtSession("192.0.2.1:50052", 0, 2, 5.0, via=server.address) as session:
            assert session.address == "192.0.2.1:50052"
            assert (await session.running()).ours

    asyncio.run(run())
