# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: a switch whose ports receive through AF_XDP, as several users, is ended and killed.

    e1 ─── s1 [port 1: weir-switch: port 2] s2 ─── e2

Started by xdp_test.py as `unshare … python xdp_scenario.py SWITCH`; prints its observations as one line of
JSON.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from scenario_links import add_two_links, run
from scenarios import wait_until
from switch_process import SwitchProcess

PORTS = ("--port=1=s1,receive=xdp", "--port=2=s2,receive=xdp")
NEEDED = "bpf,net_admin,net_raw,ipc_lock"


def attached() -> list[str]:
    """The interfaces with an XDP program, with its mode and name."""
    shown: list[dict[str, Any]] = json.loads(run("ip", "-details", "-json", "link", "show"))
    return [
        f"{link['ifname']} {link['xdp']['mode']} {link['xdp']['prog']['name']}"
        for link in shown
        if link.get("xdp", {}).get("mode")
    ]


def as_user(binary: str, capabilities: str) -> list[str]:
    """The command that runs the switch as an ordinary user who has some capabilities."""
    each = ",".join(f"+{name}" for name in capabilities.split(",") if name)
    sets = [f"--{kind}-caps=-all{',' if each else ''}{each}" for kind in ("inh", "ambient")]
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *sets, binary]


def readable_copy(binary: str) -> str:
    """A copy of a program where every user can start it."""
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/mnt")
    return shutil.copy(binary, "/mnt")


def refusal(command: list[str]) -> str:
    """What a switch says that cannot open its ports."""
    ended = subprocess.run([*command, *PORTS], capture_output=True, text=True, timeout=60)
    return f"{ended.returncode} {ended.stderr}"


def main(binary: str) -> None:
    """Start the switch in several ways and look at what is attached."""
    result: dict[str, Any] = {}
    add_two_links()
    with SwitchProcess(Path(binary), *PORTS) as switch:
        result["running"] = attached()
        result["held"] = [
            status.read_text().split("CapBnd:")[1].split()[0]
            for status in Path(f"/proc/{switch.pid}/task").glob("*/status")
        ]
        result["second"] = refusal([binary])
    result["ended"] = attached()
    killed = subprocess.Popen([binary, "--p4runtime=127.0.0.1:0", *PORTS], stdout=subprocess.PIPE, text=True)
    assert killed.stdout is not None
    assert "2 ports" in killed.stdout.readline()
    result["before"] = attached()
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    wait_until(lambda: not attached(), "the kernel has detached the programs")
    binary = readable_copy(binary)
    result["without privileges"] = refusal(as_user(binary, ""))
    result["without bpf"] = refusal(as_user(binary, NEEDED.removeprefix("bpf,")))
    pinned_little = ["prlimit", "--memlock=65536", *as_user(binary, NEEDED.removesuffix(",ipc_lock"))]
    result["without memory"] = refusal(pinned_little)
    command = [*as_user(binary, NEEDED), "--p4runtime=127.0.0.1:0", *PORTS]
    allowed = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert allowed.stdout is not None
    assert "2 ports" in allowed.stdout.readline()
    result["with capabilities"] = attached()
    os.kill(allowed.pid, signal.SIGTERM)
    result["exit code"] = allowed.wait()
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
