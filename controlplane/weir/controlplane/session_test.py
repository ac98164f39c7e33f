# SPDX-License-Identifier: Apache-2.0
"""Backups of a switch whose primary goes: each gets its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from finsy import GRPCStatusCode
from finsy.proto import U128

from weir.controlplane.errors import SwitchUnreachableError
from weir.controlplane.session import Session
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

GONE = 10
"""The election id of a primary that has disconnected."""


class Crowded(P4RuntimeServer):
    """Of the backups that bid for the id of a primary that went, another one is first, `faster` times."""

    faster = 2

    async def StreamChannel(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        """Arbitrate as P4Runtime does between backups of lower ids."""
        self.bids: list[int] = getattr(self, "bids", [])
        async for request in request_iterator:
            election_id = U128.decode(request.arbitration.election_id)
            self.bids.append(election_id)
            if election_id < GONE:
                yield self._arbitration(request, GONE, GRPCStatusCode.ALREADY_EXISTS)
                yield self._arbitration(request, GONE, GRPCStatusCode.NOT_FOUND)
            elif self.faster:
                self.faster -= 1
                text = "the election id is used by another controller"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            else:
                yield self._arbitration(request, GONE, GRPCStatusCode.OK)


def test_a_backup_waits_again_when_another_backup_was_faster() -> None:
    async def take_over() -> list[int]:
        async with Crowded() as server:
            session = Session(server.address, 1, 3, 10.0, part="backup")
            async with asyncio.timeout(10), session:
                return server.bids

    assert asyncio.run(take_over()) == [3, GONE, 3, GONE, 3, GONE]


class PoweredOff(P4RuntimeServer):
    """Has a primary; then answers nothing, and its stream stays open all the same."""

    asked = 0

    async def StreamChannel(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        """Say once that there is a primary."""
        async for request in request_iterator:
            yield self._arbitration(request, GONE, GRPCStatusCode.ALREADY_EXISTS)

    async def Capabilities(self, request: Any, context: Any) -> Any:
        """Answer the question with which a session begins, and no other."""
        self.asked += 1
        if self.asked > 1:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer")
        return await super().Capabilities(request, context)


def test_a_waiting_backup_notices_that_the_switch_is_gone_though_its_stream_is_open() -> None:
    async def wait() -> None:
        async with PoweredOff() as server, asyncio.timeout(10):
            with pytest.raises(SwitchUnreachableError, match="no answer"):
                await Session(server.address, 1, 3, 10.0, part="backup").__aenter__()

    asyncio.run(wait())
