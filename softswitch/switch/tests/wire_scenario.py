# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: two hosts in separate namespaces and the switch between them.

    h1 (10.0.0.1) e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2 (10.0.0.2) h2

Started by wire_test.py as `unshare … python wire_scenario.py SWITCH JSON P4INFO FOLDER RECEIVE [OPTION…]`;
prints its measurements as one line of JSON. The first datagram needs ARP: it arrives only if broadcasts are
flooded.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import finsy
from finsy import (
    P4DigestEntry,
    P4MulticastGroupEntry,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
    SwitchOptions,
)
from scenario_links import run
from scenarios import statistics
from switch_process import SwitchProcess

ROUNDS = 5
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.0.0.2", 7))
print("ready", flush=True)
while True:
    data, peer = s.recvfrom(2048)
    s.sendto(data, peer)
"""
ASK = """
import json, socket, sys, time
rounds, patience_s = int(sys.argv[1]), float(sys.argv[2])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(patience_s)
s.connect(("10.0.0.2", 7))
rtts, sent = [], 0
while len(rtts) < rounds and sent < 100:
    sent += 1
    message = b"%d " % sent + bytes(1000)
    start = time.monotonic()
    s.send(message)
    try:
        while s.recv(2048) != message:  # a late answer to an earlier one
            pass
        rtts.append(time.monotonic() - start)
    except TimeoutError:
        pass
print(json.dumps({"rtts": rtts, "sent": sent}))
"""


def build_links(receive: str = "ring") -> None:
    """Make the hosts and their links."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("ip", "link", "set", "lo", "up")
    for number in (1, 2):
        host, end, port = f"h{number}", f"e{number}", f"s{number}"
        run("ip", "netns", "add", host)
        run("ip", "link", "add", port, "type", "veth", "peer", "name", end, "netns", host)
        run("ip", "link", "set", port, "up")
        run("ip", "-n", host, "addr", "add", f"10.0.0.{number}/24", "dev", end)
        run("ip", "-n", host, "link", "set", end, "up")
        if receive == "xdp":  # whose ports cannot complete what a host leaves to its card
            run("ip", "netns", "exec", host, "ethtool", "-K", end, "tx", "off")


@contextmanager
def echo_server() -> Iterator[None]:
    """h2 returns each datagram to its sender."""
    command = ["ip", "netns", "exec", "h2", sys.executable, "-c", ECHO]
    echo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == "ready\n"
        yield
    finally:
        echo.kill()
        echo.wait()


def ask(patience_s: float = 20) -> dict[str, Any]:
    """Send datagrams from h1 to h2, each after the answer to the last, or after `patience_s`.

    Returns the round trip times in seconds, and how many were sent.
    """
    printed = run("ip", "netns", "exec", "h1", sys.executable, "-c", ASK, str(ROUNDS), str(patience_s))
    asked: dict[str, Any] = json.loads(printed)
    return asked


async def learn(switch: finsy.Switch, stations: int) -> dict[int, int]:
    """Ports of the first stations in the switch's digests, by address."""
    ports: dict[int, int] = {}
    async for digests in switch.read_digests("learn_t"):
        ports |= {digest["src"]: digest["port"] for digest in digests}
        await switch.write([digests.ack()])
        if len(ports) >= stations:
            break
    return ports


async def control(service: str, p4info: Path, blob: Path) -> dict[str, Any]:
    """Flood and learn, then forward to the learned ports; measure in both phases."""
    async with finsy.Switch("sw1", service, SwitchOptions(p4info=p4info, p4blob=blob)) as switch:
        learned = asyncio.create_task(learn(switch, 2))
        await switch.insert([P4MulticastGroupEntry(1, replicas=[1, 2])])
        await switch.insert([P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=10**9)])
        flooded = await asyncio.to_thread(ask)
        ports = await learned
        for address, port in ports.items():
            await switch.insert(
                [
                    P4TableEntry(
                        "destination",
                        match=P4TableMatch({"hdr.ethernet.dst": address}),
                        action=P4TableAction("forward", port=port),
                    )
                ]
            )
        forwarded = await asyncio.to_thread(ask)
        learned_all = ports == {mac(f"h{number}", f"e{number}"): number for number in (1, 2)}
        return {"flooded": flooded, "forwarded": forwarded, "learned": learned_all}


def mac(host: str, interface: str) -> int:
    """Address of a host's interface."""
    found = json.loads(run("ip", "-j", "-n", host, "link", "show", interface))
    return int(found[0]["address"].replace(":", ""), 16)


def main(binary: str, blob: str, p4info: str, folder: str, receive: str, *options: str) -> None:
    """Measure; set an interface down and up again; measure again."""
    build_links(receive)
    stats = Path(folder) / "stats.json"
    ports = [f"--port={number}=s{number},delay=10ms,receive={receive}" for number in (1, 2)]
    with echo_server(), SwitchProcess(Path(binary), *ports, "--stats", str(stats), *options) as switch:
        result = asyncio.run(control(switch.address, Path(p4info), Path(blob)))
        run("ip", "link", "set", "s2", "down")
        run("ip", "link", "set", "s2", "up")
        # Frames sent before the switch has reopened the interface are lost, and counted.
        result["after_loss"] = ask(patience_s=0.5)
    result["stats"] = statistics(stats)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
