# SPDX-License-Identifier: Apache-2.0
"""Run by `bfruntime_run_test.py` in a sandbox: `weir run --testbed` on a switch that is called a Tofino.

    server1, server2, client, collector ══ weir-switch ◄── P4Runtime ── ForwardingServer ◄── BfRuntime ── weir
                                                       ◄── P4Runtime ──────────────────────────────────── weir

Usage in the sandbox: `python -m weir_tests.cli.bfruntime_scenario FOLDER`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from weir.topo.linux import NETNS_FOLDER
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir_tests.cli.testbed_scenario import ADDRESS, DEVICE, Rack, settled

PORT = 50052  # that of an address without one
EXPERIMENT = """\
name: {name}
hosts: {{client: {{}}, server1: {{}}, server2: {{}}}}
flows:
  - {{name: one, from: server1, to: client, congestion_control: bbr, duration: {seconds} s, measured: true}}
  - {{name: two, from: server2, to: client, congestion_control: cubic, duration: {seconds} s, measured: true}}
policers:
  - {{name: common, rate: 10 Mbit/s, burst: 25 kB, match: [{{from: [server1, server2], to: client}}]}}
"""


class Server:
    """A process with the server; it ends when its standard input is closed."""

    def __init__(self, module: str, *words: str) -> None:
        """Start it, and wait until it serves."""
        command = [sys.executable, "-m", module, *words]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), f"{module} ended"

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.communicate()


def forwarding() -> Server:
    """The server with a dataplane."""
    return Server("weir_tests.cli.forwarding_bf_server", str(PORT), ADDRESS, str(DEVICE))


def words_of(rack: Rack, name: str, seconds: int) -> list[str]:
    """The words of `weir run` for the experiment."""
    path = rack.folder / f"{name}.yaml"
    path.write_text(EXPERIMENT.format(name=name, seconds=seconds))
    return rack.words(path, name)


def main(stop: StopToken) -> int:
    """Run the scenarios."""
    folder, found = Path(sys.argv[1]), dict[str, Any]()
    NETNS_FOLDER.mkdir(exist_ok=True)
    with Rack(folder, stop) as rack:
        rack.switch_entry = {"target": "tofino", "address": "bfruntime://127.0.0.1"}
        before = rack.state()
        server = forwarding()
        for name in ("first", "second"):
            found[name] = rack.finish(rack.start(words_of(rack, name, 5)), name)
        running = rack.start(words_of(rack, "lost", 30))
        rack.wait_flows()
        server.kill()
        found["lost"] = rack.finish(running, "lost")
        found["same"] = settled(rack, before)
        rack.switch_entry = {"target": "tofino", "address": ADDRESS, "device_id": DEVICE}
        found["p4runtime"] = rack.finish(rack.start(words_of(rack, "p4runtime", 5)), "p4runtime")
        rack.switch_entry = {"target": "tofino", "address": "bfruntime://127.0.0.1"}
        found["away"] = rack.finish(rack.start(words_of(rack, "away", 2)), "away")
        server = Server("weir_tests.controlplane.bfruntime_server", "none", str(PORT))
        found["none"] = rack.finish(rack.start(words_of(rack, "none", 2)), "none")
        server.kill()
        found["same_after_refusals"] = settled(rack, before)
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
