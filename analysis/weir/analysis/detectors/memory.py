# SPDX-License-Identifier: Apache-2.0
"""Shared or not by the bucket's memory of one frame.

After a drop a token bucket holds less than a frame, until frame length ÷ rate has passed. For that long
every flow of the *same* bucket is at risk, falling linearly to nothing: a packet that comes `age` after the
other flow's last drop meets a level uniform in [0, frame) plus what flowed in since, and is dropped with
probability

    m = max(0, 1 − age ÷ τ),   τ = frame ÷ rate.

Another bucket knows nothing of it. So with p the flow's own loss rate round each packet (a window of RTTs)
the excess y − p of what was dropped is regressed on m (1 − p): κ near 1 says one bucket, near 0 two. Both
directions are pooled.

τ is unknown, but the bucket passed at least what the two flows got through: τ ≤ frame ÷ (their rates
together). Smaller ones are tried, down to a fortieth, as others may have most of the bucket. The null
distribution is of the data: one flow's drops are moved against the other by more than the memory and up to
two RTTs, which keeps each flow's own pattern (bursts, probing, sawteeth) and the slow trends that both may
share, and breaks only what happens within a frame's time. The largest statistic over the τ is ranked among
the same of the moved series (as the jitter methods for spike trains do).

Where times are too coarse for this, several τ together still show what remains of the excess (`COARSE`): much
weaker, and silent for BBR, so that its absence says nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Floats

ALPHA = 0.05
MOVES, MOVES_OF_SCANS = 99, 39
"""Moved series; each is scanned too where the clocks are uncertain, so there are fewer."""
MAX_LAGS = 60
SHORT, FINE, COARSE = (0.025, 0.05, 0.1, 0.2), (0.35, 0.5, 0.7), (4.0, 8.0)
"""τ tried, in multiples of the largest that the flows' own rates permit."""
USUAL = 0.5
"""The multiple by which it is judged how much could be seen: two measured flows in twice their rate."""
SHORTEST_S = 60e-6
"""Of the short τ: what packets have in common within less may come from the machine that sent them."""
WINDOW_RTTS = 2.0
MIN_KAPPA_SHORT, MIN_KAPPA, MIN_KAPPA_COARSE = 0.5, 0.25, 0.15
"""Smaller excess is a rest of synchronisation. Fine τ: at most 0.2 behind two policers, simulated or real;
behind one at least 0.4 in simulations and 0.28 in runs of the switch. Coarse: 0.05 and 0.2."""
LATE = 0.25
"""Of the best κ: what a shorter τ must have at least. Behind one bucket a half was the least seen."""
MIN_EXPECTED = 3.0
"""Standard deviations by which one bucket would have to stand out for its absence to say something."""
MIN_LOSSES = 15
HEADERS_BYTES = 66


@dataclass(frozen=True)
class MemoryResult:
    """The verdict; `kappa` is the excess at the best scale `tau_us`.

    `p` is the rank of its statistic `z` among the moved series, `expected_z` what one bucket (κ = 0.5) would
    give, `lag_us` where both clocks agree best.
    """

    verdict: Literal["shared", "separate", "insufficient_loss"]
    reason: str
    p: float | None = None
    kappa: float | None = None
    z: float | None = None
    expected_z: float | None = None
    tau_us: float | None = None
    lag_us: float | None = None

    def detail(self) -> dict[str, object]:
        """All numbers behind the verdict, ready for JSON."""
        values = asdict(self)
        del values["verdict"], values["reason"]
        return values


@dataclass(frozen=True)
class _Sums:
    """Over the packets of both directions, per scale: Σ x (y − p), Σ x² p (1 − p), Σ x²; x = m (1 − p)."""

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
class _Flow:
    time_s: Floats
    drops_s: Floats
    excess: Floats
    local: Floats


def frame_memory(a: FlowEvents, b: FlowEvents) -> MemoryResult:
    """Are two flows behind the same bucket? See the module's text."""
    losses = min(int(np.count_nonzero(a.lost)), int(np.count_nonzero(b.lost)))
    if losses < MIN_LOSSES:
        return MemoryResult(
            "insufficient_loss", f"{losses} losses in one of the flows; {MIN_LOSSES} are needed"
        )
    start, end = max(a.sent_ns.min(), b.sent_ns.min()), min(a.sent_ns.max(), b.sent_ns.max())
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    if end - start < 20 * rtt_ns:
        return MemoryResult("insufficient_loss", "the flows ran together for less than 20 RTTs")
    one, other = (_prepare(flow, int(start), int(end), rtt_ns) for flow in (a, b))
    largest_s, scan_s = (
        _largest_tau(a, b, int(start), int(end)),
        max(a.clock_error_ns, b.clock_error_ns) / 1e9,
    )
    # Short ones only where nothing has to be scanned for them.
    shorts = [scale for scale in SHORT if scan_s <= 0 and scale * largest_s >= SHORTEST_S]
    lags = _lags(scan_s, FINE[0] * largest_s)
    test = _Test(
        one, other, largest_s * np.array([*shorts, *FINE]), len(shorts), MIN_KAPPA, lags, rtt_ns / 1e9
    )
    fine = test.judged(slice(len(shorts), None))
    found = [fine, test.judged(slice(0, len(shorts)))] if shorts else [fine]
    for judged in found:
        if judged.large and judged.p < ALPHA:
            if test.comes_late(judged):
                why = "more excess later than at once, which no bucket makes: "
                return test.result("insufficient_loss", judged, why)
            return test.result("shared", judged)
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    precise = jitter_ns / 1e9 <= USUAL * largest_s / 2
    usual = len(shorts) + FINE.index(USUAL)
    if test.expected_z[usual] >= MIN_EXPECTED and precise:
        for judged in found:
            if judged.large:
                # As large as one bucket's, and chance may have made it: that is evidence for neither.
                why = "too much for two buckets, too little to exclude chance: "
                return test.result("insufficient_loss", judged, why)
        if test.expected_z[0] < MIN_EXPECTED:
            why = "too few packets at once to exclude a bucket of many more flows; "
            return test.result("insufficient_loss", fine, why)
        return test.result("separate", fine)
    rough = _Test(one, other, largest_s * np.array(COARSE), 0, MIN_KAPPA_COARSE, lags, rtt_ns / 1e9)
    coarse = rough.judged(slice(None))
    if coarse.large and coarse.p < ALPHA:
        return rough.result("shared", coarse)
    why = "too few packets soon after the other flow's drops; "
    if not precise:
        why = f"times are wrong by about {jitter_ns / 1e3:.0f} µs: too coarse; "
    return test.result("insufficient_loss", fine, why)


@dataclass(frozen=True)
class _Judged:
    """The best of some τ at the best lag; whether its κ is `large` enough to mean something."""

    large: bool
    p: float
    lag: int
    tau: int


class _Test:
    """The statistics of some τ, at each lag of the clocks, and of the moved series."""

    def __init__(
        self,
        one: _Flow,
        other: _Flow,
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
        self._moved = np.array(
            [
                np.max([self._ranked(_sums(one, other, float(move + lag), tau)) for lag in lags], axis=0)
                for move in _moves(float(tau[-1]), lags, rtt_s)
            ]
        )

    @property
    def expected_z(self) -> Floats:
        """What half of one bucket's effect would give, per τ."""
        sums = self._own[0]
        result: Floats = 0.5 * sums.weight / np.sqrt(np.maximum(sums.variance, 1e-12))
        return result

    def _ranked(self, sums: _Sums) -> Floats:
        """z; of short τ −∞ where κ says nothing, as chance has more of them to choose from."""
        idle = (sums.kappa < self._least) & (np.arange(len(self.tau)) < self._shorts)
        return np.where(idle, -np.inf, sums.z)

    def judged(self, which: slice) -> _Judged:
        z = np.array([self._ranked(sums) for sums in self._own])[:, which]
        others = self._moved[:, which].max(axis=1)
        lag, tau = (int(index) for index in np.unravel_index(np.argmax(z), z.shape))
        tau += which.start or 0
        return _Judged(
            large=bool(self._own[lag].kappa[tau] >= self._least[tau]),
            p=float((1 + np.count_nonzero(others >= z.max())) / (1 + len(others))),
            lag=lag,
            tau=tau,
        )

    def comes_late(self, judged: _Judged) -> bool:
        """Whether a shorter τ has too little κ: the risk is highest at once, so κ can only fall with τ."""
        kappa = self._own[judged.lag].kappa
        seen = self.expected_z >= MIN_EXPECTED / 2  # a whole bucket's effect by MIN_EXPECTED deviations
        return bool(np.any((kappa < LATE * kappa[judged.tau])[: judged.tau] & seen[: judged.tau]))

    def result(
        self, verdict: Literal["shared", "separate", "insufficient_loss"], judged: _Judged, why: str = ""
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


def _largest_tau(a: FlowEvents, b: FlowEvents, start: int, end: int) -> float:
    """Frame ÷ (rate that both got through), in seconds."""
    passed = 0.0
    for flow in (a, b):
        inside = (flow.sent_ns >= start) & (flow.sent_ns <= end) & ~flow.lost
        passed += float(np.sum(flow.size_bytes[inside] + HEADERS_BYTES))
    frame = float(max(a.size_bytes.max(), b.size_bytes.max())) + HEADERS_BYTES
    return frame * (end - start) / 1e9 / max(passed, frame)


def _prepare(flow: FlowEvents, start: int, end: int, rtt_ns: int) -> _Flow:
    order = np.argsort(flow.sent_ns, kind="stable")  # a fit of clocks may change the order within its error
    order = order[(flow.sent_ns[order] >= start) & (flow.sent_ns[order] <= end)]
    time_s, lost = (flow.sent_ns[order] - start) / 1e9, flow.lost[order]
    half = WINDOW_RTTS * rtt_ns / 1e9
    low, high = np.searchsorted(time_s, time_s - half), np.searchsorted(time_s, time_s + half, side="right")
    count = np.concatenate([[0], np.cumsum(lost)])
    local = np.clip((count[high] - count[low]) / (high - low), 1e-4, 1 - 1e-4)
    return _Flow(time_s, time_s[lost], lost - local, local)


def _sums(one: _Flow, other: _Flow, lag: float, tau: Floats) -> _Sums:
    """Both directions, with the first flow's clock moved forward by `lag` seconds."""
    parts = [_direction(one.drops_s + lag, other, tau), _direction(other.drops_s - lag, one, tau)]
    score, variance, weight = (parts[0][i] + parts[1][i] for i in range(3))
    return _Sums(score, variance, weight)


def _direction(drops: Floats, flow: _Flow, tau: Floats) -> tuple[Floats, Floats, Floats]:
    # Packets within the largest τ after a drop and before the next one, drop by drop.
    first = np.searchsorted(flow.time_s, drops)
    until = np.minimum(drops + tau[-1], np.append(drops[1:], np.inf))
    count = np.searchsorted(flow.time_s, until) - first
    near = np.repeat(first - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
    age = flow.time_s[near] - np.repeat(drops, count)
    share = 1 - flow.local[near]
    x = np.maximum(0.0, 1 - age[None, :] / tau[:, None]) * share
    square = x * x
    return x @ flow.excess[near], square @ (flow.local[near] * share), square.sum(axis=1)


def _lags(error_s: float, step_s: float) -> Floats:
    """Moves of the clocks to try: none, or all within their error."""
    if error_s <= 0:
        return np.zeros(1)
    half = min(int(np.ceil(error_s / step_s)), MAX_LAGS)
    lags: Floats = step_s * np.arange(-half, half + 1, dtype=np.float64)
    return lags


def _moves(longest_s: float, lags: Floats, rtt_s: float) -> Floats:
    """By how much to move drops: by more than the memory and the clocks' error, but not far."""
    width = float(lags[-1] - lags[0])
    count = MOVES if len(lags) == 1 else MOVES_OF_SCANS
    step = max((2 * rtt_s) / (count / 2), longest_s / 4, width)
    one_way = 2 * longest_s + width + step * np.arange(count // 2 + 1)
    result: Floats = np.concatenate([one_way, -one_way])[:count]
    return result
