# SPDX-License-Identifier: Apache-2.0
"""Executors make the runs of a campaign: as processes of this machine (`local`) or by workers of a cluster.

Both start each run as a separate process, with a command that the caller provides.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from weir.campaign.load import PlannedRun
from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import read_manifest

LOG = "run.log"
BUSY_SHARE = 0.15
"""Share of a machine's processor time in other use above which runs are likely to exceed their limits."""
CAMPAIGN_VARIABLE = "WEIR_CAMPAIGN_FD"
"""Names the file descriptor of a run's socket to its campaign.

The run shuts down its sending side once other traffic no longer disturbs it.
A byte then says that no run measures.
"""

Command = Callable[[Path], Sequence[str]]
"""Command line of the process that makes the run of a prepared directory (`weir.runner.prepare`)."""


class Execution(Protocol):
    """A run that an executor has started."""

    @property
    def fd(self) -> int:
        """Becomes readable once the run has ended."""

    def is_measuring(self) -> bool:
        """Whether the run may still have traffic."""

    def finish(self) -> str | None:
        """Collect the run's files in its directory, once it has ended; the reason of its failure, or None."""

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the run: SIGTERM stops it cleanly, SIGKILL at once."""


class Executor(Protocol):
    """Makes runs, several at a time."""

    writes_here: bool
    """Whether runs write to the campaign's own disk, not to that of a worker."""

    @property
    def jobs(self) -> int:
        """The number of runs at a time."""

    def is_free(self) -> bool:
        """Whether another run can be started; raises CampaignError when none ever can."""

    def start(self, run: PlannedRun, partial: Path) -> Execution:
        """Start a run in its prepared directory, which holds config and manifest."""

    def tick(self) -> None:
        """Called about twice a second, for periodic work such as heartbeats."""


def start_process(
    command: Sequence[str], run_dir: Path, campaign: int | None = None
) -> subprocess.Popen[bytes]:
    """Start the process of a run; its output goes to a log in the run's directory.

    The process inherits the descriptor `campaign`; `CAMPAIGN_VARIABLE` tells it the number.
    """
    environment = dict(os.environ)
    if campaign is not None:
        environment[CAMPAIGN_VARIABLE] = str(campaign)
    logs = RunDirectory(run_dir).logs
    logs.mkdir(exist_ok=True)
    with (logs / LOG).open("wb") as log:
        # A separate session: Ctrl-C in the terminal reaches only the campaign, which forwards it.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if campaign is None else (campaign,),
            env=environment,
        )


def why_failed(code: int, run_dir: Path) -> str | None:
    """The reason why a run's process failed; None for exit code 0.

    It is the error that the manifest records, else the exit code and the last log line.
    """
    if code == 0:
        return None
    try:
        recorded = read_manifest(run_dir).error
    except (OSError, RunFileError):
        recorded = None
    if recorded:
        return recorded
    how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
    return f"{how}; {_last_line(run_dir / 'logs' / LOG)}"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
    return f"it said: {lines[-1][:200]}" if lines else "it said nothing"
