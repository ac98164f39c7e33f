# SPDX-License-Identifier: Apache-2.0
"""P4Runtime in front of a `ModelSwitch`: one primary controller, writes in order, reads with wildcards."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_code, rpc_status

from weir.ptftests.model.harness import ModelError
from weir.ptftests.model.switch import ModelSwitch, RefusedError

_VERSION = "1.4.1"
_THREADS = 16
_CODES = {code.name: code for code in grpc.StatusCode}


class Service(p4r_grpc.P4RuntimeServicer):
    """The RPCs. A controller is primary while its stream is open and its election id the highest."""

    def __init__(self, switch: ModelSwitch, device_id: int) -> None:
        """Serve a switch as a device."""
        self._switch, self._device_id = switch, device_id
        self._lock = threading.Lock()
        self._streams: dict[int, queue.Queue[p4r.StreamMessageResponse | None]] = {}
        self._config: p4r.ForwardingPipelineConfig | None = None

    def Capabilities(self, request: Any, context: grpc.ServicerContext) -> p4r.CapabilitiesResponse:
        """The version of P4Runtime."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=_VERSION)

    def StreamChannel(
        self, requests: Iterator[p4r.StreamMessageRequest], context: grpc.ServicerContext
    ) -> Iterator[p4r.StreamMessageResponse]:
        """Arbitrate. The model sends no digests, and no packets to the controller."""
        first = next(requests, None)
        if first is None or first.WhichOneof("update") != "arbitration":
            return
        self._check_device(first.arbitration.device_id, context)
        number = U128.decode(first.arbitration.election_id)
        answers: queue.Queue[p4r.StreamMessageResponse | None] = queue.Queue()
        with self._lock:
            if number in self._streams:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"election id {number} is in use")
            self._streams[number] = answers
            self._tell()
        context.add_callback(lambda: answers.put(None))
        try:
            while (answer := answers.get()) is not None:
                yield answer
        finally:
            with self._lock:
                del self._streams[number]
                self._tell()

    def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Start the program anew. It must be the one that the switch was started with."""
        self._check_primary(request, context)
        if request.config.p4_device_config != self._switch.program.binary.read_bytes():
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"another program; valid: {self._switch.program.binary}, which the model was started with",
            )
        try:
            self._switch.push(request.config.p4info)
        except (RefusedError, ModelError) as error:
            _refuse(context, error)
        self._config = request.config
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The program that was loaded last."""
        self._check_device(request.device_id, context)
        if self._config is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no program was loaded")
        return p4r.GetForwardingPipelineConfigResponse(config=self._config)

    def Write(self, request: p4r.WriteRequest, context: grpc.ServicerContext) -> p4r.WriteResponse:
        """Updates, in order; those that are refused are named, the others are done."""
        self._check_primary(request, context)
        if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no atomic batches; valid: CONTINUE_ON_ERROR")
        details = []
        for update in request.updates:
            details.append(p4r.Error(canonical_code=rpc_code.OK))
            try:
                self._switch.write(update)
            except RefusedError as error:
                details[-1] = p4r.Error(canonical_code=rpc_code.Code.Value(error.code), message=str(error))
            except ModelError as error:
                _refuse(context, error)
        if any(detail.canonical_code != rpc_code.OK for detail in details):
            _abort_with(context, details)
        return p4r.WriteResponse()

    def Read(self, request: p4r.ReadRequest, context: grpc.ServicerContext) -> Iterator[p4r.ReadResponse]:
        """Entities, those of each part of the request in one answer."""
        self._check_device(request.device_id, context)
        for wanted in request.entities:
            try:
                found = list(self._switch.read(wanted))
            except (RefusedError, ModelError) as error:
                _refuse(context, error)
            yield p4r.ReadResponse(entities=found)

    def _tell(self) -> None:
        """Tell each controller whether it is primary. The lock is held."""
        highest = max(self._streams, default=0)
        for number, answers in self._streams.items():
            code = rpc_code.OK if number == highest else rpc_code.ALREADY_EXISTS
            update = p4r.MasterArbitrationUpdate(
                device_id=self._device_id,
                election_id=U128.encode(highest),
                status=rpc_status.Status(code=code),
            )
            answers.put(p4r.StreamMessageResponse(arbitration=update))

    def _check_device(self, device_id: int, context: grpc.ServicerContext) -> None:
        if device_id != self._device_id:
            context.abort(
                grpc.StatusCode.NOT_FOUND, f"no device {device_id}; valid: device {self._device_id}"
            )

    def _check_primary(self, request: Any, context: grpc.ServicerContext) -> None:
        self._check_device(request.device_id, context)
        with self._lock:
            primary = max(self._streams, default=None)
        if primary is None or U128.decode(request.election_id) != primary:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"not the primary controller ({primary})")


def serve(switch: ModelSwitch, device_id: int, address: str) -> grpc.Server:
    """Serve P4Runtime at an address until the server is stopped."""
    server = grpc.server(ThreadPoolExecutor(_THREADS))
    p4r_grpc.add_P4RuntimeServicer_to_server(Service(switch, device_id), server)
    server.add_insecure_port(address)
    server.start()
    return server


def _refuse(context: grpc.ServicerContext, error: RefusedError | ModelError) -> NoReturn:
    code = _CODES[error.code] if isinstance(error, RefusedError) else grpc.StatusCode.INTERNAL
    context.abort(code, str(error))
    raise AssertionError("abort does not return")


def _abort_with(context: grpc.ServicerContext, details: list[p4r.Error]) -> NoReturn:
    status = rpc_status.Status(code=rpc_code.UNKNOWN, message="some updates were refused")
    for detail in details:
        status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, status.message)
    raise AssertionError("abort does not return")
