# SPDX-License-Identifier: Apache-2.0
"""The process of one run of a campaign: `python -m weir.cli.campaign_run RUN_DIR PARENT_PID`.

The directory is already prepared. The process exits when its campaign does, even if that is killed; then the
sandbox exits too, and keeps its lock on the directory until then. The environment may name a socket to the
campaign. Its sending side is shut down after the traffic of a run in real time so that the next run starts;
the analysis then takes only time that nothing else needs.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import partial
from pathlib import Path

from weir.campaign.executors.executor import CAMPAIGN_VARIABLE
from weir.cli.campaign_analysis import analyse_in_spare_time
from weir.cli.errors import EXIT_INTERRUPTED
from weir.cli.failures import report_error
from weir.cli.run import analyse_run, make_run
from weir.cli.signals import stopped_by_sigterm
from weir.rundir.directory import hold
from weir.rundir.outputs import print_any_character
from weir.runner.ended import end_recorded
from weir.runner.outer import is_virtual
from weir.topo.linux import die_with_parent


def command(run_dir: Path) -> list[str]:
    """The command that makes the run of a prepared directory, for an executor."""
    return [sys.executable, "-m", "weir.cli.campaign_run", str(run_dir), str(os.getpid())]


def main() -> int:
    """Run the experiment and analyse it; returns the exit code, as `weir run` does."""
    print_any_character()
    run_dir, parent = Path(sys.argv[1]), int(sys.argv[2])
    campaign = os.environ.pop(CAMPAIGN_VARIABLE, None)
    hold(run_dir)
    die_with_parent(parent)
    try:
        with stopped_by_sigterm(), end_recorded(run_dir):
            code = make_run(run_dir)
        if code != 0:
            return code
        # In virtual time the next run waits for the analysis too: it disturbs nothing, but takes memory.
        if campaign is not None and not is_virtual(run_dir):
            with socket.socket(fileno=int(campaign)) as measuring:
                measuring.shutdown(socket.SHUT_WR)
                return analyse_run(run_dir, partial(analyse_in_spare_time, campaign=measuring))
        return analyse_run(run_dir)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
