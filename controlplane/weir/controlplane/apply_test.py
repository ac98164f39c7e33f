# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from finsy import GRPCStatusCode
from finsy.proto import p4r

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import Attachment, CollectorEndpoint, HostPort
from weir.controlplane.config import HostConfig, SwitchConfig, load_experiment
from weir.controlplane.entities import Count, Entity, Link, changes
from weir.controlplane.errors import (
    NotPrimaryError,
    PartlyAppliedError,
    PipelineError,
    PlanError,
    ReadBackError,
    SwitchUnreachableError,
    WriteError,
)
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.plan import Plan, make_plan
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"
NO_PROXY = "no_grpc_proxy"
SCHEMA = load_pipeline().schema


def demo_plan(target: str = "softswitch") -> Plan:
    names = ("client", "server1", "server2", "background1", "background2")
    hosts = {name: HostPort(n, f"02:00:00:00:00:{n:02x}", f"10.0.0.{n}") for n, name in enumerate(names, 1)}
    collector = CollectorEndpoint(
        9, "02:00:00:00:00:09", "10.0.0.9", 32766, "02:00:00:00:00:fe", "10.0.0.254"
    )
    experiment = load_experiment(DEMO)
    changed = {"switch": SwitchConfig(target=target), "hosts": dict.fromkeys(experiment.hosts, HostConfig())}
    experiment = experiment.model_copy(update=changed)
    return make_plan(experiment, Attachment(hosts, {"collector": collector}))


def of_p4runtime(phase: PhasePlan) -> list[Entity]:
    """The entities of a phase except links, which are all default here and need no port."""
    return [entity for entity in phase.entities if not isinstance(entity, Link)]


def on(
    server: P4RuntimeServer, action: Callable[[SwitchControl], Awaitable[None]], plan: Plan | None = None
) -> None:
    target = None if plan is None else plan.target

    async def session() -> None:
        async with server, SwitchControl(server.address, target=target) as control:
            await control.push_pipeline()
            await action(control)

    asyncio.run(session())


def test_a_phase_is_on_the_switch_after_apply() -> None:
    server, plan = P4RuntimeServer(), demo_plan()

    async def apply(control: SwitchControl) -> None:
        update = await control.apply(plan.phase("shared"))
        assert len(update) == len(of_p4runtime(plan.phase("shared")))
        assert len(await control.difference(plan.phase("shared"))) == 0

    on(server, apply)
    # Entries of 5 hosts, 4 policed flows, a verdict, a report, the collector; then group, session and cell.
    assert len([update for update in server.writes if update.entity.HasField("table_entry")]) == 12
    assert len(server.writes) == 15


def test_rates_and_bursts_reach_the_wire_in_bytes() -> None:
    server, plan = P4RuntimeServer(), demo_plan()

    async def apply(control: SwitchControl) -> None:
        await control.apply(plan.phase("shared"))

    on(server, apply)
    (meter,) = [
        update.entity.meter_entry for update in server.writes if update.entity.HasField("meter_entry")
    ]
    config = meter.config
    assert (config.cir, config.pir) == (5_000_000, 5_000_000)
    assert (config.cburst, config.pburst) == (100_000, 100_000)


def test_an_http_proxy_is_not_used_for_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.org")
    monkeypatch.delenv(NO_PROXY, raising=False)

    async def apply(control: SwitchControl) -> None:
        assert len(await control.apply(demo_plan().phase("shared"))) > 0

    on(P4RuntimeServer(), apply)
    assert os.environ[NO_PROXY] == "example.org,127.0.0.1"


def test_a_second_apply_writes_nothing() -> None:
    server, plan = P4RuntimeServer(), demo_plan()

    async def twice(control: SwitchControl) -> None:
        await control.apply(plan.phase("shared"))
        before = len(server.writes)
        assert len(await control.apply(plan.phase("shared"))) == 0
        assert len(server.writes) == before

    on(server, twice)


def test_no_packet_goes_unpoliced_between_phases() -> None:
    """Cells, verdicts and reports of the new phase are inserted first, those of the old one deleted last."""
    server, plan = P4RuntimeServer(), demo_plan()
    classify = SCHEMA.tables["classify"].id

    async def both(control: SwitchControl) -> None:
        await control.apply(plan.phase("shared"))
        server.writes.clear()
        await control.apply(plan.phase("separate"))

    on(server, both)
    steps = [(update.type, update.entity.table_entry.table_id == classify) for update in server.writes]
    moves = [index for index, (_, is_classify) in enumerate(steps) if is_classify]
    assert moves == list(range(moves[0], moves[-1] + 1))
    assert all(kind != p4r.Update.DELETE for kind, _ in steps[: moves[0]])
    assert [kind for kind, _ in steps[moves[-1] + 1 :]] == [p4r.Update.DELETE, p4r.Update.DELETE]
    order = [steps[index][0] for index in moves]
    assert order == [p4r.Update.MODIFY] * 2 + [p4r.Update.INSERT] * 2 + [p4r.Update.DELETE] * 2


def test_counters_are_summed_per_policer_and_colour() -> None:
    server, plan = P4RuntimeServer(), demo_plan()
    colours, met = SCHEMA.counters["policer_counter"].id, SCHEMA.counters["met_counter"].id
    # common has cell 1: its counters are 4 (green), 5 (yellow), 6 (red)
    server.counters = {(colours, 4): (70, 7000), (colours, 6): (3, 300), (met, 1): (73, 0)}
    server.counters[(SCHEMA.counters["report_counter"].id, 1)] = (3, 0)

    async def read(control: SwitchControl) -> None:
        policers = await control.read_policers(plan.phase("shared"))
        common = policers["common"]
        assert (common.green, common.yellow, common.red) == (Count(70, 7000), Count(0, 0), Count(3, 300))
        assert common.consistent
        assert await control.read_reports_sent() == 3
        assert (await control.read_counters(plan.phase("shared")))["common"] == {
            "counters": {
                "green": {"packets": 70, "bytes": 7000},
                "yellow": {"packets": 0, "bytes": 0},
                "red": {"packets": 3, "bytes": 300},
            },
            "packets_met": 73,
        }

    on(server, read)


def test_a_refused_update_is_named_with_the_reason_of_the_switch() -> None:
    verdict = SCHEMA.tables["verdict"].id

    def refuse(update: p4r.Update) -> tuple[GRPCStatusCode, str] | None:
        if update.entity.table_entry.table_id == verdict:
            return GRPCStatusCode.RESOURCE_EXHAUSTED, "table full"
        return None

    async def apply(control: SwitchControl) -> None:
        with pytest.raises(PartlyAppliedError) as error:
            await control.apply(demo_plan().phase("shared"))
        refused = "insert table verdict [cell=1 colour=2] priority 1: RESOURCE_EXHAUSTED: table full"
        assert str(error.value) == f"the switch refused {refused}; nothing was changed"
        assert isinstance(error.value.cause, WriteError)
        assert [update.code for update in error.value.cause.updates] == ["RESOURCE_EXHAUSTED"]

    server = P4RuntimeServer(refuse=refuse)
    on(server, apply)
    assert server.writes == []


@pytest.mark.parametrize(("before", "after"), [(None, "shared"), ("shared", "separate")])
def test_whichever_write_fails_the_error_says_what_is_on_the_switch(before: str | None, after: str) -> None:
    """Each update is refused in turn: inserts, modifications, deletions. A second apply completes the rest.

    `faults_test.py` does the same with real switches, including weir-switch's single atomic write.
    """
    plan = demo_plan("bmv2")
    old = () if before is None else of_p4runtime(plan.phase(before))
    total = len(changes(old, of_p4runtime(plan.phase(after))))
    for failing in range(total):
        fail_at(failing, total, plan, before, plan.phase(after))


def without_replicas(update: p4r.Update) -> bool:
    """Whether it makes or deletes an empty group or session, which no plan has: bmv2 forgets its replicas."""
    engine = update.entity.packet_replication_engine_entry
    return update.entity.HasField("packet_replication_engine_entry") and not (
        engine.multicast_group_entry.replicas or engine.clone_session_entry.replicas
    )


def fail_at(failing: int, total: int, plan: Plan, before: str | None, phase: PhasePlan) -> None:
    server, asked = P4RuntimeServer(), itertools.count()

    def refuse(update: p4r.Update) -> tuple[GRPCStatusCode, str] | None:
        if without_replicas(update):
            return None
        return (GRPCStatusCode.INTERNAL, "injected") if next(asked) == failing else None

    async def apply(control: SwitchControl) -> None:
        if before is not None:
            await control.apply(plan.phase(before))
            server.writes.clear()
        server.refuse = refuse
        with pytest.raises(PartlyAppliedError) as error:
            await control.apply(phase)
        written = len([update for update in server.writes if not without_replicas(update)])
        if written == 0:
            assert str(error.value).endswith(": INTERNAL: injected; nothing was changed")
        else:
            said = f"; {written} of {total} updates are on the switch, the others are not;"
            assert said in str(error.value)
        server.refuse = lambda _: None
        assert len(await control.apply(phase)) == total - written
        assert len(await control.difference(phase)) == 0

    on(server, apply, plan)


def test_new_groups_and_sessions_are_emptied_first_where_a_switch_keeps_replicas() -> None:
    """Loading a program leaves them on bmv2; `loaded_again_test.py` counts packets on switches."""
    plan = demo_plan("bmv2")

    def steps(server: P4RuntimeServer) -> list[tuple[int, str]]:
        return [
            (update.type, str(update.entity.packet_replication_engine_entry.WhichOneof("type")))
            for update in server.writes
            if without_replicas(update)
        ]

    for target, kept in ((plan, True), (demo_plan(), False)):
        server = P4RuntimeServer()

        async def apply(
            control: SwitchControl, server: P4RuntimeServer = server, target: Plan = target, kept: bool = kept
        ) -> None:
            assert len(await control.apply(target.phase("shared"))) == 15
            kinds = ("multicast_group_entry", "clone_session_entry")
            wanted = [(kind, name) for kind in (p4r.Update.INSERT, p4r.Update.DELETE) for name in kinds]
            assert steps(server) == (wanted if kept else [])
            assert all(without_replicas(update) == kept for update in server.writes[:4])
            server.writes.clear()
            # The next phase has the same groups and sessions, whose packets must not be interrupted.
            assert len(await control.apply(target.phase("separate"))) > 0
            assert steps(server) == []

        on(server, apply, target)


@pytest.mark.parametrize("operation", [p4r.Update.INSERT, p4r.Update.DELETE])
def test_a_switch_that_does_not_forget_replicas_has_nothing_of_the_plan(operation: int) -> None:
    server, plan = P4RuntimeServer(), demo_plan("bmv2")

    def refuse(update: p4r.Update) -> tuple[GRPCStatusCode, str] | None:
        refused = without_replicas(update) and update.type == operation
        return (GRPCStatusCode.INTERNAL, "injected") if refused else None

    async def apply(control: SwitchControl) -> None:
        server.refuse = refuse
        with pytest.raises(
            PartlyAppliedError, match=r": INTERNAL: injected.*; nothing was changed$"
        ) as error:
            await control.apply(plan.phase("shared"))
        assert error.value.applied == 0
        assert all(without_replicas(update) for update in server.writes)
        server.refuse = lambda _: None
        assert len(await control.apply(plan.phase("shared"))) == 15
        assert len(await control.difference(plan.phase("shared"))) == 0

    on(server, apply, plan)


def test_a_connection_that_breaks_during_a_write_leaves_the_state_unknown() -> None:
    server = P4RuntimeServer()

    async def die(control: SwitchControl) -> None:
        server.drop_write = True
        said = "; at least 0 of 15 updates are on the switch, the others are not known; "
        with pytest.raises(PartlyAppliedError, match=said):
            await control.apply(demo_plan().phase("shared"))

    on(server, die)


def test_a_switch_that_loses_its_pipeline_before_it_is_read_back_is_an_error() -> None:
    server = P4RuntimeServer()

    def forget(_: p4r.Update) -> None:
        server.config = None

    async def apply(control: SwitchControl) -> None:
        server.refuse = forget
        with pytest.raises(PartlyAppliedError, match="; all 15 updates were written but not read back"):
            await control.apply(demo_plan().phase("shared"))

    on(server, apply)


def test_each_field_that_reads_back_differently_is_named() -> None:
    def garble(entity: p4r.Entity) -> None:
        if entity.meter_entry.config.cir:
            entity.meter_entry.config.cir = entity.meter_entry.config.pir = 4_999_936

    async def apply(control: SwitchControl) -> None:
        with pytest.raises(ReadBackError) as error:
            await control.apply(demo_plan().phase("shared"))
        assert str(error.value) == (
            "the switch reads back differently: meter policer cell 1: cir: expected 5000000, got 4999936; "
            "meter policer cell 1: pir: expected 5000000, got 4999936"
        )

    on(P4RuntimeServer(garble=garble), apply)


def test_a_refused_pipeline_says_why() -> None:
    server = P4RuntimeServer(refuse_pipeline="table forward has id 1 in the P4Info and 2 in the program")

    async def push() -> None:
        async with server, SwitchControl(server.address) as control:
            with pytest.raises(PipelineError) as error:
                await control.push_pipeline()
            assert str(error.value) == (
                f"the switch at {server.address} refused the pipeline: "
                "INVALID_ARGUMENT: table forward has id 1 in the P4Info and 2 in the program"
            )

    asyncio.run(push())


def test_a_switch_without_a_pipeline_says_so() -> None:
    async def apply() -> None:
        async with P4RuntimeServer() as server, SwitchControl(server.address) as control:
            with pytest.raises(PipelineError) as error:
                await control.apply(demo_plan().phase("shared"))
            assert str(error.value) == (
                f"the switch at {server.address} is not ready: no forwarding pipeline config; "
                "valid: push the pipeline first"
            )

    asyncio.run(apply())


def test_a_primary_with_a_higher_election_id_is_named() -> None:
    async def connect() -> None:
        async with P4RuntimeServer(primary_election_id=7) as server:
            with pytest.raises(NotPrimaryError) as error:
                await SwitchControl(server.address).__aenter__()
            assert str(error.value) == (
                f"another controller is primary of device 1 at {server.address} (election id 7, ours 1); "
                "valid: stop it, or use a higher election id"
            )

    asyncio.run(connect())


def test_the_election_id_of_a_disconnected_primary_is_taken_over() -> None:
    server = P4RuntimeServer(disconnected_election_id=9)

    async def apply(control: SwitchControl) -> None:
        assert len(await control.apply(demo_plan().phase("shared"))) > 0

    on(server, apply)
    assert server.primary_election_id == 9


def test_an_address_where_nothing_listens_is_named() -> None:
    async def connect() -> None:
        async with P4RuntimeServer() as server:
            address = server.address
        with pytest.raises(SwitchUnreachableError, match=f"no P4Runtime at {address}: "):
            await SwitchControl(address).__aenter__()

    asyncio.run(connect())


def test_a_switch_that_dies_is_named_at_the_next_request() -> None:
    server = P4RuntimeServer()

    async def die(control: SwitchControl) -> None:
        await server.stop()
        with pytest.raises(SwitchUnreachableError):
            await control.apply(demo_plan().phase("shared"))

    on(server, die)


def test_a_phase_that_does_not_fit_its_tables_is_refused_before_any_write() -> None:
    plan = demo_plan()
    size = SCHEMA.tables["classify"].size
    phase = plan.phase("shared")
    (one,) = [entity for entity in phase.entities if "classify [dst=10.0.0.1 src=10.0.0.2]" in entity.key]
    with pytest.raises(PlanError) as error:
        load_pipeline().check_fits("shared", [one] * (size + 1))
    assert (
        str(error.value) == f"phase shared needs {size + 1} entries in table classify; valid: at most {size}"
    )


def test_a_bucket_quantized_by_a_tofino_counts_as_applied() -> None:
    plan = demo_plan("tofino")
    tofino = plan.target

    def quantized(entity: p4r.Entity) -> None:
        config = entity.meter_entry.config
        if config.cir:
            config.cir, config.cburst = config.pir, config.pburst = tofino.read_back(
                config.cir, config.cburst
            )

    async def twice(control: SwitchControl) -> None:
        assert len(await control.apply(plan.phase("shared"))) > 0
        assert len(await control.apply(plan.phase("shared"))) == 0
        meters = await control.read_meters(plan.phase("shared"))
        assert meters[1].burst_bytes == 99_875 != plan.phase("shared").policers[0].burst_bytes

    on(P4RuntimeServer(garble=quantized), twice, plan)
