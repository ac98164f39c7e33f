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
from weir.topo.tools import ToolMissingError, find_own_program, find_tool

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


def confine_switch() -> str:
    """Start the switch without ports, and read what it says of its privileges."""
    argv = [str(find_own_program("weir-switch")), "--p4runtime", "127.0.0.1:0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as switch:
        assert switch.stdout is not None
        found = next((line for line in switch.stdout if "system calls" in line), "")
        switch.terminate()
    if not found:
        raise OSError("the switch does not start")
    return found.removeprefix("weir-switch: ").strip()


def attempt(action: Callable[[], str]) -> dict[str, object]:
    """Run an action; returns its result, or why it failed."""
    try:
        return {"ok": True, "found": action()}
    except (OSError, ToolMissingError) as error:
        return {"ok": False, "found": getattr(error, "strerror", None) or str(error)}


def main(_stop: StopToken) -> int:
    """Write the results as JSON to the file argv[1]; further arguments are congestion controls."""
    results = {
        "veth": attempt(make_veth),
        "AF_PACKET": attempt(open_packet_socket),
        "privileges": attempt(confine_switch),
    }
    for name in sys.argv[2:]:
        results[name] = attempt(lambda name=name: use_congestion_control(name))  # type: ignore[misc]
    Path(sys.argv[1]).write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    inside(main)
