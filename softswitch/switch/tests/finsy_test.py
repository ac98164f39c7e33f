# SPDX-License-Identifier: Apache-2.0
"""finsy, a P4Runtime client that knows nothing of weir, drives the binary over gRPC."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import finsy
import pytest
from finsy import (
    P4CloneSessionEntry,
    P4CounterData,
    P4DigestEntry,
    P4DirectCounterEntry,
    P4MulticastGroupEntry,
    P4PacketOut,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
    SwitchOptions,
)
from switch_process import SwitchProcess

CPU_PORT = 510
# Only a broken switch takes this long.
PATIENCE_S = 30


def frame(destination: int, source: int) -> bytes:
    """An Ethernet frame of 60 bytes with the ethertype for local experiments."""
    return destination.to_bytes(6, "big") + source.to_bytes(6, "big") + b"\x88\xb5" + bytes(46)


def drive(
    switch: SwitchProcess, programs: Path, program: str, scenario: Callable[[finsy.Switch], Awaitable[None]]
) -> None:
    """Push a program, wait until finsy is ready, run the scenario."""
    options = SwitchOptions(p4info=programs / f"{program}.p4info.txtpb", p4blob=programs / f"{program}.json")

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), finsy.Switch("sw1", switch.address, options) as connected:
            await scenario(connected)

    asyncio.run(run())


def test_tables_of_a_router_are_written_and_read_back(switch: SwitchProcess, programs: Path) -> None:
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
        found = [entry async for entry in connected.read(P4TableEntry("route"))]
        assert len(found) == len(entries)
        first = await anext(aiter(connected.read(entries[0])))
        assert first.match == {"dst": (0x0A010000, 16)}
        assert first.action == entries[0].action
        assert [entry async for entry in connected.read(P4TableEntry("next_hop"))] != []
        await connected.delete_all()
        assert [entry async for entry in connected.read(P4TableEntry())] == []

    drive(switch, programs, "ipv4_router", scenario)


def test_direct_counters_of_a_router_are_read(switch: SwitchProcess, programs: Path) -> None:
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
        counters = [counter async for counter in connected.read(query)]
        assert [counter.packet_count for counter in counters] == [5]

    drive(switch, programs, "ipv4_router", scenario)


def test_groups_and_sessions_are_read_back(switch: SwitchProcess, programs: Path) -> None:
    group = P4MulticastGroupEntry(1, replicas=[CPU_PORT])
    session = P4CloneSessionEntry(9, replicas=[CPU_PORT], packet_length_bytes=128)

    async def scenario(connected: finsy.Switch) -> None:
        await connected.insert([group, session])
        assert [found async for found in connected.read(P4MulticastGroupEntry())] == [group]
        assert [found async for found in connected.read(P4CloneSessionEntry())] == [session]

    drive(switch, programs, "l2_learning", scenario)


def test_digests_and_packets_travel_both_ways(switch: SwitchProcess, programs: Path) -> None:
    async def scenario(connected: finsy.Switch) -> None:
        digest = P4DigestEntry("learn_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=10**9)
        await connected.insert([digest])
        digests = connected.read_digests("learn_t")
        await connected.write([P4PacketOut(frame(0xB, 0xA))])
        learned = await anext(digests)
        assert list(learned) == [{"src": 0xA, "port": CPU_PORT}]
        await connected.write([learned.ack()])

        # Forwarded back to where it came from, which this program's egress drops: so no packet-in, and the
        # entry's port can be the CPU port only for frames of other ports. A group shows the same.
        entry = P4TableEntry(
            "destination",
            match=P4TableMatch({"hdr.ethernet.dst": 0xC}),
            action=P4TableAction("forward", port=CPU_PORT),
        )
        await connected.insert([entry])
        found = await anext(aiter(connected.read(entry)))
        assert found.action == entry.action

    drive(switch, programs, "l2_learning", scenario)


def test_a_refused_update_names_table_and_field(switch: SwitchProcess, programs: Path) -> None:
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

    drive(switch, programs, "ipv4_router", scenario)


def test_another_program_replaces_the_running_one(switch: SwitchProcess, programs: Path) -> None:
    async def no_more_than_connect(connected: finsy.Switch) -> None:
        assert connected.is_up

    drive(switch, programs, "l2_learning", no_more_than_connect)
    drive(switch, programs, "ipv4_router", no_more_than_connect)


def test_the_statistics_are_complete_at_the_end(weir_switch: Path, programs: Path, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"

    async def scenario(connected: finsy.Switch) -> None:
        await connected.insert([P4MulticastGroupEntry(1, replicas=[CPU_PORT])])
        await connected.insert([P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=0)])
        digests = connected.read_digests("learn_t")
        for source in range(3):
            await connected.write([P4PacketOut(frame(0xB, source))])
            await anext(digests)

    with SwitchProcess(weir_switch, "--stats", str(stats)) as switch:
        drive(switch, programs, "l2_learning", scenario)
    found = json.loads(stats.read_text())
    assert found["schema"] == 1
    assert found["ports"] == []
    assert found["dataplane"]["received"] == 3
    # Each copy is for the port that its packet came from, and the program does not send packets back.
    assert found["dataplane"]["multicast_copies"] == 3
    assert found["dataplane"]["dropped_egress"] == 3
    assert found["dataplane"]["transmitted"] == 0


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
