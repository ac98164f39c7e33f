# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the memory of one frame that a token bucket has after a drop.

After a drop a token bucket holds less than a frame, until frame length ÷ rate has passed. During that time
every flow of the *same* bucket has a higher risk of loss: a packet that arrives `age` after the other flow's
last drop meets a level uniform in [0, frame) plus the tokens added since, and is dropped with probability

    m = max(0, 1 − age ÷ τ),   τ = frame ÷ rate.

A separate bucket does not have this memory. With p the flow's own loss rate around each packet (a window of
RTTs) and y = 1 for a lost packet, the excess y − p is regressed on m (1 − p): a coefficient κ near 1 means
one bucket, near 0 two. Both directions are pooled.

τ is unknown, but the bucket passed at least the bytes of both flows: τ ≤ frame ÷ (sum of their rates).
Smaller τ are tried, down to a fortieth of that, as other flows may use most of the bucket. The null
distribution comes from the data: one flow's drops are shifted by more than the memory and at most two RTTs.
This keeps each flow's own pattern (bursts, probing, sawteeth) and the slow trends of both, and destroys only
coincidences within a frame's time. The largest statistic over all τ is ranked among those of the shifted
series, as in the jitter methods for spike trains.

Where times are too coarse for this, several multiples of τ (`COARSE`) still show part of the excess. That
test is much weaker, and blind for BBR, so the lack of an excess is no evidence of two buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents, few_losses, statistics_of
from weir.analysis.tables import Floats, Ints
from weir.rundir.plural import plural

ALPHA = 0.05
SHIFTS, SHIFTS_OF_SCANS = 99, 39
"""Shifted series; where the clocks are uncertain there are fewer, as all lags are tried for each."""
MAX_LAGS = 60
SHORT, FINE, COARSE = (0.025, 0.05, 0.1, 0.2), (0.35, 0.5, 0.7), (4.0, 8.0)
"""τ tried, in multiples of the largest one possible at the flows' rates."""
USUAL = 0.5
"""The multiple for which the expected effect is computed: a bucket with twice the rate of both flows."""
SHORTEST_S = 60e-6
"""The smallest short τ: coincidences within less may come from the machine that sent both flows."""
WINDOW_RTTS = 2.0
MIN_KAPPA_SHORT, MIN_KAPPA, MIN_KAPPA_COARSE = 0.5, 0.25, 0.15
"""Smaller excess may come from synchronised flows. Seen at fine τ: at most 0.2 with two policers, simulated
or real; with one at least 0.4 in simulations and 0.28 in runs of the switch. At coarse τ: 0.05 and 0.2."""
LATE = 0.25
"""Part of the best κ that every shorter τ must reach. With one bucket, at least a half was seen."""
MIN_EXPECTED = 3.0
"""Standard deviations that one bucket's effect must have for its absence to mean two buckets."""
MAX_JITTER_NS, TAUS_OF_JITTER = 25_000, 5
"""Times that are wrong by more hide one bucket: at 100 µs κ fell from 0.9 to 0.4 (BBR) and to 0.1 (CUBIC).
Only τ of several times the jitter may still show one, as where two flows are nearly all of a slow bucket."""
OWN = (0.5, 1.0, 2.0)
"""τ for the packets after a flow's own drops, in the same multiples."""
MIN_LOSSES = 15
HEADERS_BYTES = 66


@dataclass(frozen=True)
class MemoryResult:
    """The verdict; `kappa` is the excess at the best `tau_us`.

    `p` is the rank of its statistic `z` among the shifted series, `expected_z` the z of one bucket with κ =
    0.5, `lag_us` the difference of the clocks at which z is largest. `own_z` is the largest z, of either
    sign, after a flow's own drops, of the flow that has less. A bucket makes it large, random loss does not.
    """

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    p: float | None = None
    kappa: float | None = None
    z: float | None = None
    expected_z: float | None = None
    tau_us: float | None = None
    lag_us: float | None = None
    own_z: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


@dataclass(frozen=True)
class _Sums:
    """Sums over the packets of both directions, per τ: Σ x (y − p), Σ x² p (1 − p), Σ x²; x = m (1 − p)."""

    score: Floats
    variance: Floats
    weight: Floats

    @property
    def z(self) -> Floats:
        result: Floats = self.score / np.sqrt(np.maximum(self.variance, 1e-12))
        return result

    @property
    def kappa(self) -> Floats:
        result: Floats = self.score / np.maximum(self.weight, 1e-12)
        return result


@dataclass(frozen=True)
class Excess:
    """A flow's packets in order of time: 1 if lost, less the flow's loss rate around it (`excess`, `local`).

    Times are in seconds from the first moment asked for; `drops_s` are those of the lost packets, `around` is
    the number of packets that the loss rate is of.
    """

    time_s: Floats
    drops_s: Floats
    excess: Floats
    local: Floats
    around: Ints


def frame_memory(a: FlowEvents, b: FlowEvents) -> MemoryResult:
    """Do two flows share a bucket? See the module's text."""
    if few := few_losses(a.lost, b.lost, MIN_LOSSES):
        return MemoryResult("cannot_tell", few)
    passed = min(int(np.count_nonzero(~a.lost)), int(np.count_nonzero(~b.lost)))
    if passed < MIN_LOSSES:
        reason = f"{plural(passed, 'packet')} of one of the flows passed; {MIN_LOSSES} are needed"
        return MemoryResult("cannot_tell", reason)
    start, end = max(a.sent_ns.min(), b.sent_ns.min()), min(a.sent_ns.max(), b.sent_ns.max())
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    if end - start < 20 * rtt_ns:
        return MemoryResult("cannot_tell", "the flows ran together for less than 20 RTTs")
    one, other = (excess_of(flow, int(start), int(end), rtt_ns) for flow in (a, b))
    largest_s, scan_s = (
        largest_tau(a, b, int(start), int(end)),
        max(a.clock_error_ns, b.clock_error_ns) / 1e9,
    )
    jitter_s = max(a.jitter_ns, b.jitter_ns) / 1e9
    precise = jitter_s * 1e9 <= MAX_JITTER_NS and jitter_s <= USUAL * largest_s / 2
    least_s = 0.0 if precise else TAUS_OF_JITTER * jitter_s
    # Short τ need exact clocks: no lags to scan.
    shorts = [scale for scale in SHORT if scan_s <= 0 and scale * largest_s >= max(SHORTEST_S, least_s)]
    lags = _lags(scan_s, FINE[0] * largest_s)
    scanned = scan_s <= 0 or float(lags[-1]) >= scan_s
    fines = [scale for scale in FINE if scale * largest_s >= least_s]
    if not fines:
        return MemoryResult(
            "cannot_tell",
            f"times are wrong by about {jitter_s * 1e6:.0f} µs: too coarse for a bucket that gets a frame's "
            f"tokens in {largest_s * 1e6:.0f} µs or less",
        )
    test = _Test(
        one, other, largest_s * np.array([*shorts, *fines]), len(shorts), MIN_KAPPA, lags, rtt_ns / 1e9
    )
    fine = test.judged(slice(len(shorts), None))
    found = [fine, test.judged(slice(0, len(shorts)))] if shorts else [fine]
    for judged in found:
        if judged.large and judged.p < ALPHA:
            if test.comes_late(judged):
                why = "more excess later than at once, which no bucket makes: "
                return test.result("cannot_tell", judged, why)
            return test.result("shared", judged)
    if precise and scanned and test.expected_z[len(shorts) + FINE.index(USUAL)] >= MIN_EXPECTED:
        for judged in found:
            if judged.large:
                # As large as with one bucket, but not significant: evidence for neither.
                why = "too much for two buckets, too little to exclude chance: "
                return test.result("cannot_tell", judged, why)
        if test.expected_z[0] < MIN_EXPECTED:
            why = "too few packets at once to exclude a bucket of many more flows; "
            return test.result("cannot_tell", fine, why)
        own = min(float(np.abs(own_z(flow, largest_s * np.array(OWN))).max()) for flow in (one, other))
        return replace(test.result("separate", fine), own_z=own)
    rough_taus = largest_s * np.array([scale for scale in COARSE if scale * largest_s >= least_s])
    rough = _Test(one, other, rough_taus, 0, MIN_KAPPA_COARSE, lags, rtt_ns / 1e9)
    coarse = rough.judged(slice(None))
    if coarse.large and coarse.p < ALPHA:
        return rough.result("shared", coarse)
    why = "too few packets soon after the other flow's drops; "
    if not scanned:
        why = f"clocks may differ by {scan_s * 1e3:.0f} ms, more than can be tried; "
    if not precise:
        why = f"times are wrong by about {jitter_s * 1e6:.0f} µs: too coarse; "
    return test.result("cannot_tell", fine, why)


@dataclass(frozen=True)
class _Judged:
    """The best of some τ at the best lag; `large` when its κ reaches the minimum for one bucket."""

    large: bool
    p: float
    lag: int
    tau: int


class _Test:
    """The statistics for some τ at each lag of the clocks, of the flows and of the shifted series."""

    def __init__(
        self,
        one: Excess,
        other: Excess,
        tau: Floats,
        shorts: int,
        least: float,
        lags: Floats,
        rtt_s: float,
    ) -> None:
        self.tau, self.lags, self._shorts = tau, lags, shorts
        self._least = np.full(len(tau), least)
        self._least[:shorts] = MIN_KAPPA_SHORT
        self._own = [_sums(one, other, float(lag), tau) for lag in lags]
        self._shifted = np.array(
            [
                np.max([self._ranked(_sums(one, other, float(shift + lag), tau)) for lag in lags], axis=0)
                for shift in _shifts(float(tau[-1]), lags, rtt_s)
            ]
        )

    @property
    def expected_z(self) -> Floats:
        """The z of half of one bucket's effect (κ = 0.5), per τ."""
        sums = self._own[0]
        result: Floats = 0.5 * sums.weight / np.sqrt(np.maximum(sums.variance, 1e-12))
        return result

    def _ranked(self, sums: _Sums) -> Floats:
        """z; −∞ for short τ with a small κ, lest more τ give a larger maximum by chance."""
        idle = (sums.kappa < self._least) & (np.arange(len(self.tau)) < self._shorts)
        return np.where(idle, -np.inf, sums.z)

    def judged(self, which: slice) -> _Judged:
        z = np.array([self._ranked(sums) for sums in self._own])[:, which]
        others = self._shifted[:, which].max(axis=1)
        lag, tau = (int(index) for index in np.unravel_index(np.argmax(z), z.shape))
        tau += which.start or 0
        return _Judged(
            large=bool(self._own[lag].kappa[tau] >= self._least[tau]),
            p=float((1 + np.count_nonzero(others >= z.max())) / (1 + len(others))),
            lag=lag,
            tau=tau,
        )

    def comes_late(self, judged: _Judged) -> bool:
        """Whether a shorter τ has too small a κ: the risk is highest after a drop, so κ falls as τ grows."""
        kappa = self._own[judged.lag].kappa
        seen = self.expected_z >= MIN_EXPECTED / 2  # κ = 1 would exceed chance by MIN_EXPECTED deviations
        return bool(np.any((kappa < LATE * kappa[judged.tau])[: judged.tau] & seen[: judged.tau]))

    def result(
        self, verdict: Literal["shared", "separate", "cannot_tell"], judged: _Judged, why: str = ""
    ) -> MemoryResult:
        best, tau_us = self._own[judged.lag], float(self.tau[judged.tau]) * 1e6
        kappa = float(best.kappa[judged.tau])
        return MemoryResult(
            verdict,
            f"{why}within {tau_us:.0f} µs after the other's drops, excess loss is {kappa:.2f} "
            f"of what one bucket gives (p = {judged.p:.3f})",
            p=judged.p,
            kappa=kappa,
            z=float(best.z[judged.tau]),
            expected_z=float(self.expected_z[min(self._shorts + 1, len(self.tau) - 1)]),
            tau_us=tau_us,
            lag_us=float(self.lags[judged.lag]) * 1e6,
        )


def largest_tau(a: FlowEvents, b: FlowEvents, start: int, end: int) -> float:
    """Frame ÷ (rate of both flows' passed bytes from `start` to `end`, ns), in seconds."""
    passed = 0.0
    for flow in (a, b):
        inside = (flow.sent_ns >= start) & (flow.sent_ns <= end) & ~flow.lost
        passed += float(np.sum(flow.size_bytes[inside] + HEADERS_BYTES))
    frame = float(max(a.size_bytes.max(), b.size_bytes.max())) + HEADERS_BYTES
    return frame * (end - start) / 1e9 / max(passed, frame)


def excess_of(flow: FlowEvents, start: int, end: int, rtt_ns: int) -> Excess:
    """The losses from `start` to `end` (ns) against the loss rate within two RTTs of each packet."""
    order = np.argsort(flow.sent_ns, kind="stable")  # conversion to another clock may reorder packets
    order = order[(flow.sent_ns[order] >= start) & (flow.sent_ns[order] <= end)]
    time_s, lost = (flow.sent_ns[order] - start) / 1e9, flow.lost[order]
    half = WINDOW_RTTS * rtt_ns / 1e9
    low, high = np.searchsorted(time_s, time_s - half), np.searchsorted(time_s, time_s + half, side="right")
    count = np.concatenate([[0], np.cumsum(lost)])
    local = np.clip((count[high] - count[low]) / (high - low), 1e-4, 1 - 1e-4)
    return Excess(time_s, time_s[lost], lost - local, local, high - low)


def _sums(one: Excess, other: Excess, lag: float, tau: Floats) -> _Sums:
    """Both directions, with the first flow's times increased by `lag` seconds."""
    parts = [_direction(one.drops_s + lag, other, tau), _direction(other.drops_s - lag, one, tau)]
    score, variance, weight = (parts[0][i] + parts[1][i] for i in range(3))
    return _Sums(score, variance, weight)


def _direction(
    drops: Floats, flow: Excess, tau: Floats, *, own: bool = False
) -> tuple[Floats, Floats, Floats]:
    # Packets within the largest τ after a drop and before the next one, drop by drop.
    first = np.searchsorted(flow.time_s, drops)
    until = np.minimum(drops + tau[-1], np.append(drops[1:], np.inf))
    count = np.searchsorted(flow.time_s, until) - first
    since = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    near = np.repeat(first, count) + since
    age = flow.time_s[near] - np.repeat(drops, count)
    local, excess = flow.local[near], flow.excess[near]
    if own:
        # The loss rate of the others: the drop is known, and that the packets since then passed.
        others = np.maximum(flow.around[near] - 1 - since, 1)
        rate = np.clip((local * flow.around[near] - 1) / others, 1e-4, 1 - 1e-4)
        local, excess = rate, excess + local - rate
    x = np.maximum(0.0, 1 - age[None, :] / tau[:, None]) * (1 - local)
    square = x * x
    return x @ excess, square @ (local * (1 - local)), square.sum(axis=1)


def own_z(flow: Excess, tau: Floats) -> Floats:
    """z of a flow's packets within each `tau` (seconds) after its own drops."""
    # A nanosecond later, so that a drop is not its own consequence.
    score, variance, _ = _direction(flow.drops_s + 1e-9, flow, tau, own=True)
    result: Floats = score / np.sqrt(np.maximum(variance, 1e-12))
    return result


def _lags(error_s: float, step_s: float) -> Floats:
    """Differences of the clocks to try: none, or all within their error."""
    if error_s <= 0:
        return np.zeros(1)
    half = min(int(np.ceil(error_s / step_s)), MAX_LAGS)
    lags: Floats = step_s * np.arange(-half, half + 1, dtype=np.float64)
    return lags


def _shifts(longest_s: float, lags: Floats, rtt_s: float) -> Floats:
    """Shifts of the drops: larger than the memory and the clocks' error, but only a few RTTs."""
    width = float(lags[-1] - lags[0])
    count = SHIFTS if len(lags) == 1 else SHIFTS_OF_SCANS
    step = max((2 * rtt_s) / (count / 2), longest_s / 4, width)
    one_way = 2 * longest_s + width + step * np.arange(count // 2 + 1)
    result: Floats = np.concatenate([one_way, -one_way])[:count]
    return result
