# SPDX-License-Identifier: Apache-2.0
"""Run by `simple_switch_test.py` in a sandbox: the same commands on weir-switch, and on bmv2 if it is there.

Writes the output of `simple_switch_CLI` for each to `result.json` in the folder argv[1].
"""

from __future__ import annotations

import json
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

PROGRAM = Path(__file__).parents[3] / "softswitch" / "programs" / "mixture.json"
COMMANDS = Path(__file__).with_name("simple_switch_commands.txt")
_LIMIT_S = 60.0
_POLL_S = 0.05


def commands(text: str, *options: str) -> tuple[str, str, int]:
    """Output, messages on stderr and exit code of `simple_switch_CLI` that reads `text`."""
    program = [sys.executable, "-m", "weir.cli.simple_switch", "--thrift-port", str(THRIFT_PORT), *options]
    done = subprocess.run(program, input=text, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    return done.stdout, done.stderr, done.returncode


def on(name: str, command: Sequence[str], folder: Path) -> dict[str, tuple[str, str, int]]:
    """Start a switch and give it the commands."""
    process = LoggedProcess(name, list(command), folder / f"{name}.log")
    try:
        deadline = time.monotonic() + _LIMIT_S
        while commands("")[2] != 0:  # Kathará's labs wait for the switch in this way
            process.check_running()
            if time.monotonic() > deadline:
                raise process.error("does not answer simple_switch_CLI")
            time.sleep(_POLL_S)
        seen = {"commands": commands(COMMANDS.read_text())}
        if name != BMV2:  # which waits for a frame before it removes a port
            ports = "port_add d1 1\nport_add d1 2\nshow_ports\nport_remove 1\nshow_ports\n"
            seen["ports"] = commands(ports)
            seen["other_program"] = commands("", "--json", str(PROGRAM.with_name("ipv4_router.json")))
        return seen
    finally:
        process.stop(grace_s=5)


def main(_stop: StopToken) -> int:
    """Run the commands without a switch, on weir-switch, and on bmv2."""
    folder = Path(sys.argv[1])
    run_tool("ip", "link", "set", "lo", "up")
    run_tool("ip", "link", "add", "d1", "type", "veth", "peer", "name", "d2")
    for end in ("d1", "d2"):
        run_tool("ip", "link", "set", end, "up")
    result: dict[str, object] = {"no_switch": commands("help\n")}
    own = [str(find_own_program("weir-switch")), "--json", str(PROGRAM)]
    result["softswitch"] = on("weir-switch", [*own, "--thrift", f"127.0.0.1:{THRIFT_PORT}"], folder)
    if bmv2_problem() is None:
        bmv2 = [BMV2, "--log-level", "off", "--thrift-port", str(THRIFT_PORT), str(PROGRAM)]
        result["bmv2"] = on(BMV2, bmv2, folder)
    (folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
