# SPDX-License-Identifier: Apache-2.0
"""Another controller with another program: a learning switch, loaded onto a running switch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import grpc
from finsy.proto import U128, p4r, p4r_grpc
from google.protobuf import text_format

from weir.controlplane.session import bypass_proxy

COOKIE = 77
_PROGRAM = Path(__file__).parents[3] / "softswitch" / "programs" / "l2_learning"
_ELECTION_ID = 9  # above those of weir's controllers
_PATIENCE_S = 60.0


def load_other_program(address: str, device_id: int = 1, cookie: int | None = COOKIE) -> None:
    """Load it, with a cookie or without, and disconnect. Raises grpc.RpcError."""
    bypass_proxy(address)
    election_id = U128.encode(_ELECTION_ID)
    bid = p4r.StreamMessageRequest()
    bid.arbitration.device_id = device_id
    bid.arbitration.election_id.CopyFrom(election_id)
    request = p4r.SetForwardingPipelineConfigRequest(device_id=device_id, election_id=election_id)
    request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    text_format.Parse(_PROGRAM.with_suffix(".p4info.txtpb").read_text(), request.config.p4info)
    request.config.p4_device_config = _PROGRAM.with_suffix(".json").read_bytes()
    if cookie is not None:
        request.config.cookie.cookie = cookie
    with grpc.insecure_channel(address) as channel:
        stub: Any = p4r_grpc.P4RuntimeStub(channel)
        loaded = Event()
        stream = stub.StreamChannel(_until(loaded, bid), timeout=_PATIENCE_S)
        next(stream)
        try:
            stub.SetForwardingPipelineConfig(request, timeout=_PATIENCE_S)
        finally:
            loaded.set()


def _until(loaded: Event, bid: p4r.StreamMessageRequest) -> Iterator[p4r.StreamMessageRequest]:
    """The messages of a controller: it stays connected, and so primary, until the program is loaded."""
    yield bid
    loaded.wait(_PATIENCE_S)


def running_cookie(address: str, device_id: int = 1) -> int:
    """The cookie of the program that a switch runs; 0 without a cookie. Raises grpc.RpcError."""
    bypass_proxy(address)
    request = p4r.GetForwardingPipelineConfigRequest(device_id=device_id)
    request.response_type = p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY
    with grpc.insecure_channel(address) as channel:
        stub: Any = p4r_grpc.P4RuntimeStub(channel)
        reply = stub.GetForwardingPipelineConfig(request, timeout=_PATIENCE_S)
        return int(reply.config.cookie.cookie)
