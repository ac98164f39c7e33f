# SPDX-License-Identifier: Apache-2.0
"""Sets bmv2's queues, which P4Runtime does not cover, over Thrift, which cannot read them back.

bmv2 limits a queue in packets and serves it in packets per second, whatever their size. A rate in bit/s is
converted with full frames; smaller frames leave at fewer bit/s, which the notes say.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.values import FRAME_BYTES
from weir.controlplane.errors import ControlPlaneError, PlanError, SwitchUnreachableError
from weir.controlplane.units import format_rate

_TIMEOUT_MS = 10_000

# Thrift logs what it raises; the reader gets each failure once, as an error.
logging.getLogger("thrift").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class ThriftCall:
    """A Thrift call of bmv2 with a port and a number of some integer type; it returns an integer."""

    method: str
    port: int
    kind: int
    value: int

    def make(self, protocol: Any) -> None:
        """Call and wait for the reply. Raises TApplicationException, and the errors of the transport."""
        protocol.writeMessageBegin(self.method, TMessageType.CALL, 0)
        protocol.writeFieldBegin("port_num", TType.I32, 1)
        protocol.writeI32(self.port)
        protocol.writeFieldBegin("", self.kind, 2)
        (protocol.writeI64 if self.kind == TType.I64 else protocol.writeI32)(self.value)
        protocol.writeFieldStop()
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            refused = TApplicationException()
            refused.read(protocol)
            raise refused
        protocol.skip(TType.STRUCT)
        protocol.readMessageEnd()


@dataclass(frozen=True, slots=True)
class Bmv2Queue:
    """The egress queue of one port; None keeps bmv2's default (64 packets, no rate limit)."""

    host: str
    port: int
    packets_per_s: int | None
    packets: int | None

    @property
    def calls(self) -> tuple[ThriftCall, ...]:
        """The Thrift calls that set it (targets/simple_switch/thrift/simple_switch.thrift)."""
        rate, depth = self.packets_per_s, self.packets
        return (
            *(() if rate is None else (ThriftCall("set_egress_queue_rate", self.port, TType.I64, rate),)),
            *(() if depth is None else (ThriftCall("set_egress_queue_depth", self.port, TType.I32, depth),)),
        )

    @property
    def note(self) -> str | None:
        """The effective rate, for the reader."""
        if self.packets_per_s is None:
            return None
        effective = format_rate(self.packets_per_s * FRAME_BYTES * 8)
        return (
            f"hosts.{self.host}.rate: bmv2 serves {self.packets_per_s} packets/s, {effective} of frames of "
            f"{FRAME_BYTES} B and less of smaller ones"
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


def set_queues(queues: tuple[Bmv2Queue, ...], thrift_port: int) -> None:
    """Set the queues of the bmv2 that listens on a Thrift port of this machine.

    Raises:
        SwitchUnreachableError: no bmv2 answers on the port.
        ControlPlaneError: bmv2 refused a queue.
    """
    calls = [call for queue in queues for call in queue.calls]
    if not calls:
        return
    socket = TSocket("127.0.0.1", thrift_port)
    socket.setTimeout(_TIMEOUT_MS)
    transport = TBufferedTransport(socket)
    # Strict, so that a server of another protocol is an error and not a timeout.
    protocol = TMultiplexedProtocol(TBinaryProtocol(transport, strictRead=True), "simple_switch")
    try:
        transport.open()
        for call in calls:
            call.make(protocol)
    except (TTransportException, TProtocolException) as error:
        raise SwitchUnreachableError(
            f"no bmv2 on Thrift port {thrift_port}; valid: its --thrift-port ({error})"
        ) from error
    except TApplicationException as error:
        raise ControlPlaneError(f"bmv2 refused its queues: {error}") from error
    finally:
        transport.close()
