# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a wire whose frames stay whole, and one that cuts them, between two hosts.

    h1 (10.0.0.1) e1 ─── s1 [a: weir-switch wire: b] s2 ─── e2 (10.0.0.2) h2

Started by whole_test.py as `unshare … python whole_scenario.py SWITCH FOLDER GSO`; prints what a TCP stream
and single frames look like on both sides as one line of JSON. The hosts send nothing else: no ARP, no IPv6.
"""

import ctypes
import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from scenario_links import run
from scenarios import statistics, wait_until
from segments_scenario import MESSAGES, PACKET_VNET_HDR, SOL_PACKET, VIRTIO_HEADER
from switch_process import SwitchProcess

STREAM_BYTES = 64 << 20
PATIENCE_S = 20
LIBC = ctypes.CDLL(None)
CLONE_NEWNET = 0x40000000  # linux/sched.h
RECEIVE = """
import hashlib, json, socket
server = socket.create_server(("10.0.0.2", 5201))
print("ready", flush=True)
stream, _ = server.accept()
digest, length = hashlib.sha256(), 0
while data := stream.recv(1 << 20):
    digest.update(data)
    length += len(data)
stream.close()
print(json.dumps({"bytes": length, "digest": digest.hexdigest()}))
"""
SEND = """
import hashlib, json, random, socket, struct, sys, time
data, length = random.Random(1).randbytes(1 << 20), int(sys.argv[1])
digest = hashlib.sha256()
stream = socket.create_connection(("10.0.0.2", 5201))
start = time.monotonic()
for _ in range(length >> 20):
    stream.sendall(data)
    digest.update(data)
stream.shutdown(socket.SHUT_WR)
stream.recv(1)  # the other end has received everything and closed
seconds = time.monotonic() - start
# struct tcp_info (linux/tcp.h): tcpi_segs_out and tcpi_segs_in at 136, tcpi_bytes_sent at 200
info = stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
(out, into), (sent,) = struct.unpack_from("=LL", info, 136), struct.unpack_from("=Q", info, 200)
print(json.dumps({"digest": digest.hexdigest(), "seconds": seconds, "segments_out": out, "segments_in": into,
                  "payload_bytes": sent}))
"""


def in_host(host: str, *command: str) -> list[str]:
    """The command in a host's network namespace."""
    return ["ip", "netns", "exec", host, *command]


def build_hosts() -> dict[str, str]:
    """Make hosts that know each other and send nothing by themselves; their addresses by interface."""
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("ip", "link", "set", "lo", "up")
    for number in (1, 2):
        host, end, port = f"h{number}", f"e{number}", f"s{number}"
        run("ip", "netns", "add", host)
        run("ip", "link", "add", port, "type", "veth", "peer", "name", end, "netns", host)
        run("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
        run("ip", "link", "set", port, "up")
        run(*in_host(host, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"))
        run("ip", "-n", host, "addr", "add", f"10.0.0.{number}/24", "dev", end)
        run("ip", "-n", host, "link", "set", end, "up", "arp", "off")
    addresses = {}
    for number, other in ((1, 2), (2, 1)):
        (found,) = json.loads(run("ip", "-j", "-n", f"h{number}", "link", "show", f"e{number}"))
        addresses[f"e{number}"] = found["address"]
        neighbour = ["neigh", "replace", f"10.0.0.{number}", "lladdr", found["address"]]
        run("ip", "-n", f"h{other}", *neighbour, "dev", f"e{other}")
    return addresses


def stream() -> dict[str, Any]:
    """Send a stream from h1 to h2; what both ends say of it."""
    command = in_host("h2", sys.executable, "-c", RECEIVE)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        sent = json.loads(run(*in_host("h1", sys.executable, "-c", SEND, str(STREAM_BYTES))))
        return {"sent": sent, "received": json.loads(receiver.stdout.readline())}


def sent_to_h2(stats: Path) -> int:
    """Frames that port 2 has sent, by the statistics of the running wire."""
    ports = statistics(stats).get("ports", [])
    return sum(port["tx_packets"] for port in ports if port["port"] == 2)


def packet_socket(host: str, interface: str) -> socket.socket:
    """A packet socket in a host, whose frames have virtio headers."""
    made: list[socket.socket] = []

    def make() -> None:
        with Path(f"/run/netns/{host}").open() as namespace:
            assert LIBC.setns(namespace.fileno(), CLONE_NEWNET) == 0
        new = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
        new.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
        new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        new.bind((interface, 0))
        made.append(new)

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


def crossed() -> dict[str, Any]:
    """Frames that a host left to its card, and how each arrives: its virtio header, bytes and checksum."""
    found = {}
    with packet_socket("h1", "e1") as source, packet_socket("h2", "e2") as capture:
        for name, sent in MESSAGES.items():
            source.send(sent)
            capture.settimeout(PATIENCE_S)
            arrived = []
            while True:
                try:
                    message = capture.recv(1 << 17)
                except TimeoutError:
                    break
                capture.settimeout(0.5)
                flags, kind, _, size, start, offset = VIRTIO_HEADER.unpack(message[:10])
                arrived.append(
                    {
                        "virtio": [flags, kind, size, start, offset],
                        "bytes": len(message) - 10,
                        "as_sent": message[10:] == sent[10:],
                    }
                )
            found[name] = {"virtio": list(struct.unpack("=BBHHHH", sent[:10])), "arrived": arrived}
    return found


def main(binary: str, folder: str, gso: str) -> None:
    """Measure a stream and single frames."""
    build_hosts()
    stats = Path(folder) / "stats.json"
    pair = f"a=s1,b=s2,delay=1ms,gso={gso}"
    with SwitchProcess(Path(binary), "--pair", pair, "--stats", str(stats), wire=True):
        result = {"stream": stream()}
        segments = result["stream"]["sent"]["segments_out"]
        wait_until(lambda: sent_to_h2(stats) >= segments, "the last acknowledgment has crossed the wire")
    result["stats"] = statistics(stats)
    with SwitchProcess(Path(binary), "--pair", pair, "--stats", str(stats), wire=True):
        result["frames"] = crossed()
    result["frame_stats"] = statistics(stats)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
