# SPDX-License-Identifier: Apache-2.0
"""Repeats of one experiment in virtual time: how many are the same bytes.

Usage: python -m weir.bench.repeats [options]; the last line is JSON. Every second run has a load of two busy
processes for each core beside it, and each has a directory of another length.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from weir.kernel.debian import DEBIAN_SERIES
from weir.rundir.digest import RunDigest, digest_of

EXPERIMENT = """
name: same
hosts:
  client: {delay: 5 ms}
  server: {delay: 5 ms}
flows:
  - {name: flow, from: server, to: client, congestion_control: bbr, duration: 2 s, measured: true}
policers:
  - {name: common, rate: 10 Mbit/s, burst: 20 ms, match: [{to: client}]}
"""


def main() -> int:
    """Make the runs; returns 0 if all are the same bytes, else 1."""
    chosen = _options()
    runs: list[RunDigest] = []
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        experiment = chosen.experiment
        if experiment is None:
            experiment = Path(name) / "same.yaml"
            experiment.write_text(EXPERIMENT)
        for number in range(chosen.repeats):
            with load() if number % 2 else contextlib.nullcontext():
                run = made(experiment, Path(name) / ("x" * (number + 1)), chosen.kernel)
            runs.append(digest_of(run))
            print(
                f"{number + 1}: {runs[-1].total[:16]}{' beside a load' if number % 2 else ''}",
                file=sys.stderr,
            )
    counts = Counter(run.total for run in runs)
    (usual, alike), *_ = counts.most_common()
    first = next(run for run in runs if run.total == usual)
    differing = sorted({path for run in runs for path in first.differing(run)})
    print(
        json.dumps(
            {
                "repeats": len(runs),
                "identical": alike,
                "digests": dict(counts.most_common()),
                "differing_files": differing,
            }
        )
    )
    return 0 if alike == len(runs) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="runs (default: 20)")
    parser.add_argument("--experiment", type=Path, help="a file (default: 2 s of BBR behind a policer)")
    parser.add_argument("--kernel", default=DEBIAN_SERIES, help=f"its name (default: {DEBIAN_SERIES})")
    return parser.parse_args()


def made(experiment: Path, runs: Path, kernel: str) -> Path:
    """Make a run; returns its directory. Raises SystemExit with its last line if it failed."""
    argv = [str(Path(sys.executable).with_name("weir")), "run", str(experiment)]
    argv += ["--time", "virtual", "--kernel", kernel, "--runs", str(runs), "--plain", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench-repeats: the run failed: {(done.stderr.splitlines() or [''])[-1]}")
    (run_dir,) = [path for path in runs.glob("*/*") if not path.is_symlink()]
    return run_dir


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Two busy processes for each core."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
