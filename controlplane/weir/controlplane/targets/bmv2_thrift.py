# SPDX-License-Identifier: Apache-2.0
"""Calls of bmv2's Thrift service, for what its P4Runtime server lacks: queues, registers.

The calls are of targets/simple_switch/thrift/simple_switch.thrift and thrift_src/standard.thrift.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from weir.controlplane.errors import ControlPlaneError, SwitchUnreachableError

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
        _reply(protocol)
        protocol.skip(TType.STRUCT)
        protocol.readMessageEnd()


def make_calls(calls: Sequence[ThriftCall], thrift_port: int) -> None:
    """Make calls of the service simple_switch of the bmv2 that listens on a Thrift port of this machine.

    Raises:
        SwitchUnreachableError: no bmv2 answers on the port.
        ControlPlaneError: bmv2 refused a call.
    """
    with _service("simple_switch", thrift_port, "its queues") as protocol:
        for call in calls:
            call.make(protocol)


def read_registers(registers: Sequence[tuple[str, int]], thrift_port: int) -> list[int]:
    """The values of registers (full name of the array, index). Raises as :func:`make_calls`."""
    with _service("standard", thrift_port, "a register") as protocol:
        return [_read_register(protocol, array, index) for array, index in registers]


def _read_register(protocol: Any, array: str, index: int) -> int:
    protocol.writeMessageBegin("bm_register_read", TMessageType.CALL, 0)
    for number, argument in ((1, 0), (3, index)):  # 1: the context, of which there is one
        protocol.writeFieldBegin("", TType.I32, number)
        protocol.writeI32(argument)
    protocol.writeFieldBegin("", TType.STRING, 2)
    protocol.writeString(array)
    protocol.writeFieldStop()
    protocol.writeMessageEnd()
    protocol.trans.flush()
    _reply(protocol)
    value: int | None = None
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            break
        if number == 0 and kind == TType.I64:
            value = protocol.readI64()
        else:
            protocol.skip(kind)
    protocol.readMessageEnd()
    if value is None:  # the reply has InvalidRegisterOperation instead
        raise ControlPlaneError(f"bmv2 has no register {array}[{index}]; valid: those of weir's program")
    return value


def _reply(protocol: Any) -> None:
    """Read the head of a reply. Raises the TApplicationException that it is."""
    _, kind, _ = protocol.readMessageBegin()
    if kind == TMessageType.EXCEPTION:
        refused = TApplicationException()
        refused.read(protocol)
        raise refused


@contextlib.contextmanager
def _service(name: str, thrift_port: int, what: str) -> Iterator[Any]:
    socket = TSocket("127.0.0.1", thrift_port)
    socket.setTimeout(_TIMEOUT_MS)
    transport = TBufferedTransport(socket)
    try:
        transport.open()
        # Strict, so that a server of another protocol is an error and not a timeout.
        yield TMultiplexedProtocol(TBinaryProtocol(transport, strictRead=True), name)
    except (TTransportException, TProtocolException) as error:
        raise SwitchUnreachableError(
            f"no bmv2 on Thrift port {thrift_port}; valid: its --thrift-port ({error})"
        ) from error
    except TApplicationException as error:
        raise ControlPlaneError(f"bmv2 refused {what}: {error}") from error
    finally:
        transport.close()
