# SPDX-License-Identifier: Apache-2.0
"""`weir run`: runs one experiment and analyses it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.text import Text

from weir.cli import options
from weir.cli.errors import EXIT_DISK, InputError
from weir.cli.signals import stopped_by_sigterm

if TYPE_CHECKING:
    from weir.runner.prepare import TimeChoice

PICTURE = "--picture"
"""The option of `weir.cli.sandboxed_run` that draws the run."""
_ENDS = {"failed": "failed", "interrupted": "was stopped before its end"}


def run(
    config: options.Experiment,
    runs: options.Runs = Path("runs"),
    plain: options.Plain = False,
    time: options.TimeOption = None,
    kernel: options.KernelOption = None,
    memory: options.Memory = None,
    testbed: options.TestbedOption = None,
    as_json: options.AsJson = False,
) -> int:
    """Run an experiment: hosts, switch, traffic, captures, and the analysis of it all.

    Needs no root. Writes RUNS/<name>/<run-id>/ with config, captures, telemetry, result.json and report.html;
    RUNS/<name>/latest points to it. Ctrl-C stops cleanly; the manifest then says that the run did not finish.

    With --testbed, the hosts are machines that weir reaches over SSH, and the switch is one that runs already
    (docs/testbed.md). Everything that the run changes there is put back.

    `weir run demo` runs a shipped experiment and leaves its file there, to start your own from; `weir schema`
    describes every key.
    """
    from weir.runner.prepare import MEMORY_MB, TimeChoice

    if time == "real" and (kernel or memory):
        raise InputError("--kernel and --memory are of a run in virtual time; valid: --time virtual")
    virtual: Literal["virtual"] | None = "virtual" if kernel or memory else None
    choice = TimeChoice(time or virtual, kernel, memory or MEMORY_MB)
    return run_command(config, runs, plain=plain, as_json=as_json, choice=choice, testbed=testbed)


def run_command(
    config: Path,
    runs: Path,
    *,
    plain: bool = False,
    as_json: bool = False,
    choice: TimeChoice | None = None,
    testbed: Path | None = None,
) -> int:
    """Run an experiment and analyse it; returns the exit code (0, 1, or 130 after Ctrl-C).

    Raises what `new_run`, `run_in_sandbox` and `report_run` raise.
    """
    from weir.runner.prepare import OnTestbed, new_run

    place = None if testbed is None else OnTestbed.read(testbed)
    with stopped_by_sigterm(), new_run(config, runs, choice, place) as (experiment, run_dir):
        # Text, not markup, as a path may contain brackets.
        Console(stderr=True).print(Text.assemble((experiment.name, "bold"), f" → {run_dir}"), highlight=False)
        return make_run(run_dir, plain=plain) or analyse_run(run_dir, as_json=as_json)


def make_run(run_dir: Path, *, plain: bool = True) -> int:
    """Run the experiment of a prepared directory; returns the exit code, 0 for a complete run.

    Unless `plain`, a terminal shows a live picture of it.
    """
    from weir.cli.terminal.clock import VirtualClock
    from weir.cli.terminal.live import can_draw, restore_terminal
    from weir.runner.outer import is_virtual, run_prepared

    notes = Console(stderr=True)
    if is_virtual(run_dir):
        drawn = False
        with VirtualClock(notes, shown=not plain) as clock:
            ended = run_prepared(run_dir, "weir.cli.sandboxed_run", on_virtual_s=clock.tick)
    else:
        drawn = not plain and can_draw(notes)
        ended = run_prepared(
            run_dir, "weir.cli.sandboxed_run", [PICTURE] if drawn else [], announce_stop=not drawn
        )
    if ended.complete:
        return 0
    if drawn and ended.problem is not None:
        restore_terminal(notes)
    if ended.problem is not None and ended.exit_status != EXIT_DISK:  # the run has printed a disk error
        notes.print(f"weir: {ended.problem}", style="red", highlight=False, markup=False, soft_wrap=True)
    notes.print(
        f"weir: the run {_ENDS[ended.state]}; what it wrote is in {run_dir}",
        style="red",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    return ended.exit_status or 1


def analyse_run(run_dir: Path, report: Callable[[Path], int] | None = None, *, as_json: bool = False) -> int:
    """Analyse a complete run; returns and raises what `report_run` does. A virtual one gets its digest.

    The captures go if the experiment says so. `report` makes results and report in place of `report_run`.
    """
    Console(stderr=True).print("  analysing")
    # Imported here: the analysis takes seconds to load, and the traffic should not wait for that.
    from weir.rundir.digest import record_digest
    from weir.runner.kept import drop_captures

    if report is not None:
        code = report(run_dir)
    else:
        from weir.cli.report import report_run

        code = report_run(run_dir, as_json=as_json, console=Console())
    if code != 0:
        return code
    digest = record_digest(run_dir)
    if digest is not None:
        Console(stderr=True).print(f"  digest {digest}", highlight=False, soft_wrap=True)
    drop_captures(run_dir)
    return code
