# SPDX-License-Identifier: Apache-2.0
"""The detector `policing`: does one token bucket explain which packets of a flow, or of several, were lost?

For each flow with losses a bucket is fitted (`fit.py`), alone and together with other flows that may share
its policer, as they use tokens too, be it only the ACKs of a control connection beside the transfer. A bucket
that explains the losses and did not delay packets (`queue.py`) is a policer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite

import numpy as np

from weir.analysis.detectors.policing.bucket import MIN_SKILL, Arrivals, demand, skill
from weir.analysis.detectors.policing.fit import BucketFit, fit_bucket
from weir.analysis.detectors.policing.independence import ALPHA, independence_p
from weir.analysis.detectors.policing.inflation import behind_queue, mostly_behind_queue, standing_queue
from weir.analysis.detectors.policing.load import own_dependence
from weir.analysis.detectors.policing.queue import MIN_SAMPLES, Wait, wait_in_queue
from weir.analysis.detectors.policing.verdict import MIN_LOSSES, FlowVerdict
from weir.analysis.jitter import delay_spread_of, jitter_of
from weir.analysis.tables import Bools, Floats
from weir.analysis.traces import FlowTrace
from weir.rundir.plural import plural

MIN_SCORE = 0.6
"""Losses explained ÷ (losses + packets that should have been lost) that a bucket must reach."""
MIN_SCORE_OF_MEMBER = 0.5
"""The same for each single flow of a shared bucket."""
BETTER_TOGETHER = 0.05
TINY = 0.01
"""Small flows with a smaller part of the bytes do not keep a bucket from explaining half of the losses."""
MAX_PAIRS = 12
"""Pairs of flows tried, in the order of the flows; groups to one host are tried in any case."""
MAX_NAMED = 4
"""Flows that a reason names; `detail.together_with` has them all."""
WIDE = 1.1
"""Ratio of the ends of the rate's interval, from which on the reason names them."""
COARSE_FRAMES = 0.1
"""Jitter of the RTTs × rate, in frames, from which on no bucket need explain the losses of a policer."""
MIN_RUNS = 5
"""Runs of losses between packets that passed. A path that fails now and then loses all packets of a time, and
a bucket of a low enough rate explains one such time, or a few. Real policers had 9 runs and more."""


@dataclass(frozen=True)
class _Group:
    """Flows fitted together: their packets in order of time, and the flow of each (`owner`)."""

    flows: tuple[int, ...]
    packets: Arrivals
    owner: np.ndarray[tuple[int], np.dtype[np.int64]]
    start_ns: int
    fit: BucketFit
    backlog: Floats

    @property
    def passed_rate(self) -> float:
        """Bytes/s that passed: the least rate of a bucket for all these flows."""
        return float(self.packets.length[~self.packets.lost].sum() / self.packets.time_s[-1])

    @property
    def loss_runs(self) -> int:
        """How often losses began: a run of them ends with a packet that passes."""
        return int(np.count_nonzero(np.diff(self.packets.lost.astype(np.int8), prepend=0) == 1))

    def score_of(self, flow: int) -> float:
        """One flow's losses explained ÷ (its losses + its packets that should have been lost)."""
        its = self.owner == flow
        over = self.backlog + self.packets.length > self.fit.threshold.low
        lost = self.packets.lost
        counted = int(np.count_nonzero(its & (lost | over)))
        return int(np.count_nonzero(its & lost & over)) / max(counted, 1)


def detect_policing(flows: Sequence[FlowTrace]) -> list[FlowVerdict]:
    """Judge each flow of a capture, alone and together with the others."""
    fitted: dict[tuple[int, ...], _Group | None] = {}
    lossy = [i for i, flow in enumerate(flows) if flow.losses >= MIN_LOSSES]

    @cache
    def spread_ns(flow: int) -> int:
        return delay_spread_of(flows[flow].rtt_sent_ns, flows[flow].rtt_ns)

    @cache
    def time_error_s(flow: int) -> float:
        """The usual error, at most: the way back and the receiver add to it. Clocks may have coarse steps."""
        sent_ns, rtt_ns = flows[flow].rtt_sent_ns, flows[flow].rtt_ns
        steps_ns = int(np.gcd.reduce(np.diff(flows[flow].time_ns)))
        return max(jitter_of(sent_ns, rtt_ns), steps_ns) / 1e9 if len(rtt_ns) >= MIN_SAMPLES else inf

    def just(members: Sequence[int]) -> _Group | None:
        key = tuple(sorted(members))
        if key not in fitted:
            large = [flow for flow in key if flows[flow].losses >= MIN_LOSSES]
            sent = _bytes(flows, large)
            spread = max(round(spread_ns(flow) * _bytes(flows, [flow]) / sent) for flow in large)
            fitted[key] = _fit(flows, key, spread, max(map(time_error_s, large)), len(large) > 1)
        return fitted[key]

    def group(members: Sequence[int]) -> _Group | None:
        """With small flows between the same hosts, unless the members alone explain their losses better."""
        small = _small_beside(flows, members, lossy)
        beside = just([*members, *small]) if small else None
        tiny = _bytes(flows, small) < TINY * _bytes(flows, members)
        if beside and (beside.fit.score == 1 or (tiny and beside.fit.score < MIN_SCORE_OF_MEMBER)):
            return beside  # the members alone are explained no better
        alone = just(members)
        if beside is None or (alone is not None and alone.fit.score > beside.fit.score):
            return alone
        return beside

    best: dict[int, _Group] = {}
    for i in lossy:
        alone = group([i])
        if alone is not None:
            best[i] = alone
    for members in _together(flows, lossy):
        if len(members) > 2 or _undecided(best, members):
            _adopt(best, group(members), lossy)
    for pair in _pairs(lossy, best):
        _adopt(best, group(pair), lossy)
    tried = [found for found in fitted.values() if found is not None]
    passed = [max((g.passed_rate for g in tried if i in g.flows), default=0.0) for i in range(len(flows))]
    return [_verdict(flows, i, best.get(i), passed[i]) for i in range(len(flows))]


def _small_beside(flows: Sequence[FlowTrace], members: Sequence[int], lossy: Sequence[int]) -> list[int]:
    """Other flows between the members' hosts that lose little and have no more packets than the members.

    Without those that had sent before the capture began, where all the members began in it.
    """
    hosts = {(flows[i].src, flows[i].dst) for i in members}
    from_start = all(flows[i].from_start for i in members)
    others = {*members, *lossy}
    small = [
        j
        for j, flow in enumerate(flows)
        if (flow.src, flow.dst) in hosts and j not in others and (flow.from_start or not from_start)
    ]
    packets = sum(len(flows[j].time_ns) for j in small)
    return small if packets <= sum(len(flows[i].time_ns) for i in members) else []


def _bytes(flows: Sequence[FlowTrace], some: Sequence[int]) -> int:
    return sum(int(flows[i].frame_bytes.sum()) for i in some)


def _together(flows: Sequence[FlowTrace], lossy: Sequence[int]) -> list[list[int]]:
    """Groups that may share a policer: all flows to one host, all from one host; larger groups first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i, flow in enumerate(flows):
        groups.setdefault(("to", flow.dst), []).append(i)
        groups.setdefault(("from", flow.src), []).append(i)
    result: list[list[int]] = []
    for members in sorted(groups.values(), key=len, reverse=True):
        for some in (members, [i for i in members if i in lossy]):
            if len(some) > 1 and any(i in lossy for i in some) and some not in result:
                result.append(some)
    return result


def _undecided(best: dict[int, _Group], members: Sequence[int]) -> bool:
    return any(i in best and best[i].fit.score < 1 - BETTER_TOGETHER for i in members)


def _pairs(lossy: Sequence[int], best: dict[int, _Group]) -> list[tuple[int, int]]:
    """Pairs of flows that no bucket explains yet."""
    left = [i for i in lossy if i not in best or best[i].fit.score < MIN_SCORE]
    return [(a, b) for k, a in enumerate(left) for b in left[k + 1 :]][:MAX_PAIRS]


def _adopt(best: dict[int, _Group], found: _Group | None, lossy: Sequence[int]) -> None:
    """Take the group for each member that it explains better than its best group so far."""
    if found is None or found.fit.score < MIN_SCORE:
        return
    for i in found.flows:
        score = found.score_of(i)
        if i not in lossy or score < MIN_SCORE_OF_MEMBER:
            continue
        if i not in best or score > best[i].score_of(i) + BETTER_TOGETHER:
            best[i] = found


def _fit(
    flows: Sequence[FlowTrace], members: tuple[int, ...], spread_ns: int, error_s: float, several: bool
) -> _Group | None:
    """`spread_ns`: by how much delays that neighbouring packets share are longer than usual.

    A flow's delays move only its own bytes, so this is the largest of all flows' delays times their part of
    the bytes. `error_s`: by how much single times are usually wrong, at most. `several`: more than one of the
    members has many losses.
    """
    time_ns = np.concatenate([flows[i].time_ns for i in members])
    order = np.argsort(time_ns, kind="stable")
    start_ns = int(time_ns[order[0]])

    def merged(column: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        values: np.ndarray[tuple[int], np.dtype[np.int64]] = np.concatenate(
            [getattr(flows[i], column) for i in members]
        )
        return values[order]

    lost: Bools = merged("lost").astype(bool)
    packets = Arrivals((time_ns[order] - start_ns) / 1e9, merged("frame_bytes").astype(np.float64), lost)
    from_start = all(flows[i].from_start for i in members)
    fit = fit_bucket(
        packets,
        from_start=from_start,
        delay_spread_s=spread_ns / 1e9,
        time_error_s=error_s,
        several=several,
    )
    if fit is None:
        return None
    owner = np.repeat(np.array(members), [len(flows[i].time_ns) for i in members])[order]
    backlog = demand(packets, fit.rate, fit.initial_backlog) - packets.length
    return _Group(members, packets, owner, start_ns, fit, backlog)


def _wait(flow: FlowTrace, group: _Group) -> Wait | None:
    """Compare the flow's RTTs with the bucket's backlog at the time of sending."""
    at = (flow.rtt_sent_ns - group.start_ns) / 1e9
    index = np.searchsorted(group.packets.time_s, at, side="left")
    inside = index < len(group.packets.time_s)
    return wait_in_queue(
        group.backlog[index[inside]], flow.rtt_ns[inside] / 1e9, group.fit.rate, group.fit.burst_bytes
    )


def _unexplained(
    flow: FlowTrace, reason: str, jitter_s: float, frames: float, detail: dict[str, object]
) -> FlowVerdict:
    """The verdict on losses that no bucket or queue explains; `frames` have tokens within the jitter."""
    coarse = (
        f"times are wrong by about {jitter_s * 1e3:.1f} ms, in which a bucket gets the tokens of "
        f"{frames:.1f} frames: too coarse to see whether one dropped the packets"
    )
    if flow.view != "sent" or len(flow.rtt_ns) < MIN_SAMPLES:
        if frames > COARSE_FRAMES:
            reason = coarse
        elif flow.view != "sent":
            reason += "; but the capture does not show when lost packets passed the policer"
        else:
            few = plural(len(flow.rtt_ns), "RTT does", "RTTs do")
            reason += f"; but {few} not show how much delays before the policer vary"
        return FlowVerdict(flow.name, "cannot_tell", reason, detail=detail)
    follows = own_dependence(flow)
    p = independence_p(flow.lost[flow.payload_bytes > 0])
    detail["own_dependence_z"] = round(follows.z, 1)
    detail["own_dependence_z_of_half"] = round(follows.z_of_half, 1)
    detail["independence_p"] = p
    if follows.excluded and p is not None and p > ALPHA:
        reason += (
            f"; nor do losses follow what the flow sent (z = {follows.z:.1f}) or each other (p = {p:.3f}): "
            "they are random, or those of a policer that mostly other traffic empties"
        )
        return FlowVerdict(flow.name, "not_policed", reason, detail=detail)
    if frames > COARSE_FRAMES:
        reason = coarse
    short_queue = "as at a policer or a short queue, perhaps with other traffic that is not in the capture"
    if follows.found:
        reason += f"; but losses follow what the flow itself sent (z = {follows.z:.1f}), {short_queue}"
    elif p is not None and p <= ALPHA:
        reason += (
            f"; but losses follow each other (p = {p:.3f}), {short_queue}, or on a path that loses in bursts"
        )
    elif frames <= COARSE_FRAMES:
        reason += (
            f"; nor do losses follow what the flow sent (z = {follows.z:.1f}), but the flow sends so evenly, "
            "or so little, that they need not, even if it is half of the traffic of a policer"
        )
    return FlowVerdict(flow.name, "cannot_tell", reason, detail=detail)


def _verdict(flows: Sequence[FlowTrace], i: int, group: _Group | None, passed_rate: float) -> FlowVerdict:
    """`passed_rate`: bytes/s that passed of the most flows that were tried as those of one bucket."""
    flow = flows[i]
    if flow.losses < MIN_LOSSES:
        return _few_losses(flow)
    if group is None:
        return _no_bucket(flow)
    fit, threshold = group.fit, group.fit.threshold
    score = group.score_of(i)
    others = [flows[j].name for j in group.flows if j != i]
    detail: dict[str, object] = {
        "losses": flow.losses,
        "packets": len(flow.time_ns),
        "view": flow.view,
        "together_with": others,
        "score": round(fit.score, 4),
        "score_of_flow": round(score, 4),
        "losses_explained": threshold.hits,
        "losses_unexplained": threshold.misses,
        "passed_against_bucket": threshold.false_drops,
        "fitted_rate_bps": fit.rate * 8,
        "fitted_burst_bytes": fit.burst_bytes,
        "rate_bps_95": [fit.rate_low * 8, fit.rate_high * 8],
        "burst_bytes_95": [fit.burst_low, fit.burst_high if isfinite(fit.burst_high) else None],
        "refilled": fit.refilled,
    }
    bucket = f"a bucket of {fit.burst_bytes:,.0f} bytes filled at {fit.rate * 8 / 1e6:,.3f} Mbit/s"
    beside = f" (together with {_named(others)})" if others else ""
    count = threshold.hits + threshold.misses
    jitter_s = jitter_of(flow.rtt_sent_ns, flow.rtt_ns) / 1e9
    if fit.score < MIN_SCORE or skill(fit.score, group.packets.lost) < MIN_SKILL:
        queue = mostly_behind_queue(flow)
        if queue is not None:
            reason = f"losses met a queue: half of them came at RTTs of {queue}, and no bucket explains them"
            return FlowVerdict(flow.name, "not_policed", reason, detail=detail)
        reason = (
            f"no bucket explains the losses: the best, {bucket}{beside}, explains {threshold.hits} of "
            f"{count} and would have dropped {plural(threshold.false_drops, 'packet')} that passed"
        )
        # The fitted rate is that of a bucket which explains nothing, often far below the policer's.
        frames = jitter_s * max(fit.rate, passed_rate) / float(flow.frame_bytes.max())
        return _unexplained(flow, reason, jitter_s, frames, detail)
    wait = _wait(flow, group)
    if wait is not None:
        detail["rtt_explained_by_queue"] = round(wait.explained, 4)
        if wait.is_queue:
            reason = (
                f"packets waited: the losses are those of {bucket}{beside}, but RTTs rise with its backlog "
                f"from {wait.rtt_low_s * 1e3:.0f} to {wait.rtt_high_s * 1e3:.0f} ms, as in a queue of "
                f"{wait.queue_bytes:,.0f} bytes; a policer has none"
            )
            return FlowVerdict(flow.name, "not_policed", reason, detail=detail)
        if not wait.would_show(jitter_s):
            reason = (
                f"the losses are those of {bucket}{beside}, but RTTs vary by about {jitter_s * 1e3:.1f} "
                f"ms, so they would not show whether packets wait up to {wait.full_s * 1e3:.1f} ms in a "
                f"queue of that size"
            )
            return FlowVerdict(flow.name, "cannot_tell", reason, detail=detail)
    standing = standing_queue(flow)
    if standing is not None:
        reason = (
            f"the losses are those of {bucket}{beside}, but a queue that is always full may have dropped the "
            f"packets: {standing}"
        )
        return FlowVerdict(flow.name, "cannot_tell", reason, detail=detail)
    runs = detail["loss_runs"] = group.loss_runs
    if runs < MIN_RUNS:
        reason = (
            f"the losses are those of {bucket}{beside}, but they came in {plural(runs, 'run')} in which no "
            "packet passed, as when a path fails for a time: too few to show a bucket"
        )
        return FlowVerdict(flow.name, "cannot_tell", reason, detail=detail)
    unsure = "" if fit.refilled else "; the burst assumes that the bucket was full at the first packet"
    if fit.burst_high == inf:
        unsure += ", and may be larger, since the flow had sent before the capture began"
    if fit.rate_high > WIDE * fit.rate_low:
        ends = f"{fit.rate_low * 8 / 1e6:.2f} to {fit.rate_high * 8 / 1e6:.2f}"
        unsure += f"; any rate from {ends} Mbit/s does"
        if fit.refilled:
            unsure += ", as the bucket is full again before each burst of packets"
    blind = "" if wait is not None else "; no RTT in this capture could show a queue"
    reason = (
        f"{bucket}{beside} explains {threshold.hits} of {plural(count, 'loss', 'losses')} and contradicts "
        f"{plural(threshold.false_drops, 'packet')} that passed{unsure}{blind}"
    )
    return FlowVerdict(flow.name, "policed", reason, fit.rate * 8, fit.burst_bytes, detail)


def _named(flows: Sequence[str]) -> str:
    """The first flows by name, the others as a number."""
    names = ", ".join(flows[:MAX_NAMED])
    return names if len(flows) <= MAX_NAMED else f"{names} and {len(flows) - MAX_NAMED} more"


def _no_bucket(flow: FlowTrace) -> FlowVerdict:
    reason = f"{flow.losses} of {plural(len(flow.time_ns), 'packet')} lost, "
    reason += "so no rate shows" if np.all(flow.lost) else "at one instant, so no rate shows"
    return FlowVerdict(flow.name, "cannot_tell", reason, detail=_counts(flow))


def _few_losses(flow: FlowTrace) -> FlowVerdict:
    long_s = behind_queue(flow) if 0 < flow.losses < MIN_LOSSES else None
    if long_s is not None:
        reason = (
            f"{flow.losses} of {plural(len(flow.time_ns), 'packet')} lost, each behind a queue: RTT "
            f"{long_s * 1e3:.0f} ms and more where the tenth percentile is "
            f"{np.percentile(flow.rtt_ns, 10) / 1e6:.0f} ms"
        )
        return FlowVerdict(flow.name, "not_policed", reason, detail=_counts(flow))
    reason = f"{flow.losses} of {plural(len(flow.time_ns), 'packet')} lost; {MIN_LOSSES} losses are needed"
    return FlowVerdict(flow.name, "insufficient_loss", reason, detail=_counts(flow))


def _counts(flow: FlowTrace) -> dict[str, object]:
    return {"losses": flow.losses, "packets": len(flow.time_ns), "view": flow.view}
