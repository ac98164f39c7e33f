# SPDX-License-Identifier: Apache-2.0
"""Datagrams between hosts whose wires delay and lose frames; the switch is a bridge of the kernel.

Usage in the sandbox: `python -m weir_tests.topo.wiring_scenario FOLDER`.
"""

import json
import socket
import sys
import threading
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from weir.topo.interfaces import read_interfaces
from weir.topo.linux import in_network_namespace
from weir.topo.process import run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.testbed import HostSpec, Testbed
from weir.topo.wiring import WireSpec, Wiring
from weir_tests.topo.scenarios import poll_until

PORT = 7000
PROBES, DATAGRAMS = 20, 1_000
NEIGHBOURS = "neigh add {} lladdr {} dev {} nud permanent\n"


def main(stop: StopToken) -> int:
    """Write the measurements to FOLDER/result.json."""
    folder = Path(sys.argv[1])
    with Testbed([HostSpec("client"), HostSpec("server1"), HostSpec("server2")]) as testbed:
        client, near, lossy = testbed.hosts.values()
        wires = [
            WireSpec(client.switch_port, client.switch_interface, delay_ns=5_000_000),
            WireSpec(near.switch_port, near.switch_interface, delay_ns=5_000_000, jitter_ns=1_000_000),
            WireSpec(lossy.switch_port, lossy.switch_interface, loss_ppb=250_000_000),
        ]
        for one in testbed.hosts.values():
            batch = "".join(
                NEIGHBOURS.format(other.address, other.mac, one.interface)
                for other in testbed.hosts.values()
                if other != one
            )
            run_tool("ip", "-n", one.namespace, "-batch", "-", input_text=batch)
        with Wiring(wires, folder, seed=1) as wiring:
            wiring.wait_ready(stop)
            _bridge([wire.switch_interface for wire in wires])
            round_trips = _round_trips(testbed)
            arrived = _to_lossy(testbed)
            interfaces = read_interfaces(wire.switch_interface for wire in wires)
            counters = wiring.stop()
        result = {
            "round_trips_s": round_trips,
            "sent_to_lossy": interfaces["port3"].tx_packets,
            "arrived_at_lossy": arrived,
            "wires": {port: asdict(found) for port, found in counters.items()},
            "interfaces": {name: asdict(found) for name, found in interfaces.items()},
            "kernel_drops": wiring.kernel_drops(),
        }
    (folder / "result.json").write_text(json.dumps(result))
    return 0


def _bridge(interfaces: list[str]) -> None:
    # Without multicast snooping the bridge sends no frames of its own.
    batch = "link add bridge0 type bridge mcast_snooping 0\nlink set bridge0 up\n"
    batch += "".join(f"link set {name} master bridge0\n" for name in interfaces)
    run_tool("ip", "-batch", "-", input_text=batch)


def _udp(testbed: Testbed, host: str) -> socket.socket:
    def bound() -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((testbed.host(host).address, PORT))
        return made

    return in_network_namespace(testbed.host(host).namespace, bound)


def _round_trips(testbed: Testbed) -> list[float]:
    with _udp(testbed, "client") as client, _udp(testbed, "server1") as server:
        threading.Thread(target=partial(_echo, server, PROBES), daemon=True).start()
        client.settimeout(10)
        found = []
        for _ in range(PROBES):
            begin = time.perf_counter()
            client.sendto(b"probe", (testbed.host("server1").address, PORT))
            client.recv(100)
            found.append(time.perf_counter() - begin)
        return found


def _echo(server: socket.socket, count: int) -> None:
    for _ in range(count):
        data, peer = server.recvfrom(100)
        server.sendto(data, peer)


def _to_lossy(testbed: Testbed) -> int:
    """Send DATAGRAMS to server2; returns how many frames its interface received, flooded ones too."""
    lossy = testbed.host("server2")
    with _udp(testbed, "client") as client:
        for _ in range(DATAGRAMS):
            client.sendto(b"datagram", (lossy.address, PORT))

    readings: list[int] = []

    def still() -> bool:
        time.sleep(0.2)
        readings.append(_received(testbed))
        return len(readings) > 2 and len(set(readings[-3:])) == 1

    poll_until(still)
    return readings[-1]


def _received(testbed: Testbed) -> int:
    lossy = testbed.host("server2")
    shown = run_tool("ip", "-n", lossy.namespace, "-s", "-json", "link", "show", "dev", lossy.interface)
    return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])


if __name__ == "__main__":
    inside(main)
