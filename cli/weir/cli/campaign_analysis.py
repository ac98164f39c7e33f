# SPDX-License-Identifier: Apache-2.0
"""The analysis of a campaign's run while other runs may measure.

It is a process of its own, `python -m weir.cli.campaign_analysis RUN_DIR PARENT_PID`, which has the lowest
priority. It gets hardly any time where other programs want all processors, and only root may raise a priority
that was lowered. So, when no run measures any more and the process has been kept waiting, it is killed, and
the analysis starts anew at the usual priority.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from weir.cli.failures import report_error
from weir.rundir.outputs import print_any_character
from weir.topo.linux import die_with_parent, processor_time_s, take_spare_time_only

WATCHED_S = 1.0
"""How long the process's share of a processor is measured."""
SHARE = 0.5
"""A process that gets less than this share of a processor has been kept waiting."""


def analyse_in_spare_time(run_dir: Path, campaign: socket.socket) -> int:
    """Make results and report of a run at the lowest priority; returns the exit code.

    A byte from the campaign says that no run measures.
    """
    command = [sys.executable, "-m", "weir.cli.campaign_analysis", str(run_dir), str(os.getpid())]
    # With a session of its own: the priority is that of a session too.
    process = subprocess.Popen(command, start_new_session=True)
    process_fd = os.pidfd_open(process.pid)
    try:
        readable, _, _ = select.select([process_fd, campaign.fileno()], [], [])
        while process_fd not in readable:
            had_s, since = processor_time_s(process.pid), time.monotonic()
            readable, _, _ = select.select([process_fd], [], [], WATCHED_S)
            share = (processor_time_s(process.pid) - had_s) / (time.monotonic() - since)
            if process_fd not in readable and share < SHARE:
                process.kill()
                process.wait()
                Console(stderr=True).print("  analysing anew: others took the processors")
                return _analyse(run_dir)
    finally:
        os.close(process_fd)
    code = process.wait()
    if code < 0:
        print(f"weir: the analysis was killed by {signal.Signals(-code).name}", file=sys.stderr)
        return 1
    return code


def _analyse(run_dir: Path) -> int:
    # Imported here: the import takes seconds, which belong to the analysis.
    from weir.cli.report import report_run

    return report_run(run_dir, as_json=False, console=Console())


def main() -> int:
    """Analyse a run while nothing else needs the processor; returns the exit code, as `weir report` does."""
    print_any_character()
    run_dir, parent = Path(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    take_spare_time_only()
    try:
        return _analyse(run_dir)
    except Exception as error:
        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
