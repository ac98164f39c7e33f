# SPDX-License-Identifier: Apache-2.0
"""Links, a software switch, PTF: in a sandbox, or without one where there are no links."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from weir.controlplane.errors import ControlPlaneError
from weir.ptftests.run_ptf import run_ptf
from weir.ptftests.switch import STARTERS
from weir.topo.process import ProcessError
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import ToolMissingError


def main(stop: StopToken) -> int:
    """Run the tests; 0 when none failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=STARTERS)
    parser.add_argument("p4info", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("logs", type=Path)
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    try:
        with STARTERS[given.target](given.p4info, given.program, given.logs, stop) as config:
            return run_ptf(config, given.tests, given.logs, stop)
    except (ProcessError, ToolMissingError, ControlPlaneError) as error:
        print(f"ptf: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    inside(main)
