# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a router with several forwarding threads, and packets between all of its ports.

    e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2
                                    port 3 ] s3 ─── e3

Started by forward_threads_test.py as `unshare … python forward_threads_scenario.py SWITCH JSON P4INFO FOLDER
RECEIVE THREADS LEARNING`, where LEARNING is the JSON of a program whose packets share state; prints its
observations as one line of JSON.
"""

import errno
import json
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from finsy.proto import p4i, p4r
from google.protobuf import text_format
from hostile_client import HostileClient
from scenario_links import add_link, add_two_links, run
from scenarios import statistics, wait_until
from switch_process import SwitchProcess

PORTS = (1, 2, 3)
NUMBERED = 3000
"""Packets from each port to each other one."""
DELAY_MS = 30
IP = struct.Struct(">BBHHHBBH4s4s")
NUMBER = struct.Struct(">BxxxI")
"""Port of the sender, number; after the IP header."""


def checksum(header: bytes) -> int:
    """The checksum of an IPv4 header (RFC 791)."""
    total: int = sum(struct.unpack(f">{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def packet(source: int, destination: int, number: int) -> bytes:
    """A packet from one port's network to another's."""
    length = IP.size + NUMBER.size

    def header(check: int) -> bytes:
        addresses = bytes([10, source, 0, 1]), bytes([10, destination, 0, 1])
        return IP.pack(0x45, 0, length, 0, 0, 64, 253, check, *addresses)

    ethernet = bytes(12) + b"\x08\x00"
    return ethernet + header(checksum(header(0))) + NUMBER.pack(source, number)


class Arrivals:
    """The numbers of the packets that arrive at a host, by the port of their sender."""

    def __init__(self, interface: str) -> None:
        """Begin."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind((interface, 0x0800))
        self._stop = threading.Event()
        self.numbers: dict[int, list[int]] = defaultdict(list)
        self.first: dict[int, float] = {}
        """When the first of each port's came, by the monotonic clock."""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while True:
            if not select.select([self._socket], [], [], 0.05)[0]:
                if self._stop.is_set():
                    return
                continue
            frame, address = self._socket.recvfrom(2048)
            if address[2] != socket.PACKET_OUTGOING:
                sender, number = NUMBER.unpack_from(frame, 14 + IP.size)
                self.first.setdefault(sender, time.monotonic())
                self.numbers[sender].append(number)

    def stop(self) -> dict[int, list[int]]:
        """Stop when no more packets arrive; return the numbers of all."""
        self._stop.set()
        self._thread.join()
        return self.numbers


def send_from(port: int, numbers: range) -> None:
    """Send packets with these numbers to both other ports; again while the link's queue is full."""
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    source.bind((f"e{port}", 0))
    for number in numbers:
        for other in PORTS:
            while other != port:
                try:
                    source.send(packet(port, other, number))
                    break
                except OSError as error:
                    if error.errno != errno.ENOBUFS:
                        raise


def send_at_once(ports: Sequence[int], numbers: range) -> None:
    """Send from several ports at once."""
    senders = [threading.Thread(target=send_from, args=(port, numbers)) for port in ports]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


class Router:
    """The entries of the router and their counters, through P4Runtime."""

    def __init__(self, p4info: Path, client: HostileClient) -> None:
        """The router that `client` controls."""
        self._info = text_format.Parse(p4info.read_text(), p4i.P4Info())
        self._client = client

    def _entry(self, table: str, action: str, *values: bytes) -> p4r.Update:
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = next(t.preamble.id for t in self._info.tables if t.preamble.alias == table)
        called = entry.action.action
        called.action_id = next(a.preamble.id for a in self._info.actions if a.preamble.alias == action)
        for number, value in enumerate(values, 1):
            called.params.add(param_id=number, value=value)
        return update

    def configure(self) -> None:
        """A network and a next hop behind each port."""
        updates = []
        for port in PORTS:
            hop = self._entry("next_hop", "rewrite", bytes([port]), b"\x0a", b"\x0b")
            hop.entity.table_entry.match.add(field_id=1).exact.value = bytes([port])
            route = self._entry("route", "set_next_hop", bytes([port]))
            lpm = route.entity.table_entry.match.add(field_id=1).lpm
            lpm.value, lpm.prefix_len = bytes([10, port, 0, 0]), 16
            updates += [hop, route]
        self._client.write(updates).result()

    def counts(self) -> dict[int, int]:
        """Packets that took each port's route."""
        query = self._entry("route", "set_next_hop").entity
        query.table_entry.ClearField("action")
        query.table_entry.counter_data.SetInParent()
        request = p4r.ReadRequest(device_id=1, entities=[query])
        answers = self._client.stub.Read(request, timeout=60)
        entries = [entity.table_entry for answer in answers for entity in answer.entities]
        return {entry.match[0].lpm.value[1]: entry.counter_data.packet_count for entry in entries}


def threads_of(pid: int) -> list[str]:
    """The names of a process's threads."""
    return [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]


def refused(*command: str) -> str:
    """The last line on standard error of a command that fails."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0, command
    return ended.stderr.strip().splitlines()[-1]


def main(binary: str, blob: str, p4info: str, folder: str, receive: str, threads: str, learning: str) -> None:
    """Send numbered packets between all ports, delete and recreate an interface, stop the switch."""
    add_two_links()
    add_link(3)
    stats = Path(folder) / "stats.json"
    ports = [f"--port={number}=s{number},receive={receive}" for number in PORTS]
    several = ["--forward-threads", threads]
    result: dict[str, Any] = {
        "program": refused(binary, "--p4runtime=127.0.0.1:0", "--json", learning, *ports, *several),
        "rate": refused(binary, "--p4runtime=127.0.0.1:0", "--port=1=s1,rate=1Mbit/s", *ports[1:], *several),
        "idle": refused(binary, "--p4runtime=127.0.0.1:0", ports[0], *several),
    }
    total = 6 * NUMBERED

    def totals(*names: str) -> int:
        seen = statistics(stats).get("ports", [])
        return sum(port[name] for port in seen for name in names)

    def totals_of(number: int, *names: str) -> int:
        seen = statistics(stats)["ports"][number - 1]
        return sum(seen[name] for name in names)

    with (
        SwitchProcess(Path(binary), *ports, "--stats", str(stats), *several) as switch,
        HostileClient(switch.address) as client,
    ):
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        router = Router(Path(p4info), client)
        router.configure()
        arrivals = [Arrivals(f"e{port}") for port in PORTS]
        send_at_once(PORTS, range(NUMBERED))
        wait_until(lambda: totals("rx_packets", "rx_overruns") >= total, "all packets were received")
        wait_until(lambda: totals("tx_packets") >= totals("rx_packets"), "all packets were sent")
        result["numbers"] = [arrival.stop() for arrival in arrivals]
        result["stats"] = statistics(stats)
        result["counts"] = router.counts()
        result["threads"] = threads_of(switch.pid)

        at = ["--at", switch.address]
        shown = subprocess.run([binary, "links", "get", *at], capture_output=True, text=True)
        result["links"] = shown.stdout
        run(binary, "links", "set", *at, "2", f"delay={DELAY_MS}ms")
        delayed, began = Arrivals("e2"), time.monotonic()
        send_at_once((1, 3), range(1))
        wait_until(lambda: len(delayed.first) == 2, "delayed packets arrived")
        delayed.stop()
        result["delays_ms"] = [(at_s - began) * 1000 for at_s in delayed.first.values()]
        run(binary, "links", "set", *at, "2", "delay=0ms")

        result["set"] = refused(binary, "links", "set", *at, "1", "rate=1Mbit/s")
        result["remove"] = refused(binary, "links", "remove", *at, "3")

        run("ip", "link", "delete", "s3")
        send_at_once(PORTS[:2], range(100))
        wait_until(lambda: not statistics(stats)["ports"][2]["up"], "the interface was gone")
        add_link(3)
        wait_until(lambda: bool(statistics(stats)["ports"][2]["up"]), "the interface was back")
        again = Arrivals("e3")
        send_at_once(PORTS[:2], range(100))
        wait_until(lambda: all(len(again.numbers[port]) == 100 for port in (1, 2)), "packets arrived again")
        again.stop()

        # Now nothing is sent to the interface while it is away.
        run("ip", "link", "delete", "s3")
        wait_until(lambda: not statistics(stats)["ports"][2]["up"], "the interface was gone")
        add_link(3)
        wait_until(lambda: bool(statistics(stats)["ports"][2]["up"]), "the interface was back")
        before = statistics(stats)["ports"][2]
        send_at_once(PORTS[:2], range(100))
        tried = before["tx_packets"] + before["tx_errors"] + 200
        wait_until(lambda: totals_of(3, "tx_packets", "tx_errors") >= tried, "packets left again")
        result["lost_after_return"] = totals_of(3, "tx_errors") - before["tx_errors"]
        result["exit_code"] = switch.stop()
    result["last"] = statistics(stats)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
