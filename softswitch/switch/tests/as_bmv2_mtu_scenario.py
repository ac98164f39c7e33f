# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: the MTU of the interfaces grows after the switch has started, as p4-utils has it.

    e1 ─── s1 [port 1: simple_switch_grpc: port 2] s2 ─── e2

Started by as_bmv2_test.py as `unshare … python as_bmv2_mtu_scenario.py SWITCH P4INFO JSON FOLDER`; prints
what it observed as one line of JSON.
"""

import json
import socket
import sys
from pathlib import Path

from bmv2_process import Bmv2Process
from scenario_links import add_two_links, run
from scenarios import wait_until

HEAD = bytes.fromhex("ffffffffffff 0200000000aa 88b5")
MTU = 9000


def main(binary: str, p4info: str, program: str, folder: str) -> None:
    """Send frames of the larger MTU until one arrives."""
    add_two_links()
    source, sink = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) for _ in range(2))
    source.bind(("e1", 0x88B5))
    sink.bind(("e2", 0x88B5))
    sink.settimeout(0.1)
    arrived: list[int] = []

    def passes(frame: bytes) -> bool:
        source.send(frame)
        try:
            arrived.append(len(sink.recv(2 * MTU)))
        except TimeoutError:
            return False
        return True

    switch = Bmv2Process(Path(binary), Path(folder), "--no-p4", "-i", "1@s1", "-i", "2@s2")
    with switch:
        switch.flood(Path(p4info), Path(program), [1, 2])
        wait_until(lambda: passes(HEAD.ljust(1514, b"\x5a")), "a frame of the first MTU arrived")
        for interface in ("e1", "s1", "s2", "e2"):
            run("ip", "link", "set", interface, "mtu", str(MTU))
        wait_until(lambda: passes(HEAD.ljust(MTU + 14, b"\x5a")), "a frame of the new MTU arrived")
    print(json.dumps({"arrived": arrived}))


if __name__ == "__main__":
    main(*sys.argv[1:])
