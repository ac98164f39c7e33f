# SPDX-License-Identifier: Apache-2.0
"""Meters read back as the clock of a Tofino 1 has them: full speed, the model's, and slower parts'."""

import asyncio
from dataclasses import replace

import pytest

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.config import parse_experiment
from weir.controlplane.plan import make_plan
from weir.controlplane.targets import TARGETS
from weir.controlplane.targets.tofino import TOFINO, TOFINO2, Tofino
from weir_tests.controlplane.bfrt_tables import Meter
from weir_tests.controlplane.bfruntime_server import weir_server

ONE = """\
name: chip
switch: {target: tofino}
hosts: {a: {port: 132}, b: {port: 140}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
telemetry: {collectors: {near: {port: 156, address: 10.0.0.9, mac: "02:00:00:00:00:09"}}}
policers: [{name: one, rate: 1 Gbit/s, burst: 1 MB, match: [{from: a, to: b}]}]
"""


def chip_of(clock_hz: int) -> Tofino:
    return replace(TOFINO, clock_hz=clock_hz, other_clocks_hz=())


def changed(clock_hz: int, *texts: str) -> list[int]:
    """How many changes each apply makes on a chip with this clock."""
    server = weir_server()
    meter = server.store("policer")
    assert isinstance(meter, Meter)
    meter.chip = chip_of(clock_hz)
    experiments = [parse_experiment(text) for text in texts]
    phases = [make_plan(one, attachment_of(one)).phases[0] for one in experiments]

    async def apply(control: SwitchControl) -> list[int]:
        found = []
        for phase in phases:
            found.append(len(await control.difference(phase)))
            await control.apply(phase)
        return found

    async def run() -> list[int]:
        async with server:
            session = BfRtSession(server.address, 0, 2, 5.0)
            async with SwitchControl(server.address, target=TARGETS["tofino"], connection=session) as control:
                return await apply(control)

    return asyncio.run(run())


@pytest.mark.parametrize("clock_hz", [TOFINO.clock_hz, *TOFINO.other_clocks_hz])
def test_a_second_apply_changes_nothing_whatever_the_clock(clock_hz: int) -> None:
    first, again, faster = changed(clock_hz, ONE, ONE, ONE.replace("1 Gbit", "2 Gbit"))
    assert first > 1
    assert (again, faster) == (0, 1)


@pytest.mark.parametrize(
    ("rate_bytes_per_s", "read"), [(125_000_000, 124_741_750), (62_500_000, 62_370_875)], ids=str
)
def test_the_model_reads_back_what_its_driver_was_seen_to(rate_bytes_per_s: int, read: int) -> None:
    variants = [variant.read_back(rate_bytes_per_s, 1_000_000) for variant in TOFINO.variants()]
    assert variants[1] == (read, 999_500)
    assert variants[0] == TOFINO.read_back(rate_bytes_per_s, 1_000_000) != variants[1]


def test_a_tofino2_has_one_clock() -> None:
    assert TOFINO2.variants() == (TOFINO2,)
