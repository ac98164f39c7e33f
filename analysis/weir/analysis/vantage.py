# SPDX-License-Identifier: Apache-2.0
"""Where a capture saw a flow, and what it shows of it: all packets or some, an RTT, how exact times are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from weir.analysis.jitter import jitter_of
from weir.analysis.tables import FlowKey, reverse_of
from weir.analysis.timestamps import Timestamps, delay_jitter_ns, min_rtt_ns
from weir.analysis.traces import FlowTrace, View

COMPLETE = 0.95
"""The least share of a flow's payload; below it, too many holes are packets that the capture missed."""


@dataclass(frozen=True)
class Vantage:
    """The view, completeness, RTT and jitter of one flow in one capture; None where the capture has none.

    `complete` is the share of the flow's payload that the capture has; `jitter_ns` how much the delay between
    capture and policer varies (an upper bound); `rtt_from` and `jitter_from` what they were taken from.
    """

    flow: str
    view: View
    complete: float
    min_rtt_ns: int | None
    rtt_from: Literal["acks", "handshake", "timestamps"] | None
    jitter_ns: int | None
    jitter_from: Literal["rtts", "timestamps", "option"] | None

    def to_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)

    def obstacle(self, *, times_matter: bool) -> str | None:
        """Why no detector of pairs can judge the flow from this capture; None if one can."""
        if self.complete < COMPLETE:
            return missing(self.flow, self.complete)
        if self.min_rtt_ns is None:
            return (
                f"{self.flow}: the capture shows no RTT: it has neither data and ACKs at the sender, nor the "
                "SYN, nor timestamps of both directions"
            )
        if times_matter and self.jitter_ns is None:
            lacks = "ACKs" if self.view == "sent" else "TCP timestamps for 5 s"
            return (
                f"{self.flow}: the capture has no {lacks}, so it does not show how much the delay between it "
                "and the policer varies; give --jitter if you know"
            )
        return None


def missing(flow: str, complete: float) -> str:
    """Why a flow cannot be judged of which the capture missed too much."""
    return (
        f"{flow}: {1 - complete:.0%} of its bytes are in no captured packet (sampled, or too fast for the "
        "capture), so losses cannot be told from what was not captured"
    )


def vantage_of(
    flow: FlowTrace, stamps: Mapping[FlowKey, Timestamps], jitter_ns: int | None = None
) -> Vantage:
    """The vantage of a flow; `jitter_ns` replaces the jitter of its capture.

    `stamps` are the capture's timestamps of both directions; a flow in the view `sent` needs none.

    At the sender an RTT runs from data to its ACK, and its variation bounds that of the delay to the policer.
    Behind the policer, from an ACK to its echo; there the delay from the sender bounds that from the policer,
    and where only ACKs passed, the delay from the sender through the receiver, or their spacing.
    """
    rtt_ns: int | None = None
    rtt_from: Literal["acks", "handshake", "timestamps"] | None = None
    jitter_from: Literal["rtts", "timestamps", "option"] | None = None if jitter_ns is None else "option"
    data, acks = (
        Timestamps.none() if flow.view == "sent" else stamps.get(key, Timestamps.none())
        for key in (flow.key, reverse_of(flow.key))
    )
    if len(flow.rtt_ns):
        rtt_ns, rtt_from = int(flow.rtt_ns.min()), "acks"
    elif flow.handshake_ns is not None:
        rtt_ns, rtt_from = flow.handshake_ns, "handshake"
    else:
        rtt_ns = min_rtt_ns(data, acks)
        rtt_from = None if rtt_ns is None else "timestamps"
    if jitter_ns is None and len(flow.rtt_ns):
        jitter_ns, jitter_from = jitter_of(flow.rtt_sent_ns, flow.rtt_ns), "rtts"
    elif jitter_ns is None:
        jitter_ns = delay_jitter_ns(acks.echoed() if flow.view == "acked" else data)
        jitter_from = None if jitter_ns is None else "timestamps"
        if jitter_ns is not None:
            jitter_ns = max(jitter_ns, flow.time_error_ns)
    return Vantage(flow.name, flow.view, flow.complete, rtt_ns, rtt_from, jitter_ns, jitter_from)
