# SPDX-License-Identifier: Apache-2.0
"""Paths that aggregate ACKs, change, police or reorder, and such with less than a packet in flight."""

from __future__ import annotations

import itertools
import math

import numpy as np

from weir.analysis.bbr_track import (
    CRUISE,
    PROBE_BW,
    PROBE_RTT,
    STARTUP,
    UP,
    BbrTrack,
)
from weir.campaign.studies.bbr_cases.model import (
    GROWTH,
    Conditions,
    Criterion,
    first_end,
    unseen,
)
from weir.campaign.studies.runs import SEGMENT_BYTES

_MIN_PIPE_CWND = 4
_LOSS_THRESHOLD = 0.02
_LAST_S = 10.0
"""The end of a run, in which a flow is at rest."""
_SETTLED_S = 3.0
"""Time from a disturbance until everything must be as before."""


def aggregation_startup(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """STARTUP finds the bandwidth although ACKs come in bursts."""
    found = first_end(track, STARTUP)
    if found is None:
        return [unseen("STARTUP finds the bandwidth", "STARTUP does not end")]
    stay, _ = found
    last = stay.end - 1
    bandwidth, cwnd = float(track.max_bw_bps[last]), float(track.cwnd[last])
    twice = 2 * path.rate_bps * float(track.min_rtt_s[last]) / 8 / SEGMENT_BYTES
    return [
        _extra_acked(track, stay.begin, stay.end),
        Criterion(
            "the window is more than 2 BDP", cwnd > twice, f"{cwnd:.0f} segments; 2 BDP are {twice:.0f}"
        ),
        Criterion(
            "STARTUP finds the full bandwidth (98 %)",
            bandwidth >= 0.98 * path.rate_bps,
            f"{bandwidth / 1e6:.2f} of {path.rate_bps / 1e6:.2f} Mbit/s",
        ),
    ]


def _extra_acked(track: BbrTrack, begin: int, end: int) -> Criterion:
    says = "extra_acked is measured"
    its = track.extra_acked[begin:end]
    if np.isnan(its).all():
        return unseen(says, "this kernel does not tell it")
    return Criterion(says, float(np.nanmax(its)) > 0, f"up to {np.nanmax(its):.0f} segments")


def aggregation_cruise(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """The link stays full although ACKs come in bursts."""
    says = "the link stays full in PROBE_CRUISE (95 %)"
    stays = track.stays
    # After PROBE_RTT the pipe is not full yet.
    cruises = [
        after
        for before, after in itertools.pairwise(stays)
        if after.state == CRUISE and before.state != PROBE_RTT
    ]
    if not cruises:
        return [unseen(says, "no PROBE_CRUISE")]
    segments = sum(float(track.delivered[stay.end - 1] - track.delivered[stay.begin]) for stay in cruises)
    time_s = sum(float(track.time_s[stay.end - 1] - track.time_s[stay.begin]) for stay in cruises)
    rate = segments * SEGMENT_BYTES * 8 / time_s
    return [
        _extra_acked(track, cruises[0].begin, cruises[-1].end),
        Criterion(
            says, rate >= 0.95 * path.rate_bps, f"{rate / 1e6:.2f} of {path.rate_bps / 1e6:.2f} Mbit/s"
        ),
    ]


def sub_packet(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """A path that less than a packet fills."""
    probing = np.array([state in PROBE_BW for state in track.states])
    # In recovery from loss Linux sets the window to what is in flight.
    settled = probing & (track.time_s > track.time_s[-1] - 2 * _LAST_S)
    if not settled.any():
        return [unseen("the window is 4 segments or more", "no PROBE_BW")]
    least = float(np.min(track.cwnd[settled]))
    end_s = float(track.time_s[-1])
    rate = track.delivery_rate_bps(end_s - 2 * _LAST_S, end_s - 1, SEGMENT_BYTES)
    off = float(np.median(track.bandwidth_bps[settled])) / path.rate_bps - 1
    return [
        Criterion("the window is 4 segments or more", least >= _MIN_PIPE_CWND, f"at least {least:.0f}"),
        Criterion("the bandwidth that paces is right (10 %)", abs(off) <= 0.1, f"{off:+.0%}"),
        Criterion("the link stays full (95 %)", rate >= 0.95 * path.rate_bps, f"{rate / path.rate_bps:.0%}"),
    ]


def tenfold_up(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """The bandwidth rises tenfold."""
    ((at_s, rate_bps),) = path.changes
    begin = track.index_at(at_s)
    bdp = rate_bps * float(np.nanmin(track.min_rtt_s)) / 8 / SEGMENT_BYTES
    allowed = 4 * math.log2(bdp)
    says = f"90 % of the bandwidth within 4 log₂(BDP) rounds of PROBE_UP ({allowed:.0f})"
    reached = np.flatnonzero(track.bandwidth_bps[begin:] >= 0.9 * rate_bps)
    if not len(reached):
        most = float(np.max(track.bandwidth_bps[begin:]))
        return [Criterion(says, False, f"{most / 1e6:.2f} of {rate_bps / 1e6:.2f} Mbit/s at the end")]
    end = begin + int(reached[0]) + 1
    ups = [stay for stay in track.stays if stay.state == UP and stay.end > begin and stay.begin < end]
    rounds = sum(len(track.rounds(max(stay.begin, begin), min(stay.end, end))) for stay in ups)
    waited = float(track.time_s[end - 1] - at_s)
    return [Criterion(says, rounds <= allowed, f"{rounds} rounds; {waited:.1f} s after the change")]


def tenfold_down(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """The bandwidth falls to a tenth."""
    ((at_s, rate_bps),) = path.changes
    begin = track.index_at(at_s)
    rounds = track.rounds(begin, len(track.time_s))
    low = np.flatnonzero(track.bandwidth_bps[begin:] <= GROWTH * rate_bps)
    when = None if not len(low) else begin + int(low[0])
    took = sum(end <= (when or 0) for end in rounds)
    last = float(track.max_bw_bps[-1])
    end_s = float(track.time_s[-1])
    seen = "never" if when is None else f"after {took} rounds, {track.time_s[when] - at_s:.1f} s"
    ratio = last / rate_bps
    return [
        Criterion(
            "what BBR paces by falls to the new bandwidth within 10 rounds",
            when is not None and took <= 10,
            seen,
        ),
        Criterion(
            "max_bw is within 5 % of it at the end",
            abs(ratio - 1) <= 0.05,
            f"{ratio:.2f} of it, {end_s - at_s:.0f} s after the change",
        ),
    ]


def policer(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """A token bucket without a queue."""
    assert path.policed_bps is not None
    end_s = float(track.time_s[-1]) - 1
    begin, end = track.index_at(end_s - _LAST_S), track.index_at(end_s)
    sent = track.delivered[end] - track.delivered[begin]
    lost = (track.retransmitted[end] - track.retransmitted[begin]) / max(sent, 1)
    share = track.delivery_rate_bps(end_s - _LAST_S, end_s, SEGMENT_BYTES) / path.policed_bps
    says = "loss sets the short-term bounds"
    short = np.isfinite(track.inflight_shortterm) | np.isfinite(track.bw_shortterm_bps)
    return [
        Criterion(says, bool(short.any()), f"{np.mean(short):.0%} of the time")
        if track.version > 1
        else unseen(says, "this kernel does not tell it"),
        Criterion(
            "at the end less than 2 % are lost",
            bool(lost <= _LOSS_THRESHOLD),
            f"{lost:.1%} in {_LAST_S:.0f} s",
        ),
        Criterion("the flow has the tokens' rate (85 %)", 0.85 <= share <= 1.05, f"{share:.0%}"),
    ]


def spurious(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """A recovery although nothing was lost: reordering, or a delay that exceeds the timeout."""
    says = "after a spurious recovery all is as before"
    at_s, over_s = path.changes[0][0], path.changes[-1][0] + _SETTLED_S
    before, after = max(track.index_at(at_s) - 1, 0), min(track.index_at(over_s), len(track.time_s) - 1)
    spurious = float(track.retransmitted[after] - track.retransmitted[before])
    if not spurious:
        return [unseen(says, "nothing was retransmitted")]
    if path.dropped:
        return [unseen(says, f"{path.dropped} packets were lost, so the recovery was not spurious")]
    second = round(1 / float(np.median(np.diff(track.time_s))))
    states = set(track.states[track.index_at(path.changes[-1][0] + 1) : after + 1])
    # A second's, as BBR changes its window by its states.
    window = (
        float(np.median(track.cwnd[max(before - second, 0) : before + 1])),
        float(np.max(track.cwnd[max(after - second, 0) : after + 1])),
    )
    bounds = [float(track.inflight_longterm[at]) for at in (before, after)]
    same = bounds[0] == bounds[1] or all(map(math.isnan, bounds))
    return [
        Criterion("it is in PROBE_BW", states <= PROBE_BW | {PROBE_RTT}, ", ".join(sorted(states))),
        Criterion(
            "the window is as large (90 %)",
            window[1] >= 0.9 * window[0],
            f"{window[0]:.0f}, then {window[1]:.0f} segments; {spurious:.0f} retransmitted, none lost",
        ),
        Criterion("the long-term bound is restored", same, f"{bounds[0]:.0f}, then {bounds[1]:.0f}")
        if track.version > 1
        else unseen("the long-term bound is restored", "BBRv1 has none"),
    ]
