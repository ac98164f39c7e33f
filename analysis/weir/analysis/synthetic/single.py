# SPDX-License-Identifier: Apache-2.0
"""Flows with a known policer, queue or random loss, for detectors of policing, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from weir.analysis.synthetic.bottleneck import FRAME, PAYLOAD, Bottleneck, Control, Sender, simulate
from weir.analysis.synthetic.path import relative_delays
from weir.analysis.traces import FlowTrace

SingleKind = Literal[
    "policed",
    "policed-two",
    "policed-cross",
    "policed-limited-cross",
    "shaped",
    "shaped-cross",
    "shaped-shallow",
    "random-loss",
]
SINGLE_KINDS: tuple[SingleKind, ...] = get_args(SingleKind)
"""`-two` and `-cross` have two flows; of `-cross` the capture has only the first."""


@dataclass(frozen=True)
class SingleTruth:
    """One flow, or two in one policer; rate and burst are the policer's, None without one."""

    flows: tuple[FlowTrace, ...]
    rate_bps: float | None
    burst_bytes: float | None


def draw_single(kind: SingleKind, seed: int, seconds: float = 20.0, jitter_s: float = 0.0) -> SingleTruth:
    """Draw a flow: CUBIC or BBR, RTT 20 to 100 ms, 0.5 to 8 Mbit/s; the same seed gives the same packets.

    Applications limit the flows of `-limited-` to 1.05 to 1.6 times the rate together, the first to 0.3 to
    0.8.
    Policers have a burst of 8 to 400 kB, shapers a queue of 50 to 200 ms, shallow ones of 2 to 6
    frames at up to 20 Mbit/s; random loss is 0.5 to 3 %. The
    times of the capture have independent errors with a standard deviation of 10 to 200 µs; with `jitter_s`,
    packets were sent earlier than they met the bottleneck, on average by that (`path.py`).
    """
    rng = np.random.default_rng([seed, *kind.encode()])
    rate = float(np.exp(rng.uniform(np.log(0.5e6), np.log(8e6))))
    burst = float(np.exp(rng.uniform(np.log(8e3), np.log(4e5))))
    if kind in ("shaped", "shaped-cross"):
        bottleneck = Bottleneck("shaper", rate, rate / 8 * float(rng.uniform(0.05, 0.2)) + FRAME)
    elif kind == "shaped-shallow":
        rate *= 2.5
        bottleneck = Bottleneck("shaper", rate, FRAME * float(rng.integers(2, 7)))
    elif kind == "random-loss":
        bottleneck = Bottleneck("lossy", loss=float(rng.uniform(0.005, 0.03)))
    else:
        bottleneck = Bottleneck("policer", rate, burst)
    limits_bps = [rate if kind == "random-loss" else 50e6] * 2
    if kind == "policed-limited-cross":
        first, both = float(rng.uniform(0.3, 0.8)), float(rng.uniform(1.05, 1.6))
        limits_bps = [rate * first, rate * (both - first)]
    controls: tuple[Control, ...] = ("cubic", "bbr")
    senders = [
        Sender(
            controls[int(rng.integers(2))],
            0,
            float(rng.uniform(0.02, 0.1)),
            float(rng.uniform(0, 0.5)),
            limit_bps=limits_bps[number],
        )
        for number in range(2 if kind.endswith(("-two", "-cross")) else 1)
    ]
    simulate(senders, [bottleneck], seconds, rng)
    policer = bottleneck.kind == "policer"
    error_s = float(np.exp(rng.uniform(np.log(1e-5), np.log(2e-4))))
    flows = tuple(
        _trace(sender, 40000 + number, error_s, rng, jitter_s)
        for number, sender in enumerate(senders[:1] if kind.endswith("-cross") else senders)
    )
    return SingleTruth(flows, rate if policer else None, burst if policer else None)


def _trace(sender: Sender, port: int, error_s: float, rng: np.random.Generator, jitter_s: float) -> FlowTrace:
    seen = sender.times() + rng.normal(0, error_s, len(sender.times()))
    met = np.argsort(sender.times(), kind="stable")
    if jitter_s > 0:
        seen[met] = np.sort(
            seen[met] - jitter_s * relative_delays((sender.times()[met] * 1e9).astype(np.int64), rng)
        )
    order = np.argsort(seen, kind="stable")
    count = len(order)
    # An RTT is measured from the captured time of its packet.
    sent = np.array(sender.rtt_sent_s)
    late = seen[met][np.searchsorted(sender.times()[met], sent)] - sent
    return FlowTrace(
        src="10.0.0.2",
        dst="10.0.0.1",
        src_port=port,
        dst_port=5201,
        time_ns=(seen[order] * 1e9).astype(np.int64),
        frame_bytes=np.full(count, FRAME, dtype=np.int64),
        payload_bytes=np.full(count, PAYLOAD, dtype=np.int64),
        seq=PAYLOAD * np.arange(count, dtype=np.int64),
        lost=sender.losses()[order],
        rtt_sent_ns=((sent + late) * 1e9).astype(np.int64),
        rtt_ns=((np.array(sender.rtts_s) - late) * 1e9).astype(np.int64),
        request_ns=np.empty(0, dtype=np.int64),
        from_start=True,
    )
