# SPDX-License-Identifier: Apache-2.0
"""Windows of features with their classes, to train and to judge a classifier by."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.analysis.classifier.network import window_means
from weir.analysis.features import NAMES
from weir.analysis.tables import Floats, Ints, read_parquet
from weir.rundir.directory import RunDirectory


@dataclass(frozen=True)
class Examples:
    """Windows of several runs."""

    classes: tuple[str, ...]
    windows: Floats
    """n × 5, as `NAMES`: means over each window."""
    labels: Ints
    """Each window's class, as index of `classes`."""
    runs: Ints
    """Each window's run, from 0. Windows of one run are alike, so no run is both trained on and judged by."""
    window_s: float


def examples_of(
    runs: Iterable[tuple[Path, str]], window_s: float, classes: tuple[str, ...] | None = None
) -> Examples:
    """The windows of runs, given as run directory and class; each flow of a run has windows of its own.

    Without `classes`, they are those of the runs, in order of appearance. Runs of other classes and those
    without features have no windows.
    """
    its = list(runs)
    classes = tuple(dict.fromkeys(label for _, label in its)) if classes is None else classes
    blocks: list[Floats] = [np.empty((0, len(NAMES)))]
    labels: list[int] = []
    numbers: list[int] = []
    for number, (run_dir, label) in enumerate(its):
        path = RunDirectory(run_dir).features
        if label not in classes or not path.is_file():
            continue
        table = read_parquet(path)
        for flow in dict.fromkeys(table["flow"].to_pylist()):
            mine = table.filter(np.array(table["flow"].to_pylist()) == flow)
            values = np.column_stack([mine[name].to_numpy().astype(np.float64) for name in NAMES])
            means = window_means(mine["time_ns"].to_numpy(), values, window_s)
            blocks.append(means)
            labels += [classes.index(label)] * len(means)
            numbers += [number] * len(means)
    return Examples(
        classes, np.concatenate(blocks), np.array(labels, dtype=np.int64), np.array(numbers), window_s
    )
