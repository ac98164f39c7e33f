# SPDX-License-Identifier: Apache-2.0
"""Do two flows wait in the same queue, where packets are lost when it is full?

A shaper, or a policer with a queue (tc-tbf(8)), delays all its flows alike, and drops when the queue is
full: both flows' RTTs rise and fall together, and a flow loses packets when the other one's RTTs are long.
With d the RTTs in a bin above their mean within `WINDOW_S`, and e the losses above those expected
(`loss_rates.py`), each of

    Σ d_i d_j w,    Σ d_i e_j w,    Σ e_i d_j w,    w = exp(−|t_i − t_j| ÷ COUPLED_S),

i of one flow and j of the other, is compared with its values where the other flow is 0.25 to 1 s later; z is
the sum of the three, in standard deviations, ÷ √3.

Half of 180 pairs behind one policer with a queue of one burst have a z of 12 and more with jitter of 1 ms,
and of 5 with 10 ms (in 40 and 50 Mbit/s 3.2 and 0.8). Of 180 behind two 95 % have less than 3.6 and 2.7
(`wehey-bbr-queue`, seeds 21 to 29). But two BBR flows that started together drain two queues at the same
moments, and had a z of 33; so z decides nothing alone, and is weighed with the other tests (`weigh.py`).
Without a queue a flow's RTTs are longer when it lost packets, as receivers delay the ACKs of holes (SACK
compression of Linux): half of the pairs behind one policer have a z of 9 at exact times then, and of 1.3 with
1 ms. A queue in front of two policers makes z large as well: half of 35 such pairs have 4.0 and more at exact
times and 1.2 with 1 ms, of 75 pairs without such a queue 0.1 and −0.3 (paths whose seeds may set thresholds).
"""

from __future__ import annotations

import numpy as np

from weir.analysis.detectors.binned import near
from weir.analysis.detectors.events import FlowEvents
from weir.analysis.detectors.loss_rates import BIN_S, common_bins, coupling_z, excess_losses
from weir.analysis.tables import Floats

WINDOW_S, COUPLED_S = 0.25, 0.01
LARGEST_PERCENT = 99.0
"""RTTs above this percentile of the flow's, as delayed ACKs make them, are cut to it."""
MIN_SAMPLES = 50


def queue_delays_z(a: FlowEvents, b: FlowEvents) -> float | None:
    """z of a common queue; None with fewer than 50 RTTs of a flow, or together for less than 4 s."""
    bins = common_bins(a, b)
    if bins is None or min(len(flow.rtt_ns) for flow in (a, b)) < MIN_SAMPLES:
        return None
    losses, other_losses = (excess_losses(flow, *bins) for flow in (a, b))
    delays, other_delays = (_excess_delays(flow, *bins) for flow in (a, b))
    pairs = (delays, other_delays), (delays, other_losses), (losses, other_delays)
    return float(sum(coupling_z(one, other, COUPLED_S) for one, other in pairs) / np.sqrt(len(pairs)))


def _excess_delays(flow: FlowEvents, start_ns: int, count: int) -> Floats:
    """The sum of the RTTs of packets sent in each of `count` bins, less as many usual ones; ms."""
    rtt_ms = np.minimum(flow.rtt_ns, np.percentile(flow.rtt_ns, LARGEST_PERCENT)) / 1e6
    which = (flow.rtt_sent_ns - start_ns) // int(BIN_S * 1e9)
    inside = (which >= 0) & (which < count)
    samples = np.bincount(which[inside], minlength=count)
    total = np.bincount(which[inside], rtt_ms[inside] - rtt_ms.mean(), minlength=count)
    half = round(WINDOW_S / 2 / BIN_S)
    result: Floats = total - near(total, half) / np.maximum(near(samples, half), 1) * samples
    return result
