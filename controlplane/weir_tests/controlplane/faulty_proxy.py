# SPDX-License-Identifier: Apache-2.0
"""A proxy for tests between a controller and a switch: hands every call on, but lets one write fail.

It knows no message but the write that it makes unacceptable; all else passes as bytes.
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
"""An id of a table that the pipeline does not have."""

Kind = Literal["refuse", "spoil", "cut before", "cut after"]
"""refuse: answered in the switch's stead; spoil: one update names no table, so that the switch refuses it;
cut before, after: the connections break when the switch has not heard of the call, or has carried it out."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the ``nth`` call (from 0) that changes the switch; spoilt is the ``nth`` update."""

    kind: Kind
    nth: int


class FaultyProxy:
    """An async context manager; ``address`` is where it listens while it runs."""

    def __init__(self, switch: str, fault: Fault | None = None) -> None:
        """Name the switch and what goes wrong; by default nothing."""
        self._switch, self._fault = switch, fault
        self.address = ""
        self.calls: list[str] = []
        """The calls that would change the switch, by method."""
        self.updates = 0
        """Updates of P4Runtime in them."""

    async def __aenter__(self) -> Self:
        """Listen on a free port of the loopback."""
        bypass_proxy(self._switch)
        # Of its own: a shared one that another proxy had broken would wait before it tries again.
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

    async def pass_on(
        self, method: str, requests: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        """Carry out one call, of whatever kind: with one message a stream is as good as none."""
        fault = None
        if method in (WRITE, PUSH, SET_LINK):
            request = await anext(requests)
            request, fault = self._meet(method, request)
            requests = _only(request)
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

    def _meet(self, method: str, request: bytes) -> tuple[bytes, Kind | None]:
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
        """Break the connections and never answer: the end of the server ends this call too."""
        self._ending = asyncio.create_task(self._server.stop(None))
        await asyncio.Event().wait()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, proxy: FaultyProxy) -> None:
        self._proxy = proxy

    def service(self, details: Any) -> Any:
        """Every method is taken for one of streams both ways."""

        async def pass_on(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            async for reply in self._proxy.pass_on(details.method, requests, context):
                yield reply

        return grpc.stream_stream_rpc_method_handler(pass_on)


async def _only(request: bytes) -> AsyncIterator[bytes]:
    yield request
