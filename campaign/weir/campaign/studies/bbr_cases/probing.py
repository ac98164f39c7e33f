# SPDX-License-Identifier: Apache-2.0
"""PROBE_BW and PROBE_RTT: when each state begins and ends, and what it changes."""

from __future__ import annotations

import math

import numpy as np

from weir.analysis.bbr_track import (
    CRUISE,
    DOWN,
    PROBE_BW,
    PROBE_RTT,
    REFILL,
    UP,
    BbrTrack,
    Stay,
)
from weir.campaign.studies.bbr_cases.model import (
    Conditions,
    Criterion,
    left,
    retransmitted,
    rounds_without_growth,
    seconds,
    slack,
    unseen,
)
from weir.campaign.studies.runs import SEGMENT_BYTES

_PROBE_RTT_INTERVAL_S, _PROBE_RTT_S = 5.0, 0.2


def up_plateau(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """PROBE_UP ends when the bandwidth no longer grows."""
    says = "PROBE_UP without loss ends after 3 rounds with less than 25 % of growth"
    found = left(track, UP)
    if not found:
        return [unseen(says, "no PROBE_UP")]
    lossless = [
        (stay, after) for stay, after in found if after.state != PROBE_RTT and not retransmitted(track, stay)
    ]
    if not lossless:
        return [unseen(says, "all of them had losses, or ended in PROBE_RTT")]
    counts = [rounds_without_growth(track, stay) for stay, _ in lossless]
    right = [2 <= count <= 4 for count in counts]
    others = {after.state for _, after in lossless} - {DOWN}
    seen = f"{sum(right)} of {len(counts)}; rounds without growth: {min(counts)} to {max(counts)}"
    return [
        Criterion(says, all(right), seen),
        Criterion("then PROBE_DOWN", not others, ", ".join(sorted(others)) or DOWN),
    ]


def up_loss(track: BbrTrack, path: Conditions, after_s: float = 0.0) -> list[Criterion]:
    """Loss ends PROBE_UP, and lowers the long-term bound; a PROBE_UP may be shorter than a sample."""
    says = "PROBE_UP ends within 2 rounds of the first loss"
    ups = [(stay, after) for stay, after in left(track, UP, after_s) if retransmitted(track, stay)]
    at_once = [(stay, after) for stay, after in left(track, REFILL, after_s) if after.state == DOWN]
    if not ups and not at_once:
        return [unseen(says, "no PROBE_UP with loss")]
    rounds = [len(track.rounds(_first_loss(track, stay), stay.end)) for stay, _ in ups] + [0] * len(at_once)
    others = {after.state for _, after in ups} - {DOWN, CRUISE, PROBE_RTT}
    criteria = [
        Criterion(says, max(rounds) <= 2, f"{len(rounds)} times, at most {max(rounds)} rounds"),
        Criterion(
            "then PROBE_DOWN, which may be shorter than a sample",
            not others,
            ", ".join(sorted(others)) or DOWN,
        ),
    ]
    says = "the long-term bound of inflight falls"
    bounds = [
        (before, after)
        for stay, its_next in (*ups, *at_once)
        if math.isfinite(before := float(np.nanmax([-1.0, *track.inflight_longterm[stay.begin : stay.end]])))
        and math.isfinite(after := float(track.inflight_longterm[its_next.end - 1]))
        and before > 0
    ]
    if not bounds:
        return [*criteria, unseen(says, "it is not set before, or the kernel does not tell it")]
    fell = [after < before for before, after in bounds]
    shares = [after / before for before, after in bounds]
    seen = f"{sum(fell)} of {len(fell)}, to {min(shares):.2f} … {max(shares):.2f} of it"
    return [*criteria, Criterion(says, all(fell), seen)]


def _first_loss(track: BbrTrack, stay: Stay) -> int:
    its = track.retransmitted[stay.begin : stay.end]
    return stay.begin + int(np.argmax(its > its[0])) if its[-1] > its[0] else stay.end - 1


def up_loss_established(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """As `up_loss`, from the moment on when the path begins to lose packets."""
    return up_loss(track, path, path.changes[0][0] if path.changes else 0.0)


def down_inflight(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """PROBE_DOWN ends when its queue is gone."""
    says = "PROBE_DOWN ends when inflight is one BDP or less"
    found = [(stay, after) for stay, after in left(track, DOWN) if after.state != PROBE_RTT]
    if not found:
        return [unseen(says, "no PROBE_DOWN that PROBE_RTT did not end")]
    gains = {round(float(track.pacing_gain[stay.begin]), 3) for stay, _ in found}
    bdp = track.bdp(SEGMENT_BYTES)
    over = [float(track.in_flight[after.begin] - bdp[after.begin]) for _, after in found]
    right = [more <= slack(track, after.begin) for more, (_, after) in zip(over, found, strict=True)]
    others = {after.state for _, after in found} - {CRUISE}
    return [
        Criterion(
            "the pacing gain is 0.90", all(abs(gain - 0.9) < 0.01 for gain in gains), f"{sorted(gains)}"
        ),
        Criterion(says, all(right), f"{sum(right)} of {len(right)}; at most {max(over):.0f} segments above"),
        Criterion("then PROBE_CRUISE", not others, ", ".join(sorted(others)) or CRUISE),
    ]


def down_time(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """PROBE_DOWN ends by time when its queue stays."""
    says = "while inflight stays above one BDP, PROBE_DOWN ends by time, and PROBE_REFILL follows"
    bdp = track.bdp(SEGMENT_BYTES)
    above = [
        (stay, after)
        for stay, after in left(track, DOWN)
        if after.state != PROBE_RTT
        and float(track.in_flight[after.begin]) > 1.05 * bdp[after.begin]
        and len(track.rounds(stay.begin, stay.end)) >= 3
    ]
    if not above:
        return [unseen(says, "inflight always fell to one BDP within 3 rounds, or PROBE_RTT came first")]
    right = [after.state == REFILL for _, after in above]
    longest = max(seconds(track, stay) for stay, _ in above)
    return [Criterion(says, all(right), f"{sum(right)} of {len(right)}, after up to {longest:.2f} s")]


def probe_rtt(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """When PROBE_RTT comes, and what it does."""
    found = left(track, PROBE_RTT)
    says = "PROBE_RTT comes each 5 s (median; a new minimum defers it)"
    if not found:
        return [Criterion(says, False, "never")]
    rtt_s = float(np.nanmin(track.min_rtt_s))
    starts = [float(track.time_s[0]), *(float(track.time_s[stay.begin]) for stay, _ in found)]
    waits = np.diff(starts)
    # Counted from the last measurement of the minimum, which is after the start and inside of PROBE_RTT.
    late_s = _PROBE_RTT_INTERVAL_S + _PROBE_RTT_S + 3 * rtt_s
    bdp = track.bdp(SEGMENT_BYTES)
    cwnds = [float(track.cwnd[stay.end - 1] / bdp[stay.begin]) for stay, _ in found]
    lasts = [seconds(track, stay) for stay, _ in found]
    back = {after.state for _, after in found}
    return [
        Criterion(says, bool(np.median(waits) <= late_s), f"after {min(waits):.1f} … {max(waits):.1f} s"),
        Criterion(
            "the window falls to half a BDP",
            all(abs(share - 0.5) <= 0.1 for share in cwnds),
            f"{min(cwnds):.2f} … {max(cwnds):.2f} BDP",
        ),
        Criterion(
            "it lasts 200 ms and a round trip at least, a second and three at most",
            all(_PROBE_RTT_S <= last <= 1 + 3 * rtt_s for last in lasts),
            f"{min(lasts):.2f} … {max(lasts):.2f} s",
        ),
        Criterion("then PROBE_BW", back <= PROBE_BW, ", ".join(sorted(back))),
    ]


def no_probe_rtt_when_idle(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """A pause is as good as PROBE_RTT."""
    says = "no PROBE_RTT when the flow sends again after a pause of more than 5 s"
    idle = track.in_flight <= 0
    bounds = np.flatnonzero(np.diff(np.concatenate(([False], idle, [False])).astype(int)))
    pauses = [
        (float(track.time_s[begin]), float(track.time_s[end]))
        for begin, end in bounds.reshape(-1, 2)
        if end < len(track.time_s) and track.time_s[end] - track.time_s[begin] > _PROBE_RTT_INTERVAL_S
    ]
    if not pauses:
        return [unseen(says, "no such pause")]
    probes = [float(track.time_s[stay.begin]) for stay in track.stays if stay.state == PROBE_RTT]
    spoiled = [end for begin, end in pauses if any(begin <= at <= end + 1 for at in probes)]
    return [Criterion(says, not spoiled, f"{len(pauses)} pauses, PROBE_RTT after {len(spoiled)}")]


def pause_in_refill(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """Samples of a flow that pauses do not lower the maximum."""
    says = "a pause in PROBE_REFILL does not lower max_bw"
    bdp = track.bdp(SEGMENT_BYTES)
    found = [
        (stay, after)
        for stay, after in left(track, REFILL)
        if float(np.min(track.in_flight[stay.begin : stay.end])) < 0.5 * bdp[stay.begin]
    ]
    if not found:
        return [unseen(says, "no PROBE_REFILL with a pause")]
    kept = [
        bool(track.max_bw_bps[after.begin] >= 0.99 * track.max_bw_bps[stay.begin]) for stay, after in found
    ]
    others = {after.state for _, after in found} - {UP}
    return [
        Criterion(says, all(kept), f"{sum(kept)} of {len(kept)}"),
        Criterion("then PROBE_UP", not others, ", ".join(sorted(others)) or UP),
    ]
