# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: two hosts and a plain wire between them, whose links and interfaces change.

    h1 (10.0.0.1) e1 ─── s1 [a: weir-switch wire: b] s2 ─── e2 (10.0.0.2) h2

Started by links_test.py as `unshare … python links_scenario.py SWITCH JSON P4INFO FOLDER [OPTION…]`; prints
its measurements as one line of JSON.
"""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hostile_client import HostileClient, destinations
from scenario_links import add_link, run
from scenarios import statistics
from switch_process import SwitchProcess
from wire_scenario import ask, build_links, echo_server

KNOWN = 0x0B
ADDRESSES = KNOWN.to_bytes(6, "big") + (0x0A).to_bytes(6, "big") + b"\x88\xb5"
PATIENCE_S = 60
STREAM_BYTES = 32 << 20
UNDELIVERED = 100  # frames to an interface whose other end is down
RECEIVE = """
import hashlib, json, socket
server = socket.create_server(("10.0.0.2", 5201))
print("ready", flush=True)
stream, _ = server.accept()
digest, length = hashlib.sha256(), 0
while data := stream.recv(1 << 16):
    digest.update(data)
    length += len(data)
print(json.dumps({"received_bytes": length, "received_digest": digest.hexdigest()}))
"""
SEND = """
import hashlib, json, random, socket, sys
data = random.Random(1).randbytes(1 << 20)
digest, rounds = hashlib.sha256(), int(sys.argv[1]) >> 20
stream = socket.create_connection(("10.0.0.2", 5201))
for _ in range(rounds):
    stream.sendall(data)
    digest.update(data)
stream.close()
print(json.dumps({"sent_bytes": rounds << 20, "sent_digest": digest.hexdigest()}))
"""


def links(binary: str, *arguments: str) -> tuple[int, str]:
    """Run `weir-switch links`; return its exit code and output."""
    ended = subprocess.run([binary, "links", *arguments], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def recreate_second_link() -> None:
    """Delete the interface of port 2 with its other end, and create both again under the same names."""
    run("ip", "link", "delete", "s2")
    run("ip", "link", "add", "s2", "type", "veth", "peer", "name", "e2", "netns", "h2")
    run("ip", "link", "set", "s2", "up")
    run("ip", "-n", "h2", "addr", "add", "10.0.0.2/24", "dev", "e2")
    run("ip", "-n", "h2", "link", "set", "e2", "up")
    run("ip", "-n", "h1", "neigh", "flush", "dev", "e1")


def start(host: str, program: str, *arguments: str) -> "subprocess.Popen[str]":
    """Run a Python program on a host."""
    command = ["ip", "netns", "exec", host, sys.executable, "-c", program, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def stream(binary: str, at: list[str]) -> dict[str, Any]:
    """A TCP stream from h1, which leaves its segments to the card, to h2; the delay changes repeatedly."""
    receiver = start("h2", RECEIVE)
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "ready\n"
    sender = start("h1", SEND, str(STREAM_BYTES))
    changes = 0
    while sender.poll() is None:
        code, said = links(binary, "set", *at, "2", f"delay={1 + changes % 5}ms,packets=1000")
        assert code == 0, said
        changes += 1
    result: dict[str, Any] = {"changes": changes}
    for process in (sender, receiver):
        printed, _ = process.communicate(timeout=PATIENCE_S)
        result |= json.loads(printed)
    return result


def wire(binary: str, stats_file: str, *options: str) -> dict[str, Any]:
    """Measure round trips through the wire while its delay, then its interfaces change."""
    result: dict[str, Any] = {}
    pair = ["--pair", "a=s1,b=s2,delay=10ms", "--stats", stats_file]
    with SwitchProcess(Path(binary), *pair, *options, wire=True) as process:
        at = ["--at", process.address]
        result["delayed"] = ask()
        result["set"] = links(binary, "set", *at, "2", "delay=30ms,packets=100")
        result["slower"] = ask()
        recreate_second_link()
        result["recreated"] = ask(patience_s=0.5)
        result["get"] = links(binary, "get", *at)
        result["stream"] = stream(binary, at)
        result["refused"] = links(binary, "set", *at, "7", "delay=1ms")
        result["add"] = links(binary, "add", *at, "3=lo")
    return result


def switch(binary: str, stats: Path, p4info: Path, program: Path, *options: str) -> dict[str, Any]:
    """Add ports to a running switch, send frames between them, and remove one."""
    run("ip", "link", "set", "e4", "up")
    with (
        SwitchProcess(Path(binary), "--port", "1=s1", "--stats", str(stats), *options) as process,
        HostileClient(process.address) as client,
    ):
        client.open_stream()
        client.push(p4info, program)
        known = destinations(p4info, "destination", "forward", range(KNOWN, KNOWN + 1))
        known[0].entity.table_entry.action.action.params[0].value = b"\x04"
        client.write(known).result()
        at = ["--at", process.address]
        added = {
            "add": links(binary, "add", *at, "3=s3,rate=1Mbit/s"),
            "second": links(binary, "add", *at, "4=s4"),
        }
        sink = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        sink.bind(("e4", 0x88B5))
        sink.settimeout(PATIENCE_S)
        source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        source.bind(("e3", 0))
        frame = ADDRESSES + bytes(46)
        source.send(frame)
        crossed = sink.recv(2048) == frame
        result = added | {
            "crossed": crossed,
            "again": links(binary, "add", *at, "3=e3"),
            "missing": links(binary, "add", *at, "5=nothing"),
            "get": links(binary, "get", *at),
        }
        too_long = [1515, 1900, 2100, 9000]
        for length in too_long:
            source.send(ADDRESSES + bytes(length - len(ADDRESSES)))
        run("ip", "link", "set", "e4", "down")
        for _ in range(UNDELIVERED):
            source.send(frame)
        waiting = time.monotonic() + PATIENCE_S
        while _passed(links(binary, "get", *at)[1], 4) < 1 + len(too_long) + UNDELIVERED:
            assert time.monotonic() < waiting, "not all frames reached port 4"
        result["remove"] = links(binary, "remove", *at, "3")
        result["after"] = links(binary, "get", *at)
    result |= {"too_long": len(too_long), "without_carrier": UNDELIVERED}
    result["stats"] = json.loads(stats.read_text())
    return result


def _passed(shown: str, port: int) -> int:
    """Frames that passed a port's link, from the output of `links get`."""
    return next(int(one["link"]["passed_packets"]) for one in json.loads(shown) if one["port"] == port)


def main(binary: str, blob: str, p4info: str, folder: str, *options: str) -> None:
    """Measure a wire, then a switch, then one that gives the kernel departure times."""
    build_links()
    stats = Path(folder) / "stats.json"
    with echo_server():
        result = {"wire": wire(binary, str(stats), *options)}
    result["stats"] = statistics(stats)
    add_link(3)
    add_link(4)
    # Frames of this link can be too long for the other.
    run("ip", "link", "set", "e3", "mtu", "9000")
    run("ip", "link", "set", "s3", "mtu", "9000")
    ahead = ("--virtual-time", "--run-ahead", "9")
    for name, sending in (("switch", options), ("ahead", ahead)):
        result[name] = switch(binary, Path(folder) / f"{name}.json", Path(p4info), Path(blob), *sending)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
