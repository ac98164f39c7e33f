# SPDX-License-Identifier: Apache-2.0
"""The path between a sender and the policer: what other traffic there does to the times of packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.jitter import jitter_of
from weir.analysis.tables import Floats, Ints

SIGMA, MEMORY_S = 0.8, 0.002
"""Of the delays' logarithm, and the time over which that forgets to 1/e (a first-order autoregression)."""


def with_jitter(flow: FlowEvents, mean_s: float, rng: np.random.Generator) -> FlowEvents:
    """The flow as its sender sees it, if its times are those at the policer: each packet was sent earlier.

    Delays are log-normal with this mean; packets keep their order.
    """
    return flow if mean_s <= 0 else delayed(flow, mean_s, relative_delays(np.sort(flow.sent_ns), rng))


def relative_delays(met_ns: Ints, rng: np.random.Generator) -> Floats:
    """The delays of packets that met the policer at these times, ascending, as multiples of their mean."""
    return np.exp(SIGMA * _autoregression(met_ns, rng) - SIGMA**2 / 2)


def delayed(flow: FlowEvents, mean_s: float, relative: Floats) -> FlowEvents:
    """The flow with each packet, by time, sent earlier by its `relative` delay times `mean_s`, in order.

    The RTTs contain the delays, and `jitter_ns` is what they show of them.
    """
    order = np.argsort(flow.sent_ns, kind="stable")
    met_ns = flow.sent_ns[order]
    left_ns = np.sort(met_ns - (mean_s * 1e9 * relative).astype(np.int64))
    sampled = np.clip(np.searchsorted(met_ns, flow.rtt_sent_ns), 0, max(len(met_ns) - 1, 0))
    waited_ns = (met_ns - left_ns)[sampled] if len(met_ns) else flow.rtt_ns
    rtt_sent_ns, rtt_ns = flow.rtt_sent_ns - waited_ns, flow.rtt_ns + waited_ns
    return replace(
        flow,
        sent_ns=left_ns,
        size_bytes=flow.size_bytes[order],
        lost=flow.lost[order],
        min_rtt_ns=int(rtt_ns.min()) if len(rtt_ns) else flow.min_rtt_ns,
        jitter_ns=max(flow.jitter_ns, jitter_of(rtt_sent_ns, rtt_ns)),
        rtt_sent_ns=rtt_sent_ns,
        rtt_ns=rtt_ns,
    )


def _autoregression(at_ns: Ints, rng: np.random.Generator) -> Floats:
    """Normal values at these times, ascending, whose correlation falls by e in `MEMORY_S`."""
    kept = np.exp(-np.diff(at_ns, prepend=at_ns[:1]) / (MEMORY_S * 1e9))
    new = rng.standard_normal(len(at_ns))
    scale = np.sqrt(1 - kept**2)
    if len(at_ns):
        kept[0], scale[0] = 0.0, 1.0
    values, last = [], 0.0
    for keep, draw in zip(kept.tolist(), (scale * new).tolist(), strict=True):
        last = keep * last + draw
        values.append(last)
    return np.array(values)
