# SPDX-License-Identifier: Apache-2.0
"""The program that `weir doctor` runs in a sandbox: tries the kernel features that a run needs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import find_tool

ETH_P_ALL = 0x0003


def make_veth() -> str:
    """Create a veth pair, which exists as long as the sandbox."""
    argv = [find_tool("ip"), "link", "add", "weirp0", "type", "veth", "peer", "name", "weirp1"]
    made = subprocess.run(argv, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise OSError(made.returncode, made.stderr.strip() or "ip link add failed")
    return "made"


def open_packet_socket() -> str:
    """Open a packet socket on the veth pair, as the switch does on its ports."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as opened:
        opened.bind(("weirp0", 0))
    return "opened"


def use_congestion_control(name: str) -> str:
    """Set the congestion control of a TCP socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    return "usable"


def attempt(action: Callable[[], str]) -> dict[str, object]:
    """Run an action; returns its result, or why it failed."""
    try:
        return {"ok": True, "found": action()}
    except OSError as error:
        return {"ok": False, "found": error.strerror or str(error)}


def main(_stop: StopToken) -> int:
    """Write the results as JSON to the file argv[1]; further arguments are congestion controls."""
    results = {"veth": attempt(make_veth), "AF_PACKET": attempt(open_packet_socket)}
    for name in sys.argv[2:]:
        results[name] = attempt(lambda name=name: use_congestion_control(name))  # type: ignore[misc]
    Path(sys.argv[1]).write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    inside(main)
