# SPDX-License-Identifier: Apache-2.0
"""A BfRuntime server for tests: checks every message against bf-rt.json, and stores what is written.

It refuses what the published server of open P4 Studio refuses, with its codes. It shares the messages with
weir's client (their numbers are compared with bytes written by hand), but neither its reader of schemas nor
its codec, and forwards no packets.

    client ── gRPC on the loopback ── BfRuntimeServer ── bfrt_tables: one store for each table
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from finsy.proto import rpc_status

from weir.controlplane.bfruntime.messages import MESSAGES, SERVICE
from weir.controlplane.targets.tofino import TOFINO2
from weir_tests.controlplane.bfrt_files import fixed_schema, program_schema
from weir_tests.controlplane.bfrt_tables import Meter, Refused, Store, stores_of

TYPES = {1: "insert", 2: "modify", 4: "delete"}
_ERROR_URL = "type.googleapis.com/bfrt_proto.Error"
Written = tuple[str, str]
"""The type of an update, and the short name of its table."""


def _accept(_kind: str, _table: str, _entry: Any) -> str | None:
    return None


@dataclass
class Client:
    """A connected client: its stream, and the program that it is bound to."""

    stream: asyncio.Queue[Any]
    bound: str | None = None


@dataclass
class BfRuntimeServer:
    """An async context manager that listens on ``address``. By default it runs no program."""

    programs: dict[str, bytes] = field(default_factory=dict)
    """bf-rt.json by name of the programs that it runs."""
    fixed: bytes = field(default_factory=fixed_schema)
    device_id: int = 0
    refuse: Callable[[str, str, Any], str | None] = _accept
    """The name of the code with which to refuse an update (type, short table name, entry), or None."""
    drop_write: bool = False
    """Whether writes fail as if the connection broke."""
    refuse_program: str | None = None
    """The reason to refuse a program, or None."""
    garble: Callable[[Any], None] = lambda _entry: None
    """Alters a TableEntry before it is returned by a read."""
    address: str = ""
    port: int = 0
    stores: dict[int, Store] = field(default_factory=dict)
    clients: dict[int, Client] = field(default_factory=dict)
    writes: list[Written] = field(default_factory=list)
    """Every update that was accepted, in order."""
    loads: list[Any] = field(default_factory=list)
    """The programs that were loaded, as messages."""

    def __post_init__(self) -> None:
        """Make the tables of the programs that it runs."""
        self._make_stores()

    async def __aenter__(self) -> Self:
        """Listen on a free port of the loopback, or on that of the last time."""
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.address = f"127.0.0.1:{self.port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at once."""
        await self.stop()

    async def stop(self) -> None:
        """Close every connection, like a switch that crashes; clients are forgotten, tables are not."""
        await self._server.stop(None)
        self.clients.clear()

    def store(self, name: str) -> Store:
        """The store of a table by the last part of its name."""
        (found,) = (one for one in self.stores.values() if one.short == name and one.kind != "Digest")
        return found

    async def announce(self, digest: str, *flows: dict[str, int]) -> None:
        """Send a digest to every client that is bound."""
        for text in self.programs.values():
            for one in json.loads(text)["learn_filters"]:
                if one["name"].rpartition(".")[2] == digest:
                    message = MESSAGES["DigestList"](digest_id=one["id"])
                    for flow in flows:
                        data = message.data.add()
                        for item in one["fields"]:
                            width = (item["type"]["width"] + 7) // 8
                            stream = flow[item["name"]].to_bytes(width, "big")
                            data.fields.add(field_id=item["id"], stream=stream)
                    for client in self.clients.values():
                        if client.bound is not None:
                            client.stream.put_nowait(MESSAGES["StreamMessageResponse"](digest=message))

    def _make_stores(self) -> None:
        trees = [json.loads(text) for text in (*self.programs.values(), self.fixed)]
        self.stores = stores_of([table for tree in trees for table in tree["tables"]])
        if any(store.tree["name"].startswith("tf2.") for store in self.stores.values()):
            for store in self.stores.values():
                if isinstance(store, Meter):
                    store.chip = TOFINO2

    def _handlers(self) -> Any:
        unary, kinds = grpc.unary_unary_rpc_method_handler, ("Write", "GetForwardingPipelineConfig")
        methods: dict[str, Any] = {
            name: unary(
                getattr(self, name),
                request_deserializer=MESSAGES[f"{name}Request"].FromString,
                response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
            )
            for name in (*kinds, "SetForwardingPipelineConfig")
        }
        methods["Read"] = grpc.unary_stream_rpc_method_handler(
            self.Read,
            request_deserializer=MESSAGES["ReadRequest"].FromString,
            response_serializer=MESSAGES["ReadResponse"].SerializeToString,
        )
        methods["StreamChannel"] = grpc.stream_stream_rpc_method_handler(
            self.StreamChannel,
            request_deserializer=MESSAGES["StreamMessageRequest"].FromString,
            response_serializer=MESSAGES["StreamMessageResponse"].SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def StreamChannel(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        """Accept one subscription; the client and its binding last as long as the stream."""
        request = await anext(aiter(requests))
        if request.client_id in self.clients:
            text = "Can't have two clients with the same client id Invalid arguments"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        client = self.clients[request.client_id] = Client(asyncio.Queue())
        try:
            status = MESSAGES["RpcStatus"](code=0)
            yield MESSAGES["StreamMessageResponse"](subscribe=MESSAGES["Subscribe"](status=status))
            while (message := await client.stream.get()) is not None:
                yield message
            await context.abort(grpc.StatusCode.CANCELLED, "kicked out")
        finally:
            self.clients.pop(request.client_id, None)

    async def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """Return the programs and the fixed tables; the published server throws for another device.

        Without a program, it names one ``$SHARED``, which has the fixed tables.
        """
        if request.device_id != self.device_id:
            await context.abort(grpc.StatusCode.UNKNOWN, "Unexpected error in RPC handling")
        return MESSAGES["GetForwardingPipelineConfigResponse"](
            config=[
                MESSAGES["ForwardingPipelineConfig"](p4_name=name, bfruntime_info=text)
                for name, text in (self.programs or {"$SHARED": self.fixed}).items()
            ],
            non_p4_config=MESSAGES["NonP4Config"](bfruntime_info=self.fixed),
        )

    async def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        """Bind a client to a program, or replace the programs of the device."""
        if request.action == 0:
            await self._bind(request, context)
        elif request.action == 3:
            if self.refuse_program is not None:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.refuse_program)
            self.programs = {one.p4_name: one.bfruntime_info for one in request.config}
            self.loads.extend(request.config)
            self._make_stores()
            for client in self.clients.values():
                kinds = (0, 1) if client.bound is None or client.bound in self.programs else ()
                for kind in kinds:  # WARM_INIT_STARTED, WARM_INIT_FINISHED
                    told = MESSAGES["SetForwardingPipelineConfigResponse"](
                        set_forwarding_pipeline_config_response_type=kind
                    )
                    client.stream.put_nowait(
                        MESSAGES["StreamMessageResponse"](set_forwarding_pipeline_config_response=told)
                    )
                if not kinds:
                    client.stream.put_nowait(None)
        else:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Not supported")
        return MESSAGES["SetForwardingPipelineConfigResponse"]()

    async def _bind(self, request: Any, context: Any) -> None:
        client = self.clients.get(request.client_id)
        if client is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"Unknown client. {request.client_id} Not ready")
            raise AssertionError("abort raises")
        if len(request.config) != 1:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Exactly one config message required.")
        name = request.config[0].p4_name
        owners = [number for number, one in self.clients.items() if one.bound == name]
        if owners:
            text = (
                f"Client ID {request.client_id} trying to bind but Client ID {owners[0]} already owns this P4"
            )
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, text)
        if name not in self.programs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Failed to find BfRtInfo for program {name}")
        client.bound = name

    async def _check_program(self, request: Any, context: Any) -> None:
        """Whoever names no program must be bound to one."""
        client = self.clients.get(request.client_id)
        name = request.p4_name or (client.bound if client is not None else None)
        if name not in self.programs or request.target.device_id != self.device_id:
            text = f"Unable to obtain BF_RT info for ({name}) Object not found"
            await context.abort(grpc.StatusCode.NOT_FOUND, text)
        if request.target.pipe_id != 0xFFFF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "tables are in all pipes")

    async def Write(self, request: Any, context: Any) -> Any:
        """Try each update; if any is refused, answer UNKNOWN with one error for each up to the last."""
        await self._check_program(request, context)
        if self.drop_write:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if request.atomicity == 2:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "DATAPLANE_ATOMIC isn't implemented")
        errors: list[tuple[int, Refused]] = []
        for index, update in enumerate(request.updates):
            try:
                self._write(update)
            except Refused as refused:
                errors.append((index, refused))
        await self._report("Write Error Status", errors, context)
        return MESSAGES["WriteResponse"]()

    def _write(self, update: Any) -> None:
        kind, entry = TYPES.get(update.type), update.entity.table_entry
        store = self.stores.get(entry.table_id)
        if kind is None or store is None:
            raise Refused("INVALID_ARGUMENT" if kind is None else "NOT_FOUND", "no such type or table")
        refused = self.refuse(kind, store.short, entry)
        if refused is not None:
            raise Refused(refused, "as told")
        store.write(kind, entry, self.stores)
        self.writes.append((kind, store.short))

    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """One response with everything that was found, then the errors."""
        await self._check_program(request, context)
        reply, errors = MESSAGES["ReadResponse"](), []
        for index, entity in enumerate(request.entities):
            store = self.stores.get(entity.table_entry.table_id)
            try:
                if store is None:
                    raise Refused("NOT_FOUND", "no such table")
                for entry in store.read(entity.table_entry):
                    answer = reply.entities.add().table_entry
                    answer.CopyFrom(entry)
                    self.garble(answer)
            except Refused as refused:
                errors.append((index, refused))
        yield reply
        await self._report("Read Error Status", errors, context)

    async def _report(self, text: str, errors: list[tuple[int, Refused]], context: Any) -> None:
        if not errors:
            return
        status, failed = rpc_status.Status(code=2, message=text), dict(errors)
        for index in range(errors[-1][0] + 1):
            error = MESSAGES["Error"]()
            if index in failed:
                error.canonical_code = grpc.StatusCode[failed[index].code].value[0]
                error.message = str(failed[index])
            status.details.add(type_url=_ERROR_URL, value=error.SerializeToString())
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(grpc.StatusCode.UNKNOWN, text)


def weir_server(chip: str = "tofino1") -> BfRuntimeServer:
    """A server that runs weir's program."""
    return BfRuntimeServer({chip: program_schema(chip)}, fixed_schema("tf1" if chip == "tofino1" else "tf2"))


async def _serve(program: str, port: int) -> None:
    """Serve until the standard input is closed; the first line of the output is the address."""
    server = BfRuntimeServer() if program == "none" else weir_server(program)
    server.port = port
    async with server:
        print(server.address, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":  # python -m …bfruntime_server PROGRAM PORT (0: any)
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
