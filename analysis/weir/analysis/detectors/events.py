# SPDX-License-Identifier: Apache-2.0
"""The input of detectors of pairs: a flow's packets, which of them were lost, and RTTs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from weir.analysis.tables import Bools, Ints
from weir.rundir.plural import plural

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def statistics_of(result: DataclassInstance) -> dict[str, Any]:
    """All fields of a detector's result but verdict and reason, ready for JSON."""
    return {name: value for name, value in asdict(result).items() if name not in ("verdict", "reason")}


SLOW_START_S = 1.0
"""After a start flows lose together for a time, behind two policers, too, if they started together."""


def after_start(a: FlowEvents, b: FlowEvents) -> tuple[int, int]:
    """While both flows ran, ns; without the first `SLOW_START_S`, at most a tenth, after the later start."""
    start_ns = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
    end_ns = min(int(a.sent_ns.max()), int(b.sent_ns.max()))
    return start_ns + min(int(SLOW_START_S * 1e9), max(end_ns - start_ns, 0) // 10), end_ns


def few_losses(one: Bools, other: Bools, needed: int) -> str:
    """Why the flows have too few losses; empty if each has as many as are needed."""
    losses = min(int(np.count_nonzero(lost)) for lost in (one, other))
    few = f"{plural(losses, 'loss', 'losses')} in one of the flows; {needed} are needed"
    return few if losses < needed else ""


def lost_after_start(a: FlowEvents, b: FlowEvents) -> tuple[Bools, Bools]:
    """Which packets of each flow were lost, of those sent while both ran, after the start."""
    start_ns, end_ns = after_start(a, b)
    one, other = (flow.lost[(flow.sent_ns >= start_ns) & (flow.sent_ns <= end_ns)] for flow in (a, b))
    return one, other


def few_after_start(a: FlowEvents, b: FlowEvents, needed: int) -> str:
    """Why the flows have too few losses while both run, after the start; empty if each has enough."""
    few = few_losses(*lost_after_start(a, b), needed)
    return few and f"while both flows ran, {few}"


@dataclass(frozen=True)
class FlowEvents:
    """Data packets of one flow in order of sending, arrays of one length.

    `sent_ns` is on one clock for both flows of a pair, up to a constant of at most `clock_error_ns`;
    `jitter_ns` is the standard error of a single time. `size_bytes` is the payload, `min_rtt_ns` the flow's
    smallest RTT. `behind_policer`: captured after the losses, where the same host may delay both flows. RTT
    samples are optional, with the times at which the sampled packets were sent.
    """

    sent_ns: Ints
    size_bytes: Ints
    lost: Bools
    min_rtt_ns: int
    clock_error_ns: int = 0
    jitter_ns: int = 0
    rtt_sent_ns: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rtt_ns: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    behind_policer: bool = False

    def __post_init__(self) -> None:
        """Refuse input that would give a wrong answer silently."""
        if not len(self.sent_ns) == len(self.size_bytes) == len(self.lost):
            raise ValueError(
                f"{len(self.sent_ns)} times, {len(self.size_bytes)} sizes and {len(self.lost)} loss flags; "
                "each packet needs one of each"
            )
        if self.min_rtt_ns <= 0:
            raise ValueError(f"minimum RTT of {self.min_rtt_ns} ns; it must be positive")

    @cached_property
    def totals(self) -> tuple[Ints, Ints, Ints]:
        """Packets by time: these times, and the bytes sent and lost before each and in all.

        Conversion to another clock may have changed their order.
        """
        order = np.argsort(self.sent_ns, kind="stable")
        sizes, lost = self.size_bytes[order], self.lost[order]
        return self.sent_ns[order], _sums(sizes), _sums(sizes * lost)

    @cached_property
    def delays(self) -> tuple[Ints, Ints]:
        """RTT samples by the time of sending: these times, and the sum of the delays before each and in all.

        A sample's delay is what it is above the smallest RTT.
        """
        order = np.argsort(self.rtt_sent_ns, kind="stable")
        return self.rtt_sent_ns[order], _sums(self.rtt_ns[order] - self.min_rtt_ns)


def _sums(values: Ints) -> Ints:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values, dtype=np.int64)])
