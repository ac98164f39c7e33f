# SPDX-License-Identifier: Apache-2.0
"""One P4Runtime connection: arbitration, pipeline, reads and writes; every failure is a ControlPlaneError.

Built on finsy's client and schema. finsy's ``Switch`` is not used: when a switch refuses the pipeline, it
cancels a task and drops the switch's reason (finsy 0.30), which an operator needs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Self

from finsy import (
    GRPCCredentialsTLS,
    GRPCStatusCode,
    P4Client,
    P4ClientError,
    P4DigestList,
    P4RuntimeVersion,
    P4Schema,
)
from finsy.p4entity import decode_entity, encode_entities
from finsy.proto import U128, p4i, p4r

from weir.controlplane.connection import BATCH, Part
from weir.controlplane.entities import Entity
from weir.controlplane.errors import (
    CertificateError,
    ControlPlaneError,
    MaybeLoadedError,
    NotPrimaryError,
    PipelineError,
    ReadError,
    RefusedUpdate,
    SwitchUnreachableError,
    WriteError,
    WrongDeviceError,
)
from weir.controlplane.together import together
from weir.controlplane.translate import FinsyEntity, to_finsy

_UPDATE_TYPES = {"insert": p4r.Update.INSERT, "modify": p4r.Update.MODIFY, "delete": p4r.Update.DELETE}
_MAX_BIDS = 3  # bids for the election id of a disconnected primary, for which others may bid as well
_TLS_WORDS = ("ssl", "tls", "tsi_", "handshake", "certificate", "hostname verification")
_SIGN_OF_LIFE_S = 1.0
"""Interval at which a waiting backup sends the switch a request: a switch that lost its power closes no
stream, and after it has started again it does not know the backup.
"""
_NO_PROXY = "no_grpc_proxy"  # in lower case only
_CLOSED_WORDS = ("socket closed", "connection reset", "end of tcp stream")
"""In the messages of gRPC where the peer accepted the connection and then closed it."""
_UNREACHABLE = {GRPCStatusCode.UNAVAILABLE, GRPCStatusCode.DEADLINE_EXCEEDED, GRPCStatusCode.CANCELLED}

Update = tuple[str, Entity | FinsyEntity]
"""The operation (insert, modify or delete) and the entity."""

# finsy also logs the errors that it raises; weir's user gets each failure once.
logging.getLogger("finsy").addHandler(logging.NullHandler())


def bypass_proxy(address: str) -> None:
    """Keep gRPC from using the environment's HTTP proxy for a loopback address.

    gRPC applies http_proxy to the loopback too; its own exception list, no_grpc_proxy, replaces no_proxy.
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    spared = os.environ.get(_NO_PROXY, os.environ.get("no_proxy", ""))
    if local and host not in spared.split(","):
        os.environ[_NO_PROXY] = ",".join(part for part in (spared, host) if part)


class Session:
    """A connection to one device, by default as its primary controller; an async context manager."""

    def __init__(
        self,
        address: str,
        device_id: int,
        election_id: int,
        timeout_s: float,
        tls: GRPCCredentialsTLS | None = None,
        part: Part = "primary",
        via: str | None = None,
    ) -> None:
        """Set the address; entering the context opens the connection. Without `tls` it is plain text.

        `via` is an address that relays to the switch's, which cannot be reached itself; messages do not name
        it.
        """
        self._tls, self._part = tls is not None, part
        self.address = address
        self.device_id = device_id
        self._election_id = election_id
        self._timeout_s = timeout_s
        bypass_proxy(via or address)
        self._client = P4Client(via or address, tls, wait_for_ready=False)
        self._schema = P4Schema()
        self._version: P4RuntimeVersion | None = None
        self._listener: asyncio.Task[None] | None = None
        self._lost: ControlPlaneError | None = None
        self._ended = asyncio.Event()
        self._digests: asyncio.Queue[Any] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Connect and take the part of the session; a backup returns once it is primary.

        Raises:
            SwitchUnreachableError: nothing answers in time.
            CertificateError: one side does not trust the other's certificate.
            WrongDeviceError: the switch has another device id.
            NotPrimaryError: another controller has a higher election id.
        """
        await self._client.open(complete_request=self._complete)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._request_version()
                if self._part == "primary":
                    await self._arbitrate()
            if self._part == "backup":
                await together(self._take_over(), self._ask_repeatedly())
        except TimeoutError as error:
            await self._client.close()
            raise SwitchUnreachableError(
                f"the switch at {self.address} did not answer within {self._timeout_s:g} s"
            ) from error
        except (P4ClientError, RuntimeError) as error:
            await self._client.close()
            raise self._explain(error) from error
        except BaseException:
            await self._client.close()
            raise
        if self._part != "reader":
            self._listener = asyncio.create_task(self._listen(), name=f"p4runtime {self.address}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection; the switch keeps what was written."""
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
        await self._client.close()

    @property
    def schema(self) -> P4Schema:
        """The P4Info of the pipeline; empty before ``use``."""
        return self._schema

    def use(self, schema: P4Schema) -> None:
        """Encode and decode with the P4Info of ``schema`` from now on."""
        if self._version is not None:
            schema.set_p4runtime_version(self._version)
        self._schema = schema

    async def push_pipeline(self, schema: P4Schema) -> None:
        """Load the program of ``schema`` and commit it; tables, meters and counters start empty.

        Raises:
            PipelineError: the switch refused it; the text has the switch's reason.
            MaybeLoadedError: the connection broke, so it is not known whether the program was loaded.
            NotPrimaryError: another controller is primary.
        """
        self.use(schema)
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=schema.get_pipeline_config(),
        )
        try:
            await self._request(request)
        except P4ClientError as error:
            explained = self._explain(error)
            if isinstance(explained, ReadError | PipelineError):
                raise PipelineError(
                    f"the switch at {self.address} refused the pipeline: {_reason(error)}"
                ) from error
            if isinstance(explained, SwitchUnreachableError):
                raise MaybeLoadedError(explained) from error
            raise explained from error

    async def running_cookie(self) -> int | None:
        """The cookie of the pipeline that the switch runs, 0 if it has none; None if the switch runs none."""
        asked = p4r.GetForwardingPipelineConfigRequest
        for part in (asked.COOKIE_ONLY, asked.P4INFO_AND_COOKIE):
            config = await self._running_config(part)
            if config is None:
                return None
            if config.HasField("cookie"):
                return int(config.cookie.cookie)
        return 0 if config.HasField("p4info") else None

    async def running_p4info(self) -> p4i.P4Info | None:
        """The P4Info of the pipeline that the switch runs; None if it runs none, or does not tell."""
        config = await self._running_config(p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE)
        return config.p4info if config is not None and config.HasField("p4info") else None

    async def _running_config(self, part: Any) -> Any:
        """A part of the running pipeline's config; None if the switch runs none."""
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=part)
        try:
            reply = await self._request(request)
        except P4ClientError as error:
            if error.code == GRPCStatusCode.FAILED_PRECONDITION:
                return None
            raise self._explain(error) from error
        return reply.config

    async def write(self, operation: str, entities: Sequence[Entity | FinsyEntity]) -> None:
        """Insert, modify or delete ``entities`` (weir's own, or any of finsy's), in order, in batches.

        Raises:
            WriteError: the switch refused updates; it has each with its reason.
            NotPrimaryError, SwitchUnreachableError: the session can no longer write.
        """
        for start in range(0, len(entities), BATCH):
            await self.write_batch([(operation, entity) for entity in entities[start : start + BATCH]])

    async def write_batch(self, updates: Sequence[Update], *, atomic: bool = False) -> None:
        """Write updates in one request, in order; if ``atomic``, all or none, between two packets.

        Raises:
            WriteError: the switch refused updates; it has each with its reason. The others are on the switch,
                unless the write was ``atomic``.
            NotPrimaryError, SwitchUnreachableError: the session can no longer write.
        """
        encoded = encode_entities([to_finsy(entity) for _, entity in updates], self._schema)
        request = p4r.WriteRequest(
            device_id=self.device_id,
            updates=[
                p4r.Update(type=_UPDATE_TYPES[operation], entity=entity)
                for (operation, _), entity in zip(updates, encoded, strict=True)
            ],
            atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC if atomic else p4r.WriteRequest.CONTINUE_ON_ERROR,
        )
        try:
            await self._request(request)
        except P4ClientError as error:
            raise self._explain_write(error, updates) from error

    async def read(self, entities: Sequence[Any]) -> AsyncIterator[Any]:
        """Read finsy entities (with wildcards) in batches and yield finsy entities.

        Raises:
            ReadError: the switch refused, or returned something that is not in the P4Info.
            SwitchUnreachableError: the connection broke.
        """
        for start in range(0, len(entities), BATCH):
            encoded = encode_entities(entities[start : start + BATCH], self._schema)
            request = p4r.ReadRequest(device_id=self.device_id, entities=encoded)
            self._check_alive()
            try:
                async for reply in self._client.request_iter(request):
                    for entity in reply.entities:
                        yield self._decode(entity)
            except P4ClientError as error:
                raise self._explain(error) from error

    async def until_lost(self) -> None:
        """Wait until the session can no longer write, and raise the reason, as any write would then."""
        await self._ended.wait()
        self._check_alive()

    async def next_digest(self) -> P4DigestList:
        """Wait for the next digest list, and acknowledge it.

        Raises:
            ReadError: the digest is not in the P4Info.
            NotPrimaryError, SwitchUnreachableError: no more lists will come.
        """
        self._check_alive()
        message = await self._digests.get()
        if message is None:
            self._digests.put_nowait(None)
            self._check_alive()
        try:
            digest = P4DigestList.decode(message, self._schema)
        except (KeyError, ValueError) as error:
            raise ReadError(f"the switch sent a digest that is not in the P4Info: {error}") from error
        await self._client.send(digest.ack().encode_update(self._schema))
        return digest

    def _decode(self, entity: p4r.Entity) -> Any:
        try:
            return decode_entity(entity, self._schema)
        except (KeyError, ValueError) as error:
            raise ReadError(f"the switch returned something that is not in the P4Info: {error}") from error

    async def _arbitrate(self) -> None:
        """Bid for primary; take over the election id of a disconnected one (P4Runtime 1.4, section 5)."""
        for _ in range(_MAX_BIDS):
            await self._bid()
            answer = await self._receive_arbitration()
            if answer.status.code == GRPCStatusCode.OK:
                return
            highest = U128.decode(answer.election_id)
            if answer.status.code != GRPCStatusCode.NOT_FOUND:
                break
            self._election_id = highest
        raise NotPrimaryError(self._not_primary(highest))

    async def _ask_repeatedly(self) -> None:
        """Send a request each second; raises P4ClientError when the switch does not answer."""
        while True:
            await asyncio.sleep(_SIGN_OF_LIFE_S)
            await self._request_version()

    async def _take_over(self) -> None:
        """Wait until there is no primary and bid; or until the switch promotes this session by itself.

        The switch notifies every backup, and all bid the same id. The first to bid becomes primary; the
        switch closes the streams of the others, which bid their own ids again and wait.
        """
        own = self._election_id
        while True:
            try:
                await self._bid()
                while (answer := await self._receive_arbitration()).status.code != GRPCStatusCode.OK:
                    if answer.status.code == GRPCStatusCode.NOT_FOUND:
                        self._election_id = max(self._election_id, U128.decode(answer.election_id))
                        await self._bid()
            except P4ClientError as error:
                if self._election_id == own or not _is_taken(error):
                    raise
                self._election_id = own
            else:
                return

    async def _bid(self) -> None:
        election_id = U128.encode(self._election_id)
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id, election_id=election_id)
        await self._client.send(p4r.StreamMessageRequest(arbitration=update))

    async def _receive_arbitration(self) -> p4r.MasterArbitrationUpdate:
        while True:
            reply = await self._client.receive()
            if reply.WhichOneof("update") == "arbitration":
                return reply.arbitration

    async def _request_version(self) -> None:
        try:
            reply = await self._client.request(p4r.CapabilitiesRequest())
            self._version = P4RuntimeVersion.parse(reply.p4runtime_api_version)
        except P4ClientError as error:
            if error.code != GRPCStatusCode.UNIMPLEMENTED:
                raise
        except ValueError as error:
            raise ReadError(f"the switch at {self.address} has no P4Runtime version: {error}") from error

    async def _listen(self) -> None:
        """Queue digests; record the loss of the stream or of primacy, which the next request raises."""
        try:
            while True:
                message = await self._client.receive()
                if message.WhichOneof("update") == "arbitration" and message.arbitration.status.code != 0:
                    election_id = U128.decode(message.arbitration.election_id)
                    self._lost = NotPrimaryError(self._not_primary(election_id))
                    self._ended.set()
                elif message.WhichOneof("update") == "digest":
                    self._digests.put_nowait(message)
        except (P4ClientError, RuntimeError) as error:
            self._lost = self._explain(error)
        finally:
            self._ended.set()
            self._digests.put_nowait(None)  # wakes next_digest

    async def _request(self, request: Any) -> Any:
        self._check_alive()
        return await self._client.request(request)

    def _check_alive(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _complete(self, message: Any) -> None:
        if isinstance(message, p4r.SetForwardingPipelineConfigRequest | p4r.WriteRequest):
            message.election_id.CopyFrom(U128.encode(self._election_id))

    def _not_primary(self, election_id: int) -> str:
        return (
            f"another controller is primary of device {self.device_id} at {self.address} (election id "
            f"{election_id}, ours {self._election_id}); valid: stop it, or use a higher election id"
        )

    def _explain(self, error: P4ClientError | RuntimeError) -> ControlPlaneError:
        if not isinstance(error, P4ClientError):
            return SwitchUnreachableError(f"the switch at {self.address} closed the connection")
        if error.code in _UNREACHABLE:
            if self._tls and any(word in error.message.lower() for word in _TLS_WORDS):
                return CertificateError(
                    f"no TLS with the switch at {self.address}: {error.message}; valid: an address that its "
                    "certificate has, the authority that signed it, and a client certificate that it trusts"
                )
            hint = ""
            if not self._tls and any(words in error.message.lower() for words in _CLOSED_WORDS):
                hint = "; valid, if it expects TLS: the authority that signed its certificate (--tls-ca)"
            return SwitchUnreachableError(f"no P4Runtime at {self.address}: {error.message}{hint}")
        if error.code == GRPCStatusCode.PERMISSION_DENIED:
            return NotPrimaryError(
                f"the switch at {self.address} refused: {_reason(error)}; valid: be its primary controller"
            )
        if _is_taken(error):
            return NotPrimaryError(
                f"another controller of device {self.device_id} at {self.address} has our election id "
                f"{self._election_id}; valid: stop it, or use another election id"
            )
        if error.code == GRPCStatusCode.NOT_FOUND and "device" in error.message.lower():
            return WrongDeviceError(
                f"the switch at {self.address} has no device {self.device_id}: {error.message}; "
                "valid: the id that it was started with"
            )
        if error.code == GRPCStatusCode.FAILED_PRECONDITION:
            return PipelineError(
                f"the switch at {self.address} is not ready: {error.message}; valid: push the pipeline first"
            )
        return ReadError(f"the switch at {self.address} refused: {_reason(error)}")

    def _explain_write(self, error: P4ClientError, updates: Sequence[Update]) -> ControlPlaneError:
        explained = self._explain(error)
        if isinstance(explained, ReadError) or error.details:
            return WriteError(_refused(error, updates), each=bool(error.details))
        return explained


def _is_taken(error: P4ClientError) -> bool:
    """Whether another controller has the election id that was bid."""
    return error.code == GRPCStatusCode.INVALID_ARGUMENT and "election id" in error.message


def _refused(error: P4ClientError, updates: Sequence[Update]) -> list[RefusedUpdate]:
    if not error.details:
        operation, keys = updates[0][0], _key(updates[0][1])
        if len(updates) > 1:
            keys = f"{keys} to {_key(updates[-1][1])} ({len(updates)} updates)"
        return [RefusedUpdate(operation, keys, error.code.name, error.message)]
    refused = [
        RefusedUpdate(operation, _key(entity), detail.canonical_code.name, detail.message)
        for index, detail in sorted(error.details.items())
        if index < len(updates)
        for operation, entity in [updates[index]]
    ]
    # In an atomic batch, ABORTED marks updates that did not fail themselves: they were undone or not tried.
    causes = [update for update in refused if update.code != GRPCStatusCode.ABORTED.name]
    return causes or refused


def _key(entity: Entity | FinsyEntity) -> str:
    return entity.key if isinstance(entity, Entity) else repr(entity)


def _reason(error: P4ClientError) -> str:
    return f"{error.code.name}{f': {error.message}' if error.message else ''}"
