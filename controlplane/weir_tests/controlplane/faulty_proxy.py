# SPDX-License-Identifier: Apache-2.0
"""A proxy for tests between a controller and a switch: forwards every call, but makes one write fail.

It decodes only WriteRequests; all other messages are forwarded as bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import grpc
from finsy.proto import p4r

from weir.controlplane.links_service import SERVICE as LINKS
from weir.controlplane.session import bypass_proxy

_P4RUNTIME = "/p4.v1.P4Runtime"
WRITE, PUSH, SET_LINK = f"{_P4RUNTIME}/Write", f"{_P4RUNTIME}/SetForwardingPipelineConfig", f"/{LINKS}/Set"
NO_TABLE = 0x02FF_FFFF
"""A table id that the pipeline does not have."""

Kind = Literal["refuse", "spoil", "cut before", "cut after"]
"""refuse: the proxy answers with an error; spoil: one update gets an unknown table, so the switch refuses it;
cut before, cut after: the connections break before or after the switch carries out the call."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the ``nth`` call (from 0) that changes the switch; for ``spoil``, of the ``nth`` update."""

    kind: Kind
    nth: int


class FaultyProxy:
    """An async context manager that listens on ``address``."""

    def __init__(self, switch: str, fault: Fault | None = None) -> None:
        """Set the switch's address and the fault, by default none."""
        self._switch, self._fault = switch, fault
        self.address = ""
        self.calls: list[str] = []
        """The methods of the calls that change the switch, in order."""
        self.updates = 0
        """Number of P4Runtime updates in them."""

    async def __aenter__(self) -> Self:
        """Listen on a free port of the loopback."""
        bypass_proxy(self._switch)
        # Not gRPC's global pool: a subchannel that another proxy broke would back off before it reconnects.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(self._switch, options=options)
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Break every connection."""
        await self._server.stop(None)
        await self._channel.close()

    async def forward(
        self, method: str, requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """Forward one call of any kind: on the wire, a unary call is a stream with one message."""
        fault = None
        if method in (WRITE, PUSH, SET_LINK):
            request = await anext(requests)
            request, fault = self._inject(method, request)
            requests = _stream_of(request)
        if fault == "refuse":
            await context.abort(grpc.StatusCode.INTERNAL, "injected")
        if fault == "cut before":
            await self._cut()
        method_of_any_kind: Any = self._channel.stream_stream(method)
        call = method_of_any_kind(requests)
        try:
            async for reply in call:
                if fault == "cut after":
                    await self._cut()
                yield reply
        except grpc.aio.AioRpcError as error:
            trailing = error.trailing_metadata() or ()
            await context.abort(error.code(), error.details() or "", tuple(trailing))

    def _inject(self, method: str, request: bytes) -> tuple[bytes, Kind | None]:
        """The request, spoilt if the fault says so, and the fault for `forward` to make."""
        number, first = len(self.calls), self.updates
        self.calls.append(method)
        write = p4r.WriteRequest.FromString(request) if method == WRITE else None
        self.updates += 0 if write is None else len(write.updates)
        fault = self._fault
        if fault is None:
            return request, None
        if fault.kind != "spoil":
            return request, fault.kind if number == fault.nth else None
        if write is not None and first <= fault.nth < self.updates:
            write.updates[fault.nth - first].entity.Clear()
            write.updates[fault.nth - first].entity.table_entry.table_id = NO_TABLE
            return bytes(write.SerializeToString()), None
        return request, None

    async def _cut(self) -> None:
        """Break the connections and never answer; the server's stop ends this call as well."""
        self._ending = asyncio.create_task(self._server.stop(None))
        await asyncio.Event().wait()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, proxy: FaultyProxy) -> None:
        self._proxy = proxy

    def service(self, details: Any) -> Any:
        """Handle every method as a bidirectional stream."""

        async def forward(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for reply in self._proxy.forward(details.method, requests, context):
                yield reply

        return grpc.stream_stream_rpc_method_handler(forward)


async def _stream_of(request: bytes) -> AsyncIterator[bytes]:
    yield request
