# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a program pushed under full load, with the statistics on a full disk.

    sender e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2

Started by adversity_wire_test.py as `unshare … python adversity_scenario.py SWITCH JSON P4INFO FOLDER
[OPTION…]`; prints its observations as one line of JSON.
"""

import json
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from hostile_client import HostileClient, destinations
from scenario_links import add_two_links, run
from scenarios import PATIENCE_S, statistics, wait_until
from switch_process import SwitchProcess

PUSHES = 20
KNOWN = 0x0B
FRAME = KNOWN.to_bytes(6, "big") + (0x0A).to_bytes(6, "big") + b"\x88\xb5" + bytes(46)
# Smaller than the file of statistics.
DISK = "size=4k"


class Load:
    """Sends frames as fast as possible until `stop`."""

    def __init__(self) -> None:
        """Begin."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self._socket.bind(("e1", 0))
        self._stop = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._stop.is_set():
            try:
                self.sent += self._socket.send(FRAME) == len(FRAME)
            except OSError:  # the link's queue is full for a moment
                continue

    def stop(self) -> int:
        """Stop; return the number of frames sent."""
        self._stop.set()
        self._thread.join()
        return self.sent


def main(binary: str, blob: str, p4info: str, folder: str, *options: str) -> None:
    """Fill the disk; push under load; free space; count."""
    add_two_links()
    disk, log = Path(folder) / "disk", Path(folder) / "log"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", DISK, "tmpfs", str(disk))
    ballast, stats = disk / "ballast", disk / "stats.json"
    ballast.write_bytes(bytes(4096))
    result: dict[str, Any] = {}
    arguments = ["--port", "1=s1", "--port", "2=s2", "--stats", str(stats), *options]
    with (
        log.open("w") as stderr,
        SwitchProcess(Path(binary), *arguments, stderr=stderr) as switch,
        HostileClient(switch.address) as client,
    ):
        client.open_stream()
        client.push(Path(p4info), Path(blob))
        known = destinations(Path(p4info), "destination", "forward", range(KNOWN, KNOWN + 1))
        known[0].entity.table_entry.action.action.params[0].value = b"\x02"
        client.write(known).result()
        before = switch.resident_bytes()
        load = Load()
        wait_until(lambda: "cannot write" in log.read_text(), "the switch logged the full disk")
        for _ in range(PUSHES):
            client.push(Path(p4info), Path(blob))
            client.write(known).result()
        result["sent"] = load.stop()
        result["grown_bytes"] = switch.resident_bytes() - before
        # Room for the file again.
        run("mount", "-t", "tmpfs", "-o", "remount,size=1m", "tmpfs", str(disk))

        def received() -> bool:
            ports = statistics(stats).get("ports")
            # Two equal readings show that no frame is in flight.
            now = [port["rx_packets"] + port["rx_overruns"] for port in ports or []]
            done = bool(now) and now == result.get("seen")
            result["seen"] = now
            return done

        wait_until(received, "the statistics were written and all frames had arrived")
        sink = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        sink.bind(("e2", 0))
        sink.settimeout(PATIENCE_S)
        source = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        source.bind(("e1", 0))
        source.send(FRAME)
        result["forwards_afterwards"] = sink.recv(2048) == FRAME
    result["log"] = log.read_text()
    result["stats"] = statistics(stats)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
