# SPDX-License-Identifier: Apache-2.0
"""The program that `weir run` starts in the sandbox: runs the experiment, shows progress and errors."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from weir.cli.failures import report_error
from weir.cli.run import PICTURE
from weir.cli.terminal.progress import RunProgress
from weir.runner.execute import run_inside
from weir.topo.sandbox import inside
from weir.topo.stop import Interrupted, StopToken


def main(stop: StopToken) -> int:
    """Run the experiment of the run directory named on the command line; with PICTURE, draw it live."""
    run_dir, options = Path(sys.argv[1]), sys.argv[2:]
    console = Console(stderr=True)
    try:
        if PICTURE in options:
            from weir.cli.terminal.live import RunPicture

            with RunPicture(console, stop) as picture:
                run_inside(run_dir, stop, picture, picture.watch)
        else:
            run_inside(run_dir, stop, RunProgress(console))
    except Interrupted:
        raise
    except Exception as error:
        return report_error(error)
    return 0


if __name__ == "__main__":
    inside(main)
