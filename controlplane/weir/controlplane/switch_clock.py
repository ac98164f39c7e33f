# SPDX-License-Identifier: Apache-2.0
"""The clock of the embedded switch, which P4Runtime does not tell: asked of its links service.

Only the clock's field of the answer is described here; protobuf passes over the others
(softswitch/links/proto/weir/links/v1/links.proto).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import grpc
from finsy import GRPCCredentialsTLS

from weir.controlplane.errors import SwitchUnreachableError
from weir.controlplane.messages import message_class
from weir.controlplane.session import bypass_proxy

_METHOD = "/weir.links.v1.Links/Get"
_TIMEOUT_S = 5.0


_Answer = message_class("weir.links.v1", {"GetResponse": [("clock_ns", 2, "uint64")]}, "GetResponse")


class SwitchClock:
    """A connection that reads the clock; an async context manager."""

    def __init__(self, address: str, tls: GRPCCredentialsTLS | None = None) -> None:
        """Name the switch, as for P4Runtime."""
        self._address, self._tls = address, tls

    async def __aenter__(self) -> Self:
        """Open the channel; whether the switch answers shows at the first reading."""
        bypass_proxy(self._address)
        if self._tls is None:
            self._channel = grpc.aio.insecure_channel(self._address)
        else:
            self._channel = grpc.aio.secure_channel(self._address, self._tls.to_client_credentials())
        self._call: Any = self._channel.unary_unary(_METHOD, response_deserializer=_Answer.FromString)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the channel."""
        await self._channel.close()

    async def now_ns(self) -> int:
        """The switch's time: the programs' `ingress_global_timestamp`, in ns since the switch started.

        Raises:
            SwitchUnreachableError: the switch does not answer, or has no such service.
        """
        try:
            answer = await self._call(b"", timeout=_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            raise SwitchUnreachableError(
                f"the switch at {self._address} does not tell its time: {error.details()}"
            ) from error
        return int(answer.clock_ns)
