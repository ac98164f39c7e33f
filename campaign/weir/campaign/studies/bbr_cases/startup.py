# SPDX-License-Identifier: Apache-2.0
"""STARTUP and DRAIN: how they end, and what interrupts them."""

from __future__ import annotations

import math

from weir.analysis.bbr_track import (
    DRAIN,
    PROBE_BW,
    PROBE_RTT,
    STARTUP,
    BbrTrack,
)
from weir.campaign.studies.bbr_cases.model import (
    Conditions,
    Criterion,
    first_end,
    left,
    rounds_without_growth,
    seconds,
    slack,
    unseen,
)
from weir.campaign.studies.runs import SEGMENT_BYTES


def startup_plateau(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """STARTUP ends when the bandwidth no longer grows."""
    found = first_end(track, STARTUP)
    if found is None:
        return [Criterion("STARTUP ends", False, "it does not end")]
    stay, after = found
    count = rounds_without_growth(track, stay)
    bandwidth = float(track.max_bw_bps[stay.end - 1])
    off = bandwidth / path.rate_bps - 1
    return [
        Criterion(
            "max_bw is within 2 % of the bandwidth",
            abs(off) <= 0.02,
            f"{bandwidth / 1e6:.2f} Mbit/s, {off:+.1%}",
        ),
        Criterion("it ends after 3 rounds with less than 25 % of growth", 2 <= count <= 4, f"{count} rounds"),
        Criterion("then DRAIN", after.state == DRAIN, after.state),
    ]


def startup_loss(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """STARTUP of an application-limited flow ends by loss."""
    says = "loss ends STARTUP, and sets the long-term bound of inflight"
    found = first_end(track, STARTUP)
    if found is None:
        return [Criterion(says, False, "it does not end")]
    _, after = found
    ((at_s, _),) = path.changes
    ended_s = float(track.time_s[after.begin])
    seen = f"it ends {ended_s - at_s:.2f} s after the loss began"
    if ended_s < at_s:
        return [unseen(says, seen)]
    if track.version == 1:
        return [unseen(says, f"{seen}; BBRv1 does not tell why")]
    bound = float(track.inflight_longterm[after.begin])
    return [
        Criterion(says, math.isfinite(bound), f"{seen}; the bound is {bound:.0f}"),
        Criterion(
            "then DRAIN, which may be shorter than a sample", after.state in PROBE_BW | {DRAIN}, after.state
        ),
    ]


def never_exits(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """STARTUP of an application-limited flow without loss has no end."""
    others = [stay for stay in track.stays if stay.state not in {STARTUP, PROBE_RTT}]
    seen = f"{others[0].state} at {track.time_s[others[0].begin]:.2f} s" if others else "to the end"
    return [Criterion("it stays in STARTUP, but for PROBE_RTT", not others, seen)]


def probe_rtt_in_startup(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """PROBE_RTT does not end STARTUP."""
    says = "after a PROBE_RTT in STARTUP comes STARTUP"
    stays = track.stays
    found = [
        (stays[number + 1].state, stays[number + 2].state)
        for number in range(len(stays) - 2)
        if stays[number].state == STARTUP and stays[number + 1].state == PROBE_RTT
    ]
    if not found:
        return [unseen(says, "no PROBE_RTT in STARTUP")]
    right = [after == STARTUP for _, after in found]
    return [Criterion(says, all(right), f"{sum(right)} of {len(right)}")]


def drain_inflight(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """DRAIN ends when its queue is gone."""
    found = first_end(track, DRAIN)
    if found is None:
        return [unseen("DRAIN ends at inflight of one BDP", "no DRAIN")]
    stay, after = found
    gain = float(track.pacing_gain[stay.begin])
    bdp = float(track.bdp(SEGMENT_BYTES)[after.begin])
    before, at_exit = (float(track.in_flight[at]) for at in (stay.end - 1, after.begin))
    more = slack(track, after.begin)
    return [
        Criterion("the pacing gain is 0.5", abs(gain - 0.5) < 0.01, f"{gain:.3f}"),
        Criterion(
            "DRAIN ends when inflight is one BDP or less",
            before > bdp - more and at_exit <= bdp + more,
            f"{before:.0f}, then {at_exit:.0f} segments; BDP {bdp:.0f}",
        ),
        Criterion("then PROBE_BW", after.state in PROBE_BW, after.state),
    ]


def drain_time(track: BbrTrack, path: Conditions) -> list[Criterion]:
    """DRAIN ends by time when its queue stays."""
    says = "DRAIN ends after 3 rounds although inflight is above one BDP"
    found = left(track, DRAIN)
    if not found:
        return [unseen(says, "no DRAIN")]
    stay, after = found[0]
    rounds = len(track.rounds(stay.begin, min(stay.end + 2, len(track.time_s))))
    bdp, inflight = float(track.bdp(SEGMENT_BYTES)[after.begin]), float(track.in_flight[after.begin])
    seen = (
        f"{rounds} rounds, {seconds(track, stay):.2f} s, inflight then {inflight:.0f}, BDP {bdp:.0f} segments"
    )
    if rounds <= 3 and after.state == PROBE_RTT:
        return [unseen(says, f"PROBE_RTT came before that: {seen}")]
    if rounds <= 3 and inflight <= bdp + slack(track, after.begin):
        return [unseen(says, f"inflight fell before that: {seen}")]
    return [Criterion(says, rounds <= 4 and after.state in PROBE_BW, seen)]
