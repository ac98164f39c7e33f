# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: the switch under bmv2's name on two network interfaces, with captures and a log.

    e1 ─── s1 [port 1: simple_switch_grpc: port 2] s2 ─── e2

Started by as_bmv2_test.py as `unshare … python as_bmv2_scenario.py SWITCH P4INFO JSON FOLDER`; prints what it
observed as one line of JSON.
"""

import contextlib
import json
import socket
import struct
import sys
from pathlib import Path

import pynng  # type: ignore[import-untyped]
from bmv2_process import PATIENCE_S, Bmv2Process
from scenario_links import add_two_links, run
from scenarios import wait_until

FRAME = bytes.fromhex("ffffffffffff 0200000000aa 88b5").ljust(60, b"\x5a")
INSIDE_FRAME = bytes.fromhex("ffffffffffff 0200000000bb 88b5").ljust(61, b"\x5a")


def captured(path: Path) -> list[str]:
    """The frames of a pcap file, in hexadecimal."""
    rest, found = path.read_bytes()[24:], []
    while rest:
        length = struct.unpack("=IIII", rest[:16])[2]
        found.append(rest[16 : 16 + length].hex())
        rest = rest[16 + length :]
    return found


def changes_of_port(interface: str, subscriber: pynng.Sub0) -> list[bytes]:
    """What a subscriber hears when an interface goes down, and next, when it comes up again.

    This is repeated: what is sent before the switch has taken the subscriber is lost.
    """
    heard: list[bytes] = []

    def states() -> list[bool]:
        return [sent[-4:] != bytes(4) for sent in heard]

    def hears_both() -> bool:
        for state in ("down", "up"):
            run("ip", "link", "set", interface, state)
            with contextlib.suppress(pynng.Timeout):
                while True:
                    heard.append(subscriber.recv())
        return states()[-2:] == [False, True]

    wait_until(hears_both, "the subscriber heard of the port")
    return heard[-2:]


def main(binary: str, p4info: str, program: str, given_folder: str) -> None:
    """Send a frame from port 1 to port 2 through the link, and another through the switch's own end of it."""
    add_two_links()
    folder = Path(given_folder)
    captures = folder / "captures"
    captures.mkdir()
    source, sink = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) for _ in range(2))
    source.bind(("e1", 0x88B5))
    sink.bind(("e2", 0x88B5))
    sink.settimeout(PATIENCE_S)
    options = ["--no-p4", "-i", "1@s1", "-i", "2@s2", "--pcap", str(captures), "--log-console", "-L", "info"]
    notifications = f"ipc://{folder}/notifications"
    options += ["--notifications-addr", notifications]
    ignored = ["--nanolog", f"ipc://{folder}/events", "--debugger"]
    switch = Bmv2Process(Path(binary), folder, *options, *ignored, "--dump-packet-data", "8")
    with switch:
        switch.flood(Path(p4info), Path(program), [1, 2])
        source.send(FRAME)
        received = sink.recv(100)
        inside = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        inside.bind(("s1", 0))
        inside.send(INSIDE_FRAME)
        received_from_inside = sink.recv(100)
        with pynng.Sub0(dial=notifications, topics=b"PRT|", recv_timeout=1000) as subscriber:
            port_states = changes_of_port("s2", subscriber)
        files = {path.name: path for path in sorted(captures.iterdir())}
        # A frame is in its file before it is sent.
        wait_until(lambda: len(captured(files["s2_out.pcap"])) == 2, "the frames were captured")
        found = {
            "frame": FRAME.hex(),
            "received": received.hex(),
            "inside_frame": INSIDE_FRAME.hex(),
            "received_from_inside": received_from_inside.hex(),
            "port_states": [sent.hex() for sent in port_states],
            "captured": {name: captured(path) for name, path in files.items()},
            "link_types": sorted(
                {struct.unpack("=I", path.read_bytes()[20:24])[0] for path in files.values()}
            ),
        }
    found |= {"console": switch.said + switch.output.splitlines(), "errors": switch.errors}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
