# SPDX-License-Identifier: Apache-2.0
"""Calls of a made-up Thrift server, which answers in the form of bmv2's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from weir.controlplane.errors import ControlPlaneError, SwitchUnreachableError
from weir.controlplane.targets.bmv2_queues import (
    DEEP_PACKETS,
    DEFAULT_PACKETS,
    Bmv2Queue,
    deep_queues,
    set_queues,
    tail_drops,
)
from weir.controlplane.targets.bmv2_thrift import make_calls, read_registers

BEFORE, AFTER = "WeirIngress.number_packets.last_number", "WeirEgress.queue.last_number"
Call = tuple[str, dict[int, Any]]
RATE, DEPTH = "simple_switch:set_egress_queue_rate", "simple_switch:set_egress_queue_depth"
SETTINGS = (RATE, DEPTH)


class Server:
    """Records the calls of one connection; answers reads of registers from `registers`."""

    def __init__(self, listener: socket.socket, registers: dict[tuple[str, int], int]) -> None:
        self.port: int = listener.getsockname()[1]
        self.calls: list[Call] = []
        self._listener, self._registers = listener, registers

    def serve(self) -> None:
        """Answer until the client closes the connection."""
        connection, _ = self._listener.accept()
        wrapped = TSocket()
        wrapped.setHandle(connection)
        protocol = TBinaryProtocol(TBufferedTransport(wrapped))
        try:
            while True:
                name, _, _ = protocol.readMessageBegin()
                arguments = _fields(protocol)
                protocol.readMessageEnd()
                self.calls.append((name, arguments))
                self._answer(protocol, name, arguments)
        except TTransportException:  # the client has closed the connection
            wrapped.close()

    def _answer(self, protocol: Any, name: str, arguments: dict[int, Any]) -> None:
        if not name.endswith((":bm_register_read", *SETTINGS)):
            protocol.writeMessageBegin(name, TMessageType.EXCEPTION, 0)
            TApplicationException(TApplicationException.UNKNOWN_METHOD, f"no method {name}").write(protocol)
        else:
            protocol.writeMessageBegin(name, TMessageType.REPLY, 0)
            value = 0 if name.endswith(SETTINGS) else self._registers.get((arguments[2], arguments[3]))
            if value is None:  # field 1 is the exception that the call declares
                protocol.writeFieldBegin("ouch", TType.STRUCT, 1)
                protocol.writeFieldStop()
            else:
                protocol.writeFieldBegin("success", TType.I64, 0)
                protocol.writeI64(value)
            protocol.writeFieldStop()
        protocol.writeMessageEnd()
        protocol.trans.flush()


def _fields(protocol: Any) -> dict[int, Any]:
    read = {TType.I32: protocol.readI32, TType.I64: protocol.readI64, TType.STRING: protocol.readString}
    found = {}
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            return found
        found[number] = read[kind]()


@contextmanager
def serving(registers: dict[tuple[str, int], int] | None = None) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener, registers or {})
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        yield server
        thread.join(10)


def test_ports_without_a_rate_get_queues_that_hold_every_burst() -> None:
    with serving() as server:
        make_calls(deep_queues([2, 4]), server.port)
    assert server.calls == [
        (RATE, {1: 2, 2: 0}),
        (DEPTH, {1: 2, 2: DEEP_PACKETS}),
        (RATE, {1: 4, 2: 0}),
        (DEPTH, {1: 4, 2: DEEP_PACKETS}),
    ]


def test_what_is_left_out_is_set_too_so_that_nothing_of_an_earlier_experiment_is_left() -> None:
    queues = (Bmv2Queue("a", 1, 826, 50), Bmv2Queue("b", 2, 8, None))
    with serving() as server:
        set_queues(queues, [3], server.port)
    assert server.calls == [
        (RATE, {1: 1, 2: 826}),
        (DEPTH, {1: 1, 2: 50}),
        (RATE, {1: 2, 2: 8}),
        (DEPTH, {1: 2, 2: DEFAULT_PACKETS}),
        (RATE, {1: 3, 2: 0}),
        (DEPTH, {1: 3, 2: DEFAULT_PACKETS}),
    ]


def test_the_tail_is_the_difference_of_the_numbers_before_and_after_the_queue() -> None:
    registers = {(BEFORE, 1): 110, (AFTER, 1): 100, (BEFORE, 3): 5, (AFTER, 3): 2**32 - 2}
    with serving(registers) as server:
        assert tail_drops([1, 3], server.port) == {1: 10, 3: 7}
    assert server.calls[0] == ("standard:bm_register_read", {1: 0, 2: BEFORE, 3: 1})


def test_a_register_that_the_program_lacks_is_named() -> None:
    with (
        serving() as server,
        pytest.raises(ControlPlaneError, match=r"no register other\[1\]; valid: those of weir's program"),
    ):
        read_registers([("other", 1)], server.port)


def test_a_refused_call_says_what_was_refused() -> None:
    call, _ = deep_queues([1])
    strange = type(call)("set_nothing", 1, TType.I32, 0)
    with serving() as server, pytest.raises(ControlPlaneError, match="bmv2 refused its queues: no method"):
        make_calls([strange], server.port)


def test_a_port_without_a_server_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SwitchUnreachableError, match=f"no bmv2 on Thrift port {port}; valid: its --thrift-"):
        read_registers([("any", 0)], port)
