# SPDX-License-Identifier: Apache-2.0
"""A run's controller of a Tofino over P4Runtime, on the server of the tests, which has the compiler's P4Info.

A run with packets is in `cli/weir/cli/bfruntime_run_test.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from finsy.proto import p4i, p4r
from google.protobuf import text_format

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.errors import PipelineError
from weir.controlplane.plan import FIRST_COLLECTOR, Plan, make_plan
from weir.controlplane.shipped import pipeline_directory
from weir.runner.bfruntime_run_test import EXPERIMENT, Switch
from weir.runner.switch_control import control_of, start_afresh
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

Action = Callable[[SwitchControl, Switch, Plan], Awaitable[None]]


def config(chip: str = "tofino1") -> p4r.ForwardingPipelineConfig:
    """weir's program as a switch tells it: without what it was loaded from."""
    text = (pipeline_directory() / f"{chip}.p4info.txtpb").read_text()
    return p4r.ForwardingPipelineConfig(p4info=text_format.Parse(text, p4i.P4Info()))


def on(server: P4RuntimeServer, action: Action) -> None:
    """Run the action with the run's controller of the server."""

    async def run() -> None:
        async with server:
            experiment = parse_experiment(EXPERIMENT.replace("ADDRESS", server.address))
            plan, switch = make_plan(experiment, attachment_of(experiment)), Switch(experiment)
            async with control_of(experiment, plan, switch.address) as control:
                await action(control, switch, plan)

    asyncio.run(run())


def test_the_phase_is_written_with_the_ids_of_the_program_that_runs() -> None:
    server = P4RuntimeServer(config=config())
    (report_counter,) = (
        counter.preamble.id
        for counter in config().p4info.counters
        if counter.preamble.alias == "report_counter"
    )

    async def check(control: SwitchControl, switch: Switch, plan: Plan) -> None:
        (phase,) = plan.phases
        server.counters[report_counter, FIRST_COLLECTOR] = 5, 500
        await switch.admit(control)
        notes = await start_afresh(control, plan, loads=False)
        assert notes == ["the Tofino keeps its program; counters are those since the run began"]
        assert await control.apply(phase)
        assert len(await control.apply(phase)) == 0
        server.counters[report_counter, FIRST_COLLECTOR] = 7, 700
        assert await control.read_reports_sent() == 2

    on(server, check)
    assert server.config is not None
    assert server.config.p4info == config().p4info
    tables = {table.preamble.id for table in config().p4info.tables}
    assert {
        one.entity.table_entry.table_id for one in server.writes if one.entity.HasField("table_entry")
    } < tables


OTHER = p4r.ForwardingPipelineConfig(p4info=p4i.P4Info(pkg_info=p4i.PkgInfo(arch="tna")))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "runs no program, and a run loads none on a Tofino, as that takes all ports down; valid: a "),
        (OTHER, "runs another program, which a run does not replace; valid: a "),
    ],
    ids=["none", "another"],
)
def test_a_switch_without_weirs_program_is_refused(
    found: p4r.ForwardingPipelineConfig | None, text: str
) -> None:
    server = P4RuntimeServer(config=found)

    async def check(control: SwitchControl, switch: Switch, _: Plan) -> None:
        with pytest.raises(PipelineError) as error:
            await switch.admit(control)
        assert str(error.value) == (
            f"the switch at {server.address} {text}switch with weir's program, such as after "
            "`weir apply --compiled DIR --load-pipeline`"
        ).replace("weir's program, such", "weir's, such" if found else "weir's program, such")
        with pytest.raises(PipelineError, match="does not run weir's program"):
            _ = control.session.program
        with pytest.raises(PipelineError, match="no program to load"):
            await control.push_pipeline()

    on(server, check)
    assert server.writes == []
