# SPDX-License-Identifier: Apache-2.0
"""Start a software switch on its own veth pairs, inside the sandbox.

PTF ── p1 ═ s1 ── port 1 ┐
PTF ── p2 ═ s2 ── port 2 ┤ switch
PTF ── p3 ═ s3 ── port 3 ┤
PTF ── p4 ═ s4 ── port 4 ┘
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from weir.ptftests.config import PORTS, Port, RunConfig
from weir.ptftests.device import BMV2_CLI
from weir.topo.bmv2proc import THRIFT_PORT, Bmv2Process, bmv2_problem
from weir.topo.process import run_tool
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess

_ADDRESS = "127.0.0.1:9559"
_DEVICE_ID = 1
Starter = Callable[[Path, Path, Path, StopToken], AbstractContextManager[RunConfig]]
"""Starts a switch, from P4Info, program, a folder for logs, and a token that ends the wait."""


def make_links() -> tuple[Port, ...]:
    """A veth pair for each port; the kernel itself sends nothing on them."""
    for port in PORTS:
        run_tool("ip", "link", "add", _inside(port), "type", "veth", "peer", "name", _outside(port))
        for name in (_inside(port), _outside(port)):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            run_tool("ip", "link", "set", name, "up")
    return tuple(Port(port, port, _outside(port)) for port in PORTS)


def _inside(port: int) -> str:
    return f"s{port}"


def _outside(port: int) -> str:
    return f"p{port}"


@contextmanager
def embedded(p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A running weir-switch."""
    ports = make_links()
    with SwitchProcess(
        [SwitchPort(port, _inside(port)) for port in PORTS], logs, p4runtime=_ADDRESS, device_id=_DEVICE_ID
    ) as switch:
        switch.wait_ready(stop)
        yield RunConfig("embedded", _ADDRESS, _DEVICE_ID, ports, str(p4info), str(program))
        switch.check_running()


@contextmanager
def bmv2(p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A running simple_switch_grpc."""
    ports = make_links()
    names = {port: _inside(port) for port in PORTS}
    with Bmv2Process(names, logs, p4runtime=_ADDRESS, device_id=_DEVICE_ID) as switch:
        switch.wait_ready(stop)
        yield RunConfig(
            "bmv2", _ADDRESS, _DEVICE_ID, ports, str(p4info), str(program), thrift_port=THRIFT_PORT
        )
        switch.check_running()


STARTERS: Mapping[str, Starter] = {"embedded": embedded, "bmv2": bmv2}


def problem(target: str) -> str | None:
    """Why a software switch cannot be started here; None when it can."""
    if target != "bmv2":
        return None
    return bmv2_problem() or (None if shutil.which(BMV2_CLI) else f"{BMV2_CLI} is not on PATH")
