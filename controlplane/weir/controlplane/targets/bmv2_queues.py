# SPDX-License-Identifier: Apache-2.0
"""Sets bmv2's queues, which P4Runtime does not cover, over Thrift, which cannot read them back.

What an earlier experiment set on a running bmv2 cannot be seen either, so the rate and the limit of each used
port are always set, also those that an experiment leaves out.

bmv2 limits a queue in packets and serves it in packets per second, whatever their size. A rate in bit/s is
converted with full frames; smaller frames leave at fewer bit/s, which the notes say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from thrift.Thrift import TType

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.values import FRAME_BYTES
from weir.controlplane.errors import PlanError
from weir.controlplane.targets.bmv2_thrift import ThriftCall, make_calls, read_registers
from weir.controlplane.units import format_rate

DEFAULT_PACKETS = 64
"""Packets that a queue of bmv2 holds unless told otherwise."""
DEEP_PACKETS = 2**20
"""A limit that no burst reaches: 1.5 GB of full frames."""

_NO_RATE = 0
_NUMBERED = ("WeirIngress.number_packets.last_number", "WeirEgress.queue.last_number")
"""Registers with the number of the last packet to each port, before its queue and after it."""


@dataclass(frozen=True, slots=True)
class Bmv2Queue:
    """The egress queue of a port with a rate; `packets` None is bmv2's default limit."""

    host: str
    port: int
    packets_per_s: int
    packets: int | None

    @property
    def calls(self) -> tuple[ThriftCall, ...]:
        """The Thrift calls that set it."""
        return _calls(
            self.port, self.packets_per_s, DEFAULT_PACKETS if self.packets is None else self.packets
        )

    @property
    def note(self) -> str:
        """The effective rate, for the reader."""
        effective = format_rate(self.packets_per_s * FRAME_BYTES * 8)
        return (
            f"hosts.{self.host}.rate: bmv2 serves {self.packets_per_s} packets/s, {effective} of frames of "
            f"{FRAME_BYTES} B and less of smaller ones"
        )


def _calls(port: int, packets_per_s: int, packets: int) -> tuple[ThriftCall, ...]:
    """Calls of targets/simple_switch/thrift/simple_switch.thrift for a port; rate 0: no limit."""
    return (
        ThriftCall("set_egress_queue_rate", port, TType.I64, packets_per_s),
        ThriftCall("set_egress_queue_depth", port, TType.I32, packets),
    )


def queues_of(experiment: ExperimentConfig, hosts: Mapping[str, HostPort]) -> tuple[Bmv2Queue, ...]:
    """The queues of an experiment's hosts that have a rate.

    Raises:
        PlanError: a rate is below one full frame per second.
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


def deep_queues(ports: Iterable[int]) -> tuple[ThriftCall, ...]:
    """The calls that let the queues of ports without a rate hold every burst, at no rate.

    Such a queue waits for the processor only, and bmv2 drops from it without a trace.
    """
    return tuple(call for port in ports for call in _calls(port, _NO_RATE, DEEP_PACKETS))


def tail_drops(ports: Iterable[int], thrift_port: int) -> dict[int, int]:
    """Packets that each port's queue dropped after the last one that left it; no gap shows these.

    The queues must be empty: those that wait count too. Raises as :func:`set_queues`.
    """
    numbers = list(ports)
    names = [(register, port) for register in _NUMBERED for port in numbers]
    found = read_registers(names, thrift_port)
    before, after = found[: len(numbers)], found[len(numbers) :]
    return {port: (before[i] - after[i]) % 2**32 for i, port in enumerate(numbers)}


def set_queues(queues: Iterable[Bmv2Queue], others: Iterable[int], thrift_port: int) -> None:
    """Set the queues of the bmv2 that listens on a Thrift port of this machine.

    `others` are used ports without a rate: their queues become as those of a bmv2 that has just started.

    Raises:
        SwitchUnreachableError: no bmv2 answers on the port.
        ControlPlaneError: bmv2 refused a queue.
    """
    calls = [call for queue in queues for call in queue.calls]
    calls += [call for port in others for call in _calls(port, _NO_RATE, DEFAULT_PACKETS)]
    if calls:
        make_calls(calls, thrift_port)
