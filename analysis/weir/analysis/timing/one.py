# SPDX-License-Identifier: Apache-2.0
"""Whether the packets between hosts allow that all have one clock, as the hosts of one machine do.

On a busy machine packets wait for a processor, in one direction or in both. Such delays look like drift and
steps. But between two times of one clock no packet arrives before it was sent, however busy the machine is.
"""

from __future__ import annotations

import numpy as np

from weir.analysis.timing.hosts import Exchanges, Stamps

TOO_EARLY_NS = 50_000
"""With one clock, packets arrive at most so much too early."""
LARGEST_DELAY_NS = 1_000_000
"""If the least delay of a direction is larger, packets allow too large a difference of the two clocks."""


def one_clock(exchanges: Exchanges, root: str) -> dict[str, int]:
    """By how much each connected host's clock may differ from the root's at most, ns, if it does not change.

    None of the hosts without packets in both directions; empty if some packet contradicts that their clocks
    are one, or too long delays leave it open.
    """
    errors: dict[tuple[str, str], int] = {}
    for (source, target), packets in exchanges.items():
        back = exchanges.get((target, source))
        if back is None or not len(packets) or not len(back):
            continue
        least = (_least_ns(packets), _least_ns(back))
        if min(least) < -TOO_EARLY_NS:
            return {}
        errors[source, target] = max(*least, TOO_EARLY_NS)
    found, waiting = {root: 0}, [root]
    while waiting:
        near = waiting.pop(0)
        for (source, target), error in errors.items():
            if source == near and target not in found and error <= LARGEST_DELAY_NS:
                found[target] = found[near] + error
                waiting.append(target)
    return found


def _least_ns(packets: Stamps) -> int:
    """The least delay beyond that of the links, ns."""
    return int(np.min(packets.received_ns - packets.sent_ns)) - packets.delay_ns
