# SPDX-License-Identifier: Apache-2.0
"""Run the fuzz targets, one on each processor at a time, and say what they found.

Usage: python fuzz/run.py [--target NAME] [--time SECONDS] [--jobs N] [--seed N] [--input FILE] [--keep]
    [-- OPTION ...]

Each target starts with the corpus of the repository, `fuzz/corpus/NAME.zip`, and with what earlier runs have
added to `target/fuzzing/corpus/NAME`. `--keep` replaces the repository's corpus by the least part of both
that reaches the same code. The last line is JSON; exit code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "target" / "fuzzing"
COMPILED = (
    "grammar",
    "packets",
    "programs",
    "requests",
    "links",
    "bmv2",
    "thrift",
    "reports",
    "captures",
    "segments",
    "inference",
)
"""Targets of the Rust program `fuzz`."""
PYTHON = ("configs", "replays")
"""Targets of `python_targets.py`."""
TARGETS = COMPILED + PYTHON

MOST_BYTES = 4096
"""Longest input, except of captures."""
LONG = {"captures": 65_536}
LIMITS = ("-timeout=120", "-rss_limit_mb=3072", "-print_final_stats=1", "-verbosity=1")
TIMED_OUT = 70
"""Exit code of libFuzzer after `-timeout`, which is real time: it passes while a machine is suspended."""
STOOD_STILL_S = 30.0
"""A thread that wakes up every second and did not for so long was not the only one to wait."""
INTERRUPTED = (72, 130)
"""Exit codes of libFuzzer and of atheris after a signal that asks them to stop."""
INTERRUPTED_HERE = 130
"""This program's, as of a shell's command after Ctrl-C."""
MOST_INPUTS = 300
"""What `--keep` keeps of a target: the shortest inputs. Longer runs find the others again."""

_PROGRESS = re.compile(r"^#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.M)
_WRITTEN = re.compile(r"Test unit written to (\S+)")
_COUNTERS = re.compile(r"^INFO: Loaded \d+ modules?\s+\((\d+) inline", re.M)


@dataclass(frozen=True)
class Result:
    """The figures of a target's run. `covered` of `counters` edges were reached; Python has no number of all.

    `processor_s` is less than the time given where other programs used the processors, too.
    """

    target: str
    processor_s: float
    executions: int
    covered: int
    counters: int | None
    corpus: int
    found: bool


def main() -> int:
    """Run the targets; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all of them")
    parser.add_argument("--time", type=int, default=60, metavar="SECONDS", help="for each target")
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="targets at a time; default: one on each processor (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, help="the same executions on one machine; 0: others")
    parser.add_argument("--input", type=Path, metavar="FILE", help="run this input of one target, no others")
    parser.add_argument("--keep", action="store_true", help="reduce the corpus into the repository's")
    parser.add_argument("options", nargs="*", metavar="OPTION", help="options of libFuzzer, after --")
    given = parser.parse_args()
    targets = given.target or list(TARGETS)
    if given.input and len(targets) != 1:
        parser.error("--input needs one --target")
    if given.jobs < 1:
        parser.error(f"--jobs {given.jobs}; valid: 1 or more")
    if any(target in COMPILED for target in targets):
        _build()
    if given.input:
        return _run(targets[0], (*LIMITS, *given.options, str(given.input))).code
    if given.keep:
        for target in targets:
            _keep(target)
        return 0
    interrupted = False
    with ThreadPoolExecutor(given.jobs) as pool:
        runs = [pool.submit(_fuzz, target, given.time, given.seed, given.options) for target in targets]
        try:
            for run in runs:
                run.result()
        except KeyboardInterrupt:
            # Ctrl-C reaches the targets, too: they end and print their statistics.
            interrupted = True
            pool.shutdown(cancel_futures=True)
    results = [run.result() for run in runs if not run.cancelled()]
    print(json.dumps({"seconds_each": given.time, "targets": [asdict(result) for result in results]}))
    if any(result.found for result in results):
        return 1
    return INTERRUPTED_HERE if interrupted else 0


def _build() -> None:
    command = [
        "cargo",
        "build",
        "--profile",
        "fuzz",
        "--locked",
        "--quiet",
        "-p",
        "weir-fuzz",
        "--features",
        "libfuzzer",
    ]
    environment = {"RUSTC_WRAPPER": str(ROOT / "fuzz" / "rustc-instrumented"), "CARGO_TARGET_DIR": str(BUILD)}
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True)


def _fuzz(target: str, time_s: int, seed: int, options: Sequence[str]) -> Result:
    """Run a target for a time; print and return what it did."""
    corpus = _unpacked(target)
    findings = BUILD / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    executions, processor_s, left_s = 0, 0.0, time_s
    until = time.time() + time_s
    while True:
        arguments = (
            *LIMITS,
            f"-max_len={LONG.get(target, MOST_BYTES)}",
            "-len_control=20",
            f"-max_total_time={left_s}",
            f"-seed={seed}",
            f"-artifact_prefix={findings / target}-",
            *options,
            str(corpus),
        )
        with _Wakeups() as wakeups:
            ended = _run(target, arguments, quiet=True)
        log = ended.log
        last = (_PROGRESS.findall(log) or [("0", "0", "0", "0")])[-1]
        executions += int(last[0])
        processor_s += ended.processor_s
        written = _WRITTEN.findall(log)
        stood_still = ended.code == TIMED_OUT and wakeups.longest_s >= STOOD_STILL_S
        if stood_still:
            print(f"{target}: no finding: the machine stood still for {wakeups.longest_s:.0f} s", flush=True)
            Path(written[-1]).unlink(missing_ok=True)
        left_s = round(until - time.time())
        if not stood_still or left_s < 1:
            break
    counters = _COUNTERS.search(log)
    result = Result(
        target,
        round(processor_s, 1),
        executions,
        int(last[1]),
        int(counters[1]) if counters else None,
        int(last[3]),
        not stood_still and ended.code not in (0, *INTERRUPTED),
    )
    of = f" of {result.counters}" if result.counters else ""
    interrupted = ", interrupted" if ended.code in INTERRUPTED else ""
    print(
        f"{target}: {result.executions} executions, {result.covered}{of} edges, "
        f"corpus {result.corpus}, {result.processor_s:.0f} s of processor time{interrupted}",
        flush=True,
    )
    if result.found:
        print("\n".join(log.splitlines()[-60:]))
        where = f"; repeat it with: make fuzz TARGET={target} INPUT={written[-1]}" if written else ""
        print(f"FOUND by {target}{where}", flush=True)
    return result


class _Wakeups:
    """How long a thread that sleeps for a second at a time took to wake up, at most (`longest_s`)."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sleep)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _sleep(self) -> None:
        before = time.time()  # a monotonic clock stands still with the machine
        ended = False
        while not ended:
            ended = self._ended.wait(1.0)
            now = time.time()
            self.longest_s = max(self.longest_s, now - before)
            before = now


@dataclass(frozen=True)
class _Ended:
    code: int
    log: str
    processor_s: float


def _run(target: str, arguments: Sequence[str], *, quiet: bool = False) -> _Ended:
    """How a target ended and, if `quiet`, what it printed."""
    environment: Mapping[str, str] = os.environ | {"WEIR_FUZZ_TARGET": target, "RUST_BACKTRACE": "0"}
    if target in COMPILED:
        command = [str(BUILD / "fuzz" / "fuzz"), *arguments]
    else:
        command = [sys.executable, str(ROOT / "fuzz" / "python_targets.py"), *arguments]
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        errors="replace",
    ) as process:
        log = process.stdout.read() if process.stdout else ""
        # Popen.wait would not tell the processor time.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return _Ended(process.returncode, log, used.ru_utime + used.ru_stime)


def _packed(target: str) -> Path:
    return ROOT / "fuzz" / "corpus" / f"{target}.zip"


def _unpacked(target: str) -> Path:
    """The folder of a target's corpus, with the inputs of the repository."""
    folder = BUILD / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    if _packed(target).exists():
        with zipfile.ZipFile(_packed(target)) as packed:
            for name in packed.namelist():
                (folder / Path(name).name).write_bytes(packed.read(name))
    return folder


def _keep(target: str) -> None:
    """Reduce a target's corpus, shortest inputs first, and pack it; the same inputs give the same bytes."""
    corpus = least = _unpacked(target)
    # libFuzzer starts itself again to reduce a corpus, which atheris does not support.
    if target in COMPILED:
        least = BUILD / "least" / target
        least.mkdir(parents=True, exist_ok=True)
        for old in least.iterdir():
            old.unlink()
        ended = _run(target, (*LIMITS, "-set_cover_merge=1", str(least), str(corpus)), quiet=True)
        if ended.code != 0:
            raise SystemExit(f"{target}: the corpus cannot be reduced\n{ended.log[-2000:]}")
    inputs = sorted((path.read_bytes() for path in least.iterdir()), key=lambda data: (len(data), data))
    _pack(target, inputs[:MOST_INPUTS])
    size = _packed(target).stat().st_size
    print(
        f"{target}: {len(inputs)} inputs, of which the shortest {MOST_INPUTS} take {size} bytes", flush=True
    )


def _pack(target: str, inputs: Sequence[bytes]) -> None:
    _packed(target).parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(_packed(target), "w") as packed:
        for data in inputs:
            # Named as libFuzzer names them; the time of such an entry is constant.
            name = zipfile.ZipInfo(hashlib.sha1(data).hexdigest())
            packed.writestr(name, data, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    sys.exit(main())
