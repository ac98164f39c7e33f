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
from dataclasses import asdict
from pathlib import Path

from weir.chaos.table import table_of
from weir.chaos.trial import perform, planned, undisturbed_s
from weir.topo.linux import mount
from weir.topo.tools import find_tool

DISK_MB = 96
_INSIDE = "WEIR_CHAOS_INSIDE"


def main() -> int:
    """Make the trials that are missing; returns 1 if something was wrong in one."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="trials in all (20)")
    parser.add_argument("--seed", type=int, default=1, help="of all choices (1)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this trial alone, again")
    parser.add_argument("--out", type=Path, default=Path("target/chaos"), metavar="DIR")
    arguments = parser.parse_args()
    if _INSIDE not in os.environ:
        return _in_a_mount_namespace()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the trial as Ctrl-C does
    out = arguments.out.absolute() / f"seed-{arguments.seed}"
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weir-chaos-") as name:
        disk = Path(name)
        mount("tmpfs", name, f"size={DISK_MB}m")
        try:
            return _trials(arguments, disk, out)
        except KeyboardInterrupt:
            print("\nstopped; the same command continues from here")
            return 130
        finally:
            subprocess.run(["umount", "--lazy", name], check=False, stderr=subprocess.DEVNULL)


def _in_a_mount_namespace() -> int:
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    command = [find_tool("unshare"), *flags, "--", sys.executable, "-m", "weir.chaos", *sys.argv[1:]]
    try:
        return subprocess.run(command, env={**os.environ, _INSIDE: "1"}, check=False).returncode
    except KeyboardInterrupt:
        return 130


def _trials(arguments: argparse.Namespace, disk: Path, out: Path) -> int:
    results = out / "trials.jsonl"
    done = [] if not results.is_file() else [json.loads(line) for line in results.read_text().splitlines()]
    missing = sorted(set(range(1, arguments.trials + 1)) - {trial["number"] for trial in done})
    if arguments.only is not None:
        missing = [arguments.only]
    lengths_s = {subject: undisturbed_s(subject, disk, out) for subject in ("run", "campaign")}
    print(", ".join(f"a {subject} takes {length:.1f} s" for subject, length in lengths_s.items()), flush=True)
    for number in missing:
        trial = planned(arguments.seed, number, lengths_s)
        perform(trial, arguments.seed, disk, out)
        what = f"{trial.fault}, {trial.role or 'nobody'} at {trial.at_s} s ({trial.did or 'it had ended'})"
        print(f"{number}/{arguments.trials} {trial.subject}: {what}: {trial.said}", flush=True)
        for wrong in trial.wrong:
            print(f"    WRONG: {wrong}", flush=True)
        done.append(asdict(trial))
        if arguments.only is None:
            with results.open("a") as file:
                file.write(json.dumps(asdict(trial)) + "\n")
    (out / "table.md").write_text(table_of(done))
    print(f"table: {out / 'table.md'}")
    return 1 if any(trial["wrong"] for trial in done) else 0


if __name__ == "__main__":
    sys.exit(main())
