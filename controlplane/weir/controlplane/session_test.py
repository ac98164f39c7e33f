# SPDX-License-Identifier: Apache-2.0
"""Backups of a switch whose primary goes: each gets its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from finsy import GRPCStatusCode
from finsy.proto import U128

from weir.controlplane.session import Session
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

GONE = 10
"""The election id of a primary that has disconnected."""


class Crowded(P4RuntimeServer):
    """Of the backups that bid for the id of a primary that went, another one is always first, `faster` times."""

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
