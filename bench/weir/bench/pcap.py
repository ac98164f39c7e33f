# SPDX-License-Identifier: Apache-2.0
"""From a capture to its losses: packets per second of processor time beside tshark, and peak memory by size.

What `weir losses` does without its table runs in a process of its own, on a large file and on a small one.
tshark reads all of the small one with its TCP analysis; a large one takes it too long. The losses found in it
are held, one by one, against the segments that the generator dropped. `--capture` names captures that others
made, which both read whole. The pandas cross join is the published method's: every packet beside every other,
and those with the same sequence number were sent again; it runs until an address space of 8 GB is too small.
Memory of ours is measured through a FIFO, so that 10 GB need no disk. The exit code is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weir.analysis.losses import losses_of
from weir.bench.measuring import bench_program

_GB = 1_000_000_000
_KB_PER_MB = 1000
MEMORY_GB = (0.2, 2.0, 10.0)
SPEED_GB = 2.0
PEER_GB = 0.1
GOALS = {"vs_tshark": 20.0, "precision": 1.0, "recall": 1.0}
"""Least values, also on a busy machine: of both programs' speed only the ratio counts."""
_PANDAS_LIMIT_BYTES = 8 * _GB
_PANDAS_PACKETS = (500, 1000, 2000, 4000, 8000, 16000, 32000)

_OURS = """
import json, sys
from pathlib import Path
from weir.analysis.losses import counts_of
found = counts_of(Path(sys.argv[1]))
print(json.dumps({"records": found.records, "losses": found.losses}))
"""

_PANDAS = """
import sys
import pandas as pd
packets = pd.read_csv(sys.argv[1], names=["time", "src", "port", "seq"])
both = packets.merge(packets, how="cross", suffixes=("", "_again"))
same = (both.src == both.src_again) & (both.port == both.port_again) & (both.seq == both.seq_again)
lost = both[same & (both.time < both.time_again)].drop_duplicates(["src", "port", "seq"])
print(len(lost))
"""


@dataclass(frozen=True)
class Used:
    """Output, time and memory of a process."""

    printed: str
    wall_s: float
    processor_s: float
    peak_mb: float
    failed: bool


def run(command: Sequence[str], limit_bytes: int | None = None) -> Used:
    """Run a command to its end, within an address space of `limit_bytes` if given."""

    def limit() -> None:
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))

    errors = subprocess.DEVNULL if limit_bytes else None
    with tempfile.TemporaryFile("w+") as printed:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=printed, stderr=errors, preexec_fn=limit)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        return Used(
            printed.read(),
            time.monotonic() - start,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss / _KB_PER_MB,
            process.returncode != 0,
        )


def make(path: Path, size_bytes: int, drops: Path | None = None) -> subprocess.Popen[str]:
    """Start making a capture; the last line printed describes its contents."""
    command = [str(bench_program("capture-source")), str(path), "--bytes", str(size_bytes)]
    command += ["--drops", str(drops)] if drops else []
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def made(source: subprocess.Popen[str]) -> dict[str, Any]:
    """The true contents of the finished capture."""
    printed, _ = source.communicate()
    if source.returncode:
        raise RuntimeError("capture-source failed")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def ours(path: Path) -> tuple[Used, dict[str, int]]:
    """Count the losses of a capture."""
    used = run([sys.executable, "-c", _OURS, str(path)])
    if used.failed:
        raise RuntimeError("the capture was not read")
    found: dict[str, int] = json.loads(used.printed)
    return used, found


def tshark(path: Path) -> Used:
    """tshark's own marks in a capture."""
    fields = ["-T", "fields", "-e", "tcp.stream", "-e", "tcp.seq"]
    return run(["tshark", "-n", "-r", str(path), "-Y", "tcp.analysis.retransmission", *fields])


@dataclass(frozen=True)
class Speed:
    """Packets per second of a program on one file, of processor time and of wall time; the best run."""

    processor: float
    wall: float

    @classmethod
    def of(cls, name: str, packets: int, runs: Sequence[Used]) -> Speed:
        """Print and return it."""
        best = cls(
            max(packets / used.processor_s for used in runs), max(packets / used.wall_s for used in runs)
        )
        print(
            f"{name:6} {packets:12,} packets: {best.processor:12,.0f} per second of processor time, "
            f"{best.wall:12,.0f} per second",
            flush=True,
        )
        return best


def speed(folder: Path, size_bytes: int, peer_bytes: int, repeats: int) -> dict[str, Any]:
    """Run ours on a large file, then ours and tshark alternately on a small one."""
    path = folder / "speed.pcap"
    truth = made(make(path, size_bytes))
    own: list[Used] = []
    for _ in range(repeats):
        used, found = ours(path)
        check_read(found, truth)
        own.append(used)
    large = Speed.of("ours", truth["packets"], own)
    small_truth = made(make(path, peer_bytes, folder / "drops"))
    agreement = agree(path, folder / "drops")
    small, peer, _ = alternately(path, repeats)
    path.unlink()
    ours_small = Speed.of("ours", small_truth["packets"], small)
    tshark_small = Speed.of("tshark", small_truth["packets"], peer) if peer else None
    return {
        "packets": truth["packets"],
        "packets_per_s": round(large.processor),
        "packets_per_s_of_wall_time": round(large.wall),
        "peer_packets": small_truth["packets"],
        "tshark_packets_per_s": tshark_small and round(tshark_small.processor),
        "vs_tshark": tshark_small and round(ours_small.processor / tshark_small.processor, 1),
        "vs_tshark_of_wall_time": tshark_small and round(ours_small.wall / tshark_small.wall, 1),
        "dropped": truth["dropped"],
        "inferred": found["losses"],
        **agreement,
    }


def agree(path: Path, drops: Path) -> dict[str, Any]:
    """The losses found in a capture beside the times of the segments that were dropped."""
    flows = losses_of(path).flows
    found = np.concatenate([flow.losses["sent_ns"].to_numpy() for flow in flows])
    dropped, sent_again = np.loadtxt(drops, delimiter=",", dtype=np.int64, unpack=True)
    # At the end of the capture some were not sent again yet, and may leave no trace in it.
    told = dropped[sent_again == 1]
    right, missed = np.isin(found, dropped), ~np.isin(told, found)
    print(
        f"ours   {len(found):,} losses found, {np.count_nonzero(~right):,} of them false; "
        f"of {len(told):,} that were sent again, {np.count_nonzero(missed):,} missed",
        flush=True,
    )
    return {
        "peer_dropped": len(told),
        "peer_inferred": len(found),
        # Not rounded: one false or missed loss misses the goal.
        "precision": float(np.mean(right)),
        "recall": float(np.mean(~missed)),
    }


def alternately(path: Path, repeats: int) -> tuple[list[Used], list[Used], dict[str, int]]:
    """Runs of ours and of tshark (none where it is not installed) on a capture, and what ours counted."""
    own: list[Used] = []
    peer: list[Used] = []
    counts: dict[str, int] = {}
    for _ in range(repeats):
        used, counts = ours(path)
        own.append(used)
        if shutil.which("tshark"):
            peer.append(tshark(path))
    return own, peer, counts


def foreign(folder: Path, captures: Sequence[Path], repeats: int) -> list[dict[str, Any]]:
    """Ours and tshark alternately on captures that others made, each whole and decompressed."""
    found = []
    for capture in captures:
        path = folder / "foreign.pcap"
        with (
            (lzma.open if capture.suffix == ".xz" else open)(capture, "rb") as file,
            path.open("wb") as whole,
        ):
            shutil.copyfileobj(file, whole)
        own, peer, counts = alternately(path, repeats)
        print(capture.name)
        packets = counts["records"]
        own_speed = Speed.of("ours", packets, own)
        tshark_speed = Speed.of("tshark", packets, peer) if peer else None
        found.append(
            {
                "capture": capture.name,
                "packets": packets,
                "losses": counts["losses"],
                "tshark_retransmissions": len(peer[-1].printed.splitlines()) if peer else None,
                "packets_per_s": round(own_speed.processor),
                "vs_tshark": tshark_speed and round(own_speed.processor / tshark_speed.processor, 1),
            }
        )
    return found


def check_read(found: dict[str, int], truth: dict[str, Any]) -> None:
    """Raise RuntimeError unless all records were read."""
    if found["records"] != truth["packets"]:
        raise RuntimeError(f"{found['records']} records of {truth['packets']} were read")


def memory(folder: Path, size_gb: float) -> tuple[int, float]:
    """Packets of a capture and the peak memory in MB while its losses are counted."""
    fifo = folder / "memory.pcap"
    os.mkfifo(fifo)
    source = make(fifo, round(size_gb * _GB))
    used, found = ours(fifo)
    truth = made(source)
    fifo.unlink()
    check_read(found, truth)
    print(f"ours   {size_gb:5} GB: {used.peak_mb:7,.0f} MB", flush=True)
    return truth["packets"], used.peak_mb


def cross_joins(folder: Path) -> list[tuple[int, float]]:
    """(packets, peak MB) of the published method on more and more packets; the first that fails ends it."""
    path = folder / "pandas.pcap"
    made(make(path, 10_000_000))
    fields = [
        word for name in ("frame.time_epoch", "ip.src", "tcp.dstport", "tcp.seq_raw") for word in ("-e", name)
    ]
    data = ["-Y", "ip && tcp.len > 0", "-T", "fields", "-E", "separator=,", *fields]
    rows = run(["tshark", "-n", "-r", str(path), *data]).printed.splitlines()
    path.unlink()
    measured = []
    for packets in _PANDAS_PACKETS:
        table = folder / "packets.csv"
        table.write_text("\n".join(rows[:packets]))
        used = run([sys.executable, "-c", _PANDAS, str(table)], _PANDAS_LIMIT_BYTES)
        if used.failed:
            print(
                f"pandas {packets:7,} packets: out of memory at {_PANDAS_LIMIT_BYTES // _GB} GB", flush=True
            )
            break
        print(f"pandas {packets:7,} packets: {used.peak_mb:7,.0f} MB", flush=True)
        measured.append((packets, used.peak_mb))
    return measured


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.pcap", description=__doc__)
    parser.add_argument(
        "--gb", type=float, default=SPEED_GB, help="size of the capture for speed (default: 2)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="of ours and of tshark (default: 3)")
    parser.add_argument(
        "--peer-gb",
        type=float,
        default=PEER_GB,
        help=f"size of the one that tshark reads too (default: {PEER_GB})",
    )
    parser.add_argument(
        "--memory-gb", type=float, nargs="+", default=MEMORY_GB, help="sizes (default: 0.2 2 10)"
    )
    parser.add_argument(
        "--capture",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="captures of others (pcap, pcap.xz)",
    )
    parser.add_argument("--csv", type=Path, help="write packets and peak memory there")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace) -> int:
    """Measure speed, then memory."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as name:
        folder = Path(name)
        figures = speed(folder, round(chosen.gb * _GB), round(chosen.peer_gb * _GB), chosen.repeats)
        peaks = [memory(folder, size_gb) for size_gb in sorted(chosen.memory_gb)]
        joins = cross_joins(folder) if shutil.which("tshark") else []
        figures["foreign"] = foreign(folder, chosen.capture, chosen.repeats)
    if chosen.csv:
        with chosen.csv.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("series", "packets", "peak_mb"))
            rows.writerows(("weir losses", *point) for point in peaks)
            rows.writerows(("pandas cross join", *point) for point in joins)
    figures["peak_mb_small"] = round(peaks[0][1], 1)
    figures["peak_mb_large"] = round(peaks[-1][1], 1)
    figures["pandas_most_packets"] = joins[-1][0] if joins else None
    figures["pandas_peak_mb"] = round(joins[-1][1]) if joins else None
    missed = [name for name, least in GOALS.items() if figures[name] is not None and figures[name] < least]
    for name in missed:
        print(f"missed: {name}: {figures[name]}, goal {GOALS[name]}")
    print(json.dumps(figures))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(options(sys.argv[1:])))
