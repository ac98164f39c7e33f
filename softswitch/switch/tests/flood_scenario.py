# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a flood through three ports; one is recreated, then the switch is stopped.

    sender e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2
                                          port 3 ] s3 ─── e3

Started by flood_test.py as `unshare … python flood_scenario.py SWITCH JSON P4INFO FOLDER RECEIVE [OPTION…]`;
prints its observations as one line of JSON. The interfaces' own counters show what the switch sent.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from finsy.proto import p4r
from frame_capture import Capture
from hostile_client import HostileClient, destinations
from scenario_links import add_link, add_two_links, run
from scenarios import statistics, wait_until
from switch_process import SwitchProcess

# To port 2, to port 3, and to both.
FLOWS = (0x0B, 0x0C, 0x0F)
NUMBERED = 1000
# Copies of a flooded frame that leave through each of two ports: sending is most of the work.
COPIES = 32
FLOODED = 8_000
FRAME_BYTES = 60


def frame(flow: int, number: int) -> bytes:
    """A short frame of one of the flows."""
    header = flow.to_bytes(6, "big") + (0x0A).to_bytes(6, "big") + b"\x88\xb5"
    return (header + number.to_bytes(8, "big")).ljust(FRAME_BYTES, b"\0")


def send(source: socket.socket, data: bytes) -> None:
    """Send a frame; retry while the link's queue is full."""
    while True:
        try:
            source.send(data)
        except OSError:
            continue
        return


def arrived(interface: str) -> int:
    """Frames that an interface received, as the kernel counts."""
    shown = json.loads(run("ip", "-s", "-json", "link", "show", "dev", interface))
    return int(shown[0]["stats64"]["rx"]["packets"])


def configure(client: HostileClient, p4info: Path) -> None:
    """Forward the first two flows, and flood the third in many copies."""
    known = [destinations(p4info, "destination", "forward", range(flow, flow + 1))[0] for flow in FLOWS[:2]]
    for port, update in zip((2, 3), known, strict=True):
        update.entity.table_entry.action.action.params[0].value = bytes([port])
    group = p4r.Update(type=p4r.Update.INSERT)
    entry = group.entity.packet_replication_engine_entry.multicast_group_entry
    entry.multicast_group_id = 1
    for port in (2, 3):
        for instance in range(COPIES):
            entry.replicas.add(port=bytes([port]), instance=instance)
    client.write([*known, group]).result()


def settled(stats: Path, sent: Callable[[], int]) -> Callable[[], bool]:
    """Whether all frames were received or counted as lost, and their output was sent."""

    def settled_now() -> bool:
        seen = statistics(stats)
        ports, dataplane = seen.get("ports", []), seen.get("dataplane", {})
        received = sum(port["rx_packets"] + port["rx_overruns"] for port in ports)
        if received != sent() or any(port["tx_waiting"] or port["queued_packets"] for port in ports):
            return False
        # The counts may be of a moment between the arrival of frames and their output.
        copies = dataplane["multicast_copies"]
        flooded = copies // (2 * COPIES)
        return bool(dataplane["transmitted"] == dataplane["received"] - flooded + copies)

    return settled_now


def main(binary: str, blob: str, p4info: str, folder: str, receive: str, *options: str) -> None:
    """Send numbered frames, flood, delete and recreate an interface, stop the switch."""
    add_two_links()
    add_link(3)
    stats, total = Path(folder) / "stats.json", 0
    result: dict[str, Any] = {}
    source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    source.bind(("e1", 0))
    ports = [f"--port={number}=s{number},receive={receive}" for number in (1, 2, 3)]
    with (
        SwitchProcess(Path(binary), *ports, "--stats", str(stats), *options) as switch,
        HostileClient(switch.address) as client,
    ):
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        configure(client, Path(p4info))

        captures = [Capture(f"e{port}") for port in (2, 3)]
        for number in range(NUMBERED):
            for flow in FLOWS[:2]:
                send(source, frame(flow, number))
        total += 2 * NUMBERED
        wait_until(settled(stats, lambda: total), "the numbered frames were forwarded")
        result["numbers"] = [[number for _, number in capture.stop()] for capture in captures]
        result["numbered_arrived"] = [arrived("e2"), arrived("e3")]
        result["numbered"] = statistics(stats)

        for number in range(FLOODED):
            send(source, frame(FLOWS[2], number))
        total += FLOODED
        wait_until(settled(stats, lambda: total), "the flood was forwarded")
        result["flooded_arrived"] = [arrived("e2"), arrived("e3")]
        result["flooded"] = statistics(stats)

        stop, endless = threading.Event(), 0

        def flood() -> None:
            nonlocal endless
            while not stop.is_set():
                send(source, frame(FLOWS[2], endless))
                endless += 1

        flooding = threading.Thread(target=flood)
        flooding.start()

        def third() -> dict[str, Any]:
            found: dict[str, Any] = statistics(stats)["ports"][2]
            return found

        run("ip", "link", "delete", "s3")
        wait_until(lambda: not third()["up"], "the switch said that the interface is gone")
        add_link(3)
        wait_until(lambda: third()["up"], "the switch said that the interface is back")
        wait_until(lambda: arrived("e3") > 0, "frames left through the new interface")
        # While the flood continues.
        result["exit_code"] = switch.stop()
        stop.set()
        flooding.join()
    result["last"] = statistics(stats)
    result["last_arrived"] = arrived("e2")
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
