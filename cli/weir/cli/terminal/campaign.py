# SPDX-License-Identifier: Apache-2.0
"""Shows a running campaign on the terminal: a line per run with its result, and a bar with the time left."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from weir.campaign.estimate import Estimate, duration_text
from weir.campaign.load import Campaign, PlannedRun
from weir.campaign.outcome import Outcome, read_outcome, summary_line
from weir.cli.terminal.progress import TerminalBar


class LiveView(TerminalBar):
    """Shows the events of a runner; on a terminal with a bar unless `plain`, elsewhere as plain lines."""

    def __init__(
        self,
        campaign: Campaign,
        done: Mapping[str, Path],
        jobs: int,
        estimate: Estimate,
        console: Console,
        *,
        plain: bool = False,
    ) -> None:
        """Show on `console`; `done` are the runs that were complete before."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        super().__init__(console, Progress(*columns, console=console, transient=True), shown=not plain)
        self._campaign, self._jobs, self._estimate = campaign, jobs, estimate
        self._left = {run.key: run for run in campaign.runs if run.key not in done}
        self._started_at: dict[str, float] = {}
        self._complete = len(done)
        self._task = self._progress.add_task(
            campaign.name, total=len(campaign.runs), completed=self._complete, left=""
        )

    def run_started(self, run: PlannedRun) -> None:
        """Count the run as running."""
        self._started_at[run.key] = time.monotonic()
        self.tick()

    def run_finished(self, run: PlannedRun, path: Path, wall_s: float) -> None:
        """Show the run's result."""
        self._estimate.learn(run, wall_s)
        self._started_at.pop(run.key, None)
        self._left.pop(run.key, None)
        self._complete += 1
        outcome = read_outcome(path, self._campaign.limits)
        self._line(run, summary_line(outcome), "" if _sound(outcome) else "yellow")
        self.tick()

    def run_failed(self, run: PlannedRun, path: Path, error: str, again: bool) -> None:
        """Show why the run failed, and where its logs are."""
        self._started_at.pop(run.key, None)
        if not again:
            self._left.pop(run.key, None)
        what = "will be retried" if again else "will not be retried"
        self._line(run, f"FAILED and {what}: {error}; its logs are in {path}", "red")

    def stopping(self) -> None:
        """Show that the campaign is stopping."""
        self._left.clear()
        self._console.print(
            "weir: stopping; press Ctrl-C again to kill, the same command resumes", style="yellow"
        )

    def tick(self) -> None:
        """Update the bar and the time left."""
        now = time.monotonic()
        running = {key: now - started_at for key, started_at in self._started_at.items()}
        left_s = self._estimate.seconds(list(self._left.values()), running, self._jobs)
        shown = f"{duration_text(left_s)} left" if self._left else ""
        self._progress.update(self._task, completed=self._complete, left=shown)

    def _line(self, run: PlannedRun, what: str, style: str) -> None:
        name = " ".join([*run.cell.values(), f"#{run.repeat + 1}"])
        count = f"[{self._complete}/{len(self._campaign.runs)}]"
        self._console.print(
            f"{escape(count)} {escape(name)}: {escape(what)}", style=style, highlight=False, soft_wrap=True
        )


def _sound(outcome: Outcome) -> bool:
    return outcome.valid and not outcome.unexplained
