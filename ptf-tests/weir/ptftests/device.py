# SPDX-License-Identifier: Apache-2.0
"""Registers and queues of a software switch, beside its tables and meters."""

from __future__ import annotations

import subprocess

from weir.ptftests.bfruntime_control import BfRtControl
from weir.ptftests.config import RunConfig
from weir.ptftests.control import Control
from weir.topo.tools import find_own_program

BMV2_CLI = "simple_switch_CLI"


class Device:
    """The switch under test, through its target's own interfaces; capabilities say what it supports."""

    def __init__(self, config: RunConfig, control: Control | BfRtControl) -> None:
        """Use the switch of a run."""
        self._config, self._control = config, control

    def write_register(self, register: str, index: int, value: int) -> None:
        """Set a cell of one of the pipeline's registers, by its short name."""
        if self._config.target == "bmv2":
            self._bmv2(f"register_write {self._control.full_name(register)} {index} {value}")
        else:
            self._control.write_register(register, index, value)

    def slow_queue(
        self, port: int, packets: int, packets_per_s: int, frame_bytes: int, deflect_to: int | None
    ) -> None:
        """Limit a port's egress queue to a number of packets and a rate.

        `deflect_to`: the port to which dropped packets are deflected, where the switch can deflect.
        """
        p4_port = self._config.port(port).p4_port
        if self._config.target == "bmv2":
            self._bmv2(f"set_queue_depth {packets} {p4_port}", f"set_queue_rate {packets_per_s} {p4_port}")
        else:
            deflect = "none" if deflect_to is None else self._config.port(deflect_to).p4_port
            rate = f"rate={packets_per_s * frame_bytes * 8}bit/s,burst={frame_bytes}B"
            self._links(p4_port, f"packets={packets},{rate},deflect={deflect}")

    def restore_queue(self, port: int) -> None:
        """Set the queue back to its state before `slow_queue`."""
        p4_port = self._config.port(port).p4_port
        if self._config.target == "bmv2":
            self._bmv2(f"set_queue_rate 1000000000 {p4_port}", f"set_queue_depth 64 {p4_port}")
        else:
            self._links(p4_port, "packets=none,rate=none,burst=none,deflect=none")

    def _links(self, p4_port: int, options: str) -> None:
        program = str(find_own_program("weir-switch"))
        _run([program, "links", "set", "--at", self._config.address, str(p4_port), options])

    def _bmv2(self, *lines: str) -> None:
        """Run commands of bmv2's CLI. It exits with 0 even if they fail, so their output is checked."""
        command = [BMV2_CLI, "--thrift-port", str(self._config.thrift_port)]
        said = _run(command, "\n".join(lines) + "\n")
        if "Error" in said or "Invalid" in said:
            raise RuntimeError(f"{BMV2_CLI} refused {lines}: {said}")


def _run(command: list[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stdout}{done.stderr}")
    return done.stdout
