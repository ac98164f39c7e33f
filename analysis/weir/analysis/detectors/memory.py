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
together), and smaller ones are tried. The null distribution is of the data: one flow's drops are moved
against the other by more than the memory and up to two RTTs, which keeps each flow's own pattern (bursts,
probing, sawteeth) and the slow trends that both may share, and breaks only what happens within a frame's
time. The largest statistic over the τ is ranked among the same of the moved series (as the jitter methods
for spike trains do).

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
SCALES = (0.35, 0.5, 0.7, 4.0, 8.0)
"""τ tried, in multiples of the largest that the flows' own rates permit."""
FINE, COARSE = slice(0, 3), slice(3, 5)
USUAL = 1
"""The scale by which it is judged how much could be seen: two measured flows in twice their rate."""
WINDOW_RTTS = 2.0
MIN_KAPPA, MIN_KAPPA_COARSE = 0.25, 0.15
"""Smaller excess is a rest of synchronisation. Fine scales: at most 0.2 behind two policers, simulated or
real; behind one at least 0.4 in simulations and 0.28 in runs of the switch. Coarse: 0.05 and 0.2."""
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
    tau = _largest_tau(a, b, int(start), int(end)) * np.array(SCALES)
    lags = _lags(max(a.clock_error_ns, b.clock_error_ns) / 1e9, float(tau[0]))
    own = [_sums(one, other, float(lag), tau) for lag in lags]
    moved = _moved(one, other, tau, lags, rtt_ns / 1e9)
    fine = _judge(own, moved, FINE, tau, lags)
    jitter_ns = max(a.jitter_ns, b.jitter_ns)
    if fine.p < ALPHA and fine.kappa >= MIN_KAPPA:
        return fine.result("shared")
    precise = jitter_ns / 1e9 <= tau[USUAL] / 2
    if fine.expected_z >= MIN_EXPECTED and precise:
        if fine.kappa >= MIN_KAPPA:
            # As large as one bucket's, and chance may have made it: that is evidence for neither.
            return fine.result(
                "insufficient_loss", "too much for two buckets, too little to exclude chance: "
            )
        return fine.result("separate")
    coarse = _judge(own, moved, COARSE, tau, lags)
    if coarse.p < ALPHA and coarse.kappa >= MIN_KAPPA_COARSE:
        return coarse.result("shared")
    if not precise:
        return fine.result(
            "insufficient_loss", f"times are wrong by about {jitter_ns / 1e3:.0f} µs: too coarse; "
        )
    return fine.result("insufficient_loss", "too few packets soon after the other flow's drops; ")


@dataclass(frozen=True)
class _Judged:
    """The best of some scales at the best lag."""

    p: float
    kappa: float
    z: float
    expected_z: float
    tau_s: float
    lag_s: float

    def result(
        self, verdict: Literal["shared", "separate", "insufficient_loss"], why: str = ""
    ) -> MemoryResult:
        reason = (
            f"{why}within {self.tau_s * 1e6:.0f} µs after the other's drops, excess loss is {self.kappa:.2f} "
            f"of what one bucket gives (p = {self.p:.3f})"
        )
        tau_us, lag_us = self.tau_s * 1e6, self.lag_s * 1e6
        return MemoryResult(verdict, reason, self.p, self.kappa, self.z, self.expected_z, tau_us, lag_us)


def _judge(own: list[_Sums], moved: Floats, which: slice, tau: Floats, lags: Floats) -> _Judged:
    at = int(np.argmax([sums.z[which].max() for sums in own]))
    best = own[at]
    scale = which.start + int(np.argmax(best.z[which]))
    z = float(best.z[scale])
    return _Judged(
        p=float((1 + np.count_nonzero(moved[:, which].max(axis=1) >= z)) / (1 + len(moved))),
        kappa=float(best.score[scale] / max(best.weight[scale], 1e-12)),
        z=z,
        expected_z=float(0.5 * best.weight[USUAL] / np.sqrt(max(best.variance[USUAL], 1e-12))),
        tau_s=float(tau[scale]),
        lag_s=float(lags[at]),
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


def _moved(one: _Flow, other: _Flow, tau: Floats, lags: Floats, rtt_s: float) -> Floats:
    """Per scale, the largest statistic of series moved by more than the memory and the clocks' error."""
    width = float(lags[-1] - lags[0])
    nearest = 2 * float(tau[-1]) + width
    moves = MOVES if len(lags) == 1 else MOVES_OF_SCANS
    step = max((2 * rtt_s) / (moves / 2), float(tau[-1]) / 4, width)
    count = moves // 2 + 1
    centres = nearest + step * np.arange(count)
    centres = np.concatenate([centres, -centres])[:moves]
    return np.array(
        [np.max([_sums(one, other, float(c + lag), tau).z for lag in lags], axis=0) for c in centres]
    )
