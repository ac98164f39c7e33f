# SPDX-License-Identifier: Apache-2.0
"""Two measured flows over a path whose properties are all drawn at once, for the benchmark of detectors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.jitter import jitter_of
from weir.analysis.synthetic.bottleneck import FRAME, Bottleneck, Control, Sender, simulate
from weir.analysis.synthetic.scenarios import Truth, events_of

LEAST_BURST_FRAMES = 4
FRONT_BUFFER_S = 0.1
CONTROLS: dict[str, tuple[Control, Control]] = {
    "BBR": ("bbr", "bbr"),
    "CUBIC": ("cubic", "cubic"),
    "both": ("bbr", "cubic"),
}


@dataclass(frozen=True)
class PathFactors:
    """What may matter to a detector. `rate_mbps` is of all policers together; each of two has half of it.

    `load` is what the second flow has to send: `bulk`; `limited` to `limit_mbps`; or with `pauses`.
    `cross_traffic` is the limits of the other flows together ÷ the rate. `front` is the rate of a common
    queue of 100 ms before the policers ÷ their rate, 0 without one. `loss_percent` is lost at random there.
    """

    control: str
    rate_mbps: float
    burst_ms: float
    rtt_ms: float
    rtt_ratio: float
    start_apart_s: float
    load: str
    limit_mbps: float
    other_flows: int
    cross_traffic: float
    front: float
    loss_percent: float

    def to_json(self) -> dict[str, str | float | int]:
        """By name, in the order of the fields."""
        return asdict(self)


def path_truth(seed: int) -> Truth:
    """Even seeds share a policer."""
    return "separate" if seed % 2 else "shared"


def draw_factors(seed: int) -> PathFactors:
    """The properties of a path; those of an even seed and of the next are the same, only the truth is not.

    Half of the pairs start together, have one RTT, no random loss, and bulk data in both flows; two thirds
    have no queue in front. Continuous properties are log-uniform.
    """
    rng = np.random.default_rng([seed // 2, *b"path"])

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def half() -> bool:
        return bool(rng.random() < 0.5)

    rate = between(4, 100)
    load = "bulk" if half() else ("limited" if half() else "pauses")
    # A flow that sends little loses something only where others use up its policer.
    others = int(rng.choice([0, 2, 4, 8] if load == "bulk" else [2, 4, 8]))
    cross = between(0.1, 0.6) if load == "bulk" else between(0.8, 1.2)
    return PathFactors(
        control=str(rng.choice(list(CONTROLS))),
        rate_mbps=rate,
        burst_ms=between(2, 100),
        rtt_ms=between(10, 100),
        rtt_ratio=1.0 if half() else between(1.05, 4),
        start_apart_s=0.0 if half() else float(rng.uniform(0.05, 2)),
        load=load,
        limit_mbps=max(0.1, rate * between(0.01, 0.2)) if load == "limited" else rate * between(0.5, 1),
        other_flows=others,
        cross_traffic=cross if others else 0.0,
        front=between(1.1, 2) if rng.random() < 1 / 3 else 0.0,
        loss_percent=0.0 if half() else between(0.01, 1),
    )


def simulate_path(
    factors: PathFactors, truth: Truth, seed: int, seconds: float
) -> tuple[FlowEvents, FlowEvents]:
    """The two flows as their senders see them; the same seed gives the same packets."""
    rng = np.random.default_rng([seed, *b"packets"])
    sides = 1 if truth == "shared" else 2
    rate = factors.rate_mbps * 1e6 / sides
    burst = max(rate / 8 * factors.burst_ms / 1e3, LEAST_BURST_FRAMES * FRAME)
    loss = factors.loss_percent / 100
    policers = [Bottleneck("policer", rate, burst, loss) for _ in range(sides)]
    measured = [_measured(factors, side, side % sides, rng) for side in range(2)]
    others = [_other(factors, number, number % 2 % sides, rng) for number in range(factors.other_flows)]
    front = None
    if factors.front:
        passed = factors.rate_mbps * 1e6 * factors.front
        front = Bottleneck("shaper", passed, passed / 8 * FRONT_BUFFER_S)
    simulate([*measured, *others], policers, seconds, rng, front)
    first, second = (events_of(sender) for sender in measured)
    if front is None:
        return first, second
    return _with_jitter_seen(first), _with_jitter_seen(second)


def _measured(factors: PathFactors, side: int, policer: int, rng: np.random.Generator) -> Sender:
    bulk = factors.rate_mbps * max(0.5, factors.limit_mbps / factors.rate_mbps)
    limit = factors.limit_mbps if side and factors.load == "limited" else bulk
    # The clocks of two hosts are never quite the same, nor are the lengths of two paths.
    rtt = factors.rtt_ms / 1e3 * (factors.rtt_ratio if side else 1) * float(rng.uniform(0.99, 1.01))
    pauses = (2.0, 1.0) if side and factors.load == "pauses" else (0.0, 0.0)
    return Sender(
        CONTROLS[factors.control][side], policer, rtt, side * factors.start_apart_s, limit * 1e6, *pauses
    )


def _other(factors: PathFactors, number: int, policer: int, rng: np.random.Generator) -> Sender:
    """CUBIC and on-off flows in turn, as many of each in every policer."""
    limit = factors.rate_mbps * 1e6 * factors.cross_traffic / factors.other_flows
    control: Control = "onoff" if number // 2 % 2 else "cubic"
    return Sender(
        control, policer, float(rng.uniform(0.01, 0.05)), float(rng.uniform(0, 0.5)), limit_bps=limit
    )


def _with_jitter_seen(flow: FlowEvents) -> FlowEvents:
    return replace(flow, jitter_ns=jitter_of(flow.rtt_sent_ns, flow.rtt_ns))
