# SPDX-License-Identifier: Apache-2.0
"""Runs inside a sandbox, as its root: what each thread of a switch may do.

Started by privileges_test.py as `unshare … python privileges_scenario.py SWITCH FOLDER`; prints its
observations as one line of JSON.
"""

import json
import sys
from pathlib import Path

from bmv2_process import Bmv2Process
from scenario_links import add_two_links
from scenarios import wait_until
from switch_process import SwitchProcess

SEND_THREADS = ("--send-threads", "2")


def threads(pid: int, *names: str) -> list[dict[str, str]]:
    """The lines of /proc/PID/task/*/status of each thread of a process, once it has those of these names."""
    found: list[dict[str, str]] = []

    def complete() -> bool:
        statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
        found[:] = [dict(line.split(":\t", 1) for line in text.splitlines()) for text in statuses]
        return {thread["Name"] for thread in found} >= set(names)

    # A thread gives itself its name after it has begun.
    wait_until(complete, f"the process had threads called {', '.join(names)}")
    return found


def main(binary: str, folder: str) -> None:
    """Start a switch in each of its roles."""
    add_two_links()
    result = {}
    stats = ("--stats", str(Path(folder) / "stats.json"))
    ports = ("--port", "1=s1", "--port", "2=s2")
    with SwitchProcess(Path(binary), *ports, *SEND_THREADS, *stats) as switch:
        result["`weir-switch`"] = threads(switch.pid, "send-0", "send-1", "stderr")
    with SwitchProcess(Path(binary), "--pair", "a=s1,b=s2", *SEND_THREADS, *stats, wire=True) as wire:
        result["`weir-switch wire`"] = threads(wire.pid, "send-0", "send-1", "stderr")
    with Bmv2Process(Path(binary), Path(folder), "-i", "1@s1", "--no-p4", "--log-console") as bmv2:
        result["`weir-switch` under bmv2's name"] = threads(bmv2.pid, "log", "stderr")
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
