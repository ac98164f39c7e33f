# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server for tests: stores what is written, and can refuse writes or garble reads.

It forwards no packets; tests of forwarding use weir-switch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from finsy import GRPCStatusCode
from finsy.proto import U128, p4r, p4r_grpc, rpc_status

from weir.controlplane.links_service import MESSAGES, SERVICE

Refusal = tuple[GRPCStatusCode, str]


def _accept(_update: p4r.Update) -> Refusal | None:
    return None


def _faithful(_entity: p4r.Entity) -> None:
    return None


@dataclass
class P4RuntimeServer(p4r_grpc.P4RuntimeServicer):
    """An async context manager that listens on ``address``."""

    refuse: Callable[[p4r.Update], Refusal | None] = _accept
    """The reason to refuse an update, or None."""
    garble: Callable[[p4r.Entity], None] = _faithful
    """Alters an entity before it is returned by a read."""
    drop_write: bool = False
    """Whether writes fail as if the connection broke."""
    refuse_pipeline: str | None = None
    """The reason to refuse a pipeline, or None."""
    primary_election_id: int = 0
    """The election id of the connected primary controller; 0: none."""
    disconnected_election_id: int = 0
    """The election id of a primary controller that has disconnected; 0: none."""
    address: str = ""
    config: p4r.ForwardingPipelineConfig | None = None
    entities: dict[bytes, p4r.Entity] = field(default_factory=dict)
    counters: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(counter id, index) → (packets, bytes); all others are zero."""
    writes: list[p4r.Update] = field(default_factory=list)
    """Every update that was accepted, in order."""
    links: dict[int, Any] | None = field(default_factory=dict)
    """Links by port, as messages of the links service; None: the server has no such service."""
    refuse_link: Callable[[int], Refusal | None] = lambda _port: None
    """The reason to refuse setting a port's link, or None."""

    async def __aenter__(self) -> Self:
        """Listen on a free port of the loopback."""
        self._server = grpc.aio.server()
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers((self._links_service(),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at once."""
        await self.stop()

    async def stop(self) -> None:
        """Close every connection, like a switch that crashes."""
        await self._server.stop(None)

    def _links_service(self) -> Any:
        async def get(_request: Any, context: Any) -> Any:
            if self.links is None:
                await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such service")
                raise AssertionError("abort raises")
            ports = [MESSAGES["Port"](number=port, link=link) for port, link in self.links.items()]
            return MESSAGES["GetResponse"](ports=ports)

        async def set_link(request: Any, context: Any) -> Any:
            refused = self.refuse_link(request.number)
            if refused is not None:
                await context.abort(grpc.StatusCode[refused[0].name], refused[1])
            assert self.links is not None  # a client reads links before it sets one
            self.links[request.number] = request.link
            return MESSAGES["SetResponse"]()

        def handler(answer: Any, name: str) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=MESSAGES[f"{name}Request"].FromString,
                response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
            )

        handlers = {"Get": handler(get, "Get"), "Set": handler(set_link, "Set")}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def StreamChannel(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:
        """Arbitrate: the highest election id is primary."""
        async for request in request_iterator:
            election_id = U128.decode(request.arbitration.election_id)
            if self.disconnected_election_id > election_id:
                yield self._arbitration(request, self.disconnected_election_id, GRPCStatusCode.NOT_FOUND)
                continue
            self.primary_election_id = max(self.primary_election_id, election_id)
            code = (
                GRPCStatusCode.OK
                if election_id == self.primary_election_id
                else GRPCStatusCode.ALREADY_EXISTS
            )
            yield self._arbitration(request, self.primary_election_id, code)

    @staticmethod
    def _arbitration(request: Any, election_id: int, code: GRPCStatusCode) -> p4r.StreamMessageResponse:
        return p4r.StreamMessageResponse(
            arbitration=p4r.MasterArbitrationUpdate(
                device_id=request.arbitration.device_id,
                election_id=U128.encode(election_id),
                status=rpc_status.Status(code=code),
            )
        )

    async def Capabilities(self, request: Any, context: Any) -> Any:
        """Return the version of P4Runtime."""
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    async def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """Store the pipeline and remove all entities."""
        await self._check_primary(request, context)
        if self.refuse_pipeline is not None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse_pipeline)
        self.config = request.config
        self.entities.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """Return the pipeline's cookie, and its P4Info if that is asked for."""
        if self.config is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config")
            raise AssertionError("abort raises")
        asked = request.response_type == p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE
        p4info = self.config.p4info if asked else None
        return p4r.GetForwardingPipelineConfigResponse(
            config=p4r.ForwardingPipelineConfig(cookie=self.config.cookie, p4info=p4info)
        )

    async def Write(self, request: Any, context: Any) -> Any:
        """Apply each update; if any is refused, return one error per update as P4Runtime specifies."""
        await self._check_primary(request, context)
        if self.drop_write:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        before = dict(self.entities), list(self.writes)
        errors = [self._apply(update) for update in request.updates]
        refused = any(code != GRPCStatusCode.OK for code, _ in errors)
        if refused and request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
            self.entities, self.writes = before
            undone = GRPCStatusCode.ABORTED, "undone"
            errors = [undone if code == GRPCStatusCode.OK else (code, text) for code, text in errors]
        if any(code != GRPCStatusCode.OK for code, _ in errors):
            status = rpc_status.Status(code=GRPCStatusCode.UNKNOWN, message="some updates failed")
            for code, message in errors:
                status.details.add().Pack(p4r.Error(canonical_code=code, message=message))
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            await context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
        return p4r.WriteResponse()

    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Return all entities of each requested kind; counters and meters are requested by index."""
        if self.config is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no forwarding pipeline config")
        reply = p4r.ReadResponse()
        for asked in request.entities:
            for entity in self._matching(asked):
                answer = reply.entities.add()
                answer.CopyFrom(entity)
                self.garble(answer)
        yield reply

    def _matching(self, asked: p4r.Entity) -> list[p4r.Entity]:
        kind = asked.WhichOneof("entity")
        if kind == "counter_entry":
            packets, size = self.counters.get(
                (asked.counter_entry.counter_id, asked.counter_entry.index.index), (0, 0)
            )
            answer = p4r.Entity()
            answer.CopyFrom(asked)
            answer.counter_entry.data.packet_count, answer.counter_entry.data.byte_count = packets, size
            return [answer]
        if kind == "meter_entry":
            return [self.entities.get(_key(asked), asked)]
        return [entity for entity in self.entities.values() if _kind(entity) == _kind(asked)]

    def _apply(self, update: p4r.Update) -> Refusal:
        refused = self.refuse(update)
        if refused is not None:
            return refused
        key, is_meter = _key(update.entity), update.entity.HasField("meter_entry")
        if update.type == p4r.Update.INSERT and key in self.entities:
            return GRPCStatusCode.ALREADY_EXISTS, "exists"
        if update.type != p4r.Update.INSERT and key not in self.entities and not is_meter:
            return GRPCStatusCode.NOT_FOUND, "not found"
        if update.type == p4r.Update.DELETE:
            del self.entities[key]
        else:
            self.entities[key] = update.entity
        self.writes.append(update)
        return GRPCStatusCode.OK, ""

    async def _check_primary(self, request: Any, context: Any) -> None:
        if U128.decode(request.election_id) != self.primary_election_id:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")


def _kind(entity: p4r.Entity) -> tuple[str | None, object]:
    kind = entity.WhichOneof("entity")
    if kind == "packet_replication_engine_entry":
        return kind, entity.packet_replication_engine_entry.WhichOneof("type")
    return kind, entity.table_entry.table_id if kind == "table_entry" else None


def _key(entity: p4r.Entity) -> bytes:
    """The entity reduced to the fields that identify it in P4Runtime."""
    key = p4r.Entity()
    key.CopyFrom(entity)
    key.table_entry.ClearField("action") if key.HasField("table_entry") else None
    if key.HasField("meter_entry"):
        key.meter_entry.ClearField("config")
    if key.HasField("packet_replication_engine_entry"):
        engine = key.packet_replication_engine_entry
        for part in ("multicast_group_entry", "clone_session_entry"):
            if engine.HasField(part):
                getattr(engine, part).ClearField("replicas")
    return bytes(key.SerializeToString(deterministic=True))
