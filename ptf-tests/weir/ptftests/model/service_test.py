# SPDX-License-Identifier: Apache-2.0
import asyncio
import socket

import pytest
from finsy import P4Schema, P4TableEntry

from weir.controlplane.errors import NotPrimaryError, PipelineError, WriteError
from weir.controlplane.session import Session
from weir.ptftests import entries
from weir.ptftests.model.chips import TOFINO1
from weir.ptftests.model.service import serve
from weir.ptftests.model.speaker import install, p4info_path, write_program
from weir.ptftests.model.switch import ModelSwitch

DEVICE, TIMEOUT_S = 1, 30.0


@pytest.fixture
def at(tmp_path, monkeypatch):
    """The address of a served switch, and the schema of its program."""
    install(TOFINO1, tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    switch = ModelSwitch(TOFINO1, write_program(TOFINO1, tmp_path), tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = serve(switch, DEVICE, address)
    yield address, P4Schema(p4info_path(TOFINO1), switch.program.binary)
    server.stop(None)
    switch.close()


def in_session(address, work, election_id=1):
    """The result of a coroutine function that gets a session of the primary controller."""

    async def run():
        async with Session(address, DEVICE, election_id, TIMEOUT_S) as session:
            return await work(session)

    return asyncio.run(run())


async def read_all(session, *wanted):
    return [entity async for entity in session.read(wanted)]


def test_entries_are_written_read_and_deleted(at):
    address, schema = at

    async def work(session):
        await session.push_pipeline(schema)
        await session.write("insert", [entries.forward(2, 3), entries.flood_group((1, 2))])
        found = await read_all(session, P4TableEntry("forward"))
        await session.write("delete", [entries.forward(2, 3)])
        return found, await read_all(session, P4TableEntry("forward"))

    written, left = in_session(address, work)
    assert [entry.action.args for entry in written] == [{"port": 3}]
    assert left == []


def test_each_refused_update_is_named_and_the_others_are_done(at):
    address, schema = at

    async def work(session):
        await session.push_pipeline(schema)
        with pytest.raises(WriteError, match="is there already"):
            await session.write(
                "insert", [entries.forward(2, 3), entries.forward(2, 4), entries.forward(5, 1)]
            )
        return await read_all(session, P4TableEntry("forward"))

    assert sorted(entry.match["dst"] for entry in in_session(address, work)) == [2, 5]


def test_another_program_is_refused(at, tmp_path):
    address, _ = at
    other = tmp_path / "other.bin"
    other.write_bytes(b"other")

    async def work(session):
        with pytest.raises(PipelineError, match="another program"):
            await session.push_pipeline(P4Schema(p4info_path(TOFINO1), other))

    in_session(address, work)


def test_a_controller_with_a_lower_election_id_is_not_primary(at):
    address, _ = at

    async def work(_):
        with pytest.raises(NotPrimaryError):
            async with Session(address, DEVICE, 1, TIMEOUT_S):
                pass

    in_session(address, work, election_id=2)


def test_after_the_primary_has_gone_its_election_id_is_free(at):
    address, schema = at

    async def work(session):
        await session.push_pipeline(schema)

    in_session(address, work)
    in_session(address, work)
