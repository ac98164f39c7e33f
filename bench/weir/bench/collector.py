# SPDX-License-Identifier: Apache-2.0
"""How many reports per second the collector stores, from a capture and from a loopback socket.

    report-source ── capture, on one core ► weir-collector ── Parquet   reports per second of processor time
    report-source ── UDP, paced ───► weir-collector ── Parquet   highest pace without loss
    report-source ── UDP, flood ───► weir-collector ── Parquet   sent = stored + counted losses

Both run on one machine, so the pace is what source, kernel and collector reach together. Usage: python -m
weir.bench.collector [options]; the last line is JSON. Exit code 1 when an account does not add up.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq

from weir.bench.measuring import bench_program
from weir.topo.tools import find_own_program

PACES_PPS = (200_000, 250_000, 300_000, 400_000, 500_000, 700_000, 1_000_000)
_SMALL_BUFFER_BYTES = 64 << 10
_KB_PER_MB = 1024


@dataclass(frozen=True)
class Collected:
    """The result of one run of the collector."""

    sent: int
    stored: int
    """Rows in the Parquet file."""
    kernel_drops: int
    lost: int
    """Gaps in the numbers."""
    seconds: float
    """For UDP the source's time; for a capture the collector's processor time."""
    peak_mb: float

    def adds_up(self) -> bool:
        """Whether each datagram was stored or counted by the kernel."""
        return self.sent == self.stored + self.kernel_drops

    def rate(self) -> float:
        """Reports per second."""
        return self.stored / self.seconds


def make(*arguments: str) -> tuple[int, float]:
    """Run the source; return its number of reports and its seconds."""
    command = [str(bench_program("report-source")), *arguments]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    said = json.loads(printed.splitlines()[-1])
    return said["reports"], said["seconds"]


class Collector:
    """A running weir-collector with its files in `folder`."""

    def __init__(self, folder: Path, *source: str, one_core: bool = False) -> None:
        """Start it, optionally with all its threads on one core, and wait until it is ready."""
        self._folder = folder
        command = [str(find_own_program("weir-collector")), *source, "--output", str(folder / "t.parquet")]
        command += ["--accounting", str(folder / "collector.json")]
        cores = os.sched_getaffinity(0)
        if one_core:
            # Inherited by the collector from its first instruction on.
            os.sched_setaffinity(0, {min(cores)})
        try:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        finally:
            os.sched_setaffinity(0, cores)
        assert self._process.stdout is not None
        self.ready = self._process.stdout.readline().strip()

    def end(self, sent: int, seconds: float | None = None, *, stop: bool = False) -> Collected:
        """Wait for its end, optionally after telling it to stop. Raises RuntimeError when it fails."""
        if stop:
            self._process.send_signal(signal.SIGTERM)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode:
            raise RuntimeError(f"weir-collector ended with code {self._process.returncode}")
        accounts = json.loads((self._folder / "collector.json").read_text())
        rows = pq.read_metadata(self._folder / "t.parquet").num_rows
        for name in ("t.parquet", "collector.json"):
            (self._folder / name).unlink()
        processor_s = usage.ru_utime + usage.ru_stime
        return Collected(
            sent,
            rows,
            accounts["kernel_drops"],
            accounts["lost"],
            processor_s if seconds is None else seconds,
            round(usage.ru_maxrss / _KB_PER_MB, 1),
        )


def from_capture(folder: Path, reports: int) -> Collected:
    """Store a capture on one core; measure the processor time of all threads."""
    capture = folder / "reports.pcap"
    made, _ = make("--pcap", str(capture), "--reports", str(reports))
    found = Collector(folder, "--read", str(capture), one_core=True).end(made)
    capture.unlink()
    return found


def from_socket(folder: Path, pace_pps: int, reports: int, *options: str) -> Collected:
    """Store reports sent at a rate; 0: as fast as possible."""
    collector = Collector(folder, "--listen", "127.0.0.1:0", *options)
    address = collector.ready.split()[-1]
    sent, seconds = make("--udp", address, "--rate", str(pace_pps), "--reports", str(reports))
    return collector.end(sent, seconds, stop=True)


def highest_pace(folder: Path, seconds: float) -> Collected:
    """The highest rate without losses; if there is none, the lowest rate with its losses."""
    best: Collected | None = None
    for pace_pps in PACES_PPS:
        found = from_socket(folder, pace_pps, int(pace_pps * seconds))
        lost = found.kernel_drops + found.lost
        print(f"UDP {pace_pps:9,} reports/s asked, {found.rate():11,.0f} stored, {lost:9,} lost", flush=True)
        if best is None or not lost:
            best = found
        if lost:
            break
    assert best is not None
    return best


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.collector", description=__doc__)
    parser.add_argument("--reports", type=int, default=2_000_000, help="in the capture (default: 2,000,000)")
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each pace (default: 4)")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace) -> int:
    """Measure all three."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        capture = from_capture(folder, chosen.reports)
        print(f"capture {capture.rate():,.0f} reports per second of processor time, {capture.peak_mb} MB")
        udp = highest_pace(folder, chosen.seconds)
        small = ("--receive-buffer", str(_SMALL_BUFFER_BYTES))
        flood = from_socket(folder, 0, chosen.reports, *small)
    everything = {"capture": capture, "udp": udp, "overload": flood}
    wrong = [name for name, one in everything.items() if not one.adds_up()]
    for name in wrong:
        print(f"{name}: sent is not stored + dropped: {asdict(everything[name])}", file=sys.stderr)
    figures = {
        "pcap_reports_per_s": round(capture.rate()),
        "udp_reports_per_s": round(udp.rate()),
        "udp_lost": udp.kernel_drops + udp.lost,
        "peak_mb": max(one.peak_mb for one in everything.values()),
        "overload": {"sent": flood.sent, "stored": flood.stored, "kernel_drops": flood.kernel_drops},
    }
    print(json.dumps(figures))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(options(sys.argv[1:])))
