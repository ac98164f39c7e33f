# SPDX-License-Identifier: Apache-2.0
"""Records for the figures, one per flow and one per verdict, from runs or from captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weir.analysis.captures import traces_of
from weir.analysis.evaluate import score_of
from weir.analysis.models import FlowResult, LinkResult, PolicerResult
from weir.analysis.result_file import read_result
from weir.analysis.statistics import best_correlation, queueing_delay, retransmission_ratio
from weir.analysis.tables import Floats, read_parquet
from weir.analysis.traces import FlowTrace
from weir.rundir.directory import RunDirectory

MEASURED_SHARE = 0.05
"""A flow of a capture gets a record if it sent at least this share of the largest flow's payload."""


@dataclass(frozen=True)
class FlowRecord:
    """One flow of one run; values that were not measured are None.

    `factors` are the known conditions of the flow: `rate_mbps` and `buffer_kb` of its bottleneck (a policer's
    rate and burst, or a queue's rate and size), `rtt_ms` and `random_loss_percent`.
    """

    run: str
    scenario: str
    flow: str
    cc: str
    loss_ratio: float | None
    throughput_bps: float | None
    mean_delay_s: float | None
    retransmission_ratio: float | None
    min_rtt_s: float | None
    goodput_bps: float | None = None
    delays_s: Floats = field(default_factory=lambda: np.empty(0))
    """RTT above the smallest one: medians of intervals for a run, samples for a capture."""
    delivery_rates_bps: Floats = field(default_factory=lambda: np.empty(0))
    """Delivery rates of payload: samples of a capture at the sender, empty for a run."""
    factors: Mapping[str, float] = field(default_factory=dict)
    phase: str = ""
    """Its phase; flows of two phases are never at the same time, and a capture has one."""


@dataclass(frozen=True)
class PairRecord:
    """One detector's verdict on two flows; `correlation` is the best over all interval sizes."""

    run: str
    scenario: str
    detector: str
    truth: str
    verdict: str
    correlation: float | None
    score: float | None
    p: float | None


@dataclass(frozen=True)
class Records:
    """All flows and verdicts, and notes on their sources for the reader."""

    flows: tuple[FlowRecord, ...] = ()
    pairs: tuple[PairRecord, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: Records) -> Records:
        """Both together."""
        return Records(self.flows + other.flows, self.pairs + other.pairs, self.notes + other.notes)


def of_run(run_dir: Path, several_names: bool = True) -> Records:
    """The measured flows and the pairs of an analysed run; raises RunFileError.

    A scenario is an experiment's phase; `several_names` puts the experiment's name before it.
    """
    result = read_result(run_dir)
    delays = _delays(run_dir)

    def scenario(phase: str) -> str:
        return f"{result.name}: {phase}" if several_names else phase

    links = {link.host: link for link in result.links}
    rates = {(policer.phase, policer.name): policer for policer in result.policers}
    flows = []
    for flow in result.flows:
        if not flow.measured:
            continue
        policer = rates.get((flow.phase, flow.policer or ""))
        factors = _factors(flow, policer, links.get(flow.dst_host))
        its = delays.get((flow.phase, flow.id), np.empty(0))
        flows.append(_of_result(result.run_id, scenario(flow.phase), flow, its, factors))
    pairs = []
    for pair in result.pairs:
        score, p = score_of(pair.detail)
        sizes = [size for size in pair.detail.get("sizes", ()) if size.get("used", True)]
        best = (
            best_correlation(
                [size.get("rho", size.get("coefficient")) for size in sizes], [size["p"] for size in sizes]
            )
            if sizes
            else None
        )
        pairs.append(
            PairRecord(
                result.run_id, scenario(pair.phase), pair.detector, pair.truth, pair.verdict, best, score, p
            )
        )
    notes = () if result.valid else (f"{run_dir}: not valid: {'; '.join(result.invalid_reasons)}",)
    return Records(tuple(flows), tuple(pairs), notes)


def _factors(flow: FlowResult, policer: PolicerResult | None, link: LinkResult | None) -> dict[str, float]:
    """The conditions of a flow: those of its policer, else of the queue of its receiver's link."""
    factors: dict[str, float] = {}
    if policer is not None:
        factors["rate_mbps"] = policer.effective_rate_bps / 1e6
        factors["buffer_kb"] = policer.effective_burst_bytes / 1e3
    elif link is not None and link.rate_bps is not None:
        factors["rate_mbps"] = link.rate_bps / 1e6
        if link.queue_bytes is not None:
            factors["buffer_kb"] = link.queue_bytes / 1e3
    if flow.min_rtt_s is not None:
        factors["rtt_ms"] = round(flow.min_rtt_s * 1e3)
    if link is not None:
        factors["random_loss_percent"] = link.loss * 100
    return factors


def _of_result(
    run: str, scenario: str, flow: FlowResult, delays_s: Floats, factors: Mapping[str, float]
) -> FlowRecord:
    return FlowRecord(
        run=run,
        scenario=scenario,
        flow=flow.name,
        cc=flow.cc or "unknown",
        loss_ratio=flow.loss_ratio,
        throughput_bps=flow.throughput_bps,
        mean_delay_s=flow.mean_delay_s,
        retransmission_ratio=retransmission_ratio(min(flow.retransmissions, flow.sent), flow.sent),
        min_rtt_s=flow.min_rtt_s,
        goodput_bps=flow.goodput_bps,
        delays_s=delays_s,
        factors=factors,
        phase=flow.phase,
    )


def _delays(run_dir: Path) -> dict[tuple[str, str], Floats]:
    """Median RTTs of the intervals above the smallest one, by phase and flow."""
    path = RunDirectory(run_dir).series
    if not path.is_file():
        return {}
    table = read_parquet(path, filters=[("kind", "=", "rtt_s")])
    columns = [table[name].to_pylist() for name in ("phase", "subject", "value")]
    found: dict[tuple[str, str], list[float]] = {}
    for phase, subject, value in zip(*columns, strict=True):
        if value is not None and np.isfinite(value):
            found.setdefault((phase, subject), []).append(value)
    return {key: np.array(values) - min(values) for key, values in found.items()}


def of_capture(path: Path) -> Records:
    """The large flows of a capture, with their inferred losses; raises the errors of `traces_of`."""
    capture = traces_of(path)
    name = path.name.removesuffix(path.suffix) if path.suffix in (".xz", ".gz", ".zst", ".bz2") else path.name
    scenario = name.removesuffix(".pcap").removesuffix(".pcapng")
    largest = max((int(flow.payload_bytes.sum()) for flow in capture.flows), default=0)
    flows = [
        _of_trace(scenario, flow)
        for flow in capture.flows
        if flow.payload_bytes.sum() >= MEASURED_SHARE * largest
    ]
    return Records(tuple(flows), notes=capture.warnings)


def _of_trace(scenario: str, flow: FlowTrace) -> FlowRecord:
    data = flow.payload_bytes > 0
    seconds = float(flow.time_ns[data][-1] - flow.time_ns[data][0]) / 1e9
    passed = data & ~flow.lost
    new = np.unique(flow.seq[passed], return_index=True)[1]
    rtts = flow.rtt_ns / 1e9
    delay = queueing_delay(rtts)
    return FlowRecord(
        run=scenario,
        scenario=scenario,
        flow=flow.name,
        cc="unknown",
        loss_ratio=float(np.count_nonzero(flow.lost & data)) / int(np.count_nonzero(data)),
        throughput_bps=float(flow.frame_bytes[passed].sum()) * 8 / seconds if seconds else None,
        mean_delay_s=None if delay is None else delay.mean_s,
        retransmission_ratio=_sent_again(flow),
        min_rtt_s=float(rtts.min()) if len(rtts) else None,
        goodput_bps=float(flow.payload_bytes[passed][new].sum()) * 8 / seconds if seconds else None,
        delays_s=rtts - rtts.min() if len(rtts) else np.empty(0),
        delivery_rates_bps=flow.delivery_rates_bps,
        factors={"rtt_ms": float(round(rtts.min() * 1e3))} if len(rtts) else {},
    )


def _sent_again(flow: FlowTrace) -> float | None:
    """Data packets without new data ÷ data packets; None in a capture after the losses."""
    if flow.view == "received":
        return None
    data = flow.payload_bytes > 0
    end = flow.seq[data] + flow.payload_bytes[data]
    before = np.concatenate([[-1], np.maximum.accumulate(end)[:-1]])
    return retransmission_ratio(int(np.count_nonzero(end <= before)), len(end))
