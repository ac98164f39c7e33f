# SPDX-License-Identifier: Apache-2.0
"""How right the losses that a sender's capture shows are, packet by packet, beside the published rule.

The truth is the switch's drop reports and the receivers' captures. The published rule takes tshark's marks,
de-duplicated by sequence number, each as the loss of that number's first transmission. All its marks of older
data count: at a sender, what tshark calls out of order is a retransmission that came sooner than it expects.

Usage: python -m weir.bench.inference [options] [RUN ...]; the last line is JSON. Without runs it first makes
those of `experiments/inference.yaml`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weir.analysis.confusion import FalseInference, compare
from weir.analysis.conservation import in_flight, path_time_ns
from weir.analysis.reports import read_run
from weir.analysis.result import pinned_clocks
from weir.analysis.run_data import Directed
from weir.analysis.tables import TCP, Bools
from weir.bench.measuring import ROOT

EXPERIMENT = ROOT / "experiments" / "inference.yaml"
_FIELDS = ("ip.src", "ip.dst", "tcp.srcport", "tcp.dstport", "tcp.seq_raw")
_MARKS = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
_HEADINGS = (
    *("flows", "sent", "lost", "% lost", "of them again", "false pos.", "false neg.", "precision", "recall"),
    *("time error µs", "published: precision", "recall"),
)

Key = tuple[str, str, int, int]


@dataclass
class Judged:
    """The packets of one congestion control in one run, and the verdicts on their loss."""

    name: str
    sent: int = 0
    lost: int = 0
    lost_again: int = 0
    """Lost retransmissions."""
    hits: int = 0
    wrong: int = 0
    missed: int = 0
    published: int = 0
    published_hits: int = 0
    time_errors_s: list[float] = field(default_factory=list)
    """The median of each flow."""
    false: list[tuple[str, FalseInference]] = field(default_factory=list)
    """Each false inference with the flow's name."""

    @property
    def precision(self) -> float | None:
        """Precision of the inference."""
        return _ratio(self.hits, self.hits + self.wrong)

    @property
    def recall(self) -> float | None:
        """Recall of the inference."""
        return _ratio(self.hits, self.lost)

    @property
    def published_precision(self) -> float | None:
        """Precision of the published rule; None without tshark."""
        return _ratio(self.published_hits, self.published)

    @property
    def published_recall(self) -> float | None:
        """Recall of the published rule; None without tshark."""
        return _ratio(self.published_hits, self.lost) if self.published else None

    def line(self) -> str:
        """A row of a table in Markdown."""
        error_us = float(np.median(self.time_errors_s)) * 1e6 if self.time_errors_s else None
        cells = (
            self.name,
            f"{self.sent:,}",
            f"{self.lost:,}",
            f"{self.lost / max(1, self.sent) * 100:.1f}",
            f"{self.lost_again:,}",
            f"{self.wrong:,}",
            f"{self.missed:,}",
            _share(self.precision),
            _share(self.recall),
            "–" if error_us is None else f"{error_us:.0f}",
            _share(self.published_precision),
            _share(self.published_recall),
        )
        return "| " + " | ".join(cells) + " |"


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _share(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.4f}"


def marks(capture: Path) -> dict[Key, set[int]]:
    """The sequence numbers that tshark marks as retransmitted, by flow."""
    fields = [word for name in _FIELDS for word in ("-e", name)]
    only = ["-Y", " || ".join(f"tcp.analysis.{mark}" for mark in _MARKS)]
    command = ["tshark", "-n", "-r", str(capture), *only, "-T", "fields", *fields]
    found: dict[Key, set[int]] = defaultdict(set)
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        src, dst, src_port, dst_port, seq = line.split("\t")
        found[src, dst, int(src_port), int(dst_port)].add(int(seq))
    return found


def published(flow: Directed, again: set[int]) -> Bools:
    """The packets lost by the published rule: the first of each retransmitted sequence number."""
    packets = flow.packets
    data = np.flatnonzero(packets.payload_length > 0)
    _, first = np.unique(packets.seq[data], return_index=True)
    lost = np.zeros(len(packets), dtype=bool)
    lost[data[first]] = np.isin(packets.seq[data[first]], list(again))
    return lost


def label_of(run: Path) -> str:
    """The run's name; in a campaign, with the values of its cell."""
    manifest = json.loads((run / "manifest.json").read_text())
    cell = (manifest.get("campaign") or {}).get("cell") or {}
    return " ".join([manifest["name"], *(str(value) for value in cell.values())])


def judge(run: Path) -> Iterator[Judged]:
    """The TCP flows of a run, by phase and congestion control."""
    data = read_run(run)
    manifest = data.manifest
    flows = [flow for flow in data.flows if flow.kind == "data" and flow.row.protocol == TCP]
    clocks = pinned_clocks(flows)
    again: dict[Key, set[int]] = {}
    if shutil.which("tshark"):
        senders = {flow.src_host for flow in flows}
        for host in manifest.hosts:
            if host.name in senders:
                again.update(marks(run / host.pcap))
    groups: dict[str, Judged] = {}
    for flow in flows:
        if flow.configured is None or flow.phase is None:
            continue
        name = f"{label_of(run)}, {flow.phase.name}, {flow.configured.cc}"
        judged = groups.setdefault(name, Judged(name))
        packets, row = flow.packets, flow.row
        path_ns = path_time_ns(packets, row.min_rtt_ns or 0)
        flying = in_flight(packets, data.last_packet_ns, path_ns)
        clock = clocks.get(flow.src_host or "")
        found = compare(packets, flying, clock=None if clock is None else clock.fit)
        theirs = published(flow, again.get((row.src, row.dst, row.src_port, row.dst_port), set()))
        judged.sent += len(packets)
        judged.lost += found.true_positive + found.false_negative
        judged.lost_again += int((packets.dropped & packets.retransmission).sum())
        judged.hits += found.true_positive
        judged.wrong += found.false_positive
        judged.missed += found.false_negative
        judged.published += int(theirs.sum())
        judged.published_hits += int((theirs & packets.dropped).sum())
        if found.time_error_median_s is not None:
            judged.time_errors_s.append(found.time_error_median_s)
        judged.false += [(flow.label, false) for false in found.false_inferences]
    yield from groups.values()


def make(folder: Path, quick: bool) -> list[Path]:
    """Run the campaign of the experiment's file; return the directories of its runs."""
    command = [sys.executable, "-c", "from weir.cli.main import main; main()", "campaign", str(EXPERIMENT)]
    command += ["--runs", str(folder), "--json", *(["--quick"] if quick else [])]
    subprocess.run(command, check=True, stdout=sys.stderr)
    # A run has the name of its cell, the percentage first.
    runs = [path.parent for path in (folder / EXPERIMENT.stem).glob("*/manifest.json")]
    return sorted(runs, key=lambda run: (int(run.name.partition("_")[0]), run.name))


def summary(rows: list[Judged], invalid: int) -> dict[str, object]:
    """The JSON line: the worst of each figure over the rows, and the number of false inferences."""

    def worst(name: str) -> float | None:
        return min((value for row in rows if (value := getattr(row, name)) is not None), default=None)

    causes = Counter(f"{false.kind}: {false.cause}" for row in rows for _, false in row.false)
    counts = {name: sum(getattr(row, name) for row in rows) for name in ("sent", "lost", "wrong", "missed")}
    ratios = ("precision", "recall", "published_precision", "published_recall")
    return {
        **counts,
        **{name: None if worst(name) is None else round(worst(name) or 0.0, 5) for name in ratios},
        "causes": dict(causes.most_common()),
        "invalid_runs": invalid,
    }


def options(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.bench.inference", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*", help="directories of finished runs (default: new ones)")
    parser.add_argument("--keep", type=Path, help="make the runs there, and keep them")
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    return parser.parse_args(argv)


def main(chosen: argparse.Namespace) -> int:
    """Make the runs, print the table, then every false inference."""
    with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
        runs = chosen.runs or make(chosen.keep or Path(folder), chosen.quick)
        print("| " + " | ".join(_HEADINGS) + " |")
        print("| --- |" + " ---: |" * (len(_HEADINGS) - 1))
        rows: list[Judged] = []
        invalid = 0
        for run in runs:
            result = json.loads((run / "result.json").read_text())
            invalid += not result["valid"]
            for judged in judge(run):
                rows.append(judged)
                print(judged.line(), flush=True)
    print()
    for row in rows:
        for flow, false in row.false:
            print(f"- {row.name}, flow {flow}, sequence number {false.seq}: {false.kind}: {false.cause}")
    print(json.dumps(summary(rows, invalid)))
    return 0


if __name__ == "__main__":
    sys.exit(main(options(sys.argv[1:])))
