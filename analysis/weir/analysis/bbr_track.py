# SPDX-License-Identifier: Apache-2.0
"""The states, estimates and bounds of one BBR flow over time, from the samples of its socket.

BBRv3 tells the kernel its state; that of BBRv1 follows from its gains (tcp_bbr.c of Linux: 739/256 in
STARTUP, 88/256 in DRAIN, a cwnd gain of 1 in PROBE_RTT, and 1.25, 0.75 and 1 in PROBE_BW).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Values = NDArray[np.float64]

STARTUP, DRAIN, PROBE_RTT = "STARTUP", "DRAIN", "PROBE_RTT"
UP, DOWN, CRUISE, REFILL = "PROBE_UP", "PROBE_DOWN", "PROBE_CRUISE", "PROBE_REFILL"
PROBE_BW = frozenset({UP, DOWN, CRUISE, REFILL})
_STARTUP_GAIN, _DRAIN_GAIN = 739 / 256, 88 / 256
_PHASE_OF_GAIN = {_STARTUP_GAIN: STARTUP, _DRAIN_GAIN: DRAIN, 1.25: UP, 0.75: DOWN, 1.0: CRUISE}
_NS = 1e9


@dataclass(frozen=True)
class Stay:
    """Consecutive samples in one state: those with numbers from `begin` to before `end`."""

    state: str
    begin: int
    end: int


@dataclass(frozen=True)
class BbrTrack:
    """Samples of one flow in order of time; arrays of one shape, NaN where a value is not known or set."""

    time_s: Values
    """Since the start of its phase."""
    version: int
    """1 if the kernel does not say it."""
    states: tuple[str, ...]
    pacing_gain: Values
    bandwidth_bps: Values
    """By which BBR computes its pacing rate: the maximum, or a lower short-term bound of BBRv3."""
    max_bw_bps: Values
    """BBR.max_bw; the same as `bandwidth_bps` in BBRv1."""
    min_rtt_s: Values
    in_flight: Values
    """In segments, as are the following."""
    cwnd: Values
    inflight_shortterm: Values
    inflight_longterm: Values
    extra_acked: Values
    bw_shortterm_bps: Values
    delivered: Values
    """Segments that arrived so far, as are the retransmitted ones."""
    retransmitted: Values

    @cached_property
    def stays(self) -> tuple[Stay, ...]:
        """The states one after the other."""
        changes = [n for n in range(1, len(self.states)) if self.states[n] != self.states[n - 1]]
        bounds = [0, *changes, len(self.states)]
        pairs = itertools.pairwise(bounds)
        return tuple(Stay(self.states[begin], begin, end) for begin, end in pairs if end > begin)

    def bdp(self, segment_bytes: float) -> Values:
        """BBRInflight(1.0): maximum bandwidth times minimum RTT, in segments of so many bytes of payload."""
        return np.asarray(self.max_bw_bps * self.min_rtt_s / 8 / segment_bytes)

    def index_at(self, time_s: float) -> int:
        """The first sample at or after a time."""
        return int(np.searchsorted(self.time_s, time_s))

    def rounds(self, begin: int, end: int) -> list[int]:
        """Ends of the round trips from sample `begin` to before `end`: what was in flight is delivered."""
        ends: list[int] = []
        at = begin
        while True:
            if self.in_flight[at] <= 0:  # an idle flow has no round trips
                at += 1
            else:
                target = self.delivered[at] + self.in_flight[at]
                at = max(at + 1, int(np.searchsorted(self.delivered, target)))
                if at < end:
                    ends.append(at)
            if at >= end:
                return ends

    def delivery_rate_bps(self, begin_s: float, end_s: float, segment_bytes: float) -> float:
        """Rate of the segments delivered between two times, as payload; NaN without samples."""
        its = np.flatnonzero((self.time_s >= begin_s) & (self.time_s <= end_s))
        if len(its) < 2:
            return float("nan")
        segments = self.delivered[its[-1]] - self.delivered[its[0]]
        return float(segments * segment_bytes * 8 / (self.time_s[its[-1]] - self.time_s[its[0]]))


def bbr_track(rows: Sequence[dict[str, Any]], start_ns: int) -> BbrTrack | None:
    """The track of a flow from its rows of `sockets.parquet`; None if BBR never had an estimate.

    `start_ns` is the start of its phase.
    """
    known = [row for row in rows if row["bbr_bandwidth_bps"] and row["bbr_pacing_gain"]]
    if not known:
        return None

    def values(of: Callable[[dict[str, Any]], float | None]) -> Values:
        return np.array([np.nan if (value := of(row)) is None else float(value) for row in known])

    def column(name: str) -> Values:
        return values(lambda row: row.get(name))

    return BbrTrack(
        time_s=(column("time_ns") - start_ns) / _NS,
        version=next((row["bbr_version"] for row in known if row.get("bbr_version")), 1),
        states=tuple(_state(row) for row in known),
        pacing_gain=column("bbr_pacing_gain"),
        bandwidth_bps=column("bbr_bandwidth_bps"),
        max_bw_bps=values(lambda row: row.get("bbr_max_bw_bps") or row["bbr_bandwidth_bps"]),
        min_rtt_s=column("bbr_min_rtt_ns") / _NS,
        in_flight=column("in_flight"),
        cwnd=column("cwnd"),
        inflight_shortterm=column("bbr_inflight_shortterm"),
        inflight_longterm=column("bbr_inflight_longterm"),
        extra_acked=column("bbr_extra_acked"),
        bw_shortterm_bps=column("bbr_bw_shortterm_bps"),
        delivered=column("delivered"),
        retransmitted=column("retrans_total"),
    )


def read_bbr_track(sockets: Path, src_port: int, dst_port: int, start_ns: int) -> BbrTrack | None:
    """The track of the flow between these ports; None if `sockets.parquet` has no estimate of its BBR."""
    filters = [("src_port", "==", src_port), ("dst_port", "==", dst_port)]
    return bbr_track(pq.read_table(sockets, filters=filters).to_pylist(), start_ns)


def _state(row: dict[str, Any]) -> str:
    if row.get("bbr_phase"):
        return str(row["bbr_phase"])
    pacing_gain, cwnd_gain = row["bbr_pacing_gain"], row["bbr_cwnd_gain"]
    if cwnd_gain == 1.0:
        return PROBE_RTT
    return _PHASE_OF_GAIN.get(pacing_gain, "")
