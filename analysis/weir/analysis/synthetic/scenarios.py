# SPDX-License-Identifier: Apache-2.0
"""Scenarios of two measured flows with known truth, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.synthetic.bottleneck import PAYLOAD, Bottleneck, Control, Sender, simulate
from weir.analysis.synthetic.series import modulated_pair

Truth = Literal["shared", "separate"]


@dataclass(frozen=True)
class Scenario:
    """The bottlenecks of two flows; `truth` is the verdict that a detector should give."""

    name: str
    truth: Truth
    make: Callable[[np.random.Generator, float], tuple[FlowEvents, FlowEvents]]


def generate(scenario: Scenario, seed: int, seconds: float = 20.0) -> tuple[FlowEvents, FlowEvents]:
    """The two flows of a scenario; the same seed gives the same packets."""
    return scenario.make(np.random.default_rng([seed, *scenario.name.encode()]), seconds)


def events_of(sender: Sender) -> FlowEvents:
    """A simulated flow as input of detectors, with the times at which packets left the sender."""
    order = np.argsort(sender.sent(), kind="stable")
    at = (sender.sent()[order] * 1e9).astype(np.int64)
    return FlowEvents(
        sent_ns=at,
        size_bytes=np.full(len(at), PAYLOAD, dtype=np.int64),
        lost=sender.losses()[order],
        min_rtt_ns=int((min(sender.rtts_s) if sender.rtts_s else sender.rtt_s) * 1e9),
        rtt_sent_ns=(np.array(sender.rtt_sent_s) * 1e9).astype(np.int64),
        rtt_ns=(np.array(sender.rtts_s) * 1e9).astype(np.int64),
    )


def policed(
    control: Control, *, shared: bool, rtts_s: tuple[float, float] = (0.02, 0.02)
) -> Callable[[np.random.Generator, float], tuple[FlowEvents, FlowEvents]]:
    """Two policed flows of 25 Mbit/s that start together, each with a CUBIC and an on-off flow in its bucket.

    Shared: one bucket of 40 Mbit/s; separate: one of 20 each. Bursts are 20 ms of the rate, rates vary by
    10 %.
    """

    def make(rng: np.random.Generator, seconds: float) -> tuple[FlowEvents, FlowEvents]:
        rates = (40e6 if shared else 20e6) * rng.uniform(0.9, 1.1, 1 if shared else 2)
        bottlenecks = [Bottleneck("policer", float(rate), float(rate) / 8 * 0.02) for rate in rates]
        senders = []
        for side in range(2):
            index = 0 if shared else side
            senders += [
                Sender(control, index, rtts_s[side] * float(rng.uniform(0.98, 1.02))),
                Sender("cubic", index, float(rng.uniform(0.01, 0.05)), limit_bps=6e6),
                Sender("onoff", index, start_s=float(rng.uniform(0, 0.5)), limit_bps=6e6),
            ]
        simulate(senders, bottlenecks, seconds, rng)
        return events_of(senders[0]), events_of(senders[3])

    return make


def unpoliced(rng: np.random.Generator, seconds: float) -> tuple[FlowEvents, FlowEvents]:
    """Two CUBIC flows on separate links that lose 1 % at random."""
    senders = [Sender("cubic", side) for side in range(2)]
    simulate(senders, [Bottleneck("lossy", loss=0.01) for _ in range(2)], seconds, rng)
    return events_of(senders[0]), events_of(senders[1])


def shaped(*, shared: bool) -> Callable[[np.random.Generator, float], tuple[FlowEvents, FlowEvents]]:
    """Two CUBIC flows through one drop-tail queue of 30 Mbit/s and 30 ms, or one of 15 Mbit/s each."""

    def make(rng: np.random.Generator, seconds: float) -> tuple[FlowEvents, FlowEvents]:
        rates = (30e6 if shared else 15e6) * rng.uniform(0.9, 1.1, 1 if shared else 2)
        bottlenecks = [Bottleneck("shaper", float(rate), float(rate) / 8 * 0.03) for rate in rates]
        senders = [Sender("cubic", 0 if shared else side) for side in range(2)]
        simulate(senders, bottlenecks, seconds, rng)
        return events_of(senders[0]), events_of(senders[1])

    return make


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("cubic-shared", "shared", policed("cubic", shared=True)),
        Scenario("cubic-separate", "separate", policed("cubic", shared=False)),
        Scenario("bbr-shared", "shared", policed("bbr", shared=True)),
        Scenario("bbr-separate", "separate", policed("bbr", shared=False)),
        Scenario("cubic-shared-rtts", "shared", policed("cubic", shared=True, rtts_s=(0.02, 0.05))),
        Scenario("bbr-separate-rtts", "separate", policed("bbr", shared=False, rtts_s=(0.02, 0.05))),
        Scenario("shaped-shared", "shared", shaped(shared=True)),
        Scenario("shaped-separate", "separate", shaped(shared=False)),
        Scenario("random-loss", "separate", unpoliced),
        Scenario("modulated-separate", "separate", modulated_pair),
    )
}
"""Scenarios by the name that `weir evaluate` takes."""
