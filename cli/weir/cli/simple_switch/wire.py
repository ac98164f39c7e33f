# SPDX-License-Identifier: Apache-2.0
"""Thrift calls by tables of types: values in Python ↔ Apache's binary protocol."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

# Thrift logs what it raises; the reader gets each failure once.
logging.getLogger("thrift").addHandler(logging.NullHandler())

_LARGEST_STRING = 64 << 20
_LARGEST_LIST = 1 << 24

BOOL, I16, I32, I64 = TType.BOOL, TType.I16, TType.I32, TType.I64
DOUBLE, BINARY = TType.DOUBLE, TType.STRING
TEXT = "text"
"""A string that is text; on the wire as BINARY."""

Kind = Any
"""One of the constants above, a list of one kind, a pair of kinds (a map), or a class with FIELDS."""


class DeclaredError(Exception):
    """The exception that a method declares, with its code."""

    def __init__(self, method: str, code: int) -> None:
        """Keep the code."""
        super().__init__(f"{method}: code {code}")
        self.code = code


def _number(kind: Kind) -> int:
    if kind == TEXT:
        return int(TType.STRING)
    if isinstance(kind, list):
        return int(TType.LIST)
    if isinstance(kind, tuple):
        return int(TType.MAP)
    return int(TType.STRUCT) if isinstance(kind, type) else int(kind)


def _write(protocol: Any, kind: Kind, value: Any) -> None:
    if isinstance(kind, list):
        protocol.writeListBegin(_number(kind[0]), len(value))
        for element in value:
            _write(protocol, kind[0], element)
    elif isinstance(kind, type):
        fields = dataclasses.fields(kind)
        for (number, inner), field in zip(kind.FIELDS, fields, strict=True):  # type: ignore[attr-defined]
            if (given := getattr(value, field.name)) is not None:
                protocol.writeFieldBegin(field.name, _number(inner), number)
                _write(protocol, inner, given)
        protocol.writeFieldStop()
    else:
        writers = {
            BOOL: protocol.writeBool,
            I16: protocol.writeI16,
            I32: protocol.writeI32,
            I64: protocol.writeI64,
            DOUBLE: protocol.writeDouble,
            BINARY: protocol.writeBinary,
            TEXT: lambda text: protocol.writeBinary(text.encode("utf-8", "surrogateescape")),
        }
        writers[kind](value)


def _read(protocol: Any, kind: Kind) -> Any:
    if isinstance(kind, list):
        _, length = protocol.readListBegin()
        return [_read(protocol, kind[0]) for _ in range(length)]
    if isinstance(kind, tuple):
        _, _, length = protocol.readMapBegin()
        return {_read(protocol, kind[0]): _read(protocol, kind[1]) for _ in range(length)}
    if isinstance(kind, type):
        names = [field.name for field in dataclasses.fields(kind)]
        kinds = {number: (name, inner) for name, (number, inner) in zip(names, kind.FIELDS, strict=True)}  # type: ignore[attr-defined]
        return kind(**_read_fields(protocol, kinds))
    readers = {
        BOOL: protocol.readBool,
        I16: protocol.readI16,
        I32: protocol.readI32,
        I64: protocol.readI64,
        DOUBLE: protocol.readDouble,
        BINARY: protocol.readBinary,
        TEXT: lambda: protocol.readBinary().decode("utf-8", "replace"),
    }
    return readers[kind]()


def _read_fields(protocol: Any, kinds: dict[int, tuple[str, Kind]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    while True:
        _, given, number = protocol.readFieldBegin()
        if given == TType.STOP:
            return values
        if number in kinds and given == _number(kinds[number][1]):
            name, kind = kinds[number]
            values[name] = _read(protocol, kind)
        else:
            protocol.skip(given)


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The exceptions of the services: each has a code only."""

    FIELDS = ((1, I32),)
    code: int = 0


class Connection:
    """A connection to a switch."""

    def __init__(self, host: str, port: int) -> None:
        """Connect. Raises TTransportException when nothing listens there."""
        self._transport = TBufferedTransport(TSocket(host, port))
        self._protocol = TBinaryProtocol(
            self._transport,
            strictRead=True,
            string_length_limit=_LARGEST_STRING,
            container_length_limit=_LARGEST_LIST,
        )
        self._transport.open()

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def call(
        self, service: str, method: str, kinds: Sequence[Kind], arguments: Sequence[Any], result: Kind | None
    ) -> Any:
        """Call a method and return its result, None for void.

        Raises:
            DeclaredError: the switch refused the call with a code.
            TApplicationException: it refused the call in words.
            TTransportException, TProtocolException: the connection failed.
        """
        protocol = self._protocol
        protocol.writeMessageBegin(f"{service}:{method}", TMessageType.CALL, 0)
        for number, (kind, value) in enumerate(zip(kinds, arguments, strict=True), start=1):
            protocol.writeFieldBegin("", _number(kind), number)
            _write(protocol, kind, value)
        protocol.writeFieldStop()
        protocol.writeMessageEnd()
        protocol.trans.flush()
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            refused = TApplicationException()
            refused.read(protocol)
            protocol.readMessageEnd()
            raise refused
        expected = {1: ("refusal", Refusal)}
        if result is not None:
            expected[0] = ("result", result)
        reply = _read_fields(protocol, expected)
        protocol.readMessageEnd()
        if "refusal" in reply:
            raise DeclaredError(method, reply["refusal"].code)
        if result is not None and "result" not in reply:
            raise TApplicationException(TApplicationException.MISSING_RESULT, f"{method} has no result")
        return reply.get("result")
