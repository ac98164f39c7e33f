# SPDX-License-Identifier: Apache-2.0
"""A run's controller of a bf_switchd, on the server of the tests: what it starts with, counts and refuses.

A run with packets is in `cli/weir/cli/bfruntime_run_test.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import HostPort, attachment_of
from weir.controlplane.config import ExperimentConfig, parse_experiment
from weir.controlplane.entities import Match, TableEntry
from weir.controlplane.errors import NotPrimaryError, PipelineError, ReadError, SwitchUnreachableError
from weir.controlplane.plan import FIRST_COLLECTOR, Plan, make_plan
from weir.runner.phase import run_phase
from weir.runner.switch_by_address import SwitchByAddress
from weir.runner.switch_control import control_of, start_afresh
from weir.topo.interfaces import InterfaceCounters
from weir.topo.stop import StopToken
from weir.topo.traffic import TrafficResult
from weir_tests.controlplane.bfruntime_server import BfRuntimeServer, weir_server

EXPERIMENT = """\
name: chip
switch: {target: tofino, address: "ADDRESS"}
hosts: {a: {port: 132}, b: {port: 140}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
telemetry: {collectors: {near: {port: 148, address: 10.0.0.9, mac: "02:00:00:00:00:09"}}}
policers:
- {name: plain, rate: 8 Mbit/s, burst: 20 kB, match: [{to: b}]}
- {name: each, rate: 8 Mbit/s, burst: 20 kB, mode: per_flow_learned, flows: 4, match: [{to: a}]}
"""
CARDS = {132: "a:eth1", 140: "b:eth1", 148: "collector:eth1"}


class Switch(SwitchByAddress):
    """Its cables' other ends count what the test says."""

    def __init__(self, experiment: ExperimentConfig) -> None:
        hosts = {
            name: HostPort(host.port or 0, f"02:00:00:00:00:0{number}", f"10.0.0.{number}")
            for number, (name, host) in enumerate(experiment.hosts.items(), 1)
        }
        super().__init__(experiment, hosts, CARDS)
        self.quiet_s = 0.0
        self.cards = dict.fromkeys(CARDS, InterfaceCounters(0, 0, 0, 0))

    def _card_counters(self) -> dict[int, InterfaceCounters]:
        return self.cards


Action = Callable[[SwitchControl, Switch, Plan], Awaitable[None]]


def on(server: BfRuntimeServer, action: Action) -> None:
    """Run the action with the run's controller of the server."""

    async def run() -> None:
        async with server:
            experiment = parse_experiment(EXPERIMENT.replace("ADDRESS", f"bfruntime://{server.address}"))
            plan, switch = make_plan(experiment, attachment_of(experiment)), Switch(experiment)
            async with control_of(experiment, plan, switch.address) as control:
                await action(control, switch, plan)

    asyncio.run(run())


def count(server: BfRuntimeServer, counter: str, **cells: tuple[int, int]) -> None:
    """Let a counter have packets and bytes by index, such as `_4=(3, 300)`."""
    server.store(counter).counted = {int(name[1:]): value for name, value in cells.items()}  # type: ignore[attr-defined]


def test_counters_of_a_run_begin_at_zero_without_loading_the_program() -> None:
    server = weir_server()

    async def check(control: SwitchControl, switch: Switch, plan: Plan) -> None:
        (phase,) = plan.phases
        (cell,) = (policer.index for policer in phase.policers if policer.name == "plain")
        green = f"_{4 * cell}"
        count(server, "policer_counter", **{green: (7, 700)})
        count(server, "met_counter", **{f"_{cell}": (7, 700)})
        count(server, "report_counter", **{f"_{FIRST_COLLECTOR}": (5, 500)})
        await switch.admit(control)
        notes = await start_afresh(control, plan, loads=False)
        assert notes == ["the Tofino keeps its program; counters are those since the run began"]
        await control.apply(phase)
        counted = await control.read_policers(phase)
        assert (counted["plain"].green.packets, counted["plain"].packets_met) == (0, 0)
        assert await control.read_reports_sent() == 0
        count(server, "policer_counter", **{green: (10, 1000)})
        count(server, "met_counter", **{f"_{cell}": (10, 1000)})
        count(server, "report_counter", **{f"_{FIRST_COLLECTOR}": (6, 600)})
        counted = await control.read_policers(phase)
        assert (counted["plain"].green.packets, counted["plain"].green.bytes) == (3, 300)
        assert counted["plain"].consistent
        assert await control.read_reports_sent() == 1
        assert server.loads == []

    on(server, check)


def test_a_counter_that_goes_back_is_an_error_and_not_a_negative_count() -> None:
    server = weir_server()

    async def check(control: SwitchControl, _: Switch, plan: Plan) -> None:
        count(server, "report_counter", **{f"_{FIRST_COLLECTOR}": (5, 500)})
        await start_afresh(control, plan, loads=False)
        count(server, "report_counter")
        with pytest.raises(ReadError, match=r"report_counter index \d+ .* went back from 5 to 0 packets"):
            await control.read_reports_sent()

    on(server, check)


def test_flows_that_an_earlier_run_learned_are_deleted() -> None:
    server = weir_server()

    async def check(control: SwitchControl, _: Switch, plan: Plan) -> None:
        (phase,) = plan.phases
        await control.apply(phase)
        (cells,) = (policer.learned_cells for policer in phase.policers if policer.learned_cells)
        key = {"dst": 1, "dst_port": 2, "protocol": 6, "src": 3, "src_port": 4}
        matches = tuple(Match(name, value) for name, value in key.items())
        flow = TableEntry("flow_policer", matches, "set_flow_cell", (("cell", cells[0]),))
        await control.session.write_batch([("insert", flow)])
        assert len(await control.learned_flows(phase)) == 1
        notes = await start_afresh(control, plan, loads=False)
        assert notes[1:] == ["entries of flows that an earlier run had learned, now deleted: 1"]
        assert await control.learned_flows(phase) == []
        assert server.store("flow_policer").entries == {}

    on(server, check)


def test_what_each_cable_carried_is_counted_since_the_run_began(tmp_path: Any) -> None:
    server = weir_server()

    async def check(control: SwitchControl, switch: Switch, plan: Plan) -> None:
        count(server, "ingress_port_counter", _132=(50, 5000))
        count(server, "egress_port_counter", _140=(40, 4000))
        await start_afresh(control, plan, loads=False)
        (note,) = await switch.configure(control)
        assert note.startswith(f"the switch at {server.address} was started by others and runs on; hosts are")
        count(server, "ingress_port_counter", _132=(58, 5800))
        count(server, "egress_port_counter", _140=(45, 4500))
        switch.cards = switch.cards | {
            132: InterfaceCounters(rx_packets=0, rx_bytes=0, tx_packets=10, tx_bytes=1000),
            140: InterfaceCounters(rx_packets=4, rx_bytes=400, tx_packets=0, tx_bytes=0),
        }
        await switch.read(control)
        ports = {port.port: port for port in switch.account(tmp_path / "none").ports}
        # Of 10 frames of a's card the program met 8; of 5 that it sent to b, the card got 4.
        assert (ports[132].rx_packets, ports[132].rx_overruns) == (8, 2)
        assert (ports[140].tx_packets, ports[140].tx_errors) == (4, 1)
        assert "queue_drops" not in ports[140].model_fields_set  # the switch does not account for its queues
        assert (ports[148].rx_overruns, ports[148].tx_errors) == (0, 0)

    on(server, check)


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (
            BfRuntimeServer(),
            "runs no program, and a run loads none on a Tofino, as that takes all ports down; valid: a "
            "switch with weir's program, such as after `weir apply --compiled DIR --load-pipeline`",
        ),
        (
            BfRuntimeServer({"other": b'{"tables": [], "learn_filters": []}'}),
            "runs another program, which a run does not replace; valid: a switch with weir's, such as "
            "after `weir apply --compiled DIR --load-pipeline`",
        ),
    ],
    ids=["none", "another"],
)
def test_a_switch_without_weirs_program_is_refused(server: BfRuntimeServer, text: str) -> None:
    async def check(control: SwitchControl, switch: Switch, _: Plan) -> None:
        with pytest.raises(PipelineError) as error:
            await switch.admit(control)
        assert str(error.value) == f"the switch at {server.address} {text}"

    on(server, check)
    assert server.loads == []


def test_a_program_that_another_controller_owns_is_refused() -> None:
    server = weir_server()

    async def check(_: SwitchControl, switch: Switch, plan: Plan) -> None:
        experiment = parse_experiment(EXPERIMENT.replace("ADDRESS", f"bfruntime://{server.address}"))
        with pytest.raises(NotPrimaryError):
            async with control_of(experiment, plan, switch.address):
                pass

    on(server, check)


def test_the_program_is_free_after_the_run() -> None:
    server = weir_server()

    async def nothing(control: SwitchControl, switch: Switch, plan: Plan) -> None:
        await start_afresh(control, plan, loads=False)

    on(server, nothing)
    on(server, nothing)  # the first one's client id and program are free again


def test_a_connection_that_is_lost_while_flows_run_ends_the_run() -> None:
    server = weir_server()

    async def check(control: SwitchControl, switch: Switch, plan: Plan) -> None:
        await start_afresh(control, plan, loads=False)
        (phase,) = plan.phases
        await control.apply(phase)
        stop, loop = StopToken(), asyncio.get_running_loop()

        def flows(*, on_start: Callable[[], None]) -> TrafficResult:
            on_start()
            asyncio.run_coroutine_threadsafe(server.stop(), loop)
            stop.wait(30)
            stop.raise_if_stopped()
            raise AssertionError("the flows were not stopped")

        with pytest.raises(SwitchUnreachableError, match=re.escape(server.address)):
            await run_phase(control, phase, flows, [control.session.until_lost], stop)

    on(server, check)
