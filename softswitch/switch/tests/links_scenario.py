# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox: two hosts and a plain wire between them, whose links and interfaces change.

    h1 (10.0.0.1) e1 ─── s1 [a: weir-switch wire: b] s2 ─── e2 (10.0.0.2) h2

Started by links_test.py as `unshare … python links_scenario.py SWITCH STATS PROGRAM`; prints what it measured
as one line of JSON.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from switch_process import SwitchProcess
from wire_scenario import ECHO, ask, build_links, run


def links(binary: str, *arguments: str) -> tuple[int, str]:
    """Run `weir-switch links`; return its exit code and what it said."""
    ended = subprocess.run([binary, "links", *arguments], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def recreate_second_link() -> None:
    """Delete the interface of port 2 with its other end, and make both anew under the same names."""
    run("ip", "link", "delete", "s2")
    run("ip", "link", "add", "s2", "type", "veth", "peer", "name", "e2", "netns", "h2")
    run("ip", "link", "set", "s2", "up")
    run("ip", "-n", "h2", "addr", "add", "10.0.0.2/24", "dev", "e2")
    run("ip", "-n", "h2", "link", "set", "e2", "up")
    run("ip", "-n", "h1", "neigh", "flush", "dev", "e1")


def wire(binary: str, stats_file: str) -> dict[str, Any]:
    """Ask through the wire while its delay, then its interfaces change."""
    result: dict[str, Any] = {}
    pair = ["--pair", "a=s1,b=s2,delay=10ms", "--stats", stats_file]
    with SwitchProcess(Path(binary), *pair, wire=True) as process:
        at = ["--at", process.address]
        result["delayed"] = ask()
        result["set"] = links(binary, "set", *at, "2", "delay=30ms,packets=100")
        result["slower"] = ask()
        recreate_second_link()
        result["recreated"] = ask(patience_s=0.5)
        result["get"] = links(binary, "get", *at)
        result["refused"] = links(binary, "set", *at, "7", "delay=1ms")
        result["add"] = links(binary, "add", *at, "3=lo")
    return result


def switch(binary: str, program: str) -> dict[str, Any]:
    """Add a port to a running switch and remove it."""
    run("ip", "link", "add", "s3", "type", "veth", "peer", "name", "e3")
    with SwitchProcess(Path(binary), "--port", "1=s1", "--json", program) as process:
        at = ["--at", process.address]
        return {
            "add": links(binary, "add", *at, "3=s3,rate=1Mbit/s"),
            "again": links(binary, "add", *at, "3=e3"),
            "missing": links(binary, "add", *at, "4=nothing"),
            "get": links(binary, "get", *at),
            "remove": links(binary, "remove", *at, "3"),
            "after": links(binary, "get", *at),
        }


def main(binary: str, stats_file: str, program: str) -> None:
    """Measure a wire, then a switch."""
    build_links()
    echo = subprocess.Popen(
        ["ip", "netns", "exec", "h2", sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True
    )
    assert echo.stdout is not None
    assert echo.stdout.readline() == "ready\n"
    result = {"wire": wire(binary, stats_file), "switch": switch(binary, program)}
    echo.kill()
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
