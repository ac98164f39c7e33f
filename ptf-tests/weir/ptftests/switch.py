# SPDX-License-Identifier: Apache-2.0
"""Starts a software switch on links of its own, inside the sandbox.

PTF ── p1 ═ s1 ── port 1 ┐
PTF ── p2 ═ s2 ── port 2 ┤ switch
PTF ── p3 ═ s3 ── port 3 ┤
PTF ── p4 ═ s4 ── port 4 ┘
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from weir.ptftests.config import PORTS, Port, RunConfig
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess

BMV2 = "simple_switch_grpc"
BMV2_CLI = "simple_switch_CLI"
_HOST, _PORT = "127.0.0.1", 9559
_ADDRESS = f"{_HOST}:{_PORT}"
_THRIFT_PORT = 9090
_DEVICE_ID = 1
_READY_S = 30.0
_POLL_S = 0.02
Starter = Callable[[Path, Path, Path, StopToken], AbstractContextManager[RunConfig]]
"""Takes the P4Info, the program, a folder for logs, and what ends the wait."""


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
    interfaces = [word for port in PORTS for word in ("-i", f"{port}@{_inside(port)}")]
    command = [BMV2, "--no-p4", "--device-id", str(_DEVICE_ID), "--log-level", "off", *interfaces]
    command += ["--thrift-port", str(_THRIFT_PORT), "--", "--grpc-server-addr", _ADDRESS]
    process = LoggedProcess(BMV2, command, logs / f"{BMV2}.log")
    try:
        _wait_for_server(process, stop)
        yield RunConfig(
            "bmv2", _ADDRESS, _DEVICE_ID, ports, str(p4info), str(program), thrift_port=_THRIFT_PORT
        )
        process.check_running()
    finally:
        process.stop()


def _wait_for_server(process: LoggedProcess, stop: StopToken) -> None:
    """Until P4Runtime is served; bmv2 says so into a buffer that it does not flush. Raises ProcessError."""
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            socket.create_connection((_HOST, _PORT), timeout=1).close()
            return
        except ConnectionRefusedError:
            process.check_running()
            if time.monotonic() > deadline:
                raise process.error(f"serves no P4Runtime on {_ADDRESS} after {_READY_S:g} s") from None
            stop.sleep(_POLL_S)


STARTERS: Mapping[str, Starter] = {"embedded": embedded, "bmv2": bmv2}


def problem(target: str) -> str | None:
    """Why a software switch cannot be started here; None when it can."""
    for program in (BMV2, BMV2_CLI) if target == "bmv2" else ():
        if shutil.which(program) is None:
            return f"{program} is not on PATH (https://github.com/p4lang/behavioral-model)"
    return None
