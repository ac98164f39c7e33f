# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime controller of a few lines: gRPC and the protocol's own messages, nothing else."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from ptf.testutils import test_param_get

PATIENCE_S = 10
ELECTION_ID = p4runtime_pb2.Uint128(high=0, low=1)


class Controller:
    """The primary controller of the switch, until `close`."""

    def __init__(self) -> None:
        """Connect as the parameters of the run say, and become primary."""
        self.device_id = int(test_param_get("device_id"))
        self._p4info = text_format.Parse(Path(test_param_get("p4info")).read_text(), p4info_pb2.P4Info())
        self._channel = grpc.insecure_channel(test_param_get("grpcaddr"))
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.Queue[p4runtime_pb2.StreamMessageRequest | None] = queue.Queue()
        self._replies = self._stub.StreamChannel(iter(self._requests.get, None), timeout=60)
        arbitration = p4runtime_pb2.MasterArbitrationUpdate(device_id=self.device_id, election_id=ELECTION_ID)
        self._requests.put(p4runtime_pb2.StreamMessageRequest(arbitration=arbitration))
        assert next(self._replies).arbitration.status.code == grpc.StatusCode.OK.value[0]

    def close(self) -> None:
        """Disconnect."""
        self._requests.put(None)
        self._channel.close()

    def insert(self, table: str, key: bytes, action: str, value: bytes) -> p4runtime_pb2.TableEntry:
        """Insert an entry with one exact key and one action parameter."""
        entry = p4runtime_pb2.TableEntry(table_id=self._id(self._p4info.tables, table))
        entry.match.add(field_id=1).exact.value = key
        entry.action.action.action_id = self._id(self._p4info.actions, action)
        entry.action.action.params.add(param_id=1, value=value)
        self._write(p4runtime_pb2.Update.INSERT, entry)
        return entry

    def delete(self, entry: p4runtime_pb2.TableEntry) -> None:
        """Delete an entry that `insert` made."""
        self._write(p4runtime_pb2.Update.DELETE, entry)

    def counted(self, entry: p4runtime_pb2.TableEntry) -> tuple[int, int]:
        """Packets and bytes that hit an entry."""
        request = p4runtime_pb2.ReadRequest(device_id=self.device_id)
        asked = request.entities.add().direct_counter_entry.table_entry
        asked.table_id = entry.table_id
        asked.match.extend(entry.match)
        (entity,) = [entity for reply in self._stub.Read(request) for entity in reply.entities]
        data = entity.direct_counter_entry.data
        return data.packet_count, data.byte_count

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame through a port of the switch."""
        packet = p4runtime_pb2.PacketOut(payload=frame)
        packet.metadata.add(metadata_id=1, value=port.to_bytes(2, "big").lstrip(b"\0"))
        self._requests.put(p4runtime_pb2.StreamMessageRequest(packet=packet))

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """Ports and frames of the packets that the switch sends to the controller, as they come."""
        for reply in self._replies:
            if reply.HasField("packet"):
                (port,) = [found.value for found in reply.packet.metadata if found.metadata_id == 1]
                yield int.from_bytes(port, "big"), reply.packet.payload

    def _write(self, kind: int, entry: p4runtime_pb2.TableEntry) -> None:
        request = p4runtime_pb2.WriteRequest(device_id=self.device_id, election_id=ELECTION_ID)
        update = request.updates.add(type=kind)
        update.entity.table_entry.CopyFrom(entry)
        self._stub.Write(request, timeout=PATIENCE_S)

    @staticmethod
    def _id(objects: object, alias: str) -> int:
        return next(found.preamble.id for found in objects if found.preamble.alias == alias)
