# SPDX-License-Identifier: Apache-2.0
"""The sandbox's program for callers other than the terminal: steps are lines of JSON on stdout.

Errors are in the manifest only; the caller reads them there. `WEIR_DEBUG=1` shows their traceback.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weir.runner.execute import run_inside
from weir.runner.progress import LineProgress
from weir.topo.sandbox import inside
from weir.topo.stop import Interrupted, StopToken


def main(stop: StopToken) -> int:
    """Run the experiment of the run directory named on the command line."""
    try:
        run_inside(Path(sys.argv[1]), stop, LineProgress(sys.stdout))
    except Interrupted:
        return 130
    except Exception:
        if os.environ.get("WEIR_DEBUG", "") not in ("", "0"):
            raise
        return 1
    return 0


if __name__ == "__main__":
    inside(main)
