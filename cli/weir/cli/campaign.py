# SPDX-License-Identifier: Apache-2.0
"""`weir campaign`: makes the missing runs of a campaign, or lists them, and writes its page."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from weir.cli import options
from weir.cli.errors import EXIT_DISK, EXIT_FAILED, InputError
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from weir.campaign.estimate import Estimate
    from weir.campaign.executors.executor import Executor
    from weir.campaign.load import Campaign, Overrides
    from weir.campaign.outcome import Outcome
    from weir.campaign.runner import Ending
    from weir.campaign.store import Store

CORES_OF_A_RUN = 3
"""Cores that the switch, senders and captures of one run keep busy, approximately."""


@dataclass(frozen=True)
class Tally:
    """The final JSON line. Counts are of runs, but `unexplained` is of packets of all complete runs."""

    runs: int
    complete: int
    invalid: int
    failed: int
    unexplained: int
    page: str


def default_jobs() -> int:
    """Number of concurrent runs that do not disturb each other on this machine's cores."""
    return max(1, (os.cpu_count() or 1) // CORES_OF_A_RUN)


def campaign(
    file: options.Campaign,
    runs: Annotated[
        Path,
        typer.Option("--runs", metavar="DIR", help="Where campaigns' folders go.", callback=options.folder),
    ] = Path("runs"),
    quick: Annotated[bool, typer.Option("--quick", help="The file's small grid.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=LABEL,…", help="These values of an axis alone; of several axes, all."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Runs of each cell, instead of the file's number.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is to do, and how long it takes.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Runs at a time; by default what the cores carry.")
    ] = None,
    time: options.TimeOption = None,
    kernel: options.Kernels = None,
    memory: options.Memory = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of dask; its workers run.")
    ] = None,
    testbed: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Of hosts over SSH; several have a run each at a time."),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Make runs again that failed for good or are invalid.")
    ] = False,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print lines, where a terminal would show a bar below them too.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Run an experiment over a matrix of values, repeated; resume it where it was, however it ended.

    Writes RUNS/<name>/<run>/ for each run, index.html, and its figures for programs in summary.json, which
    `weir campaign compare A B` compares. A run counts once it is whole; runs of another experiment or other
    software are never mixed with it. Ctrl-C stops the campaign; the same command resumes it.

    weir campaign wehey-bbr --only "rate=40 Mbit/s,80 Mbit/s" --repeats 200
    """
    from weir.campaign.load import Overrides

    if time == "real" and (kernel or memory):
        raise InputError("--kernel and --memory are of runs in virtual time; valid: --time virtual")
    # A testbed has its own clocks.
    time = time or ("real" if testbed else None)
    return campaign_command(
        file,
        runs,
        quick=quick,
        wanted=only or (),
        overrides=Overrides(repeats, time, kernel or ()),
        memory_mb=memory,
        dry_run=dry_run,
        jobs=jobs,
        scheduler=scheduler,
        testbeds=testbed or (),
        retry=retry,
        plain=plain,
        as_json=as_json,
        console=Console(),
    )


def campaign_command(
    file: Path,
    runs: Path,
    *,
    quick: bool,
    wanted: Sequence[str],
    overrides: Overrides,
    memory_mb: int | None,
    dry_run: bool,
    jobs: int | None,
    scheduler: str | None,
    testbeds: Sequence[Path] = (),
    retry: bool,
    plain: bool = False,
    as_json: bool,
    console: Console,
) -> int:
    """Make the missing runs of a campaign, or list them with `dry_run`.

    Returns the exit code: 0 if all runs are complete, 1 if not, 10 on a full disk, 128 + n after signal n.
    Raises ConfigError for the file, CampaignError for its folder, ToolMissingError.
    """
    from weir.campaign.choice import only
    from weir.campaign.executors.local import LocalExecutor
    from weir.campaign.load import load_campaign
    from weir.campaign.others import with_others
    from weir.campaign.outcome import outcomes
    from weir.campaign.page import write_page
    from weir.campaign.runner import Runner
    from weir.campaign.store import Store
    from weir.campaign.virtual import is_virtual, processors
    from weir.cli.campaign_run import command
    from weir.cli.terminal.campaign import LiveView
    from weir.controlplane.config import Source, read_text
    from weir.runner.checks import check_machine, check_place, check_runnable
    from weir.runner.prepare import MEMORY_MB, OnTestbed
    from weir.testbed.joined import shared

    grid = load_campaign(file, quick=quick, overrides=overrides)
    planned = only(grid, wanted)
    source = Source.parse(read_text(file), str(file))
    if testbeds and jobs is not None:
        raise InputError("--testbed: each testbed has one run at a time; valid: no --jobs")
    used = [OnTestbed.read(testbed) for testbed in testbeds]
    for message in shared([(one.path, one.config) for one in used]):
        raise InputError(message)
    for run in planned.runs:
        if run.repeat == 0:
            check_runnable(run.experiment, file, source, testbed=bool(used))
            for testbed in used:
                testbed.use(run.experiment)
            if scheduler is None and not dry_run and not used:
                check_machine(run.experiment, file, source)
    if scheduler is None and not dry_run and not used:
        check_place(runs)
    if memory_mb is not None and not any(run.is_virtual for run in planned.runs):
        raise InputError("--memory is of runs in virtual time; valid: --time virtual")
    memory_mb = memory_mb or MEMORY_MB
    notes = Console(stderr=True)
    campaign, left_out = _on_kernels(planned, memory_mb, dry_run, notes)
    if not campaign.runs:
        raise InputError(f"{file}: no run is left; {left_out}")
    if scheduler is not None and jobs is not None:
        raise InputError("--jobs with --scheduler: each worker makes one run at a time; valid: one of them")
    elsewhere = not used and any(run.experiment.switch.address is not None for run in campaign.runs)
    if elsewhere and (scheduler is not None or (jobs or 1) > 1):
        raise InputError(
            f"{file}: switch.address: one run at a time has a switch; valid: --jobs 1, and no --scheduler"
        )
    jobs = jobs or len(used) or (processors() if is_virtual(campaign) else 1 if elsewhere else default_jobs())
    if scheduler is None:
        jobs = _fitting(campaign, jobs, memory_mb, notes)
    store = Store(campaign, runs)
    for note in (left_out, _unmeasured(campaign)):
        if note:
            notes.print(f"weir: {note}", highlight=False, markup=False, soft_wrap=True)
    if dry_run:
        return _show_plan(store, jobs, as_json=as_json, console=console)
    with store, contextlib.ExitStack() as stack:
        done = store.done()
        if unplanned := store.unplanned(grid):
            notes.print(
                f"weir: not of this grid, and not counted: {plural(len(unplanned), 'run')}, "
                f"first {unplanned[0]}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        if retry:
            store.delete_failures([run.key for run in campaign.runs])
            store.set_aside([outcome.key for outcome in outcomes(campaign, done) if not outcome.valid])
            done = store.done()
        estimate = estimate_from(campaign, outcomes(campaign, done))
        executor: Executor = LocalExecutor(jobs, command)
        if len(done) < len(campaign.runs):
            if not used or scheduler is not None:
                executor = _executor(store, jobs, scheduler, memory_mb, notes, stack)
            _announce(campaign, len(done), executor.jobs, estimate, store, notes)
        with LiveView(campaign, done, executor.jobs, estimate, notes, plain=plain) as view:
            ending = Runner(store, executor, view, used).run()
        if ending.disk_full is not None:  # before the page, for which there may be no space either
            notes.print(
                f"weir: the disk is full ({ending.disk_full}); no more runs are started; "
                "valid: free some space, then the same command resumes",
                style="red",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        done = store.done()
        shown, not_shown = with_others(store, grid, planned, memory_mb)
        on_page = outcomes(shown, store.complete(shown.runs))
        found = [outcome for outcome in on_page if outcome.key in done]
        page, warnings = write_page(store.folder, shown, on_page)
    tally = Tally(
        runs=len(campaign.runs),
        complete=len(found),
        invalid=sum(not outcome.valid for outcome in found),
        failed=len(ending.failed),
        unexplained=sum(outcome.unexplained for outcome in found),
        page=str(page),
    )
    for warning in (*warnings, *filter(None, [not_shown])):
        notes.print(f"weir: {warning}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    _say_end(ending, tally, notes)
    if as_json:
        print(json.dumps(asdict(tally)))
    else:
        console.print(_tally_text(tally), highlight=False, markup=False, soft_wrap=True)
    return _exit_code(ending, tally)


def _on_kernels(campaign: Campaign, memory_mb: int, dry_run: bool, notes: Console) -> tuple[Campaign, str]:
    """The campaign with its kernels, without the runs that these cannot make, and a sentence about those.

    For a `dry_run` without a kernel, the campaign as it is. Raises InputError if a kernel is missing.
    """
    from weir.campaign.choice import without_lacking
    from weir.campaign.virtual import with_kernels
    from weir.kernel.errors import KernelInputError

    try:
        return without_lacking(with_kernels(campaign, memory_mb))
    except KernelInputError as error:
        named = any(run.experiment.kernel is not None for run in campaign.runs)
        message = str(error) if named else f"{error}; or in real time: --time real"
        if not dry_run:
            raise InputError(message) from error
        notes.print(f"weir: {message}", style="yellow", highlight=False, markup=False, soft_wrap=True)
        return campaign, ""


def _unmeasured(campaign: Campaign) -> str:
    """A sentence about cells without a measured flow, of which the page has no figure; may be empty."""
    cells = [runs for runs in campaign.cells() if not runs[0].is_measured]
    if not cells:
        return ""
    where = plural(len(cells), "cell") if len(cells) < len(campaign.cells()) else "the campaign"
    return (
        f"no flow of {where} has `measured: true`, so its runs are listed, and in no figure; "
        "valid: measured: true in the TCP flows that the figures are of"
    )


def _fitting(campaign: Campaign, jobs: int, memory_mb: int, notes: Console) -> int:
    """As many runs at a time as memory allows, at most `jobs`; raises CampaignError if it allows none."""
    from weir.campaign.virtual import jobs_in_memory, kernel_digests
    from weir.topo.memory import available_mb

    if not kernel_digests(campaign):
        return jobs
    fitting, note = jobs_in_memory(min(jobs, len(campaign.runs)), memory_mb, available_mb())
    if note:
        notes.print(f"weir: {note}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    return fitting


def _executor(
    store: Store,
    jobs: int,
    scheduler: str | None,
    memory_mb: int,
    notes: Console,
    stack: contextlib.ExitStack,
) -> Executor:
    """The executor of the runs. Warns if the machine is busy; raises CampaignError without usable workers."""
    from weir.campaign.executors.executor import BUSY_SHARE
    from weir.campaign.executors.local import LocalExecutor
    from weir.campaign.virtual import OUTSIDE_MB, is_virtual, kernel_digests
    from weir.cli.campaign_run import command
    from weir.topo.processors import busy_share

    def note(text: str) -> None:
        notes.print(f"weir: {text}", style="yellow", highlight=False, markup=False, soft_wrap=True)

    if scheduler is not None:
        from weir.campaign.executors.cluster import ClusterExecutor, GuestNeeds, connect

        client = stack.enter_context(connect(scheduler))
        kernels = kernel_digests(store.campaign)
        workers = ClusterExecutor(
            client,
            store.made_by,
            keep_raw=store.campaign.keep == "all",
            note=note,
            command=command,
            needs=GuestNeeds(kernels, memory_mb + OUTSIDE_MB) if kernels else None,
        )
        workers.is_free()
        return workers
    if is_virtual(store.campaign):
        return LocalExecutor(jobs, command)
    if jobs > default_jobs():
        note(
            f"{jobs} runs at a time on {os.cpu_count()} cores may disturb each other, {default_jobs()} "
            "would not; a run that exceeds the limits is invalid, and --retry makes it again"
        )
    busy = busy_share()
    if busy > BUSY_SHARE:
        note(
            f"this machine is busy: other programs used {busy:.0%} of its processors in the last second; "
            "runs that this disturbs will be invalid"
        )
    return LocalExecutor(jobs, command)


def estimate_from(campaign: Campaign, found: Sequence[Outcome]) -> Estimate:
    """An estimate from the durations of complete runs."""
    from weir.campaign.estimate import Estimate

    estimate = Estimate()
    by_key = {run.key: run for run in campaign.runs}
    for outcome in found:
        if outcome.wall_s is not None:
            estimate.learn(by_key[outcome.key], outcome.wall_s)
    return estimate


def _announce(
    campaign: Campaign, done: int, jobs: int, estimate: Estimate, store: Store, notes: Console
) -> None:
    from weir.campaign.estimate import duration_text

    left = [run for run in campaign.runs if not store.path_of(run).is_dir()]
    resumed = f", {done} of them done" if done else ""
    time_left = duration_text(estimate.seconds(left, {}, jobs))
    notes.print(
        Text.assemble(
            (campaign.name, "bold"),
            f": {plural(len(campaign.runs), 'run')}{resumed}, {jobs} at a time, about "
            f"{time_left} left ({estimate.basis(left)}) → {store.folder}",
        ),
        highlight=False,
        soft_wrap=True,
    )


def _show_plan(store: Store, jobs: int, *, as_json: bool, console: Console) -> int:
    """Show the runs that a campaign would make; writes nothing."""
    from weir.campaign.estimate import duration_text
    from weir.campaign.outcome import outcomes

    campaign = store.campaign
    done = store.done()
    estimate = estimate_from(campaign, outcomes(campaign, done))
    left = [run for run in campaign.runs if run.key not in done]
    seconds = estimate.seconds(left, {}, jobs)
    if as_json:
        plan = {
            "name": campaign.name,
            "runs": len(campaign.runs),
            "complete": len(done),
            "seconds_left": round(seconds),
            "seconds_left_assumes": estimate.basis(left),
            "virtual_seconds_left": round(sum(run.traffic_s for run in left if run.is_virtual)),
            "jobs": jobs,
            "folder": str(store.folder),
            "plan": [
                {
                    "run": run.key,
                    "cell": dict(run.cell),
                    "repeat": run.repeat + 1,
                    "seed": run.seed,
                    "kernel": None if run.virtual_time is None else run.virtual_time.kernel.name,
                }
                for run in left
            ],
        }
        print(json.dumps(plan))
        return 0
    table = Table(box=None, pad_edge=False)
    for axis in campaign.axes:
        table.add_column(axis, overflow="fold")
    for heading in ("flows", "traffic", "runs", "done"):
        table.add_column(heading, justify="right", no_wrap=True)
    for its in campaign.cells():
        labels = campaign.labels(its[0].cell)
        complete = sum(run.key in done for run in its)
        flows = len(its[0].experiment.flows)
        table.add_row(*labels, str(flows), duration_text(its[0].traffic_s), str(len(its)), str(complete))
    console.print(table, markup=False)
    virtual_s = sum(run.traffic_s for run in left if run.is_virtual)
    of = f" for {duration_text(virtual_s)} of virtual time" if virtual_s else ""
    console.print(
        f"{plural(len(campaign.runs), 'run')}, {len(done)} done, {len(left)} to do with {jobs} at a time: "
        f"about {duration_text(seconds)}{of} ({estimate.basis(left)})",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _say_end(ending: Ending, tally: Tally, notes: Console) -> None:
    if ending.gave_up:
        notes.print(
            "weir: too many runs in a row failed; the others are not started; logs are in "
            f"{Path(tally.page).parent / 'failed'}, and the same command resumes",
            style="red",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if ending.failed:
        notes.print(
            f"weir: {plural(len(ending.failed), 'run')} failed for good, first {ending.failed[0]}; "
            f"their logs are in {Path(tally.page).parent / 'failed'}; --retry tries them again",
            style="red",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _tally_text(tally: Tally) -> str:
    parts = [f"{tally.complete} of {plural(tally.runs, 'run')} complete"]
    if tally.invalid:
        parts.append(f"{tally.invalid} of them invalid")
    parts.append(f"{plural(tally.unexplained, 'packet')} unexplained")
    return f"{', '.join(parts)}; page: {tally.page}"


def _exit_code(ending: Ending, tally: Tally) -> int:
    if ending.stopped_by is not None:
        return 128 + signal.Signals(ending.stopped_by)
    if ending.disk_full is not None:
        return EXIT_DISK
    return 0 if tally.complete == tally.runs else EXIT_FAILED
