# SPDX-License-Identifier: Apache-2.0
"""Run by `softswitch/labs/labs_test.py` in a sandbox: one of the labs, and pings through it.

Usage in the sandbox: `python -m weir_tests.softswitch.labs_scenario FOLDER kathara|containerlab`.
Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import search_path
from weir_tests.softswitch.nodes import Nodes, containerlab, kathara

LABS = Path(__file__).resolve().parents[2] / "labs"
FILES = (LABS.parent / "programs" / "ipv4_router.json", LABS / "commands.txt")
PING = ("ping", "-c", "3", "-i", "0.2", "-W", "10")


def main(_stop: StopToken) -> int:
    """Copy the lab as its README says, start it, ping."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    # The names that `weir bmv2 install` has put there.
    os.environ["PATH"] = f"{folder / 'bin'}:{search_path()}"
    lab_folder = folder / name
    shutil.copytree(LABS / name, lab_folder)
    srv = lab_folder / "s1" / ("srv" if name == "kathara" else "")
    srv.mkdir(parents=True)
    for file in FILES:
        shutil.copy(file, srv)
    lab = kathara(lab_folder) if name == "kathara" else containerlab(lab_folder / "router.clab.yml")
    nodes = Nodes(lab)
    found = {
        "said": nodes.said,
        "pings": nodes.run("h1", *PING, "10.0.2.2") + nodes.run("h2", *PING, "10.0.1.1"),
    }
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
