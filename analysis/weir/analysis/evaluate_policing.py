# SPDX-License-Identifier: Apache-2.0
"""Evaluates detectors of policing where the truth is known: verdicts, and errors of rate and burst."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weir.analysis.detectors.policing import POLICING_DETECTORS, FlowVerdict
from weir.analysis.statistics.proportions import Share, share
from weir.analysis.synthetic.bottleneck import FRAME
from weir.analysis.synthetic.single import SINGLE_KINDS, draw_single

UNDECIDED = ("insufficient_loss", "cannot_tell")
RATE_WITHIN, BURST_WITHIN = 0.05, 0.10


@dataclass(frozen=True)
class PolicingTrial:
    """One verdict on one flow; errors are relative to the truth, None unless both name a policer."""

    detector: str
    kind: str
    """The kind of simulated flows, or the name of the run."""
    flow: str
    policed: bool
    verdict: str
    rate_error: float | None
    burst_error: float | None
    burst_near: bool | None
    """Whether the burst is within 10 % or one frame of the truth."""
    rate_held: bool | None
    """Whether the detector's 95 % interval holds the true rate; None where it gives no interval."""
    burst_held: bool | None
    """The same for the burst; an interval without upper end is only bounded below."""
    cpu_s: float


@dataclass(frozen=True)
class PolicingEvaluation:
    """A detector's results over the trials of one kind; shares are of the verdicts that decide."""

    detector: str
    kind: str
    trials: int
    undecided: int
    wrong: Share
    rate_near: Share
    burst_near: Share
    rate_held: Share
    burst_held: Share
    rate_error_p95: float | None
    burst_error_p95: float | None
    cpu_s: float

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def policing_trials(
    detector: str, runs: int, seconds: float, seed: int = 0, jitter_s: float = 0.0
) -> Iterator[PolicingTrial]:
    """Judge `runs` draws of every kind, with jitter of this mean; raises KeyError for an unknown detector."""
    judge = POLICING_DETECTORS[detector]
    for kind in SINGLE_KINDS:
        for run in range(runs):
            truth = draw_single(kind, seed + run, seconds, jitter_s)
            begun = time.process_time()
            verdicts = judge(truth.flows)
            cost = (time.process_time() - begun) / len(verdicts)
            bucket = None
            if truth.rate_bps is not None and truth.burst_bytes is not None:
                bucket = (truth.rate_bps, truth.burst_bytes)
            for found in verdicts:
                yield policing_trial(detector, kind, found.flow, found, bucket, cost)


def policing_trial(
    detector: str, kind: str, flow: str, found: FlowVerdict, bucket: tuple[float, float] | None, cpu_s: float
) -> PolicingTrial:
    """Compare a verdict with the rate (bit/s) and burst (bytes) of the flow's policer; None: no policer."""
    rate = burst = near = None
    rate_held = burst_held = None
    if bucket is not None and found.rate_bps is not None and found.burst_bytes is not None:
        true_rate, true_burst = bucket
        rate = abs(found.rate_bps / true_rate - 1)
        off = abs(found.burst_bytes - true_burst)
        burst = off / true_burst if true_burst else None
        near = bool(off <= max(BURST_WITHIN * true_burst, FRAME))
        rate_held = _held(found.detail.get("rate_bps_95"), true_rate)
        burst_held = _held(found.detail.get("burst_bytes_95"), true_burst)
    return PolicingTrial(
        detector,
        kind,
        flow,
        bucket is not None,
        found.verdict,
        rate,
        burst,
        near,
        rate_held,
        burst_held,
        cpu_s,
    )


def _held(ends: object, truth: float) -> bool | None:
    if not isinstance(ends, list):
        return None
    return bool(ends[0] <= truth and (ends[1] is None or truth <= ends[1]))


def evaluate_policing(trials: list[PolicingTrial]) -> list[PolicingEvaluation]:
    """One evaluation per detector and kind."""
    keys = dict.fromkeys((trial.detector, trial.kind) for trial in trials)
    return [
        _evaluation(detector, kind, [t for t in trials if (t.detector, t.kind) == (detector, kind)])
        for detector, kind in keys
    ]


def _evaluation(detector: str, kind: str, trials: list[PolicingTrial]) -> PolicingEvaluation:
    decided = [trial for trial in trials if trial.verdict not in UNDECIDED]
    wrong = sum((trial.verdict == "policed") != trial.policed for trial in decided)
    rates = [trial.rate_error for trial in decided if trial.rate_error is not None]
    bursts = [trial.burst_error for trial in decided if trial.burst_error is not None]
    near = [trial.burst_near for trial in decided if trial.burst_near is not None]
    rates_held = [trial.rate_held for trial in decided if trial.rate_held is not None]
    bursts_held = [trial.burst_held for trial in decided if trial.burst_held is not None]
    return PolicingEvaluation(
        detector=detector,
        kind=kind,
        trials=len(trials),
        undecided=len(trials) - len(decided),
        wrong=share(wrong, len(decided)),
        rate_near=share(sum(error <= RATE_WITHIN for error in rates), len(rates)),
        burst_near=share(sum(near), len(near)),
        rate_held=share(sum(rates_held), len(rates_held)),
        burst_held=share(sum(bursts_held), len(bursts_held)),
        rate_error_p95=float(np.percentile(rates, 95)) if rates else None,
        burst_error_p95=float(np.percentile(bursts, 95)) if bursts else None,
        cpu_s=float(np.mean([trial.cpu_s for trial in trials])) if trials else 0.0,
    )
