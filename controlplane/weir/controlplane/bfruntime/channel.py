# SPDX-License-Identifier: Apache-2.0
"""The gRPC side of BfRuntime: requests of one client, its stream, and the errors of both.

The server knows no election: the first client that binds to a program owns it, until its stream ends. Whoever
only reads names the program in each request, and neither subscribes nor binds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc
from finsy.proto import rpc_status

from weir.controlplane.bfruntime.messages import BIND, CONTINUE_ON_ERROR, MESSAGES, SERVICE
from weir.controlplane.connection import Update
from weir.controlplane.errors import (
    ControlPlaneError,
    NotPrimaryError,
    PipelineError,
    ReadError,
    RefusedUpdate,
    SwitchUnreachableError,
    WriteError,
    WrongDeviceError,
)
from weir.controlplane.session import bypass_proxy

_ALL_PIPES, _BOTH_DIRECTIONS, _ALL_PARSERS = 0xFFFF, 0xFF, 0xFF
_RPC_TIMEOUT_S = 60.0
_LOAD_TIMEOUT_S = 300.0
_NO_LIMIT = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""A switch returns its whole program, which is larger than gRPC's 4 MiB."""
_UNREACHABLE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
}


_Owner = tuple[str, str]
"""The operation of an update, and the key of its entity."""


class BfRtChannel:
    """One client of the server at an address."""

    def __init__(self, address: str, device_id: int, client_id: int, via: str | None = None) -> None:
        """Set the address; :meth:`open` makes the channel, to ``via`` if that relays to the address."""
        self.address, self.device_id, self.client_id = address, device_id, client_id
        self._via = via or address
        self.digests: asyncio.Queue[Any] = asyncio.Queue()
        """DigestLists; None once no more will come."""
        self.ended = asyncio.Event()
        """Set when the stream has ended."""
        self._stream: Any = None
        self._listener: asyncio.Task[None] | None = None
        self._lost: ControlPlaneError | None = None

    def open(self) -> None:
        """Make the channel; a server that does not answer is an error of the first request."""
        bypass_proxy(self._via)
        self._channel = grpc.aio.insecure_channel(self._via, options=_NO_LIMIT)

    async def close(self) -> None:
        """End the stream, which gives the program free, and close the channel."""
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
        if self._stream is not None:
            self._stream.cancel()
        await self._channel.close()

    def check_alive(self) -> None:
        """Raise the reason for which the stream ended, if it did."""
        if self._lost is not None:
            raise self._lost

    async def subscribe(self) -> None:
        """Open the stream, with digests.

        Raises:
            NotPrimaryError: another client has the id.
            SwitchUnreachableError: the stream ended.
        """
        self._stream = self._method("StreamChannel")()
        wanted = MESSAGES["Notifications"](enable_learn_notifications=True)
        message = MESSAGES["StreamMessageRequest"](
            client_id=self.client_id,
            subscribe=MESSAGES["Subscribe"](device_id=self.device_id, notifications=wanted),
        )
        try:
            await self._stream.write(message)
            reply = await self._stream.read()
            while reply is not grpc.aio.EOF and not reply.HasField("subscribe"):
                reply = await self._stream.read()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            reply = grpc.aio.EOF  # ended, perhaps before it was written to
        if reply is grpc.aio.EOF:
            raise self._ended_with(await self._stream.code(), await self._stream.details())
        if reply.subscribe.status.code != 0:
            raise NotPrimaryError(
                f"the switch at {self.address} took no subscription: {reply.subscribe.status.message}"
            )
        self._listener = asyncio.create_task(self._listen(), name=f"bfruntime {self.address}")

    async def config(self) -> Any:
        """The programs of the device and its fixed tables: a GetForwardingPipelineConfigResponse.

        Raises:
            WrongDeviceError: the server does not know the device.
            SwitchUnreachableError, ReadError: it does not answer, or does not speak BfRuntime.
        """
        request = MESSAGES["GetForwardingPipelineConfigRequest"](
            device_id=self.device_id, client_id=self.client_id
        )
        try:
            return await self._call("GetForwardingPipelineConfig", request)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.UNKNOWN:  # the published server has no better answer
                raise WrongDeviceError(
                    f"the switch at {self.address} does not say what device {self.device_id} runs "
                    f"({_reason(error)}); valid: the id of its chip, which is 0 where there is one"
                ) from error
            raise self._explain(error) from error

    async def bind(self, name: str) -> None:
        """Own a program that the device runs.

        Raises:
            NotPrimaryError: another client owns it.
            PipelineError: the device does not run it.
        """
        self.check_alive()
        try:
            await self._set_config(BIND, MESSAGES["ForwardingPipelineConfig"](p4_name=name))
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.ALREADY_EXISTS:
                raise NotPrimaryError(
                    f"another controller owns program {name} at {self.address}: {error.details()}; "
                    "valid: stop it"
                ) from error
            raise self._explain(error) from error

    async def load(self, action: int, config: Any) -> None:
        """Load a program with a SetForwardingPipelineConfig of this action.

        Raises:
            PipelineError: the server refused it.
            SwitchUnreachableError: the connection broke.
        """
        self.check_alive()
        try:
            await self._set_config(action, config)
        except grpc.aio.AioRpcError as error:
            explained = self._explain(error)
            if isinstance(explained, SwitchUnreachableError):
                raise explained from error
            raise PipelineError(
                f"the switch at {self.address} refused the program: {_reason(error)}"
            ) from error

    async def read(self, p4_name: str, entries: Sequence[Any]) -> list[Any]:
        """The TableEntries that are returned for some. Raises ReadError, SwitchUnreachableError."""
        request = MESSAGES["ReadRequest"](
            target=self._target(),
            client_id=self.client_id,
            entities=[MESSAGES["Entity"](table_entry=entry) for entry in entries],
            p4_name=p4_name,
        )
        self.check_alive()
        try:
            call = self._method("Read")(request, timeout=_RPC_TIMEOUT_S)
            return [entity.table_entry async for reply in call for entity in reply.entities]
        except grpc.aio.AioRpcError as error:
            raise self._explain(error) from error

    async def write(self, p4_name: str, updates: Sequence[tuple[Update, Any]]) -> None:
        """Write Update messages in order, each with the update that it is a part of.

        Raises:
            WriteError: the server refused some; an update of several messages is refused once.
            SwitchUnreachableError: the connection broke.
        """
        owners = [(operation, entity.key) for (operation, entity), _ in updates]
        await self._write(p4_name, owners, [message for _, message in updates])

    async def write_one(self, p4_name: str, what: str, message: Any) -> None:
        """Write one Update message; `what` names it in errors. Raises as :meth:`write`."""
        await self._write(p4_name, [("set", what)], [message])

    async def _write(self, p4_name: str, owners: list[_Owner], messages: list[Any]) -> None:
        request = MESSAGES["WriteRequest"](
            target=self._target(),
            client_id=self.client_id,
            updates=messages,
            atomicity=CONTINUE_ON_ERROR,
            p4_name=p4_name,
        )
        self.check_alive()
        try:
            await self._call("Write", request)
        except grpc.aio.AioRpcError as error:
            raise self._explain_write(error, owners) from error

    async def _listen(self) -> None:
        """Queue digests; record the end of the stream, which the next request raises."""
        code: Any = grpc.StatusCode.UNAVAILABLE
        details: str | None = "it ended"
        try:
            while (message := await self._stream.read()) is not grpc.aio.EOF:
                if message.HasField("digest"):
                    self.digests.put_nowait(message.digest)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details()
        finally:
            self._lost = self._ended_with(code, details)
            self.ended.set()
            self.digests.put_nowait(None)

    async def _set_config(self, action: int, config: Any) -> None:
        request = MESSAGES["SetForwardingPipelineConfigRequest"](
            device_id=self.device_id, client_id=self.client_id, action=action, config=[config]
        )
        await self._call("SetForwardingPipelineConfig", request, _LOAD_TIMEOUT_S)

    def _target(self) -> Any:
        return MESSAGES["TargetDevice"](
            device_id=self.device_id,
            pipe_id=_ALL_PIPES,
            direction=_BOTH_DIRECTIONS,
            prsr_id=_ALL_PARSERS,
        )

    def _method(self, name: str) -> Any:
        kinds = {
            "Read": (self._channel.unary_stream, "ReadRequest", "ReadResponse"),
            "Write": (self._channel.unary_unary, "WriteRequest", "WriteResponse"),
            "StreamChannel": (
                self._channel.stream_stream,
                "StreamMessageRequest",
                "StreamMessageResponse",
            ),
        }
        default = (self._channel.unary_unary, f"{name}Request", f"{name}Response")
        make, request, reply = kinds.get(name, default)
        return make(
            f"/{SERVICE}/{name}",
            request_serializer=MESSAGES[request].SerializeToString,
            response_deserializer=MESSAGES[reply].FromString,
        )

    async def _call(self, name: str, request: Any, timeout_s: float = _RPC_TIMEOUT_S) -> Any:
        return await self._method(name)(request, timeout=timeout_s)

    def _ended_with(self, code: Any, details: str | None) -> ControlPlaneError:
        if code == grpc.StatusCode.INVALID_ARGUMENT:
            return NotPrimaryError(
                f"another controller is connected to {self.address} with our client id {self.client_id} "
                f"({details}); valid: stop it, or another --election-id"
            )
        return SwitchUnreachableError(f"the switch at {self.address} closed the stream: {details}")

    def _explain(self, error: grpc.aio.AioRpcError) -> ControlPlaneError:
        if error.code() in _UNREACHABLE:
            return SwitchUnreachableError(f"no BfRuntime at {self.address}: {error.details()}")
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            return ReadError(
                f"the server at {self.address} does not speak BfRuntime ({error.details()}); "
                "valid: a bf_switchd, or an address without bfruntime://"
            )
        if error.code() == grpc.StatusCode.NOT_FOUND:
            return PipelineError(
                f"the switch at {self.address} does not run the program: {error.details()}; "
                "valid: load it first"
            )
        parts = "; ".join(f"{code}: {text}" for _, code, text in _details(error))
        return ReadError(f"the switch at {self.address} refused: {parts or _reason(error)}")

    def _explain_write(self, error: grpc.aio.AioRpcError, owners: Sequence[_Owner]) -> ControlPlaneError:
        """The error of a write; an update of several messages is refused once, with its first reason."""
        details = [(index, code, text) for index, code, text in _details(error) if index < len(owners)]
        if details:
            reasons: dict[str, RefusedUpdate] = {}
            for index, code, text in details:
                operation, key = owners[index]
                reasons.setdefault(key, RefusedUpdate(operation, key, code, text))
            return WriteError(list(reasons.values()))
        explained = self._explain(error)
        if not isinstance(explained, ReadError):
            return explained
        operation, keys = owners[0]
        if owners[-1][1] != keys:
            keys = f"{keys} to {owners[-1][1]} ({len(owners)} updates)"
        refused = RefusedUpdate(operation, keys, error.code().name, error.details() or "")
        return WriteError([refused], each=False)


def _details(error: grpc.aio.AioRpcError) -> list[tuple[int, str, str]]:
    """Index, code and text of each entity that failed, which the server puts behind UNKNOWN."""
    names = {code.value[0]: code.name for code in grpc.StatusCode}
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin":
            continue
        status = rpc_status.Status.FromString(value if isinstance(value, bytes) else value.encode())
        failed = []
        for index, detail in enumerate(status.details):
            one = MESSAGES["Error"].FromString(detail.value)
            if one.canonical_code:
                code = names.get(one.canonical_code, str(one.canonical_code))
                failed.append((index, code, one.message))
        return failed
    return []


def _reason(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}{f': {error.details()}' if error.details() else ''}"
