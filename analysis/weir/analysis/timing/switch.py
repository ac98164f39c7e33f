# SPDX-License-Identifier: Apache-2.0
"""The switch's clock: when it was set, as at a restart, by the packets that it reported.

Only packets to the switch are stamped by it, so a step and a delay of all packets look alike. A switch that
is late for a while is not taken for a clock that was set: only a lasting and large step is.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.tables import Ints
from weir.analysis.timing.bounds import NOTHING, Side
from weir.analysis.timing.moved import Step
from weir.analysis.timing.track import fit_track

LEAST_SWITCH_STEP_NS = 5_000_000
AROUND_NS, LEVEL_NS = 500_000_000, 5_000_000_000
"""A step is found to so much, and the difference of the clocks before it is that of so long."""
LEAST_STAMPS = 32
"""Fewer reports do not tell a step from chance."""


def switch_steps(sent_ns: Ints, switch_ns: Ints) -> tuple[Step, ...]:
    """The steps of the switch's clock, from the times of sending of reported packets, on the run's clock."""
    if len(sent_ns) < LEAST_STAMPS:
        return ()
    origin, base = int(sent_ns.min()), int(switch_ns[0] - sent_ns[0])
    side = Side((sent_ns - origin).astype(np.float64), (switch_ns - sent_ns - base).astype(np.float64))
    steps = fit_track(side, NOTHING).steps
    return tuple(
        Step(origin + round(at), round(size)) for at, size in steps if abs(size) >= LEAST_SWITCH_STEP_NS
    )


def without_steps(steps: tuple[Step, ...], sent_ns: Ints, switch_ns: Ints) -> Ints:
    """The switch's times as if its clock had not been set."""
    steady = switch_ns
    for step in steps:
        after = sent_ns >= step.at_ns
        # Whether a packet of that moment came before or after is shown by its own time.
        before = (sent_ns >= step.at_ns - AROUND_NS - LEVEL_NS) & (sent_ns < step.at_ns - AROUND_NS)
        if np.any(before):
            near = np.abs(sent_ns - step.at_ns) < AROUND_NS
            ahead = steady - sent_ns - int(np.median((steady - sent_ns)[before]))
            after = np.where(near, np.abs(ahead - step.size_ns) < np.abs(ahead), after)
        steady = np.asarray(steady - step.size_ns * after, dtype=np.int64)
    return steady
