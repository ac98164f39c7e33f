# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: the switch under bmv2's name sends to an interface that `tc` makes slow.

    e1 ─── s1 [port 1: simple_switch_grpc: port 2] s2 ── tbf ── e2

Started by as_bmv2_test.py as `unshare … python as_bmv2_slow_scenario.py SWITCH P4INFO JSON FOLDER`; prints
what it observed as one line of JSON.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path

from bmv2_process import Bmv2Process
from frame_capture import OUTGOING, RECEIVE_BUFFER_BYTES, Capture
from scenario_links import add_two_links, run
from scenarios import wait_until

RATE_BPS = 4_000_000
FRAME_BYTES = 1400
QUEUE_FRAMES = 64
LATER_FRAMES = 10
FULL = "Dropping packet, because its queue is full at port 2"


def frame(number: int) -> bytes:
    """A frame with its number in it."""
    head = bytes.fromhex("ffffffffffff 0200000000aa 88b5") + number.to_bytes(8, "big")
    return head.ljust(FRAME_BYTES, b"\x5a")


def main(binary: str, p4info: str, program: str, folder: str) -> None:
    """Send more frames at once than socket and queue have room for, and a few when these are empty again."""
    add_two_links()
    tbf = ["tbf", "rate", f"{RATE_BPS}bit", "burst", "3000", "limit", "10000000"]
    try:
        run("tc", "qdisc", "add", "dev", "s2", "root", *tbf)
    except subprocess.CalledProcessError as error:
        print(json.dumps({"no tbf": error.stderr.strip()}))
        return
    source, tap = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) for _ in range(2))
    source.bind(("e1", 0x88B5))
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    # Other than frames of one protocol, those of all protocols include the interface's outgoing frames.
    tap.bind(("s2", 0x0003))
    tap.setblocking(False)
    # The socket counts more than its bytes for each frame.
    burst = source.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // FRAME_BYTES + 2 * QUEUE_FRAMES
    log = Path(folder) / "switch.log"
    switch = Bmv2Process(
        Path(binary), Path(folder), "--no-p4", "-i", "1@s1", "-i", "2@s2", "--log-file", str(log)
    )

    def dropped() -> int:
        return log.with_name("switch.log.txt").read_text().count(FULL)

    with switch:
        switch.flood(Path(p4info), Path(program), [1, 2])
        capture = Capture("e2")
        for number in range(burst):
            source.send(frame(number))
        wait_until(lambda: len(capture.seen) + dropped() == burst, "each frame arrived or was dropped")
        first, drops = list(capture.seen), dropped()
        for number in range(burst, burst + LATER_FRAMES):
            source.send(frame(number))
        wait_until(lambda: len(capture.seen) + dropped() == burst + LATER_FRAMES, "the later frames arrived")
    arrived = capture.stop()
    tapped = 0
    try:
        while True:
            tapped += tap.recvfrom(2048)[1][2] == OUTGOING
    except BlockingIOError:
        pass
    found = {
        "sent": burst,
        "dropped": drops,
        "arrived": [number for _, number in first],
        "later": [number for _, number in arrived[len(first) :]],
        "took_s": (first[-1][0] - first[0][0]) / 1e9,
        "at_rate_s": (len(first) - 1) * FRAME_BYTES * 8 / RATE_BPS,
        "tapped": tapped,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
