# SPDX-License-Identifier: Apache-2.0
"""Runs the detectors on each pair of a run, with the inferred losses and with the true drops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.analysis.clocks import AlignedClock
from weir.analysis.detectors import FlowEvents, pair_detector
from weir.analysis.models import PairResult
from weir.analysis.run_data import Directed
from weir.analysis.tables import Bools
from weir.rundir.manifest import Pair, Phase


def flow_events(flow: Directed, lost: Bools, fit: AlignedClock | None) -> FlowEvents | None:
    """The data packets of a flow, on the switch's clock if `fit` is given; None without an RTT."""
    if not flow.row.min_rtt_ns:
        return None
    data = flow.packets.payload_length > 0
    sent, rtt_sent = flow.packets.sent_ns, flow.rtts.time_ns - flow.rtts.rtt_ns
    if fit is not None:
        sent, rtt_sent = fit.to_target(sent), fit.to_target(rtt_sent)
    return FlowEvents(
        sent[data],
        flow.packets.payload_length[data],
        lost[data],
        flow.row.min_rtt_ns,
        jitter_ns=0 if fit is None else fit.jitter_ns,
        rtt_sent_ns=rtt_sent,
        rtt_ns=flow.rtts.rtt_ns,
    )


@dataclass(frozen=True)
class PairEvents:
    """The detectors' input for two flows: with the inferred losses, and with the reported drops."""

    inferred: tuple[FlowEvents, FlowEvents]
    true: tuple[FlowEvents, FlowEvents]
    on_switch_clock: bool
    """Both flows are on the switch's clock; otherwise each is on its sender's."""

    @property
    def all_inferred(self) -> bool:
        """Whether exactly the packets that the switch dropped were inferred to be lost."""
        views = zip(self.inferred, self.true, strict=True)
        return all(np.array_equal(inferred.lost, true.lost) for inferred, true in views)


def events_of_pair(
    pair: Pair, flows: Mapping[str, Directed], fits: Mapping[str, AlignedClock]
) -> PairEvents | str:
    """The two flows of a pair, or the reason why they cannot be judged."""
    unseen = [flow for flow in pair.flows if flow not in flows]
    if unseen:
        return f"no packet of {' and '.join(unseen)} in the captures"
    one, other = flows[pair.flows[0]], flows[pair.flows[1]]
    # Both on the switch's clock or both on their senders' clocks, never one of each.
    common = [fits.get(flow.src_host or "") for flow in (one, other)]
    if None in common:
        common = [None, None]
    inferred = [flow_events(f, f.packets.inferred_lost, c) for f, c in zip((one, other), common, strict=True)]
    true = [flow_events(f, f.packets.dropped, c) for f, c in zip((one, other), common, strict=True)]
    a, b, true_a, true_b = *inferred, *true
    if a is None or b is None or true_a is None or true_b is None:
        return "no RTT sample of one of the flows, so there is no interval size"
    return PairEvents((a, b), (true_a, true_b), common[0] is not None)


def pair_results(
    phase: Phase,
    pair: Pair,
    flows: Mapping[str, Directed],
    fits: Mapping[str, AlignedClock],
    detectors: Sequence[str],
) -> Sequence[PairResult]:
    """One result per detector. Raises UnknownDetectorError."""
    events = events_of_pair(pair, flows, fits)
    return [_judge(name, phase, pair, events) for name in detectors]


def _judge(name: str, phase: Phase, pair: Pair, events: PairEvents | str) -> PairResult:
    detect = pair_detector(name)
    if isinstance(events, str):
        return PairResult(
            phase=phase.name,
            flows=pair.flows,
            truth=pair.truth,
            detector=name,
            verdict="cannot_tell",
            reason=events,
            detail={},
        )
    found = detect(*events.inferred)
    # The two views often agree about every packet, and the search for buckets takes seconds.
    given_truth = found if events.all_inferred else detect(*events.true)
    return PairResult(
        phase=phase.name,
        flows=pair.flows,
        truth=pair.truth,
        detector=name,
        verdict=found.verdict,
        reason=found.reason,
        detail={
            **found.detail(),
            "clock": "switch" if events.on_switch_clock else "each sender's own",
            "switch_view": {"verdict": given_truth.verdict, "reason": given_truth.reason},
        },
    )
