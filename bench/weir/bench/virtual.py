# SPDX-License-Identifier: Apache-2.0
"""Speed of a run in virtual time: a cell of wehey-bbr on one core, and two at once on two cores.

Usage: python -m weir.bench.virtual [options]; the last line is JSON. The cell is BBR with CUBIC behind a
common policer of 80 Mbit/s, to which the flows offer 105 Mbit/s. The lines that a run prints tell its parts
apart: boot, set-up, traffic, closing, analysis. Processor time is that of all processes of a run: with a core
of its own, a run takes as much wall time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from weir.bench.measuring import ROOT
from weir.campaign.load import load_campaign
from weir.kernel.debian import DEBIAN_SERIES
from weir.kernel.errors import KernelInputError
from weir.kernel.store import KernelStore, StoredKernel, kernels_folder
from weir.rundir.manifest_file import ManifestFile

CAMPAIGN = ROOT / "experiments" / "wehey-bbr.yaml"
CELL = {"rate": "80 Mbit/s", "scenario": "BBR with CUBIC", "policer": "common"}
_PARTS = (
    ("boot_s", ""),
    ("set_up_s", "building hosts and links"),
    ("traffic_s", "phase main: flows for"),
    ("closing_s", "phase main: waiting for the last packets"),
    ("analysis_s", "analysing"),
)
"""Each part of a run, and the line with which it begins."""


@dataclass(frozen=True)
class Measured:
    """One run; times in seconds of wall time unless they say otherwise."""

    boot_s: float
    set_up_s: float
    traffic_s: float
    closing_s: float
    analysis_s: float
    wall_s: float
    processor_s: float
    virtual_s: float
    frames: int
    """Frames that the switch received or sent."""
    valid: bool
    explained: bool

    @property
    def speedup(self) -> float:
        """Virtual time of the whole run by the wall time of all its parts."""
        return self.virtual_s / self.wall_s


def main() -> int:
    """Measure; returns the exit code."""
    chosen = _options()
    store = KernelStore(kernels_folder())
    kernel = chosen.kernel or newest_kernel(store)
    try:
        store.find(kernel)
    except KernelInputError as error:
        print(f"bench-virtual: {error}", file=sys.stderr)
        return 2
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        experiment = folder / "cell.yaml"
        experiment.write_text(cell_text(chosen.seconds))
        alone = finish(start(experiment, folder / "alone", kernel, cores[0]))
        _show("alone", alone)
        pair: list[Measured] = []
        if len(cores) > 1 and not chosen.alone:
            runs = [start(experiment, folder / f"pair-{core}", kernel, core) for core in cores[:2]]
            with ThreadPoolExecutor(len(runs)) as threads:  # each notes when its run prints a line
                pair = list(threads.map(finish, runs))
            for measured in pair:
                _show("of two", measured)
    slower = [(1 - measured.speedup / alone.speedup) * 100 for measured in pair]
    print(
        json.dumps(
            {
                "kernel": store.find(kernel).record.version,
                "speedup_per_core": round(alone.speedup, 2),
                "speedup_of_processor_time": round(alone.virtual_s / alone.processor_s, 2),
                "frames_per_s": round(alone.frames / alone.wall_s),
                "boot_s": round(alone.boot_s, 2),
                "boot_set_up_analysis_s": round(alone.boot_s + alone.set_up_s + alone.analysis_s, 2),
                "slower_beside_another_percent": [round(percent, 1) for percent in slower],
                "seconds": chosen.seconds,
                "alone": asdict(alone),
                "pair": [asdict(measured) for measured in pair],
            }
        )
    )
    return 0 if all(measured.valid and measured.explained for measured in (alone, *pair)) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=40, help="duration of the flows (default: 40)")
    parser.add_argument("--kernel", help="its name (default: the newest version without a patch)")
    parser.add_argument("--alone", action="store_true", help="do not run two at once")
    return parser.parse_args()


def newest_kernel(store: KernelStore) -> str:
    """The name of the kernel of the newest version, without those that users have patched."""

    def version(kernel: StoredKernel) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", kernel.record.version)]

    plain = [kernel for kernel in store.kernels() if kernel.record.name and not kernel.record.patches]
    newest = max(plain, key=version, default=None)
    return DEBIAN_SERIES if newest is None else str(newest.record.name)


def cell_text(seconds: int) -> str:
    """The experiment of the cell, with flows of this duration."""
    campaign = load_campaign(CAMPAIGN)
    run = next(run for run in campaign.runs if dict(run.cell) == CELL)
    text = run.text
    assert text.count(": 40 s") > 0
    return text.replace(": 40 s", f": {seconds} s")


@dataclass
class Started:
    """A run that was started, and when."""

    process: subprocess.Popen[str]
    runs: Path
    began: float


def start(experiment: Path, runs: Path, kernel: str, core: int) -> Started:
    """Start `weir run` on one core."""
    argv = ["taskset", "--cpu-list", str(core), str(Path(sys.executable).with_name("weir")), "run"]
    argv += [
        str(experiment),
        "--time",
        "virtual",
        "--kernel",
        kernel,
        "--runs",
        str(runs),
        "--plain",
        "--json",
    ]
    began = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return Started(process, runs, began)


def finish(started: Started) -> Measured:
    """Wait for the end of a run. Raises SystemExit with its last line if it failed."""
    assert started.process.stderr is not None
    begins = {"boot_s": started.began}
    line = ""
    for line in started.process.stderr:
        for name, first in _PARTS[1:]:
            if line.strip().startswith(first):
                begins.setdefault(name, time.monotonic())
    _, status, usage = os.wait4(started.process.pid, 0)
    ended = time.monotonic()
    if status:
        raise SystemExit(f"bench-virtual: the run failed: {line.strip()}")
    (run_dir,) = [path for path in started.runs.glob("*/*") if not path.is_symlink()]
    manifest = ManifestFile.load(run_dir).manifest
    result = json.loads((run_dir / "result.json").read_text())
    stats = manifest.switch.stats
    assert stats is not None
    names = [name for name, _ in _PARTS]
    edges = [*(begins[name] for name in names), ended]
    lasted = {name: after - before for name, before, after in zip(names, edges[:-1], edges[1:], strict=True)}
    return Measured(
        **lasted,
        wall_s=ended - started.began,
        processor_s=usage.ru_utime + usage.ru_stime,
        virtual_s=stats.uptime_ns / 1e9,
        frames=sum(port.rx_packets + port.tx_packets for port in stats.ports),
        valid=result["valid"],
        explained=all(flow["unexplained"] == 0 for flow in result["flows"]),
    )


def _show(name: str, measured: Measured) -> None:
    parts = ", ".join(f"{part.removesuffix('_s')} {getattr(measured, part):.1f} s" for part, _ in _PARTS)
    print(
        f"{name}: {measured.virtual_s:.1f} s in {measured.wall_s:.1f} s ({parts}; processor time "
        f"{measured.processor_s:.1f} s), {measured.frames:,} frames",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
