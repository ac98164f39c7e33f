# SPDX-License-Identifier: Apache-2.0
"""Run by `simple_switch_test.py` in a sandbox: the same commands on weir-switch, and on bmv2 if it is there.

Writes the output of `simple_switch_CLI` for each to `result.json` in the folder argv[1].
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from weir.topo.bmv2proc import BMV2, THRIFT_PORT, bmv2_problem
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import find_own_program

FRAMES = 5
RATE_PPS = 20
PROGRAM = Path(__file__).parents[3] / "softswitch" / "programs" / "mixture.json"
ROUTER = PROGRAM.with_name("ipv4_router.json")
COMMANDS = Path(__file__).with_name("simple_switch_commands.txt")
_LIMIT_S = 60.0
_POLL_S = 0.05


def commands(text: str, *options: str) -> tuple[str, str, int]:
    """Output, messages on stderr and exit code of `simple_switch_CLI` that reads `text`."""
    program = [sys.executable, "-m", "weir.cli.simple_switch", "--thrift-port", str(THRIFT_PORT), *options]
    done = subprocess.run(program, input=text, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    return done.stdout, done.stderr, done.returncode


def started(name: str, command: Sequence[str], folder: Path) -> LoggedProcess:
    """A switch that answers, as Kathará's labs wait for it."""
    process = LoggedProcess(name, list(command), folder / f"{name}.log")
    deadline = time.monotonic() + _LIMIT_S
    while commands("")[2] != 0:
        process.check_running()
        if time.monotonic() > deadline:
            raise process.error("does not answer simple_switch_CLI")
        time.sleep(_POLL_S)
    return process


def on(name: str, command: Sequence[str], folder: Path) -> dict[str, tuple[str, str, int]]:
    """Start a switch with the program and give it the commands."""
    process = started(name, command, folder)
    try:
        seen = {"commands": commands(COMMANDS.read_text())}
        seen["same_program"] = commands("", "--json", str(PROGRAM))
        if name != BMV2:  # which waits for a frame before it removes a port
            ports = "port_add d1 1\nport_add d1 2\nshow_ports\nport_remove 1\nshow_ports\n"
            seen["ports"] = commands(ports)
            seen["other_program"] = commands("", "--json", str(ROUTER))
        return seen
    finally:
        process.stop(grace_s=5)


STEER = f"""\
table_add route set_next_hop 10.2.0.0/16 => 7
table_add next_hop rewrite 7 => 2 02:00:00:00:00:02 02:00:00:00:00:04
set_queue_rate {RATE_PPS} 2
"""


def routed(name: str, command: Sequence[str], folder: Path) -> dict[str, object]:
    """Start a router, steer it with commands and send it packets; what leaves and within which time."""
    packet = bytes.fromhex("45000014000000004011000000000000") + bytes([10, 2, 0, 1])
    packet = packet[:10] + _checksum(packet).to_bytes(2) + packet[12:]
    frame = bytes.fromhex("020000000001 020000000003 0800") + packet + bytes(26)
    process = started(name, command, folder)
    try:
        said = commands(STEER)
        with _raw("d4") as receiver, _raw("d2") as sender:
            receiver.settimeout(_LIMIT_S)
            for _ in range(FRAMES):
                sender.send(frame)
            arrived: list[tuple[float, str]] = []
            while len(arrived) < FRAMES:
                received, address = receiver.recvfrom(2048)
                if address[2] != socket.PACKET_OUTGOING:
                    arrived.append((time.monotonic(), received.hex()))
        return {
            "said": said,
            "frames": sorted({received for _, received in arrived}),
            "seconds": arrived[-1][0] - arrived[0][0],
        }
    finally:
        process.stop(grace_s=5)


def _raw(interface: str) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    raw.bind((interface, 0x0800))
    return raw


def _checksum(header: bytes) -> int:
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, len(header), 2))
    return ~(total % 0xFFFF) & 0xFFFF


def main(_stop: StopToken) -> int:
    """Run the commands without a switch, on weir-switch, and on bmv2."""
    folder = Path(sys.argv[1])
    run_tool("ip", "link", "set", "lo", "up")
    for one, other in (("d1", "d2"), ("d3", "d4")):
        run_tool("ip", "link", "add", one, "type", "veth", "peer", "name", other)
        for end in (one, other):
            run_tool("ip", "link", "set", end, "up")
    result: dict[str, object] = {"no_switch": commands("help\n")}
    own = [str(find_own_program("weir-switch")), "--thrift", f"127.0.0.1:{THRIFT_PORT}"]
    result["softswitch"] = on("weir-switch", [*own, "--json", str(PROGRAM)], folder)
    ports = ["--port", "1=d1", "--port", "2=d3"]
    result["router"] = routed("weir-switch-router", [*own, "--json", str(ROUTER), *ports], folder)
    if bmv2_problem() is None:
        bmv2 = [BMV2, "--log-level", "off", "--thrift-port", str(THRIFT_PORT)]
        result["bmv2"] = on(BMV2, [*bmv2, str(PROGRAM)], folder)
        ports = ["-i", "1@d1", "-i", "2@d3"]
        result["bmv2_router"] = routed(f"{BMV2}-router", [*bmv2, *ports, str(ROUTER)], folder)
    (folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
