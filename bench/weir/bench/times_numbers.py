# SPDX-License-Identifier: Apache-2.0
"""The numbers of a run of `bench/times.yaml`, and their comparison between two times."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import false_discovery_control

from weir.analysis.statistics import cliffs_delta, jain_index, kolmogorov_smirnov
from weir.api.run import Run
from weir.rundir.whole_files import write_whole

THIN = "thin"
BASE_RTT_NS = 20_000_000
"""Round-trip time of every flow with empty queues, by the delays in the file."""
BURST_GAP_NS = 20_000
"""Frames of a flow that leave its host less than this apart are one burst; 20 Mbit/s are 600 µs a frame."""
METRICS = {
    "goodput": "Mbit/s",
    "Jain's index": "of two",
    "loss": "%",
    "RTT, median": "ms",
    "RTT, 99 %": "ms",
    "uncongested RTT, median": "µs over 20 ms",
    "uncongested RTT, 99 %": "µs over 20 ms",
    "burst, mean": "frames",
    "burst, 99 %": "frames",
    "gap in bursts, median": "µs",
    "wehey_loss_trend: rho": "",
    "shared: z": "",
    "rfc8382: grouped": "%",
    "loss-spearman: rho": "",
    "throughput-spearman: rho": "",
    "delay-spearman: rho": "",
}
"""Number of a run → its unit. Those of the measured flows are of both together; the goodput is their mean."""
Numbers = Mapping[str, float | None]


def numbers_of(run: Run) -> dict[str, float | None]:
    """All numbers of a run whose captures are there; None where a run has too few losses for one."""
    every = run.flows.arrow().to_pylist()
    flows = [flow for flow in every if flow["measured"]]
    measured = [flow["id"] for flow in flows]
    thin = [flow["id"] for flow in every if flow["name"] == THIN]
    found: dict[str, float | None] = {
        "goodput": statistics.fmean(flow["goodput_bps"] for flow in flows) / 1e6,
        "Jain's index": jain_index([flow["goodput_bps"] for flow in flows]),
        "loss": 100 * _sum(flows, "reported_drops") / _sum(flows, "sent"),
    }
    rtts = run.rtts.arrow()
    for name, ids, base_ns, unit_ns in (
        ("RTT", measured, 0, 1e6),
        ("uncongested RTT", thin, BASE_RTT_NS, 1e3),
    ):
        rtt_ns = rtts.filter(_is_any(rtts["flow"], ids))["rtt_ns"].to_numpy() - base_ns
        found[f"{name}, median"] = float(np.median(rtt_ns)) / unit_ns
        found[f"{name}, 99 %"] = float(np.percentile(rtt_ns, 99)) / unit_ns
    return found | _bursts(run, measured) | _detectors(run)


def _is_any(column: pa.ChunkedArray, ids: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(column.cast(pa.string()), value_set=pa.array(ids, pa.string()))


def _bursts(run: Run, flows: Sequence[str]) -> dict[str, float | None]:
    packets = run.packets.arrow()
    lengths, gaps = [], []
    for flow in flows:
        its = packets.filter(_is_any(packets["flow"], [flow]))
        gap_ns = np.diff(np.sort(its["sent_ns"].to_numpy()))
        ends = np.flatnonzero(gap_ns >= BURST_GAP_NS)
        lengths.append(np.diff(np.concatenate(([-1], ends, [len(gap_ns)]))))
        gaps.append(gap_ns[gap_ns < BURST_GAP_NS])
    bursts, inside_ns = np.concatenate(lengths), np.concatenate(gaps)
    return {
        "burst, mean": float(bursts.mean()),
        "burst, 99 %": float(np.percentile(bursts, 99)),
        "gap in bursts, median": float(np.median(inside_ns)) / 1e3 if len(inside_ns) else None,
    }


def _detectors(run: Run) -> dict[str, float | None]:
    details: dict[str, Mapping[str, Any]] = {pair.detector: dict(pair.detail) for pair in run.result.pairs}
    trend, rfc = details.get("wehey_loss_trend", {}), details.get("rfc8382", {})
    rhos = [size["rho"] for size in trend.get("sizes", ()) if size["rho"] is not None]
    found: dict[str, float | None] = {
        "wehey_loss_trend: rho": statistics.median(rhos) if rhos else None,
        "shared: z": (details.get("shared", {}).get("memory") or {}).get("z"),
    }
    grouped, intervals = rfc.get("grouped"), rfc.get("intervals")
    found["rfc8382: grouped"] = None if not intervals or grouped is None else 100 * grouped / intervals
    for kind in ("loss", "throughput", "delay"):
        found[f"{kind}-spearman: rho"] = details.get(f"{kind}-spearman", {}).get("rho")
    return found


def _sum(flows: Iterable[Mapping[str, Any]], key: str) -> float:
    return float(sum(flow[key] for flow in flows))


class Kept:
    """Numbers of runs in a file: reading a run's captures takes seconds."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it is there."""
        self._path = path
        self._kept: dict[str, dict[str, float | None]] = (
            json.loads(path.read_text()) if path.is_file() else {}
        )

    def of(self, run: Run) -> Numbers:
        """The numbers of a run, computed if they are not in the file yet."""
        key = f"{run.path.name} {run.run_id}"
        if set(self._kept.get(key, ())) != set(METRICS):
            self._kept[key] = numbers_of(run)
            write_whole(self._path, json.dumps(self._kept, indent=1).encode())
        return self._kept[key]


@dataclass(frozen=True)
class Comparison:
    """One number of one cell in two times."""

    cell: str
    metric: str
    runs: tuple[int, int]
    medians: tuple[float, float]
    ks: float
    p: float
    delta: float
    """Cliff's delta: 1 if every value of the first time exceeds all of the second."""
    q: float = 1.0
    """p after the correction of Benjamini and Hochberg over all comparisons."""

    @property
    def size(self) -> str:
        """The effect in words (J. Romano et al., 2006)."""
        words = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"), (1.1, "large"))
        return next(word for limit, word in words if abs(self.delta) < limit)


Samples = Mapping[str, Mapping[str, Sequence[Numbers]]]
"""Cell → time → the numbers of its runs."""


def values(samples: Samples, cell: str, time: str, metric: str) -> list[float]:
    """One number of all runs that have it."""
    found = (numbers[metric] for numbers in samples[cell].get(time, ()))
    return [value for value in found if value is not None]


def compared(samples: Samples, times: tuple[str, str]) -> list[Comparison]:
    """Every number in every cell; those with fewer than two values in one of the times are left out."""
    found = []
    for cell in samples:
        for metric in METRICS:
            a, b = (values(samples, cell, time, metric) for time in times)
            if min(len(a), len(b)) < 2:
                continue
            test, delta = kolmogorov_smirnov(a, b), cliffs_delta(a, b)
            assert test is not None
            assert delta is not None
            medians = (statistics.median(a), statistics.median(b))
            found.append(Comparison(cell, metric, (len(a), len(b)), medians, test.statistic, test.p, delta))
    corrected = false_discovery_control([each.p for each in found]) if found else []
    return [
        Comparison(e.cell, e.metric, e.runs, e.medians, e.ks, e.p, e.delta, float(q))
        for e, q in zip(found, corrected, strict=True)
    ]
