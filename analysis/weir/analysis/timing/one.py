# SPDX-License-Identifier: Apache-2.0
"""Whether the packets between hosts allow that all have one clock, as the hosts of one machine do.

On a busy machine packets wait for a processor, in one direction or in both. Such delays look like drift and
steps. But between two times of one clock no packet arrives before it was sent, however busy the machine is.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.timing.hosts import Exchanges, Stamps

SAME_NS, LARGEST_SAME_NS = 50_000, 1_000_000
"""With one clock, packets arrive at most so much too early, and the difference varies by at most so much."""


def one_clock(exchanges: Exchanges, root: str) -> dict[str, int]:
    """The largest difference of each connected host's clock from the root's, ns, if it does not change.

    Only of hosts with packets in both directions. Empty if a packet contradicts that the clocks are one. No
    hosts are connected by delays above `LARGEST_SAME_NS`, which allow too large a difference.
    """
    least_ns = {pair: _least_ns(packets) for pair, packets in exchanges.items() if len(packets)}
    if min(least_ns.values(), default=0) < -SAME_NS:
        return {}
    found, waiting = {root: 0}, [root]
    while waiting:
        near = waiting.pop(0)
        for (source, target), there_ns in least_ns.items():
            back_ns = least_ns.get((target, source))
            if source != near or target in found or back_ns is None:
                continue
            error_ns = max(there_ns, back_ns, SAME_NS)
            if error_ns <= LARGEST_SAME_NS:
                found[target] = found[near] + error_ns
                waiting.append(target)
    return found


def _least_ns(packets: Stamps) -> int:
    """The least delay beyond that of the links, ns."""
    return int(np.min(packets.received_ns - packets.sent_ns)) - packets.delay_ns
