# SPDX-License-Identifier: Apache-2.0
"""bmv2's queues, which P4Runtime does not know: set through simple_switch_CLI, which speaks its Thrift.

bmv2 limits a queue in packets and serves it at packets per second, whatever their size. A rate in bit/s
becomes that of full frames: smaller ones leave slower than asked for, which the notes say.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.values import FRAME_BYTES
from weir.controlplane.errors import ControlPlaneError, PlanError, SwitchUnreachableError
from weir.controlplane.units import format_rate

PROGRAM = "simple_switch_CLI"
_TIMEOUT_S = 10.0
_UNREACHABLE = ("Could not connect", "Cannot connect")


@dataclass(frozen=True, slots=True)
class Bmv2Queue:
    """The egress queue of one port; None stays as bmv2 has it (64 packets, as fast as it can)."""

    host: str
    port: int
    packets_per_s: int | None
    packets: int | None

    @property
    def commands(self) -> tuple[str, ...]:
        """What simple_switch_CLI is told."""
        rate = () if self.packets_per_s is None else (f"set_queue_rate {self.packets_per_s} {self.port}",)
        depth = () if self.packets is None else (f"set_queue_depth {self.packets} {self.port}",)
        return *rate, *depth

    @property
    def note(self) -> str | None:
        """What the rate has become, for the reader."""
        if self.packets_per_s is None:
            return None
        effective = format_rate(self.packets_per_s * FRAME_BYTES * 8)
        return (
            f"hosts.{self.host}.rate: bmv2 serves {self.packets_per_s} packets/s, {effective} of frames of "
            f"{FRAME_BYTES} B and less of smaller ones"
        )


def queues_of(experiment: ExperimentConfig, hosts: Mapping[str, HostPort]) -> tuple[Bmv2Queue, ...]:
    """The queues that an experiment asks for.

    Raises:
        PlanError: a rate below one full frame per second.
    """
    return tuple(_queues(experiment, hosts))


def _queues(experiment: ExperimentConfig, hosts: Mapping[str, HostPort]) -> Iterator[Bmv2Queue]:
    frame_bits = FRAME_BYTES * 8
    for name, host in experiment.hosts.items():
        if host.rate is None:
            continue
        packets_per_s = (host.rate + frame_bits // 2) // frame_bits
        if packets_per_s < 1:
            raise PlanError(
                f"hosts.{name}.rate: {format_rate(host.rate)} is less than a frame per second, which is the "
                f"least that bmv2 serves; valid: at least {format_rate(frame_bits)}"
            )
        yield Bmv2Queue(name, hosts[name].port, packets_per_s, host.queue_packets)


def set_queues(queues: tuple[Bmv2Queue, ...], thrift_port: int, program: str = PROGRAM) -> None:
    """Set the queues of the bmv2 on this machine that listens on a Thrift port.

    Raises:
        SwitchUnreachableError: nothing listens there.
        ControlPlaneError: the program is missing, or bmv2 refused a command.
    """
    commands = [command for queue in queues for command in queue.commands]
    if not commands:
        return
    if shutil.which(program) is None:
        raise ControlPlaneError(f"{program}, which sets bmv2's queues, is not on PATH; valid: install it")
    try:
        done = subprocess.run(
            [program, "--thrift-port", str(thrift_port)],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise SwitchUnreachableError(
            f"bmv2 on Thrift port {thrift_port} does not answer within {_TIMEOUT_S:g} s"
        ) from error
    said = done.stdout + done.stderr
    if any(words in said for words in _UNREACHABLE):
        raise SwitchUnreachableError(f"no bmv2 on Thrift port {thrift_port}; valid: its --thrift-port")
    refusals = [line for line in said.splitlines() if "Error" in line or "Invalid" in line]
    if done.returncode != 0 or refusals:
        reason = "; ".join(refusals) or said.strip()[-200:] or f"exit code {done.returncode}"
        raise ControlPlaneError(f"bmv2 refused its queues: {reason}")
