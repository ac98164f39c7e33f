# SPDX-License-Identifier: Apache-2.0
"""Thrift and P4Runtime on one switch: each sees the entries of the other."""

from __future__ import annotations

import queue
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format

from weir.cli.simple_switch.services import EXACT, Exact, MatchParam, OperationError, Options, Switch
from weir.topo.tools import ToolMissingError, find_own_program

PROGRAMS = Path(__file__).parents[4] / "softswitch" / "programs"
TABLE = "IngressImpl.next_hop"


@pytest.fixture(name="addresses", scope="module")
def _addresses() -> Iterator[tuple[str, int]]:
    """The address of P4Runtime and the Thrift port of a switch without a program."""
    try:
        program = str(find_own_program("weir-switch"))
    except ToolMissingError as error:
        pytest.skip(str(error))
    command = [program, "--p4runtime", "127.0.0.1:0", "--thrift", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        found = re.match(r"weir-switch: P4Runtime on (\S+),.*\nweir-switch: Thrift on \S+:(\d+)\n", said)
        assert found is not None, said
        yield found[1], int(found[2])
        process.terminate()
        assert process.wait(timeout=30) == 0


def test_each_sees_the_entries_of_the_other(addresses: tuple[str, int]) -> None:
    info = text_format.Parse((PROGRAMS / "ipv4_router.p4info.txtpb").read_text(), p4i.P4Info())
    json = (PROGRAMS / "ipv4_router.json").read_bytes()
    table = next(t for t in info.tables if t.preamble.name == TABLE)
    drop = next(a for a in info.actions if a.preamble.name == "IngressImpl.drop")
    requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
    with grpc.insecure_channel(addresses[0]) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        election = p4r.Uint128(low=1)
        requests.put(
            p4r.StreamMessageRequest(
                arbitration=p4r.MasterArbitrationUpdate(device_id=1, election_id=election)
            )
        )
        stream = stub.StreamChannel(iter(requests.get, None))  # ends when it is forgotten
        next(stream)
        config = p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=json)
        stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=1, election_id=election, action="VERIFY_AND_COMMIT", config=config
            )
        )
        switch = Switch("127.0.0.1", addresses[1])
        assert switch.call("bm_get_config").encode() == json

        key = [MatchParam(EXACT, exact=Exact(b"\0\7"))]
        assert switch.of("bm_mt_add_entry", TABLE, key, "IngressImpl.drop", [], Options(0)) == 0
        wanted = p4r.TableEntry(table_id=table.preamble.id)
        read = p4r.ReadRequest(device_id=1, entities=[p4r.Entity(table_entry=wanted)])
        ((entity,),) = [answer.entities for answer in stub.Read(read)]
        assert entity.table_entry.match[0].exact.value == b"\7"

        written = p4r.TableEntry(
            table_id=table.preamble.id,
            match=[p4r.FieldMatch(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\x08"))],
            action=p4r.TableAction(action=p4r.Action(action_id=drop.preamble.id)),
        )

        def write(kind: str) -> None:
            update = p4r.Update(type=kind, entity=p4r.Entity(table_entry=written))
            stub.Write(p4r.WriteRequest(device_id=1, election_id=election, updates=[update]))

        write("INSERT")
        entries = switch.of("bm_mt_get_entries", TABLE)
        assert [(e.entry_handle, e.match_key[0].exact.key) for e in entries] == [(0, b"\0\7"), (1, b"\0\x08")]
        write("DELETE")
        with pytest.raises(OperationError, match="INVALID_HANDLE"):
            switch.of("bm_mt_get_entry", TABLE, 1)
        switch.of("bm_mt_delete_entry", TABLE, 0)
        assert [answer.entities for answer in stub.Read(read)] in ([], [[]])
        requests.put(None)
        switch.close()
