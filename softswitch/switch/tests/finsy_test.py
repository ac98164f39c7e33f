# SPDX-License-Identifier: Apache-2.0
"""finsy, a P4Runtime client that knows nothing of weir, drives the binary over gRPC."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import finsy
import pytest
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4CounterData,
    P4DirectCounterEntry,
    P4IndirectAction,
    P4Member,
    P4MeterConfig,
    P4MeterEntry,
    P4MulticastGroupEntry,
    P4PacketOut,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
    SwitchOptions,
)
from finsy.p4entity import P4Replica
from switch_process import SwitchProcess

CPU_PORT = 510
# Only a broken switch takes this long.
PATIENCE_S = 30


def frame(destination: int, source: int) -> bytes:
    """An Ethernet frame of 60 bytes with the ethertype for local experiments."""
    return destination.to_bytes(6, "big") + source.to_bytes(6, "big") + b"\x88\xb5" + bytes(46)


async def read_all(connected: finsy.Switch, query: Any) -> list[Any]:
    """All that a query finds."""
    # finsy 0.30 declares its generator as a coroutine that returns one.
    return [entity async for entity in connected.read(query)]  # type: ignore[attr-defined]


async def answered(connected: finsy.Switch, packet: P4PacketOut) -> finsy.P4PacketIn:
    """The packet-in that a packet-out causes."""
    packets: Any = connected.read_packets()
    answer: asyncio.Task[finsy.P4PacketIn] = asyncio.create_task(anext(packets))
    # finsy listens as soon as the task has begun.
    await asyncio.sleep(0)
    await connected.write([packet])
    return await answer


Scenario = Callable[[finsy.Switch], Awaitable[None]]
Drive = Callable[[SwitchProcess, str, Scenario], None]


@pytest.fixture
def drive(compiled: Callable[[str], tuple[Path, Path]]) -> Drive:
    """Push a program to a switch, wait until finsy is ready, run a scenario."""

    def drive(switch: SwitchProcess, program: str, scenario: Scenario) -> None:
        p4info, json = compiled(program)

        async def run() -> None:
            options = SwitchOptions(p4info=p4info, p4blob=json)
            async with asyncio.timeout(PATIENCE_S), finsy.Switch("sw1", switch.address, options) as connected:
                await scenario(connected)

        asyncio.run(run())

    return drive


def test_tables_of_a_router_are_written_and_read_back(switch: SwitchProcess, drive: Drive) -> None:
    entries = [
        P4TableEntry(
            "route",
            match=P4TableMatch({"hdr.ipv4.dst": f"10.{number}.0.0/16"}),
            action=P4TableAction("set_next_hop", next_hop=number),
        )
        for number in range(1, 201)
    ]
    hop = P4TableEntry(
        "next_hop",
        match=P4TableMatch({"meta.next_hop": 7}),
        action=P4TableAction("rewrite", port=1, src=0x0A, dst=0x0B),
    )

    async def scenario(connected: finsy.Switch) -> None:
        assert connected.is_primary
        await connected.insert([*entries, hop])
        found = await read_all(connected, P4TableEntry("route"))
        assert len(found) == len(entries)
        first = (await read_all(connected, entries[0]))[0]
        assert first.match == {"dst": (0x0A010000, 16)}
        assert first.action == entries[0].action
        assert await read_all(connected, P4TableEntry("next_hop")) != []
        await connected.delete_all()
        assert await read_all(connected, P4TableEntry()) == []

    drive(switch, "ipv4_router", scenario)


def test_direct_counters_of_a_router_are_read(switch: SwitchProcess, drive: Drive) -> None:
    key = P4TableEntry("route", match=P4TableMatch({"hdr.ipv4.dst": "10.0.0.0/8"}))
    entry = P4TableEntry(
        "route",
        match=key.match,
        action=P4TableAction("set_next_hop", next_hop=1),
        counter_data=P4CounterData(packet_count=5, byte_count=500),
    )

    async def scenario(connected: finsy.Switch) -> None:
        await connected.insert([entry])
        query = P4DirectCounterEntry("IngressImpl.route_counter", table_entry=key)
        counters = await read_all(connected, query)
        assert [counter.packet_count for counter in counters] == [5]

    drive(switch, "ipv4_router", scenario)


def test_groups_and_sessions_are_read_back(switch: SwitchProcess, drive: Drive) -> None:
    group = P4MulticastGroupEntry(1, replicas=[(CPU_PORT, 1)], metadata=b"flood")
    session = P4CloneSessionEntry(9, replicas=[(CPU_PORT, 0)], packet_length_bytes=128)

    async def scenario(connected: finsy.Switch) -> None:
        await connected.insert([group, session])
        groups = await read_all(connected, P4MulticastGroupEntry())
        assert [(found.multicast_group_id, found.metadata) for found in groups] == [(1, b"flood")]
        assert list(groups[0].replicas) == [P4Replica(CPU_PORT, instance=1)]
        sessions = await read_all(connected, P4CloneSessionEntry())
        assert [(found.session_id, found.packet_length_bytes) for found in sessions] == [(9, 128)]

    drive(switch, "l2_learning", scenario)


def test_packets_travel_both_ways_with_metadata(switch: SwitchProcess, drive: Drive) -> None:
    async def scenario(connected: finsy.Switch) -> None:
        # The program adds no packet-in header to this frame, so the payload begins with one.
        packet_in = (7 << 7 | 3).to_bytes(2, "big") + frame(0xB, 0xA)
        received = await answered(connected, P4PacketOut(packet_in, egress_port=CPU_PORT, pad=0))
        assert received.payload == frame(0xB, 0xA)
        assert received.metadata == {"ingress_port": 7, "reason": 3}

    drive(switch, "entities", scenario)


def test_meters_are_written_and_read_back(switch: SwitchProcess, drive: Drive) -> None:
    config = P4MeterConfig(cir=5_000_000, cburst=100_000, pir=5_000_000, pburst=100_000)

    async def scenario(connected: finsy.Switch) -> None:
        await connected.modify([P4MeterEntry("policer", index=5, config=config)])
        cells = {cell.index: cell.config for cell in await read_all(connected, P4MeterEntry("policer"))}
        assert len(cells) == 64
        assert cells.pop(5) == config
        assert set(cells.values()) == {None}

    drive(switch, "entities", scenario)


def test_action_profiles_are_written_and_read_back(switch: SwitchProcess, drive: Drive) -> None:
    members = [
        P4ActionProfileMember("paths", member_id=number, action=P4TableAction("set_port", port=CPU_PORT))
        for number in (1, 2)
    ]
    shares = [P4Member(1, weight=1), P4Member(2, weight=3)]
    group = P4ActionProfileGroup("paths", group_id=5, max_size=4, members=shares)
    entry = P4TableEntry(
        "route",
        match=P4TableMatch({"hdr.ethernet.dst": (0x0A00, 40)}),
        action=P4IndirectAction(group_id=5),
    )

    async def scenario(connected: finsy.Switch) -> None:
        await connected.insert([*members, group, entry])
        groups = await read_all(connected, P4ActionProfileGroup("paths"))
        assert [[(member.member_id, member.weight) for member in found.members] for found in groups] == [
            [(1, 1), (2, 3)]
        ]
        entries = await read_all(connected, P4TableEntry("route"))
        assert [found.action.group_id for found in entries] == [5]
        with pytest.raises(finsy.P4ClientError) as refused:
            await connected.delete([members[0]])
        assert "paths" in str(refused.value)
        await connected.delete([entry, group, *members])
        assert await read_all(connected, P4ActionProfileMember("paths")) == []

    drive(switch, "features", scenario)


def test_a_refused_update_names_table_and_field(switch: SwitchProcess, drive: Drive) -> None:
    async def scenario(connected: finsy.Switch) -> None:
        entry = P4TableEntry(
            "next_hop",
            match=P4TableMatch({"meta.next_hop": 7}),
            action=P4TableAction("drop"),
        )
        await connected.insert([entry])
        with pytest.raises(finsy.P4ClientError) as refused:
            await connected.insert([entry])
        assert "ALREADY_EXISTS" in str(refused.value)
        assert "IngressImpl.next_hop" in str(refused.value)

    drive(switch, "ipv4_router", scenario)


def test_another_program_replaces_the_running_one(switch: SwitchProcess, drive: Drive) -> None:
    async def no_more_than_connect(connected: finsy.Switch) -> None:
        assert connected.is_up

    drive(switch, "l2_learning", no_more_than_connect)
    drive(switch, "ipv4_router", no_more_than_connect)


def test_the_statistics_are_complete_at_the_end(weir_switch: Path, drive: Drive, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"

    async def scenario(connected: finsy.Switch) -> None:
        to_itself = P4PacketOut(bytes(2) + frame(0xB, 0xA), egress_port=CPU_PORT, pad=0)
        for _ in range(3):
            await answered(connected, to_itself)
        # Port 9 does not exist.
        await connected.write([P4PacketOut(frame(0xB, 0xA), egress_port=9, pad=0)])
        await answered(connected, to_itself)

    with SwitchProcess(weir_switch, "--stats", str(stats)) as switch:
        drive(switch, "entities", scenario)
    found = json.loads(stats.read_text())
    assert found["schema"] == 1
    assert found["ports"] == []
    assert found["dataplane"]["received"] == 5
    assert found["dataplane"]["transmitted"] == 4
    assert found["dataplane"]["dropped_no_port"] == 1


def test_mistakes_on_the_command_line_are_named(weir_switch: Path) -> None:
    for arguments, expected in [
        (["--port", "1=no_such_if"], "interface `no_such_if` does not exist"),
        (["--port", "1=lo,rate=5"], "the unit is missing"),
        (["--json", "/no/such/file"], "cannot read /no/such/file"),
        (["--json", __file__], "not a BMv2 JSON program"),
    ]:
        ended = subprocess.run(
            [weir_switch, "--p4runtime", "127.0.0.1:0", *arguments],
            capture_output=True,
            text=True,
            timeout=20,
        )
        assert ended.returncode != 0
        assert expected in ended.stderr
        assert "panicked" not in ended.stderr
