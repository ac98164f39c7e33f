# SPDX-License-Identifier: Apache-2.0
"""The client of the embedded switch's links service: its ports' links, their queues, and its clock.

These are not part of P4Runtime; the service is at the same address
(softswitch/links/proto/weir/links/v1/links.proto).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import grpc
from finsy import GRPCCredentialsTLS

from weir.controlplane.entities import Link
from weir.controlplane.errors import ReadError, RefusedUpdate, SwitchUnreachableError, WriteError
from weir.controlplane.messages import Field, message_classes
from weir.controlplane.session import bypass_proxy

SERVICE = "weir.links.v1.Links"
_TIMEOUT_S = 5.0

FIELDS: Mapping[str, tuple[Field, ...]] = MappingProxyType(
    {
        "Shaper": (("rate_bps", 1, "uint64"), ("burst_bytes", 2, "uint64")),
        "Queue": (
            ("priority", 1, "uint32"),
            ("shaper", 2, "Shaper"),
            ("limit_bytes", 3, "optional uint64"),
            ("limit_packets", 4, "optional uint64"),
            ("deflect_to", 5, "optional uint32"),
        ),
        "Link": (
            ("shaper", 1, "Shaper"),
            ("queue_limit_bytes", 2, "optional uint64"),
            ("queue_limit_packets", 3, "optional uint64"),
            ("deflect_to", 4, "optional uint32"),
            ("line_rate_bps", 5, "optional uint64"),
            ("delay_ns", 6, "uint64"),
            ("jitter_ns", 7, "uint64"),
            ("reorder", 8, "bool"),
            ("loss_ppb", 9, "uint32"),
            ("queues", 10, "repeated Queue"),
        ),
        "QueueCounters": (
            ("dropped_bytes_limit", 6, "uint64"),
            ("dropped_packets_limit", 7, "uint64"),
            ("deflected_packets", 9, "uint64"),
            ("waiting_packets", 11, "uint64"),
            ("waiting_bytes", 12, "uint64"),
        ),
        "LinkCounters": (("lost_packets", 3, "uint64"), ("in_flight_packets", 4, "uint64")),
        "Port": (
            ("number", 1, "uint32"),
            ("up", 3, "bool"),
            ("link", 4, "Link"),
            ("queues", 5, "repeated QueueCounters"),
            ("counters", 6, "LinkCounters"),
        ),
        "GetRequest": (),
        "GetResponse": (("ports", 1, "repeated Port"), ("clock_ns", 2, "uint64")),
        "SetRequest": (("number", 1, "uint32"), ("link", 2, "Link")),
        "SetResponse": (),
    }
)
"""The fields of the service's messages that are read or written here."""
MESSAGES = message_classes("weir.links.v1", FIELDS)


@dataclass(frozen=True, slots=True)
class PortState:
    """A port's link as configured, the packets that wait in it, and its drops since the switch started."""

    link: Link
    up: bool
    waiting_packets: int
    waiting_bytes: int
    queue_drops: int
    link_lost: int
    in_flight: int
    queue_deflected: int = 0
    """Of the queue's drops, those that were deflected and can be reported."""


class LinksService:
    """A connection to the service; an async context manager."""

    def __init__(self, address: str, tls: GRPCCredentialsTLS | None = None, via: str | None = None) -> None:
        """Set the switch's address, the same as for P4Runtime; ``via`` relays to it."""
        self._address, self._tls, self._via = address, tls, via or address

    async def __aenter__(self) -> Self:
        """Open the channel; a switch that does not answer is an error of the first call."""
        bypass_proxy(self._via)
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(self._via)
        else:
            self._channel = grpc.aio.secure_channel(self._via, self._tls.to_client_credentials())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the channel."""
        await self._channel.close()

    async def now_ns(self) -> int:
        """The switch's clock, in ns since it started: that of the programs' `ingress_global_timestamp`.

        Raises as :meth:`ports`.
        """
        return int((await self._get()).clock_ns)

    async def ports(self) -> dict[int, PortState]:
        """Every port of the switch, by number.

        Raises:
            SwitchUnreachableError: the switch does not answer.
            ReadError: it has no such service.
        """
        return {port.number: _state(port) for port in (await self._get()).ports}

    async def set(self, link: Link) -> None:
        """Set a port's link to ``link``; settings that it does not have (priorities) stay.

        Raises:
            WriteError: the switch refused, or has no such port.
            SwitchUnreachableError, ReadError: as :meth:`ports`.
        """
        found = (port.link for port in (await self._get()).ports if port.number == link.port)
        request = MESSAGES["SetRequest"](number=link.port, link=next(found, None))
        _write(link, request.link)
        try:
            await self._call("Set", request, "SetResponse")
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise self._unreachable(error) from error
            raise WriteError(
                [RefusedUpdate("set", link.key, error.code().name, error.details() or "")]
            ) from error

    async def _get(self) -> Any:
        try:
            return await self._call("Get", MESSAGES["GetRequest"](), "GetResponse")
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                raise ReadError(
                    f"the switch at {self._address} has no links service; valid: weir-switch, or another "
                    "switch.target"
                ) from error
            raise self._unreachable(error) from error

    async def _call(self, method: str, request: Any, answer: str) -> Any:
        call: Any = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=MESSAGES[type(request).DESCRIPTOR.name].SerializeToString,
            response_deserializer=MESSAGES[answer].FromString,
        )
        return await call(request, timeout=_TIMEOUT_S)

    def _unreachable(self, error: grpc.aio.AioRpcError) -> SwitchUnreachableError:
        return SwitchUnreachableError(
            f"the links service of the switch at {self._address} does not answer: {error.details()}"
        )


def _state(port: Any) -> PortState:
    queues = port.queues
    return PortState(
        _read(port.number, port.link),
        port.up,
        sum(queue.waiting_packets for queue in queues),
        sum(queue.waiting_bytes for queue in queues),
        sum(queue.dropped_bytes_limit + queue.dropped_packets_limit for queue in queues),
        port.counters.lost_packets,
        port.counters.in_flight_packets,
        sum(queue.deflected_packets for queue in queues),
    )


def _read(number: int, link: Any) -> Link:
    def optional(name: str) -> int | None:
        return getattr(link, name) if link.HasField(name) else None

    shaped = link.HasField("shaper")
    return Link(
        number,
        rate_bps=link.shaper.rate_bps if shaped else None,
        burst_bytes=link.shaper.burst_bytes if shaped else None,
        limit_bytes=optional("queue_limit_bytes"),
        limit_packets=optional("queue_limit_packets"),
        deflect_to=optional("deflect_to"),
        delay_ns=link.delay_ns,
        jitter_ns=link.jitter_ns,
        reorder=link.reorder,
        loss_ppb=link.loss_ppb,
        line_rate_bps=optional("line_rate_bps"),
    )


def _write(link: Link, message: Any) -> None:
    for name in ("shaper", "queue_limit_bytes", "queue_limit_packets", "deflect_to", "line_rate_bps"):
        message.ClearField(name)
    if link.rate_bps is not None:
        message.shaper.rate_bps, message.shaper.burst_bytes = link.rate_bps, link.burst_bytes or 0
    for name, value in (
        ("queue_limit_bytes", link.limit_bytes),
        ("queue_limit_packets", link.limit_packets),
        ("deflect_to", link.deflect_to),
        ("line_rate_bps", link.line_rate_bps),
    ):
        if value is not None:
            setattr(message, name, value)
    message.delay_ns, message.jitter_ns, message.loss_ppb = link.delay_ns, link.jitter_ns, link.loss_ppb
    message.reorder = link.reorder
