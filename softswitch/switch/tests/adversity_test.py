# SPDX-License-Identifier: Apache-2.0
"""Clients that flood, stall, break off or die: the switch serves the others and counts its drops."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r
from half_sent import PREFACE, half_sent
from hostile_client import DEVICE_ID, HostileClient, destinations
from scenarios import PATIENCE_S, wait_until
from switch_process import SwitchProcess

CPU_PORT = 510
# Limit of the switch's memory, whatever its clients do; the tables of the tests take a small part of it.
MAX_RESIDENT_BYTES = 512 << 20
# Limits of the switch for all large messages in progress, and for one batch.
LARGE_BYTES = 512 << 20
MAX_WRITE_BYTES = 64 << 20
# Connections that it serves at a time.
MAX_CONNECTIONS = 256
Compiled = Callable[[str], tuple[Path, Path]]


def check_alive(address: str) -> None:
    """Check that a new client is served."""
    with HostileClient(address) as client:
        answer = client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=PATIENCE_S)
        assert answer.p4runtime_api_version


@pytest.fixture
def primary(switch: SwitchProcess, compiled: Compiled) -> Iterator[HostileClient]:
    """The primary controller of a switch that runs the `entities` program."""
    with HostileClient(switch.address) as client:
        assert client.open_stream().status.code == 0
        client.push(*compiled("entities"))
        yield client


def packet_out(payload: bytes) -> p4r.StreamMessageRequest:
    """A packet-out to the CPU port, which returns as a packet-in."""
    message = p4r.StreamMessageRequest()
    message.packet.payload = bytes(2) + payload
    message.packet.metadata.add(metadata_id=1, value=CPU_PORT.to_bytes(2, "big"))
    message.packet.metadata.add(metadata_id=2, value=b"\0")
    return message


def stats_of(path: Path) -> dict[str, int]:
    """The dataplane's counts in a statistics file; empty before the first was written."""
    if not path.exists():
        return {}
    found: dict[str, int] = json.loads(path.read_text())["dataplane"]
    return found


def test_packet_ins_of_a_client_that_reads_none_are_dropped_and_counted(
    switch: SwitchProcess, primary: HostileClient, tmp_path: Path
) -> None:
    packets = 20_000
    message = packet_out(bytes(1400))
    for _ in range(packets):
        primary.send(message)
    stats = tmp_path / "stats.json"
    wait_until(lambda: stats_of(stats).get("received", 0) == packets, "all packet-outs were processed")
    found = stats_of(stats)
    print({key: found[key] for key in ("received", "transmitted", "notifications_lost")})
    assert found["transmitted"] == packets
    assert found["notifications_lost"] > 0
    assert switch.resident_bytes() < MAX_RESIDENT_BYTES
    received = sum(1 for _ in zip(range(packets - found["notifications_lost"]), primary.stream, strict=False))
    assert received + found["notifications_lost"] == packets
    check_alive(switch.address)


def unread_bytes(address: str) -> int:
    """Bytes of the connections to a loopback address that their process has not read."""
    port = f":{int(address.split(':')[1]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(port))


def test_small_packet_outs_that_wait_for_a_switch_do_not_end_their_stream(
    switch: SwitchProcess, primary: HostileClient, tmp_path: Path
) -> None:
    packets = 20_000
    message = packet_out(bytes(60))
    os.kill(switch.pid, signal.SIGSTOP)
    for _ in range(packets):
        primary.send(message)
    wait_until(lambda: unread_bytes(switch.address) > 60_000, "packet-outs waited for the switch")
    os.kill(switch.pid, signal.SIGCONT)
    stats = tmp_path / "stats.json"
    wait_until(lambda: stats_of(stats).get("received", 0) == packets, "all packet-outs were processed")
    check_alive(switch.address)


def test_errors_that_nobody_reads_do_not_keep_the_packets_that_they_are_about(
    switch: SwitchProcess, primary: HostileClient, tmp_path: Path
) -> None:
    packets, packet_bytes = 100, 4_000_000
    refused = p4r.StreamMessageRequest()
    refused.packet.payload = bytes(packet_bytes)  # the metadata is missing
    before = switch.resident_bytes()
    for _ in range(packets):
        primary.send(refused)
    primary.send(packet_out(bytes(60)))
    stats = tmp_path / "stats.json"
    wait_until(lambda: stats_of(stats).get("received", 0) == 1, "the last packet-out was processed")
    grown = switch.resident_bytes() - before
    print(f"{grown >> 20} MiB more after {packets * packet_bytes >> 20} MiB of refused packets")
    assert grown < packets * packet_bytes / 4
    errors = [message.error for _, message in zip(range(packets), primary.stream, strict=False)]
    assert all(error.HasField("packet_out") and not error.packet_out.packet_out.payload for error in errors)


def test_writes_whose_answers_nobody_reads_are_carried_out(
    switch: SwitchProcess, primary: HostileClient, compiled: Compiled
) -> None:
    p4info, _ = compiled("entities")
    # The table holds 128 entries; further inserts are refused, and their errors stay unread as well.
    batches = [
        destinations(p4info, "forward", "to_port", range(1 + n, 101 + n)) for n in range(0, 20_000, 100)
    ]
    calls = [primary.write(batch) for batch in batches]
    refused = sum(call.exception() is not None for call in calls)
    print(f"{refused} of {len(calls)} batches refused, {switch.resident_bytes() >> 20} MiB")
    assert switch.resident_bytes() < MAX_RESIDENT_BYTES
    asked = p4r.Entity(table_entry=p4r.TableEntry(table_id=batches[0][0].entity.table_entry.table_id))
    assert len(list(primary.read(asked))) == 128
    assert refused >= len(calls) - 2
    check_alive(switch.address)


def test_reads_whose_answers_nobody_takes_hold_up_no_writer(
    switch: SwitchProcess, compiled: Compiled
) -> None:
    p4info, blob = compiled("l2_learning")
    with ExitStack() as stack:
        primary = stack.enter_context(HostileClient(switch.address))
        primary.open_stream()
        primary.push(p4info, blob)
        entries = destinations(p4info, "destination", "forward", range(1, 50_001))
        primary.write(entries).result()
        asked = p4r.Entity(table_entry=p4r.TableEntry(table_id=entries[0].entity.table_entry.table_id))
        readers = [stack.enter_context(HostileClient(switch.address)) for _ in range(4)]
        unread = [reader.read(asked) for reader in readers for _ in range(4)]
        for answer in unread:
            next(answer)  # started, then abandoned
        removed = destinations(p4info, "destination", "forward", range(1, 2))
        removed[0].type = p4r.Update.DELETE
        primary.write(removed).result()
        print(f"{switch.resident_bytes() >> 20} MiB with {len(unread)} unread answers")
        assert switch.resident_bytes() < MAX_RESIDENT_BYTES
        assert len(list(unread[0])) == 49_999  # as it was when it was read
        assert len(list(primary.read(asked))) == 49_999


def test_half_sent_requests_and_garbage_hold_up_nobody(switch: SwitchProcess) -> None:
    host, port = switch.address.split(":")
    headers_that_never_end = b"\x00\x40\x00\x01\x04\x00\x00\x00\x01" + b"\x82"
    beginnings = [b"", PREFACE[:10], PREFACE, PREFACE + headers_that_never_end, bytes(4096)]
    with ExitStack() as stack:
        for beginning in beginnings * 20:
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(beginning)
        check_alive(switch.address)
    check_alive(switch.address)


def refusal(write: Callable[[], object]) -> str | None:
    """The message with which the switch refuses a request for lack of room; None when it accepts it."""
    try:
        write()
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        return str(error.details())
    return None


def test_half_sent_large_requests_take_no_more_room_than_there_is(
    switch: SwitchProcess, primary: HostileClient, compiled: Compiled
) -> None:
    p4info, _ = compiled("entities")
    entry = destinations(p4info, "forward", "to_port", range(1, 2))
    primary.write(entry).result()

    def write(metadata_bytes: int) -> Callable[[], object]:
        update = p4r.Update(type=p4r.Update.MODIFY, entity=entry[0].entity)
        update.entity.table_entry.metadata = bytes(metadata_bytes)
        return lambda: primary.write([update]).result()

    small, large = write(10), write(100_000)
    assert refusal(large) is None
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(half_sent(switch.address, "Write", MAX_WRITE_BYTES))

        def all_taken() -> bool:
            if refusal(large) is not None:
                return True
            # The probe itself held some room meanwhile, so one of them may have been refused: add another.
            stack.enter_context(half_sent(switch.address, "Write", MAX_WRITE_BYTES))
            return False

        wait_until(all_taken, "the half-sent requests held all the room")
        said = refusal(large)
        print(f"{switch.resident_bytes() >> 20} MiB with 20 half-sent requests; {said}")
        assert said is not None
        assert f"of the {LARGE_BYTES} bytes for messages larger than 32768 bytes, 0 are free" in said
        assert refusal(small) is None, "small requests have a separate budget"
        assert switch.resident_bytes() < MAX_RESIDENT_BYTES
    wait_until(lambda: refusal(large) is None, "the room was freed")


def test_more_connections_than_are_served_are_told_so(weir_switch: Path) -> None:
    with SwitchProcess(weir_switch, max_open_files=1024) as switch, ExitStack() as stack:
        host, port = switch.address.split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(MAX_CONNECTIONS)]
        for connection in idle:
            stack.enter_context(connection)
        said = refusal(lambda: check_alive(switch.address))
        print(said)
        assert said is not None
        assert f"serves {MAX_CONNECTIONS} connections" in said
        idle[0].close()
        wait_until(lambda: refusal(lambda: check_alive(switch.address)) is None, "a place became free")


def test_more_connections_than_the_system_allows_are_refused_and_said(
    weir_switch: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as stderr, SwitchProcess(weir_switch, stderr=stderr, max_open_files=64) as switch:
        host, port = switch.address.split(":")
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection((host, int(port))))
            wait_until(
                lambda: "cannot accept" in log.read_text(), "the switch logged that it accepts no more"
            )
            # It must not occupy a core with retries.
            before_s, began_s = switch.cpu_s(), time.monotonic()
            wait_until(lambda: time.monotonic() > began_s + 1, "a second passed")
            used = (switch.cpu_s() - before_s) / (time.monotonic() - began_s)
            print(f"{used:.0%} of a processor while out of descriptors")
            assert used < 0.5
        check_alive(switch.address)
    assert log.read_text().count("cannot accept") < 5


def test_a_write_is_whole_when_its_client_is_killed_in_the_middle(
    switch: SwitchProcess, compiled: Compiled
) -> None:
    p4info, blob = compiled("l2_learning")
    count = 60_000
    victim = Path(__file__).with_name("hostile_client.py")
    command = [sys.executable, str(victim), switch.address, str(p4info), str(blob), str(count)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        HostileClient(switch.address, election_id=2) as heir,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        one = destinations(p4info, "destination", "forward", range(1, 2))[0].entity
        one.table_entry.ClearField("action")
        wait_until(lambda: has_one(heir, one), "the first entry was inserted")
        process.kill()
        process.wait()
        # Arbitration waits for the write, which is completed.
        assert heir.open_stream().status.code == 0
        everything = p4r.Entity(table_entry=p4r.TableEntry(table_id=one.table_entry.table_id))
        assert len(list(heir.read(everything))) == count
        removed = p4r.Update(type=p4r.Update.DELETE, entity=one)
        heir.write([removed]).result()
    check_alive(switch.address)


def has_one(client: HostileClient, entity: p4r.Entity) -> bool:
    """Whether a read finds the entity."""
    try:
        return len(list(client.read(entity))) == 1
    except grpc.RpcError as error:
        # No pipeline yet, or a switch that answers so for an absent entry.
        assert error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND)  # noqa: PT017
        return False


def test_a_log_that_cannot_be_written_stops_nothing(weir_switch: Path, tmp_path: Path) -> None:
    # Every write to /dev/full fails as on a full disk; the switch logs the missing folder there.
    nowhere = tmp_path / "missing" / "stats.json"
    with Path("/dev/full").open("w") as full:
        process = SwitchProcess(weir_switch, "--stats", str(nowhere), stderr=full)
        with process, HostileClient(process.address) as client:
            assert client.open_stream().status.code == 0
            nowhere.parent.mkdir()
            wait_until(nowhere.exists, "the statistics were written once they could be")
            check_alive(process.address)
            assert client.stub.Capabilities(p4r.CapabilitiesRequest(device_id=DEVICE_ID)) is not None


@pytest.mark.parametrize("reading", ["pipe", "terminal"])
def test_a_log_has_colours_on_a_terminal_only(
    weir_switch: Path, tmp_path: Path, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, its = os.openpty() if reading == "terminal" else os.pipe()
    nowhere = tmp_path / "missing" / "stats.json"
    # The switch warns of the missing folder.
    with (
        os.fdopen(ours, "rb", buffering=0) as log,
        os.fdopen(its, "w") as stderr,
        SwitchProcess(weir_switch, "--stats", str(nowhere), stderr=stderr),
    ):
        said = b""
        while b"WARN" not in said:
            said += log.read(65536)
        nowhere.parent.mkdir()  # or the switch ends with an error
    assert (b"\x1b" in said) == (reading == "terminal"), said


def test_a_log_that_nobody_reads_stops_neither_packets_nor_the_end(
    weir_switch: Path, compiled: Compiled, tmp_path: Path
) -> None:
    # Each packet is a line of the log; all of them are more than the pipe and the switch keep.
    packets = 30_000
    asserting = p4r.StreamMessageRequest()
    asserting.packet.payload = b"\x02" + bytes(60)
    stats = tmp_path / "stats.json"
    reading, writing = os.pipe()
    with os.fdopen(reading) as log:
        with (
            os.fdopen(writing, "w") as stderr,
            SwitchProcess(weir_switch, "--stats", str(stats), stderr=stderr) as switch,
            HostileClient(switch.address) as client,
        ):
            stderr.close()
            client.open_stream()
            client.push(*compiled("logs"))
            for _ in range(packets):
                client.send(asserting)
            wait_until(lambda: stats_of(stats).get("received", 0) == packets, "all packets were processed")
            check_alive(switch.address)
            began_s = time.monotonic()
            assert switch.stop() == 0
            print(f"ended in {time.monotonic() - began_s:.1f} s")
        lines = log.read().splitlines()
    asserted = sum("packet dropped" in line for line in lines)
    print(f"{asserted} of {packets} lines were kept")
    assert 0 < asserted < packets
