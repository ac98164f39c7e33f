# SPDX-License-Identifier: Apache-2.0
"""A misbehaving P4Runtime client: it sends without reading, and can be killed in the middle of a request.

As a program, `python hostile_client.py ADDRESS P4INFO JSON UPDATES`, it becomes primary, pushes the program,
prints `ready`, and then writes that many entries in one request; the test kills it meanwhile.
"""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc
from google.protobuf import text_format

DEVICE_ID = 1
# Only a broken switch takes this long.
PATIENCE_S = 60


class HostileClient:
    """A separate connection with a stream whose answers are read only on request."""

    def __init__(self, address: str, election_id: int = 1) -> None:
        """Connect."""
        # Without sharing connections, which gRPC does by default, and without a limit of message sizes.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(address, options=options)
        self.stub: Any = p4r_grpc.P4RuntimeStub(self.channel)
        self.election_id = U128.encode(election_id)
        self._to_send: list[p4r.StreamMessageRequest] = []
        self._changed = threading.Condition()
        self.stream: Any = None

    def __enter__(self) -> Self:
        """Nothing more to do."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.channel.close()

    def open_stream(self) -> p4r.MasterArbitrationUpdate:
        """Request to be primary; return the answer."""
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = DEVICE_ID
        request.arbitration.election_id.CopyFrom(self.election_id)
        self._to_send.append(request)
        self.stream = self.stub.StreamChannel(self._requests(), timeout=PATIENCE_S)
        answer: p4r.MasterArbitrationUpdate = next(self.stream).arbitration
        return answer

    def send(self, message: p4r.StreamMessageRequest) -> None:
        """Send on the stream; nothing is read."""
        with self._changed:
            self._to_send.append(message)
            self._changed.notify()

    def _requests(self) -> Iterator[p4r.StreamMessageRequest]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._to_send)
                message = self._to_send.pop(0)
            yield message

    def push(self, p4info: Path, blob: Path, action: str = "VERIFY_AND_COMMIT") -> None:
        """Set the pipeline."""
        request = p4r.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, election_id=self.election_id)
        request.action = p4r.SetForwardingPipelineConfigRequest.Action.Value(action)
        text_format.Parse(p4info.read_text(), request.config.p4info)
        request.config.p4_device_config = blob.read_bytes()
        self.stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)

    def write(self, updates: list[p4r.Update]) -> Any:
        """Begin a write; return the call, whose result may be left unread."""
        request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=self.election_id, updates=updates)
        return self.stub.Write.future(request, timeout=PATIENCE_S)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Read; entities arrive as the iterator advances."""
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[entity])
        for response in self.stub.Read(request, timeout=PATIENCE_S):
            yield from response.entities


def destinations(p4info_file: Path, table: str, action: str, keys: range) -> list[p4r.Update]:
    """Inserts into an exact table with one 48-bit key and an action whose one parameter is 1."""
    p4info = text_format.Parse(p4info_file.read_text(), p4i.P4Info())
    table_id = next(t.preamble.id for t in p4info.tables if t.preamble.alias == table)
    action_id = next(a.preamble.id for a in p4info.actions if a.preamble.alias == action)
    updates = []
    for key in keys:
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = table_id
        match = entry.match.add(field_id=1)
        match.exact.value = key.to_bytes(6, "big").lstrip(b"\0") or b"\0"
        entry.action.action.action_id = action_id
        entry.action.action.params.add(param_id=1, value=b"\x01")
        updates.append(update)
    return updates


def main(address: str, p4info: str, blob: str, updates: str) -> None:
    """Write until killed."""
    with HostileClient(address) as client:
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        entries = destinations(Path(p4info), "destination", "forward", range(1, 1 + int(updates)))
        print("ready", flush=True)
        client.write(entries).result()
        print("written", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
