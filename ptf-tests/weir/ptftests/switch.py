# SPDX-License-Identifier: Apache-2.0
"""Starts a software switch on links to PTF, inside the sandbox, or with packet ports outside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from weir.ptf.links import make_links, packet_ports, switch_interface
from weir.ptf.switch import ADDRESS, packet_ports_switch, weir_switch
from weir.ptftests.config import PORTS, RunConfig
from weir.ptftests.device import BMV2_CLI
from weir.ptftests.model import harness
from weir.ptftests.model.chips import CHIPS, Chip
from weir.ptftests.model.ports import Ports
from weir.ptftests.model.program import ProgramError
from weir.ptftests.model.service import serve
from weir.ptftests.model.switch import ModelSwitch
from weir.topo.bmv2proc import THRIFT_PORT, Bmv2Process, bmv2_problem
from weir.topo.process import ProcessError
from weir.topo.stop import StopToken

_DEVICE_ID = 1
Starter = Callable[[Path, Path, Path, StopToken], AbstractContextManager[RunConfig]]
"""Starts a switch, from P4Info, program, a folder for logs, and a token that ends the wait."""


@contextmanager
def embedded(p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A running weir-switch."""
    ports = make_links(PORTS)
    with weir_switch(ports, logs, stop, _DEVICE_ID) as address:
        yield RunConfig("embedded", address, _DEVICE_ID, ports, str(p4info), str(program))


@contextmanager
def embedded_nn(p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A running weir-switch with packet ports, which PTF's platform nn takes."""
    with packet_ports_switch(logs, stop, _DEVICE_ID) as (address, socket):
        ports = packet_ports(PORTS)
        yield RunConfig(
            "embedded-nn", address, _DEVICE_ID, ports, str(p4info), str(program), packet_socket=socket
        )


@contextmanager
def bmv2(p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A running simple_switch_grpc."""
    ports = make_links(PORTS)
    names = {port.p4_port: switch_interface(port.number) for port in ports}
    with Bmv2Process(names, logs, p4runtime=ADDRESS, device_id=_DEVICE_ID) as switch:
        switch.wait_ready(stop)
        yield RunConfig(
            "bmv2", ADDRESS, _DEVICE_ID, ports, str(p4info), str(program), thrift_port=THRIFT_PORT
        )
        switch.check_running()


@contextmanager
def tofino_model(chip: Chip, p4info: Path, program: Path, logs: Path, stop: StopToken) -> Iterator[RunConfig]:
    """A Tofino's model, with P4Runtime in front. Raises ProcessError, also if a model ended by itself."""
    ports = make_links(PORTS)
    try:
        switch = ModelSwitch(chip, program, logs)
    except ProgramError as error:
        raise ProcessError(str(error)) from error
    server = serve(switch, _DEVICE_ID, ADDRESS)
    links = Ports(switch, {port.p4_port: switch_interface(port.number) for port in ports})
    try:
        yield RunConfig(chip.target, ADDRESS, _DEVICE_ID, ports, str(p4info), str(program))
    finally:
        links.close()
        server.stop(None)
        switch.close()
    if switch.failures:
        raise ProcessError(f"{len(switch.failures)} times the model failed, first: {switch.failures[0]}")


STARTERS: Mapping[str, Starter] = {
    "embedded": embedded,
    "embedded-nn": embedded_nn,
    "bmv2": bmv2,
    **{target: partial(tofino_model, chip) for target, chip in CHIPS.items()},
}

WITHOUT_LINKS = frozenset({"embedded-nn"})
"""Targets that need no links, and so no sandbox."""


def problem(target: str) -> str | None:
    """Why a software switch cannot be started here; None when it can."""
    if target in CHIPS:
        return harness.problem(CHIPS[target])
    if target != "bmv2":
        return None
    return bmv2_problem() or (None if shutil.which(BMV2_CLI) else f"{BMV2_CLI} is not on PATH")
