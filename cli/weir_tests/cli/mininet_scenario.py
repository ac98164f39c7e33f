# SPDX-License-Identifier: Apache-2.0
"""Run by `mininet_test.py` as root in a sandbox: the example of a testbed in Mininet, and a run on it.

Usage in the sandbox: `python -m weir_tests.cli.mininet_scenario FOLDER`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from weir.testbed import hosts
from weir.topo.process import LoggedProcess
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import find_own_program, search_path

EXAMPLE = Path(hosts.__file__).parents[2] / "examples" / "mininet_testbed.py"
EXPERIMENT = """\
name: mininet
hosts: {client: {delay: 5 ms}, server1: {delay: 5 ms}, server2: {}}
flows:
  - {name: one, from: server1, to: client, congestion_control: cubic, duration: 5 s, measured: true}
  - {name: two, from: server2, to: client, congestion_control: cubic, duration: 5 s, measured: true}
policers:
  - {name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{from: [server1, server2], to: client}]}
"""
_READY_S = 60.0


def main(stop: StopToken) -> int:
    """Start the network, run, end it."""
    folder = Path(sys.argv[1])
    os.chdir(folder)
    os.environ["PATH"] = f"{find_own_program('weir-switch').parent}:{search_path()}"
    Path("experiment.yaml").write_text(EXPERIMENT)
    network = LoggedProcess(
        "Mininet", ["/usr/bin/python3", str(EXAMPLE), "weir-switch"], folder / "mininet.log"
    )
    try:
        network.wait_line("testbed.yaml is written", _READY_S, stop)
        weir = str(Path(sys.executable).with_name("weir"))
        done = subprocess.run(
            [weir, "run", "experiment.yaml", "--testbed", "testbed.yaml", "--json"],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    finally:
        network.stop(grace_s=30.0)
    found = {"code": done.returncode, "stderr": done.stderr, "stdout": done.stdout}
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
