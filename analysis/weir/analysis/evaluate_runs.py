# SPDX-License-Identifier: Apache-2.0
"""Evaluates detectors of pairs on the captures of finished runs; the switch's configuration is the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.analysis.detectors import pair_detector
from weir.analysis.evaluate import JITTER_SEED, Trial, judged
from weir.analysis.pairs import PairEvents, events_of_pair
from weir.analysis.reports import join_run, read_run
from weir.analysis.result import pinned_clocks
from weir.analysis.run_data import Join
from weir.analysis.synthetic import with_jitter
from weir.analysis.validity import same_clock
from weir.rundir.manifest import Manifest, Pair, Phase


@dataclass(frozen=True)
class RunPair:
    """A pair of a run with its flows as their senders' captures show them, or why they cannot be judged."""

    manifest: Manifest
    phase: Phase
    pair: Pair
    events: PairEvents | str


def run_pairs(directory: Path, joiner: Join = join_run) -> Iterator[RunPair]:
    """The pairs of a run; `joiner` replaces `join_run`.

    Raises RunFileError for a run without its captures and reports, and `weir_core.CaptureError`.
    """
    data = read_run(directory, joiner)
    inside = [flow for flow in data.flows if flow.kind != "outside"]
    senders = {flow.src_host for flow in inside if flow.src_host}
    clocks = same_clock(pinned_clocks(inside), senders, data.clocks)
    flows = {flow.label: flow for flow in inside if flow.kind == "data"}
    for phase in data.manifest.phases:
        for pair in phase.pairs:
            yield RunPair(data.manifest, phase, pair, events_of_pair(pair, flows, clocks))


def judged_trials(
    directories: Iterable[Path],
    detectors: Sequence[str],
    joiner: Join = join_run,
    *,
    jitter_s: float = 0.0,
    seed: int = 0,
) -> Iterator[Trial]:
    """Judge each pair of each run again, from the senders' captures, with jitter of this mean added.

    `joiner` replaces `join_run`. Raises UnknownDetectorError before anything is read, and what `run_pairs`
    raises.
    """
    judges = {name: pair_detector(name) for name in detectors}
    for directory in directories:
        for found in run_pairs(directory, joiner):
            name, truth = found.manifest.name, found.pair.truth
            if isinstance(found.events, str):
                yield from (Trial(one, name, truth, "cannot_tell", None, None, 0.0) for one in judges)
                continue
            rng = np.random.default_rng([seed, JITTER_SEED])
            one, other = (with_jitter(flow, jitter_s, rng) for flow in found.events.inferred)
            for detector, judge in judges.items():
                yield judged(detector, judge, name, truth, one, other)
