# SPDX-License-Identifier: Apache-2.0
"""`make chaos`: trials with random faults; continues after those of an earlier command with the same seed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.chaos.table import table_of
from weir.chaos.trial import perform, planned, undisturbed_s
from weir.topo.linux import mount
from weir.topo.tools import find_tool

DISK_MB = 96
RESULTS = "trials.jsonl"
_JOB = "WEIR_CHAOS_JOB"
"""Variable with a job's number and those of its trials."""


def main() -> int:
    """Make the trials that are missing; returns 1 if something was wrong in one."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="trials in all (20)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trials at once (1)")
    parser.add_argument(
        "--first", type=int, default=1, metavar="NUMBER", help="leave out those before it (1)"
    )
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, again")
    parser.add_argument("--out", type=Path, default=Path("target/chaos"), metavar="DIR")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error("--jobs: at least 1 trial is made at once")
    if not 1 <= arguments.first <= arguments.trials:
        parser.error(f"--first: a number from 1 to {arguments.trials}")
    out = arguments.out.absolute() / f"seed-{arguments.seed}"
    out.mkdir(parents=True, exist_ok=True)
    if _JOB in os.environ:
        job, numbers = json.loads(os.environ[_JOB])
        return _job(job, numbers, arguments, out)
    done = {trial["number"] for trial in _made(out)}
    missing = sorted(set(range(arguments.first, arguments.trials + 1)) - done)
    if arguments.only is not None:
        return max(_jobs(1, [arguments.only]))
    codes = _jobs(arguments.jobs, missing)
    made = _made(out)
    (out / "table.md").write_text(table_of(made))
    print(f"table: {out / 'table.md'}")
    return max(codes, default=0) or int(any(trial["wrong"] for trial in made))


def _made(out: Path) -> list[dict[str, Any]]:
    results = out / RESULTS
    return [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []


def _jobs(at_once: int, numbers: list[int]) -> list[int]:
    """Divide the trials among jobs, each in a mount namespace of its own; returns their exit codes."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    command = [find_tool("unshare"), *flags, "--", sys.executable, "-m", "weir.chaos", *sys.argv[1:]]
    shares = [(job, numbers[job::at_once]) for job in range(min(at_once, len(numbers)))]
    jobs = [subprocess.Popen(command, env={**os.environ, _JOB: json.dumps(share)}) for share in shares]

    def end(*_: object) -> None:
        for job in jobs:
            job.terminate()

    signal.signal(signal.SIGTERM, end)
    while True:
        try:
            return [job.wait() for job in jobs]
        except KeyboardInterrupt:  # the jobs have the signal too, and end their trials
            continue


def _job(job: int, numbers: Sequence[int], arguments: argparse.Namespace, out: Path) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the trial as Ctrl-C does
    with tempfile.TemporaryDirectory(prefix="weir-chaos-") as name:
        disk = Path(name)
        mount("tmpfs", name, f"size={DISK_MB}m")
        try:
            return _trials(numbers, arguments, disk, out, out / f"undisturbed-{job}")
        except KeyboardInterrupt:
            print("\nstopped; the same command continues from here")
            return 130
        finally:
            subprocess.run(["umount", "--lazy", name], check=False, stderr=subprocess.DEVNULL)


def _trials(
    numbers: Sequence[int], arguments: argparse.Namespace, disk: Path, out: Path, undisturbed: Path
) -> int:
    undisturbed.mkdir(exist_ok=True)
    lengths_s = {subject: undisturbed_s(subject, disk, undisturbed) for subject in ("run", "campaign")}
    print(", ".join(f"a {subject} takes {length:.1f} s" for subject, length in lengths_s.items()), flush=True)
    code = 0
    for number in numbers:
        trial = planned(arguments.seed, number, lengths_s)
        perform(trial, arguments.seed, disk, out)
        what = f"{trial.fault}, {trial.role or 'nobody'} at {trial.at_s} s ({trial.did or 'it had ended'})"
        lines = [f"{number}/{arguments.trials} {trial.subject}: {what}: {trial.said}"]
        print("\n".join(lines + [f"    WRONG: {wrong}" for wrong in trial.wrong]), flush=True)
        code = max(code, int(bool(trial.wrong)))
        if arguments.only is None:
            with (out / RESULTS).open("a") as file:
                file.write(json.dumps(asdict(trial)) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
