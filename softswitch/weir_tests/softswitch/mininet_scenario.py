# SPDX-License-Identifier: Apache-2.0
"""Run by `softswitch/labs/labs_test.py` as root in a sandbox: a network of Mininet, and its pings.

Usage in the sandbox: `python -m weir_tests.softswitch.mininet_scenario FOLDER PROGRAM ARGUMENT…`.
Writes FOLDER/result.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import search_path


def main(_stop: StopToken) -> int:
    """Run the program to its end, with what `weir bmv2 install` has put into FOLDER/bin on its PATH."""
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{search_path()}"},
        cwd=folder,
        timeout=240,
        check=False,
    )
    found = {"code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
