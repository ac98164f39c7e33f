# SPDX-License-Identifier: Apache-2.0
"""Evaluates detectors of pairs on the captures of finished runs; the switch's configuration is the truth."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from weir.analysis.detectors import pair_detector
from weir.analysis.evaluate import JITTER_SEED, Trial, score_of
from weir.analysis.pairs import events_of_pair
from weir.analysis.reports import join_run, read_run
from weir.analysis.result import pinned_clocks
from weir.analysis.run_data import Join
from weir.analysis.synthetic import with_jitter
from weir.analysis.validity import same_clock


def judged_trials(
    directories: Iterable[Path],
    detectors: Sequence[str],
    joiner: Join = join_run,
    *,
    jitter_s: float = 0.0,
    seed: int = 0,
) -> Iterator[Trial]:
    """Judge each pair of each run again, from the senders' captures, with jitter of this mean added.

    `joiner` replaces `join_run`. Raises UnknownDetectorError before anything is read, RunFileError
    for a run without its captures and reports, and `weir_core.CaptureError`.
    """
    judges = {name: pair_detector(name) for name in detectors}
    for directory in directories:
        data = read_run(directory, joiner)
        manifest = data.manifest
        inside = [flow for flow in data.flows if flow.kind != "outside"]
        clocks = same_clock(pinned_clocks(inside), {flow.src_host for flow in inside if flow.src_host})
        flows = {flow.label: flow for flow in inside if flow.kind == "data"}
        for phase in manifest.phases:
            for pair in phase.pairs:
                events = events_of_pair(pair, flows, clocks)
                rng = np.random.default_rng([seed, JITTER_SEED])
                seen = () if isinstance(events, str) else events.inferred
                jittered = [with_jitter(flow, jitter_s, rng) for flow in seen]
                for name, judge in judges.items():
                    if isinstance(events, str):
                        yield Trial(name, manifest.name, pair.truth, "cannot_tell", None, None, 0.0)
                        continue
                    begun = time.process_time()
                    found = judge(*jittered)
                    cost = time.process_time() - begun
                    score, p = score_of(found.detail())
                    yield Trial(name, manifest.name, pair.truth, found.verdict, score, p, cost)
