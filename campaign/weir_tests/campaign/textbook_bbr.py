# SPDX-License-Identifier: Apache-2.0
"""Samples of a BBR flow that goes through given states, in the form of `sockets.parquet`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

RTT_S, SAMPLE_S = 0.1, 0.005
RATE_BPS = 20_000_000 * 1448 / 1514
"""Payload of a link of 20 Mbit/s."""
BDP = RATE_BPS * RTT_S / 8 / 1448
"""In segments."""
_PACING = {"STARTUP": 2.77, "DRAIN": 0.5, "PROBE_UP": 1.25, "PROBE_DOWN": 0.9}


@dataclass(frozen=True)
class Step:
    """Some round trips in one state. Inflight and window in BDP, bandwidth in that of the link."""

    state: str
    rounds: float
    inflight: tuple[float, float] = (1.0, 1.0)
    """At its begin and end."""
    bandwidth: float = 1.0
    cwnd: float = 2.0
    pacing_gain: float | None = None
    longterm: int | None = None
    shortterm: int | None = None
    extra_acked: int = 4
    retransmitted: int = 0
    """Segments, in its middle."""


STARTUP = (
    *(Step("STARTUP", 1, (share, 2 * share), share) for share in (0.125, 0.25, 0.5)),
    Step("STARTUP", 4, (1, 2)),
)
DRAIN = Step("DRAIN", 1, (2, 1))
CYCLE = (
    Step("PROBE_CRUISE", 18),
    Step("PROBE_REFILL", 1),
    Step("PROBE_UP", 4, (1, 1.9)),
    Step("PROBE_DOWN", 6, (1.9, 1)),
    Step("PROBE_CRUISE", 9),
    Step("PROBE_RTT", 2.5, (0.5, 0.5), cwnd=0.5),
)
TEXTBOOK = (*STARTUP, DRAIN, *CYCLE, *CYCLE, Step("PROBE_CRUISE", 20))


def samples(*steps: Step, start_ns: int = 0, version: int = 3) -> list[dict[str, Any]]:
    """The rows of a flow that begins at `start_ns`; its RTT does not change."""
    rows: list[dict[str, Any]] = []
    delivered = retransmitted = 0.0
    for step in steps:
        count = round(step.rounds * RTT_S / SAMPLE_S)
        for number in range(count):
            inflight = BDP * (
                step.inflight[0] + (step.inflight[1] - step.inflight[0]) * number / max(count - 1, 1)
            )
            if number == count // 2:
                retransmitted += step.retransmitted
            row = {
                "time_ns": start_ns + round(len(rows) * SAMPLE_S * 1e9),
                "bbr_bandwidth_bps": RATE_BPS * step.bandwidth,
                "bbr_max_bw_bps": RATE_BPS * step.bandwidth,
                "bbr_min_rtt_ns": round(RTT_S * 1e9),
                "rtt_ns": round(RTT_S * 1e9),
                "bbr_pacing_gain": step.pacing_gain or _PACING.get(step.state, 1.0),
                "bbr_cwnd_gain": 2.0,
                "bbr_version": version,
                "bbr_phase": step.state,
                "in_flight": round(inflight),
                "cwnd": round(step.cwnd * BDP),
                "delivered": round(delivered),
                "retrans_total": round(retransmitted),
                "bbr_inflight_shortterm": step.shortterm,
                "bbr_inflight_longterm": step.longterm,
                "bbr_extra_acked": step.extra_acked,
                "bbr_bw_shortterm_bps": None,
            }
            rows.append(row)
            delivered += min(inflight, step.bandwidth * BDP) * SAMPLE_S / RTT_S
    return rows
