# SPDX-License-Identifier: Apache-2.0
"""The account of a switch that others have started, with counters that move while they are read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import HostPort
from weir.controlplane.config import parse_experiment
from weir.controlplane.counters import PortCounters
from weir.controlplane.entities import Count
from weir.controlplane.links_service import PortState
from weir.runner.switch_by_address import SwitchByAddress
from weir.topo.interfaces import InterfaceCounters

EXPERIMENT = """\
name: x
switch: {address: 192.0.2.1:9559}
hosts: {client: {}, server: {}}
flows: [{name: f, from: server, to: client, congestion_control: cubic, duration: 5 s}]
"""
HOSTS = {
    name: HostPort(port, f"02:00:00:00:00:0{port}", f"10.0.0.{port}")
    for port, name in enumerate(("client", "server"), 1)
}


class Lab:
    """Frames that hosts have sent, by switch port; `late` ones come right after a reading of the program."""

    def __init__(self) -> None:
        self.into = {1: 100, 2: 200}
        self.lost = {1: 0, 2: 0}
        self.late: list[int] = []

    def program(self) -> dict[int, PortCounters]:
        found = {
            port: PortCounters(_count(sent - self.lost[port]), _count(0)) for port, sent in self.into.items()
        }
        if self.late:
            self.into[self.late.pop(0)] += 1
        return found

    def cards(self) -> dict[int, InterfaceCounters]:
        return {port: InterfaceCounters(0, 0, sent, sent * 60) for port, sent in self.into.items()}


def _count(packets: int) -> Count:
    return Count(packets, packets * 60)


class Control:
    """As much of a switch's control as its account uses."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    async def read_reports_sent(self) -> int:
        return 0

    async def read_ports(self, _numbers: list[int]) -> dict[int, PortCounters]:
        return self.lab.program()

    async def read_links(self) -> dict[int, PortState]:
        return {}


class Switch(SwitchByAddress):
    def __init__(self, lab: Lab) -> None:
        super().__init__(parse_experiment(EXPERIMENT), HOSTS, {1: "card1", 2: "card2"})
        self.lab = lab
        self.quiet_s = 0.0

    def _card_counters(self) -> Mapping[int, InterfaceCounters]:
        return self.lab.cards()


def overruns(lab: Lab, tmp_path: Path, *, lost: int = 0, late: tuple[int, ...] = ()) -> list[int]:
    async def run() -> list[int]:
        switch, control = Switch(lab), cast(SwitchControl, Control(lab))
        await switch.configure(control)
        lab.into = {port: sent + 1_000 for port, sent in lab.into.items()}
        lab.lost[2] += lost
        lab.late = list(late)
        await switch.read(control)
        return [port.rx_overruns for port in switch.account(tmp_path).ports]

    return asyncio.run(run())


def test_frames_that_come_while_the_counters_are_read_are_not_lost(tmp_path: Path) -> None:
    assert overruns(Lab(), tmp_path) == [0, 0]
    assert overruns(Lab(), tmp_path, late=(2,)) == [0, 0]
    assert overruns(Lab(), tmp_path, late=(2, 1, 2)) == [0, 0]


def test_frames_that_the_program_did_not_meet_are_lost(tmp_path: Path) -> None:
    assert overruns(Lab(), tmp_path, lost=3) == [0, 3]
    assert overruns(Lab(), tmp_path, lost=3, late=(2, 2)) == [0, 3]
